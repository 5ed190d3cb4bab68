# A secret for each sandbox: "$egress_sandbox" in a path, DESIGN 5.2, 6.8;
# security T-01, T-07, X-42

use strict;
use warnings;

use lib 't/fixture';
use Digest::SHA qw(sha256_hex);
use Echo;
use Fixture;
use JSON::PP;
use Raw;
use Stream;
use Test::More;
use Time::HiRes qw(sleep);

my $dir = Fixture::dir();
my $json = JSON::PP->new->utf8->canonical;
my $token = Fixture::random(30);
my $gid = $> == 0 ? getgrnam('www-data') : $) + 0;
my $P = $ENV{TEST_NGINX_PLACEHOLDER};
my $many = 1030;                            # more than there are large values

delete @ENV{grep { /_proxy$/i } keys %ENV};

mkdir "$dir/$_", 0755 for qw(sandboxes own flat);
chmod 0755, map { "$dir/$_" } qw(sandboxes own flat);

sub file {
    my ($path, $text, $mode) = @_;

    Fixture::write_file("$path.new", $text, $mode // 0640);
    chown -1, $gid, "$path.new";
    rename "$path.new", $path or die "$path: $!";
}

# a file that has been as it is for a while: nobody is just writing it

sub settled { utime time - 10, time - 10, $_[0] }

# the secret of a sandbox, in a folder of its own

sub own {
    my ($id, $value, $mode) = @_;

    if (!-d "$dir/own/$id") {
        mkdir "$dir/own/$id";
        chmod 0755, "$dir/own/$id";
    }

    file("$dir/own/$id/token", "$value\n", $mode);
}

my %value = map { $_ => Fixture::random(40) } qw(box1 box2 box4 shared);

for my $id (map({ "box$_" } 1 .. 6), map { "many$_" } 1 .. $many) {
    file("$dir/sandboxes/$id.json",
         $json->encode({ token_sha256 => sha256_hex($token) }));
}

own($_, $value{$_}) for qw(box1 box2);
file("$dir/flat/box1", "$value{box1}\n");
file("$dir/flat/box4", "$value{box4}\n");
file("$dir/shared", "$value{shared}\n");

my $up = Raw->start(listen => { main => { '127.0.0.1' => 'tls' } },
                    certs => { '*' => ["$dir/up.pem", "$dir/up.key"] },
                    marks => \%value);
my $echo = Echo->start;

my $base = Fixture::free_port();
my $http = <<"CONF";
    server {
        listen 127.0.0.1:$base;
        egress_sandbox \$arg_id;
        location /api/ { egress_pass api; }
        location /flat/ { egress_pass flat; }
        location /both/ { egress_pass both; }
        location /old/ { egress_pass old; }
        location /echo/ { egress_sandbox \$http_x_box; egress_pass echo; }
    }
CONF

my $main = $up->port('main');
my $bindings = <<"CONF";
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:$main;
        secret       $dir/own/\$egress_sandbox/token;
        placeholder  $P;
    }
    binding flat {
        hosts        other.test;
        upstream     https://127.0.0.1:$main;
        secret       $dir/flat/\${egress_sandbox};
        inject       always;
    }
    binding both {
        hosts        third.test;
        upstream     https://127.0.0.1:$main;
        secret       $dir/own/\$egress_sandbox/token;
        placeholder  $P;
        credential key {
            header       X-Api-Key;
            secret       $dir/flat/\$egress_sandbox;
            inject       if_absent;
        }
        credential shared {
            header       X-Shared;
            secret       $dir/shared;
            inject       always;
        }
    }
    binding old {
        hosts        github.com;
        upstream     https://127.0.0.1:$main;
        secret       $dir/own/\$egress_sandbox/token;
        inject       always;
        ttl          1h;
    }
    binding echo {
        hosts        echo.test;
        upstream     http://127.0.0.1:${\ $echo->port};
        secret       $dir/own/\$egress_sandbox/token;
        placeholder  $P;
        access       write;
    }
CONF

my $egress = <<"CONF";
    sandboxes $dir/sandboxes;
    secret_check 0;
    unidentified default;
CONF

my $g = Stream->start(egress => $egress, http => $http,
                      bindings => $bindings);

sub audits { return scalar(() = $g->log('audit.json') =~ /\n/g) }

sub ask {
    my ($path, %opt) = @_;
    return Raw::ask($base, 'GET', $path, %opt);
}

# what the upstream got, or the reason why it got nothing

sub got {
    my ($path, %opt) = @_;
    my $a = ask($path, %opt);
    return Raw::field($a, 'X-Auth') // ($a->{head} =~ /details="(\w+)/)[0]
           // "?$a->{all}";
}

