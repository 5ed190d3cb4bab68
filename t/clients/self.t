# A bare sandbox that sets itself up by one line:
#
#     eval "$(curl -fsS http://<sandbox>:<token>@gateway:3128/env)"
#
# It lives in a network namespace of its own, whose only neighbour is the gateway: no route, no name server, no file of the
# gateway. What the stand-in recorded decides, as in github.t.
#
#     prove t/clients/self.t
#
# As root. EGRESS_MODULES: directory with the modules (build/modules).  KEEP=1: leave the directory with logs and outputs.

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Digest::SHA qw(sha256_hex);
use Gateway;
use JSON::PP;
use MIME::Base64;
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(sleep time);

my $lacks = Gateway::lacks();
plan skip_all => "needs $lacks" if $lacks;
plan skip_all => 'needs root' if $> != 0;

for my $tool (qw(ip unshare nsenter setpriv)) {
    plan skip_all => "needs $tool" unless Gateway::which($tool);
}

# everything below happens in a network of our own: nothing of the machine's is changed

if (!$ENV{EGRESS_SELF_NS}) {
    plan skip_all => 'network namespaces are refused here' if system('unshare --net true 2>/dev/null') != 0;
    $ENV{EGRESS_SELF_NS} = 1;
    exec 'unshare', '--net', $^X, '-I', "$Bin/lib", $0, @ARGV or die "unshare: $!";
}

$SIG{INT} = $SIG{TERM} = sub { exit 1 };
$SIG{PIPE} = 'IGNORE';

my ($sandbox, $g);
my $user = $ENV{EGRESS_USER} || 'www-data';

END {
    local $?;
    if ($sandbox) { kill 'KILL', $sandbox; waitpid $sandbox, 0 }
    $g->stop if $g;
}

system('ip link set lo up') == 0 or plan skip_all => 'no ip link';

defined($sandbox = fork) or die "fork: $!";
exec 'unshare', '--net', 'sleep', 600 or POSIX::_exit(127) if $sandbox == 0;

for (1 .. 100) {
    last if readlink("/proc/$sandbox/ns/net") ne readlink('/proc/self/ns/net');
    sleep 0.05;
}

my @in = ('nsenter', "--net=/proc/$sandbox/ns/net");

for my $command ("ip link add gw0 type veth peer name sb0 netns $sandbox", 'ip address add 192.0.2.1/30 dev gw0',
    'ip link set gw0 up', "@in ip link set lo up", "@in ip address add 192.0.2.2/30 dev sb0", "@in ip link set sb0 up")
{
    system("$command 2>/dev/null") == 0 or plan skip_all => "refused here: $command";
}

# git decodes the password of a proxy twice: behind "%" no two hex digits may stand

my $token = Gateway::random_token('t@:/%-');

$g = Self->start;

my $dir = $g->{dir};
my $P = $g->{placeholder};
my $S = $g->{secret};
my $json = JSON::PP->new->latin1->canonical;

for my $made (qw(box home work)) {
    mkdir "$dir/$made";
    chown((getpwnam $user)[2, 3], "$dir/$made");
}
chmod 0755, $dir;

(my $percent = $token) =~ s/([^A-Za-z0-9._~-])/sprintf '%%%02X', ord $1/ge;
my $url = "http://192.0.2.1:3128";
my $mine = "http://box1:$percent\@192.0.2.1:3128";
my $line = qq(eval "\$(curl -fsS $mine/env)" || exit 99;);

# a command in the sandbox, which has nothing in its environment but a home

sub bare {
    my ($command) = @_;

    return $g->run({}, @in, 'setpriv', "--reuid=$user", "--regid=$user", '--clear-groups',
        '--inh-caps=-all', '--bounding-set=-all', '--no-new-privs', 'env', '-i', "PATH=$ENV{PATH}", "HOME=$dir/box",
        'sh', '-c', "cd '$dir/work'; $command");
}

sub within { return bare("$line $_[0]") }

sub basic { 'Basic ' . encode_base64($_[0], '') }


# --- nothing works before --------------------------------------------------------------------------

my ($status, $out) = bare('curl -sS --max-time 5 https://api.github.com/user');
isnt($status, 0, 'a bare sandbox reaches nothing') or diag($out);

