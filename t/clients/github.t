# Real clients through the gateway to a stand-in for GitHub. What the stand-in recorded decides, not what a client was told:
# a read must have arrived with the real token, a page without any, a write not at all.
#
#     prove t/clients/github.t
#
# EGRESS_MODULES: directory with the module (build/modules).  KEEP=1: leave the directory with logs and outputs.

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Gateway;
use JSON::PP;
use MIME::Base64;
use Test::More;

my $lacks = Gateway::lacks();
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };
$SIG{PIPE} = 'IGNORE';

my $g = Gateway->start;
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my $S = $g->{secret};
my $ca = "$dir/ca/ca.pem";
my $json = JSON::PP->new->latin1->canonical;
my $repo = "$dir/standin/repos/octo/private.git";

sub basic { 'Basic ' . encode_base64($_[0], '') }

# the value that carries the secret where the client sent the same with the placeholder

sub swapped { my $v = shift; $v =~ s/\Q$P\E/$S/; return $v }


# --- (a) the vectors, byte for byte -------------------------------------------------------------

my @lines;
for my $file (qw(rest_github git)) {
    open my $f, '<', "$Bin/../data/vectors/$file.jsonl" or do { fail("vectors $file.jsonl: $!"); next };
    push @lines, map { $json->decode($_) } <$f>;
}
cmp_ok(scalar @lines, '>=', 252, 'vectors are there');

sub vector_request {
    my ($v, $id) = @_;
    my $host = $v->{host} || ($v->{preset} eq 'generic' ? 'git.example.test' : 'github.com');
    my $git = $v->{id} =~ /^git-/;
    my $auth = $git ? basic("x-access-token:$P") : "Bearer $P";
    my $body = '';
    my @h = (
        "$v->{method} $v->{target} HTTP/1.1", "Host: $host", 'User-Agent: vectors', 'Accept: */*',
        "Authorization: $auth", "X-Vector: $id",
    );

    push @h, map { "$_->[0]: $_->[1]" } @{$v->{headers} || []};
    push @h, "Content-Type: $v->{content_type}" if $v->{content_type};

    if (defined $v->{content_length}) {
        $body = 'x' x $v->{content_length};
        push @h, "Content-Length: $v->{content_length}";

    } elsif ($v->{transfer_encoding}) {
        $body = "4\r\n0000\r\n0\r\n\r\n";
        push @h, "Transfer-Encoding: $v->{transfer_encoding}";

    } elsif ($v->{method} =~ /^(POST|PUT|PATCH|QUERY)$/) {
        $body = '0000';
        push @h, 'Content-Length: 4';
    }

    my $bytes = join('', map { "$_\r\n" } @h) . "\r\n" . $body;
    utf8::downgrade($bytes);
    return ($host, $auth, $bytes);
}