sub conn { return Raw::field(ask(@_), 'X-Conn') }


# --- whose is it ------------------------------------------------------------------

for my $case (
    ['/api/x?id=box1', 'box1', $value{box1}],
    ['/api/x?id=box2', 'box2', $value{box2}],
    ['/api/x?id=box1', 'box1', $value{box1}],
    ['/api/x', 'credential_missing', ''],
    ['/api/x?id=box3', 'credential_missing', ''],
    ['/api/x?id=nobody', 'sandbox_unknown', ''],
    ['/api/x?id=..', 'sandbox_unknown', ''],
    ['/api/x?id=.', 'sandbox_unknown', ''],
    ['/flat/x?id=box1', 'box1', $value{box1}],
    ['/flat/x?id=box4', 'box4', $value{box4}],
    ['/flat/x?id=box2', 'credential_missing', ''],
    ['/flat/x', 'credential_missing', ''],
)
{
    my ($path, $what, $value) = @$case;
    my $before = audits();

    is(got($path), $what, "$path: $what");
    is($g->record($before)->{credential_id},
       $value && substr(sha256_hex($value), 0, 8) || undef,
       'the record has the id of that value');
}

is(got('/api/x', auth => undef), 'none', 'without a credential: none');
is(got('/api/x?id=box2', auth => undef), 'none', 'in a sandbox, too');

# a tunnel, whose client proves who it is

for my $case (['box1', 'box1'], ['box2', 'box2'], ['box3', '']) {
    my ($id, $what) = @$case;
    my $out = `curl -q -s -o /dev/null -w '%header{x-auth}' --max-time 10 --cacert $dir/ca.pem -x http://$id:$token\@127.0.0.1:$g->{port} -H 'Authorization: Bearer $P' https://api.test/x`;
    is($out, $what, "a tunnel of $id");
}


# --- changes ------------------------------------------------------------------------

my $old = $value{box1};

own('box1', $value{box1} = Fixture::random(44));
$up->marks(%value);
is(got('/api/x?id=box1'), 'box1', 'another value, by rename');
is(got('/api/x?id=box2'), 'box2', 'the other sandbox keeps its own');

$value{box1} = Fixture::random(50);
$up->marks(%value);
Fixture::write_file("$dir/own/box1/token", "$value{box1}\n");
is(got('/api/x?id=box1'), 'box1', 'and by writing into the file');

# longer than the place of small values, then longer still, then short again

for my $len (700, 9000, 16384, 30) {
    $value{box1} = Fixture::random($len);
    $up->marks(%value);
    Fixture::write_file("$dir/own/box1/token", $value{box1});
    is(got('/api/x?id=box1'), 'box1', "$len octets");
}

unlink "$dir/own/box1/token";
is(got('/api/x?id=box1'), 'credential_missing', 'removed');
is(got('/api/x?id=box2'), 'box2', 'the other is there');
own('box1', $value{box1});
is(got('/api/x?id=box1'), 'box1', 'put back');

rename "$dir/own/box1", "$dir/own/away";
is(got('/api/x?id=box1'), 'credential_missing', 'its folder removed');
rename "$dir/own/away", "$dir/own/box1";
is(got('/api/x?id=box1'), 'box1', 'and put back');

for my $case ([0644, 'secret_unreadable', 'open to others'],
              [0660, 'secret_unreadable', 'its group may write'],
              [0640, 'box3', 'as it should be'])
{
    my ($mode, $what, $name) = @$case;
    own('box3', $value{box3} = Fixture::random(40), $mode);
    settled("$dir/own/box3/token");
    $up->marks(%value);
    is(got('/api/x?id=box3'), $what, "a mode: $name");
}

SKIP: {
    skip 'only root can keep a file from workers', 3 if $> != 0;

    own('box5', Fixture::random(40), 0600);
    is(got('/api/x?id=box5'), 'secret_unreadable', 'no permission to read it');
    chmod 0700, "$dir/own/box5";
    is(got('/api/x?id=box5'), 'secret_unreadable', 'nor to search its folder');
    chmod 0755, "$dir/own/box5";
    chmod 0640, "$dir/own/box5/token";
    chown -1, $gid, "$dir/own/box5/token";
    is(got('/api/x?id=box5'), 'other', 'both mended');
}

own('box6', "a b");
is(got('/api/x?id=box6'), 'secret_unreadable', 'white space within');
settled("$dir/own/box6/token");
is(got('/api/x?id=box6'), 'secret_unreadable', 'for a while');
Fixture::write_file("$dir/own/box6/token", '');
settled("$dir/own/box6/token");
is(got('/api/x?id=box6'), 'credential_missing', 'emptied');
own('box6', Fixture::random(40));
is(got('/api/x?id=box6'), 'other', 'and mended');

