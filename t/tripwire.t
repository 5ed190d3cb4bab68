# Values that secrets have or had, sent by a client: DESIGN 6.8

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
use Fixture;
use JSON::PP;
use MIME::Base64;
use Raw;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);

my $dir = Fixture::dir();
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my @values;

mkdir "$dir/$_" for qw(sandboxes live own);
chmod 0755, map { "$dir/$_" } qw(sandboxes live own);

Fixture::write_file("$dir/sandboxes/$_.json", '{}', 0640) for qw(box1 box2);
chown -1, $gid, map { "$dir/sandboxes/$_.json" } qw(box1 box2);

sub fresh {
    my ($n) = @_;
    push @values, Fixture::random($n // 40);
    return $values[-1];
}

# a secret, by rename

sub secret {
    my ($name, $value) = @_;
    Fixture::write_file("$dir/$name.new", "$value\n", 0640);
    chown -1, $gid, "$dir/$name.new";
    rename "$dir/$name.new", "$dir/$name" or die "$name: $!";
    return $value;
}

my $first = secret('live/api', fresh());
my $fixed = secret('live/fixed', fresh());
my $key = secret('live/key', fresh(60));
my $short = secret('live/short', fresh(7));
my $box1 = secret('own/box1', fresh());
my $box2 = secret('own/box2', fresh());

my $up = Raw->start(listen => { main => { '127.0.0.1' => 'tls' } },
                    certs => { '*' => ["$dir/up.pem", "$dir/up.key"] });

my $base = Fixture::free_port();
my $main = $up->port('main');
my @hosts = qw(api.test other.test third.test github.com api.github.com
               uploads.github.com);
my %binding = (
    api => "secret $dir/live/api; placeholder $P;",
    set => "secret $dir/live/fixed static; inject always;",
    strip => 'inject strip;',
    off => 'access write; header Authorization; header X-Api-Key;',
    key => "secret $dir/live/key; placeholder $P; header X-Api-Key prefix=k=;
            credential short { secret $dir/live/short; placeholder short-placeholder; header Authorization; }",
    own => "secret $dir/own/\$egress_sandbox; placeholder $P;",
);
my ($bindings, $locations) = ('', '');

for my $name (sort keys %binding) {
    my $host = shift @hosts;

    $bindings .= "binding $name { hosts $host; "
                 . "upstream https://127.0.0.1:$main; $binding{$name} }\n";
    $locations .= "location /$name/ { egress_pass $name; }\n";
}

my $g = Stream->start(egress => "sandboxes $dir/sandboxes; secret_check 0;
                                 unidentified default;",
                      bindings => $bindings, http => <<"CONF");
    server {
        listen 127.0.0.1:$base;
        egress_sandbox \$arg_id;
        $locations
    }
CONF

my $audits = 0;

# the reason, or what the upstream saw; a refusal is told everywhere, and
# nothing of the request gets upstream

sub got {
    my ($path, @headers) = @_;

    $up->news;

    my $a = Raw::ask($base, 'GET', $path, auth => undef,
                     headers => \@headers);
    my ($reason) = $a->{head} =~ /details="(\w+)/;
    my $rec = $g->record($audits);

    $audits = () = $g->log('audit.json') =~ /\n/g;

    return Raw::field($a, 'X-Auth') // "?$a->{all}" if !defined $reason;

    return "$reason, but $rec->{reason}, $rec->{credential}, $a->{status}"
        if $rec->{reason} ne $reason || $a->{status} != 403
           || $rec->{credential} ne 'foreign';
    return "$reason, but upstream" if grep { $_->{e} eq 'request' } $up->news;

    return $reason;
}

sub auth { return 'Authorization: ' . $_[0] }
sub basic { return auth('Basic ' . encode_base64($_[0], '')) }

my $no = 'foreign_credential';

# lines of the error log about it

sub told { return scalar(() = $g->log('error.log') =~ /\[warn\] .*client sent the present or a former value of a secret/g) }


# --- the present value ---------------------------------------------------------------

is(got('/api/x', auth("Bearer $P")), 'other', 'a placeholder: swapped');
is(got('/api/x', auth('Bearer ' . Fixture::random(40))), 'other',
   'a credential of the client\'s own: passed');
is(told(), 0, 'nothing is said of either');

is(got('/api/x', auth("Bearer $first")), $no, 'the real one: refused');
is(told(), 1, 'and told');
like($g->log('error.log'),
     qr/\[warn\] .* in "Authorization", binding "api", sandbox ""/,
     'with the binding');

(my $bare = encode_base64("x:$first", '')) =~ s/=+$//;

for my $case (
    ['bare', auth($first)],
    ['token', auth("token $first")],
    ['lower case', auth("bearer $first")],
    ['spaces', auth("Bearer    $first")],
    ['a tab', auth("Bearer\t$first")],
    ['another scheme', auth("ApiKey $first")],
    ['the password of Basic', basic("x-access-token:$first")],
    ['without a user', basic(":$first")],
    ['with colons', basic("$first:x-oauth-basic:more")],
    ['the user of Basic', basic("$first:x-oauth-basic")],
    ['without a password', basic("$first:")],
    ['all of Basic', basic($first)],
    ['basic in lower case', auth('basic ' . encode_base64("x:$first", ''))],
    ['Basic without padding', auth("Basic $bare")],
    ['beside a placeholder', basic("$P:$first")],
    ['before one', basic("$first:$P")],
)
{
    my ($name, $header) = @$case;
    is(got('/api/x', $header), $no, $name);
}

for my $case (
    ['another case', auth('Bearer ' . (lc $first eq $first ? uc $first : lc $first))],
    ['an octet less', auth('Bearer ' . substr $first, 1)],
    ['an octet more', auth("Bearer ${first}x")],
    ['another pair', basic('x-access-token:' . Fixture::random(40))],
    ['a header that is not bound', "X-Api-Key: $first"],
    ['Basic that is none', auth('Basic !!!')],
)
{
    my ($name, $header) = @$case;
    is(got('/api/x', $header), $header =~ /X-Api/ ? 'none' : 'other',
       "$name: passed");
}

is(got('/api/x', basic("x-access-token:$P")), 'other',
   'half a pair that is a placeholder');

# whatever the binding does with its headers, and whose value it is

for my $name (sort keys %binding) {
    next if $name eq 'key';
    is(got("/$name/x", auth("Bearer $_")), $no, "binding $name")
        for $first, $fixed, $key;
}

# nginx itself refuses two lines of Authorization

is(got('/off/x', 'X-Api-Key: a', "X-Api-Key: $first"), $no,
   'the second of two lines');
is(got('/off/x', 'X-Api-Key: a', 'X-Api-Key: b'), 'none', 'without it');

is(got('/key/x', "X-Api-Key: $_"), $no, "another header: $_")
    for $key, "k=$key", "Bearer $key", $first, "k=$first";
is(got('/key/x', "X-Api-Key: k=$P"), 'none', 'its placeholder');
is(got('/off/x', "X-Api-Key: $key"), $no, 'where it passes the header');
is(got('/key/x', auth("Bearer $short")), 'other',
   'a value of seven octets is a word like others');


# --- sandboxes ------------------------------------------------------------------------

is(got('/own/x?id=box1', auth("Bearer $box1")), 'other',
   'a value that nobody has read yet');
is(got('/own/x?id=box1', auth("Bearer $P")), 'other', 'it is read');
is(got('/own/x?id=box1', auth("Bearer $box1")), $no, 'by its own sandbox');
like($g->log('error.log'), qr/binding "own", sandbox "box1"/, 'told');
is(got('/own/x?id=box2', auth("Bearer $box1")), $no, 'by another');
like($g->log('error.log'), qr/binding "own", sandbox "box2"/, 'told');
is(got('/api/x', auth("Bearer $box1")), $no, 'for another binding');


# --- former values --------------------------------------------------------------------

my $second = secret('live/api', fresh());

is(got('/api/x', auth("Bearer $P")), 'other', 'another value, by rename');
is(got('/api/x', auth("Bearer $_")), $no, 'before, and now')
    for $first, $second;

my $third = fresh(50);
Fixture::write_file("$dir/live/api", "$third\n");

is(got('/api/x', auth("Bearer $P")), 'other', 'by writing into the file');
is(got('/api/x', auth("Bearer $_")), $no, 'each of the three')
    for $first, $second, $third;

unlink "$dir/live/api";
is((Raw::ask($base, 'GET', '/api/x')->{head} =~ /details="(\w+)/)[0],
   'credential_missing', 'removed');
$audits = () = $g->log('audit.json') =~ /\n/g;
is(got('/api/x', auth("Bearer $third")), $no, 'and remembered');

my $later = secret('own/box1', fresh());
is(got('/own/x?id=box1', auth("Bearer $P")), 'other', 'of a sandbox');
is(got('/own/x?id=box1', auth("Bearer $_")), $no, 'before, and now')
    for $box1, $later;


# --- a reload --------------------------------------------------------------------------

sub reload {
    my %old = map { $_ => 1 } $g->workers;

    kill 'HUP', $g->{pid};

    for (1 .. 500) {
        last if grep({ !$old{$_} } $g->workers)
                && !grep { Stream::running($_) } keys %old;
        sleep 0.02;
    }
}

# no request has shown the worker what came after "third", nor "fixed" at all

my $fourth = secret('live/api', fresh());
reload();
my $fifth = secret('live/api', fresh());
my $fixed2 = secret('live/fixed', fresh());
reload();

is(got('/api/x', auth('Bearer ' . Fixture::random(40))), 'other',
   'a reload: any other passes');

for my $case ([first => $first], [second => $second], [third => $third],
              [fourth => $fourth], [fifth => $fifth], [fixed => $fixed],
              ['fixed, now' => $fixed2], [sandbox => $box1],
              ['sandbox, now' => $later])
{
    my ($name, $value) = @$case;
    is(got('/api/x', auth("Bearer $value")), $no, "remembered: $name");
}

is_deeply([$g->stop], [], 'nothing odd in the logs');

for my $value (@values) {
    for my $log (qw(error.log audit.json access.log)) {
        my ($line) = $g->log($log) =~ /^(.*\Q$value\E.*)$/m;
        is($line, undef, "no value in $log");
    }
}

done_testing();
