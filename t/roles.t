# What a role may do with a binding: DESIGN 5.3, "restrict"; and the SAM scene

use strict;
use warnings;

use lib 't/fixture';
use Echo;
use Fixture;
use JSON::PP;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);
use Wire;

my $json = JSON::PP->new->utf8->canonical;
my $clear = $ENV{TEST_NGINX_CLEAR_PORT};
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $boxes = Fixture::dir() . '/sandboxes';
my $wire = Wire->listen;

mkdir $boxes;
chmod 0755, $boxes;

# a sandbox for each role, and a listener for each sandbox

my %role = (
    plain => 'use api; use gh mcp;',
    reader => 'restrict api { access read; }',
    writer => 'use api; restrict api { access write; }
               restrict gh { access write; }',
    paths => 'restrict api {
                  allow GET /a;
                  allow GET,POST = /b;
                  allow * ~ ^/c/[0-9]+$;
                  allow GET /q/x;
              }',
    hosts => 'restrict api {
                  allow GET /all;
                  host other.test { allow GET /only; }
                  host api.test:8443 third.test { allow POST /few; }
                  host other.test { allow GET /more; }
              }',
    both => 'restrict api { access read; allow POST,GET /a; }',
    repos => 'restrict gh { repos google/sam google/other; }',
    every => 'restrict gh { repos all; }',
    listed => 'restrict listed { repos google/sam#7 evil/one; }',
    tools => 'restrict mcp { access read; }',
    graph => 'restrict gh { allow POST = /graphql; repos google/sam; }',
    sam => 'restrict gh { allow GET /repos/google/sam/; }
            use model;
            restrict mcp { allow POST = /mcp; }',
    nothing => 'network none;',
);

my %port = map { $_ => Fixture::free_port() } keys %role;

for my $id (keys %role) {
    Fixture::write_file("$boxes/$id.json", qq({"role":"$id"}), 0640);
    chown -1, $gid, "$boxes/$id.json";
}

my $bindings = <<"CONF";
    sandboxes $boxes;
    secret_check 0;
    binding api {
        hosts other.test api.test api.test:8443 third.test;
        upstream http://127.0.0.1:$clear;
        access write;
        refuse GET /a/never;
        encoded_slash on;
    }
    binding gh {
        hosts api.github.com;
        upstream http://127.0.0.1:${\$wire->port};
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $ENV{TEST_NGINX_PLACEHOLDER};
        pass_headers Accept Content-Type User-Agent;
        git on segments=2;
        repo ~ ^/repos/([^/]+)/([^/]+);
        repo ~ ^/repositories/([0-9]+);
        repo_free GET = /user;
        read POST = /graphql graphql;
    }
    binding listed {
        hosts listed.test;
        upstream http://127.0.0.1:$clear;
        repo ~ ^/repos/([^/]+)/([^/]+);
        repo ~ ^/repositories/([0-9]+);
        repos google/sam#7 google/two#8;
    }
    binding mcp {
        hosts mcp.test;
        upstream http://127.0.0.1:$clear;
        access write;
        read POST = /mcp json_rpc tool=search;
    }
CONF

my $model = <<"CONF";
    binding model {
        hosts model.test;
        upstream http://127.0.0.1:$clear;
        read POST = /v1/chat;
    }
CONF

my $roles = join '', map { "role $_ { $role{$_} }\n" } sort keys %role;

# one more listener ends TLS, for the host blocks

my $tls = Fixture::free_port();

my $servers = join '', map { <<"HTTP" } sort keys %port;
    server {
        listen 127.0.0.1:$port{$_};
        egress_sandbox $_;
        location /api/ { egress_pass api; }
        location /gh/ { egress_pass gh; }
        location /listed/ { egress_pass listed; }
        location /mcp/ { egress_pass mcp; }
        location /model/ { egress_pass model; }
    }
HTTP

my $g = Stream->start(egress => $roles . $bindings, bindings => $model,
                      http => <<"HTTP");
    $servers
    server {
        listen 127.0.0.1:$tls ssl;
        egress_terminate on;
        egress_sandbox hosts;
        location / { egress_pass; }
    }
HTTP

# "METHOD path" by a role: the status, the reason and the rule of the record

