# What a sandbox file says of bindings: placeholders and repositories of its
# own, DESIGN 6.3, 6.5, 6.9; security T-01, H-07

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use JSON::PP;
use MIME::Base64;
use Stream;
use Test::More;

my $dir = Fixture::dir();
my $boxes = "$dir/sandboxes";
my $json = JSON::PP->new->utf8->canonical;
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $up = $ENV{TEST_NGINX_CLEAR_PORT};

mkdir $boxes;
chmod 0755, $boxes;

sub sandbox {
    my ($id, $fields) = @_;
    my $text = ref $fields ? $json->encode($fields) : $fields;
    Fixture::write_file("$boxes/$id.json.new", $text, 0640);
    chown -1, $gid, "$boxes/$id.json.new";
    rename "$boxes/$id.json.new", "$boxes/$id.json";
}

my ($pa, $pb, $pc) = map { "ph_$_" . Fixture::random(30) } qw(a b c);

sandbox('a', { placeholders => { api => $pa, bare => $pc } });
sandbox('b', { placeholders => { api => $pb } });
sandbox('none', {});
sandbox('sam', { repos => { hub => ['google/sam'] } });
sandbox('wide', { repos => { hub => ['Google/*', 'acme/tools#42'] } });
sandbox('no', { repos => { hub => [] } });
sandbox('narrow', { repos => { listed => ['google/sam', 'acme/x'] } });

my %bad = (
    'null' => ['{"placeholders": null}', 'has a null'],
    'text' => ['{"placeholders": "x"}', 'has a value of another type'],
    'list' => ['{"placeholders": ["x"]}', 'has an array where none may be'],
    'number' => ['{"placeholders": {"api": 1}}', 'has a number'],
    'deep' => ['{"placeholders": {"api": {}}}',
               'has an object where none may be'],
    'several' => ['{"placeholders": {"api": ["' . $pa . '"]}}',
                  'has an array where none may be'],
    'unbound' => ['{"placeholders": {"xyz": "' . $pa . '"}}',
                  'has an unknown binding'],
    'short' => ['{"placeholders": {"api": "123456789012345"}}',
                'has a placeholder that is too short'],
    'blank' => ['{"placeholders": {"api": "1234567890 123456"}}',
                'has a placeholder with a character'],
    'taken' => ['{"placeholders": {"api": "' . $P . '"}}', 'overlaps'],
    'part' => ['{"placeholders": {"api": "' . substr($P, 2, 20) . '"}}',
               'overlaps'],
    'whole' => ['{"placeholders": {"api": "x' . $P . 'y"}}', 'overlaps'],
    'twice' => ['{"placeholders": {"api": "' . $pa . '", "api": "' . $pb
                . '"}}', 'has a binding twice'],
    'repo-text' => ['{"repos": {"hub": "google/sam"}}',
                    'has a value of another type'],
    'repo-list' => ['{"repos": ["google/sam"]}',
                    'has an array where none may be'],
    'repo-number' => ['{"repos": {"hub": [1]}}', 'has a number'],
    'repo-deep' => ['{"repos": {"hub": [["google/sam"]]}}',
                    'has an array where none may be'],
    'repo-object' => ['{"repos": {"hub": [{}]}}',
                      'has an object where none may be'],
    'repo-bad' => ['{"repos": {"hub": ["google"]}}',
                   'has an invalid repository'],
    'repo-star' => ['{"repos": {"hub": ["*/sam"]}}',
                    'has an invalid repository'],
    'repo-all' => ['{"repos": {"hub": ["all"]}}',
                   'has an invalid repository'],
    'repo-unbound' => ['{"repos": {"xyz": []}}', 'has an unknown binding'],
    'repo-twice' => ['{"repos": {"hub": [], "hub": []}}',
                     'has a binding twice'],
    'field-twice' => ['{"repos": {}, "repos": {}}', 'has a field twice'],
    'source-object' => ['{"sources": [{}]}',
                        'has an object where none may be'],
);

sandbox("bad-$_", $bad{$_}[0]) for keys %bad;

my $base = Fixture::free_port();

my $egress = <<"CONF";
    self_url http://gateway.internal:3128;
    binding bare {
        hosts bare.test;
        upstream http://127.0.0.1:$up;
        secret $ENV{TEST_NGINX_SECRET} static;
        env BARE_TOKEN;
        git on;
    }
    binding hub {
        hosts hub.test;
        upstream http://127.0.0.1:$up;
        git on;
        repo ~ ^/repos/([^/]+)/([^/]+);
        repo ~ ^/ids/([0-9]+);
        repo_free GET /free;
        read POST = /graphql graphql;
    }
    binding listed {
        hosts listed.test;
        upstream http://127.0.0.1:$up;
        repo ~ ^/repos/([^/]+)/([^/]+);
        repos google/sam google/other;
    }
    sandboxes $boxes;
    secret_check 0;
