# Requests as real clients send them, through a gateway with all the presets
# to an upstream that writes down what arrives: 200 that read, 200 that write,
# chosen by hand, each by what it does at the provider.
#
# A read must have arrived once, as it was sent, with the token of its own
# preset in place of the placeholder.  No write may have arrived, and the audit
# log must have its reason.
#
# t/data/requests has them, one a line:
#
#     id preset method host target note
#     client     headers that this client sends with each of its requests,
#                in clients.json
#     headers    more of them; of the same name as one of the client's: instead
#     body, body_b64, chunks (the size of each)
#     anonymous  a read that arrives without the credential
#     reason     of the refusal, if it is not write_refused
#
# $P is the placeholder of the preset, $P2 that of its second credential, and
# $B(...) is base64.

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
my $json = JSON::PP->new->utf8;

# of the presets that leave something to the operator: the names, and more

my %more = (
    gitlab => { hosts => ['git.example.test'], with => 'header Authorization;
                header PRIVATE-TOKEN; header JOB-TOKEN;' },
    'jira-confluence' => { hosts => [qw(acme.atlassian.test
                                        api.atlassian.test)] },
    npm => { hosts => ['npm.example.test'] },
    oci => { hosts => [qw(registry.example.test auth.example.test)] },
    pypi => { hosts => ['pypi.example.test'] },
    mcp => { hosts => ['mcp.test'], first => 'read POST = /mcp json_rpc
             tool=search_tickets tool=get_ticket;' },
    ollama => { hosts => ['ollama.test'], secret => 0 },
    'github-downloads' => { secret => 0 },
    datadog => { second => 'application' },
);

# the fields in which each may have its credential

my %bound = (
    gitlab => qr/^(authorization|private-token|job-token)$/i,
    anthropic => qr/^(x-api-key|authorization)$/i,
    datadog => qr/^dd-(api|application)-key$/i,
);

my $clients = $json->decode(Fixture::read_file(
                            "$T/data/requests/clients.json"));
my @lines = (map({ { %$_, class => 'read' } } lines('reads')),
             map({ { %$_, class => 'write' } } lines('writes')));
my @names = map { m{([^/]+)\.conf$} } sort glob "$presets/*.conf";

my %ids = map { $_->{id} => 1 } @lines;
my %of = map { my $p = $_; $p => [grep { $_->{preset} eq $p } @lines] } @names;

plan tests => 5 + @names;

is(scalar keys %ids, 400, 'there are 400 of them');
my ($reads, $writes) = map { my $class = $_; scalar grep {
    $_->{class} eq $class } @{$of{github}} } qw(read write);
ok($reads >= 80 && $writes >= 80, 'at least 80 of each for github');

my %token = map { ($_ => token(), "$_ 2" => token()) } @names;
my $up = Recorder->start;
my $g = Presets->new('requests');

END { local $?; $_->stop for grep { $_ } $g, $up }

$g->start(join '', map { binding($_) } @names) or BAIL_OUT($g->log);

my $started = time;
my @answers = map { $json->decode($_) } $g->ask(map {
    +{ sni => $_->{host}, head => $_->{method} eq 'HEAD',
       request => Recorder::wire(sent($_, 'placeholder')) };
} @lines);
my @arrived = $up->records;
my @records = $g->records;
my $took = time - $started;

is(scalar @records, scalar @lines, 'each has its record in the audit log');

my (%good, %wrong, %known);

for my $line (@lines) {
    my $wrong = judge($line, shift @answers, shift @records);

    if (defined $wrong) {
        push @{$wrong{$line->{preset}}}, "$line->{id} ($line->{note}), "
             . "$line->{method} $line->{host}$line->{target}: $wrong";
    } else {
        $good{$line->{class}}++;
    }
}

for my $name (@names) {
    my %n = (read => 0, write => 0);

    $n{$_->{class}}++ for @{$of{$name}};
    is(join("\n", @{$wrong{$name} // []},
            $n{read} && $n{write} ? () : 'nothing is asked of it'), '',
       "$name: $n{read} reads, $n{write} writes");
}

is(join("\n", map { "$_->{method} $_->{target}" }
              @arrived[grep { !$known{$_} } 0 .. $#arrived]), '',
   'nothing else arrived at the upstream');
is(join('', $g->complaints), '', 'nothing in the log that should not be there');

diag(sprintf '%d of %d reads passed, %d of %d writes refused', map {
         my $class = $_;
         ($good{$class} // 0, scalar grep { $_->{class} eq $class } @lines);
     } qw(read write));
note(sprintf '%.1f s', $took);


# what is wrong with what became of a request; nothing, if it is as it should be

sub judge {
    my ($line, $answer, $record) = @_;

    return $answer->{error} // 'no answer' unless $answer->{status};

    my ($path) = split /\?/, $line->{target};

    return "the audit log has $record->{method} $record->{path} of it"
        if $record->{path} ne $path || $record->{method} ne $line->{method}
           || $record->{binding} ne $line->{preset};

    my ($n) = map { $_->[1] } grep { lc $_->[0] eq 'x-arrived' }
              @{$answer->{headers}};

    $known{$n}++ if defined $n;

    if ($line->{class} eq 'read') {
        return "$record->{reason}, by " . ($record->{rule} // 'method')
            unless defined $n;
        return 'arrived twice' if $known{$n} > 1;

        my @differs = Recorder::differs($arrived[$n], sent($line, 'token'));
        return @differs ? join ', ', @differs : undef;
    }

    return 'it arrived' if defined $n;
    return "is $record->{decision}, $record->{reason}"
        if $record->{decision} ne 'deny'
           || $record->{reason} ne ($line->{reason} // 'write_refused');
    return "refused with $answer->{status}"
        if $answer->{status} !~ /^4/ || $answer->{status} == 401;

    return undef;
}


# --- the requests -------------------------------------------------------------

sub lines {
    my ($name) = @_;

    return map { $json->decode($_) } split /^/,
           Fixture::read_file("$T/data/requests/$name.jsonl");
}


# as the client sends it, or as it should arrive

sub sent {
    my ($line, $as) = @_;

    my $of = $line->{preset};
    my @own = @{$line->{headers} // []};
    my %own = map { lc((split /:/)[0]) => 1 } @own;
    my @client = $line->{client} ? @{$clients->{$line->{client}}
                                     // die "$line->{id}: who is that?"} : ();

    my @headers = map { [/^([^:]+): ?(.*)$/s] }
                  grep({ !$own{lc((split /:/)[0])} } @client), @own;

    for my $h (@headers) {
        $h->[1] =~ s/\$P2\b/value("$of 2", $as)/ge;
        $h->[1] =~ s/\$P\b/value($of, $as)/ge;
        $h->[1] =~ s/\$B\((.*)\)/encode_base64($1, '')/ge;
    }

    if ($as eq 'token') {
        my $bound = $bound{$of} // qr/^authorization$/i;
        my $pass = passed($of);

        @headers = grep { $_->[0] !~ $bound } @headers if $line->{anonymous};
        @headers = grep { $_->[0] =~ $bound || $pass->{lc $_->[0]} } @headers
            if $pass;
    }

    my $body = defined $line->{body_b64} ? decode_base64($line->{body_b64})
                                         : $line->{body};
    utf8::encode($body) if defined $line->{body};

    return (method => $line->{method}, host => $line->{host},
            target => $line->{target}, headers => \@headers, body => $body,
            $line->{chunks} ? (chunks => $line->{chunks}) : ());
}


# the fields that a preset lets go on, where it does not let all

sub passed {
    my ($name) = @_;

    my $text = Fixture::read_file("$presets/$name.conf") =~ s/^\s*#.*//gmr;

    return unless $text =~ /^\s*pass_headers\s+([^;]*);/m;
    return { map { lc $_ => 1 } split ' ', $1 };
}


sub token { return 'ghp_' . Fixture::random(36) }


# each has a token and a placeholder of its own

sub value {
    my ($of, $as) = @_;

    return $as eq 'token' ? $token{$of} : $token{"placeholder $of"} //= token();
}


# --- the gateway --------------------------------------------------------------

sub binding {
    my ($name) = @_;

    my $more = $more{$name} // {};
    my $include = ($more->{first} // '') . " include $presets/$name.conf;";
    my @lines = $more->{hosts} ? map { "host $_ { $include }" }
                                 @{$more->{hosts}} : $include;

    push @lines, secret($name) if $more->{secret} // 1;
    push @lines, 'credential ' . $more->{second} . ' { '
                 . secret("$name 2") . ' }' if $more->{second};
    push @lines, $more->{with} // (),
         "upstream http://127.0.0.1:" . $up->port . ';';

    return "    binding $name {\n" . join('', map { "        $_\n" } @lines)
           . "    }\n";
}


sub secret {
    my ($of) = @_;

    my $file = Fixture::write_file('token-' . ($of =~ s/ /-/r), $token{$of},
                                   0600);

    return "secret $file static; placeholder " . value($of, 'placeholder')
           . ';';
}
