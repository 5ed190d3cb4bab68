# egress_sandbox: a sandbox that the configuration vouches for, by client
# certificate, address or listener: DESIGN 5.4, 6.9, 6.10; T-02, T-05, X-22

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
my $token = Fixture::random(30);
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $up = $ENV{TEST_NGINX_UPSTREAM_PORT};

mkdir $boxes;
chmod 0755, $boxes;

sub sandbox {
    my ($id, $fields, $mode) = @_;
    Fixture::write_file("$boxes/$id.json", $json->encode($fields),
                        $mode // 0640);
    chown -1, $gid, "$boxes/$id.json";
}

sandbox('box1', { role => 'narrow' });
sandbox('box2', { role => 'wide', token_sha256 => sha256_hex($token) });
sandbox('far', { role => 'wide', sources => ['10.0.0.0/8'] });
sandbox('near', { role => 'wide', sources => ['127.0.0.0/8'] });
sandbox('old', { role => 'wide', expires => '2020-01-01T00:00:00Z' });
sandbox('broken', { role => 'wide', colour => 'red' });
sandbox('open', { role => 'wide' }, 0666);

delete @ENV{grep { /_proxy$/i } keys %ENV};


# --- certificates of clients ----------------------------------------------------

Fixture::certificate('clients', '/CN=client CA', 100,
                     'basicConstraints=critical,CA:TRUE',
                     'keyUsage=critical,keyCertSign');
Fixture::certificate('stranger', '/CN=box1', 100);

for my $name (qw(box1 box2 nobody)) {
    Fixture::run('openssl', 'req', '-newkey', 'ec', '-pkeyopt',
                 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout',
                 "$dir/c-$name.key", '-out', "$dir/c-$name.csr", '-subj',
                 "/CN=$name");
    Fixture::run('openssl', 'x509', '-req', '-in', "$dir/c-$name.csr", '-CA',
                 "$dir/clients.pem", '-CAkey', "$dir/clients.key", '-days',
                 100, '-out', "$dir/c-$name.pem");
}

my %port = map { $_ => Fixture::free_port() } qw(base tls direct);

my $egress = <<"CONF";
sandboxes $boxes;
role narrow { use api; }
role wide { use api other; }
role guest { use spare; }
CONF

my $http = <<"CONF";
    map \$ssl_client_s_dn \$named { "~^CN=(?<cn>[^,]+)\$" \$cn; }
    map \$arg_id \$by_query { default ""; "~^(?<q>.*)\$" \$q; }
    server {
        listen 127.0.0.1:$port{base};
        egress_sandbox \$by_query;
        location /api/ { egress_pass api; }
        location /other/ { egress_pass other; }
        location /spare/ { egress_pass spare; }
        location /fixed/ { egress_sandbox box1; egress_pass other; }
        location /none/ { egress_sandbox ""; egress_pass api; }
    }
    server {
        listen 127.0.0.1:$port{tls} ssl http2;
        ssl_certificate $dir/up.pem;
        ssl_certificate_key $dir/up.key;
        ssl_client_certificate $dir/clients.pem;
        ssl_verify_client optional;
        egress_sandbox \$named;
        location /api/ { egress_pass api; }
        location /other/ { egress_pass other; }
    }
    server {
        listen 127.0.0.1:$port{direct} ssl;
        egress_terminate on;
        egress_sandbox \$by_query;
        location / { egress_pass; }
    }
CONF

my $g = Stream->start(egress => $egress, http => $http);

sub audits { return scalar(() = $g->log('audit.json') =~ /\n/g) }

my @curl = ('curl', '-q', '-s', '--max-time', 10, '--noproxy', '*');

sub curl {
    my (@args) = @_;

    open my $fh, '-|', @curl, '-o', '/dev/null', '-w',
         '%{http_code} %header{proxy-status} %header{x-auth}', @args
        or die "curl: $!";
    my $got = <$fh>;
    close $fh;

    return $got // '';
}


# --- base URLs --------------------------------------------------------------------

for my $case (
    # path, status and reason, sandbox and role of the record
    ['api/x?id=box1', 200, '', 'box1 narrow'],
    ['other/x?id=box2', 200, '', 'box2 wide'],
    ['other/x?id=box1', 403, 'binding_refused', 'box1 narrow'],
    ['spare/x?id=box2', 403, 'binding_refused', 'box2 wide'],
    ['api/x?id=near', 200, '', 'near wide'],
    ['api/x?id=far', 403, 'sandbox_unknown', ' '],
    ['api/x?id=old', 403, 'sandbox_expired', ' '],
    ['api/x?id=nobody', 403, 'sandbox_unknown', ' '],
    ['api/x?id=broken', 403, 'sandbox_unknown', ' '],
    ['api/x?id=open', 403, 'sandbox_unknown', ' '],
    ['api/x?id=../sandboxes/box1', 403, 'sandbox_unknown', ' '],
    ['api/x?id=box1%2e', 403, 'sandbox_unknown', ' '],
    ['api/x?id=box1,box2', 403, 'sandbox_unknown', ' '],
    ['api/x?id=' . 'x' x 65, 403, 'sandbox_unknown', ' '],
    ['api/x?id=', 403, 'sandbox_unknown', ' '],
    ['api/x', 403, 'sandbox_unknown', ' '],
    ['fixed/x?id=box2', 403, 'binding_refused', 'box1 narrow'],
    ['none/x?id=box1', 403, 'sandbox_unknown', ' '],
)
{
    my ($path, $status, $reason, $who) = @$case;
    my $before = audits();
    my $got = curl("http://127.0.0.1:$port{base}/$path");
    my $name = substr $path, 0, 30;

    like($got, qr/^$status .*$reason/, "$name: $status $reason");

    my $rec = $g->record($before);
    is(($rec->{sandbox} // '') . ' ' . ($rec->{role} // ''), $who,
       'the record names sandbox and role');
    is($rec->{reason}, $reason || 'allowed', 'and the reason');
}

# a claim of the client's own is none

for my $header ('Proxy-Authorization', 'Authorization') {
    my $got = curl('-H', "$header: Basic "
                         . encode_base64("box2:$token", ''),
                   "http://127.0.0.1:$port{base}/api/x");
    like($got, qr/^403 .*sandbox_unknown/, "$header on a base URL is no way");
}

# one connection, another sandbox at each request

my $before = audits();
my $out = `@curl[0 .. 4] --noproxy '*' -w '%{http_code} %{num_connects}\n' -o /dev/null 'http://127.0.0.1:$port{base}/other/1?id=box2' -o /dev/null 'http://127.0.0.1:$port{base}/other/2?id=box1' -o /dev/null 'http://127.0.0.1:$port{base}/other/3' -o /dev/null 'http://127.0.0.1:$port{base}/other/4?id=box2'`;
is($out, "200 1\n403 0\n403 0\n200 0\n", 'keep-alive: each request anew');


# --- certificates -------------------------------------------------------------------

sub cert { return ('-k', '--cert', "$dir/c-$_[0].pem", '--key',
                   "$dir/c-$_[0].key") }

my $tls = "https://127.0.0.1:$port{tls}";

like(curl(cert('box2'), "$tls/other/x"), qr/^200 /, 'a certificate: its role');
like(curl(cert('box1'), "$tls/other/x"), qr/^403 .*binding_refused/,
     'another one: another role');
like(curl('-H', "Authorization: Bearer $P", cert('box1'), "$tls/api/x"),
     qr/^200 .*bearer-secret/, 'and its placeholder is swapped');
like(curl(cert('nobody'), "$tls/api/x"), qr/^403 .*sandbox_unknown/,
     'one without a file');
like(curl('-k', "$tls/api/x"), qr/^403 .*sandbox_unknown/, 'none at all');
like(curl('-k', '--cert', "$dir/stranger.pem", '--key', "$dir/stranger.key",
          "$tls/api/x"), qr/^400 /, 'one that another CA has signed');

$out = `@curl[0 .. 4] --noproxy '*' -k --http2 --cert $dir/c-box1.pem --key $dir/c-box1.key -w '%{http_code} %{http_version}\n' -o /dev/null $tls/api/1 -o /dev/null $tls/other/2`;
is($out, "200 2\n403 2\n", 'HTTP/2');


# --- a terminator -------------------------------------------------------------------

my @direct = ('--cacert', "$dir/ca.pem", '--resolve',
              "other.test:$port{direct}:127.0.0.1", '-H', 'Host: other.test');

like(curl(@direct, "https://other.test:$port{direct}/x?id=box2"), qr/^200 /,
     'a terminator without a gateway');
like(curl(@direct, "https://other.test:$port{direct}/x?id=box1"),
     qr/^403 .*binding_refused/, 'each request anew');
like(curl(@direct, "https://other.test:$port{direct}/x?id=xyz"),
     qr/^403 .*sandbox_unknown/, 'an unknown one');
like(curl(@direct, "https://other.test:$port{direct}/x"),
     qr/^403 .*sandbox_unknown/, 'none');

is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- beside "unidentified" ------------------------------------------------------------

$g = Stream->start(egress => "$egress unidentified guest;", http => $http);

like(curl("http://127.0.0.1:$port{base}/spare/x"), qr/^200 /,
     'unidentified: an empty name is no identity');
like(curl("http://127.0.0.1:$port{base}/api/x"), qr/^403 .*binding_refused/,
     'with its role');
for my $id (qw(nobody far broken)) {
    like(curl("http://127.0.0.1:$port{base}/spare/x?id=$id"),
         qr/^403 .*sandbox_unknown/, "$id never becomes unidentified");
}
like(curl("http://127.0.0.1:$port{base}/spare/x?id=old"),
     qr/^403 .*sandbox_expired/, 'nor does one that has expired');
is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- a gateway ------------------------------------------------------------------------

my $map = <<"CONF";
    map \$remote_addr \$box {
        127.0.0.1 box1;
        127.0.0.2 box2;
        127.0.0.3 nobody;
        127.0.0.4 old;
        127.0.0.6 near;
        127.0.0.7 far;
    }
CONF

# "stream" has the map, and the terminator's own value is never asked where
# the gateway knows better

$g = Stream->start(egress => $egress, stream => 'egress_sandbox $box;',
                   http => 'egress_sandbox nobody;',
                   maps => $map);

sub through {
    my ($from, $host, @args) = @_;
    return curl('--interface', $from, '--noproxy', '', '-x',
                "http://127.0.0.1:$g->{port}", '--cacert', "$dir/ca.pem",
                '-w', '%{http_connect} %{http_code} %header{proxy-status}',
                @args, "https://$host/x");
}

like(through('127.0.0.1', 'api.test'), qr/^200 200 /, 'CONNECT by address');
like(through('127.0.0.1', 'other.test'), qr/^403 /, 'its role');
like(through('127.0.0.2', 'other.test'), qr/^200 200 /, 'another address');
like(through('127.0.0.6', 'other.test'), qr/^200 200 /, 'sources that fit');

for my $case (['127.0.0.3', 'sandbox_unknown'], ['127.0.0.4',
              'sandbox_expired'], ['127.0.0.7', 'sandbox_unknown'])
{
    my ($from, $reason) = @$case;
    $before = audits();
    like(through($from, 'api.test'), qr/^403 /, "$from: refused");
    is($g->record($before)->{reason}, $reason, $reason);
}

$before = audits();
like(through('127.0.0.5', 'api.test'), qr/^407 /, 'no name: 407');
is($g->record($before)->{reason}, 'proxy_auth_required', 'the record');

# what a client proves counts more than where it is, what it gets wrong too

$before = audits();
like(through('127.0.0.1', 'other.test', '-U', "box2:$token"), qr/^200 200 /,
     'credentials come first');
is($g->record($before)->{sandbox}, 'box2', 'the record names that one');
like(through('127.0.0.2', 'other.test', '-U', 'box2:wrong'), qr/^403 /,
     'wrong ones are refused');
like(through('127.0.0.2', 'other.test', '--proxy-header',
             'Proxy-Authorization: Bearer x'), qr/^407 /,
     'as are some that can not be read');

# SOCKS5 and bare TLS, which can not say who they are

for my $case (['127.0.0.2', 200, 'box2'], ['127.0.0.5', '000', '']) {
    my ($from, $status, $who) = @$case;

    $before = audits();
    like(through($from, 'other.test', '-x', "socks5h://127.0.0.1:$g->{port}"),
         qr/^000 $status /, "SOCKS5 from $from");
    is($g->record($before)->{sandbox} // '', $who, 'the record');

    $before = audits();
    like(curl('--interface', $from, '--cacert', "$dir/ca.pem", '--connect-to',
              "other.test:443:127.0.0.1:$g->{port}", 'https://other.test/x'),
         qr/^$status /, "bare TLS from $from");
    is($g->record($before)->{sandbox} // '', $who, 'the record');
}

is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- what is said while loading -------------------------------------------------------

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

for my $value ('$http_x_sandbox', '${http_x}', 'a$cookie_id', '$arg_id',
               '$HTTP_X')
{
    my $got = load(egress => $egress, http => "egress_sandbox $value;");
    like($got, qr/\[warn\].*"egress_sandbox \Q$value\E": any client can write .*nginx\.conf:\d+/,
         "$value: a warning");
    like($got, qr/test is successful/, 'and no error');
}

for my $value (qw($remote_addr box1 $ssl_client_fingerprint $server_port
                  $https http_x $args))
{
    unlike(load(egress => $egress, http => "egress_sandbox $value;"),
           qr/egress_sandbox/, "$value: none");
}

like(load(http => 'egress_sandbox box1;'),
     qr/\[emerg\].*"egress_sandbox" needs "sandboxes".*nginx\.conf:\d+/,
     'an error without sandboxes');
like(load(stream => 'egress_sandbox box1;'),
     qr/\[emerg\].*"egress_sandbox" needs "sandboxes"/, 'in stream, too');
like(load(egress => $egress, stream => 'egress_sandbox a; egress_sandbox b;'),
     qr/\[emerg\].*"egress_sandbox" directive is duplicate/, 'twice');
like(load(egress => $egress, http => <<"CONF"), qr/\[emerg\].*"egress_sandbox \$ssl_client_fingerprint" beside "ssl_verify_client optional_no_ca".*nginx\.conf:\d+/, 'a certificate that nobody verifies');
    server {
        listen 127.0.0.1:$port{tls} ssl;
        ssl_certificate $dir/up.pem;
        ssl_certificate_key $dir/up.key;
        ssl_verify_client optional_no_ca;
        location / {
            egress_sandbox \$ssl_client_fingerprint;
            egress_pass api;
        }
    }
CONF

done_testing();
