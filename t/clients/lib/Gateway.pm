package Gateway;

# A gateway and its stand-in for GitHub, for tests with real clients.
#
#     my $g = Gateway->start;
#     my ($status, $output) = $g->run({env...}, 'curl', ...);
#
# Root listens on port 443 of a loopback address, others on a high port; lead() is an HTTP proxy for clients that cannot
# be told a port. Everything lives in one temporary directory, and stop() ends what start() started and removes it.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

our $TOP = abs_path(dirname(__FILE__) . '/../../..');
our $QUICKSTART = "$TOP/conf-examples/quickstart";

$ENV{PATH} .= ':/usr/sbin:/sbin';


sub modules { $ENV{EGRESS_MODULES} || "$TOP/build/modules" }

# what is missing to run at all

sub lacks {
    for my $tool (qw(nginx fcgiwrap git curl openssl python3)) {
        return $tool unless which($tool);
    }
    my $module = modules() . '/ngx_http_egress_module.so';
    return $module unless -e $module;
    return;
}

sub which {
    my $tool = shift;
    for my $d (split /:/, $ENV{PATH}) {
        return "$d/$tool" if -x "$d/$tool" && !-d _;
    }
    return;
}

sub random_token {
    my $prefix = shift;
    my @c = ('A' .. 'Z', 'a' .. 'z', 0 .. 9);
    my $s = '';

    open my $f, '<:raw', '/dev/urandom' or die "urandom: $!";
    while (length $s < 36) {
        read $f, my $b, 1;
        $s .= $c[ord $b] if ord $b < @c;
    }
    return "$prefix$s";
}

sub slurp {
    my $file = shift;
    open my $f, '<:raw', $file or die "$file: $!";
    local $/;
    my $text = <$f>;
    return defined $text ? $text : '';
}

sub spew {
    my ($file, $text, $mode) = @_;
    open my $f, '>:raw', $file or die "$file: $!";
    print $f $text;
    close $f or die "$file: $!";
    chmod $mode, $file if defined $mode;
}

sub free_port {
    my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die "no free port: $!";
    return $s->sockport;
}


sub start {
    my ($class, %opt) = @_;

    my $dir = tempdir('egress-clients.XXXXXX', DIR => '/tmp');
    chmod 0755, $dir;
    my $self = bless { dir => $dir, owner => $$, pids => [] }, $class;

    my $root = $> == 0;
    my $user = $ENV{EGRESS_USER} || 'www-data';
    my $gid = $root ? (getpwnam $user)[3] : $) + 0;

    make_path(map { "$dir/$_" } qw(secrets bindings logs tmp home standin work out));
    $self->{secret} = random_token('ghp_');
    $self->{placeholder} = random_token('ghp_');

    spew("$dir/secrets/github", "$self->{secret}\n", 0640);
    chown -1, $gid, "$dir/secrets", "$dir/secrets/github";
    chmod 0750, "$dir/secrets";
    spew("$dir/placeholder", "$self->{placeholder}\n");

    # EGRESS_PRESET: another file in the preset's place, to see the tests fail

    copy($ENV{EGRESS_PRESET} || "$TOP/conf-examples/bindings/github.conf", "$dir/bindings/github.conf") or die "preset: $!";

    my @hosts = qw(github.com api.github.com uploads.github.com git.example.test tracker.example.test);

    system('sh', "$QUICKSTART/make-ca.sh", "$dir/ca", 'Egress test CA', @hosts) == 0 or die 'make-ca.sh failed';

    local $ENV{STANDIN_FILES} = $opt{files} || 1600;
    system('sh', "$QUICKSTART/standin.sh", 'start', "$dir/standin", "$dir/secrets/github", @hosts[3, 4]) == 0
        or die 'standin.sh failed';
    chomp($self->{upstream} = slurp("$dir/standin/address"));

    @$self{qw(address port)} = $root ? listen_443() : ();
    @$self{qw(address port)} = ('127.0.0.1', free_port()) unless $self->{address};

    $self->configure($root ? "user $user;" : '');

    system('nginx', '-e', "$dir/logs/error.log", '-p', "$dir/", '-c', "$dir/nginx.conf") == 0
        or die "the gateway did not start";
    for (1 .. 50) {
        last if -s "$dir/nginx.pid";
        sleep 0.1;
    }
    chomp($self->{nginx} = slurp("$dir/nginx.pid"));

    return $self;
}

sub listen_443 {
    for my $last (85 .. 110) {
        my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.$last", LocalPort => 443, Listen => 1, ReuseAddr => 1) or next;
        return ("127.0.0.$last", 443);
    }
    return;
}