($status, $out) = bare("curl -sS --max-time 5 http://192.0.2.1:" . (split /:/, $g->{upstream})[1]);
isnt($status, 0, 'but the gateway') or diag($out);

($status, $out) = bare("curl -sS -o /dev/null -w '%{http_code}' $url/env");
is($out, '407', 'which wants to know who asks');

($status, $out) = bare("curl -sS -o /dev/null -w '%{http_code}' http://box1:x\@192.0.2.1:3128/env");
is($out, '403', 'and is not content with anything');


# --- one line ---------------------------------------------------------------------------------------

my $placed = "$dir/box/.egress-ca.pem";

($status, $out) = within('echo "$HTTPS_PROXY $SSL_CERT_FILE $GH_TOKEN"');
is($out, "$mine $placed $P\n", 'one line: proxy, certificates, placeholder');
ok(-s $placed, 'the bundle is there');

$g->mark;
($status, $out) = within('curl -sS -w "%{http_connect} %{http_code}" -o /dev/null -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user');
is($out, '200 200', 'curl');
is(join(',', map { $_->{authorization} } $g->seen), "Bearer $S", 'with the token');

$g->mark;
($status, $out) = within('git clone -q https://github.com/octo/private.git cloned && git -C cloned log --oneline | head -1');
is($status, 0, 'git clone') or diag($out);
ok((grep { $_->{authorization} eq basic("x-access-token:$S") } $g->seen), 'with the token, from the credential helper');

($status, $out) = within('cd cloned && git fetch -q');
is($status, 0, 'git fetch') or diag($out);

$g->mark;
($status, $out) = within('cd cloned && git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m x && git push -q origin HEAD:refs/heads/x');
isnt($status, 0, 'git push is refused');
like($out, qr/write_refused/, 'and says why') or diag($out);
is(scalar $g->seen, 0, 'nothing arrived');

my $python = <<'PY';
import os, urllib.request
r = urllib.request.Request('https://api.github.com/user', headers={'Authorization': 'token ' + os.environ['GH_TOKEN']})
print(urllib.request.urlopen(r, timeout=20).status)
PY
$g->mark;
Gateway::spew("$dir/work/get.py", $python, 0644);
($status, $out) = within('python3 get.py');
is($out, "200\n", 'python3 urllib');
is(join(',', map { $_->{authorization} } $g->seen), "token $S", 'with the token');

SKIP: {
    skip 'no gh', 2 unless Gateway::which('gh');
    $g->mark;
    ($status, $out) = within('gh api user');
    is($status, 0, 'gh api') or diag($out);
    ok((grep { $_->{authorization} eq "token $S" } $g->seen), 'with the token');
}

SKIP: {
    my ($major, $minor) = `node --version 2>/dev/null` =~ /^v(\d+)\.(\d+)/;
    skip 'no node that knows NODE_USE_ENV_PROXY', 2 unless $major && ($major >= 24 || $major == 22 && $minor >= 21);
    $g->mark;
    Gateway::spew("$dir/work/get.js", "fetch('https://api.github.com/user', { headers: { Authorization: 'Bearer ' + process.env.GH_TOKEN } }).then(r => console.log(r.status));\n", 0644);
    ($status, $out) = within('node get.js');
    is($out, "200\n", 'node fetch');
    is(join(',', map { $_->{authorization} } $g->seen), "Bearer $S", 'with the token');
}

SKIP: {
    skip 'no npm', 1 unless Gateway::which('npm');
    $g->mark;
    within('npm ping --registry https://tracker.example.test/ --no-update-notifier');
    ok((grep { $_->{host} eq 'tracker.example.test' } $g->seen), 'npm');
}

SKIP: {
    skip 'no go', 2 unless Gateway::which('go');
    $g->mark;
    Gateway::spew("$dir/work/get.go", <<'GO', 0644);
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	r, _ := http.NewRequest("GET", "https://api.github.com/user", nil)
	r.Header.Set("Authorization", "Bearer "+os.Getenv("GH_TOKEN"))
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(a.StatusCode)
}
GO
    ($status, $out) = within('go run get.go');
    is($out, "200\n", 'go');
    is(join(',', map { $_->{authorization} } $g->seen), "Bearer $S", 'with the token');
}

