# Real clients tell the gateway who they are: the dialogue that begins with 407, or Basic credentials at once.
#
#     prove t/clients/proxy_auth.t
#
# What the stand-in recorded decides, as in github.t. A client that is not installed is skipped.
#
# EGRESS_MODULES: directory with the modules (build/modules).  KEEP=1: leave the directory with logs and outputs.

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Cwd ();
use Digest::SHA qw(sha256_hex);
use Gateway;
use JSON::PP;
use MIME::Base64;
use Test::More;

my $lacks = Gateway::lacks();
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };
$SIG{PIPE} = 'IGNORE';

my $token = Gateway::random_token('t@:/%-');
my $wrong = Gateway::random_token('w');
my $g;

END { local $?; $g->stop if $g }

$g = Proxy->start;

my ($dir, $P, $S) = @$g{qw(dir placeholder secret)};
my $bearer = "Authorization: Bearer $P";
my $user = 'https://api.github.com/user';

sub percent { my $text = shift; $text =~ s/([^A-Za-z0-9._~-])/sprintf '%%%02X', ord $1/ge; return $text }

sub proxy { return sprintf 'http://box1:%s@127.0.0.1:%d', percent($_[0]), $g->{gateway} }

sub records { return map { JSON::PP->new->decode($_) } split /\n/, Gateway::slurp("$dir/logs/egress.json") }

# what the gateway recorded of a piece of work

sub since {
    my ($n) = @_;
    my @all = records();
    return @all[$n .. $#all];
}

# One client with the right token and with a wrong one. "asks": it says nothing until it is asked, so that a 407 comes first.
# "anonymous": its request has no credential of its own.

sub works {
    my ($name, $asks, $work, $success, $anonymous) = @_;

    $g->mark;
    my $n = () = records();

    my ($status, $out) = $work->($token);
    like($out, $success, "$name: works") or diag($out);
    my $credential = $anonymous ? qr/^$/ : qr/\Q$S\E|\Q@{[encode_base64("x-access-token:$S", '')]}\E/;
    ok((grep { $_->{authorization} =~ $credential } $g->seen), "$name: arrived");

    my @reasons = map { $_->{reason} } since($n);
    my $asked = grep { $_ eq 'proxy_auth_required' } @reasons;
    is($asked > 0 ? 1 : 0, $asks, "$name: " . ($asks ? 'after a 407' : 'at once')) or diag("@reasons");

    $g->mark;
    $n = () = records();
    ($status, $out) = $work->($wrong);
    unlike($out, $success, "$name, a wrong token: does not work");
    is(scalar $g->seen, 0, "$name, a wrong token: nothing arrived");
    ok((grep { $_->{reason} eq 'sandbox_unknown' } since($n)), "$name, a wrong token: recorded");
}

my @curl = ('curl', '-q', '-sS', '--max-time', 20, '--cacert', "$dir/ca/ca.pem", '-o', '/dev/null', '-w', "%{http_code}\n", '-H',
    $bearer);

works('curl', 0, sub { $g->run({}, @curl, '--proxy', proxy($_[0]), $user) }, qr/^200$/m);

works('curl --proxy-anyauth', 1, sub { $g->run({}, @curl, '--proxy-anyauth', '--proxy', proxy($_[0]), $user) }, qr/^200$/m);

# git decodes the password twice: no "%" with two hex digits behind it is in it

works('git', 1, sub {
    my $to = 'cloned' . ++$g->{clones};
    my @helper = ('-c', "credential.helper=!f() { echo username=x-access-token; echo password=$P; }; f");
    my ($status, $out) = $g->run({ HTTPS_PROXY => proxy($_[0]) }, 'git', @helper, 'clone', '-q',
        'https://github.com/octo/private.git', $to);
    return ($status, -e "$dir/work/$to/.git/refs" && $status == 0 ? "cloned\n" : $out);
}, qr/^cloned$/m);

Gateway::spew("$dir/work/get.py", <<'PY');
import sys, urllib.request
r = urllib.request.Request(sys.argv[1], headers={'Authorization': sys.argv[2]})
print(urllib.request.urlopen(r, timeout=20).status)
PY

works('python urllib', 0, sub { $g->run({ HTTPS_PROXY => proxy($_[0]) }, 'python3', 'get.py', $user, "Bearer $P") }, qr/^200$/m);

SKIP: {
    skip 'no go', 6 unless Gateway::which('go');

    Gateway::spew("$dir/work/get.go", <<'GO');
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	r, _ := http.NewRequest("GET", os.Args[1], nil)
	r.Header.Set("Authorization", os.Args[2])
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(a.StatusCode)
}
GO

    my ($status, $out) = $g->run({ GOFLAGS => '-mod=mod', GO111MODULE => 'off' }, 'go', 'build', '-o', 'get', 'get.go');
    is($status, 0, 'go: built') or diag($out);
    works('go', 0, sub { $g->run({ HTTPS_PROXY => proxy($_[0]) }, './get', $user, "Bearer $P") }, qr/^200$/m);
}