CONF

my $http = <<"CONF";
    map \$http_x_box \$box { default ""; "~^(?<b>.+)\$" \$b; }
    server {
        listen 127.0.0.1:$base;
        egress_sandbox \$box;
        location /api/ { egress_pass api; }
        location /bare/ { egress_pass bare; }
        location /hub/ { egress_pass hub; }
        location /listed/ { egress_pass listed; }
        location /self/ { egress_self; }
    }
CONF

# the upstream of "api" has to be there beside "env"

my $g = Stream->start(egress => $egress, http => $http);

delete @ENV{grep { /_proxy$/i } keys %ENV};

my @curl = ('curl', '-q', '-s', '--max-time', 10, '--noproxy', '*');

sub curl {
    my ($box, $path, @args) = @_;

    open my $fh, '-|', @curl, '-o', '/dev/null', '-H', "X-Box: $box", '-w',
         '%{http_code} %header{proxy-status} %header{x-auth}', @args,
         "http://127.0.0.1:$base/$path"
        or die "curl: $!";
    my $got = <$fh>;
    close $fh;

    return $got // '';
}

sub bearer { return ('-H', "Authorization: Bearer $_[0]") }


# --- placeholders ---------------------------------------------------------------

for my $case (
    # sandbox, placeholder, whether it is valid there
    ['a', $pa, 1], ['b', $pb, 1], ['none', $P, 1],
    ['a', $P, 0], ['b', $P, 0], ['a', $pb, 0], ['b', $pa, 0],
    ['none', $pa, 0], ['a', $pc, 0], ['a', substr($pa, 0, -1), 0],
    ['a', "${pa}x", 0],
)
{
    my ($box, $ph, $valid) = @$case;
    my $name = "$box, " . ($ph eq $P ? 'that of the configuration'
                           : substr $ph, 0, 4);

    my $got = curl($box, 'api/x', bearer($ph));
    like($got, $valid ? qr/^200 .*bearer-secret/ : qr/^200 (?!.*secret)/,
         "$name: " . ($valid ? 'swapped' : 'inert'));

    $got = curl($box, 'api/x', '-u', "x-access-token:$ph");
    like($got, $valid ? qr/^200 .*basic-password-secret/ : qr/^200 (?!.*secret)/,
         "$name, Basic: " . ($valid ? 'swapped' : 'inert'));
}

my $log = $g->log('error.log');

like($log, qr/\[warn\].*placeholder of sandbox "b" came from sandbox "a"/,
     'the error log names both sandboxes');
like($log, qr/\[warn\].*placeholder of sandbox "a" came from sandbox "none"/,
     'one without its own, too');
unlike($log, qr/\[warn\].*placeholder of sandbox "a" came from sandbox "a"/,
       'another binding of the same sandbox is no other sandbox');
unlike($log, qr/\Q$_\E/, 'and no placeholder') for $pa, $pb, $pc;

like(curl('a', 'bare/x', bearer($pc)), qr/^200 .*bearer-secret/,
     'a binding without a placeholder: the own one is swapped');
like(curl('b', 'bare/x', bearer($pc)), qr/^200 (?!.*secret)/,
     'without one of its own: inert');
like(curl('b', 'bare/x', bearer($P)), qr/^200 (?!.*secret)/,
     'that of another binding, too');

# changed, and removed

sandbox('b', { placeholders => { api => $pc } });
like(curl('b', 'api/x', bearer($pb)), qr/^200 (?!.*secret)/,
     'a changed one: the former is inert');
like(curl('b', 'api/x', bearer($pc)), qr/^200 .*bearer-secret/,
     'the new one is swapped');
sandbox('b', {});
like(curl('b', 'api/x', bearer($P)), qr/^200 .*bearer-secret/,
     'none any more: that of the configuration is');


# --- files that are refused -------------------------------------------------------

for my $name (sort keys %bad) {
    like(curl("bad-$name", 'api/x'), qr/^403 .*sandbox_unknown/,
         "bad-$name: refused");
    like($g->log('error.log'),
         qr/\[error\].*bad-$name\.json" \Q$bad{$name}[1]\E|\[error\].*bad-$name\.json" has a placeholder that \Q$bad{$name}[1]\E/,
         "$bad{$name}[1]");
}

