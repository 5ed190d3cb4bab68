package Clients;

# A sandbox with real clients, the gateway in front of it, and behind that the services of standin/, all of this machine.
#
#     my $g = Clients->start(
#         services => { 'registry.example.test' => 'npm' },       host => module in standin/
#         bindings => 'binding npm { ... }',                      each gets placeholder, secret and upstream, and
#                                                                 "binding x { # bare" the upstream alone
#         allow    => ['objects.example.test'],                   passed through, at the services' own port
#     );
#     my ($status, $output) = $g->client({env...}, 'npm', ...);   by CONNECT, with all CA variables of docs/clients.md
#
# The services take one token, the secret; the sandbox holds a placeholder. EGRESS_DIRECT=1 leaves the gateway out and
# gives the clients the token, to see that a service does what a client expects: refusals are then missing, of course.

use strict;
use warnings;

use parent -norequire, 'Gateway';

use Cwd qw(abs_path);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Gateway;
use IO::Socket::INET;
use JSON::PP;
use Test::More ();
use Time::HiRes qw(sleep);

my $STREAM = '/usr/lib/nginx/modules/ngx_stream_module.so';

# what every test needs, and a test's own tools; undef, or what is not there

sub lacks {
    my (@tools) = @_;
    for my $tool (qw(nginx git openssl python3), @tools) {
        return $tool unless Gateway::which($tool);
    }
    for my $module ($STREAM, map { Gateway::modules() . "/ngx_${_}_egress_module.so" } qw(http stream)) {
        return $module unless -e $module;
    }
    return;
}

# Packages of npm's, installed once below the build directory from where this machine gets them; undef if it cannot.

sub packages {
    my ($name, @packages) = @_;
    my $to = abs_path(Gateway::modules() . '/..') . "/clients/$name";
    my $done = "$to/installed";

    return $to if -e $done && Gateway::slurp($done) eq "@packages\n";

    make_path($to);
    Gateway::spew("$to/package.json", '{"private":true}');
    system('timeout', 180, 'npm', 'install', '--prefix', $to, '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=silent',
        '--prefer-offline', '--fetch-retries=1', @packages) == 0 or return;
    Gateway::spew($done, "@packages\n");
    return $to;
}


sub start {
    my ($class, %opt) = @_;

    my $dir = tempdir('egress-clients.XXXXXX', DIR => '/tmp');
    chmod 0755, $dir;
    my $self = bless { dir => $dir, owner => $$, pids => [], direct => $ENV{EGRESS_DIRECT} }, $class;

    my $root = $> == 0;
    my $user = $ENV{EGRESS_USER} || 'www-data';
    my $gid = $root ? (getpwnam $user)[3] : $) + 0;

    make_path(map { "$dir/$_" } qw(secrets logs tmp home standin work out run));
    chmod 0700, "$dir/standin";
    $self->{secret} = Gateway::random_token('ghp_');
    $self->{placeholder} = $self->{direct} ? $self->{secret} : Gateway::random_token('ghp_');

    Gateway::spew("$dir/secrets/token", "$self->{secret}\n", 0640);
    chown -1, $gid, "$dir/secrets", "$dir/secrets/token";
    chmod 0750, "$dir/secrets";
    Gateway::spew("$dir/placeholder", "$self->{placeholder}\n");

    my @hosts = sort keys %{$opt{services}};
    $self->authorities(@hosts);
    $self->services($opt{services}, $opt{env} || {});

    return $self if $self->{direct};

    $self->{port} = Gateway::free_port();
    $self->configure($root ? "user $user;" : '', %opt);
    system('nginx', '-e', "$dir/logs/error.log", '-p', "$dir/", '-c', "$dir/nginx.conf") == 0
        or die 'the gateway did not start: ' . Gateway::slurp("$dir/logs/error.log") =~ s/.*(\n.*\n.*\n)\z/$1/sr;
    wait_for("$dir/nginx.pid");
    chomp($self->{nginx} = Gateway::slurp("$dir/nginx.pid"));

    return $self;
}

sub wait_for {
    my $file = shift;
    for (1 .. 200) {
        return if -s $file;
        sleep 0.05;
    }
    die "no $file";
}

