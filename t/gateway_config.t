# what "nginx -t" says to gateways, roles and sandboxes: DESIGN 5.3, 5.5, 6.10

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Test::More;

my $dir = Fixture::dir() . '/config';
my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';

mkdir $_ for $dir, "$dir/logs", "$dir/sandboxes";

my $base = bless { dir => $dir, port => Fixture::free_port(), pids => [],
                   owner => 0, seen => '' }, 'Stream';
my $sock = "unix:$dir/logs/terminator.sock";

# the file changed by a function, what nginx must say: a part, or none

sub check {
    my ($name, $change, $want, %opt) = @_;

    local $_ = $base->conf(%opt);
    $change->() if $change;

    Fixture::write_file("$dir/nginx.conf", $_);

    my $text = `$binary -t -p $dir -e $dir/logs/error.log -c $dir/nginx.conf 2>&1`;
    my $ok = $? == 0;

    if (!defined $want) {
        ok($ok, $name) or diag($text);
        return $text;
    }

    ok(!$ok && index($text, $want) >= 0
       && $text =~ /\[emerg\].*(?: in \S+:\d+|\d)/, $name)
        or diag("wanted: $want\n$text");

    return $text;
}

my %role = (role => 'use api;');

unlike(check('the file of the tests', undef, undef, %role), qr/\[warn\]/,
       'without a warning');

