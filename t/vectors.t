# The vectors of what reads and what writes, all of them, through a gateway
# with the presets to an upstream that writes down what arrives: DESIGN 6.4,
# 6.5, wire.md B and C.
#
# A read must have arrived once, as it was sent, with the token in place of the
# placeholder.  Nothing else may have arrived, and the refusal must say what
# the vector says.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Presets;
use Recorder;
use FindBin ();
use JSON::PP;
use MIME::Base64 qw(encode_base64 decode_base64);
use Test::More;
use Time::HiRes qw(time);

my $T = $FindBin::Bin;
my $presets = $ENV{EGRESS_PRESETS_DIR} || "$T/../conf-examples/bindings";
my $json = JSON::PP->new->latin1;

my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $S = $ENV{TEST_NGINX_CANARY};
my $started = time;

my %read = (
    graphql => \&graphql, git => \&git, lfs => \&git, jsonrpc => \&jsonrpc,
    rest_github => \&rest, repos => \&repos,
);

my @files = qw(graphql git lfs jsonrpc rest_github repos);
my %lines;

for my $file (@files) {
    open my $in, '<', "$T/data/vectors/$file.jsonl" or die "$file.jsonl: $!";
    $lines{$file} = [map { $json->decode($_) } <$in>];
    close $in;
}

# one host stands for each list

my %tools = hosts('tools', 'mcp', @{$lines{jsonrpc}});
my %repos = hosts('repos', 'repos', @{$lines{repos}});

plan tests => 2 + @files;

my $up = Recorder->start;

# each list of repositories has a gateway of its own: the hosts are the same

my @gateways = (start('vectors', policy()));
my %of = (map { $_ => $gateways[0] } grep { $_ ne 'repos' } @files);

for my $list (sort keys %repos) {
    push @gateways, $of{$list} = start($repos{$list}, github(<<"CONF"));
        access write;
        repos $list;
CONF
}

END { local $?; $_->stop for grep { $_ } @gateways, $up }

my ($sent, $good, %known) = (0, 0);

for my $file (@files) {
    my (@wrong, %count);
    my %jobs;

    for my $v (@{$lines{$file}}) {
        my %r = $read{$file}->($v);
        my $g = $of{$file} // $of{"@{$v->{repos}}"};

        $r{headers} = [['User-Agent', 'vectors'], ['Accept', '*/*'],
                       @{$r{headers}}];
        push @{$jobs{$g}}, [$g, $v, \%r];
    }

    for my $mine (values %jobs) {
        my @answers = map { $json->decode($_) } $mine->[0][0]->ask(
            map { +{ sni => $_->[2]{host}, request => octets(%{$_->[2]}),
                     head => $_->[2]{method} eq 'HEAD' } } @$mine);
        my @records = $up->records;

        for my $job (@$mine) {
            my (undef, $v, $r) = @$job;
            my $wrong = judge($v, $r, shift @answers, \@records);

            $count{$r->{want}}++;
            push @wrong, "$v->{id} $r->{method} $r->{target}: $wrong"
                if defined $wrong;
        }
    }

    my $n = @{$lines{$file}};

    $good += $n - @wrong;
    my $counts = join ', ', map { "$count{$_} $_" } sort keys %count;

    is(join("\n", @wrong), '', "$file: $n of $n vectors: $counts");
    $sent += $n;
}

my @records = $up->records;