sub ask {
    my ($role, $method, $path, %opt) = @_;

    my $before = () = $g->audit;
    my @body = defined $opt{body} ? ('Content-Length: ' . length $opt{body})
                                  : ();
    my $s = Echo::begin($port{$role}, $path, method => $method,
                        headers => [@body, @{ $opt{headers} || [] }]);

    syswrite $s, $opt{body} if defined $opt{body};

    if ($opt{wire}) {
        my $u = $wire->accept;
        $opt{wire}->($u) if $u;
    }

    my $got = '';
    1 while sysread $s, $got, 1 << 20, length $got;

    my $a = Echo::parse($got, $method);
    my $rec = {};

    for (1 .. 250) {
        my @records = $g->audit;
        ($rec) = grep { $_->{event} eq 'decision' } @records[$before .. $#records];
        last if $rec;
        sleep 0.01;
    }

    return { %$a, rec => $rec };
}

sub told {
    my ($a) = @_;

    my ($said) = $a->{head} =~ /^Proxy-Status: .*details="(\w+):/m;

    return join ' ', $a->{status}, $a->{rec}{reason},
           !defined $said || $said eq $a->{rec}{reason} ? () : "($said)",
           map { "[$_]" } $a->{rec}{rule} // '';
}

sub answer { $_[0]->head; $_[0]->put("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok") }


# --- a table ------------------------------------------------------------------

my $rpc = sub {
    my ($name) = @_;
    return (body => $json->encode({ jsonrpc => '2.0', id => 1,
                                    method => 'tools/call',
                                    params => { name => $name } }),
            headers => ['Content-Type: application/json']);
};

my @table = (
    # without "restrict" the binding is all there is
    ['plain', 'POST', '/api/x', '200 allowed []'],
    ['plain', 'GET', '/model/x', '403 binding_refused []'],
    ['nothing', 'GET', '/api/x', '403 binding_refused []'],

    # it includes "use"; access is the lesser of both
    ['reader', 'GET', '/api/x', '200 allowed []'],
    ['reader', 'POST', '/api/x', '403 write_refused [restrict api]'],
    ['reader', 'GET', '/gh/user', '403 binding_refused []'],
    ['writer', 'POST', '/api/x', '200 allowed []'],
    ['writer', 'POST', '/gh/x', '403 write_refused []'],

    # with any "allow", only what one matches
    ['paths', 'GET', '/api/a', '200 allowed [allow GET /a]'],
    ['paths', 'GET', '/api/a/deep/er?x=1', '200 allowed [allow GET /a]'],
    ['paths', 'GET', '/api/ab', '403 rule_refused [restrict api]'],
    ['paths', 'GET', '/api/A', '403 rule_refused [restrict api]'],
    ['paths', 'HEAD', '/api/a', '403 rule_refused [restrict api]'],
    ['paths', 'POST', '/api/a', '403 rule_refused [restrict api]'],
    ['paths', 'POST', '/api/b', '200 allowed [allow GET,POST = /b]'],
    ['paths', 'POST', '/api/b/', '403 rule_refused [restrict api]'],
    ['paths', 'PUT', '/api/b', '403 rule_refused [restrict api]'],
    ['paths', 'DELETE', '/api/c/12', '200 allowed [allow * ~ ^/c/[0-9]+$]'],
    ['paths', 'DELETE', '/api/c/x', '403 rule_refused [restrict api]'],

    # in the strict reading of the path
    ['paths', 'GET', '/api/q%2Fx', '403 rule_refused [restrict api]'],
    ['paths', 'GET', '/api/q/x', '200 allowed [allow GET /q/x]'],

    # a role never widens: what the binding refuses comes first
    ['paths', 'GET', '/api/a/never', '403 rule_refused [refuse GET /a/never]'],
    ['paths', 'BREW', '/api/c/1', '403 class_unknown []'],
    ['both', 'POST', '/api/a', '403 write_refused [restrict api]'],
    ['both', 'GET', '/api/a', '200 allowed [allow POST,GET /a]'],
    ['both', 'GET', '/api/b', '403 rule_refused [restrict api]'],

    # in base-URL mode the host is the first of the binding
    ['hosts', 'GET', '/api/all', '200 allowed [allow GET /all]'],
    ['hosts', 'GET', '/api/only', '200 allowed [allow GET /only]'],
    ['hosts', 'GET', '/api/more', '200 allowed [allow GET /more]'],
    ['hosts', 'POST', '/api/few', '403 rule_refused [restrict api]'],

    # both lists have to have the repository
    ['listed', 'GET', '/listed/repos/google/sam/x', '200 allowed []'],
    ['listed', 'GET', '/listed/repos/google/two/x', '403 repo_refused []'],
    ['listed', 'GET', '/listed/repos/evil/one/x', '403 repo_refused []'],
    ['listed', 'GET', '/listed/repositories/7', '200 allowed []'],
    ['listed', 'GET', '/listed/repositories/8', '403 repo_unknown []'],
    ['listed', 'GET', '/listed/x', '403 repo_unknown []'],
    ['repos', 'GET', '/gh/repos/google/three/x', '403 repo_refused []'],
    ['repos', 'GET', '/gh/repositories/7', '403 repo_unknown []'],
    ['repos', 'GET', '/gh/x', '403 repo_unknown []'],
    ['repos', 'GET', '/gh/google/three.git/info/refs?service=git-upload-pack',
     '403 repo_refused [git on segments=2]'],

    # tools: under "access write" every tool passes, but not for this role
    ['plain', 'POST', '/mcp/mcp', '200 allowed [read POST = /mcp json_rpc tool=search]', $rpc->('erase')],
    ['tools', 'POST', '/mcp/mcp', '200 allowed [read POST = /mcp json_rpc tool=search]', $rpc->('search')],
    ['tools', 'POST', '/mcp/mcp', '403 tool_refused [restrict mcp]', $rpc->('erase')],

    # what a query names, once its body was read
    ['graph', 'POST', '/gh/graphql', '403 repo_refused [read POST = /graphql graphql]',
     body => '{"query":"{repository(owner:\"evil\",name:\"x\"){id}}"}',
     headers => ['Content-Type: application/json']],
    ['graph', 'POST', '/gh/graphql', '403 write_refused [read POST = /graphql graphql]',
     body => '{"query":"mutation{x}"}',
     headers => ['Content-Type: application/json']],
);

for my $case (@table) {
    my ($role, $method, $path, $want, %opt) = @$case;

    is(told(ask($role, $method, $path, %opt)), $want, "$role: $method $path");
}

for my $case (
    ['repos', '/gh/repos/Google/SAM/x'], ['repos', '/gh/user'],
    ['repos', '/gh/google/sam.git/info/refs?service=git-upload-pack'],
    ['every', '/gh/repos/google/three/x'],
)
{
    my ($role, $path) = @$case;

    like(told(ask($role, 'GET', $path, wire => \&answer)), qr/^200 allowed /,
         "$role: GET $path");
}

like(told(ask('graph', 'POST', '/gh/graphql', wire => \&answer,
              body => '{"query":"{repository(owner:\"google\",name:\"sam\"){id}}"}',
              headers => ['Content-Type: application/json'])),
     qr/^200 allowed /, 'graph: a query for a repository on the list');

# refused by its header, a body is not waited for

my $s = Echo::begin($port{graph}, '/gh/graphqls', method => 'POST',
                    headers => ['Content-Length: 100']);
my $got = '';
Echo::until($s, \$got, qr/\r\n\r\n/);
like($got, qr/^HTTP\/1.1 403 /, 'a write that is refused at once');

my $a = ask('paths', 'POST', '/api/a');

is_deeply([@{ $json->decode($a->{body}) }{qw(reason binding rule)}],
          ['rule_refused', 'api', 'restrict api'], 'what a client is told');
is($a->{rec}{class}, 'write', 'the class is that of the binding');


# --- host blocks over TLS -----------------------------------------------------

for my $case (
    ['api.test', "GET /all", 200], ['api.test', "GET /only", 403],
    ['other.test', "GET /only", 200], ['other.test', "GET /more", 200],
    ['third.test', "POST /few", 200], ['third.test', "GET /only", 403],
    ['api.test', "POST /few", 403], ['api.test:8443', "POST /few", 200],
    ['api.test:8443', "GET /few", 403],
)
{
    my ($host, $line, $status) = @$case;
    my $w = Wire->tls($tls, $host =~ s/:.*//r);

    $w->put("$line HTTP/1.1\r\nHost: $host\r\nContent-Length: 0\r\n"
            . "Connection: close\r\n\r\n");

    is($w->answer->{status}, $status, "$line at $host");
    $w->close;
}


# --- a machine that may do little: the SAM scene ------------------------------

my $head;
my $keep = sub { $head = $_[0]->head; $_[0]->put("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok") };
my @more = ('X-Robot: r2', 'Cookie: a=b', 'Accept: application/json',
            'User-Agent: sam/1', 'X-GitHub-Api-Version: 2022-11-28',
            'Accept-Language: en', 'If-None-Match: "x"', 'Origin: https://x');

$a = ask('sam', 'GET', '/gh/repos/google/sam/pulls?state=open', wire => $keep,
         headers => \@more);
is(told($a), '200 allowed [allow GET /repos/google/sam/]',
   'GET below the repository');

is(join(' ', sort map { lc } $head =~ /^([\w-]+):/mg),
   'accept authorization host user-agent via',
   'no other field of the client is passed on, the credential is');
like($head, qr{^GET /repos/google/sam/pulls\?state=open HTTP/1.1\r\n},
     'the target');
like($head, qr/^Accept: application\/json\r\n/m, 'what it accepts');

for my $case (
    ['POST', '/gh/repos/google/sam/pulls', 'write_refused'],
    ['GET', '/gh/user', 'rule_refused'],
    ['GET', '/gh/repos/google/sam', 'rule_refused'],
    ['GET', '/gh/repos/google/samson/x', 'rule_refused'],
    ['GET', '/gh/repos/google/sam/../other/x', 'path_refused'],
    ['GET', '/gh/repos/google/sam/%2e%2e/other/x', 'path_refused'],
    ['GET', '/gh/repos/google/sam%2Fx', 'path_refused'],
    ['HEAD', '/gh/repos/google/sam/x', 'rule_refused'],
    ['POST', '/gh/graphql', 'rule_refused'],
    ['GET', '/api/x', 'binding_refused'],
)
{
    my ($method, $path, $reason) = @$case;

    $a = ask('sam', $method, $path);

    is("$a->{status} $a->{rec}{reason}", "403 $reason", "sam: $method $path");
    like($a->{head}, qr/^Proxy-Status: egress-1; error=http_request_denied; details="$reason: /m,
         '... told in Proxy-Status');
}

is(told(ask('sam', 'POST', '/model/v1/chat', body => '{}',
            headers => ['Content-Type: application/json'])),
   '200 allowed [read POST = /v1/chat]', 'the model');
is(told(ask('sam', 'POST', '/mcp/mcp', $rpc->('search'))),
   '200 allowed [allow POST = /mcp]', 'the MCP server');
is(told(ask('sam', 'POST', '/mcp/other', $rpc->('search'))),
   '403 rule_refused [restrict mcp]', 'nothing else there');

ok($wire->untouched, 'nothing that was refused has gone out');
is(Wire::leaks(), 0, 'no secret has come back');


# --- faulty configurations ----------------------------------------------------

my $dir = Fixture::dir();
my $modules = join ' ', map { "load_module $_;" }
              split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';

sub test_conf {
    my ($egress) = @_;

    my $file = Fixture::write_file('faulty.conf', <<"CONF");
$modules
pid $dir/faulty.pid;
events { }
egress {
    audit_log $dir/faulty.json;
    ca $dir/ca.pem $dir/ca.key;
    binding one { hosts one.test; upstream http://127.0.0.1:1; }
    $egress
    binding two { hosts two.test; upstream http://127.0.0.1:1; access write; }
}
CONF

    return scalar `$binary -t -p $dir -e stderr -c $file 2>&1`;
}

for my $case (
    ['restrict { }', qr/number of arguments in "restrict" directive/],
    ['restrict three { }', qr/unknown binding "three" in role "x" in .*:8\b/],
    ['restrict one { } restrict one { }',
     qr/duplicate "restrict one" in role "x"/],
    ['restrict one { access none; }', qr/invalid value "none"/],
    ['restrict one { access read; access read; }', qr/"access" directive is duplicate/],
    ['restrict one { allow GET; }', qr/number of arguments in "allow"/],
    ['restrict one { allow get /; }', qr/invalid method in "get"/],
    ['restrict one { allow GET x; }', qr/invalid pattern "x"/],
    ['restrict one { allow GET /x graphql; }', qr/invalid parameter "graphql"/],
    ['restrict one { allow GET ~ "("; }', qr/missing|unmatched/],
    ['restrict one { host two.test { allow GET /; } }',
     qr/"two.test:443" in "restrict one" of role "x" is no host of this binding in .*:8\b/],
    ['restrict one { host one.test:8443 { allow GET /; } }',
     qr/"one.test:8443" in "restrict one"/],
    ['restrict one { host one.test { } }', qr/no "allow" in "host one.test"/],
    ['restrict one { host 10.0.0.1 { allow GET /; } }', qr/invalid host "10.0.0.1"/],
    ['restrict one { host one.test { access read; } }',
     qr/"access" directive is not allowed here/],
    ['restrict one { read GET /; }', qr/"read" directive is not allowed here/],
    ['restrict one { repos all a/b; }', qr/has both "all" and a list/],
    ['restrict one { repos x; }', qr/invalid repository "x"/],
    ['allow GET /;', qr/"allow" directive is not allowed here/],
)
{
    my ($role, $error) = @$case;
    my $out = test_conf("role x { $role }");

    like($out, $error, $role);
    like($out, qr/test failed/, '... is refused');
}

# a role may stand before the binding, and its hosts

my $out = test_conf('role x { use one; restrict two { host two.test { allow GET /; } } }');
like($out, qr/test is successful/, 'a binding behind the role');
unlike($out, qr/warn/, '... without a warning');

$out = test_conf('role x { restrict one { access write; } }');
like($out, qr/\[warn\].*"access write" in "restrict one" of role "x" allows no writes.*:8\b/,
     'a role that seems to widen: a warning');
like($out, qr/test is successful/, '... and no more');

is(join('', $g->stop), '', 'nothing in the logs that should not be there');

done_testing();
