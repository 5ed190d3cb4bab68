# A client of the official MCP SDK through the gateway: it may list and read everything, and call the tools that the rule
# names. The stand-in's record decides: a call that is refused never arrived.
#
#     prove t/clients/mcp.t           KEEP=1: leave the directory with logs and outputs
#
# The SDK is installed once, below the build directory.  EGRESS_MCP: a directory that has it already.

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use JSON::PP;
use Test::More;

my $lacks = Clients::lacks('node', 'npm', 'curl');
plan skip_all => "needs $lacks" if $lacks;

my $packages = $ENV{EGRESS_MCP} || Clients::packages('mcp', '@modelcontextprotocol/sdk@1', 'undici@7');
plan skip_all => 'the MCP SDK cannot be had here' unless $packages;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

my $g = Clients->start(
    services => { 'mcp.example.test' => 'mcp' },
    bindings => <<'CONF',
    binding tickets {
        hosts mcp.example.test;
        read POST = /mcp json_rpc tool=issue_read tool=issue_search;
        include @PRESETS@/mcp.conf;
    }
CONF
);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my $json = JSON::PP->new->canonical->allow_nonref;

note(`cd '$packages' && node -p '"SDK " + require("./node_modules/\@modelcontextprotocol/sdk/package.json").version + ", node " + process.version'`);

# what came of each step

sub steps {
    my (@steps) = @_;
    $g->mark;
    my ($rc, $out) = $g->client({}, 'node', "$Bin/lib/mcp_client.js", $packages, 'https://mcp.example.test/mcp', $P, @steps);
    my @got = map { eval { $json->decode($_) } || { step => $_ } } split /\n/, $out;
    is($rc, 0, "@steps") or diag($out);
    return map { $_->{step} => $_ } @got;
}

sub arrived { return map { $_->{operation} // $_->{method} } $g->seen }

my %got = steps(qw(tools call:issue_read call:issue_search resources read prompts ping close));

is($got{connect}{got}, 'stand-in', 'initialize') or diag($json->encode($got{connect}));
my %want = (
    tools => [qw(issue_read issue_search issue_delete)], 'call:issue_read' => 'issue_read of 7 done', prompts => ['ask'],
    'call:issue_search' => 'issue_search of 7 done', resources => ['note://1'], read => 'what the note says', ping => {},
    close => 'ended',
);
is($json->encode($got{$_}{got}), $json->encode($want{$_}), "$_: the answer") or diag($json->encode($got{$_})) for sort keys %want;

my @seen = $g->seen;
is(join(' ', sort grep { !/^GET$/ } arrived()), join(' ', sort 'initialize', 'notifications/initialized', 'tools/list',
    'tools/call issue_read', 'tools/call issue_search', 'resources/list', 'resources/read', 'prompts/list', 'ping', 'DELETE'),
    'this arrived, and nothing else');
is((grep { $_->{authorization} ne "Bearer $g->{secret}" } @seen), 0, 'each with the token');

# a tool that is not in the rule, and methods that nobody knows: what the SDK makes of it is an error with our sentence

%got = steps(qw(call:issue_delete call:Issue_read call:issue_read2 other:tasks/delete other:tools/call tools));

for my $step (qw(call:issue_delete call:Issue_read call:issue_read2)) {
    like($got{$step}{error}, qr/Error POSTing to endpoint.*"error".*tool_refused/, "$step: refused, and why") or diag($json->encode($got{$step}));
    is($got{$step}{code}, 403, "$step: the status");
}
isnt($got{'other:tasks/delete'}{error}, undef, 'a method that nobody knows: refused');
isnt($got{'other:tools/call'}{error}, undef, 'a call of no tool: refused');
is(scalar @{$got{tools}{got} || []}, 3, 'the session goes on after it');
is(join(' ', sort grep { !/^GET$/ } arrived()), 'initialize notifications/initialized tools/list', 'none of them arrived');

# an answer to a refused call is of that call

my ($rc, $out) = $g->client({}, 'curl', '-q', '-sS', '-i', '-H', "Authorization: Bearer $P", '-H', 'Content-Type: application/json',
    '-d', '{"jsonrpc":"2.0","id":"q-17","method":"tools/call","params":{"name":"issue_delete","arguments":{}}}',
    'https://mcp.example.test/mcp');
my ($body) = $out =~ /\r\n\r\n(\{.*)\z/s;
my $error = eval { $json->decode($body) } || {};
like($out, qr/^HTTP\/\S+ 403/m, 'by curl: 403');
is($error->{id}, 'q-17', 'the id of the request is in the answer') or diag($out);
is($error->{jsonrpc}, '2.0', 'which is JSON-RPC');
like($error->{error}{message}, qr/tool_refused/, 'and tells why');

$g->mark;
for my $case (
    ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"issue_delete"}}]'],
    ['two methods', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"issue_delete"}}'],
    ['two names', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"issue_read","name":"issue_delete"}}'],
    ['another header', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"issue_delete"}}', '-H', 'Mcp-Name: issue_read'],
) {
    my ($what, $message, @more) = @$case;
    ($rc, $out) = $g->client({}, 'curl', '-q', '-sS', '-o', '/dev/null', '-w', '%{http_code}', '-H', "Authorization: Bearer $P",
        '-H', 'Content-Type: application/json', @more, '-d', $message, 'https://mcp.example.test/mcp');
    like($out, qr/^4\d\d$/, "$what: refused");
    isnt($out, 401, "$what: by the gateway");
}
is(scalar $g->seen, 0, 'nothing of this arrived');

$g->finish;
done_testing();
