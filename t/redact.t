# Secrets that the upstream sends back: DESIGN 6.7, security X-30, X-35,
# prototype P9
#
# The upstream is Echo, which gives back the Authorization that it got.

use strict;
use warnings;

use lib 't/fixture';
use Compress::Raw::Zlib;
use Echo;
use Fixture;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);

my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $C = $ENV{TEST_NGINX_CANARY};
my $asan = ($ENV{TEST_NGINX_BINARY} // '') =~ /asan/;

my @odd = ('p/q+r"s\\t%u=v?w', 'aaaaaaaaaaaa', '/////+++++/////',
           '%7E%7e%00%', '\\u0041\\"\\\\"', '~.-_~.-_', '<b>&amp;\'x\'</b>');

my %token = (
    a => $C,
    off => $C,
    seven => 'q7W+z/Y',
    eight => 'q7W+z/Y8',
    long => Fixture::random(16384),
    map({ ("odd$_" => $odd[$_]) } 0 .. $#odd),

    # more than a worker keeps spellings of
    map({ ("many$_" => Fixture::random(20)) } 1 .. 300),
);

my $gid = getgrnam 'www-data';

# a secret that workers can read

sub secret {
    my ($name, $token) = @_;
    my $end = length $token < 16384 ? "\n" : '';
    my $file = Fixture::write_file("$name.new", "$token$end", 0640);
    chown 0, $gid, $file if $> == 0;
    rename $file, Fixture::dir() . "/$name" or die "$file: $!";
    return Fixture::dir() . "/$name";
}

my $up = Echo->start;
my ($base, $h2) = (Fixture::free_port(), Fixture::free_port());
my $live = secret('live', $C);
my $bindings = '';
my $locations = '';

for my $name (sort(keys %token), 'live') {
    my $file = $name eq 'live' ? $live : secret("s-$name", $token{$name});
    my $more = $name eq 'off' ? 'redact off;' : '';

    $bindings .= <<"BINDING";
    binding $name {
        hosts        $name.test;
        upstream     http://127.0.0.1:${\$up->port};
        secret       $file;
        placeholder  $P;
        access       write;
        $more
    }
BINDING
    $locations .= "location /$name/ { egress_pass $name; }\n";
}

my $g = Stream->start(egress => "secret_check 0;\n$bindings",
                      http => <<"HTTP");
    server { listen 127.0.0.1:$base; $locations }
    server { listen 127.0.0.1:$h2 http2; $locations }
HTTP

# what a client got and must not have

my @leaks;

sub leaks {
    my ($a, $token, $what) = @_;

    for my $name (grep { $_ ne 'reversed' } Echo::names()) {
        my $text = Echo::spell($name, $token);
        my $masked = Echo::masked($name, $token);

        # only what belongs to the token alone
        my ($at, $end) = (index($masked, '*'), rindex $masked, '*');
        my $core = substr $text, $at, $end - $at + 1;

        push @leaks, "$name: $what"
            if index($a->{all}, $core) >= 0 || index($a->{body}, $core) >= 0;
    }

    return $a;
}

# asks for the answer of a script, and looks for leaks

sub ask {
    my ($name, %script) = @_;
    my $client = delete $script{client} // 1;
    my $method = delete $script{method};
    my $headers = delete $script{headers};
    my $token = $token{$name} // $C;
    my $ask = $client == 2 ? \&Echo::ask2 : \&Echo::ask;
    my $path = $up->script(type => 'text/plain', %script);

    my $a = $ask->($client == 2 ? $h2 : $base, "/$name$path",
                   $method ? (method => $method) : (),
                   $headers ? (headers => $headers) : ());

    $a->{path} = $path;

    return $a if $name eq 'off' || $name eq 'seven';
    my $text = $script{body} // $script{raw} // '';
    return leaks($a, $token, ($script{type} // '') . ' '
                             . substr $text, 0, 60);
}

# "" where an answer is what it is to be, or else what is wrong with it

sub differs {
    my ($a, $token, $body, $status) = @_;
    my $want = Echo::mask($body, $token);

    return "status $a->{status}" if $a->{status} != ($status // 200);
    return 'not whole' unless $a->{whole};
    return "length $a->{length}"
        if defined $a->{length} && $a->{length} != length $want;
    return '' if $a->{body} eq $want;

    my $at = ("$a->{body}\0" ^ $want) =~ /^(\0*)/ ? $+[0] : 0;

    return sprintf 'octet %d of %d: "%s", not "%s"', $at, length $want,
                   substr($a->{body}, $at, 20) =~ s/\Q$token\E/SECRET/gr,
                   substr $want, $at, 20;
}

# many cases are one test: the ones that failed are told

sub all_same {
    my ($name, @failed) = @_;
    @failed = grep { defined && !/: $/ } @failed;
    ok(!@failed, $name);
    diag("$name: $_") for @failed > 10 ? @failed[0 .. 9] : @failed;
}

sub same {
    my ($what, $name, $body, %more) = @_;
    return "$what: " . differs(ask($name, body => $body, %more), $token{$name},
                               $body);
}

my @masked = grep { $_ ne 'reversed' } Echo::names();


# --- spellings, framings, both kinds of clients -------------------------------

for my $framing (qw(length chunked close)) {
    all_same("bodies, $framing",
             map { same($_, 'a', "before <$_> after", framing => $framing) }
             @masked);
}

all_same('bodies, HTTP/2',
         map { same($_, 'a', "before <$_> after", client => 2,
                    framing => $_ =~ /64/ ? 'chunked' : 'length') } @masked);

{
    my $a = ask('a', body => 'x <reversed> y');
    is(differs($a, $C, 'x ' . reverse($C) . ' y'), '',
       'a token spelled backwards is not known');
}

for my $client (1, 2) {
    my @fields = ('Location', 'Set-Cookie', 'WWW-Authenticate', 'X-Any', 'Link',
                  'ETag', 'Retry-After', 'Refresh', 'Content-Disposition',
                  'Last-Modified');
    my $i = 0;
    my @names = $client == 1 ? @masked
                : ('raw', 'basic', 'base64url:2', 'UNICODE', 'percent');

    all_same("fields, HTTP/$client", map {
        my $field = $fields[$i++ % @fields];
        my $value = "https://a.test/?t=<$_>&u=<$_>";
        my $a = ask('a', client => $client, status => '401 No', body => 'x',
                    head => ["$field: $value"]);
        my $got = Echo::field($a, $field) // '';

        "$field <$_>: " . ($a->{status} != 401 ? $a->{status}
                           : $got eq Echo::mask($value, $C) ? '' : $got);
    } @names);

    my $a = ask('a', client => $client, body => '', status => "200 <raw>",
                type => 'text/plain; charset="<hex>"; x=<raw>',
                head => ['Set-Cookie: a=<raw>', 'Set-Cookie: b=<base64:1>',
                         'X-Y-<raw>: 1', 'X-Z-<HEX>: <raw>']);

    is($a->{line}, 'HTTP/1.1 200 ' . '*' x length $C, 'a status text')
        if $client == 1;
    is(join('|', Echo::field($a, 'Set-Cookie')),
       Echo::mask('a=<raw>|b=<base64:1>', $C), 'two fields of a name');
    is(Echo::field($a, 'X-Y-' . '*' x length $C), 1, 'a name of a field');
    is(Echo::field($a, 'X-Z-' . '*' x (2 * length $C)), '*' x length $C,
       'a name and its value');
    like(Echo::field($a, 'Content-Type') // '',
         qr/^text\/plain; charset="\*{80}"; x=\*{40}$/, 'a type');
}


# --- types --------------------------------------------------------------------

my @textual = ('text/plain', 'text/html; charset=utf-8', 'TEXT/HTML',
               'text/event-stream', 'text/x-anything', 'application/json',
               'Application/JSON;charset=utf-8', 'application/json ; q=1',
               'application/xml', 'application/javascript',
               'application/ecmascript', 'application/x-javascript',
               'application/x-www-form-urlencoded',
               'multipart/form-data; boundary=q', 'application/problem+json',
               'application/vnd.git-lfs+json', 'image/svg+xml',
               'application/vnd.x+JSON; a=b', "application/json\t;a=b",
               "\tapplication/json", '', undef);

my @binary = ('application/octet-stream', 'application/zip',
              'application/x-git-upload-pack-result', 'image/png',
              'application/pdf', 'application/jsonish', 'audio/text');

for my $client (1, 2) {
    all_same("textual types, HTTP/$client",
             map { same($_ // 'none', 'a', '{"a":"<raw>"}', type => $_,
                        client => $client) }
             $client == 1 ? @textual : @textual[0, 5, -1]);
}

{
    my $data = "PACK\0\1\2<raw>\xff";

    all_same('binary types are as they were', map {
        my $path = $up->script(type => $_, body => $data, framing => 'chunked');
        my $a = Echo::ask($base, "/a$path");
        "$_: " . ($a->{body} eq Echo::fill($data, $C) && $a->{whole} ? ''
                  : 'changed');
    } @binary);

    my $path = $up->script(type => 'application/zip', body => 'x',
                           head => ['X-A: <raw>']);
    is(Echo::field(leaks(Echo::ask($base, "/a$path"), $C, 'zip'), 'X-A'),
       '*' x length $C, 'but not their fields');
}


# --- where parts meet ---------------------------------------------------------

for my $name (qw(raw base64:1 unicode percent)) {
    my $text = "ab<$name>cd";
    my $len = length Echo::fill($text, $C);

    all_same("two chunks, <$name>",
             map { same($_, 'a', $text, framing => 'chunked', cut => [$_]) }
             1 .. $len - 1);
}

{
    my $text = 'ab<raw>cd';
    my $len = length Echo::fill($text, $C);

    for my $framing (qw(length close)) {
        all_same("two parts, $framing",
                 map { same($_, 'a', $text, framing => $framing, cut => [$_],
                            pause => 0.003) } 1 .. $len - 1);
    }

    all_same('three chunks',
             map { my $n = $_;
                   same("$n+3", 'a', $text, framing => 'chunked',
                        cut => [$n, $n + 3]) } 1 .. $len - 4);
}

{
    my $all = join ' ', map { "<$_>" } @masked;

    all_same('octet by octet, in chunks',
             map { same($_, 'a', $_, cut => 'all', framing => 'chunked') }
             $all, '<raw>', '<raw><raw>', '<raw>x', 'x<raw>');
    is(differs(ask('a', body => 'x<raw>y<hex>z', cut => 'all', pause => 0.0005),
               $C, 'x<raw>y<hex>z'), '', 'octet by octet');
    is(differs(ask('a', body => $all, cut => 'all', framing => 'chunked',
                   client => 2), $C, $all), '',
       'octet by octet, HTTP/2');
}

# starts of a token that do not become one

{
    my $part = substr $C, 0, 30;
    my @texts = ("x$part", "$part$part$part$C", "x$part\n$part<raw>$part",
                 substr($C, 0, -1), substr($C, 1), substr($C, 0, 1) x 50,
                 "<raw>$part<raw>$part");

    all_same('parts of a token', map {
        my $text = $_ =~ s/\Q$C\E/<raw>/r;
        (same('whole', 'a', $text),
         same('cut', 'a', $text, framing => 'chunked', cut => 'all'),
         same('sevens', 'a', $text, framing => 'chunked',
              cut => [map { 7 * $_ } 1 .. 40]),
         same('close', 'a', $text, framing => 'close'));
    } @texts);
}

all_same('at both ends, and one after the other',
         map { same($_, 'a', $_), same($_, 'a', $_, framing => 'chunked') }
         '<raw>', '<raw> ', ' <raw>', '<raw><raw>', '<raw> <raw>',
         '<hex><HEX>', '<raw><basic><raw>', '', 'x');


# --- other tokens -------------------------------------------------------------

for my $name (sort grep { /^odd|^eight/ } keys %token) {
    my $text = '{"a":"<NAME>"}';

    all_same("a token like $token{$name}", map {
        my $spelling = $text =~ s/NAME/$_/r;
        (same($_, $name, $spelling),
         same("$_ cut", $name, $spelling, framing => 'chunked', cut => 'all'));
    } @masked);
}

is(ask('seven', body => 'a <raw> b')->{body}, "a $token{seven} b",
   'seven octets are no secret to mask');

all_same('16 KiB', map {
    my $text = "a<$_>b<$_>c";
    (same($_, 'long', $text),
     same("$_ in chunks", 'long', $text, framing => 'chunked',
          cut => [map { 1000 * $_ } 1 .. 200]));
} @masked);

is(Echo::field(ask('long', body => 'x', head => ['X-A: <raw>']), 'X-A'),
   '*' x 16384, '16 KiB in a field');
is(differs(ask('long', body => '<raw>', cut => 'all', framing => 'chunked'),
           $token{long}, '<raw>'), '', '16 KiB, octet by octet');
is(differs(ask('long', body => substr($token{long}, 0, 16383), client => 2),
           $token{long}, substr $token{long}, 0, 16383), '',
   'all but one octet of 16 KiB');


{
    my @many = grep { /^many/ } sort keys %token;

    all_same('a token each of 300 bindings',
             map { same($_, $_, 'a <raw> b <base64:1>') } @many, @many[0 .. 9]);
}

{
    # an upstream may know it from other requests

    my $path = $up->script(type => 'text/plain', body => "a $C b");
    my $a = leaks(Echo::ask($base, "/a$path", anonymous => 1), $C, 'anonymous');
    is($a->{body}, 'a ' . '*' x length($C) . ' b',
       'a token that was not sent is masked, too');
}


# --- no bodies ----------------------------------------------------------------

for my $client (1, 2) {
    my $a = ask('a', body => 'x <raw>', method => 'HEAD', client => $client,
                head => ['X-A: <raw>']);
    is($a->{status}, 200, "HEAD, HTTP/$client");
    is($a->{length}, 2 + length $C, '... with its length');
    is(Echo::field($a, 'X-A'), '*' x length $C, '... and fields masked');

    for my $status ('204 No Content', '304 Not Modified') {
        $a = ask('a', status => $status, head => ['X-A: <raw>'], bare => 1,
                 client => $client);
        is("$a->{status} " . Echo::field($a, 'X-A'),
           substr($status, 0, 4) . '*' x length $C, "$status, HTTP/$client");
    }
}

for my $method (qw(HEAD GET)) {
    my $a = ask('a', body => 'x <raw>', method => $method, framing => 'close');
    ok($a->{whole} && $a->{status} == 200, "$method without a length");
}

# a length that was promised, and is not kept

{
    my $a = ask('a', body => 'a <raw> b', short => 3, framing => 'length');
    ok(!$a->{whole}, 'an answer that breaks off stays broken');
    is($a->{body}, substr(Echo::mask('a <raw> b', $C), 0, length $a->{body}),
       '... and is masked before');

    $a = ask('a', body => 'a <raw> b', short => 20, framing => 'chunked');
    ok(!$a->{whole}, 'the same in chunks');
}

# what is behind an answer

{
    my $a = ask('a', raw => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                            . "Content-Length: 5\r\n\r\nab<raw>");
    is($a->{status}, 200, 'more than the length');
    is(length $a->{body}, 5, '... is cut off');
}


# --- parts, by Range ----------------------------------------------------------

{
    my @range = ('Range: bytes=3-12', 'If-Range: "a"');
    my %part = (status => '206 Partial Content', headers => \@range,
                body => substr($C, 3, 10),
                head => ['Content-Range: bytes 3-12/40']);

    for my $type (qw(application/octet-stream
                     application/x-git-packed-objects))
    {
        my $path = $up->script(%part, type => $type);
        my $a = Echo::ask($base, "/a$path", headers => \@range);
        is("$a->{status} $a->{body}", '206 ' . substr($C, 3, 10),
           "a part of $type");
        like($up->seen($path), qr/^Range: bytes=3-12\r$/m, '... was asked for');
    }

    for my $client (1, 2) {
        my $a = ask('a', %part, client => $client);
        is($a->{status}, 502, "a part of a text, HTTP/$client");
        like(Echo::field($a, 'Proxy-Status') // '',
             qr/error=http_protocol_error/, '... is an error of the protocol');
        unlike($a->{body}, qr/\Q${\substr $C, 3, 10}/, '... and not passed on');
    }

    is(ask('a', %part, type => undef)->{status}, 502, 'a part without a type');

    # more than one part: each has a type of its own

    my $parts = join '', map {
        "--q\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-39/90\r\n"
        . "\r\n<raw>\r\n"
    } 1, 2;

    my $a = ask('a', status => '206 Partial Content',
                body => "$parts--q--\r\n",
                headers => ['Range: bytes=0-1,2-3'],
                type => 'multipart/byteranges; boundary=q');
    unlike($a->{body}, qr/\Q$C\E/, 'parts of a text together');

    is(ask('a', body => 'x <raw>', headers => ['Range: bytes=0-1'],
           head => ['Accept-Ranges: bytes'])->{status}, 200,
       'nginx makes no parts of what is masked');
}


# --- encodings ----------------------------------------------------------------

sub deflated {
    my ($data, $bits, @cut) = @_;
    my ($d) = Compress::Raw::Zlib::Deflate->new(-WindowBits => $bits,
                                                -AppendOutput => 1);
    my $out = '';
    my $at = 0;

    for my $cut (@cut) {
        $d->deflate(substr($data, $at, $cut - $at), $out);
        $d->flush($out, Z_SYNC_FLUSH);
        $at = $cut;
    }

    $d->deflate(substr($data, $at), $out);
    $d->flush($out);

    return $out;
}

my %bits = (gzip => WANT_GZIP, 'x-gzip' => WANT_GZIP, deflate => MAX_WBITS,
            raw => -MAX_WBITS());

# the answer to a request whose body came encoded

sub encoded {
    my ($encoding, $data, %more) = @_;
    return ask('a', body => $data, head => ["Content-Encoding: $encoding"],
               type => 'application/json', %more);
}

{
    my $text = join '|', map { "<$_> $_" } @masked;
    my $plain = Echo::fill($text, $C);

    # long enough for many buffers, with tokens where those meet

    my $much = join '', map { '<raw>' . 'x' x ($_ * 37 % 4001) } 1 .. 200;
    my $same = 'y' x 600_000 . '<raw>';

    for my $coding (sort keys %bits) {
        my $name = $coding eq 'raw' ? 'deflate' : $coding;

        all_same("an answer in $coding", map {
            my ($how, $want, %more) = @$_;
            my $data = deflated(Echo::fill($want, $C), $bits{$coding});
            my $a = encoded($name, $data, %more);
            "$how: " . (Echo::field($a, 'Content-Encoding') ? 'still encoded'
                        : defined $a->{length} ? 'with a length'
                        : differs($a, $C, $want));
        } ['length', $text], ['close', $text, framing => 'close'],
          ['chunked', $text, framing => 'chunked'],
          ['sevens', $text, framing => 'chunked',
           cut => [map { 7 * $_ } 1 .. 200]],

          # two octets tell whether there is a header: they come together
          ['dribble', $text, framing => 'chunked', cut => [2 .. 3000]],
          ['same, dribble', $same, framing => 'chunked', cut => [2 .. 3000]],
          ['HTTP/2', $text, client => 2], ['much', $much],
          ['same', $same], ['nothing', '']);
    }

    is(differs(encoded('gzip', deflated('ab' . substr($C, 0, 20), WANT_GZIP)
                               . deflated(substr($C, 20) . 'cd', WANT_GZIP)),
               $C, 'ab<raw>cd'), '', 'members of a gzip file');

    for my $broken (['cut short', substr(deflated($plain, WANT_GZIP), 0, -9)],
                    ['not gzip', "no gzip at all $C"],
                    ['more than that', deflated('abc', MAX_WBITS) . $C])
    {
        my ($how, $data) = @$broken;
        my $a = encoded($how =~ /more/ ? 'deflate' : 'gzip', $data,
                        framing => 'chunked');
        ok(!$a->{whole} || $a->{status} >= 500, "an encoded answer: $how");
    }

    for my $encoding (['br'], ['zstd'], ['compress'], ['gzip, gzip'],
                      ['gzip,br'], ['identity', 'gzip'], ['gzip', 'identity'],
                      ['br', 'identity'], ['gzip', ''], ['br', 'gzip'],
                      ['gzip', 'gzip'], ['aws-chunked'])
    {
        my $a = ask('a', body => deflated($plain, WANT_GZIP),
                    head => [map { "Content-Encoding: $_" } @$encoding]);
        my $name = join ' and ', map { qq("$_") } @$encoding;

        # nothing that a client could unpack
        ok($a->{status} == 502
           || (index($a->{body}, "\x1f\x8b") < 0
               && !grep { /gzip|br/ } Echo::field($a, 'Content-Encoding')),
           "encoded by $name");
    }

    is(differs(ask('a', body => 'a <raw> b',
                   head => ['Content-Encoding: Identity']),
               $C, 'a <raw> b'), '', 'identity is no encoding');

    my $a = encoded('gzip', 'x', method => 'HEAD');
    is($a->{status}, 200, 'HEAD of what is encoded');

    $a = encoded('gzip', '', status => '304 Not Modified', bare => 1);
    is($a->{status}, 304, 'and 304');

    is(encoded('gzip', deflated($plain, WANT_GZIP),
               status => '206 Partial Content')->{status}, 502, 'and 206: 502');

    my $data = deflated($plain, WANT_GZIP);
    my $path = $up->script(type => 'application/zip', body => $data,
                           head => ['Content-Encoding: gzip']);
    $a = Echo::ask($base, "/a$path");
    ok($a->{body} eq $data && Echo::field($a, 'Content-Encoding') eq 'gzip',
       'a binary type stays encoded');
}

for my $client (1, 2) {
    my $name = "Accept-Encoding, HTTP/$client";

    for my $binding (qw(a off)) {
        my $a = ask($binding, body => 'x', client => $client,
                    headers => ['Accept-Encoding: gzip, br']);
        my ($seen) = $up->seen($a->{path}) =~ /^(Accept-Encoding: .*?)\r$/mi;

        is($seen, $binding eq 'a' ? undef : 'Accept-Encoding: gzip, br',
           "$name, $binding");
    }
}

{
    my $text = 'a <raw> b <base64:1> <hex>';
    my $a = ask('off', body => $text, head => ['X-A: <raw>']);
    is($a->{body}, Echo::fill($text, $C), 'redact off');
    is(Echo::field($a, 'X-A'), $C, '... and its fields');

    my $data = deflated($text, WANT_GZIP);
    $a = ask('off', body => $data, head => ['Content-Encoding: gzip']);
    is($a->{body}, $data, '... and what is encoded');
    is(ask('off', body => 'abc', status => '206 Partial Content')->{status},
       206, '... and parts');
}


# --- event streams ------------------------------------------------------------

for my $framing (qw(chunked close)) {
    my @events = ("data: one\n\n", "data: <raw> x\n\n", 'data: two ',
                  substr($C, 0, 20), substr($C, 20), "\n\n");
    my @cut;
    my $at = 0;

    push @cut, $at += length Echo::fill($_, $C) for @events;

    my $path = $up->script(type => 'text/event-stream', framing => $framing,
                           body => join('', @events), cut => \@cut, gates => 1);
    my $s = Echo::begin($base, "/a$path");
    my $got = '';

    $up->go($path, 1);
    like(Echo::until($s, \$got, qr/data: one\n\n/), qr/data: one\n\n/,
         "an event comes at once, $framing");

    $up->go($path, 2);
    like(Echo::until($s, \$got, qr/x\n\n/), qr/data: \*{40} x\n\n/,
         'the next one, masked');

    $up->go($path, 3);
    like(Echo::until($s, \$got, qr/two /), qr/data: two /, 'a part of one');

    # nothing more is certain of this one

    $up->go($path, 4);
    $up->go($path, 5);
    like(Echo::until($s, \$got, qr/two (?:\r\n28\r\n)?\*/),
         qr/two (?:\r\n\w+\r\n)?\*{40}/,
         'the start of a token waits for the rest of it');

    $up->go($path, 6);
    1 while sysread $s, $got, 65536, length $got;

    my $a = leaks(Echo::parse($got, 'GET'), $C, 'events');
    is(differs($a, $C, join('', @events[0 .. 2]) . "<raw>\n\n"), '',
       'all of the stream');
}

{
    # the same, packed: a piece is flushed by both sides

    my @events = ("data: one\n\n", "data: $C\n\n", "data: two\n\n");
    my $plain = join '', @events;
    my @ends = (length $events[0], length $events[0] . $events[1]);
    my $data = deflated($plain, WANT_GZIP, @ends);

    # the first piece ends with the empty block of its flush
    my $end = index($data, "\x00\x00\xff\xff") + 4;

    my $path = $up->script(type => 'text/event-stream', framing => 'chunked',
                           head => ['Content-Encoding: gzip'], body => $data,
                           cut => [$end], gates => 1);
    my $s = Echo::begin($base, "/a$path");
    my $got = '';

    $up->go($path, 1);
    like(Echo::until($s, \$got, qr/data: one\n\n/), qr/data: one\n\n/,
         'an event in gzip comes at once');

    $up->go($path, 2);
    1 while sysread $s, $got, 65536, length $got;

    is(differs(leaks(Echo::parse($got, 'GET'), $C, 'gzip events'), $C,
               $plain =~ s/\Q$C\E/<raw>/r), '', 'all of that stream');
}


# --- the audit ----------------------------------------------------------------

sub completion {
    my ($path) = @_;

    for (1 .. 200) {
        my @found = grep { $_->{event} eq 'completion'
                           && ($_->{path} // '') eq $path } $g->audit;
        return $found[0] if @found;
        sleep 0.02;
    }

    return {};
}

for my $case ([3, body => 'a <raw> <hex> <base64:1>'],
              [2, body => '<raw>', head => ['X-A: <raw>']],
              [1, body => '<raw>', cut => 'all', framing => 'chunked'],
              [undef, body => 'nothing of it'],
              [1, body => 'x', status => '200 <raw>'],
              [1, body => 'x', head => ['X-Y-<raw>: 1']])
{
    my ($n, @script) = @$case;
    my $a = ask('a', @script);
    is(completion($a->{path})->{redactions}, $n,
       'redactions: ' . ($n // 'none') . ' in the audit');
}

{
    my $a = ask('off', body => '<raw>');
    is(completion($a->{path})->{redactions}, undef, 'none with redact off');
}


# --- much ---------------------------------------------------------------------

# the most memory that the worker had since it was last forgotten

sub peak {
    my ($forget) = @_;
    my ($pid) = $g->workers;

    # A request gives its memory back at its end: only its peak tells of it.
    # Who may not have it forgotten sees less.
    if ($forget && open my $fh, '>', "/proc/$pid/clear_refs") {
        print $fh "5\n";
        close $fh;
    }

    my ($kb) = Fixture::read_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+)/m;
    return $kb;
}

{
    my @spellings = qw(raw hex base64:0 base64:1 base64:2 percent json
                       unicode);
    my $filler = join ' ', map { substr($C, 0, $_ % 40) . ' lorem ipsum ' }
                 1 .. 180;
    my $text = '';

    for my $i (0 .. 1999) {
        $text .= substr($filler, 0, 1500 + $i * 37 % 2500) . "\n<"
                 . $spellings[$i % @spellings] . '>';
    }

    $text .= 'x' x (8 * 1024 * 1024 - length Echo::fill($text, $C));

    for my $framing (qw(length chunked)) {
        my $a = ask('a', body => $text, framing => $framing,
                    cut => [map { 10007 * $_ } 1 .. 838]);
        is(differs($a, $C, $text), '', "8 MB with 2,000 tokens, $framing");
        is(completion($a->{path})->{redactions}, 2000, '... are counted');
    }
}

# reads all of a stream, and keeps its length alone; "slow" in small steps

sub drain {
    my ($s, $slow) = @_;
    my ($total, $tail, $leak) = (0, '', 0);

    while (my $n = sysread $s, my $buf, $slow || 1 << 20) {
        $leak++ if index($tail . $buf, $C) >= 0;
        $tail = substr $tail . $buf, -60;
        $total += $n;
    }

    push @leaks, 'a long stream' if $leak;

    return $total;
}

SKIP: {
    my $line = 'some text of a line' . "\n" . substr $C, 0, 25;
    my $lines = $line x 100;
    my @cut = map { length($line) * $_ } 1 .. 99;
    my $times = 200_000_000 / length $lines;

    ask('a', body => $lines, framing => 'chunked', cut => \@cut);

    my $before = peak(1);
    my $path = $up->script(type => 'text/plain', body => $lines, cut => \@cut,
                           framing => 'chunked', times => int $times);
    my $got = drain(Echo::begin($base, "/a$path"));

    cmp_ok($got, '>', 199_000_000, '200 MB of text with starts of tokens');

    # a client that reads slower than the upstream sends, so that all waits

    $path = $up->script(type => 'text/plain', body => $lines, cut => \@cut,
                        framing => 'chunked', times => 5000);
    $got = drain(Echo::begin($base, "/a$path", window => 4096), 2048);

    cmp_ok($got, '>', 20_000_000, 'a slow client');

    # and few octets that become many

    my $data = deflated("$line\n" x 500_000, WANT_GZIP);
    $path = $up->script(type => 'text/plain', body => $data,
                        head => ['Content-Encoding: gzip']);
    $got = drain(Echo::begin($base, "/a$path", window => 4096), 16384);

    cmp_ok($got, '>', 20_000_000, 'a slow client and an answer in gzip');

    skip 'memory is not told apart from a sanitizer\'s', 1 if $asan;
    cmp_ok(peak() - $before, '<', 8192, '... without growing by 8 MiB');
}


# --- a secret that changes ----------------------------------------------------

{
    my $new = Fixture::random(44);

    is(differs(ask('live', body => 'a <raw> b'), $C, 'a <raw> b'), '',
       'a secret as it was first');

    secret('live', $new);
    $token{live} = $new;
    is(differs(ask('live', body => 'a <raw> <base64:2> b'), $new,
               'a <raw> <base64:2> b'), '', 'a new one is masked');
    is(differs(ask('live', body => 'a <raw> b', client => 2), $new,
               'a <raw> b'), '', '... and by HTTP/2');
}

# While an answer is under way: what was sent is what must not come back.

for my $case (['as long', Fixture::random(40)],
              ['longer', Fixture::random(16000)],
              ['shorter', Fixture::random(10)],
              ['gone', undef])
{
    my ($how, $new) = @$case;
    my $old = Fixture::random(40);

    for my $when ('before the answer', 'within it') {
        secret('live', $old);

        my $path = $up->script(type => 'text/plain', framing => 'chunked',
                               body => '0123456789<raw>ab<raw>c',
                               cut => [10, 20, 52, 70], head => ['X-A: <raw>'],
                               $when =~ /before/ ? (hold => 1) : (gates => 1));
        my $s = Echo::begin($base, "/live$path");
        my $got = '';

        $up->seen($path);

        if ($when =~ /within/) {
            $up->go($path, $_) for 1, 2;
            Echo::until($s, \$got, qr/0123456789/);
        }

        if (defined $new) {
            secret('live', $new);
        } else {
            unlink $live;
        }

        # another request makes the worker look, and prepare for the new one
        my $other = $up->script(type => 'text/plain', body => 'a <raw>',
                                cut => [10], framing => 'chunked');
        Echo::ask($base, "/live$other");

        $up->go($path, $_) for 0, 3 .. 6;
        1 while sysread $s, $got, 65536, length $got;

        my $a = leaks(Echo::parse($got, 'GET'), $old, "$how, $when");
        my $wrong = differs($a, $old, '0123456789<raw>ab<raw>c');

        # where it is revoked, nothing is as good as what is masked
        $wrong = '' if !defined $new && !$a->{whole};
        is($wrong, '', "a secret that is $how $when");
    }
}

is_deeply(\@leaks, [], 'the secret is in nothing that a client got');
is_deeply([$g->stop], [], 'nothing in the logs that nobody wants');

done_testing();