# the gateway's CA, and another that signs the certificate of the services

sub authorities {
    my ($self, @hosts) = @_;
    my $dir = $self->{dir};
    my $names = join ',', map { "DNS:$_" } @hosts;

    for (["$dir/ca", 'Egress test CA', @hosts], ["$dir/standin/ca", 'Services CA']) {
        system('sh', "$Gateway::QUICKSTART/make-ca.sh", @$_) == 0 or die 'make-ca.sh failed';
    }

    my $leaf = "$dir/standin/leaf";
    Gateway::spew("$leaf.cnf", "basicConstraints = critical, CA:FALSE\nkeyUsage = critical, digitalSignature\n"
        . "extendedKeyUsage = serverAuth\nsubjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\n"
        . "subjectAltName = $names\n");
    my $ca = "$dir/standin/ca/ca";
    system("openssl req -new -sha256 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=services"
        . " -keyout $leaf.key -out $leaf.csr 2>/dev/null && openssl x509 -req -sha256 -days 30 -in $leaf.csr -CA $ca.pem"
        . " -CAkey $ca.key -set_serial 0x01 -extfile $leaf.cnf -out $leaf.pem 2>/dev/null") == 0 or die 'no certificate';

    # what the clients trust: one authority for bound hosts, the other for those that are passed through

    Gateway::spew("$dir/bundle.pem", ($self->{direct} ? '' : Gateway::slurp("$dir/ca/ca.pem")) . Gateway::slurp("$ca.pem"), 0644);
}

sub services {
    my ($self, $services, $env) = @_;
    my $dir = "$self->{dir}/standin";

    Gateway::spew("$dir/token", $self->{secret}, 0600);
    Gateway::spew("$dir/record.log", '', 0600);
    pipe my $in, $self->{alive} or die "pipe: $!";
    my $pid = fork;
    die "fork: $!" unless defined $pid;

    if ($pid == 0) {
        close $self->{alive};
        open STDIN, '<&', $in;
        open STDOUT, '>', "$dir/out";
        open STDERR, '>&', \*STDOUT;
        @ENV{keys %$env} = values %$env;
        delete @ENV{grep /^GIT_/, keys %ENV};
        exec 'python3', "$Gateway::TOP/t/clients/lib/standin/serve.py", $dir, map { "$_=$services->{$_}" } sort keys %$services
            or POSIX::_exit(127);
    }

    push @{$self->{pids}}, $pid;
    for my $file (qw(resolver address)) {
        for (1 .. 400) {
            last if -s "$dir/$file";
            waitpid($pid, POSIX::WNOHANG()) and die 'the services did not start: ' . Gateway::slurp("$dir/out");
            sleep 0.05;
        }
    }
    chomp(@$self{qw(upstream resolver)} = map { Gateway::slurp("$dir/$_") } qw(address resolver));
    ($self->{services_port}) = $self->{upstream} =~ /:(\d+)/;
}

