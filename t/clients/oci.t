# skopeo through the gateway, to a container registry of somebody's own: what pulls works, a push and a delete are refused.
# The registry sends clients to another host for a token, and that is where the placeholder is replaced.
#
#     prove t/clients/oci.t           KEEP=1: leave the directory with logs and outputs

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use Test::More;

my $lacks = Clients::lacks('skopeo', 'curl');
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

my ($HOST, $AUTH) = ('oci.example.test', 'auth.example.test');
my $g = Clients->start(
    services => { $HOST => 'oci', $AUTH => 'oci', 'objects.example.test' => 'store' },
    allow => ['objects.example.test'],
    bindings => <<'CONF',
    binding oci {
        host oci.example.test { include @PRESETS@/oci.conf; }
        host auth.example.test { include @PRESETS@/oci.conf; }
    }
CONF
);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my $image = "docker://$HOST/octo/app";
my @skopeo = ('skopeo', '--insecure-policy', '--tmpdir', "$dir/tmp");
my %env = (XDG_RUNTIME_DIR => "$dir/run", REGISTRY_AUTH_FILE => "$dir/home/none.json");
my @as = ('--creds', "user:$P");

# what comes from the registry was asked for with a token of its own, which is neither the secret nor the placeholder

sub skopeo {
    my ($args, %want) = @_;
    $g->reads("skopeo @$args[0 .. 1]", \%env, [@skopeo, @$args], own => qr/^Bearer short\./, %want);
}

my ($rc, $version) = $g->client({}, 'skopeo', '--version');
note($version =~ /(.*)/);

my $token = "GET $AUTH/token\\?account=user&scope=repository%3Aocto%2Fapp%3Apull&service=registry";

skopeo(['copy', '--src-creds', "user:$P", "$image:v1", "dir:$dir/work/image"], token => [$token],
    bare => ["GET $HOST/v2/\$", 'GET objects\.example\.test:\d+/blobs/sha256:[0-9a-f]{64}']);
is(scalar(() = glob "$dir/work/image/[0-9a-f]*"), 2, 'skopeo copy: the layer and the configuration are there');
ok((grep { $_->{authorization} =~ /^Bearer short\./ && $_->{uri} eq '/v2/octo/app/manifests/v1' } $g->seen),
    'skopeo copy: the manifest was asked for with the token for a few minutes');

skopeo(['inspect', @as, "$image:v1"], print => qr/"Architecture": "amd64"/, token => [$token]);
skopeo(['list-tags', @as, $image], print => qr/"v1"/, token => [$token]);

# a push asks for a token that may push

my $push = "$AUTH/token\\?.*scope=repository%3Aocto%2Fapp%3A(pull%2Cpush|push|delete|%2A)";
for my $case (
    ['copy', '--dest-creds', "user:$P", "dir:$dir/work/image", "$image:v2"],
    ['delete', @as, "$image:v1"],
) {
    $g->refused("skopeo $case->[0] to the registry: refused", \%env, [@skopeo, @$case], rc => 1, write => ["GET $push"],
        print => qr/403|write_refused|rule_refused|denied|Forbidden/);
}

# and with a token for a few minutes of whatever kind nothing but GET and HEAD arrives

for my $case (['POST', 'blobs/uploads/'], ['PUT', 'manifests/v2'], ['PATCH', 'blobs/uploads/1'], ['DELETE', 'manifests/v1']) {
    my ($method, $path) = @$case;
    $g->refused("$method $path: refused", {}, ['curl', '-q', '-sS', '-i', '--suppress-connect-headers', '-X', $method, '-H', 'Authorization: Bearer short.x',
        '-d', '{}', "https://$HOST/v2/octo/app/$path"], rc => 0, print => qr/^HTTP\/\S+ 403.*write_refused/s);
}

my @curl = ('curl', '-q', '-sS', '-i', '--suppress-connect-headers', '-u', "user:$P");
for my $scope ('repository:octo/app:pull,push', 'repository:octo/app:push', 'repository:octo/app:*', 'registry:catalog:*',
               'repository:octo/app:pull&scope=repository:octo/app:push', 'repository:octo/app:pull repository:octo/app:push',
               'repository:octo/app:pull%2Cpush', 'repository%3Aocto%2Fapp%3Apull%2Cpush', 'repository:octo/app:pull%20push') {
    (my $query = $scope) =~ s/ /%20/g;
    $g->refused("a token for $scope: refused", {}, [@curl, "https://$AUTH/token?service=registry&scope=$query"], rc => 0,
        write => ['.*'], print => qr/^HTTP\/\S+ 403/);
}
$g->refused('a token by POST: refused', {}, [@curl, '-d', 'grant_type=password&scope=repository:octo/app:push',
    "https://$AUTH/token"], rc => 0, print => qr/^HTTP\/\S+ 403/);

$g->finish;
done_testing();
