# mode report: DESIGN 5.1, 5.3, 6.6 (the last paragraph)

use strict;
use warnings;

# what is passed through has to have a global address, here one of our own

BEGIN {
    if (!$ENV{EGRESS_REPORT_NET} && $> == 0
        && system('unshare --net true 2>/dev/null') == 0)
    {
        $ENV{EGRESS_REPORT_NET} = 1;
        exec 'unshare', '--net', $^X, (map { "-I$_" } @INC), $0, @ARGV
            or die "unshare: $!";
    }

    $ENV{EGRESS_REPORT_NET} ||= 0;

    if ($ENV{EGRESS_REPORT_NET}) {
        system('ip link set lo up && ip address add 9.9.9.9/32 dev lo') == 0
            or die 'no address';
    }
}

use lib 't/fixture';
use Dns;
use Echo;
use Fixture;
use JSON::PP;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);

my $json = JSON::PP->new->utf8->canonical;
my $clear = $ENV{TEST_NGINX_CLEAR_PORT};
my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $dns = Dns->start({ 'any.test' => [{ A => ['9.9.9.9'] }],
                       'gone.test' => [{ rcode => 'NXDOMAIN' }],
                       'inner.test' => [{ A => ['127.0.0.3'] }] });
my $resolver = 'resolver 127.0.0.1:' . $dns->port . ' ipv6=off;';
my $soon = Fixture::write_file('soon', "$ENV{TEST_NGINX_CANARY}\n", 0640);

chown 0, $gid, $soon if $> == 0;

