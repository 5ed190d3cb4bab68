# several credentials of one binding: DESIGN 5.2, "credential"
#
# Each looks at its own fields only; together they are one request, one record
# and one answer.

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
use Echo;
use Fixture;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);

my $gid = getgrnam 'www-data';
my %token = (a => $ENV{TEST_NGINX_CANARY}, b => Fixture::random(40),
             c => Fixture::random(40), short => 'sh0rt');
my %held = (a => $ENV{TEST_NGINX_PLACEHOLDER}, b => 'app_' . Fixture::random(36),
            c => 'sec_' . Fixture::random(36));

sub secret {
    my ($name, $token, $mode, $age) = @_;
    my $file = Fixture::write_file("$name.new", "$token\n", $mode // 0640);
    chown 0, $gid, $file if $> == 0;
    utime time - $age, time - $age, $file if $age;
    rename $file, Fixture::dir() . "/$name" or die "$file: $!";
    return Fixture::dir() . "/$name";
}

my %file = map { $_ => secret("blocks-$_", $token{$_}) } sort keys %token;
my $up = Echo->start;
my ($base, $h2) = (Fixture::free_port(), Fixture::free_port());
my $clear = $ENV{TEST_NGINX_CLEAR_PORT};
my $echo = "upstream http://127.0.0.1:${\$up->port};";

my $modes = "
            credential set { header X-Set prefix=v=; inject always;
                             secret $file{a}; }
            credential absent { inject if_absent; basic_user u everywhere;
                                secret $file{b}; placeholder $held{b}; }
            credential none { header X-Strip; inject strip; }
            credential off { header X-Off; placeholder $held{c}; }";

# by their bindings: what stands in it, without hosts

my %binding = (
    two => "$echo secret $file{a}; placeholder $held{a};
            credential app { header X-App-Key; secret $file{b}; }
            credential app { placeholder $held{b}; ttl 1h; }",
    blocks => "$echo
            credential app { header X-App-Key; secret $file{b};
                             placeholder $held{b}; }
            credential key { header X-Api-Key prefix=key: suffix=;
                             secret $file{c}; placeholder $held{c}; }",
    modes => "$echo $modes",
    prefix => "$echo $modes path_prefix /in;",
    anonymous => "$echo $modes anonymous GET ~ ^/;",
    strict => "$echo foreign_credential refuse; pass_headers X-Other;
            secret $file{a}; placeholder $held{a};
            credential app { header X-App-Key; secret $file{b};
                             placeholder $held{b}; }
            credential off { header X-Off; }",
    passed => "$echo pass_headers X-Other;
            secret $file{a}; placeholder $held{a};
            credential app { header X-App-Key; secret $file{b};
                             placeholder $held{b}; }
            credential off { header X-Off; }",
    short => "$echo secret $file{short}; placeholder $held{a};
            credential app { header X-App-Key; secret $file{b};
                             placeholder $held{b}; }",
    pooled => "upstream http://127.0.0.1:$clear;
            secret $file{a}; placeholder $held{a};
            credential app { header X-Api-Key; secret $file{b};
                             placeholder $held{b}; }
            credential other { header X-App-Key; secret $file{c};
                               placeholder $held{c}; }",
);

my $bindings = join '', map {
    "binding $_ { hosts $_.test; access write; $binding{$_} }\n"
} sort keys %binding;
my $locations = join '', map { "location /$_/ { egress_pass $_; }\n" }
                sort keys %binding;

my $g = Stream->start(egress => "secret_check 0;\n$bindings",
                      http => <<"HTTP");
    server { listen 127.0.0.1:$base; $locations }
    server { listen 127.0.0.1:$h2 http2; $locations }
HTTP

# Sends fields, of whose values {a}, {b} and {c} are the placeholders.  Returns
# the answer, with the request as the upstream got it, its secrets written as
# [a], [b] and [c], and the last record.

my %leak;

sub ask {
    my ($name, $headers, %script) = @_;
    my $client = delete $script{client} // 1;
    my $method = delete $script{method} // 'GET';

    my $path = $up->script(type => 'text/plain', %script);
    my $before = () = $g->audit;
    my @headers = map { s/\{(\w)\}/$held{$1}/gr } @$headers;

    my $a = $client == 2
            ? Echo::ask2($h2, "/$name$path",     # brings an Authorization
                         headers => [grep { !/^Auth/ } @headers])
            : Echo::ask($base, "/$name$path", headers => \@headers,
                        anonymous => 1, method => $method);

    my @records;

    for (1 .. 200) {
        @records = $g->audit;
        splice @records, 0, $before;
        last if @records && ($records[-1]{event} eq 'completion'
                             || $records[-1]{decision} eq 'deny');
        sleep 0.01;
    }

    my $seen = $a->{status} == 200 ? $up->seen($path) : '';
    my ($line) = $seen =~ /^(.*)\r$/m;
    my @fields = grep { !/^(?:Host|Via|Connection):/i }
                 split /\r\n/, $seen =~ s/^.*\r\n//r;

    for (@fields) {
        for my $t (keys %token) {
            s/\Q$token{$t}\E/[$t]/g;
        }
        for my $t (keys %held) {
            s/\Q$held{$t}\E/{$t}/g;
        }
        s{Basic (\S+)}{'Basic ' . MIME::Base64::decode($1)
                       =~ s/\Q$token{b}\E/[b]/r}e;
    }

    for my $t (qw(a b c)) {
        $leak{"$t in an answer of $name"}++
            if index($a->{all}, $token{$t}) >= 0
               || index($a->{body}, $token{$t}) >= 0;
    }

    my $said = $a->{head} =~ /^Proxy-Status: .*details="(\w+):/m ? $1 : '';

    return { %$a, sent => join('|', sort @fields), record => $records[-1],
             first => $records[0], said => $said };
}

sub is_sent {
    my ($a, $status, $credential, $sent, $name) = @_;

    is("$a->{status} $a->{first}{credential} $a->{sent}",
       "$status $credential $sent", $name);
}

sub is_refused {
    my ($a, $status, $reason, $credential, $name) = @_;

    is("$a->{status} $a->{said} $a->{record}{reason} $a->{record}{credential}",
       "$status $reason $reason $credential", $name);
}

sub id { substr sha256_hex($token{$_[0]}), 0, 8 }


# --- each by its own ----------------------------------------------------------

{
    my $a = ask('two', ['Authorization: Bearer {a}', 'X-App-Key: {b}']);

    is_sent($a, 200, 'swapped', 'Authorization: Bearer [a]|X-App-Key: [b]',
            'two fields, each swapped by its own');
    is($a->{first}{credential_id}, id('a'), '... the first is in the record');

    $a = ask('two', ['X-App-Key: {b}']);
    is_sent($a, 200, 'swapped', 'X-App-Key: [b]', 'the second one alone');
    is($a->{first}{credential_id}, id('b'), '... is in the record');

    $a = ask('two', ['Authorization: token {a}']);
    is_sent($a, 200, 'swapped', 'Authorization: token [a]', 'the first alone');

    $a = ask('two', []);
    is_sent($a, 200, 'none', '', 'no credential at all');
    is($a->{first}{credential_id}, undef, '... and none in the record');

    $a = ask('two', ['Authorization: Bearer {b}', 'X-App-Key: {a}']);
    is_sent($a, 200, 'foreign', 'Authorization: Bearer {b}|X-App-Key: {a}',
            'placeholders at the fields of each other are only text');

    $a = ask('two', ['Authorization: Bearer mine', 'X-App-Key: {b}']);
    is_sent($a, 200, 'swapped', 'Authorization: Bearer mine|X-App-Key: [b]',
            'one swapped, one of the client\'s own');

    $a = ask('two', ['Authorization: Bearer {a}', 'X-App-Key: {b} ',
                     'X-Data: {b}']);
    is_sent($a, 200, 'swapped',
            'Authorization: Bearer [a]|X-App-Key: [b]|X-Data: {b}',
            'other fields are no business of anybody');

    is_refused(ask('two', ['X-App-Key: {b}', 'X-App-Key: {b}']), 400,
               'malformed_request', 'none', 'two fields of the second\'s name');

    $a = ask('blocks', ['X-App-Key: {b}', 'X-Api-Key: key:{c}',
                        'Authorization: Bearer {a}']);
    is_sent($a, 200, 'swapped', 'Authorization: Bearer {a}|X-Api-Key: key:[c]'
                                . '|X-App-Key: [b]',
            'only blocks: Authorization is bound by none of them');

    $a = ask('blocks', ['Authorization: Bearer x']);
    is_sent($a, 200, 'none', 'Authorization: Bearer x', '... nor foreign');

    $a = ask('blocks', ['X-Api-Key: {c}', 'X-App-Key: key:{c}']);
    is_sent($a, 200, 'foreign', 'X-Api-Key: {c}|X-App-Key: key:{c}',
            'a prefix belongs to its own field');

    $a = ask('passed', ['X-App-Key: mine', 'X-Off: {b}', 'X-Data: 1',
                        'X-Other: 2', 'Authorization: Bearer {a}']);
    is_sent($a, 200, 'swapped',
            'Authorization: Bearer [a]|X-App-Key: mine|X-Other: 2',
            'pass_headers: all fields that are credentials, but one of "off"');
}


# --- modes --------------------------------------------------------------------

{
    my $mine = ['X-Set: mine', 'X-Strip: x', 'X-Off: {c}'];
    my $bearer = 'Authorization: Bearer {b}';
    my $set = 'X-Off: {c}|X-Set: v=[a]';

    is_sent(ask('modes', $mine), 200, 'set', "Authorization: Basic u:[b]|$set",
            'always, if_absent, strip and off beside each other');
    is_sent(ask('modes', [@$mine, $bearer]), 200, 'swapped',
            "Authorization: Bearer [b]|$set", 'swapped is more than set');
    is_sent(ask('modes', ['Authorization: Bearer x']), 200, 'set',
            'Authorization: Bearer x|X-Set: v=[a]', 'set is more than foreign');

    for my $name ('prefix', 'anonymous') {
        is_sent(ask($name, [@$mine, $bearer]), 200, 'foreign', 'X-Off: {c}',
                "$name: all but \"off\" is removed");
        is_sent(ask($name, ['X-Strip: x', $bearer]), 200, 'stripped', '',
                '... and then it is "stripped"');
    }
}


# --- what is refused ----------------------------------------------------------

for my $headers (['X-App-Key: mine'], ['Authorization: Bearer mine'],
                 ['X-Off: x'], ['Authorization: Bearer {b}'],
                 ['Authorization: Bearer {a}', 'X-App-Key: {a}'],
                 ['X-App-Key: {b}', 'X-Off: {b}'])
{
    my $swapped = grep { /er \{a\}|y: \{b\}/ } @$headers;

    is_refused(ask('strict', $headers), 403, 'foreign_credential',
               $swapped ? 'swapped' : 'foreign', "foreign: @$headers");
}

is_sent(ask('strict', ['Authorization: Bearer {a}', 'X-App-Key: {b}']), 200,
        'swapped', 'Authorization: Bearer [a]|X-App-Key: [b]',
        'foreign_credential refuse, and nothing foreign');

{
    my $both = ['Authorization: Bearer {a}', 'X-App-Key: {b}'];

    for (['credential_missing', 403, sub { unlink $file{b} }],
         ['secret_unreadable', 503,
          sub { secret('blocks-b', $token{b}, 0666); sleep 0.3 }],
         ['credential_expired', 403,
          sub { secret('blocks-b', $token{b}, 0640, 3700) }])
    {
        my ($reason, $status, $break) = @$_;

        $break->();

        is_refused(ask('two', $both), $status, $reason, 'missing',
                   "$reason: the second of two");
        is_refused(ask('two', ['X-App-Key: {b}']), $status, $reason, 'missing',
                   '... alone');
        is_sent(ask('two', [$both->[0]]), 200, 'swapped',
                'Authorization: Bearer [a]', '... the first goes on');
        is_sent(ask('two', [$both->[0], 'X-App-Key: x']), 200, 'swapped',
                'Authorization: Bearer [a]|X-App-Key: x',
                '... beside one of the client\'s own');

        # "ttl" is of one credential, not of others with the same file
        is_sent(ask('blocks', [$both->[1]]), 200, 'swapped', 'X-App-Key: [b]',
                '... and without a ttl') if $reason eq 'credential_expired';

        secret('blocks-b', $token{b});
        is_sent(ask('two', $both), 200, 'swapped',
                'Authorization: Bearer [a]|X-App-Key: [b]', '... is back');
    }

    unlink $file{a};
    is_refused(ask('two', $both), 403, 'credential_missing', 'missing',
               'the first of two is gone');
    is_sent(ask('two', ['X-App-Key: {b}']), 200, 'swapped', 'X-App-Key: [b]',
            '... the second goes on');
    secret('blocks-a', $token{a});
}


# --- answers ------------------------------------------------------------------

sub text {
    my ($masked, @t) = @_;
    my $spell = $masked ? \&Echo::masked : \&Echo::spell;

    return join ' ', map {
        my $t = $_; map { $spell->($_, $token{$t}) } 'raw', 'hex', 'base64:1'
    } @t;
}

for my $case (['both were sent', 'Authorization: Bearer {a}', 'X-App-Key: {b}'],
              ['the first was sent', 'Authorization: Bearer {a}'],
              ['the second was sent', 'X-App-Key: {b}'],
              ['none was sent'])
{
    my ($what, @headers) = @$case;

    for my $client (1, 2) {
        next if $client == 2 && $what !~ /both|first/;

        my $a = ask('two', \@headers, body => text(0, 'a', 'b', 'a'),
                    framing => 'chunked', cut => 'all', client => $client,
                    head => ["X-Back: $token{b}/$token{a}"]);

        is($a->{body}, text(1, 'a', 'b', 'a'),
           "$what, HTTP/$client: both are masked");
        is(scalar Echo::field($a, 'X-Back'), '*' x 40 . '/' . '*' x 40,
           '... in a field');
        is($a->{record}{redactions}, 11, '... and counted');
    }
}

{
    my $a = ask('short', ['Authorization: Bearer {a}', 'X-App-Key: {b}'],
                body => "sh0rt $token{b}");

    is($a->{body}, 'sh0rt ' . '*' x 40,
       'one too short to be looked for does not hide the other');

    unlink $file{b};
    $a = ask('two', ['Authorization: Bearer {a}'], body => text(0, 'a'));
    is($a->{body}, text(1, 'a'), 'without the other one it is masked, too');
    secret('blocks-b', $token{b});
    $a = ask('two', ['X-App-Key: {b}'], body => text(0, 'b', 'a'));
    is($a->{body}, text(1, 'b', 'a'), '... and both with the same value again');
}

# a new value, of one of them, while an answer is under way

{
    my $old = $token{b};
    my $path = $up->script(type => 'text/plain', body => "$token{a} $old",
                           hold => 1);
    my $s = Echo::begin($base, "/two$path", anonymous => 1,
                        headers => ["Authorization: Bearer $held{a}",
                                    "X-App-Key: $held{b}"]);
    $up->seen($path);

    $token{b} = Fixture::random(30);
    secret('blocks-b', $token{b});

    my $a = ask('two', ['X-App-Key: {b}'], body => text(0, 'a', 'b'));
    is($a->{body}, text(1, 'a', 'b'), 'a new value is masked');

    $up->go($path, 0);

    my $got = '';
    1 while sysread $s, $got, 65536, length $got;
    is(Echo::parse($got, 'GET')->{body}, '*' x 40 . ' ' . '*' x 40,
       '... and for a request under way the old one');
}


# --- upstream connections -----------------------------------------------------

sub conn {
    my (@headers) = map { s/\{(\w)\}/$held{$1}/gr } @_;
    my $a = Echo::ask($base, '/pooled/x', anonymous => 1, headers => \@headers);

    return Echo::field($a, 'X-Conn') // "none: $a->{line}";
}

{
    my @both = ('Authorization: Bearer {a}', 'X-Api-Key: {b}');
    my $first = conn(@both);

    is(conn(@both), $first, 'a connection is used again');
    is(conn(), $first, '... without a credential');

    for my $t ('b', 'a', 'c') {
        $token{$t} = Fixture::random(36);
        secret("blocks-$t", $token{$t});

        my $next = conn(@both);

        isnt($next, $first, "... but not once the secret \"$t\" is another");
        is(conn(@both), $next, '... and then the new one is');
        $first = $next;
    }
}


is_deeply(\%leak, {}, 'no secret is in what a client got');
is_deeply([$g->stop], [], 'nothing in the logs that nobody wants');

done_testing();