is(got('/old/x?id=box2'), 'box2', 'ttl: young');
utime time - 7200, time - 7200, "$dir/own/box2/token";
is(got('/old/x?id=box2'), 'credential_expired', 'old');
is(got('/old/x?id=box1'), 'box1', 'of another sandbox: young');
own('box2', $value{box2});


# --- upstream connections -----------------------------------------------------------

# one that has carried the secret of a sandbox is never used for another

for my $path ('/api/x', '/both/x') {
    file("$dir/flat/$_", "$value{$_}\n") for qw(box1 box2);

    my %last = map { $_ => conn("$path?id=$_") } qw(box1 box2);

    isnt($last{box1}, $last{box2}, "$path: two sandboxes, two connections");

    for my $round (1 .. 3) {
        for my $id (qw(box2 box1)) {
            is(conn("$path?id=$id"), $last{$id}, "$id keeps its own");
            is(conn("$path?id=$id", auth => undef), $last{$id},
               'without a credential, too');
        }
    }

    isnt(conn($path, auth => undef), $last{$_}, "nobody gets that of $_")
        for $path eq '/api/x' ? qw(box1 box2) : ();

    own('box1', $value{box1} = Fixture::random(40));
    $up->marks(%value);

    isnt(conn("$path?id=box1"), $last{box1}, 'another value, another one');
    is(conn("$path?id=box2"), $last{box2}, 'not of the other sandbox');
}

# sums of what two secrets were numbered by may be equal

my %seen;

for my $round (1 .. 6) {
    for my $id (qw(box1 box2)) {
        own($id, $value{$id} = Fixture::random(40)) if $round % 2;
        file("$dir/flat/$id", Fixture::random(40) . "\n") unless $round % 2;
        $seen{conn("/both/x?id=$id")}{$id} = 1;
    }
}

is_deeply([grep { keys %$_ > 1 } values %seen], [],
          'none has carried secrets of two');

$up->marks(%value);


# --- answers ------------------------------------------------------------------------

my $path = $echo->script(type => 'text/plain',
                         body => '[<raw>] <hex>');

for my $id (qw(box1 box2 box1 box2 box3)) {
    my $a = Echo::ask($base, "/echo$path", headers => ["X-Box: $id"]);

    like($a->{body}, qr{^\[\*+\] \*+$}, "$id: what it got is masked");
    is(length(($a->{body} =~ /^\[(\*+)\]/)[0]), length $value{$id},
       'all of it');
    like($echo->seen($path), qr/^Authorization: Bearer \Q$value{$id}\E\r$/m,
         'which was its own');
}

# the table of spellings follows the value

own('box1', $value{box1} = Fixture::random(33));
my $a = Echo::ask($base, "/echo$path", headers => ['X-Box: box1']);
is($a->{body} =~ s/[^\[\]*].*//sr, '[' . '*' x 33 . ']', 'another value, masked');
$up->marks(%value);


# --- memory -------------------------------------------------------------------------

# how often a text stands in memory of the worker: where a core would have it,
# and on pages that it would not have

sub found {
    my ($text) = @_;

    my ($worker) = $g->workers;
    my ($in, $out) = (0, 0);
    my @maps;

    open my $fh, '<', "/proc/$worker/smaps" or die "smaps: $!";

    while (my $l = <$fh>) {
        if ($l =~ /^([0-9a-f]+)-([0-9a-f]+) (\S+)/) {
            push @maps, [map({ unpack 'Q>', pack 'H16', substr '0' x 16 . $_,
                               -16 } $1, $2), $3, 0];

        } elsif ($l =~ /^VmFlags:.* dd\b/) {
            $maps[-1][3] = 1;
        }
    }

    open my $mem, '<:raw', "/proc/$worker/mem" or die "mem: $!";

    for my $m (@maps) {
        next if $m->[2] !~ /^rw/ || $m->[1] - $m->[0] > 1 << 28;

        sysseek $mem, $m->[0], 0 or next;
        my $n = sysread $mem, my $got, $m->[1] - $m->[0];
        next if !$n;
        my $k = () = $got =~ /\Q$text\E/g;
        $m->[3] ? ($in += $k) : ($out += $k);
    }

    return ($in, $out);
}

SKIP: {
    skip 'only root can look into a worker', 11 if $> != 0;

    is(got('/api/x?id=box2'), 'box2', 'a sandbox');
    my ($in, $out) = found($value{box2});
    cmp_ok($in, '>=', 1, 'its secret is on pages that are in no core');
    is($out, 0, 'and nowhere else');

    isnt(got('/flat/x?id=box1'), 'sandbox_unknown', 'what has changed');
    is(join(' ', found($old)), '0 0', 'is gone once it is looked at');

    # large values, one more than there is room for, and then some

    my $large = Fixture::random(600);

    own('many1', $large);
    is(got('/flat/x?id=box4'), 'box4', 'a small one');
    is(got('/api/x?id=many1'), 'other', 'a large one');
    cmp_ok((found($large))[0], '>=', 1, 'is kept');

    my $wrong = 0;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                  PeerPort => $base) or die "connect: $!";

    for my $n (2 .. $many) {
        own("many$n", Fixture::random(500));

        my $a = ask("/api/x?id=many$n", socket => $s);
        $wrong++ if (Raw::field($a, 'X-Auth') // '') ne 'other';

        # nginx closes it after that many
        $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                   PeerPort => $base)
            if $n % 500 == 0;
    }

    is($wrong, 0, 'many others');
    is(join(' ', found($large)), '0 0', 'have taken its place: it is wiped');
    is(got('/api/x?id=many1'), 'other', 'and read again when it is asked for');
    is(got('/flat/x?id=box4'), 'box4', 'the small one is there');
}

