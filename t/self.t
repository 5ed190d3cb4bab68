# What a sandbox may ask about itself: self_url, egress_self, and self= of
# egress_gateway: DESIGN 5.1, 5.4, 5.5, 6.15

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
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
my $up = $ENV{TEST_NGINX_UPSTREAM_PORT};

# what a shell or a URL could take for something else

my $token = q(t@k:e/n%20#?&';$(touch hit)`touch hit`"\\\\ ~*) . Fixture::random(20);
my $hostile = q(it's-'a'-$(touch${IFS}hit)`touch${IFS}hit`"%s\\\\n\\\\$HOME!*);
my $other = 'other-placeholder-' . Fixture::random(20);

mkdir $boxes;
chmod 0755, $boxes;

sub sandbox {
    my ($id, $fields) = @_;
    Fixture::write_file("$boxes/$id.json", $json->encode($fields), 0640);
    chown -1, $gid, "$boxes/$id.json";
}

my $sha = sha256_hex($token);

sandbox('box1', { token_sha256 => $sha, role => 'narrow' });
sandbox('box2', { token_sha256 => $sha, role => 'wide' });
sandbox('old', { token_sha256 => $sha, expires => '2020-01-01T00:00:00Z' });

delete @ENV{grep { /_proxy$/i } keys %ENV};

(my $quoted = $hostile) =~ s/([\\"\$])/\\$1/g;
$quoted =~ s/\\\$/\$/g;

my $bindings = <<"CONF";
    self_url http://gateway.internal:3128/;
    binding api {
        hosts api.test api.test:8443;
        upstream https://127.0.0.1:$up;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder "$quoted";
        env API_TOKEN "API_TEXT=a 'b' \$(touch hit) \`touch hit\` \$HOME";
        git on;
        refuse * /never;
    }
    binding other {
        host other.test { git on; read POST = /search; }
        hosts third.test;
        upstream https://127.0.0.1:$up;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $other;
        access write;
        basic_user robot;
        env OTHER_TOKEN;
        credential key {
            header X-Api-Key;
            secret $ENV{TEST_NGINX_SECRET} static;
            placeholder key-placeholder-of-the-other-one;
            env OTHER_KEY;
        }
    }
CONF

my $egress = <<"CONF";
    sandboxes $boxes;
    resolver 127.0.0.1;
    role narrow { use api; allow_host index.test files.test:8443;
                  allow_cidr 192.0.2.0/24:22 2001:db8::/32; }
    role wide { use api other; network all; }
CONF

my ($self, $plain) = (Fixture::free_port(), Fixture::free_port());
my $http = <<"CONF";
    server {
        listen 127.0.0.1:$self;
        location / { egress_self; }
    }
    server {
        listen 127.0.0.1:$plain;
        location /about/ { egress_self; }
        location /me { egress_sandbox box1; egress_self; }
        location /nobody/ { egress_sandbox nobody; egress_self; }
        location /rewritten/ { rewrite ^ /about/env; }
    }
CONF

my $g = Stream->start(egress => $egress, bindings => $bindings, http => $http,
                      gateway => "self=127.0.0.1:$self", level => 'debug');

sub audits { return scalar(() = $g->log('audit.json') =~ /\n/g) }

sub basic {
    my ($user, $pass, $name) = @_;
    return ($name // 'Authorization') . ': Basic '
           . encode_base64("$user:$pass", '') . "\r\n";
}

# one request to the gateway; status, head and body

sub ask {
    my ($path, $fields, %opt) = @_;

    my $s = $opt{socket} || $g->socket;
    my $method = $opt{method} || 'GET';
    my $host = $opt{host} || 'gateway';

    $g->put($s, "$method $path HTTP/1.1\r\nHost: $host\r\n" . ($fields // '')
                . "\r\n", $opt{form});

    my ($got) = $g->get($s, qr/\r\n\r\n/);
    my ($head, $body) = split /\r\n\r\n/, $got, 2;
    my ($len) = $head =~ /^Content-Length: (\d+)/mi;

    if ($method ne 'HEAD' && ($len // 0) > length $body) {
        my $want = $len - length $body;
        $body .= $g->get($s, qr/^.{$want}/s) if $want < 32000;
        $body .= $g->get($s, undef, 0.2) while length $body < $len;
    }

    my ($status) = $head =~ /^HTTP\/1\.1 (\d+)/;
    return ($status, $head, $body);
}

my @me = basic('box1', $token);
my ($status, $head, $body, $rec, $before);


# --- who may ask ----------------------------------------------------------------

for my $form (qw(burst bytewise delayed)) {
    my $s = $g->socket;
    $before = audits();

    ($status, $head, $body) = ask('/env', '', socket => $s, form => $form);
    is($status, 407, "no credentials, $form: 407");
    like($head, qr/^HTTP\/1\.1 407 Proxy Authentication Required\r\n/,
         'in words, too');
    like($head, qr/\r\nProxy-Authenticate: Basic realm="egress-1"(\r\n|$)/,
         'a challenge');
    like($head, qr/Proxy-Status: egress-1; error=http_request_denied; details="proxy_auth_required: /,
         'Proxy-Status');
    is($json->decode($body)->{reason}, 'proxy_auth_required', 'and a body');
    is($g->record($before)->{reason}, 'proxy_auth_required', 'the record');

    ($status) = ask('/ca.pem', $me[0], socket => $s, form => $form);
    is($status, 200, 'with credentials, on the same connection');

    ($status) = ask('/ca.pem', '', socket => $s, form => $form);
    is($status, 407, 'they count for one request');
}

for my $case (
    ['Proxy-Authorization', basic('box1', $token, 'Proxy-Authorization'), 200],
    ['lower case', basic('box1', $token, 'authorization'), 200],
    ['both', $me[0] . basic('box1', $token, 'Proxy-Authorization'), 200],
    ['two that differ', $me[0] . basic('box2', $token, 'Proxy-Authorization'),
     400, 'malformed_request'],
    ['one of them wrong', $me[0] . basic('box1', 'x', 'Proxy-Authorization'),
     400, 'malformed_request'],
    ['a wrong token', basic('box1', 'wrong'), 403, 'sandbox_unknown'],
    ['no token', basic('box1', ''), 403, 'sandbox_unknown'],
    ['an unknown name', basic('nobody', $token), 403, 'sandbox_unknown'],
    ['a path for a name', basic('../sandboxes/box1', $token), 403,
     'sandbox_unknown'],
    ['a time that is over', basic('old', $token), 403, 'sandbox_expired'],
    ['no name', basic('', $token), 407, 'proxy_auth_required'],
    ['another scheme', "Authorization: Bearer $token\r\n", 407,
     'proxy_auth_required'],
    ['no base64', "Authorization: Basic ****\r\n", 407,
     'proxy_auth_required'],
    ['no colon', 'Authorization: Basic ' . encode_base64('box1', '') . "\r\n",
     407, 'proxy_auth_required'],
)
{
    my ($name, $fields, $want, $reason) = @$case;

    for my $page (qw(/env /policy.json)) {
        $before = audits();
        ($status, $head, $body) = ask($page, $fields);
        is($status, $want, "$page, $name: $want");
        is($g->record($before)->{reason}, $reason, 'the record') if $reason;
        unlike("$head$body", qr/egress_bundle|"bindings"/, 'and nothing told')
            if $reason;
    }
}

# pages and methods

for my $case (['/', 404], ['/env/', 404], ['/Env', 404], ['/env?x=y', 200],
              ['/%65nv', 200], ['/x/../env', 200], ['/policy.jsonx', 404])
{
    ($status) = ask($case->[0], $me[0]);
    is($status, $case->[1], "$case->[0]: $case->[1]");
}

for my $method (qw(POST PUT DELETE OPTIONS)) {
    $before = audits();
    ($status) = ask('/env', $me[0] . "Content-Length: 0\r\n",
                    method => $method);
    is($status, 405, "$method: 405");
    is($g->record($before)->{reason}, 'method_refused', 'the record');
}

($status, $head, $body) = ask('/env', $me[0], method => 'HEAD');
is($status, 200, 'HEAD');
is($body // '', '', 'has no body');
like($head, qr/\r\nCache-Control: no-store/, 'nobody is to keep it');

# other forms of a target are for the network, as before

for my $target ('http://gateway.internal:3128/env', '*', 'gateway:3128') {
    $before = audits();
    ($status) = ask($target, $me[0]);
    is($status, 403, "$target: refused");
    is($g->record($before)->{reason}, 'plain_http', 'plain_http');
}


# --- /env -----------------------------------------------------------------------

sub env {
    my ($text, $shell, $before, %env) = @_;

    my $file = Fixture::write_file('env.sh', $text);
    my $home = "$dir/home";

    mkdir $home;
    unlink "$home/hit";

    open my $fh, '-|', 'env', '-i', "PATH=$ENV{PATH}", "HOME=$home",
         (map { "$_=$env{$_}" } sort keys %env), $shell, '-c',
         "cd \"\$HOME\"; $before eval \"\$(cat '$file')\"; echo status=\$?; env -0"
        or die "env: $!";
    local $/;
    my $got = <$fh>;
    close $fh;

    ok(!-e "$home/hit", 'no text was run');

    my ($rc, $vars) = $got =~ /^status=(\d+)\n(.*)/s;
    my %got = map { /^([^=]+)=(.*)/s } split /\0/, $vars // '';

    return ($rc, \%got);
}

($status, $head, $body) = ask('/env', $me[0], host => 'evil.example');
is($status, 200, '/env');
like($head, qr/\r\nContent-Type: text\/plain; charset=utf-8/, 'is a text');
unlike($body, qr/evil\.example/, 'nothing of Host is in it');

my $env1 = $body;
my $bundle = (ask('/bundle.pem', $me[0]))[2];
(my $percent = $token) =~ s/([^A-Za-z0-9._~-])/sprintf '%%%02X', ord $1/ge;
my $proxy = "http://box1:$percent\@gateway.internal:3128";

for my $shell (grep { -x } map { ("/bin/$_") } qw(dash bash zsh busybox)) {

    my @sh = $shell =~ /busybox/ ? "$shell sh" : $shell;
    my $file = Fixture::write_file('env.sh', $env1);

    is(system("$sh[0] -n $file"), 0, "$shell -n");

    my ($rc, $got) = env($env1, $shell, '');

    is($rc, 0, "$shell: eval");
    is($got->{$_}, $proxy, $_)
        for qw(http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy
               ALL_PROXY);
    is($got->{$_}, 'localhost,127.0.0.1,::1,gateway.internal', $_)
        for qw(no_proxy NO_PROXY);

    my $ca = "$dir/home/.egress-ca.pem";
    is($got->{$_}, $ca, $_)
        for qw(EGRESS_CA_BUNDLE SSL_CERT_FILE REQUESTS_CA_BUNDLE
               CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS PIP_CERT
               npm_config_cafile DENO_CERT AWS_CA_BUNDLE CARGO_HTTP_CAINFO
               GRPC_DEFAULT_SSL_ROOTS_FILE_PATH);
    is(Fixture::read_file($ca), $bundle, 'the bundle is there');

    is($got->{GIT_HTTP_PROXY_AUTHMETHOD}, 'basic', 'git');
    is($got->{NODE_USE_ENV_PROXY}, 1, 'node');
    like($got->{JAVA_TOOL_OPTIONS},
         qr/-Dhttps\.proxyHost=gateway\.internal -Dhttps\.proxyPort=3128/,
         'java');
    is($got->{API_TOKEN}, $hostile, 'env: the placeholder');
    is($got->{API_TEXT}, "a 'b' \$(touch hit) `touch hit` \$HOME",
       'env: a text');
    is($got->{GIT_CONFIG_COUNT}, 4, 'two hosts with git');
    is(scalar(grep { /^GIT_CONFIG_(KEY|VALUE)_[0-3]$/ } keys %$got), 8,
       'keys and values');
    is($got->{GIT_CONFIG_KEY_2}, 'credential.https://api.test:8443.helper',
       'a port of its own');
    ok(!exists $got->{egress_bundle}, 'nothing else is left');

    # again: what is the same is not written

    utime 1000, 1000, $ca;
    ($rc, $got) = env($env1, $shell, 'set -eu;');
    is($rc, 0, 'once more, under "set -eu"');
    is((stat $ca)[9], 1000, 'the same bundle is left alone');

    Fixture::write_file($ca, 'old');
    ($rc) = env($env1, $shell, 'set -C;');
    is($rc, 0, 'over an older one, under "set -C"');
    is(Fixture::read_file($ca), $bundle, 'written anew');
    unlink $ca;

    # a place of one's own, and one that can not be written

    my $odd = "$dir/it's \$HOME `here`.pem";
    ($rc, $got) = env($env1, $shell, '', EGRESS_CA_BUNDLE => $odd);
    is("$rc $got->{GIT_SSL_CAINFO}", "0 $odd", 'EGRESS_CA_BUNDLE');
    is(Fixture::read_file($odd), $bundle, 'is written');
    ok(!-e $ca, 'and no other file');
    unlink $odd;

    ($rc, $got) = env($env1, $shell, 'exec 2>/dev/null;',
                      EGRESS_CA_BUNDLE => "$dir/no/such/directory");
    is($rc, 1, 'no place to write: it fails');
    ok(!exists $got->{https_proxy}, 'and sets nothing');

    # of an answer that was cut off nothing is run

    for my $len (60, 1000, length($bundle) + 200, length($env1) - 20,
                 length($env1) - 2)
    {
        ($rc, $got) = env(substr($env1, 0, $len), $shell, 'exec 2>/dev/null;');
        ok(!$got->{https_proxy} && !$got->{SSL_CERT_FILE} && !-e $ca,
           "cut off at $len: nothing happens");
    }
}

# git gets the placeholder, and from nobody else

sub fill {
    my ($text, $url, $shell) = @_;

    my $file = Fixture::write_file('env.sh', $text);
    my $home = "$dir/home";

    Fixture::write_file("$home/.gitconfig",
                        "[credential]\n\thelper = \"!echo password=mine #\"\n");

    return scalar `cd $home; printf 'url=%s\n\n' '$url' | env -i PATH='$ENV{PATH}' HOME=$home GIT_TERMINAL_PROMPT=0 @{[$shell // 'sh']} -c 'eval "\$(cat $file)"; git credential fill' 2>&1`;
}

my $filled = fill($env1, 'https://api.test/x.git');
like($filled, qr/^username=x-access-token$/m, 'git credential: the name');
like($filled, qr/^password=\Q$hostile\E$/m, 'the placeholder, as it is');
unlike($filled, qr/mine/, 'no other helper is asked');
unlike(fill($env1, 'https://other.test/x.git'), qr/\Q$other\E/,
       'none for a host of another role');
ok(!-e "$dir/home/hit", 'no text was run');

my $env2 = (ask('/env', basic('box2', $token)))[2];
$filled = fill($env2, 'https://other.test/x.git');
like($filled, qr/^username=robot$/m, 'basic_user');
like($filled, qr/^password=\Q$other\E$/m, 'its placeholder');
unlike(fill($env2, 'https://third.test/x.git'), qr/\Q$other\E/,
       'none for a host without git');
like($env2, qr/^export OTHER_KEY='key-placeholder-of-the-other-one'$/m,
     'a credential of its own');
unlike($env1, qr/other|OTHER/, 'nothing of a binding that the role has no use of');
unlike($env1, qr/box2/, 'nor of another sandbox');
like($env2, qr/http:\/\/box2:/, 'each gets its own name');


# --- certificates -----------------------------------------------------------------

my $ca = Fixture::read_file('ca.pem');

($status, $head, $body) = ask('/ca.pem', $me[0]);
is($body, $ca, '/ca.pem');
like($head, qr/\r\nContent-Type: application\/x-pem-file/, 'its type');
unlike($bundle, qr/PRIVATE|[^\x0a\x20-\x7e]/, '/bundle.pem: certificates');
is(substr($bundle, -length $ca), $ca, 'with our CA');
ok(index($bundle, Fixture::read_file('up.pem')) >= 0,
   'and those of trusted_certificate');

my $system = Fixture::read_file('/etc/ssl/certs/ca-certificates.crt');
is(() = $bundle =~ /-----BEGIN CERTIFICATE-----/g,
   3 + (() = $system =~ /-----BEGIN CERTIFICATE-----/g),
   'and the whole of the system');


# --- /policy.json -------------------------------------------------------------------

sub policy {
    my $got = (ask('/policy.json', basic($_[0], $token)))[2];
    unlike($got, qr/\Q$token\E|\Q$other\E|placeholder"/, "$_[0]: no tokens");
    return $json->decode($got);
}

my $p = policy('box1');

is("$p->{sandbox} $p->{role} $p->{gateway}", 'box1 narrow egress-1',
   'policy: who');
is_deeply([map { $_->{name} } @{ $p->{bindings} }], ['api'],
          'the bindings of the role');
is_deeply($p->{bindings}[0]{hosts}, ['api.test', 'api.test:8443'], 'hosts');
is($p->{bindings}[0]{access}, 'read', 'access');
like($p->{bindings}[0]{you_may}, qr/^read, and change nothing$/, 'in words');
is_deeply($p->{bindings}[0]{credentials},
          [{ headers => ['Authorization'], environment => ['API_TOKEN'],
             what_to_do => 'send the placeholder as the token, the gateway '
                           . 'replaces it' }], 'credentials');
is_deeply([map { "$_->{rule}: $_->{meaning}" } @{ $p->{bindings}[0]{rules} }],
          ['git on: git: clone and fetch work, push is refused',
           'refuse * /never: this is always refused'], 'rules');
is_deeply([sort @{ $p->{allowed_hosts} }], ['files.test:8443', 'index.test'],
          'allowed hosts');
is_deeply($p->{allowed_addresses}, ['192.0.2.0/24 port 22', '2001:db8::/32'],
          'allowed addresses');
ok(@{ $p->{how_it_works} } > 3, 'some words');

$p = policy('box2');
is_deeply([map { $_->{name} } @{ $p->{bindings} }], [qw(api other)],
          'another role');
is_deeply([map { [@$_{qw(headers environment)}] }
               @{ $p->{bindings}[1]{credentials} }],
          [[['Authorization'], ['OTHER_TOKEN']],
           [['X-Api-Key'], ['OTHER_KEY']]], 'two credentials');
is($p->{bindings}[1]{access}, 'write', 'that may write');
is_deeply($p->{bindings}[1]{rules}[0]{hosts}, ['other.test'],
          'a rule for one host');
like($p->{allowed_hosts_in_words}, qr/any host/, 'network all');


# --- on a listener of its own -----------------------------------------------------------

my @curl = ('curl', '-q', '-s', '--max-time', 10, '--noproxy', '*');

sub curl {
    my (@args) = @_;
    open my $fh, '-|', @curl, '-w', ' %{http_code}', @args or die "curl: $!";
    local $/;
    my $got = <$fh>;
    close $fh;
    return $got;
}

my $base = "http://127.0.0.1:$plain";

like(curl('-u', "box1:$token", "$base/about/policy.json"),
     qr/"role": "narrow".* 200$/s, 'below a location');
like(curl('-u', "box1:$token", "$base/about/ca.pem"), qr/BEGIN.* 200$/s,
     'each page');
like(curl('-u', "box1:$token", "$base/about/"), qr/ 404$/, 'no other');
like(curl("$base/about/ca.pem"), qr/ 407$/, 'credentials are needed');
like(curl('-u', "box1:$token", "$base/rewritten/x"), qr/ 200$/,
     'after a rewrite');
like(curl("$base/me/policy.json"), qr/"sandbox": "box1".* 200$/s,
     'egress_sandbox');
like(curl("$base/mepolicy.json"), qr/ 404$/, 'a location ends at a segment');
like(curl('-u', "box2:$token", "$base/me/policy.json"),
     qr/"sandbox": "box2".* 200$/s, 'credentials come first');
like(curl('-u', 'box2:wrong', "$base/me/policy.json"), qr/ 403$/,
     'wrong ones are refused');
like(curl("$base/nobody/policy.json"), qr/sandbox_unknown.* 403$/s,
     'a name that nobody knows');

$body = curl("$base/me/env");
like($body, qr/^export https_proxy='http:\/\/gateway\.internal:3128'$/m,
     'one who has no token needs none');

unlike($g->log('access.log') . $g->log('audit.json') . $g->log('stream.log'),
       qr/\Q$token\E|\Q$percent\E/, 'no token in a log');
is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- the stream's own egress_sandbox, and accept= -------------------------------------------

$g = Stream->start(egress => $egress, bindings => $bindings, http => $http,
                   gateway => "accept=tls self=127.0.0.1:$self",
                   maps => "map \$remote_addr \$box { 127.0.0.1 box1; 127.0.0.2 old; }\n",
                   stream => 'egress_sandbox $box;');

is((ask('/ca.pem'))[0], 200, 'by address');
is($json->decode((ask('/policy.json'))[2])->{sandbox}, 'box1', 'as box1');
is($json->decode((ask('/policy.json', basic('box2', $token)))[2])->{sandbox},
   'box2', 'credentials come first');
is((ask('/ca.pem', basic('box2', 'wrong')))[0], 403, 'wrong ones are refused');
like(curl('--interface', '127.0.0.2', "http://127.0.0.1:$g->{port}/env"),
     qr/sandbox_expired.* 403$/s, 'one that has expired');
like(curl('--interface', '127.0.0.3', "http://127.0.0.1:$g->{port}/env"),
     qr/ 407$/s, 'one without');
is((ask('api.test:443', $me[0], method => 'CONNECT'))[0], 403,
   'self= lets no CONNECT in');
is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- without sandboxes, without self_url, and with a key in the file of the CA ----------------

Fixture::write_file('both.pem', Fixture::read_file('ca.key') . $ca
                                . Fixture::read_file('ca.key'), 0600);

(my $nourl = $bindings) =~ s/self_url.*;//;
$g = Stream->start(bindings => $nourl, http => $http =~ s/egress_sandbox \w+;//gr,
                   gateway => "self=127.0.0.1:$self");

($status, $head, $body) = ask('/env', $me[0]);
is($status, 200, 'without sandboxes anyone may ask');
unlike($body, qr/_proxy|box1|JAVA/, 'without self_url there is no proxy');
like($body, qr/^export SSL_CERT_FILE=/m, 'but certificates');
is($json->decode((ask('/policy.json'))[2])->{role}, 'default', 'its role');
is_deeply([$g->stop], [], 'nothing odd in the logs');

$g = bless { dir => "$dir/load", port => Fixture::free_port(), stopped => 1,
             owner => $$ }, 'Stream';
mkdir "$dir/load";
mkdir "$dir/load/logs";

sub load {
    my (%opt) = @_;
    my $conf = $g->conf(egress => '', bindings => $nourl, http => $http =~ s/egress_sandbox \w+;//gr, %opt);
    $conf =~ s{ca \S+ (\S+);}{ca $dir/both.pem $1;} if $opt{both};
    $conf =~ s{trusted_certificate \S+;}{trusted_certificate $opt{trust};} if $opt{trust};
    Fixture::write_file("$dir/load/nginx.conf", $conf);
    my $nginx = $ENV{TEST_NGINX_BINARY} || 'nginx';
    return scalar `$nginx -t -p $dir/load -e /dev/stderr -c $dir/load/nginx.conf 2>&1`;
}

for my $case (
    ['self=127.0.0.1:1', qr/"egress_gateway \.\.\. self=127\.0\.0\.1:1" is no listener of the "http" block in .*:\d+/],
    ["self=unix:$dir/load/logs/terminator.sock", qr/self=unix:.*" leads to a listener with "ssl"/],
    ['self=', qr/invalid address ""/],
    ['self=nowhere', qr/invalid address "nowhere"/],
    ["self=127.0.0.1:$self self=127.0.0.1:$self", qr/"egress_gateway" directive has "self=" twice/],
    ["self=127.0.0.1:$self accept=foo", qr/invalid parameter "accept=foo"/],
)
{
    like(load(gateway => $case->[0]), qr/\[emerg\].*$case->[1]/, $case->[0]);
}

like(load(http => "server { listen 127.0.0.1:$self; location / { return 200; } }",
          gateway => "self=127.0.0.1:$self"),
     qr/leads to a listener without "egress_self"/, 'self= without egress_self');
like(load(http => "server { listen 127.0.0.1:$self proxy_protocol; location / { egress_self; } }",
          gateway => "self=127.0.0.1:$self"),
     qr/leads to a listener with "proxy_protocol"/, 'self= and proxy_protocol');

for my $case (['= /env { egress_self; }', 'by prefix only'],
              ['~ /env { egress_self; }', 'by prefix only'],
              ['@x { egress_self; }', 'by prefix only'],
              ['/ { egress_self; egress_self; }', 'is duplicate'],
              ['/ { proxy_pass http://127.0.0.1; egress_self; }',
               'beside another content handler'])
{
    like(load(http => "server { listen 127.0.0.1:$self; location $case->[0] }"),
         qr/\[emerg\].*"egress_self".*$case->[1]/, $case->[0]);
}

for my $url ('https://gw:3128', 'gw:3128', 'http://', 'http:///',
             'http://u:p@gw:3128', 'http://gw:3128/x', 'http://gw:0',
             'http://gw:70000', "http://g'w:1", 'http://gw:3128?x', '')
{
    like(load(egress => "self_url \"$url\";"),
         qr/\[emerg\].*invalid url "\Q$url\E".*nginx\.conf:\d+/,
         "self_url \"$url\"");
}

for my $url ('http://GW.internal', 'http://192.0.2.1:80/',
             'http://[2001:db8::1]:3128')
{
    like(load(egress => "self_url $url;"), qr/test is successful/,
         "self_url $url");
}

like(load(egress => 'self_url http://a; self_url http://b;'),
     qr/"self_url" directive is duplicate/, 'self_url twice');
like(load(trust => "$dir/ca.key"), qr/\[emerg\]/, 'a bundle without one');
unlike(load(both => 1), qr/\[emerg\]/, 'a CA file with a key in it loads');

# and the key stays where it is

$g = Stream->start(bindings => $nourl, http => $http =~ s/egress_sandbox \w+;//gr,
                   gateway => "self=127.0.0.1:$self",
                   egress => 'self_url http://[2001:db8::1];', ca => 'both');

for my $page (qw(/ca.pem /bundle.pem /env)) {
    my $got = (ask($page))[2];
    unlike($got, qr/PRIVATE/, "$page: no key");
    ok(index($got, $ca) >= 0, 'the certificate');
    like($got, qr/^export https_proxy='http:\/\/\[2001:db8::1\]:80'$/m,
         'an IPv6 address, and the port is told') if $page eq '/env';
    like($got, qr/^export no_proxy='localhost,127.0.0.1,::1,2001:db8::1'$/m,
         'without brackets there') if $page eq '/env';
}
is_deeply([$g->stop], [], 'nothing odd in the logs');

# a gateway whose name a bound host ends in

$g = Stream->start(bindings => $nourl, http => $http =~ s/egress_sandbox \w+;//gr,
                   gateway => "self=127.0.0.1:$self",
                   egress => 'self_url http://test:3128;');
like((ask('/env'))[2], qr/^export no_proxy='localhost,127\.0\.0\.1,::1'$/m,
     'no_proxy must not cover a bound host');
is_deeply([$g->stop], [], 'nothing odd in the logs');

done_testing();
