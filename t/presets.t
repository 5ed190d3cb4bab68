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
use FindBin ();
use JSON::PP;
use MIME::Base64 ();
use Test::More;
use Time::HiRes qw(time sleep);

my $pid;

END {
    local $?;

    if ($pid) {
        kill 'QUIT', $pid;

        for (1 .. 250) {
            last unless kill 0, $pid;
            sleep 0.02;
        }
    }
}

my $T = $FindBin::Bin;
my $presets = $ENV{EGRESS_PRESETS_DIR} || "$T/../conf-examples/bindings";
my $json = JSON::PP->new->latin1;
my $dir = Fixture::dir() . '/presets';
my $port = Fixture::free_port();

my @names = split ' ', $ENV{EGRESS_PRESETS} // '';
@names = map { m{([^/]+)\.conf$} } sort glob "$presets/*.conf" unless @names;

plan tests => 3 + 4 * @names;

mkdir $dir or die "$dir: $!";
mkdir "$dir/$_" or die "$dir/$_: $!" for qw(logs bindings);


# --- the gateway --------------------------------------------------------------

sub binding {
    my ($name, $list) = @_;

    my $include = "include $dir/bindings/$name.conf;";
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


sub configuration {
    my ($bindings) = @_;

    my $modules = join '', map { "load_module $_;\n" }
                  split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
    my $user = $> == 0 ? 'user www-data;' : '';

    return <<"CONF";
$modules$user
worker_processes 1;
pid $dir/pid;
error_log $dir/logs/error.log info;
events { }
egress {
    ca $ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem $ENV{TEST_NGINX_FIXTURE_DIR}/ca.key;
    audit_log $dir/logs/audit.json;
$bindings}
http {
    client_body_temp_path $dir/t1; proxy_temp_path $dir/t2;
    fastcgi_temp_path $dir/t3; uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
    access_log off;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:$port ssl;
        egress_terminate on;
        location / { egress_pass; }
    }
}
CONF
}


sub nginx {
    my (@args) = @_;

    return eval {
        Fixture::run($ENV{TEST_NGINX_BINARY} || 'nginx', '-p', $dir, '-e',
                     "$dir/logs/error.log", '-c', "$dir/nginx.conf", @args);
        1;
    };
}


# one after the other, over a connection a host; what was answered is of no
# interest, the audit log has it all

sub ask {
    my (@requests) = @_;

    my $jobs = join '', map {
        my ($list, $op) = @$_;
        $json->encode({
            id => $op->{place}, address => '127.0.0.1', port => $port + 0,
            sni => $op->{host}, keep => 1, head => $op->{method} eq 'HEAD',
            request => MIME::Base64::encode(Operations::request($list, $op),
                                            ''),
        }) . "\n";
    } @requests;

    Fixture::write_file("$dir/jobs", $jobs);

    return split /^/, `python3 '$T/clients/lib/rawtls.py' '$ENV{TEST_NGINX_FIXTURE_DIR}/ca.pem' < '$dir/jobs'`;
}


# Until the module knows them all: lines with words that it does not know are
# left out, and with them what an inspector would have to tell.

my ($module) = grep { /_http_/ } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
my $code = defined $module ? Fixture::read_file($module) : '';

sub has { return !defined $module || $code =~ /\0$_[0]\0/ }

sub known {
    my ($text) = @_;

    for my $word (qw(repo repo_free repos env credential inspect_body_max)) {
        $text =~ s/^\s*$word\s[^;]*;//mg unless has($word);
    }

    for my $word (qw(graphql lfs_batch json_rpc oci_scope)) {
        $text =~ s/^\s*read\s[^;#]*\s$word\b[^;]*;//mg unless has($word);
    }

    return $text;
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

    my $text = known(Fixture::read_file("$presets/$name.conf"));

    $rules{$name} = [Operations::rules($text)];
    Fixture::write_file("$dir/bindings/$name.conf", $text);

    my $told = sub {
        my ($op) = @_;
        return has('oci_scope') if $op->{path} =~ m{/(token|auth)/?\?|^/token$};
        return !defined $op->{body} || has('graphql');
    };

    my @known = grep { $told->($_) } @{$list->{lines}};

    $n = grep { $told->($_) } @{$list->{lines}}[0 .. $n - 1];

    ($list->{beside}, $list->{lines}) = ($n, \@known);

    $bindings .= binding($name, $list);
    push @requests, map { [$list, $_] } @{$list->{lines}};
}

Fixture::write_file("$dir/nginx.conf", configuration($bindings // ''));

my $start = time;
my $up = ok(nginx(), 'nginx starts with all of them, and no host is bound twice')
         || diag(Fixture::read_file("$dir/logs/error.log")) && 0;

($pid) = Fixture::read_file("$dir/pid") =~ /(\d+)/;

my @answers = $up ? ask(@requests) : ();
my @lines = grep { /"event":"decision"/ }
            split /^/, Fixture::read_file("$dir/logs/audit.json");

ok($up && @answers == @requests && @lines == @requests,
   'each request has its answer and its record')
    or diag(scalar(@requests) . ' requests, ' . @answers . ' answers, '
            . @lines . " records\n" . join '', grep { /"error"/ } @answers);

note(sprintf '%d requests in %.1f s', scalar @requests, time - $start);


# --- what was decided ---------------------------------------------------------

my %all;

for my $name (@names) {
    my $list = $list{$name} or do {
        fail("$name: $_") for 'it is whole', 'classes', 'rules';
        next;
    };

    my (@wrong, @other, %count, %decided);

    for my $i (0 .. $#{$list->{lines}}) {
        my $op = $list->{lines}[$i];
        my $line = @lines ? $json->decode(shift @lines) : {};
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

my @log = grep { /\[(warn|error|crit|alert|emerg)\]/
                 && !/egress request refused/ }
          split /^/, Fixture::read_file("$dir/logs/error.log");

is("@log", '', 'nothing in the log that should not be there');