sub configure {
    my ($self, $user, %opt) = @_;

    my $dir = $self->{dir};
    my $modules = abs_path(Gateway::modules());
    my ($major, $minor, $patch) = `nginx -v 2>&1` =~ m{nginx/(\d+)\.(\d+)\.(\d+)};
    my $new = $major * 1e6 + $minor * 1e3 + $patch >= 1025001;
    my $http2 = $new ? ";\n        http2 on;" : ' http2;';
    my $port = $self->{services_port};
    my $allow = join ' ', map { "$_:$port" } @{$opt{allow} || []};
    my $upstream = "upstream https://$self->{upstream};";
    my $own = "placeholder file:$dir/placeholder; secret $dir/secrets/token; $upstream";

    (my $bindings = $opt{bindings}) =~ s/^(\s*binding \S+ \{)( # bare)?\n/"$1 " . ($2 ? $upstream : $own) . "\n"/meg;
    $bindings =~ s/\@PRESETS\@/$Gateway::TOP\/conf-examples\/bindings/g;
    my @use = $bindings =~ /^\s*binding (\S+)/mg;
    $allow = "allow_host $allow; allow_private 127.0.0.0/8;" if $allow;

    Gateway::spew("$dir/nginx.conf", <<"CONF");
load_module $STREAM;
load_module $modules/ngx_http_egress_module.so;
load_module $modules/ngx_stream_egress_module.so;

$user
worker_processes 1;
worker_shutdown_timeout 10s;
pid $dir/nginx.pid;
error_log $dir/logs/error.log debug;

events { }

egress {
    name egress-test;
    ca $dir/ca/ca.pem $dir/ca/ca.key;
    trusted_certificate $dir/standin/ca/ca.pem;
    audit_log $dir/logs/egress.json;
    resolver $self->{resolver};

$bindings

    role default {
        use @use;
        $allow
    }
}

http {
    client_body_temp_path $dir/tmp/body;
    proxy_temp_path $dir/tmp/proxy;
    fastcgi_temp_path $dir/tmp/fastcgi;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;

    log_format all escape=none '\$request | \$http_authorization | \$egress_audit | \$upstream_addr \$upstream_status'
                               ' | \$sent_http_www_authenticate | \$proxy_host \$proxy_add_x_forwarded_for';
    access_log $dir/logs/access.log all;

    server {
        listen unix:$dir/run/egress.sock ssl$http2
        ssl_protocols TLSv1.2 TLSv1.3;
        egress_terminate gateway;
        location / { egress_pass; }
    }
}

stream {
    server {
        listen 127.0.0.1:$self->{port};
        egress_gateway unix:$dir/run/egress.sock;
    }
}
CONF
}


# what a client is told, as docs/clients.md has it

sub proxy {
    my $self = shift;
    return "http://127.0.0.1:$self->{port}" unless $self->{direct};
    @$self{qw(address port)} = ('127.0.0.1', $self->{services_port});
    return $self->lead;
}

sub client {
    my ($self, $env, @command) = @_;
    my ($dir, $proxy) = ($self->{dir}, $self->proxy);
    my %ca = map { $_ => "$dir/bundle.pem" } qw(SSL_CERT_FILE CURL_CA_BUNDLE GIT_SSL_CAINFO REQUESTS_CA_BUNDLE PIP_CERT
        npm_config_cafile NODE_EXTRA_CA_CERTS);

    return $self->run({ HTTPS_PROXY => $proxy, https_proxy => $proxy, NODE_USE_ENV_PROXY => 1, NO_PROXY => 'localhost', %ca,
        GIT_CONFIG_GLOBAL => "$dir/home/.gitconfig", %$env }, @command);
}

sub git { my ($self, @args) = @_; return $self->client({}, 'git', @args) }

sub curl { my ($self, @args) = @_; return $self->client({}, 'curl', '-q', '-sS', '--max-time', 30, @args) }


# --- what arrived -------------------------------------------------------------------------------

# a request is written down before it is answered

sub settle { }

sub seen {
    my $self = shift;
    open my $f, '<:raw', "$self->{dir}/standin/record.log" or die "record.log: $!";
    seek $f, $self->{mark} || 0, 0;
    return map { JSON::PP->new->latin1->decode($_) } <$f>;
}

# Runs a client that reads. Each request that arrived with a credential had the token, and the client's status is 0.
# The options are patterns: print (what it printed), and lists of "METHOD host/path" that must be among what arrived:
# token (with it) and bare (without any credential). "own" is a pattern of credentials that the client got from a service.
# Returns what it printed.

sub reads {
    my ($self, $name, $env, $command, %want) = @_;

    $self->mark;
    my ($rc, $out) = $self->client($env, @$command);
    my @seen = $self->seen;
    my @wrong;

    push @wrong, "it ended with $rc" if $rc != ($want{rc} || 0);
    push @wrong, "not printed: $want{print}" if $want{print} && $out !~ $want{print};
    push @wrong, map { 'another credential: ' . line($_) }
        grep { $_->{authorization} ne '' && !$_->{known} && !($want{own} && $_->{authorization} =~ $want{own}) } @seen;
    for my $which (qw(token bare)) {
        for my $pattern (@{$want{$which} || []}) {
            push @wrong, "$which, not arrived: $pattern"
                unless grep { line($_) =~ /^$pattern/ && ($which eq 'token' ? $_->{known} : $_->{authorization} eq '') } @seen;
        }
    }

    Test::More::ok(!@wrong, $name)
        or Test::More::diag(join "\n", @wrong, $out, 'arrived:', map { line($_) . " $_->{status}" } @seen);
    return $out;
}

# Runs a client that would write: it fails, prints this, and nothing that arrived is a write. What it reads first may arrive:
# by GET, by a POST that the service knows as a read, and what "reads" names; nothing that "write" names.

sub refused {
    my ($self, $name, $env, $command, %want) = @_;

    $self->mark;
    my ($rc, $out) = $self->client($env, @$command);
    my @seen = $self->seen;
    my @wrong;

    push @wrong, 'it ended with 0' if $rc == 0 && !exists $want{rc};
    push @wrong, "it ended with $rc" if exists $want{rc} && $rc != $want{rc};
    push @wrong, "not printed: $want{print}" if $want{print} && $out !~ $want{print};
    for my $line (@seen) {
        my $text = line($line);
        my $read = $line->{method} =~ /^(GET|HEAD)$/ || defined $line->{writes} && !$line->{writes}
            || grep { $text =~ /^$_/ } @{$want{reads} || []};
        push @wrong, "arrived: $text" if !$read || grep { $text =~ /^$_/ } @{$want{write} || []};
    }
    for my $pattern (@{$want{token} || []}) {
        push @wrong, "not arrived: $pattern" unless grep { line($_) =~ /^$pattern/ && $_->{known} } @seen;
    }

    Test::More::ok(!@wrong, $name)
        or Test::More::diag(join "\n", @wrong, $out, 'arrived:', map { line($_) . " $_->{status}" } @seen);
    return $out;
}

sub line {
    my $s = shift;
    my $what = defined $s->{operation} ? " $s->{operation}" : '';
    return "$s->{method} $s->{host}$s->{uri}$what";
}


# --- the end ------------------------------------------------------------------------------------

# nobody else has the secret: logs, outputs of clients, what clients left in their homes and working directories

sub finish {
    my $self = shift;
    my $dir = $self->{dir};

    return Test::More::pass('no gateway') if $self->{direct};

    my @records = map { eval { JSON::PP->new->latin1->decode($_) } || $_ } split /\n/, Gateway::slurp("$dir/logs/egress.json");
    Test::More::is((grep { !ref } @records), 0, 'the audit log is JSON');
    Test::More::ok((grep { ref && $_->{event} eq 'decision' && $_->{decision} eq 'allow' } @records), 'it tells what was allowed');
    Test::More::ok((grep { ref && $_->{event} eq 'decision' && $_->{decision} eq 'deny' } @records), 'and what was refused');
    Test::More::ok($self->stop_gateway, 'the gateway ends when told to');

    my $shapes = Gateway::shapes($self->{secret});
    Test::More::ok(scalar(Gateway::search($shapes, "$dir/standin/record.log")), 'the search finds the secret at the services');

    my @files = grep { -f && !-l }
        split /\0/, `find $dir -path $dir/standin -prune -o -path $dir/secrets -prune -o -type f -print0`;
    Test::More::ok(-s "$dir/logs/error.log" > 100_000, 'the error log at debug is there');
    Test::More::is(join("\n", Gateway::search($shapes, @files)), '', 'no file outside the services holds the secret');

    my @alarms = `grep -E '\\[(alert|crit|emerg)\\]' $dir/logs/error.log`;
    Test::More::is(scalar @alarms, 0, 'no alarms in the error log')
        or Test::More::diag(@alarms[0 .. ($#alarms > 9 ? 9 : $#alarms)]);
}

sub stop {
    my $self = shift;
    return if $self->{stopped}++ || $$ != $self->{owner};
    delete $self->{alive};
    for my $pid (@{$self->{pids}}) {
        kill 'TERM', $pid;
        waitpid $pid, 0;
    }
    $self->stop_gateway;
    File::Path::remove_tree($self->{dir}) unless $ENV{KEEP};
    print STDERR "# kept: $self->{dir}\n" if $ENV{KEEP};
}

1;