for my $way (qw(single keep)) {
    my (@jobs, %auth);

    for my $v (@lines) {
        my $id = "$way-$v->{id}";
        my ($host, $auth, $bytes) = vector_request($v, $id);
        $auth{$id} = $auth;
        push @jobs, {
            id => $id, address => $g->{address}, port => $g->{port}, sni => $host, request => encode_base64($bytes, ''),
            head => $v->{method} eq 'HEAD' ? 1 : 0, keep => $way eq 'keep' ? 1 : 0,
        };
    }

    $g->mark;
    Gateway::spew("$dir/work/jobs", join '', map { $json->encode($_) . "\n" } @jobs);
    my ($rc, $out) = $g->run({}, 'sh', '-c', "python3 $Bin/lib/rawtls.py $ca <$dir/work/jobs");
    is($rc, 0, "$way: the vectors were sent");

    my %answer = map { my $a = eval { $json->decode($_) }; $a ? ($a->{id} => $a) : () } split /\n/, $out;
    my %seen;
    push @{$seen{$_->{x_vector}}}, $_ for $g->seen;

    for my $v (@lines) {
        my $id = "$way-$v->{id}";
        my $a = $answer{$id} || { error => 'no answer' };
        my $status = $a->{status} || 0;
        my @seen = @{delete $seen{$id} || []};
        my $want = $v->{anonymous} ? 'anonymous' : $v->{want};
        my $name = "$id $v->{method} $v->{target}: $want";
        my @wrong;

        if ($want eq 'read' || $want eq 'anonymous') {
            my $expect = $want eq 'read' ? swapped_header($auth{$id}) : '';
            push @wrong, "status $status" if $status != 200;
            push @wrong, 'arrived ' . @seen . ' times' if @seen != 1;
            for (@seen) {
                push @wrong, "method $_->{method}" if $_->{method} ne $v->{method};
                push @wrong, "target $_->{uri}" if $_->{uri} ne $v->{target};
                push @wrong, 'Authorization ' . ($_->{authorization} || 'missing') if $_->{authorization} ne $expect;
            }

        } else {
            push @wrong, "status $status" if $status < 400 || $status > 499;
            push @wrong, 'status 401' if $status == 401;
            push @wrong, 'it arrived' if @seen;
            push @wrong, 'no Proxy-Status' unless grep { lc $_->[0] eq 'proxy-status' } @{$a->{headers} || []};
        }

        ok(!@wrong, $name) or diag(join(', ', @wrong), $a->{error} ? " ($a->{error})" : '');
    }

    is(join(' ', sort keys %seen), '', "$way: nothing else arrived");
    ok((grep { $_->{reused} } values %answer) > 100, 'connections were used again') if $way eq 'keep';
}

# Basic holds the placeholder in base64

sub swapped_header {
    my $auth = shift;
    return basic(swapped(decode_base64($1))) if $auth =~ /^Basic (.*)/;
    return swapped($auth);
}


# writes whose body tells

{
    my @bodies = (
        [ 'a GraphQL mutation', 'https://api.github.com/graphql', 'application/json',
          '{"query":"mutation{addStar(input:{starrableId:\"x\"}){clientMutationId}}"}' ],
        [ 'an LFS upload', 'https://github.com/octo/private.git/info/lfs/objects/batch', 'application/vnd.git-lfs+json',
          '{"operation":"upload","objects":[{"oid":"' . 'a' x 64 . '","size":1}]}' ],
    );
    for (@bodies) {
        my ($what, $url, $type, $body) = @$_;
        $g->mark;
        my ($rc, $out) = $g->curl('-i', '-H', "Authorization: Bearer $P", '-H', "Content-Type: $type", '-d', $body, $url);
        like($out, qr{^HTTP/[\d.]+ 403.*^proxy-status: }msi, "$what is refused");
        is(scalar $g->seen, 0, "$what did not arrive");
    }
}


# --- (b) git ------------------------------------------------------------------------------------

my $url = "https://x-access-token:$P\@github.com/octo/private.git";
my $plain = 'https://github.com/octo/private.git';

my (undef, $head) = $g->local_git("--git-dir=$repo", 'rev-parse', 'refs/heads/main');
my (undef, $refs) = $g->local_git("--git-dir=$repo", 'for-each-ref');
my (undef, $objects) = $g->local_git("--git-dir=$repo", 'rev-list', '--objects', '--all', '--no-object-names');
$objects = join "\n", sort split /\n/, $objects;
like($head, qr/^[0-9a-f]{40}$/, 'the original has a HEAD');

sub whole {
    my ($what, $clone) = @_;
    my ($rc, $out) = $g->local_git('-C', $clone, 'rev-parse', 'HEAD');
    is($out, $head, "$what: the same HEAD");
    ($rc, $out) = $g->local_git('-C', $clone, 'fsck', '--full', '--strict');
    is($rc, 0, "$what: git fsck") or diag($out);
}

