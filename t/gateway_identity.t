# Who a client is: 407 dialogues, SOCKS5 user and password, sandbox files:
# DESIGN 6.1, 6.6, 6.9; and the vectors of CONNECT, SOCKS5 and ClientHello
# through a running gateway

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
use Fixture;
use JSON::PP;
use MIME::Base64;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);

my $dir = Fixture::dir() . '/sandboxes';
my $json = JSON::PP->new->utf8->canonical;
my $token = Fixture::random(30);
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;

mkdir $dir;
chmod 0755, $dir;

sub sandbox {
    my ($id, $fields, $mode) = @_;
    my $text = ref $fields ? $json->encode($fields) : $fields;
    Fixture::write_file("$dir/$id.json", $text, $mode // 0640);
    chown -1, $gid, "$dir/$id.json";
}

my $sha = sha256_hex($token);

sandbox('sandbox1', { token_sha256 => sha256_hex('s3cret') });
sandbox('SB_2', { token_sha256 => sha256_hex('x') });
sandbox('sb_2', { token_sha256 => sha256_hex('tok:en') });
sandbox('sb-3', { token_sha256 => sha256_hex('t') });
sandbox('dTpw', { token_sha256 => sha256_hex('x') });
sandbox('good', { token_sha256 => $sha, role => 'narrow',
                  sources => ['10.0.0.0/8', '127.0.0.0/8'],
                  expires => '2099-01-01T00:00:00+01:30' });
sandbox('plain', { token_sha256 => $sha });
sandbox('elsewhere', { token_sha256 => $sha, sources => ['10.0.0.0/8'] });
sandbox('expired', { token_sha256 => $sha,
                     expires => '2020-01-01T00:00:00Z' });
sandbox('tokenless', { role => 'default' });
sandbox('norole', { token_sha256 => $sha, role => 'nobody' });
sandbox('unknown', { token_sha256 => $sha, colour => 'red' });
sandbox('twice', qq({"token_sha256":"$sha","role":"default","role":"default"}));
sandbox('nojson', '{');
sandbox('array', "[\"$sha\"]");
sandbox('number', qq({"token_sha256":"$sha","expires":4102444800}));
sandbox('nodate', { token_sha256 => $sha, expires => '2099-13-01T00:00:00Z' });
sandbox('baddate', { token_sha256 => $sha, expires => 'never' });
sandbox('open', { token_sha256 => $sha }, 0666);
sandbox('empty', '');

my $bindings = <<"CONF";
sandboxes $dir;
binding gh {
    hosts api.github.com api.github.com:22 github.com;
    upstream https://127.0.0.1:$ENV{TEST_NGINX_UPSTREAM_PORT};
}
role narrow { use api; }
role default { use api other spare gh; }
CONF

my $direct = Fixture::free_port();
my $g = Stream->start(egress => $bindings, level => 'debug', http => <<"CONF");
    server {
        listen 127.0.0.1:$direct ssl;
        egress_terminate on;
        location / { egress_pass; }
    }
CONF

my $established = "HTTP/1.1 200 Connection established\r\n\r\n";
my $alert = "\x15\x03\x03\x00\x02\x02\x31";

sub audits { return scalar(() = $g->log('audit.json') =~ /\n/g) }

sub head {
    my ($user, $pass, $host) = @_;
    my $auth = defined $user
               ? 'Proxy-Authorization: Basic '
                 . encode_base64("$user:$pass", '') . "\r\n"
               : '';
    $host //= 'api.test';
    return "CONNECT $host:443 HTTP/1.1\r\nHost: $host:443\r\n$auth\r\n";
}


# --- CONNECT ------------------------------------------------------------------

for my $form (qw(burst bytewise delayed)) {
    my $before = audits();
    my $s = $g->socket;

    $g->put($s, head(), $form);
    my ($got, $how) = $g->get($s, qr/\r\n\r\n/);

    like($got, qr/^HTTP\/1\.1 407 /, "no credentials: 407, $form");
    like($got, qr/\r\nProxy-Authenticate: Basic realm="egress-1"\r\n/,
         'a challenge');
    like($got, qr/\r\nContent-Length: 0\r\n/, 'no body');
    like($got, qr/\r\nProxy-Status: egress-1; error=http_request_denied; details="proxy_auth_required: /,
         'Proxy-Status');

    is($g->record($before)->{reason}, 'proxy_auth_required', 'the record');
    is($g->record($before)->{status}, 407, 'with its status');

    # the same connection, as git does it

    $g->put($s, head('good', $token), $form);
    ($got) = $g->get($s, qr/\r\n\r\n/);
    is($got, $established, 'then with credentials: 200');

    $g->put($s, Stream::hello('api.test'), $form);
    like($g->get($s, qr/^\x16/), qr/^\x16/, 'and the terminator');
}

# octets behind the head were for a tunnel: they must not be read as a request

my $s = $g->socket;
$g->put($s, head() . head('good', $token));
my ($got, $how) = $g->get($s);
like($got, qr/^HTTP\/1\.1 407 /, 'pipelined behind no credentials: 407');
like($got, qr/\r\nProxy-Authenticate: Basic /, 'with a challenge');
is(() = $got =~ /HTTP\/1\.1/g, 1, 'one answer');
is($how, 'eof', 'and the end');

for my $case (
    ['good', 'wrong', 'sandbox_unknown'],
    ['good', '', 'sandbox_unknown'],
    ['nobody', $token, 'sandbox_unknown'],
    ['../sandboxes/good', $token, 'sandbox_unknown'],
    ['.good', $token, 'sandbox_unknown'],
    ['x' x 65, $token, 'sandbox_unknown'],
    ['elsewhere', $token, 'sandbox_unknown'],
    ['expired', $token, 'sandbox_expired'],
    ['tokenless', '', 'sandbox_unknown'],
    ['norole', $token, 'sandbox_unknown'],
    ['unknown', $token, 'sandbox_unknown'],
    ['twice', $token, 'sandbox_unknown'],
    ['nojson', $token, 'sandbox_unknown'],
    ['array', $token, 'sandbox_unknown'],
    ['number', $token, 'sandbox_unknown'],
    ['nodate', $token, 'sandbox_unknown'],
    ['baddate', $token, 'sandbox_unknown'],
    ['open', $token, 'sandbox_unknown'],
    ['empty', $token, 'sandbox_unknown'],
)
{
    my ($user, $pass, $reason) = @$case;
    my $before = audits();

    $s = $g->socket;
    $g->put($s, head($user, $pass));
    ($got, $how) = $g->get($s);

    like($got, qr/^HTTP\/1\.1 403 .*details="$reason: /s,
         "$user, " . ($pass eq $token ? 'the token' : "\"$pass\"")
         . ": $reason");
    is($g->record($before)->{reason}, $reason, 'the record');
}

like($g->log('error.log'), qr/unknown\.json" has an unknown field/,
     'the error log tells what is wrong with a file');

my $before = audits();
$s = $g->socket;
$g->put($s, head('good', $token, 'third.test'));
($got) = $g->get($s);
like($got, qr/^HTTP\/1\.1 403 .*binding_refused/s, 'the role of the file');

my $rec = $g->record($before);
is("$rec->{sandbox} $rec->{role}", 'good narrow', 'the record names both');

# a name and a token are of no use where nothing asks for them

$s = $g->socket;
$g->put($s, Stream::hello('api.test'));
is(unpack('H*', $g->get($s)), unpack('H*', $alert), 'bare TLS: an alert');

my $ca = "$ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem";
my @curl = (qw(curl -q -sS --max-time 10 --cacert), $ca, '-o', '/dev/null',
            '-w', '"%{http_code} %{http_connect} %header{proxy-status}"');

$got = `@curl --noproxy '*' --resolve api.test:$direct:127.0.0.1 -H 'Host: api.test' https://api.test:$direct/ 2>&1`;
like($got, qr/^403 /, 'a listener that can not ask: refused');
like($g->log('audit.json'), qr/"via":"direct".*"reason":"sandbox_unknown"/,
     'sandbox_unknown');


# --- real clients -------------------------------------------------------------

my $proxy = "127.0.0.1:$g->{port}";
my $P = $ENV{TEST_NGINX_PLACEHOLDER};

delete @ENV{grep { /_proxy$/i } keys %ENV};

for my $how ('', '--proxy-anyauth', '--http1.0', '--proxy1.0') {
    my $flag = $how eq '--proxy1.0' ? '--proxy1.0' : "$how -x";
    $flag = "$how" if $how eq '--proxy1.0';

    my $cmd = $how eq '--proxy1.0'
              ? "--proxy1.0 http://$proxy -U good:$token"
              : "$how -x http://good:$token\@$proxy";

    $got = `@curl $cmd -H 'Authorization: Bearer $P' https://api.test/user 2>&1`;
    like($got, qr/^200 200/, "curl $how with the sandbox in the proxy address");
}

$got = `@curl -x socks5h://good:$token\@$proxy https://api.test/user 2>&1`;
like($got, qr/^200 /, 'curl, SOCKS5');

$got = `@curl -x http://$proxy https://api.test/user 2>&1`;
like($got, qr/407/, 'curl without credentials');

$got = `@curl -x socks5h://good:wrong\@$proxy https://api.test/user 2>&1`;
like($got, qr/rejected|denied|fail/i, 'curl, SOCKS5, a wrong token');

like($g->log('access.log'), qr/^connect narrow good 200 127\.0\.0\.1 GET/m,
     'the request knows the sandbox, the role and the address');
like($g->log('access.log'), qr/^socks5 narrow good 200/m, 'by SOCKS5 as well');

# git sends no credentials first, then asks once more on the connection

$got = `GIT_SSL_CAINFO=$ca GIT_TERMINAL_PROMPT=0 git -c http.proxy=http://good:$token\@$proxy ls-remote https://api.test/o/r.git 2>&1`;
like($got, qr/not valid|not found/i, 'git: it got as far as the upstream');
like($g->log('access.log'), qr/^connect narrow good 200 .* GET \/o\/r.git/m,
     'git: the terminator has seen it');

SKIP: {
    skip 'no python3', 1 if system('python3 -c 1') != 0;

    $got = `https_proxy=http://good:$token\@$proxy SSL_CERT_FILE=$ca python3 -c 'import urllib.request as u; print(u.urlopen("https://api.test/user").status)' 2>&1`;
    is($got, "200\n", 'python, urllib');
}

unlike(join('', map { $g->log($_) } qw(error.log audit.json access.log
                                       stream.log)),
       qr/\Q$token\E|@{[encode_base64("good:$token", '')]}/,
       'the token of a sandbox is in no log, at debug level');


# --- vectors ------------------------------------------------------------------

sub vectors {
    my ($name) = @_;
    open my $in, '<', "t/data/vectors/$name.jsonl" or die "$name: $!";
    return map { $json->decode($_) } <$in>;
}

# What asks for no identity meets the other gateway, which lets all in.  The
# hosts are bound, so that a head that parses is answered.

(my $open = $bindings) =~ s/sandboxes \S+;//;
my %by = (1 => $g, 0 => Stream->start(egress => $open));

for my $v (vectors('connect')) {
    my $h = $by{$v->{require_auth} ? 1 : 0};
    my $verdict = $v->{want}{verdict};

    $s = $h->socket;
    $h->put($s, decode_base64($v->{in_b64}));
    ($got, $how) = $h->get($s, qr/\r\n\r\n/,
                           $verdict eq 'need_more' ? 0.1 : 4);

    # what begins with no letter is not taken for HTTP

    my $want = $verdict eq 'ok' ? qr/^\Q$established\E/
             : $verdict eq 'auth_required' ? qr/^HTTP\/1\.1 407 /
             : $verdict eq 'need_more' ? qr/^$/
             : decode_base64($v->{in_b64}) =~ /^[A-Za-z]/
               ? qr/^HTTP\/1\.1 400 / : qr/^$/;

    like($got, $want, "$v->{id}: $verdict");
}

for my $v (vectors('socks5')) {
    my $h = $by{%{ $v->{users} } ? 1 : 0};
    my $ok = 1;

    $s = $h->socket;

    for my $step (@{ $v->{dialogue} }) {
        if (exists $step->{client}) {
            $h->put($s, pack('H*', $step->{client}));
            sleep 0.001;
            next;
        }

        my $want = $step->{server};

        ($got, $how) = $h->get($s, undef, 0.15) unless defined $want;
        ($got, $how) = $h->get($s, qr/^.{2}(?:.{10}|.{12})?$/s, 0.15)
            if defined $want;

        $ok = 0 unless defined $want ? unpack('H*', $got) =~ /$want/
                                     : $got eq '' && $how ne 'timeout';
    }

    if ($v->{want}{verdict} eq 'need_more') {
        ($got, $how) = $h->get($s, undef, 0.05);
        $ok = 0 unless $got eq '' && $how eq 'timeout';
    }

    ok($ok, "$v->{id}: $v->{want}{verdict}")
        or diag(unpack('H*', $got) . " $how");
}

for my $v (vectors('clienthello')) {
    my $h = $by{0};
    my $octets = pack('H*', $v->{in_hex});
    my $verdict = $v->{want}{verdict};
    my $first = substr $octets, 0, 1;

    $s = $h->socket;
    $h->put($s, $octets);
    ($got, $how) = $h->get($s, qr/^.{7}/s, $verdict eq 'need_more' ? 0.1 : 4);

    if ($verdict eq 'need_more') {
        is("$got $how", ' timeout', "$v->{id}: need_more");

    } elsif ($verdict eq 'ok' && $v->{want}{sni} eq 'api.github.com') {

        # what the terminator's TLS says to it is not the gateway's refusal

        ok($got ne '' && $got ne $alert, "$v->{id}: handed over");

    } elsif ($first eq "\x16") {
        is(unpack('H*', $got), unpack('H*', $alert), "$v->{id}: refused");

    } else {
        unlike($got, qr/^\x16| 200 /, "$v->{id}: refused");
    }
}


# --- unidentified -------------------------------------------------------------

is_deeply([$by{0}->stop], [], 'nothing in the logs that should not be there');
is_deeply([$g->stop], [], 'nothing in the logs that should not be there');

$g = Stream->start(egress => "$bindings\nunidentified narrow;");

$s = $g->socket;
$g->put($s, head());
is($g->get($s, qr/\r\n\r\n/), $established, 'unidentified: let in');

$before = audits();
$s = $g->socket;
$g->put($s, head('good', $token, 'evil.test'));
$g->get($s);
is($g->record($before)->{sandbox}, 'good',
   'a sandbox whose role is that of the unidentified is known all the same');

for my $case ([undef, undef, 'third.test', 'binding_refused'],
              ['good', 'wrong', 'api.test', 'sandbox_unknown'])
{
    $s = $g->socket;
    $g->put($s, head(@$case[0 .. 2]));
    like($g->get($s), qr/^HTTP\/1\.1 403 .*$case->[3]/s,
         "unidentified: $case->[3]");
}

$s = $g->socket;
$g->put($s, "CONNECT api.test:443 HTTP/1.1\r\nProxy-Authorization: Bearer x\r\n\r\n");
like($g->get($s, qr/\r\n\r\n/), qr/^HTTP\/1\.1 407 /,
     'unidentified: other credentials are not none');

$s = $g->socket;
$g->put($s, Stream::hello('api.test'));
like($g->get($s, qr/^\x16/), qr/^\x16/, 'unidentified: bare TLS');

close $s;


is_deeply([$g->stop], [], 'nothing in the logs that should not be there');

done_testing();