is(join("\n", map { "$_->{method} $_->{target}" }
              @records[grep { !$known{$_} } 0 .. $#records]), '',
   'nothing else arrived at the upstream');

diag("$good of $sent vectors are judged as they say");
note(sprintf '%d arrived, in %.1f s', scalar @records, time - $started);

is(join('', map { $_->complaints } @gateways), '',
   'nothing in the log that should not be there');


# what is wrong with what became of a vector; nothing, if it is as it should be

sub judge {
    my ($v, $r, $answer, $records) = @_;

    return $answer->{error} // 'no answer' unless $answer->{status};

    my %h = map { lc $_->[0] => $_->[1] } @{$answer->{headers}};
    my ($reason) = ($h{'proxy-status'} // '') =~ /details="(\w+): /;
    my $n = $h{'x-arrived'};

    $known{$n}++ if defined $n;

    if ($r->{want} =~ /^(read|anonymous|ok|free)$/) {
        return 'refused as ' . ($reason // $answer->{status})
            unless defined $n;
        return 'arrived twice' if $known{$n} > 1;

        my @differs = Recorder::differs($records->[$n], %$r,
                                        headers => swapped($r));
        return @differs ? join ', ', @differs : undef;
    }

    return 'it arrived' if defined $n;
    return "refused with $answer->{status}, without a reason"
        unless defined $reason && $answer->{status} =~ /^4/
               && $answer->{status} != 401;

    # a request whose answer would be a token is a write of the vectors; the
    # preset refuses it under "access write" too

    my $want = $r->{want} eq 'write' ? $r->{target} =~ m{(/access_tokens|
                   /(?:registration|remove)-token|^/applications/\w+/token
                   (?:/scoped)?)$}x && $r->{method} ne 'DELETE'
                   ? qr/^rule_refused$/ : qr/^write_refused$/
               : $r->{want} eq 'refuse' ? qr/^(?!write_refused|tool_refused)/
               : qr/^\Q$r->{want}\E$/;

    return $reason =~ $want ? undef : "refused as $reason";
}


# --- the requests -------------------------------------------------------------

sub graphql {
    my ($v) = @_;

    return (
        method => $v->{method} // 'POST', host => 'api.github.com',
        target => $v->{target} // '/graphql', want => $v->{want},
        headers => [bearer(), media($v, 'application/json')], body => body($v),
    );
}


sub git {
    my ($v) = @_;

    my $body = body($v);

    $body = '0000' if !defined $body && $v->{method} =~ /^P(OST|UT)$/;

    return (
        method => $v->{method}, target => $v->{target}, body => $body,
        host => $v->{preset} eq 'github' ? 'github.com' : 'git.example.test',
        want => $v->{anonymous} ? 'anonymous' : $v->{want},
        headers => [['Authorization', 'Basic '
                     . encode_base64("x-access-token:$P", '')], media($v)],
    );
}


sub jsonrpc {
    my ($v) = @_;

    return (
        method => 'POST', target => '/mcp', want => $v->{want},
        host => $tools{"@{$v->{tools}}"} . '.test', body => body($v),
        headers => [bearer(), @{$v->{headers} // []},
                    media($v, 'application/json')],
    );
}


sub rest {
    my ($v) = @_;

    my $te = $v->{transfer_encoding};
    my $body = defined $v->{content_length} ? 'x' x $v->{content_length}
               : $te || $v->{method} =~ /^(POST|PUT|PATCH|QUERY)$/ ? '{}'
                 : undef;

    return (
        method => $v->{method}, host => $v->{host}, target => $v->{target},
        headers => [bearer(), @{$v->{headers} // []}], body => $body,
        want => $v->{want}, $te ? (chunks => 2) : (),
    );
}


sub repos {
    my ($v) = @_;

    my $body = $v->{body} // ($v->{method} eq 'POST' ? '0000' : undef);
    my $type = $v->{target} =~ /git-upload-pack$/
               ? 'application/x-git-upload-pack-request'
               : $v->{target} =~ m{/objects/batch$}
                 ? 'application/vnd.git-lfs+json' : 'application/json';

    $body = '{"operation":"download"}' if $type =~ /lfs/;

    return (
        method => $v->{method}, host => $v->{host}, target => $v->{target},
        headers => [bearer(), ['Content-Type', $type]], body => $body,
        want => $v->{want},
    );
}


sub bearer { return ['Authorization', "Bearer $P"] }


sub media {
    my ($v, $type) = @_;

    $type = $v->{content_type} // $type;
    $type = undef unless defined $v->{content_type} || exists $v->{body}
                         || exists $v->{body_b64};

    return (defined $type ? ['Content-Type', $type] : (),
            defined $v->{content_encoding}
            ? ['Content-Encoding', $v->{content_encoding}] : ());
}


sub body {
    my ($v) = @_;

    return decode_base64($v->{body_b64}) if defined $v->{body_b64};
    return undef unless defined $v->{body};

    my $body = $v->{body};
    utf8::encode($body);

    return $body;
}


sub octets {
    my $bytes = Recorder::wire(@_);
    utf8::downgrade($bytes);

    return $bytes;
}


# the headers that should arrive

sub swapped {
    my ($r) = @_;

    return [grep { $_->[0] ne 'Authorization' } @{$r->{headers}}]
        if $r->{want} eq 'anonymous';

    return [map {
        my ($name, $value) = @$_;

        $value = 'Basic ' . encode_base64(decode_base64($1) =~ s/\Q$P\E/$S/r,
                                          '') if $value =~ /^Basic (.*)/;
        $value =~ s/\Q$P\E/$S/;
        [$name, $value];
    } @{$r->{headers}}];
}


# --- the gateways -------------------------------------------------------------

sub hosts {
    my ($field, $name, @vectors) = @_;

    my ($n, %host) = (0);

    for my $list (map { "@{$_->{$field}}" } @vectors) {
        $host{$list} //= $name . ++$n;
    }

    return %host;
}


sub start {
    my ($name, $bindings) = @_;

    my $g = Presets->new($name);

    $g->start($bindings) or BAIL_OUT($g->log);

    return $g;
}


sub binding {
    my ($name, $rules) = @_;

    return <<"CONF";
    binding $name {
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $P;
        upstream http://127.0.0.1:@{[$up->port]};
$rules    }
CONF
}


sub github {
    my ($more) = @_;

    return binding('github', "        include $presets/github.conf;\n$more");
}


sub policy {
    my $mcp = join '', map {
        my $tools = join '', map { " tool=$_" } split;

        binding($tools{$_}, <<"CONF");
        hosts $tools{$_}.test;
        read POST = /mcp json_rpc$tools;
        include $presets/mcp.conf;
CONF
    } sort keys %tools;

    return github('') . binding('generic', <<'CONF') . $mcp;
        hosts git.example.test;
        git on;
CONF
}