for my $http (qw(HTTP/1.1 HTTP/2)) {
    for my $v (0, 1, 2) {
        my $what = "clone, protocol $v, $http";
        my $to = "$dir/work/clone-$v-" . ($http =~ /2/ ? 2 : 1);
        $g->mark;
        my ($rc, $out) = $g->git('-c', "protocol.version=$v", '-c', "http.version=$http", 'clone', '-q', $url, $to);
        is($rc, 0, $what) or diag($out);
        whole($what, $to);
        ($rc, $out) = $g->local_git('-C', $to, 'rev-list', '--objects', '--all', '--no-object-names');
        is(join("\n", sort split /\n/, $out), $objects, "$what: the same objects");

        my @seen = $g->seen;
        is($seen[0]{status} . $seen[0]{authorization}, '401', "$what: first asked without credentials");
        is((grep { $_->{authorization} eq basic("x-access-token:$S") } @seen), @seen - 1, "$what: then with the token");
        is((grep { $_->{git_protocol} eq ($v ? "version=$v" : '') } @seen), @seen, "$what: Git-Protocol as git sent it");
        is((grep { $_->{via} eq '1.1 egress-test' || $_->{via} eq '2.0 egress-test' } @seen), @seen, "$what: Via is ours");
    }
}

{
    my ($rc, $out) = $g->git('clone', '-q', '--depth', 1, $url, "$dir/work/shallow");
    is($rc, 0, 'shallow clone') or diag($out);
    (undef, $out) = $g->local_git('-C', "$dir/work/shallow", 'rev-list', '--count', 'HEAD');
    is($out, "1\n", 'shallow clone: one commit');
    whole('shallow clone', "$dir/work/shallow");
    ($rc, $out) = $g->git('-C', "$dir/work/shallow", 'fetch', '-q', '--unshallow');
    is($rc, 0, 'unshallow') or diag($out);
    (undef, $out) = $g->local_git('-C', "$dir/work/shallow", 'rev-list', '--count', 'HEAD');
    is($out, "3\n", 'unshallow: all commits');
}

for my $case (['gzip', 'HTTP/1.1'], ['gzip', 'HTTP/2'], ['chunked', 'HTTP/1.1'], ['chunked', 'HTTP/2']) {
    my ($how, $http) = @$case;
    my $to = "$dir/work/partial-$how-" . ($http =~ /2/ ? 2 : 1);
    my @how = ('-c', "http.version=$http", $how eq 'chunked' ? ('-c', 'http.postBuffer=66000') : ());
    my $what = "partial clone, $how, $http";

    my ($rc, $out) = $g->git(@how, 'clone', '-q', '--filter=blob:none', '--no-checkout', $url, $to);
    is($rc, 0, $what) or diag($out);
    $g->mark;
    ($rc, $out) = $g->git(@how, '-C', $to, 'checkout', '-q', 'main');
    is($rc, 0, "$what: checkout fetches the blobs") or diag($out);
    my @seen = $g->seen;

    if ($how eq 'gzip') {
        ok((grep { $_->{content_encoding} eq 'gzip' && $_->{content_length} > 10000 } @seen), "$what: a gzip body arrived");
    } else {
        ok((grep { $_->{transfer_encoding} eq 'chunked' && $_->{content_encoding} eq '' } @seen),
            "$what: a body without length arrived");
    }
    whole($what, $to);
    ok(-s "$to/src/part-15/file-1599.txt", "$what: files are there");
}