like(check('no worker_shutdown_timeout',
           sub { s/worker_shutdown_timeout \S+// }, undef, %role),
     qr/\[warn\].*"egress_gateway" without "worker_shutdown_timeout".* in \S+:\d+/,
     'a warning');

# egress_gateway

check('to no listener', sub { s/egress_gateway \S+/egress_gateway 127.0.0.1:1/ },
      '"egress_gateway 127.0.0.1:1" is no listener of the "http" block');
check('to a listener that does not terminate',
      sub { s/egress_terminate gateway;\s+location \/ \{ egress_pass; \}/ssl_reject_handshake on;/ },
      "\"egress_gateway $sock\" leads to a listener without \"egress_terminate\"");
check('to a listener with proxy_protocol',
      sub { s/terminator\.sock ssl/terminator.sock ssl proxy_protocol/ },
      "\"egress_gateway $sock\" leads to a listener with \"proxy_protocol\"");
check('the http block after the stream block',
      sub { my ($http) = /(^http \{.*?^\})/ms; s/^http \{.*?^\}//ms;
            $_ .= $http }, undef);
check('to a listener with "on"',
      sub { s/egress_terminate gateway/egress_terminate on/ }, undef);
check('no address', sub { s/egress_gateway \S+/egress_gateway nonsense:x/ },
      'invalid address "nonsense:x"');
check('twice', sub { s/(egress_gateway [^;]+;)/$1 $1/ },
      '"egress_gateway" directive is duplicate');
check('an unknown parameter', undef, 'invalid parameter "reject=tls"',
      gateway => 'reject=tls');
check('an unknown protocol', undef, 'invalid parameter "accept=tls,ftp"',
      gateway => 'accept=tls,ftp');
check('no protocol', undef, 'invalid parameter "accept="',
      gateway => 'accept=');
check('all protocols', undef, undef, gateway => 'accept=socks5,tls,connect');
check('no egress block', sub { s/^egress \{.*?^\}//ms;
                               s/^http \{.*?^\}/http { }/ms },
      'needs an "egress" block before the "stream" block');
check('the egress block later', sub { my ($e) = /(^egress \{.*?^\}\n)/ms;
                                      s/^egress \{.*?^\}//ms;
                                      s/^http \{.*?^\}/http { }/ms;
                                      $_ .= $e },
      'needs an "egress" block before the "stream" block');
check('egress behind stream', sub { my ($e) = /(^egress \{.*?^\}\n)/ms;
                                    s/^egress \{.*?^\}//ms;
                                    s/^http \{.*?^\}/http { }/ms;
                                    s/egress_gateway [^;]+;/return x;/;
                                    s/ \\?\$egress_\w+//g;
                                    s/(?:'|\s)\$egress_\w+//g;
                                    $_ .= $e },
      'the "egress" block must come before the "http" block');

check('to the wildcard address of a port that has others too',
      sub { s/(http \{)/$1 server { listen *:7443 ssl; egress_terminate gateway; location \/ { egress_pass; } } server { listen 127.0.0.1:7443 ssl; ssl_reject_handshake on; }/;
            s/egress_gateway \S+/egress_gateway 0.0.0.0:7443/ },
      '"egress_gateway 0.0.0.0:7443" leads to a port');
check('to an address that the wildcard address swallows',
      sub { s/(http \{)/$1 server { listen *:7443 ssl; ssl_reject_handshake on; } server { listen 127.0.0.1:7443 ssl; egress_terminate gateway; location \/ { egress_pass; } }/;
            s/egress_gateway \S+/egress_gateway 127.0.0.1:7443/ },
      '"egress_gateway 127.0.0.1:7443" leads to a port');
check('return before it', sub { s/(egress_gateway )/return x; $1/ },
      'beside another directive');

# beside egress_gateway

for my $case (['proxy_pass 127.0.0.1:1;', '"proxy_pass" directive is duplicate'],
              ['proxy_protocol on;', '"proxy_protocol" directive is duplicate'],
              ['proxy_bind 127.0.0.1;', '"proxy_bind" directive is duplicate'],
              ['proxy_ssl on;', '"proxy_ssl" directive is duplicate'],
              ['return x;', 'beside another directive'])
{
    check("beside: $case->[0]", undef, $case->[1], stream => $case->[0]);

    next if $case->[0] =~ /return/;

    my ($name) = $case->[0] =~ /^(\w+)/;

    check("before: $case->[0]",
          sub { s/(egress_gateway )/$case->[0] $1/ },
          $name eq 'proxy_pass' ? 'beside another directive'
          : "\"$name\" beside \"egress_gateway\", which sets it");
}

SKIP: {
    local $_ = $base->conf(stream => 'ssl_preread off;');
    Fixture::write_file("$dir/nginx.conf", $_);

    skip 'no ssl_preread in this build', 4
        if `$binary -t -p $dir -e $dir/logs/error.log -c $dir/nginx.conf 2>&1`
           =~ /unknown directive "ssl_preread"/;

    for my $order (0, 1) {
        check('ssl_preread on, ' . ($order ? 'before' : 'behind'),
              sub { $order ? s/(egress_gateway )/ssl_preread on; $1/
                           : s/(egress_gateway [^;]+;)/$1 ssl_preread on;/ },
              'beside "ssl_preread on"');
    }

    check('ssl_preread on in the stream block',
          sub { s/(stream \{)/$1 ssl_preread on;/ }, 'beside "ssl_preread on"');
    check('ssl_preread off', undef, undef, stream => 'ssl_preread off;');
}

check('timeouts and rates of the operator', undef, undef,
      stream => 'proxy_timeout 5m; proxy_connect_timeout 3s; proxy_upload_rate 1m; proxy_buffer_size 32k;');

my $listen = "127.0.0.1:$base->{port}";

check('on a listener with udp', undef, 'on a listener with "udp"',
      listen => "$listen udp");
check('on a listener with ssl', undef, 'on a listener with "ssl"',
      listen => "$listen ssl",
      stream => "ssl_certificate $ENV{TEST_NGINX_FIXTURE_DIR}/up.pem; ssl_certificate_key $ENV{TEST_NGINX_FIXTURE_DIR}/up.key;");

my ($minor) = `$binary -v 2>&1` =~ /nginx\/1\.(\d+)/;

SKIP: {
    skip 'servers of stream share no listeners yet', 1 if $minor < 26;

    check('on a listener that another server has too',
          sub { s/(server \{\s+listen \Q$listen\E;\s+egress_gateway)/server { listen $listen; server_name x; return x; } $1/ },
          'on a listener that another server has too');
}

# not each build has the other methods

for my $method ('poll', 'select') {
    local $_ = $base->conf;
    s/events \{/events { use $method;/;
    s/egress_gateway [^;]+;/return x;/;
    Fixture::write_file("$dir/nginx.conf", $_);

    SKIP: {
        skip "no $method in this build", 1
            if `$binary -t -p $dir -e $dir/logs/error.log -c $dir/nginx.conf 2>&1`
               =~ /invalid event type/;

        check("use $method", sub { s/events \{/events { use $method;/ },
              "\"egress_gateway $sock\" needs the epoll or kqueue event method");
    }
}

# egress_terminate

check('gateway and on on one listener',
      sub { s/(http \{)/$1 server { listen $sock ssl; server_name b; egress_terminate on; location \/ { egress_pass; } }/ },
      '"egress_terminate" differs between servers of listener');

# role

for my $case (['use nothing;', 'unknown binding "nothing" in role "default"'],
              ['allow_host 192.0.2.7;', 'invalid host "192.0.2.7"'],
              ['allow_host *.test;', 'invalid host "*.test"'],
              ['allow_host a.test:0;', 'invalid host "a.test:0"'],
              ['allow_cidr 192.0.2.0/33;', 'invalid range "192.0.2.0/33"'],
              ['allow_cidr 192.0.2.0/24:0;', 'invalid range "192.0.2.0/24:0"'],
              ['allow_cidr [2001:db8::/32;', 'invalid range "[2001:db8::/32"'],
              ['allow_cidr name.test;', 'invalid range "name.test"'],
              ['allow_private unix:;', 'invalid range "unix:"'],
              ['allow_private 10.0.0.0/8:443;',
               'invalid range "10.0.0.0/8:443"'],
              ['network some;', 'invalid value "some"'],
              ['network all; network none;',
               '"network" directive is duplicate'],
              ['nonsense;', 'unknown directive "nonsense"'],
              ['hosts a.test;', '"hosts" directive is not allowed here'])
{
    check("role: $case->[0]", undef, $case->[1], role => $case->[0]);
}

check('role: all that is fine', undef, undef,
      egress => 'resolver 127.0.0.1;',
      role => 'use api other; use spare; network all; allow_host a.test b.test:8443; allow_cidr 192.0.2.0/24 198.51.100.7:22 2001:db8::/32 [2001:db8::/32]:22; allow_private 10.0.0.0/8 fd00::/8;');
check('role: a binding that stands behind it',
      sub { my ($r) = /(role default \{[^}]+\})/; s/\Q$r\E//;
            s/(binding api)/$r $1/ }, undef, %role);
check('role: twice', sub { s/(role default \{[^}]+\})/$1 $1/ },
      'duplicate role "default"', %role);
check('role: no resolver for allow_host', undef,
      'no "resolver" in the "egress" block', role => 'allow_host a.test;');
check('role: no resolver for network all', undef,
      'no "resolver" in the "egress" block', role => 'network all;');
check('role: no gateway, no resolver needed',
      sub { s/egress_gateway [^;]+;/return x;/ }, undef,
      role => 'allow_host a.test;');
check('role: outside of egress', sub { $_ .= 'role x { }' },
      '"role" directive is not allowed here');

# resolver, sandboxes

check('resolver: twice', undef, '"resolver" directive is duplicate',
      egress => 'resolver 127.0.0.1; resolver 127.0.0.1;');
check('resolver: a bad parameter', undef, 'invalid parameter: valid=x',
      egress => 'resolver 127.0.0.1 valid=x;');
check('resolver_timeout: no time', undef,
      '"resolver_timeout" directive invalid value',
      egress => 'resolver_timeout x;');
check('sandboxes: no directory', undef,
      "sandboxes \"$dir/nowhere\" is not a directory",
      egress => "sandboxes $dir/nowhere;");
check('sandboxes: a file', undef,
      "sandboxes \"$dir/nginx.conf\" is not a directory",
      egress => "sandboxes $dir/nginx.conf;");
check('sandboxes: twice', undef, '"sandboxes" directive is duplicate',
      egress => "sandboxes $dir/sandboxes; sandboxes $dir/sandboxes;");
check('unidentified: unknown', undef,
      'unknown role "guest" in "unidentified"',
      egress => 'unidentified guest;');
check('unidentified', undef, undef,
      egress => "sandboxes $dir/sandboxes; role guest { use api; } unidentified guest;");

done_testing();