($status, $out) = within('curl -sS -o /dev/null -w "%{http_connect}" https://not-allowed.example/');
like($out, qr/403$/, 'any other host is refused');


# --- what it may ask later, with the proxy set -----------------------------------------------------------

($status, $out) = within("curl -fsS $mine/policy.json");
my $policy = eval { $json->decode($out) } || {};
is_deeply([map { $_->{name} } @{ $policy->{bindings} || [] }], [qw(github tracker)], 'policy.json: what it may do') or diag($out);
is_deeply($policy->{bindings}[0]{credentials}[0]{environment}, ['GH_TOKEN', 'GITHUB_TOKEN'], 'and by which variable');

# the file of the sandbox is what lets it in, and is looked at once a second

unlink "$dir/sandboxes/box1.json";

for (1 .. 50) {
    ($status, $out) = bare("curl -sS -o /dev/null -w '%{http_code}' $mine/env");
    last if $out ne '200';
    sleep 0.1;
}

is($out, '403', 'removed: nothing is told any more');


# --- nothing has leaked --------------------------------------------------------------------------------

my @files = grep { -f } map { glob "$dir/$_" } qw(logs/* out/* box/.egress-ca.pem work/*);
is_deeply([Gateway::search(Gateway::shapes($S), @files)], [], 'the secret is in no log and no output');
is_deeply([Gateway::search({ token => $token, percent => $percent }, grep { -f } glob "$dir/logs/*")], [],
    "the sandbox's token is in no log");

done_testing;


package Self;

use strict;
use warnings;

our @ISA;
BEGIN { @ISA = ('Gateway') }

sub configure {
    my ($self, $user) = @_;

    my $dir = $self->{dir};
    my $modules = Gateway::modules();
    my $gid = (getpwnam($ENV{EGRESS_USER} || 'www-data'))[3];
    my $stream = '/usr/lib/nginx/modules/ngx_stream_module.so';
    my $load = -e $stream ? "load_module $stream;" : '';

    $modules = Cwd::abs_path($modules);

    mkdir "$dir/sandboxes";
    chmod 0755, "$dir/sandboxes";
    Gateway::spew("$dir/sandboxes/box1.json", JSON::PP->new->encode({ token_sha256 => Digest::SHA::sha256_hex($token) }), 0640);
    chown -1, $gid, "$dir/sandboxes/box1.json";

    Gateway::spew("$dir/nginx.conf", <<"CONF");
$load
load_module $modules/ngx_http_egress_module.so;
load_module $modules/ngx_stream_egress_module.so;

$user
worker_processes 1;
worker_shutdown_timeout 5s;
pid $dir/nginx.pid;
error_log $dir/logs/error.log info;

events { }

egress {
    name egress-test;
    ca $dir/ca/ca.pem $dir/ca/ca.key;
    trusted_certificate $dir/standin/ca.pem;
    audit_log $dir/logs/egress.json;
    sandboxes $dir/sandboxes;
    self_url http://192.0.2.1:3128;

    binding github {
        include $dir/bindings/github.conf;
        placeholder file:$dir/placeholder;
        secret $dir/secrets/github;
        upstream https://$self->{upstream};
    }

    binding generic {
        hosts git.example.test;
        git on;
        placeholder placeholder-of-another;
        secret $dir/secrets/github;
        upstream https://$self->{upstream};
    }

    binding tracker {
        hosts tracker.example.test;
        upstream https://$self->{upstream};
    }

    role default { use github tracker; }
}

http {
    client_body_temp_path $dir/tmp/body;
    proxy_temp_path $dir/tmp/proxy;
    fastcgi_temp_path $dir/tmp/fastcgi;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;
    access_log $dir/logs/access.log;

    server {
        listen unix:$dir/logs/terminator.sock ssl;
        egress_terminate gateway;
        location / { egress_pass; }
    }

    server {
        listen unix:$dir/logs/self.sock;
        location / { egress_self; }
    }
}

stream {
    server {
        listen 192.0.2.1:3128;
        egress_gateway unix:$dir/logs/terminator.sock self=unix:$dir/logs/self.sock;
    }
}
CONF
}