sub configure {
    my ($self, $user) = @_;

    my $dir = $self->{dir};
    my $modules = abs_path(modules());
    my ($major, $minor, $patch) = `nginx -v 2>&1` =~ m{nginx/(\d+)\.(\d+)\.(\d+)};
    my $new = $major * 1e6 + $minor * 1e3 + $patch >= 1025001;
    my $listen = "listen $self->{address}:$self->{port} ssl" . ($new ? ";\n        http2 on;" : ' http2;');

    spew("$dir/nginx.conf", <<"CONF");
load_module $modules/ngx_http_egress_module.so;

$user
worker_processes 1;
pid $dir/nginx.pid;
error_log $dir/logs/error.log debug;

events { }

egress {
    name egress-test;
    ca $dir/ca/ca.pem $dir/ca/ca.key;
    trusted_certificate $dir/standin/ca.pem;
    audit_log $dir/logs/egress.json;

    binding github {
        include $dir/bindings/github.conf;
        placeholder file:$dir/placeholder;
        secret $dir/secrets/github;
        upstream https://$self->{upstream};
    }

    binding generic {
        hosts git.example.test;
        git on;
        placeholder file:$dir/placeholder;
        secret $dir/secrets/github;
        upstream https://$self->{upstream};
    }

    binding tracker {
        hosts tracker.example.test;
        upstream https://$self->{upstream};
    }
}

http {
    client_body_temp_path $dir/tmp/body;
    proxy_temp_path $dir/tmp/proxy;
    fastcgi_temp_path $dir/tmp/fastcgi;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;

    # all that could tell a secret

    log_format all escape=none '\$request | \$http_authorization | \$egress_audit | \$upstream_addr \$upstream_status'
                               ' | \$sent_http_www_authenticate | \$proxy_host \$proxy_add_x_forwarded_for';
    access_log $dir/logs/access.log all;

    server {
        $listen
        ssl_protocols TLSv1.2 TLSv1.3;
        keepalive_requests 10000;
        egress_terminate on;
        location / { egress_pass; }
    }
}
CONF
}


# Runs a command with a clean environment. Its output goes to a file too, for the search at the end.

sub run {
    my ($self, $env, @command) = @_;

    my $dir = $self->{dir};
    my $out = sprintf '%s/out/%04d', $dir, ++$self->{runs};
    my $pid = fork;
    die "fork: $!" unless defined $pid;

    if ($pid == 0) {
        setpgrp;
        %ENV = (
            PATH => $ENV{PATH}, LC_ALL => 'C', HOME => "$dir/home", TMPDIR => "$dir/tmp", GIT_CONFIG_NOSYSTEM => 1,
            GIT_TERMINAL_PROMPT => 0, GIT_SSL_CAINFO => "$dir/ca/ca.pem", SSL_CERT_FILE => "$dir/ca/ca.pem",
            NODE_EXTRA_CA_CERTS => "$dir/ca/ca.pem", NO_COLOR => 1, GH_NO_UPDATE_NOTIFIER => 1, %$env,
        );
        chdir "$dir/work";
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $out;
        open STDERR, '>&', \*STDOUT;
        exec { $command[0] } @command or POSIX::_exit(127);
    }

    my $until = time + 60;
    my $status;
    while (1) {
        if (waitpid($pid, WNOHANG) == $pid) {
            $status = $? & 127 ? 128 + ($? & 127) : $? >> 8;
            last;
        }
        if (time > $until) {
            kill 'KILL', -$pid;
            waitpid $pid, 0;
            return (124, slurp($out) . "\n(took too long)");
        }
        sleep 0.01;
    }

    return ($status, slurp($out));
}

sub curl {
    my ($self, @args) = @_;
    return $self->run({}, 'curl', '-q', '-sS', '--max-time', 30, '--noproxy', '*', '--cacert', "$self->{dir}/ca/ca.pem",
        '--connect-to', "::$self->{address}:$self->{port}", @args);
}

sub git {
    my ($self, @args) = @_;
    my @to = $self->{port} == 443
        ? ('-c', 'http.proxy=', map { ('-c', "http.curloptResolve=$_:443:$self->{address}") } 'github.com')
        : ('-c', 'http.proxy=' . $self->lead);
    return $self->run({}, 'git', @to, @args);
}

# git on this machine, without a gateway

sub local_git {
    my ($self, @args) = @_;
    return $self->run({}, 'git', '-c', "safe.directory=*", @args);
}


# an HTTP proxy whose every CONNECT ends at the gateway

