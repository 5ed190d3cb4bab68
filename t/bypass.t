# ways around a decision that were found in review, each closed

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';

use IO::Socket::INET;
use POSIX ();

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
our $C = $ENV{TEST_NGINX_CANARY};
our $D = Fixture::dir();

# a careless upstream: answers each request line at once, never reads a body

my @kids;
our $Reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

sub upstream {
    my ($file, $reply) = @_;

    my $l = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5,
                                  ReuseAddr => 1) or die $!;
    my $port = $l->sockport;
    my $pid = fork;

    if (!$pid) {
        $Test::Nginx::Util::InSubprocess = 1;
        alarm 300;
        $SIG{CHLD} = 'IGNORE';

        while (my $s = $l->accept) {
            next if fork;
            my $in = '';

            while (sysread $s, $in, 65536, length $in) {
                while ($in =~ s/\A(.*?\r\n\r\n)//s) {
                    open my $out, '>>:raw', "$D/$file";
                    print $out $1;
                    close $out;
                    syswrite $s, $reply;
                }
            }

            POSIX::_exit(0);
        }

        POSIX::_exit(0);
    }

    push @kids, $pid;
    close $l;

    return $port;
}

add_cleanup_handler(sub { kill 'KILL', $_ for @kids; waitpid $_, 0 for @kids });

our $Port = upstream('up', $Reply);
our $Evil = upstream('evil', $Reply);
our $Switch = upstream('up', "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");

our $Main = sub {
    my ($more, $port) = @_;
    $port ||= $Port;
    return <<"CONF";
egress {
    ca                   \$TEST_NGINX_FIXTURE_DIR/ca.pem \$TEST_NGINX_FIXTURE_DIR/ca.key;
    audit_log            \$TEST_NGINX_FIXTURE_DIR/b.json;
    trusted_certificate  \$TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding rec {
        hosts        api.test;
        upstream     http://127.0.0.1:$port;
        secret       \$TEST_NGINX_SECRET static;
        placeholder  \$TEST_NGINX_PLACEHOLDER;
        $more
    }
}
CONF
};

sub recorded {
    my ($file) = @_;
    select undef, undef, undef, 0.1;
    my $text = Fixture::read_file($file);
    unlink "$D/$file";
    return $text;
}

sub send_raw {
    my $s = IO::Socket::INET->new('127.0.0.1:'
            . Test::Nginx::Socket::server_port_for_client()) or return '';
    my $in = '';

    for my $piece (@_) {
        syswrite $s, $piece;
        select undef, undef, undef, 0.2 if @_ > 1;
    }

    local $SIG{ALRM} = sub { die };
    eval { alarm 2; 1 while sysread $s, $in, 65536, length $in; alarm 0 };
    alarm 0;
    return $in;
}

add_block_preprocessor(sub {
    my $block = shift;

    recorded($_) for qw(up evil);
    $block->set_value(main_config => $Main->(''))
        unless defined $block->main_config;
    $block->set_value(config => 'location /g/ { egress_pass rec; }')
        unless defined $block->config;
    $block->set_value(request => 'GET /g/x')
        unless defined $block->request || defined $block->must_die;
    $block->set_value(more_headers => "Authorization: Bearer $P")
        unless defined $block->more_headers;
});

no_shuffle();
no_root_location();
no_long_string();
run_tests();

__DATA__

=== TEST 1: proxy_pass in an "if" inside
--- config eval
"location /g/ { egress_pass rec; if (\$arg_dbg) { proxy_pass http://127.0.0.1:$::Evil; } }"
--- must_die
--- error_log eval
qr/"(proxy_pass|another content handler|proxy_set_header)" is not allowed beside "egress_pass"/



=== TEST 2: proxy_pass in a "limit_except" inside
--- config eval
"location /g/ { egress_pass rec; limit_except POST { proxy_pass http://127.0.0.1:$::Evil; } }"
--- must_die
--- error_log eval
qr/"(proxy_pass|another content handler|proxy_set_header)" is not allowed beside "egress_pass"/



=== TEST 3: ssi in an "if" inside
--- config
location /g/ { egress_pass rec; if ($host) { ssi on; } }
--- must_die
--- error_log
"ssi on" is not allowed beside "egress_pass"



=== TEST 4: a rewrite in the location: what is judged is what is sent
--- main_config eval
$::Main->('refuse * /admin;')
--- config
location /g/ { rewrite ^/g/v1/(.*)$ /$1 break; egress_pass rec; }
--- request
GET /g/v1/admin/x
--- error_code: 403
--- init
Test::More::is(main::recorded('up'), '', 'nothing yet');
--- error_log
egress request refused: path_refused



=== TEST 5: try_files into a location of ours
--- main_config eval
$::Main->('path_prefix /v1;')
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 ssl;
    egress_terminate on;
    location /t/ { try_files $uri /admin/$arg_x; }
    location / { egress_pass; }
}
--- config
location / {
    proxy_pass https://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    proxy_ssl_server_name on;
    proxy_ssl_name api.test;
    proxy_set_header Host api.test;
}
--- request
GET /t/v1?x=y
--- error_code: 403
--- error_log
egress request refused: path_refused



=== TEST 6: OPTIONS with a body that is a request (R-04)
--- init
my $body = "DELETE /repos/o/r HTTP/1.1\r\nX-Junk: ";
my $out = main::send_raw("OPTIONS /g/x HTTP/1.1\r\nHost: a\r\nContent-Length: " . length($body) . "\r\n\r\n$body",
    "GET /g/user HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer $main::P\r\n\r\n");
Test::More::like($out, qr/^HTTP\/1.1 400/, 'refused');
Test::More::unlike(main::recorded('up'), qr/DELETE/, 'no DELETE');
--- error_code: 200