# the agent that npm and most others use; it comes with npm

SKIP: {
    my $npm = Gateway::which('npm');
    my ($agent) = $npm ? Cwd::abs_path($npm) =~ s{[^/]+$}{../node_modules/https-proxy-agent}r : ();
    ($agent) = grep { -d } '/usr/share/nodejs/https-proxy-agent' unless $agent && -d $agent;
    skip 'no https-proxy-agent', 6 unless $agent && Gateway::which('node');

    Gateway::spew("$dir/work/get.js", <<'JS');
const [agent, proxy, url, authorization] = process.argv.slice(2);
const { HttpsProxyAgent } = require(agent);
require('https').get(url, { agent: new HttpsProxyAgent(proxy), headers: { authorization } },
    (r) => { console.log(r.statusCode); r.resume(); }).on('error', (e) => console.log(e.message));
JS

    works('node', 0, sub { $g->run({}, 'node', 'get.js', Cwd::abs_path($agent), proxy($_[0]), $user, "Bearer $P") }, qr/^200$/m);
}

# No variable and no property has the name and the token: the program does. HttpClient drops the Authorization of its requests
# once it has an Authenticator; without one, they can have a Proxy-Authorization, which goes with the CONNECT only.

SKIP: {
    skip 'no java', 20 unless Gateway::which('javac') && Gateway::which('keytool');

    Gateway::spew("$dir/work/Get.java", <<'JAVA');
import java.net.*;
import java.net.http.*;

public class Get {
    public static void main(String[] a) throws Exception {
        Authenticator who = new Authenticator() {
            protected PasswordAuthentication getPasswordAuthentication() {
                return getRequestorType() == RequestorType.PROXY
                    ? new PasswordAuthentication("box1", a[1].toCharArray()) : null;
            }
        };

        try {
            if (a[0].equals("client")) {
                HttpClient c = HttpClient.newBuilder().authenticator(who).proxy(ProxySelector.getDefault()).build();
                HttpRequest r = HttpRequest.newBuilder(URI.create(a[2])).build();
                System.out.println(c.send(r, HttpResponse.BodyHandlers.ofString()).statusCode());

            } else if (a[0].equals("header")) {
                HttpClient c = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build();
                HttpRequest r = HttpRequest.newBuilder(URI.create(a[2])).header("Authorization", a[3])
                    .header("Proxy-Authorization", "Basic "
                            + java.util.Base64.getEncoder().encodeToString(("box1:" + a[1]).getBytes())).build();
                System.out.println(c.send(r, HttpResponse.BodyHandlers.ofString()).statusCode());

            } else {
                Authenticator.setDefault(who);
                HttpURLConnection c = (HttpURLConnection) new URL(a[2]).openConnection();
                c.setRequestProperty("Authorization", a[3]);
                System.out.println(c.getResponseCode());
            }
        } catch (java.io.IOException e) {
            System.out.println(e.getMessage());
        }
    }
}
JAVA

    my ($status, $out) = $g->run({}, 'javac', '-d', '.', 'Get.java');
    is($status, 0, 'java: built') or diag($out);
    ($status, $out) = $g->run({}, 'keytool', '-importcert', '-noprompt', '-alias', 'egress', '-file', "$dir/ca/ca.pem",
        '-keystore', 'trust.p12', '-storepass', 'changeit');
    is($status, 0, 'java: its trust store') or diag($out);

    my $public = 'https://github.com/octo/public.git/info/refs?service=git-upload-pack';

    for (
        ['client', 'HttpClient', 1, $public],
        ['header', 'HttpClient with a field', 0, $user],
        ['connection', 'HttpURLConnection', 1, $user],
    ) {
        my ($how, $name, $asks, $url) = @$_;
        works("java, $name", $asks, sub {
            $g->run({}, 'java', '-cp', '.', '-Dhttps.proxyHost=127.0.0.1', "-Dhttps.proxyPort=$g->{gateway}",
                '-Djdk.http.auth.tunneling.disabledSchemes=', '-Djavax.net.ssl.trustStore=trust.p12',
                '-Djavax.net.ssl.trustStorePassword=changeit', 'Get', $how, $_[0], $url, "Bearer $P");
        }, qr/^200$/m, $how eq 'client');
    }
}

