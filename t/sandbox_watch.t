# What happens in the directory of sandboxes is told by the kernel, DESIGN 6.9;
# and where it can't be, files are looked at
#
# "secret_check" of the first gateway is so long that nothing would be noticed
# within this test by looking.

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Stream;
use Test::More;
use Time::HiRes qw(sleep time);
use Wire;

my $dir = Fixture::dir();
my $gid = $> == 0 ? (getpwnam 'www-data')[3] : $) + 0;

# those of core/ngx_egress_sandbox_watch.c
my %told = map { $_ => 1 }
           qw(ef53 58465342 9123683e f2f52010 2fc12fc1 1021994 794c7630);

chomp(my $type = `stat -f -c %t $dir`);

plan skip_all => "the file system of $dir tells nothing"
    unless $^O eq 'linux' && $told{$type};

my $up = Wire->listen;
my $port = $up->port;

sub directory {
    my ($path) = @_;
    mkdir $path or die "$path: $!";
    chown -1, $gid, $path;
    chmod 0750, $path;
    return $path;
}

sub put_file {
    my ($path, $text) = @_;
    Fixture::write_file("$path.new", $text, 0640);
    chown -1, $gid, "$path.new";

    # settled: what was just written is looked at once more anyway
    utime time - 60, time - 60, "$path.new";
    rename "$path.new", $path or die "$path: $!";
}

sub in_place {
    my ($path, $text) = @_;
    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
}

sub gateway {
    my ($boxes, $check) = @_;
    my $base = Fixture::free_port();

    my $g = Stream->start(bindings => '', egress => <<"EGRESS", http => <<"HTTP");
    sandboxes $boxes;
    secret_check $check;
    binding raw {
        hosts raw.test;
        upstream http://127.0.0.1:$port;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $ENV{TEST_NGINX_PLACEHOLDER};
    }
    role default { use raw; }
    role none { }
EGRESS
    map \$http_x_box \$box { default ""; "~^(?<b>.+)\$" \$b; }
    server {
        listen 127.0.0.1:$base;
        egress_sandbox \$box;
        proxy_read_timeout 60s;
        location / { egress_pass raw; }
    }
HTTP

    $g->{base} = $base;

    return $g;
}

# 200, or the reason of a refusal