=== TEST 7: a 101 that nobody asked for opens nothing (O-07)
--- main_config eval
$::Main->('', $::Switch)
--- init
my $out = main::send_raw("GET /g/x HTTP/1.1\r\nHost: a\r\n\r\n",
                         "DELETE /repo HTTP/1.1\r\nHost: a\r\n\r\n");
Test::More::like($out, qr/^HTTP\/1.1 502/, 'a bad gateway');
Test::More::unlike(main::recorded('up'), qr/DELETE/, 'nothing behind it went upstream');
--- error_code: 502
--- error_log
sent an invalid response



=== TEST 8: LFS paths at any depth need a name that ends in .git
--- main_config eval
$::Main->('git on;')
--- request eval
["POST /g/api/v1/repos/o/r/contents/info/lfs/locks/verify\n{}",
 "POST /g/o/r.git/info/lfs/locks/verify\n{}"]
--- error_code eval
[403, 200]



=== TEST 9: the type that made it a read can't be taken away, nor doubled
--- main_config eval
$::Main->('git on;')
--- init
my $r = "POST /g/o/r/git-upload-pack HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n";
my $t = "Content-Type: application/x-git-upload-pack-request\r\n";
my $out = main::send_raw("$r${t}Connection: close, content-type\r\n\r\n0000");
Test::More::like(main::recorded('up'), qr/^Content-Type: application\/x-git-upload-pack-request\r$/m, 'it stays');
$out = main::send_raw("$r${t}Content-Type: application/json\r\nConnection: close\r\n\r\n0000");
Test::More::like($out, qr/^HTTP\/1.1 400/, 'two are refused');
Test::More::is(main::recorded('up'), '', 'and go nowhere');
--- error_code: 200



=== TEST 10: what refuses sees through ;parameters and a slash at the end
--- main_config eval
$::Main->('refuse * /admin; write GET = /purge; read GET = /open;')
--- request eval
["GET /g/admin/y", "GET /g/admin;x/y", "GET /g/admin%3Bx/y", "GET /g/purge",
 "GET /g/purge;a", "GET /g/purge/", "GET /g/open;a", "GET /g/adminx"]
--- error_code eval
[403, 403, 403, 403, 403, 403, 200, 200]



=== TEST 11: the variable is empty while the answer runs
--- config
location /g/ { egress_pass rec; charset $egress_field_0; add_header X-V "[$egress_field_0]" always; }
--- response_headers
X-V: []



=== TEST 12: another server of the listener with looser header names
--- http_config
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    underscores_in_headers on;
    return 404;
}
server {
    listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
    server_name gw;
    location /g/ { egress_pass rec; }
}
--- must_die
--- error_log
"ignore_invalid_headers off" or "underscores_in_headers on" in server



=== TEST 13: fields that name another target
--- init
main::send_raw("GET /g/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX-Original-Method: DELETE\r\n\r\n");
Test::More::unlike(main::recorded('up'), qr/^X-(Original|Rewrite)/m, 'are taken away');
--- error_code: 200



=== TEST 14: header: one that is always removed
--- main_config eval
$::Main->('header X-Real-IP;')
--- must_die
--- error_log
header "X-Real-IP" can't carry a credential



=== TEST 15: header: a long name
--- main_config eval
$::Main->('header ' . 'X-' . 'Long-' x 20 . 'Name;')
--- http_config
proxy_headers_hash_bucket_size 256;
--- error_code: 200



=== TEST 16: a fall-back after a failure sees the client's own target
--- main_config eval
$::Main->('', Fixture::free_port())
--- config
location /g/ { egress_pass rec; error_page 502 = @fallback; }
location @fallback { return 200 "$request_uri [$egress_field_0] $http_authorization\n"; }
--- response_body eval
"/g/x [] Bearer $::P\n"
--- error_log
Connection refused



=== TEST 17: what an upstream remembers is not in the debug log
--- main_config eval
my $port = main::upstream('up', "HTTP/1.1 200 OK\r\nX-Old: remembered\r\nContent-Length: 0\r\n\r\n");
$::Main->('', $port)
--- more_headers
X-None: y
--- ignore_response
--- no_error_log
X-Old



=== TEST 18: after half a record the next one has a line of its own
--- main_config eval
my $c = $::Main->('');
system "mkdir -p $::D/full; mountpoint -q $::D/full || mount -t tmpfs -o size=8k tmpfs $::D/full 2>/dev/null";
$c =~ s{\$TEST_NGINX_FIXTURE_DIR/b.json}{$::D/full/b.json};
$c
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
my $n = 0;
if (`mount` =~ m{ \Q$main::D\E/full }) {
    for (1 .. 40) {
        last if `curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer $main::P' http://127.0.0.1:$port/g/x` eq '503';
        $n++;
    }
    Test::More::ok($n > 0 && $n < 40, "the log is full after $n requests");
    system "mount -o remount,size=64k $main::D/full";
    `curl -s -o /dev/null -H 'Authorization: Bearer $main::P' http://127.0.0.1:$port/g/last`;
    select undef, undef, undef, 0.1;
    require JSON::PP;
    my @bad = grep { !eval { JSON::PP::decode_json($_) } } split /\n/, Fixture::read_file("$main::D/full/b.json");
    Test::More::ok(@bad <= 1, 'only the torn record is none') or Test::More::diag(join "\n", @bad);
    Test::More::like(Fixture::read_file("$main::D/full/b.json"), qr{^\{"time[^\n]*"path":"/last"}m, 'the next is whole');
    system "umount -l $main::D/full";
}
--- ignore_response