my $bindings = <<"CONF";
    binding api {
        hosts api.test api.test:8443;
        upstream http://127.0.0.1:$clear;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $P;
        refuse GET /never;
        refuse POST /never/write;
        read POST = /mcp json_rpc tool=search;
        read POST = /graphql graphql;
        read POST = /form graphql;
    }
    binding gh {
        hosts gh.test;
        upstream http://127.0.0.1:$clear;
        access write;
        repo ~ ^/repos/([^/]+)/([^/]+);
        repo_free GET = /free;
        read POST = /graphql graphql;
        repos google/sam google/two;
        foreign_credential refuse;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $P;
    }
    binding soon {
        hosts soon.test;
        upstream http://127.0.0.1:$clear;
        secret $soon;
        placeholder $P;
    }
    binding spare { hosts spare.test; upstream http://127.0.0.1:$clear; }
CONF

my $role = <<'ROLE';
    use api soon;
    restrict gh {
        access read;
        repos google/sam;
        allow GET /repos;
        allow GET,POST /graphql;
    }
    allow_host listed.test;
    allow_private 127.0.0.9;
ROLE

my $port = Fixture::free_port();

sub gateway {
    my ($egress, $role, %opt) = @_;

    return Stream->start(egress => "$resolver secret_check 0; $egress",
                         role => $role, bindings => $bindings, %opt,
                         http => <<"HTTP");
    log_format told '\$egress_decision \$egress_reason';
    server {
        listen 127.0.0.1:$port;
        access_log logs/told.log told;
        location /api/ { egress_pass api; }
        location /gh/ { egress_pass gh; }
        location /soon/ { egress_pass soon; }
        location /spare/ { egress_pass spare; }
    }
HTTP
}

my $g = gateway('mode report;', $role);

# "METHOD path": what came back, and the records

sub ask {
    my ($method, $path, %opt) = @_;

    my $before = () = $g->audit;
    my @headers = @{ $opt{headers} || [] };
    push @headers, 'Content-Length: ' . length $opt{body}
        if defined $opt{body};
    push @headers, 'Content-Type: application/json' if $opt{json};

    my $s = Echo::begin($port, $path, method => $method, headers => \@headers,
                        anonymous => $opt{anonymous});
    syswrite $s, $opt{body} if defined $opt{body};

    my $got = '';
    1 while sysread $s, $got, 1 << 20, length $got;
    close $s;

    my $a = Echo::parse($got, $method);
    my (@records, $decision, $end);

    for (1 .. 250) {
        @records = $g->audit;
        splice @records, 0, $before;
        ($decision) = grep { $_->{event} eq 'decision' } @records;
        ($end) = grep { $_->{event} eq 'completion' } @records;
        last if $end || ($decision && $decision->{decision} eq 'deny');
        sleep 0.01;
    }

    return { %$a, rec => $decision || {}, end => $end };
}

sub told {
    my ($a) = @_;

    return join ' ', $a->{status}, $a->{rec}{decision}, $a->{rec}{reason},
           $a->{rec}{class}, '[' . ($a->{rec}{rule} // '') . ']';
}

sub call {
    my ($name) = @_;
    return (json => 1, body => $json->encode({
        jsonrpc => '2.0', id => 1, method => 'tools/call',
        params => { name => $name } }));
}

sub query { return (json => 1, body => $json->encode({ query => $_[0] })) }


# --- what is let through ------------------------------------------------------

for my $case (
    ['GET', '/api/x', '200 allow allowed read []'],
    ['POST', '/api/x', '200 would_deny write_refused write []'],
    ['GET', '/api/never', '200 would_deny rule_refused read [refuse GET /never]'],
    ['POST', '/api/never/write',
     '200 would_deny rule_refused write [refuse POST /never/write]'],
    ['GET', '/api/x?_method=DELETE', '200 would_deny method_refused read []'],
    ['GET', '/api/x', '200 would_deny method_refused read []',
     headers => ['X-HTTP-Method-Override: DELETE']],
    ['POST', '/api/x?_method=GET', '200 would_deny method_refused write []'],
    ['POST', '/api/mcp',
     '200 would_deny tool_refused write [read POST = /mcp json_rpc tool=search]',
     call('erase')],
    ['POST', '/api/mcp',
     '200 allow allowed read [read POST = /mcp json_rpc tool=search]',
     call('search')],
    ['POST', '/api/graphql',
     '200 would_deny write_refused write [read POST = /graphql graphql]',
     query('mutation { x }')],
    ['GET', '/api/graphql?query=%7Bx%7D&_method=POST',
     '200 would_deny method_refused read []'],

    # by the role, and by both lists
    ['GET', '/gh/repos/google/sam/x', '200 allow allowed read [allow GET /repos]'],
    ['POST', '/gh/repos/google/sam/x',
     '200 would_deny write_refused write [restrict gh]'],
    ['GET', '/gh/free', '200 would_deny rule_refused read [restrict gh]'],
    ['GET', '/gh/repos/google/two/x',
     '200 would_deny repo_refused read []'],
    ['GET', '/gh/repos/evil/one/x', '200 would_deny repo_refused read []'],
    ['GET', '/gh/x', '200 would_deny repo_unknown read []'],
    ['POST', '/gh/graphql',
     '200 would_deny repo_refused read [read POST = /graphql graphql]',
     query('{repository(owner:"google",name:"two"){id}}')],
    ['POST', '/gh/graphql',
     '200 would_deny repo_unknown read [read POST = /graphql graphql]',
     query('{user(login:"x"){id}}')],
    ['POST', '/gh/graphql',
     '200 would_deny write_refused write [restrict gh]',
     query('mutation{user(login:"x"){id}}')],
)
{
    my ($method, $path, $want, %opt) = @$case;
    my $a = ask($method, $path, %opt);

    is(told($a), $want, "$method $path");
    is("$a->{end}{decision} $a->{end}{reason}",
       "$a->{rec}{decision} $a->{rec}{reason}", '... and in the completion');
    is(scalar(Echo::field($a, 'X-Auth')), 'bearer-secret',
       '... with the secret');
    is($a->{rec}{credential}, 'swapped', '... which the record tells');

    my ($fields) = Echo::field($a, 'X-Fields');
    like($fields, qr/ mo= /, '... and without the override') if $opt{headers};
}

like($g->log('told.log'), qr/^would_deny tool_refused$/m, 'the variables');
like($g->log('error.log'), qr/\[warn\].*"mode report": what policy would refuse is let through/,
     'a warning at load');


# --- what is refused all the same ---------------------------------------------

for my $case (
    ['BREW', '/api/x', 403, 'class_unknown'],
    ['BREW', '/api/x?_method=GET', 403, 'method_refused'],
    ['BREW', '/api/never', 403, 'class_unknown'],
    ['POST', '/api//x', 403, 'path_refused'],
    ['POST', '/api/x/../y', 403, 'path_refused'],
    ['GET', '/spare/x', 403, 'binding_refused'],
    ['POST', '/spare/x', 403, 'binding_refused'],
    ['POST', '/api/mcp', 400, 'malformed_request', call('erase'),
     headers => ['Mcp-Method: tools/list']],
    ['POST', '/api/mcp', 403, 'class_unknown', json => 1, body => '[]'],
    ['POST', '/api/graphql', 403, 'class_unknown', query('{')],
    ['POST', '/api/graphql?_method=GET', 403, 'class_unknown',
     query('{x}')],
    ['POST', '/api/graphql', 415, 'body_unsupported', query('mutation{x}'),
     headers => ['Content-Encoding: gzip']],
    ['POST', '/api/x', 403, 'upgrade_refused',
     headers => ['Upgrade: websocket', 'Connection: upgrade']],
    ['POST', '/gh/x', 403, 'foreign_credential', anonymous => 1,
     headers => ['Authorization: Bearer my-own']],
    ['POST', '/api/x', 502, 'loop', headers => ['Via: 1.1 egress-1']],
)
{
    my ($method, $path, $status, $reason, %opt) = @$case;
    my $a = ask($method, $path, %opt);

    is("$a->{status} $a->{rec}{decision} $a->{rec}{reason}",
       "$status deny $reason", "$method $path: $reason");
    like($a->{head}, qr/^Proxy-Status: .*details="$reason: /m,
         '... told in Proxy-Status');
}

is(told(ask('POST', '/soon/x')), '200 would_deny write_refused write []',
   'a write, while the secret is there');

unlink $soon;

my $a = ask('POST', '/soon/x');
is("$a->{status} $a->{rec}{decision} $a->{rec}{reason}",
   '403 deny credential_missing', '... and once it is gone');


# --- destinations -------------------------------------------------------------

my $established = "HTTP/1.1 200 Connection established\r\n\r\n";

# sends a preamble, then a ClientHello: what came back, and the first record

sub destination {
    my ($preamble, $opened, $hello) = @_;

    my $before = () = $g->audit;
    my $s = $g->socket;
    my $got = '';

    if (length $preamble) {
        $g->put($s, $preamble);
        ($got) = $g->get($s, qr/$opened|\}\n$/);
    }

    if ($got eq '' || $got =~ $opened) {
        $g->put($s, $hello);
        $got = $g->get($s, qr/./s);
        shutdown $s, 1;
        $g->get($s);
    }

    my $records = sub { my @r = $g->audit; @r[$before .. $#r] };
    my @r;

    for (1 .. 250) {
        @r = $records->();
        last if @r && ($r[0]{decision} eq 'deny' || @r > 1);
        sleep 0.01;
    }

    return ($got, @r);
}

sub tunnel {
    my ($to, $hello) = @_;
    my ($name) = $to =~ /^(.*):/;
    return destination("CONNECT $to HTTP/1.1\r\n\r\n", qr/^\Q$established\E/,
                       $hello // Stream::hello($name));
}

sub facts { return join ' ', map { $_ // '-' } @{ $_[0] }{qw(event decision reason host)} }

SKIP: {
    skip 'no network namespace of our own', 18 if !$ENV{EGRESS_REPORT_NET};

    my $up = $g->recorder('9.9.9.9', 0, 'hi') or die 'recorder';
    my $to = $up->{port};

    my ($got, $one, $end) = tunnel("any.test:$to");
    is($got, 'hi', 'CONNECT to a name that is not allowed: passed through');
    is(facts($one), 'connection would_deny destination_refused any.test',
       '... told as what it would be');
    is(facts($end), 'completion would_deny destination_refused any.test',
       '... at its end, too');
    is($one->{port}, $to, '... at its port');
    is($end->{upstream_addr}, "9.9.9.9:$to", '... where it went');

    ($got, $one) = tunnel("9.9.9.9:$to", 'SSH-2.0-x');
    is($got, 'hi', 'an address that is not allowed, any protocol');
    is(facts($one), 'connection would_deny destination_refused 9.9.9.9',
       '... told as what it would be');

    ($got, $one) = destination("\x05\x01\x00\x05\x01\x00\x03\x08any.test"
                               . pack('n', $to), qr/^\x05\x00\x05\x00/,
                               Stream::hello('any.test'));
    is($got, 'hi', 'SOCKS5');
    is(facts($one), 'connection would_deny destination_refused any.test',
       '... told as what it would be');

    ($got, $one) = tunnel("any.test:$to", Stream::hello('other.test'));
    is(facts($one), 'connection deny host_mismatch any.test',
       'another name within: refused all the same');

    ($got, $one) = tunnel("any.test:$to", "GET / HTTP/1.1\r\n\r\n");
    is(facts($one), 'connection deny plain_http any.test',
       'plain HTTP within: refused all the same');

    # at 443: the name decides where it is one of ours, else the address

    my $tls = $g->recorder('9.9.9.9', 443, 'hi') or die 'recorder';

    ($got, $one) = tunnel('9.9.9.9:443', Stream::hello('any.test'));
    is($got, 'hi', 'an address, with the name of nobody we know');
    is(facts($one), 'connection would_deny destination_refused 9.9.9.9',
       '... is the address');

    ($got) = tunnel('9.9.9.9:443', Stream::hello('api.test'));
    like($got, qr/^\x16\x03\x03/, '... with a bound name: the terminator');

    ($got, $one) = destination('', qr/./, Stream::hello('any.test'));
    is($got, 'hi', 'bare TLS');
    is(facts($one), 'connection would_deny destination_refused any.test',
       '... told as what it would be');

    like($g->log('stream.log'), qr/^\S+ connect any.test would_deny destination_refused /m,
         'the variables');

    is(scalar(grep { /^hi|total/ } $g->recorded($up)), 0,
       'nothing of ours has come back to it');
}

for my $case (
    ['inner.test:443', 'address_refused', 'a name at a private address'],
    ['10.1.1.1:22', 'address_refused', 'a private address'],
    ['127.0.0.9:22', 'address_refused',
     'what allow_private lifts is lifted for what is allowed only'],
    ['169.254.169.254:80', 'address_refused', 'metadata'],
    ['gone.test:443', 'dns_error', 'a name that is not there'],
    ['spare.test:443', 'binding_refused', 'a binding of others'],
    ['api.test:22', 'destination_refused',
     'a bound name is never passed through'],
)
{
    my ($to, $reason, $name) = @$case;
    my ($got, $one) = tunnel($to);

    like($got, qr/^HTTP\/1.1 [45].* details="$reason: /s,
         "$name: $reason");
    is("$one->{decision} $one->{reason}", "deny $reason", '... the record');
}

is(join('', $g->stop), '', 'nothing in the logs that should not be there');


# --- of a role alone ----------------------------------------------------------

my $boxes = Fixture::dir() . '/sandboxes';
mkdir $boxes;
chmod 0755, $boxes;

for my $id (qw(trial strict)) {
    Fixture::write_file("$boxes/$id.json", qq({"role":"$id"}), 0640);
    chown -1, $gid, "$boxes/$id.json";
}

for my $case (
    ['', 'role trial { mode report; use api; } role strict { use api; }'],
    ['mode report;', 'role strict { mode enforce; use api; } role trial { use api; }'],
    ['mode enforce;', 'role strict { use api; } role trial { use api; mode report; }'],
)
{
    my ($mode, $roles) = @$case;
    my ($trial, $strict) = (Fixture::free_port(), Fixture::free_port());

    $bindings =~ s/^    binding soon.*?^    \}\n//ms;

    $g = Stream->start(bindings => $bindings, http => <<"HTTP",
    server { listen 127.0.0.1:$trial; egress_sandbox trial;
             location /api/ { egress_pass api; } }
    server { listen 127.0.0.1:$strict; egress_sandbox strict;
             location /api/ { egress_pass api; } }
HTTP
                       egress => "sandboxes $boxes; $mode $roles");

    $port = $trial;
    is(told(ask('POST', '/api/x')), '200 would_deny write_refused write []',
       "a role that reports ($mode)");

    $port = $strict;
    is(told(ask('POST', '/api/x')), '403 deny write_refused write []',
       '... beside one that does not');

    like($g->log('error.log'), $mode eq 'mode report;'
         ? qr/\[warn\].*"mode report": what/
         : qr/\[warn\].*"mode report" in role "trial": what .* in .*nginx\.conf:\d+/,
         '... with a warning');

    is(join('', $g->stop), '', 'the logs');
}

# without a resolver there is nowhere to go to

$g = Stream->start(bindings => $bindings, role => 'use api;',
                   egress => 'mode report;');

my ($got, $one) = tunnel('any.test:443');
is(facts($one), 'connection deny destination_refused any.test',
   'without a resolver: refused');

is(join('', $g->stop), '', 'the logs');

done_testing();