sub ask {
    my ($g, $id) = @_;

    my $c = Wire->connect($g->{base});
    $c->put("GET /x HTTP/1.1\r\nHost: raw.test\r\nX-Box: $id\r\n"
            . "Connection: close\r\n\r\n");

    if (my $u = $up->accept(0.2)) {
        $u->head;
        $u->put("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                . "Connection: close\r\n\r\nok");
        $u->close;
    }

    my $a = $c->answer;
    $c->close;

    return $a->{status} if $a->{status} == 200;

    my ($why) = (Wire::field($a, 'Proxy-Status') // '') =~ /details="(\w+)/;
    return $why;
}

# what it comes to within any sensible time

sub becomes {
    my ($g, $id, $want, $name) = @_;
    my $got;

    for (1 .. 100) {
        $got = ask($g, $id);
        last if $got eq $want;
        sleep 0.05;
    }

    is($got, $want, $name);
}

# the worker writes it once it has started

sub says {
    my ($g, $want) = @_;
    for (1 .. 200) {
        last if $g->log('error.log') =~ $want;
        sleep 0.02;
    }
    return $g->log('error.log');
}

sub stream_of {
    my ($g, $id) = @_;

    my $c = Wire->connect($g->{base});
    $c->put("GET /events HTTP/1.1\r\nHost: raw.test\r\nX-Box: $id\r\n\r\n");
    my $u = $up->accept;
    $u->head;
    $u->put("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
            . "data: 1\n\n");
    $c->get(qr/data: 1/);

    return ($c, $u);
}

sub closed {
    my ($c, $name) = @_;
    my (undef, $how) = $c->rest(8);
    isnt($how, 'timeout', "$name: closed");
    $c->close;
}


# --- told -----------------------------------------------------------------------

my $boxes = directory("$dir/sandboxes");
my $g = gateway($boxes, '600s');
my $n = 0;

my $told = qr/changes of sandboxes are told by the kernel/;
like(says($g, $told), $told, 'the error log says so');

my %change = (
    'removed' => [sub { unlink $_[0] }, 'sandbox_unknown'],
    'moved away' => [sub { rename $_[0], "$dir/elsewhere" },
                     'sandbox_unknown'],
    'renamed' => [sub { rename $_[0], "$boxes/other-name.json" },
                  'sandbox_unknown'],
    'replaced' => [sub { put_file($_[0], '{"role": "none"}') },
                   'binding_refused'],
    'written in its place' => [sub { in_place($_[0], '{"role": "none"}') },
                               'binding_refused'],
    'emptied' => [sub { in_place($_[0], ''); utime 1, 1, $_[0] },
                  'sandbox_unknown'],
    'open to others' => [sub { chmod 0644, $_[0] }, 'sandbox_unknown'],
    'another directory in its place' => [sub { unlink $_[0]; mkdir $_[0] },
                                         'sandbox_unknown'],
);

for my $name (sort keys %change) {
    my ($change, $reason) = @{$change{$name}};
    my $id = 'box' . ++$n;

    put_file("$boxes/$id.json", '{}');
    is(ask($g, $id), 200, "$name: before");

    $change->("$boxes/$id.json");
    becomes($g, $id, $reason, $name);
}

for my $name ('removed', 'replaced', 'written in its place') {
    my ($change) = @{$change{$name}};
    my $id = 'box' . ++$n;

    put_file("$boxes/$id.json", '{}');
    my ($c, $u) = stream_of($g, $id);

    $change->("$boxes/$id.json");
    closed($c, "$name, an event stream");
    closed($u, "$name, its upstream");
}

{
    # a name of another sandbox, or of a file that is not one's own, is nothing

    put_file("$boxes/stays.json", '{}');
    my ($c, $u) = stream_of($g, 'stays');

    for my $other ('stays', 'stays.json.json', 'stays.json~', 'stay.json') {
        put_file("$boxes/$other", '{}');
        unlink "$boxes/$other";
    }

    utime 2, 2, "$boxes/stays.json";
    is(ask($g, 'stays'), 200, 'another file: goes on');
    $u->put("data: 2\n\n");
    like($c->get(qr/data: 2/), qr/data: 2/, 'and what is open, too');
    $_->close for $c, $u;
}


# --- a worker that a reload has left behind ---------------------------------------

{
    put_file("$boxes/old.json", '{}');
    my ($c, $u) = stream_of($g, 'old');
    my %old = map { $_ => 1 } $g->workers;

    kill 'HUP', $g->{pid};
    for (1 .. 400) { last if grep { !$old{$_} } $g->workers; sleep 0.02 }

    unlink "$boxes/old.json";
    closed($c, 'an old worker');
    closed($u, 'an old worker, upstream');

    my $left = 1;
    for (1 .. 400) {
        $left = grep { $old{$_} } $g->workers;
        last unless $left;
        sleep 0.02;
    }
    is($left, 0, 'which leaves');
}


# --- more than the kernel keeps ---------------------------------------------------

SKIP: {
    my $most = eval {
        local @ARGV = '/proc/sys/fs/inotify/max_queued_events';
        <> + 0;
    };

    skip 'no small queue of events', 3 unless $most && $most <= 65536;

    put_file("$boxes/$_.json", '{}') for qw(lost one two);
    is(ask($g, 'lost'), 200, 'an overflow: before');

    # until it is stopped, it reads

    my ($worker) = $g->workers;
    kill 'STOP', $worker;
    for (1 .. 200) {
        last if Fixture::read_file("/proc/$worker/stat") =~ /\) T /;
        sleep 0.02;
    }

    for (1 .. $most / 2 + 10) {
        chmod 0640, "$boxes/one.json";
        chmod 0640, "$boxes/two.json";
    }

    unlink "$boxes/lost.json";
    kill 'CONT', $worker;

    becomes($g, 'lost', 'sandbox_unknown', 'an overflow: looked at');
    is(ask($g, 'one'), 200, 'and the others are as they were');
}


# --- the directory itself ---------------------------------------------------------

put_file("$boxes/last.json", '{}');
is(ask($g, 'last'), 200, 'the directory: before');
chmod 0600, $boxes;
becomes($g, 'last', 'sandbox_unknown', 'the directory: closed to workers');
chmod 0750, $boxes;
is(ask($g, 'last'), 200, 'the directory: open again');
rename $boxes, "$boxes.away" or die "$boxes: $!";
becomes($g, 'last', 'sandbox_unknown', 'the directory: moved away');

directory($boxes);
put_file("$boxes/last.json", '{}');
is(ask($g, 'last'), 200, 'the directory: another one');

is_deeply([$g->stop], [], 'nothing odd in the logs');


# --- not told ---------------------------------------------------------------------

# by a link, from a folder above, or in a directory that workers can't list

my $above = "$dir/above";
directory($_) for $above, "$above/sandboxes", "$dir/links";
$boxes = "$above/sandboxes";

$g = gateway($boxes, '1s');

put_file("$dir/links/$_.json", '{}') for qw(symbolic hard swapped);
symlink "$dir/links/symbolic.json", "$boxes/symbolic.json";
link "$dir/links/hard.json", "$boxes/hard.json";
put_file("$boxes/$_.json", '{}') for qw(mine);

is(ask($g, $_), 200, "$_: before") for qw(symbolic hard mine);

in_place("$dir/links/$_.json", '{"role": "none"}') for qw(symbolic hard);
becomes($g, $_, 'binding_refused', "a $_ link: what is behind it")
    for qw(symbolic hard);

my ($c, $u) = stream_of($g, 'mine');
rename $above, "$above.away" or die "$above: $!";
becomes($g, 'mine', 'sandbox_unknown', 'a folder above: moved away');
closed($c, 'a folder above: an event stream');
$u->close;

directory($_) for $above, $boxes;
put_file("$boxes/mine.json", '{}');
becomes($g, 'mine', 200, 'a folder above: another one');
put_file("$boxes/mine.json", '{"role": "none"}');
becomes($g, 'mine', 'binding_refused', 'and what happens there');

is_deeply([$g->stop], [], 'nothing odd in the logs');

SKIP: {
    skip 'workers may list it', 5 if $> != 0;

    $boxes = directory("$dir/unlisted");
    chmod 0710, $boxes;
    $g = gateway($boxes, '1s');

    my $not = qr/changes of sandboxes are looked for/;
    like(says($g, $not), $not, 'not listed: the error log says so');

    put_file("$boxes/mine.json", '{}');
    is(ask($g, 'mine'), 200, 'not listed: before');

    my ($c, $u) = stream_of($g, 'mine');
    unlink "$boxes/mine.json";
    becomes($g, 'mine', 'sandbox_unknown', 'not listed: removed');
    closed($c, 'not listed: an event stream');
    $u->close;

    is_deeply([$g->stop], [], 'nothing odd in the logs');
}

is(Wire::leaks(), 0, 'no client has seen the secret');

done_testing();