unlike($g->log('error.log'), qr/\Q$P\E/, 'no placeholder in the error log');


# --- repositories -----------------------------------------------------------------

my $query = '{"query":"{repository(owner:\"google\",name:\"sam\"){id}}"}';
(my $wrong = $query) =~ s/sam/other/;

for my $case (
    ['sam', 'hub/repos/google/sam/pulls', 200, ''],
    ['sam', 'hub/repos/GOOGLE/Sam', 200, ''],
    ['sam', 'hub/repos/google/other', 403, 'repo_refused'],
    ['sam', 'hub/user', 403, 'repo_unknown'],
    ['sam', 'hub/free/x', 200, ''],
    ['sam', 'hub/ids/42', 403, 'repo_unknown'],
    ['sam', 'hub/google/sam.git/info/refs?service=git-upload-pack', 200, ''],
    ['sam', 'hub/google/other.git/info/refs?service=git-upload-pack', 403,
     'repo_refused'],
    ['none', 'hub/repos/google/other', 200, ''],
    ['none', 'hub/user', 200, ''],
    ['wide', 'hub/repos/google/any', 200, ''],
    ['wide', 'hub/repos/acme/tools', 200, ''],
    ['wide', 'hub/ids/42', 200, ''],
    ['wide', 'hub/ids/43', 403, 'repo_unknown'],
    ['wide', 'hub/repos/acme/other', 403, 'repo_refused'],
    ['no', 'hub/repos/google/sam', 403, 'repo_refused'],
    ['no', 'hub/free/x', 200, ''],
    ['narrow', 'listed/repos/google/sam', 200, ''],
    ['narrow', 'listed/repos/google/other', 403, 'repo_refused'],
    ['narrow', 'listed/repos/acme/x', 403, 'repo_refused'],
    ['none', 'listed/repos/google/other', 200, ''],
    ['none', 'listed/repos/acme/x', 403, 'repo_refused'],
    ['narrow', 'hub/repos/acme/any', 200, ''],
)
{
    my ($box, $path, $status, $reason) = @$case;
    like(curl($box, $path), qr/^$status .*$reason/,
         "$box, $path: $status $reason");
}

like(curl('sam', 'hub/graphql', '-H', 'Content-Type: application/json', '-d',
          $query), qr/^200 /, 'sam, a query for its repository');
like(curl('sam', 'hub/graphql', '-H', 'Content-Type: application/json', '-d',
          $wrong), qr/^403 .*repo_refused/, 'sam, for another one');
like(curl('none', 'hub/graphql', '-H', 'Content-Type: application/json', '-d',
          $wrong), qr/^200 /, 'none, for any');


# --- what it is told ----------------------------------------------------------------

sub env { return scalar `@curl[0 .. 5] '*' -H 'X-Box: $_[0]' http://127.0.0.1:$base/self/env` }

my $env = env('a');
like($env, qr/^export BARE_TOKEN='\Q$pc\E'$/m, '/env: its own placeholder');
like($env, qr/credential\.https:\/\/bare\.test\.helper'.*\Q$pc\E/s,
     'for git, too');
unlike($env, qr/\Q$pb\E|\Q$P\E/, 'and no other');

$env = env('none');
like($env, qr/^export EGRESS_CA_BUNDLE$/m, '/env without one');
unlike($env, qr/BARE_TOKEN|bare\.test/, 'says nothing of it');

is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- while loading ------------------------------------------------------------------

sub load {
    my (%opt) = @_;

    my $self = bless { dir => "$dir/load", port => Fixture::free_port(),
                       stopped => 1, owner => $$ }, 'Stream';
    mkdir "$dir/load";
    mkdir "$dir/load/logs";
    Fixture::write_file("$dir/load/nginx.conf", $self->conf(%opt));
    my $nginx = $ENV{TEST_NGINX_BINARY} || 'nginx';
    return scalar `$nginx -t -p $dir/load -e /dev/stderr -c $dir/load/nginx.conf 2>&1`;
}

(my $without = $egress) =~ s/sandboxes \S+;//;

like(load(egress => $without),
     qr/\[emerg\].*"inject swap" without a "placeholder" in binding "bare".*nginx\.conf:\d+/,
     'swap without a placeholder needs sandboxes');
like(load(egress => $egress), qr/test is successful/,
     'which may come after the binding');

done_testing();
