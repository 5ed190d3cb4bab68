# pip through the gateway, to an index of somebody's own: download works, an upload is refused. The stand-in's record
# decides: a read arrived with the real token, a write not at all.
#
#     prove t/clients/pip.t           KEEP=1: leave the directory with logs and outputs

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use MIME::Base64;
use Test::More;

my $lacks = Clients::lacks('curl');
plan skip_all => "needs $lacks" if $lacks;
my ($python) = grep { system("$_ -m pip --version >/dev/null 2>&1") == 0 } '/usr/bin/python3', 'python3';
plan skip_all => 'needs pip' unless $python;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

my $HOST = 'pypi.example.test';
my $FILES = 'files.example.test';
my $g = Clients->start(
    services => { $HOST => 'pypi', $FILES => 'pypi' },
    bindings => <<'CONF',
    binding pypi {
        host pypi.example.test { include @PRESETS@/pypi.conf; }
        host files.example.test { include @PRESETS@/pypi.conf; }
    }
CONF
);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my %env = (PIP_INDEX_URL => "https://user:$P\@$HOST/simple/", PIP_CACHE_DIR => "$dir/tmp/pip", PIP_CONFIG_FILE => '/dev/null',
    PIP_DISABLE_PIP_VERSION_CHECK => 1, PIP_RETRIES => 0);
my @pip = ($python, '-m', 'pip');

my ($rc, $version) = $g->client({}, @pip, '--version');
note($version =~ /(pip \S+)/);

$g->reads('pip download', \%env, [@pip, 'download', '--no-deps', '-d', "$dir/work/kit", 'kit'], print => qr/Saved \S+kit-2\.0/,
    token => ["GET $HOST/simple/kit/", "GET $HOST/packages/kit-2\\.0-py3-none-any\\.whl"]);
is($_->{authorization}, 'Basic ' . encode_base64("user:$g->{secret}", ''), "pip: $_->{uri}: the token, as a password")
    for $g->seen;
ok(-s "$dir/work/kit/kit-2.0-py3-none-any.whl", 'pip download: the file is there');

# The files of lefty are on another host, bound as well. pip sends its credentials to the index alone, and only a netrc
# tells it what the other wants.

Gateway::spew("$dir/home/.netrc", "machine $FILES login user password $P\n", 0600);
$g->reads('pip download with what it needs', \%env, [@pip, 'download', '-d', "$dir/work/all", 'kit'],
    token => ["GET $HOST/simple/lefty/", "GET $FILES/packages/lefty-1\\.1-py3-none-any\\.whl"]);
$g->reads('pip install', \%env, [@pip, 'install', '-q', '--target', "$dir/work/site", 'kit']);
($rc, my $out) = $g->client({ PYTHONPATH => "$dir/work/site" }, $python, '-c', 'import kit, lefty; print(kit.VERSION, lefty.VERSION)');
is($out, "2.0 1.1\n", 'pip install: both can be imported');
$g->reads('pip index versions', \%env, [@pip, 'index', 'versions', 'lefty'], print => qr/lefty \(1\.1\)/);

# pip cannot upload: curl sends what an upload sends

my @upload = ('curl', '-q', '-sS', '-i', '--suppress-connect-headers', '-u', "user:$P", '-F', ':action=file_upload', '-F', 'name=kit', '-F',
    "content=\@$dir/work/kit/kit-2.0-py3-none-any.whl");
for my $path ('/legacy/', '/simple/', '/') {
    $g->refused("an upload to $path: refused", {}, [@upload, "https://$HOST$path"], rc => 0, print => qr/^HTTP\/\S+ 403.*write_refused/s);
}
$g->refused('pip search, a POST: refused', \%env, [@pip, 'search', '-i', "https://user:$P\@$HOST/pypi", 'kit'], rc => 2,
    print => qr/403 Client Error: Forbidden for url/);

$g->finish;
done_testing();
