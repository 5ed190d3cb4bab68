# Each preset over all operations of the provider's public description, as
# t/data/operations has them: every one is sent to a gateway, and its audit log
# must tell the class that the operation has by what it does.  Each rule of a
# preset must decide one of them at least.
#
# EGRESS_PRESETS="github npm" runs these only.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Operations;
use Presets;
use FindBin ();
use Test::More;
use Time::HiRes qw(time);

my $T = $FindBin::Bin;
my $presets = $ENV{EGRESS_PRESETS_DIR} || "$T/../conf-examples/bindings";

my @names = split ' ', $ENV{EGRESS_PRESETS} // '';
@names = map { m{([^/]+)\.conf$} } sort glob "$presets/*.conf" unless @names;

plan tests => 3 + 4 * @names;

my $g = Presets->new('presets');

# before what Fixture made goes away
END { local $?; $g->stop if $g }


sub binding {
    my ($name, $list) = @_;

    my $include = "include $presets/$name.conf;";
    my @lines = @{$list->{hosts}}
                ? map { "host $_ { $include }" } @{$list->{hosts}}
                : $include;

    push @lines, "secret $ENV{TEST_NGINX_SECRET} static;",
         "placeholder $ENV{TEST_NGINX_PLACEHOLDER};" if $list->{secret};

    push @lines, @{$list->{with}},
         "upstream http://127.0.0.1:$ENV{TEST_NGINX_CLEAR_PORT};";

    return "    binding $name {\n" . join('', map { "        $_\n" } @lines)
           . "    }\n";
}


# --- what is sent -------------------------------------------------------------

my (%list, %rules, $bindings, @requests);

for my $name (@names) {
    my $file = "$T/data/operations/$name.txt";
    my $list = $list{$name} = eval { Operations::load($file) };

    if (!ok($list, "$name: there is a list of operations")) {
        diag($@);
        next;
    }

    my $n = $list->{beside};

    ok($n && ($list->{operations} // 0) == $n && $list->{source}
       && ($list->{read} // '') =~ /^20\d\d-\d\d-\d\d$/,
       "$name: it is whole, with its source and the day it was read")
        or diag("$name: $n operations, the header says "
                . ($list->{operations} // 'nothing'));

    my $text = Fixture::read_file("$presets/$name.conf");

    $rules{$name} = [Operations::rules($text)];
    $bindings .= binding($name, $list);
    push @requests, map { [$list, $_] } @{$list->{lines}};
}

my $start = time;
my $up = ok($g->start($bindings // ''),
            'nginx starts with all of them, and no host is bound twice')
         || diag($g->log) && 0;

# what is answered is of no interest, the audit log has it all

my @answers = $up ? $g->ask(map {
    my ($list, $op) = @$_;
    +{ sni => $op->{host}, head => $op->{method} eq 'HEAD',
       request => Operations::request($list, $op) };
} @requests) : ();

my @records = $g->records;

ok($up && @answers == @requests && @records == @requests,
   'each request has its answer and its record')
    or diag(scalar(@requests) . ' requests, ' . @answers . ' answers, '
            . @records . " records\n" . join '', grep { /"error"/ } @answers);

note(sprintf '%d requests in %.1f s', scalar @requests, time - $start);


# --- what was decided ---------------------------------------------------------

my %all;

for my $name (@names) {
    my $list = $list{$name};

    if (!$list || !$up) {
        fail("$name: nothing was decided") for 1 .. $list ? 2 : 3;
        next;
    }

    my (@wrong, @other, %count, %decided);
    my @mine = splice @records, 0, @{$list->{lines}};

    for my $i (0 .. $#{$list->{lines}}) {
        my $op = $list->{lines}[$i];
        my $line = $mine[$i] // {};
        my ($path) = split /\?/, $op->{target};

        # records come in the order of requests

        if (($line->{path} // '') ne $path
            || $line->{method} ne $op->{method} || $line->{binding} ne $name)
        {
            push @wrong, "$op->{method} $op->{target}: no record of it";
            last;
        }

        $decided{$line->{rule}} = 1 if defined $line->{rule};

        my $wrong = Operations::wrong($list, $op, $line);
        push @wrong, "$op->{method} $op->{host}$op->{target}: is "
                     . "$op->{class}, was $wrong" if $wrong;

        next if $i >= $list->{beside};

        $count{$op->{class}}++;
        push @other, "$op->{method} $op->{path}: $op->{class}"
            if $op->{class} ne Operations::by_method($op);
    }

    ok(!@wrong, "$name: each operation has its class")
        or diag(map { "$_\n" } @wrong[0 .. ($#wrong > 19 ? 19 : $#wrong)],
                scalar(@wrong) . ' wrong');

    my @idle = grep { !$decided{$_} } @{$rules{$name}};

    ok(!@idle, "$name: each rule decides something")
        or diag(map { "no operation is decided by: $_\n" } @idle);

    note(sprintf '%-18s %5d operations: %4d read, %4d write, %4d refused, '
                 . '%4d anonymous; %d not as their method', $name,
                 $list->{beside}, (map { $count{$_} // 0 }
                                   qw(read write refuse anonymous)),
                 scalar @other);
    note("    $_") for @other[0 .. ($#other > 39 ? 39 : $#other)];

    $all{$_} += $count{$_} // 0 for qw(read write refuse anonymous);
}

note(sprintf 'all: %d read, %d write, %d refused, %d anonymous',
     map { $all{$_} // 0 } qw(read write refuse anonymous));

is(join('', $g->complaints), '', 'nothing in the log that should not be there');