sub lead {
    my $self = shift;

    return $self->{lead} if $self->{lead};

    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 32) or die "listen: $!";
    my $to = "$self->{address}:$self->{port}";
    my $parent = $$;
    my $pid = fork;
    die "fork: $!" unless defined $pid;

    if ($pid == 0) {
        $SIG{CHLD} = 'IGNORE';
        my $proxy = $$;
        while (getppid == $parent) {
            next unless IO::Select->new($listener)->can_read(1);
            my $c = $listener->accept or next;
            my $child = fork;
            next if !defined $child || $child;
            close $listener;
            my $head = '';
            while ($head !~ /\r\n\r\n\z/) { sysread $c, my $b, 1 or POSIX::_exit(0); $head .= $b }
            my $s = IO::Socket::INET->new(PeerAddr => $to) or POSIX::_exit(0);
            syswrite $c, "HTTP/1.1 200 OK\r\n\r\n";
            my $both = IO::Select->new($c, $s);
            while (getppid == $proxy) {
                for my $from ($both->can_read(1)) {
                    sysread $from, my $b, 65536 or POSIX::_exit(0);
                    my $other = $from == $c ? $s : $c;
                    while (length $b) { my $n = syswrite $other, $b or POSIX::_exit(0); substr $b, 0, $n, '' }
                }
            }
            POSIX::_exit(0);
        }
        POSIX::_exit(0);
    }

    push @{$self->{pids}}, $pid;
    return $self->{lead} = 'http://127.0.0.1:' . $listener->sockport;
}


# --- what the upstream saw ----------------------------------------------------------------------

sub mark { my $self = shift; $self->settle; $self->{mark} = -s "$self->{dir}/standin/record.log" }

# A line is written after the answer has been sent. One more request, straight to the stand-in, and all before it are there.

sub settle {
    my $self = shift;
    my $id = 'settle-' . ++$self->{settled};
    system('curl', '-q', '-s', '--noproxy', '*', '--cacert', "$self->{dir}/standin/ca.pem", '--connect-to', "::$self->{upstream}",
        '-o', '/dev/null', '-H', "X-Vector: $id", 'https://uploads.github.com/settle');
    for (1 .. 100) {
        return if slurp("$self->{dir}/standin/record.log") =~ /"x_vector":"$id"/;
        sleep 0.02;
    }
    die 'the stand-in does not answer';
}

sub seen {
    my $self = shift;
    $self->settle;
    open my $f, '<:raw', "$self->{dir}/standin/record.log" or die "record.log: $!";
    seek $f, $self->{mark} || 0, 0;
    return grep { $_->{x_vector} !~ /^settle-/ } map { JSON::PP->new->latin1->decode($_) } <$f>;
}


# --- the end ------------------------------------------------------------------------------------

sub alive {
    my $pid = shift;
    return 0 unless kill 0, $pid;
    open my $f, '<', "/proc/$pid/status" or return 1;
    return !grep /^State:\s*Z/, <$f>;
}

sub stop_gateway {
    my $self = shift;
    my $pid = delete $self->{nginx} or return;
    kill 'TERM', $pid;
    for (1 .. 100) {
        return 1 unless alive($pid);
        sleep 0.05;
    }
    kill 'KILL', $pid;
    return 0;
}

sub stop {
    my $self = shift;
    return if $self->{stopped}++ || $$ != $self->{owner};
    for my $pid (@{$self->{pids}}) {
        kill 'TERM', $pid;
        waitpid $pid, 0;
    }
    $self->stop_gateway;
    system('sh', "$QUICKSTART/standin.sh", 'stop', "$self->{dir}/standin");
    remove_tree($self->{dir}) unless $ENV{KEEP};
    print STDERR "# kept: $self->{dir}\n" if $ENV{KEEP};
}

sub DESTROY { local ($?, $@); $_[0]->stop }


# --- looking for the secret ---------------------------------------------------------------------

# the shapes in which a secret could lie about, by name

sub shapes {
    my $secret = shift;
    my %shape = (raw => $secret);

    for my $k (0 .. 2) {
        my $b = encode_base64(('x' x $k) . $secret, '');
        substr $b, 0, $k ? $k + 1 : 0, '';
        substr $b, -4, 4, '' if ($k + length $secret) % 3;
        $shape{"base64 at $k"} = $b;
    }

    $shape{'base64 of the pair'} = encode_base64("x-access-token:$secret", '');
    $shape{'base64 of the pair'} =~ s/=+$//;
    $shape{hex} = unpack 'H*', $secret;
    $shape{percent} = join '', map { sprintf '%%%02x', ord } split //, $secret;

    # the URL-safe alphabet, and parts: a token cut in two is a leak too

    for my $name (grep /base64/, keys %shape) {
        (my $url = $shape{$name}) =~ tr{+/}{-_};
        $shape{"$name, URL-safe"} = $url if $url ne $shape{$name};
    }
    $shape{'first half'} = substr $secret, 0, 20;
    $shape{'second half'} = substr $secret, -20;

    return \%shape;
}

# the files below a directory that hold one of the shapes, with the shape's name

sub search {
    my ($shapes, @files) = @_;
    my @found;

    for my $file (@files) {
        my $text = slurp($file);
        my $lower = lc $text;
        for my $name (sort keys %$shapes) {
            my $hit = $name =~ /^(hex|percent)/ ? index $lower, $shapes->{$name} : index $text, $shapes->{$name};
            push @found, "$name in $file" if $hit >= 0;
        }
    }
    return @found;
}

1;