unlike($g->log('error.log'), qr/secret "[^"]*" has been removed.*many/,
       'nothing is said of what was never there');
is_deeply([$g->stop], [], 'nothing odd in the logs');

for my $value (values %value, $old) {
    for my $log (qw(error.log audit.json access.log)) {
        is(($g->log($log) =~ /^(.*\Q$value\E.*)$/m)[0], undef,
           "no value in $log");
    }
}


# --- what is said while loading -----------------------------------------------------

sub load {
    my ($path, %opt) = @_;

    my $self = bless { dir => "$dir/load", port => Fixture::free_port(),
                       stopped => 1, owner => $$ }, 'Stream';
    mkdir "$dir/load";
    mkdir "$dir/load/logs";
    Fixture::write_file("$dir/load/nginx.conf",
                        $self->conf(egress => $egress, %opt,
                                    bindings => <<"CONF"));
    binding api {
        hosts   api.test;
        secret  $path;
        inject  always;
        upstream https://127.0.0.1:1;
    }
CONF
    my $nginx = $ENV{TEST_NGINX_BINARY} || 'nginx';
    return scalar `$nginx -t -p $dir/load -e /dev/stderr -c $dir/load/nginx.conf 2>&1`;
}

for my $path ("$dir/own/\$egress_sandbox", "$dir/own/\$egress_sandbox/a/b",
              "$dir/own/\${egress_sandbox}/x")
{
    like(load($path), qr/test is successful/, "good: $path");
}

for my $path ("$dir/own/\$egress_sandbox.txt", "$dir/own/x\$egress_sandbox",
              "$dir/own/\$egress_sandbox/\$egress_sandbox",
              "$dir/own/\$egress_sandboxes", "$dir/own/\$remote_addr",
              "$dir/own/\${egress_sandbox", "$dir/own/\$egress_role/x",
              "$dir/own/\${egress_sandbox}x")
{
    like(load(qq{"$path"}), qr/\[emerg\].*only "\$egress_sandbox" may stand in the path.*\Q$path\E.*nginx\.conf:\d+/,
         "bad: $path");
}

like(load("$dir/own/\$egress_sandbox static"),
     qr/\[emerg\].*"static" beside "\$egress_sandbox".*nginx\.conf:\d+/,
     'static');
like(load("$dir/nowhere/\$egress_sandbox"),
     qr{\[emerg\].*"\Q$dir\E/nowhere/" of the secret .* is not a directory.*nginx\.conf:\d+},
     'a folder that is not there');
like(load("$dir/shared/\$egress_sandbox"), qr/\[emerg\].*is not a directory/,
     'a file in its place');
like(load("$dir/own/\$egress_sandbox", egress => ''),
     qr/\[warn\].*without "sandboxes": nobody is a sandbox.*\n.*successful/s,
     'without sandboxes: a warning');

SKIP: {
    skip 'root and its workers differ', 2 if $> != 0;

    mkdir "$dir/closed";
    chmod 0700, "$dir/closed";
    like(load("$dir/closed/\$egress_sandbox"),
         qr/\[emerg\].*directory "\Q$dir\E\/closed" of secret .* may not be searched by user "www-data"/,
         'a folder that workers may not search');
    chmod 0711, "$dir/closed";
    like(load("$dir/closed/\$egress_sandbox"), qr/successful/,
         'searching is enough');
}

done_testing();