my @logs = grep { -f } map { glob "$dir/$_" } qw(logs/* out/*);
is_deeply([Gateway::search(Gateway::shapes($S), @logs)], [], 'the secret is in no log and no output');

my %who = (token => $token, percent => percent($token), base64 => encode_base64("box1:$token", ''), wrong => $wrong,
    'wrong, base64' => encode_base64("box1:$wrong", ''));
is_deeply([Gateway::search(\%who, grep { -f } glob "$dir/logs/*")], [], 'the credentials of a sandbox are in no log');
is_deeply([Gateway::search(\%who, "$dir/standin/record.log")], [], 'and were not sent on');

done_testing;


package Proxy;

use strict;
use warnings;

our @ISA;
BEGIN { @ISA = ('Gateway') }

sub configure {
    my ($self, $user) = @_;

    my $dir = $self->{dir};
    my $modules = Cwd::abs_path(Gateway::modules());
    my $gid = $> == 0 ? (getpwnam($ENV{EGRESS_USER} || 'www-data'))[3] : $) + 0;
    my $stream = '/usr/lib/nginx/modules/ngx_stream_module.so';
    my $load = -e $stream ? "load_module $stream;" : '';

    $self->{gateway} = Gateway::free_port();

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
pid $dir/nginx.pid;
error_log $dir/logs/error.log info;

events { }

egress {
    name egress-test;
    ca $dir/ca/ca.pem $dir/ca/ca.key;
    trusted_certificate $dir/standin/ca.pem;
    audit_log $dir/logs/egress.json;
    sandboxes $dir/sandboxes;

    binding github {
        include $dir/bindings/github.conf;
        placeholder file:$dir/placeholder;
        secret $dir/secrets/github;
        upstream https://$self->{upstream};
    }
}

http {
    client_body_temp_path $dir/tmp/body;
    proxy_temp_path $dir/tmp/proxy;
    fastcgi_temp_path $dir/tmp/fastcgi;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;
    log_format all escape=none '\$request | \$http_authorization | \$http_proxy_authorization';
    access_log $dir/logs/access.log all;

    server {
        listen unix:$dir/logs/terminator.sock ssl;
        egress_terminate gateway;
        location / { egress_pass; }
    }
}

stream {
    server {
        listen 127.0.0.1:$self->{gateway};
        egress_gateway unix:$dir/logs/terminator.sock;
    }
}
CONF
}