{
    my $to = "$dir/work/single";
    my ($rc, $out) = $g->git('clone', '-q', '--single-branch', '-b', 'main', $url, $to);
    is($rc, 0, 'clone of one branch') or diag($out);
    ($rc, $out) = $g->git('-C', $to, 'fetch', '-q', 'origin', 'topic:topic');
    is($rc, 0, 'fetch of another') or diag($out);
    ($rc, $out) = $g->local_git('-C', $to, 'cat-file', '-e', 'topic:topic.txt');
    is($rc, 0, 'fetch: it is there');
    whole('fetch', $to);

    ($rc, $out) = $g->git('ls-remote', '--refs', $url);
    is($rc, 0, 'ls-remote');
    is(join('', map { "$_\n" } sort split /\n/, $out),
        join('', sort map { s/^(\S+) commit\t/$1\t/r } map { "$_\n" } split /\n/, $refs), 'ls-remote: the same refs');

    ($rc, $out) = $g->git('ls-remote', '--refs', $url =~ s/\.git$//r);
    is($rc, 0, 'ls-remote of the URL without .git');

    ($rc, $out) = $g->local_git('-C', $to, '-c', 'user.name=t', '-c', 'user.email=t@example.test', 'commit', '-q',
        '--allow-empty', '-m', 'Not wanted');
    for my $dry ([], ['--dry-run'], ['--force', '--all']) {
        $g->mark;
        ($rc, $out) = $g->git('-C', $to, 'push', @$dry, 'origin', $dry->[1] ? () : 'HEAD:main');
        is($rc, 128, "push @$dry fails");
        like($out, qr/^remote: .*write_refused.*github/m, "push @$dry: git prints our sentence") or diag($out);
        is(scalar $g->seen, 0, "push @$dry: nothing arrived");
    }
    my (undef, $now) = $g->local_git("--git-dir=$repo", 'for-each-ref');
    is($now, $refs, 'push: the repository is unchanged');
}

# the forms in which git sends a token

for my $form (
    ['name and password', "https://x-access-token:$P\@github.com/octo/private.git", "x-access-token:$S"],
    ['user only', "https://$P\@github.com/octo/private.git", "$S:"],
    ['user only, with a colon', "https://$P:\@github.com/octo/private.git", "$S:"],
    ['x-oauth-basic', "https://$P:x-oauth-basic\@github.com/octo/private.git", "$S:x-oauth-basic"],
) {
    my ($what, $from, $pair) = @$form;
    my ($rc, $out);

    # git asks for a password where the URL has none: an empty one is the answer

    my $ask = "$dir/work/askpass";
    Gateway::spew($ask, "#!/bin/sh\necho\n", 0755);
    $g->mark;
    ($rc, $out) = $g->git('-c', "core.askPass=$ask", 'ls-remote', $from);
    is($rc, 0, "credential form: $what") or diag($out);
    ok((grep { $_->{authorization} eq basic($pair) && $_->{status} eq '200' } $g->seen), "$what: the token arrived in that form");
}

{
    my $value = encode_base64("x-access-token:$P", '');
    $g->mark;
    my ($rc, $out) = $g->git('-c', "http.https://github.com/.extraHeader=AUTHORIZATION: basic $value", 'ls-remote', $plain);
    is($rc, 0, 'credential form: http.extraHeader') or diag($out);
    my @seen = $g->seen;
    is($seen[0]{authorization}, 'basic ' . encode_base64("x-access-token:$S", ''), 'extraHeader: with the first request, spelled so');

    $g->mark;
    ($rc, $out) = $g->git('clone', '-q', $plain, "$dir/work/none");
    isnt($rc, 0, 'clone without credentials fails');
    like($out, qr/could not read Username/, 'without credentials: git asks for them');
    @seen = $g->seen;
    is(join(',', map { "$_->{status}$_->{authorization}" } @seen), '401', 'without credentials: so it arrived');

    ($rc, $out) = $g->curl('-i', "$plain/info/refs?service=git-upload-pack");
    like($out, qr/^HTTP\S+ 401/, 'the 401 is the upstream\'s');
    like($out, qr/^www-authenticate: Basic realm="GitHub"\r$/mi, 'with its challenge');
    unlike($out, qr/^proxy-status/mi, 'and no refusal of ours');

    my $other = Gateway::random_token('ghp_');
    $g->mark;
    ($rc, $out) = $g->git('ls-remote', "https://x-access-token:$other\@github.com/octo/private.git");
    like($out, qr/Authentication failed/, 'a token of the client\'s own fails upstream');
    ok((grep { $_->{authorization} eq basic("x-access-token:$other") } $g->seen), 'and went there as it was');
}


# --- (c) other clients --------------------------------------------------------------------------

my @user = ('-w', ' %{http_version} %{http_code}', 'https://api.github.com/user');

for my $http (['--http1.1', '1.1'], ['--http2', '2']) {
    for my $auth ("Bearer $P", "bearer $P", "token $P", "Token  $P", $P) {
        $g->mark;
        my ($rc, $out) = $g->curl($http->[0], '-H', "Authorization: $auth", @user);
        my ($seen) = $g->seen;
        is($seen->{authorization}, swapped($auth), "curl $http->[0], $auth: swapped in place") or diag($out);

        # a bare token is nothing that GitHub takes

        like($out, $auth eq $P ? qr/401$/ : qr/"octocat".* $http->[1] 200$/s, "curl $http->[0], $auth: the answer");
    }

    # more than a megabyte: curl waits for 100 Continue

    Gateway::spew("$dir/work/big", 'x' x 1_500_000);
    $g->mark;
    my ($rc, $out) = $g->curl($http->[0], '-H', "Authorization: Bearer $P", '-H', 'Content-Type: text/plain', '--data-binary',
        "\@$dir/work/big", '-w', '%{http_code}', '-o', '/dev/null', 'https://api.github.com/markdown/raw');
    is($out, '200', "curl $http->[0]: a large body to a POST that reads");
    my ($seen) = $g->seen;
    is($seen->{authorization}, "Bearer $S", "curl $http->[0]: with the token");
    cmp_ok($seen->{request_length}, '>', 1_500_000, "curl $http->[0]: all of it arrived");

    $g->mark;
    ($rc, $out) = $g->curl($http->[0], '-i', '-H', "Authorization: Bearer $P", '--data-binary', "\@$dir/work/big",
        'https://api.github.com/repos/octo/private/issues');
    like($out, qr{^HTTP/\S+ 403}m, "curl $http->[0]: a large body to a write is refused");
    like($out, qr{^content-type: application/problem\+json}mi, "curl $http->[0]: as problem+json");
    is(scalar $g->seen, 0, "curl $http->[0]: and nothing arrived");

    for my $case (
        ['a query', 'https://api.github.com/user?access_token=' . $P, []],
        ['another header', 'https://api.github.com/user', ['-H', "X-Token: $P"]],
        ['a cookie', 'https://api.github.com/user', ['-H', "Cookie: t=$P"]],
        ['another host', 'https://tracker.example.test/', ['-H', "Authorization: Bearer $P"]],
    ) {
        my ($what, $to, $more) = @$case;
        $g->mark;
        ($rc, $out) = $g->curl($http->[0], @$more, $to);
        my @seen = $g->seen;
        is(scalar @seen, 1, "curl $http->[0], the placeholder in $what: it arrived");
        unlike($json->encode(\@seen), qr/\Q$S\E/, "curl $http->[0], the placeholder in $what: no token");
    }

    # another name on the same connection

    $g->mark;
    my @one = ($http->[0], '-H', "Authorization: Bearer $P", '-o', '/dev/null', '-w', '%{http_code}/%{num_connects} ');
    ($rc, $out) = $g->curl(@one, 'https://api.github.com/user', '--next', '-q', '-s', '--noproxy', '*', '--cacert', $ca,
        '--connect-to', "::$g->{address}:$g->{port}", @one, '-H', 'Host: github.com', 'https://api.github.com/octo/private.git/HEAD');
    is($out, '200/1 421/0 ', "curl $http->[0]: another Host on the connection is 421");
    is(scalar $g->seen, 1, "curl $http->[0]: only the first arrived");
}

{
    my @py = ('python3', "$Bin/lib/https_get.py", $g->{address}, $g->{port}, $ca);
    $g->mark;
    my ($rc, $out) = $g->run({}, @py, 'https://api.github.com/user', "token $P");
    like($out, qr/^200 .*octocat/, 'Python urllib') or diag($out);
    my ($seen) = $g->seen;
    is($seen->{authorization}, "token $S", 'Python urllib: with the token');
    ($rc, $out) = $g->run({}, @py, 'https://example.com/');
    like($out, qr/UNRECOGNIZED_NAME|unrecognized name/, 'Python urllib: a name that is not bound');
}

SKIP: {
    skip 'node is not here', 4 unless Gateway::which('node');
    for my $how (qw(https fetch)) {
        skip 'fetch needs port 443', 2 if $how eq 'fetch' && $g->{port} != 443;
        $g->mark;
        my ($rc, $out) = $g->run({}, 'node', "$Bin/lib/https_get.js", $how, $g->{address}, $g->{port},
            'https://api.github.com/user', "Bearer $P");
        like($out, qr/^200 .*octocat/, "Node $how") or diag($out);
        my ($seen) = $g->seen;
        is($seen->{authorization}, "Bearer $S", "Node $how: with the token");
    }
}

SKIP: {
    skip 'gh is not here', 6 unless Gateway::which('gh');
    my %env = (GH_TOKEN => $P, HTTPS_PROXY => $g->lead);
    $g->mark;
    my ($rc, $out) = $g->run(\%env, 'gh', 'api', 'user');
    is($rc, 0, 'gh api user') or diag($out);
    like($out, qr/"login":\s*"octocat"/, 'gh api user: the answer');
    my ($seen) = $g->seen;
    is($seen->{authorization}, "token $S", 'gh api user: with the token');
    $g->mark;
    ($rc, $out) = $g->run(\%env, 'gh', 'api', '-X', 'POST', 'repos/octo/private/issues', '-f', 'title=x');
    is($rc, 1, 'gh: a write fails');
    like($out, qr/gh: .*write_refused.* \(HTTP 403\)/, 'gh prints our message') or diag($out);
    is(scalar $g->seen, 0, 'gh: nothing arrived');
}


# --- (d) the handshake --------------------------------------------------------------------------

my @s_client = ('openssl', 's_client', '-connect', "$g->{address}:$g->{port}", '-CAfile', $ca, '-verify_return_error');

for my $host (qw(github.com api.github.com uploads.github.com)) {
    my ($rc, $out) = $g->run({}, @s_client, '-servername', $host, '-showcerts');
    is($rc, 0, "$host: handshake") or diag($out);
    my ($leaf) = $out =~ /(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----)/s;
    Gateway::spew("$dir/work/leaf.pem", "$leaf\n");
    ($rc, $out) = $g->run({}, 'openssl', 'verify', '-x509_strict', '-purpose', 'sslserver', '-verify_hostname', $host,
        '-CAfile', $ca, "$dir/work/leaf.pem");
    is($rc, 0, "$host: openssl verify -x509_strict") or diag($out);
    ($rc, $out) = $g->run({}, 'openssl', 'x509', '-in', "$dir/work/leaf.pem", '-noout', '-ext', 'subjectAltName');
    is(join(' ', $out =~ /(?:DNS|IP[^:]*|URI|email):\S+/g), "DNS:$host", "$host: that name and no other");

    ($rc, $out) = $g->run({}, 'python3', "$Bin/lib/https_get.py", $g->{address}, $g->{port}, $ca, "https://$host/robots.txt");
    like($out, qr/^200 /, "$host: Python with VERIFY_X509_STRICT") or diag($out);
}

for my $tls (qw(-tls1_2 -tls1_3)) {
    my $session = "$dir/work/session$tls";
    my $ask = "printf 'GET /robots.txt HTTP/1.1\\r\\nHost: github.com\\r\\nConnection: close\\r\\n\\r\\n'; sleep 1";
    my $s_client = join ' ', @s_client, $tls, '-servername', 'github.com', '-ign_eof';
    my ($rc, $out) = $g->run({}, 'sh', '-c', "($ask) | $s_client -sess_out $session");
    like($out, qr/^HTTP\/1.1 200/m, "$tls: an answer") or diag($out);
    unlike($out, qr/New Session Ticket|TLS session ticket:/i, "$tls: no session ticket");
    unlike($out, qr/^\s*Session-ID: [0-9A-F]/m, "$tls: no session id") or diag($out) if $tls eq '-tls1_2';
    SKIP: {
        skip 'no session to offer', 1 unless -s $session;
        ($rc, $out) = $g->run({}, 'sh', '-c', "($ask) | $s_client -sess_in $session");
        unlike($out, qr/^Reused/m, "$tls: a session is not resumed");
    }
}

for my $name (['-servername', 'example.com'], ['-servername', 'xgithub.com'], ['-servername', 'sub.github.com'],
              ['-servername', 'codeload.github.com'], ['-noservername']) {
    for my $tls (qw(-tls1_2 -tls1_3)) {
        my ($rc, $out) = $g->run({}, @s_client, $tls, @$name);
        isnt($rc, 0, "$tls @$name: no handshake");
        like($out, qr/unrecognized name.*SSL alert number 112/s, "$tls @$name: alert unrecognized_name") or diag($out);
        unlike($out, qr/BEGIN CERTIFICATE/, "$tls @$name: no certificate");
    }
}

for my $case (['tls1', '-tls1'], ['tls1_1', '-tls1_1']) {
    my ($rc, $out) = $g->run({}, @s_client, $case->[1], '-cipher', 'DEFAULT@SECLEVEL=0', '-servername', 'github.com');
    isnt($rc, 0, "$case->[0]: not spoken");
}


# --- revocation ---------------------------------------------------------------------------------

{
    unlink "$dir/secrets/github" or die;
    select undef, undef, undef, 1.3;
    $g->mark;
    my ($rc, $out) = $g->git('ls-remote', $url);
    is($rc, 128, 'the secret is removed: git fails');
    like($out, qr/^remote: .*credential_missing/m, 'and prints why') or diag($out);
    is(join(',', map { $_->{authorization} } $g->seen), '', 'no credential arrived');
}


# --- (e) nobody else has the secret -------------------------------------------------------------

my ($rc, $audit) = (0, Gateway::slurp("$dir/logs/egress.json"));
my @records = map { eval { $json->decode($_) } || $_ } split /\n/, $audit;
is((grep { !ref } @records), 0, 'the audit log is JSON');
is((grep { ref && ($_->{event} || '') eq 'decision' && ($_->{decision} || '') eq 'allow' } @records) > 100, 1, 'with its decisions');

ok($g->stop_gateway, 'the gateway ends when told to');

my $shapes = Gateway::shapes($S);

my %found = map { $_ => 1 } Gateway::search($shapes, "$dir/standin/record.log");
for my $shape ('raw', 'base64 at 0', 'base64 of the pair') {
    ok($found{"$shape in $dir/standin/record.log"}, "the search finds it at the stand-in: $shape");
}

my @files = grep { -f && !-l } split /\0/, `find $dir -path $dir/standin -prune -o -path $dir/secrets -prune -o -type f -print0`;
cmp_ok(scalar(grep m{/out/}, @files), '>', 50, 'outputs of clients are searched');
ok((grep m{/logs/error\.log$}, @files), 'the error log at debug is searched');
ok(-s "$dir/logs/error.log" > 100_000, 'and it is one');
is(join("\n", Gateway::search($shapes, @files)), '', 'no file outside the stand-in holds the secret');

my @alarms = `grep -E '\\[(alert|crit|emerg)\\]' $dir/logs/error.log`;
is(scalar @alarms, 0, 'no alarms in the error log') or diag(@alarms[0 .. ($#alarms > 9 ? 9 : $#alarms)]);

done_testing();
