package Test::Nginx::Util;

# Server side of the test runner: settings, the servroot, the generated
# configuration, starting and stopping nginx, log data, the fake TCP peer,
# and the two extra checks that only the environment can switch on.
# The manual is at the end of Test/Nginx/Socket.pm.

use v5.10.1;
use strict;
use warnings;

use Cwd ();
use Errno ();
use File::Basename qw(basename dirname);
use File::Find ();
use File::Path qw(make_path remove_tree);
use File::Spec ();
use File::Temp ();
use IO::Select ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use List::Util qw(shuffle);
use MIME::Base64 ();
use POSIX ();
use Scalar::Util qw(looks_like_number);
use Socket qw(SOCK_STREAM);
use Test::More ();
use Time::HiRes qw(sleep time);

our $VERSION = '0.33';


# Settings.  Several are read by test files through their full names, so they
# are package variables.

our $NginxBinary = $ENV{TEST_NGINX_BINARY} || 'nginx';
our $LoadModules = $ENV{TEST_NGINX_LOAD_MODULES};
our $Verbose = $ENV{TEST_NGINX_VERBOSE};
our $NoShuffle = $ENV{TEST_NGINX_NO_SHUFFLE} || 0;
our $NoNginxManager = $ENV{TEST_NGINX_NO_NGINX_MANAGER} || 0;
our $Randomize = $ENV{TEST_NGINX_RANDOMIZE};
our $UseValgrind = $ENV{TEST_NGINX_USE_VALGRIND};
our $UseHup = 0;
our $EventType = $ENV{TEST_NGINX_EVENT_TYPE};
our $PostponeOutput = $ENV{TEST_NGINX_POSTPONE_OUTPUT};
our $ReusePort = $ENV{TEST_NGINX_REUSE_PORT};
our $WorkerUser = $ENV{TEST_NGINX_WORKER_USER};
our $CheckAccumErrLog = $ENV{TEST_NGINX_CHECK_ACCUM_ERR_LOG};
our $Timeout = $ENV{TEST_NGINX_TIMEOUT} || 3;
our $TestNginxSleep = $ENV{TEST_NGINX_SLEEP} || 0.015;
our $LogLevel = $ENV{TEST_NGINX_LOG_LEVEL} || 'debug';
our $MasterProcessEnabled = $ENV{TEST_NGINX_MASTER_PROCESS} || 'off';
our $ForceRestartOnTest = $ENV{TEST_NGINX_FORCE_RESTART_ON_TEST} // 1;
our $DaemonEnabled = 'on';
our $Workers = 1;
our $WorkerConnections = 64;
our $RepeatEach = 1;
our $ServerAddr = '127.0.0.1';
our $ServerName = 'localhost';
our $NoRootLocation = 0;
our $NoLongString;
our $ConfigPreamble = '';
our $FilterHttpConfig;
our @EnvToNginx;

our $ServerPort = $ENV{TEST_NGINX_SERVER_PORT} || $ENV{TEST_NGINX_PORT}
                  || 1984;
our $ServerPortForClient = $ENV{TEST_NGINX_CLIENT_PORT} || $ServerPort;

our $StrictLog = $ENV{TEST_NGINX_STRICT_LOG};
our $CanaryScan = $ENV{TEST_NGINX_CANARY_SCAN};


# State.

our $NginxVersion;
our $NginxRawVersion;
our $OpenSSLVersion;
our $NginxConfigureArgs = '';
our $RandPorts = {};
our $PrevConfig;
our $PrevBlock;
our $ErrLogFilePos = 0;
our $TcpServerPid;
our $InSubprocess;
our $BailedOut;
our @Responses;

our @BlockPreprocessors;
our @CleanupHandlers;
our @TestCleanupHandlers;

# Set by Test::Nginx::Socket.
our $RunTestHelper;
our $CheckErrorLog;
our $CheckShutdownErrorLog;

# What the block whose nginx is (or was) running asks for, kept until nginx
# has stopped and the files it left can be looked at.
my $Pending;

# Children of the test file must not end what belongs to it.
my $Owner = $$;


srand($$ ^ int(time() * 1000));

# The token is letters and digits only, so that it passes through headers,
# URLs and JSON unchanged.
if (!defined $ENV{TEST_NGINX_CANARY} || $ENV{TEST_NGINX_CANARY} eq '') {
    $ENV{TEST_NGINX_CANARY} = 'canary' . random_text(32);
}

our $Canary = $ENV{TEST_NGINX_CANARY};

if ($Randomize) {
    $ServerPort = gen_rand_port(1000)
        // Test::More::BAIL_OUT("no free port found for the server");
    $ServerPortForClient = $ServerPort;
    $ENV{TEST_NGINX_SERVER_PORT} = $ServerPort;
}

our $ServRoot = File::Spec->rel2abs(
    $Randomize ? "t/servroot_$ServerPort"
               : $ENV{TEST_NGINX_SERVROOT} || 't/servroot');

$ENV{TEST_NGINX_SERVER_ROOT} = $ServRoot;

our $LogDir = "$ServRoot/logs";
our $HtmlDir = "$ServRoot/html";
our $ConfDir = "$ServRoot/conf";
our $CacheDir = "$ServRoot/cache";
our $ErrLogFile = "$LogDir/error.log";
our $AccLogFile = "$LogDir/access.log";
our $StderrFile = "$LogDir/stderr.log";
our $PidFile = "$LogDir/nginx.pid";
our $ConfFile = "$ConfDir/nginx.conf";


# Accessors which test files call.

sub server_addr (@) { $ServerAddr = shift if @_; $ServerAddr }
sub server_name (@) { $ServerName = shift if @_; $ServerName }
sub server_port (@) { $ServerPort = shift if @_; $ServerPort }
sub timeout (@) { $Timeout = shift if @_; $Timeout }
sub workers (@) { $Workers = shift if @_; $Workers }
sub log_level (@) { $LogLevel = shift if @_; $LogLevel }
sub repeat_each (@) { $RepeatEach = shift if @_; $RepeatEach }

sub server_port_for_client (@) {
    $ServerPortForClient = shift if @_;
    return $ServerPortForClient;
}

sub worker_connections (@) {
    $WorkerConnections = shift if @_;
    return $WorkerConnections;
}

sub master_process_enabled (@) {
    $MasterProcessEnabled = shift() ? 'on' : 'off' if @_;
    return $MasterProcessEnabled;
}

sub master_on () { $MasterProcessEnabled = 'on' }
sub master_off () { $MasterProcessEnabled = 'off' }
sub no_shuffle () { $NoShuffle = 1 }
sub no_long_string () { $NoLongString = 1 }
sub no_root_location () { $NoRootLocation = 1 }
sub no_nginx_manager () { $NoNginxManager = 1 }
sub check_accum_error_log () { $CheckAccumErrLog = 1 }
sub html_dir () { $HtmlDir }
sub server_root () { $ServRoot }
sub sleep_time { $TestNginxSleep }
sub verbose { $Verbose }

# Reloading instead of restarting is not done: each block gets a new nginx,
# which gives the same results.
sub use_hup () { }

sub config_preamble ($) { $ConfigPreamble = shift }
sub add_block_preprocessor (&) { unshift @BlockPreprocessors, shift }
sub add_cleanup_handler ($) { unshift @CleanupHandlers, shift }
sub add_test_cleanup_handler ($) { unshift @TestCleanupHandlers, shift }

sub env_to_nginx (@) {
    if (!@_) {
        require Carp;
        Carp::croak("env_to_nginx: a name or name=value is needed");
    }

    for my $env (@_) {
        if ($env !~ /^[A-Za-z_]/ || $env =~ /\n/) {
            require Carp;
            Carp::croak("env_to_nginx: bad value: $env");
        }
        push @EnvToNginx, $env;
    }
}

sub bail_out (@) {
    $BailedOut = 1;
    cleanup();
    Test::More::BAIL_OUT(join '', @_);
}

# A failure which no numeric plan has counted: such a plan then fails, too.
sub extra_fail ($) {
    my $text = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    Test::More::fail($text);
}


# Small helpers.

sub random_text {
    my $length = shift;
    my @set = ('A' .. 'Z', 'a' .. 'z', '0' .. '9');

    if (open my $in, '<:raw', '/dev/urandom') {
        my $got = sysread $in, my $bytes, $length * 2;
        close $in;
        if ($got && $got == $length * 2) {
            return join '', map { $set[$_ % @set] } unpack 'n*', $bytes;
        }
    }

    return join '', map { $set[int rand @set] } 1 .. $length;
}

sub parse_time ($) {
    my $value = shift;

    return undef if !defined $value;
    return $1 / 1000 if $value =~ /^\s*([0-9.]+)ms\s*$/;
    return $1 + 0 if $value =~ /^\s*([0-9.]+)s?\s*$/;
    return $value;
}

sub slurp {
    my ($path, $offset) = @_;

    open my $in, '<:raw', $path or return undef;
    seek $in, $offset, 0 if $offset;
    local $/;
    my $data = <$in>;
    close $in;
    return $data // '';
}

sub spew {
    my ($path, $data) = @_;

    open my $out, '>:raw', $path
        or bail_out("cannot write $path: $!");
    print $out $data;
    close $out or bail_out("cannot write $path: $!");
}

# Ports below the range that the kernel gives to outgoing connections, so
# that no client takes one between this check and the bind() in nginx.
sub gen_rand_port {
    my ($tries, $used) = @_;

    for (1 .. ($tries || 1000)) {
        my $port = 10000 + int rand 22000;

        next if $used && $used->{$port};

        my $sock = IO::Socket::INET->new(
            LocalAddr => '0.0.0.0',
            LocalPort => $port,
            Proto => 'tcp',
            Listen => 1,
            ReuseAddr => 1,
        );

        if ($sock) {
            close $sock;
            return $port;
        }
    }

    return undef;
}

sub expand_env_in_text ($$$) {
    my ($text, $name, $rand_ports) = @_;

    return $text if !defined $text || ref $text;

    $text =~ s/\$(TEST_NGINX_[_A-Z0-9]+)/
               env_value($1, $name, $rand_ports)/gex;

    return $text;
}

sub env_value {
    my ($var, $name, $rand_ports) = @_;

    if ($var =~ /^TEST_NGINX_RAND_PORT_[0-9]+$/) {
        if (!defined $rand_ports->{$var}) {
            my %used = ($ServerPort => 1, $ServerPortForClient => 1,
                        map { $_ => 1 } values %$rand_ports);

            $rand_ports->{$var} = gen_rand_port(1000, \%used)
                // bail_out("$name - no free port found for $var");
        }

        return $rand_ports->{$var};
    }

    if (!defined $ENV{$var}) {
        bail_out("$name - the environment has no $var");
    }

    return $ENV{$var};
}

# The token is also expanded in sections in which nothing else is.
sub expand_canary {
    my $value = shift;

    return $value if !defined $value;

    if (ref $value eq 'ARRAY') {
        return [map { expand_canary($_) } @$value];
    }

    if (ref $value eq 'HASH') {
        return {%$value, value => expand_canary($value->{value})};
    }

    if (!ref $value) {
        $value =~ s/\$TEST_NGINX_CANARY\b/$Canary/g;
    }

    return $value;
}


# Versions, for the skip_* sections.

sub get_canon_version (@) { sprintf '%d.%03d%03d', @_[0 .. 2] }

sub get_canon_version_for_OpenSSL (@) {
    my $canon = get_canon_version(@_);

    return defined $_[3]
           ? $canon . sprintf '%03d', ord($_[3]) - ord 'a'
           : $canon;
}

sub get_nginx_version () {
    my $out = `'$NginxBinary' -V 2>&1`;

    if ($? != 0 || !defined $out) {
        bail_out("cannot run \"$NginxBinary -V\": ", $out // $!);
    }

    if ($out =~ /built with OpenSSL (\d+)\.(\d+)\.(\d+)([a-z])?/) {
        $OpenSSLVersion = get_canon_version_for_OpenSSL($1, $2, $3, $4);
    }

    $NginxConfigureArgs = $1 if $out =~ /^configure arguments:(.*)/m;

    if ($out !~ m{\w+/(\d+)\.(\d+)\.(\d+)}) {
        bail_out("no version in the output of \"$NginxBinary -V\": $out");
    }

    $NginxRawVersion = "$1.$2.$3";
    return get_canon_version($1, $2, $3);
}

my %Compare = (
    '<' => sub { $_[0] < $_[1] },
    '<=' => sub { $_[0] <= $_[1] },
    '>' => sub { $_[0] > $_[1] },
    '>=' => sub { $_[0] >= $_[1] },
);

my $VersionTest = qr/([<>]=?)\s*(\d+)\.(\d+)\.(\d+)/;

# Returns (number of subtests, reason) if the block is to be skipped.
sub skip_block {
    my $block = shift;

    my $name = $block->name;

    if (defined(my $spec = $block->skip_eval)) {
        if ($spec =~ /^\s*(\d+)\s*:\s*(.*)/s) {
            my ($count, $code) = ($1, $2);
            my $skip = eval $code;

            bail_out("$name - skip_eval: $@") if $@;
            return ($count, 'skip_eval') if $skip;
        }
    }

    if (defined(my $spec = $block->skip_nginx)) {
        if ($spec !~ /^\s*(\d+)\s*:\s*$VersionTest\s*(?::\s*(.*?))?\s*$/) {
            bail_out("$name - bad skip_nginx: $spec");
        }

        my ($count, $op, $reason) = ($1, $2, $6);

        if ($Compare{$op}->($NginxVersion, get_canon_version($3, $4, $5))) {
            return ($count, $reason || "nginx version $op $3.$4.$5");
        }

    } elsif (defined($spec = $block->skip_nginx2)) {
        if ($spec !~ /^\s*(\d+)\s*:\s*$VersionTest\s*(or|and)\s*$VersionTest
                      \s*(?::\s*(.*?))?\s*$/x)
        {
            bail_out("$name - bad skip_nginx2: $spec");
        }

        my ($count, $join, $reason) = ($1, $6, $11);
        my $one = $Compare{$2}->($NginxVersion, get_canon_version($3, $4, $5));
        my $two = $Compare{$7}->($NginxVersion,
                                 get_canon_version($8, $9, $10));

        if ($join eq 'or' ? $one || $two : $one && $two) {
            return ($count, $reason || 'nginx version');
        }
    }

    if (defined(my $spec = $block->skip_openssl)) {
        if ($spec !~ /^\s*(\d+)\s*:\s*$VersionTest([a-z])?
                      \s*(?::\s*(.*?))?\s*$/x)
        {
            bail_out("$name - bad skip_openssl: $spec");
        }

        my ($count, $op, $reason) = ($1, $2, $7);
        my $version = get_canon_version_for_OpenSSL($3, $4, $5, $6);

        if (!defined $OpenSSLVersion
            || $Compare{$op}->($OpenSSLVersion, $version))
        {
            return ($count, $reason || "OpenSSL version $op $3.$4.$5");
        }
    }

    return;
}

sub todo_block {
    my $block = shift;

    my $name = $block->name;

    if (defined(my $spec = $block->todo)) {
        if ($spec !~ /^\s*(\d+)\s*:\s*(.*)/s) {
            bail_out("$name - bad todo: $spec");
        }

        return ($1, $2 || 'various reasons');
    }

    if (defined(my $spec = $block->todo_nginx)) {
        if ($spec !~ /^\s*$VersionTest\s*(?::\s*(.*?))?\s*$/) {
            bail_out("$name - bad todo_nginx: $spec");
        }

        my ($op, $reason) = ($1, $5);

        if ($Compare{$op}->($NginxVersion, get_canon_version($2, $3, $4))) {
            return (1, $reason || 'various reasons');
        }
    }

    return;
}


# The servroot and the files in it.

sub setup_server_root {
    if (-d $ServRoot) {
        # Only what this runner and nginx create is removed: a wrong
        # TEST_NGINX_SERVROOT must not cost anybody a directory.
        remove_tree($ConfDir, $HtmlDir, $LogDir, $CacheDir,
                    glob("'$ServRoot'/*_temp"), glob("'$ServRoot'/*_cache"));
        rmdir $ServRoot
            or bail_out("cannot remove $ServRoot (files of a stranger?): $!");
    }

    for my $dir ($LogDir, $HtmlDir, $ConfDir) {
        make_path($dir);
        -d $dir or bail_out("cannot create $dir");
    }

    spew("$HtmlDir/index.html", '<html><head><title>It works!</title></head>'
                                . '<body>It works!</body></html>');
}

sub run_block_code {
    my ($block, $section) = @_;

    my $name = $block->name;
    my $code = $block->$section;

    return if !$code;

    eval $code;
    bail_out("$name - $section failed: $@") if $@;
}

sub write_user_files ($$) {
    my ($block, $rand_ports) = @_;

    my $name = $block->name;
    my $files = $block->user_files;

    return if !$files;

    if (!ref $files) {
        my @list;

        for my $line (split /^/, $files) {
            if ($line =~ />>> (\S+)(?:\s+(.+))?/) {
                push @list, [$1, '', $2];

            } elsif (@list) {
                $list[-1][1] .= $line;
            }
        }

        $files = \@list;

    } elsif (ref $files ne 'ARRAY') {
        bail_out("$name - user_files must be text or an array");
    }

    for my $file (@$files) {
        my ($path, $body, $mtime) = @$file;

        $path = "$HtmlDir/$path" if $path !~ m{^/};
        make_path(dirname($path));
        spew($path, expand_env_in_text($body, $name, $rand_ports) // '');

        if ($mtime) {
            $mtime =~ s/^\s+|\s+$//g;
            local $ENV{TZ} = 'GMT';
            system('touch', '-t', $mtime, $path) == 0
                or bail_out("$name - bad time for $path: $mtime");
        }
    }
}

sub write_config_file ($$$) {
    my ($block, $config, $rand_ports) = @_;

    my $name = $block->name;

    my ($http, $main, $post_main, $log) =
        map { expand_env_in_text($_, $name, $rand_ports) // '' }
            scalar $block->http_config, scalar $block->main_config,
            scalar $block->post_main_config, scalar $block->error_log_file;

    $config = '' if !defined $config;
    $log = $ErrLogFile if $log eq '';
    $http = $FilterHttpConfig->($http) if $FilterHttpConfig;

    my $modules = join '', map { "load_module $_;\n" }
                           split ' ', $LoadModules // '';
    $modules = expand_env_in_text($modules, $name, $rand_ports);

    my $env = join '', map { "env $_;\n" }
                       map { /\s/ ? "'$_'" : $_ }
                           qw(LD_PRELOAD LD_LIBRARY_PATH ASAN_OPTIONS
                              UBSAN_OPTIONS LSAN_OPTIONS MOCKEAGAIN
                              MOCKEAGAIN_VERBOSE
                              MOCKEAGAIN_WRITE_TIMEOUT_PATTERN),
                           @EnvToNginx;

    my $temp_paths = '';

    for my $kind (qw(client_body proxy fastcgi scgi uwsgi)) {
        next if $http =~ /\b${kind}_temp_path\b/;
        next if $NginxConfigureArgs =~ /--without-http_${kind}_module/;
        $temp_paths .= "    ${kind}_temp_path $ServRoot/${kind}_temp;\n";
    }

    my $postpone = '';

    if (defined $PostponeOutput && $http !~ /\bpostpone_output\b/) {
        $postpone = "    postpone_output $PostponeOutput;\n";
    }

    my $server_name = $block->server_name // $ServerName;
    $server_name =~ s/([\\'])/\\$1/g;

    my $listen = $ServerPort . ($ReusePort ? ' reuseport' : '');

    if (defined $block->http2) {
        $listen .= $NginxVersion >= 1.025001 ? "; http2 on" : ' http2';
    }

    my $root_location = $NoRootLocation ? '' : <<"END_LOCATION";

        location / {
            root $HtmlDir;
            index index.html index.htm;
        }
END_LOCATION

    my $use = $EventType ? "    use $EventType;\n" : '';

    my $user = defined $WorkerUser ? "user $WorkerUser;\n"
               : $> == 0 ? "user root;\n" : '';

    spew($ConfFile, <<"END_CONF");
${modules}worker_processes  $Workers;
daemon $DaemonEnabled;
master_process $MasterProcessEnabled;
error_log $log $LogLevel;
pid $PidFile;
$user$env
$main

http {
    access_log $AccLogFile;
$temp_paths
    default_type text/plain;
    keepalive_timeout 68000ms;

$http
$postpone
    server {
        listen $listen;
        server_name '$server_name';
        client_max_body_size 30M;

$ConfigPreamble
$config
$root_location    }
}

$post_main

events {
    accept_mutex off;
    worker_connections $WorkerConnections;
$use}
END_CONF
}


# Processes.

# A zombie that nobody collects has ended, too.
sub is_running ($) {
    my $pid = shift;

    return 0 if !$pid || !kill(0, $pid) && $! != Errno::EPERM;

    my $stat = slurp("/proc/$pid/stat");
    return 0 if defined $stat && $stat =~ /\)\s+[ZX]\s/;

    return 1;
}

# The number in the pid file, if that process is ours: after a crash of the
# machine or a kill of the runner the number may belong to somebody else.
sub get_pid_from_pidfile ($) {
    my $name = shift;

    my $pid = slurp($PidFile);

    return undef if !defined $pid || $pid !~ /^\s*(\d+)\s*$/;
    $pid = $1;

    my $exe = readlink "/proc/$pid/exe";
    my $binary = Cwd::abs_path(which($NginxBinary) // $NginxBinary);

    if (defined $exe && $exe !~ /valgrind|memcheck|nginx/
        && basename($exe) ne basename($binary // ''))
    {
        return undef;
    }

    return $pid;
}

sub which {
    my $program = shift;

    return $program if $program =~ m{/};

    for my $dir (File::Spec->path) {
        return "$dir/$program" if -x "$dir/$program" && !-d _;
    }

    return undef;
}

sub can_run { which($_[0]) }

sub wait_for_end {
    my ($pid, $seconds) = @_;

    my $until = time() + $seconds;
    my $step = 0.005;

    while (is_running($pid)) {
        return 0 if time() > $until;
        waitpid $pid, POSIX::WNOHANG;
        sleep $step;
        $step *= 1.5 if $step < 0.05;
    }

    return 1;
}

sub kill_process ($$$) {
    my ($pid, $wait, $name) = @_;

    return if !$pid;

    kill($ENV{TEST_NGINX_FAST_SHUTDOWN} ? 'TERM' : 'QUIT', $pid);

    my $seconds = $UseValgrind ? 10 + timeout() : timeout();
    return if wait_for_end($pid, $seconds);

    warn "$name - the process $pid does not end, forcing it\n";

    # Sanitizers report at an orderly exit, so ask once more.
    kill('TERM', $pid);
    return if wait_for_end($pid, 0.5);

    my $group = getpgrp($pid) // 0;
    kill('KILL', $group == $pid ? -$pid : $pid);
    wait_for_end($pid, timeout());
}

sub stop_nginx {
    my $name = shift;

    return if !-f $PidFile;

    my $pid = get_pid_from_pidfile($name);

    kill_process($pid, 1, $name) if is_running($pid);
    unlink $PidFile;
}

sub nginx_command {
    my $block = shift;

    my @command = ($NginxBinary, '-p', "$ServRoot/", '-c', $ConfFile,
                   '-e', $ErrLogFile);

    if ($UseValgrind && !defined $block->must_die) {
        my @options = $UseValgrind =~ /^\d+$/
            ? qw(--tool=memcheck --leak-check=full --keep-debuginfo=yes
                 --show-possibly-lost=no)
            : split ' ', $UseValgrind;

        push @options, '--gen-suppressions=all';
        push @options, '--suppressions=valgrind.suppress'
            if -f 'valgrind.suppress';
        push @options, qw(--exit-on-first-error=yes --error-exitcode=1)
            if $ENV{TEST_NGINX_VALGRIND_EXIT_ON_FIRST_ERR};

        unshift @command, 'valgrind', '--num-callers=100', '-q', @options;
    }

    return @command;
}

# Runs nginx, which goes to the background by itself.  Returns the wait
# status, or -1.
sub execute_nginx {
    my $block = shift;

    my @command = nginx_command($block);

    warn "command: @command\n" if $Verbose;

    my $preload = join ' ', grep { defined && length }
                            @ENV{qw(TEST_NGINX_LD_PRELOAD LD_PRELOAD)};

    my $pid = fork();
    bail_out("fork() failed: $!") if !defined $pid;

    if ($pid == 0) {
        $InSubprocess = 1;
        $ENV{LD_PRELOAD} = $preload if length $preload;
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', '/dev/null';
        open STDERR, '>>', $StderrFile;
        { no warnings 'exec'; exec { $command[0] } @command; }
        POSIX::_exit(127);
    }

    waitpid $pid, 0;
    return $? >> 8 == 127 ? -1 : $?;
}

# nginx's own messages of the start go where the original lets them go.
sub show_stderr {
    my $block = shift;

    return if defined $block->suppress_stderr;

    my $text = slurp($StderrFile);
    print STDERR $text if defined $text && length $text;
}

sub missing_directive {
    my $log = slurp($ErrLogFile) // '';

    return $log =~ /\[emerg\] \S+?: unknown directive "([^"]+)"/ ? $1 : undef;
}

# Starts nginx; returns the reason if the checks are to be skipped.
sub start_nginx {
    my ($block, $config, $rand_ports) = @_;

    my $name = $block->name;

    setup_server_root();
    run_block_code($block, 'post_setup_server_root');
    write_user_files($block, $rand_ports);
    write_config_file($block, $config, $rand_ports);

    which($NginxBinary) or bail_out("$name - no nginx binary: $NginxBinary");

    $ErrLogFilePos = 0;

    my $until = time() + 30;
    my $delay = 0.1;

    for ( ;; ) {
        my $status = execute_nginx($block);

        last if $status == 0;

        if ($ENV{TEST_NGINX_IGNORE_MISSING_DIRECTIVES}) {
            my $directive = missing_directive();
            return "the lack of directive $directive" if defined $directive;
        }

        my $log = (slurp($ErrLogFile) // '') . (slurp($StderrFile) // '');

        if ($log !~ /Address already in use/ || time() > $until) {
            my @tail = grep { !/\[debug\]/ } split /\n/, $log;
            splice @tail, 0, @tail - 10 if @tail > 10;
            Test::More::diag($_) for @tail;
            bail_out("$name - cannot start nginx (wait status $status)");
        }

        sleep $delay;
        $delay *= 1.5 if $delay < 1;
        unlink $ErrLogFile, $StderrFile;
    }

    show_stderr($block);

    # The first process ends before the one in the background has written
    # the pid file.
    my $pid_until = time() + ($UseValgrind ? 20 : 5);

    until (defined get_pid_from_pidfile($name)) {
        if (time() > $pid_until) {
            bail_out("$name - nginx started but left no pid file");
        }
        sleep 0.003;
    }

    sleep $TestNginxSleep;
    return;
}

sub run_must_die {
    my ($block, $config, $rand_ports) = @_;

    my $name = $block->name;
    my $expected = $block->must_die;

    setup_server_root();
    run_block_code($block, 'post_setup_server_root');
    write_user_files($block, $rand_ports);
    write_config_file($block, $config, $rand_ports);

    for my $i (0 .. $RepeatEach - 1) {
        $ErrLogFilePos = 0 if $i == 0;

        my $status = execute_nginx($block);

        if ($status == -1) {
            Test::More::fail("$name - cannot execute nginx");

        } elsif ($status & 128) {
            Test::More::fail("$name - nginx left a core dump");

        } elsif (looks_like_number($expected)) {
            Test::More::is($status >> 8, $expected,
                           "$name - die with the expected exit code");

        } else {
            Test::More::isnt($status, 0, "$name - die as expected");
        }

        $CheckErrorLog->($block, undef, undef, $i, 0);

        if ($status == 0) {
            warn "WARNING: $name - nginx must die but it does not\n";

            for (1 .. 100) {
                last if defined get_pid_from_pidfile($name);
                sleep 0.01;
            }

            stop_nginx($name);
        }
    }

    show_stderr($block) if $Verbose;
}


# Logs.

sub access_log_data () {
    sleep $TestNginxSleep * 3;

    my $data = slurp($AccLogFile);
    defined $data or bail_out("cannot read $AccLogFile: $!");

    return [split /^/, $data];
}

# The lines written since the last call, unless all are wanted.  What nginx
# writes in its log phase comes after the end of the response: wait for it.
sub error_log_data () {
    sleep $TestNginxSleep * 3;

    my $start = $CheckAccumErrLog ? 0 : $ErrLogFilePos;
    my $data = slurp($ErrLogFile, $start);

    return [] if !defined $data;

    $ErrLogFilePos = $start + length $data if !$CheckAccumErrLog;

    return [split /^/, $data];
}

sub stderr_data () {
    return [split /^/, slurp($StderrFile) // ''];
}


# The fake TCP peer: one connection per repetition.

sub start_tcp_server {
    my ($block, $rand_ports) = @_;

    return if !defined $block->tcp_listen;

    my $name = $block->name;
    my $target = expand_env_in_text(scalar $block->tcp_listen, $name,
                                    $rand_ports);
    my $reply = $block->tcp_reply;

    $target =~ s/^\s+|\s+$//g;

    if (!defined $reply && !defined $block->tcp_shutdown) {
        bail_out("$name - tcp_listen without tcp_reply");
    }

    my $length = $block->tcp_query_len;

    if (!defined $length && defined $block->tcp_query) {
        $length = length $block->tcp_query;
    }

    my $peer = { };

    if (defined $length) {
        $peer->{dir} = File::Temp->newdir();
        $peer->{query_file} = "$peer->{dir}/query";
    }

    my $until = time() + 30;

    for ( ;; ) {
        if ($target =~ /^\d+$/) {
            $peer->{sock} = IO::Socket::INET->new(
                LocalHost => '127.0.0.1',
                LocalPort => $target,
                Proto => 'tcp',
                ReuseAddr => 1,
                Listen => 5,
            );

        } elsif ($target =~ /\S\.sock$/) {
            unlink $target;
            $peer->{sock} = IO::Socket::UNIX->new(
                Local => $target,
                Type => SOCK_STREAM,
                Listen => 5,
            );
            chmod 0777, $target;
            $peer->{path} = $target;

        } else {
            bail_out("$name - bad tcp_listen: $target");
        }

        last if $peer->{sock};

        if ($! != Errno::EADDRINUSE || time() > $until) {
            bail_out("$name - cannot listen on $target: $!");
        }

        sleep 0.2;
    }

    my $pid = fork();
    bail_out("$name - fork() failed: $!") if !defined $pid;

    if ($pid == 0) {
        $InSubprocess = 1;
        $SIG{__DIE__} = 'DEFAULT';
        eval { serve_tcp_peer($block, $peer, $reply, $length); 1 }
            or warn "$name - TCP peer: $@";
        POSIX::_exit(0);
    }

    $TcpServerPid = $pid;
    return $peer;
}

sub serve_tcp_peer {
    my ($block, $peer, $reply, $length) = @_;

    local $SIG{PIPE} = 'IGNORE';

    my $client;

    until ($client = $peer->{sock}->accept()) {
        sleep $TestNginxSleep;
    }

    my ($no_read, $no_write);
    my $how = $block->tcp_shutdown;

    if (defined $how) {
        my $delay = parse_time($block->tcp_shutdown_delay);
        sleep $delay if $delay;

        shutdown $client, $how;
        ($no_read, $no_write) = ($how != 1, $how == 1);
    }

    my $auto = $block->tcp_query_auto_timeout;
    my $query = '';

    if (!$no_read) {
        for ( ;; ) {
            if (defined $auto) {
                my $wait = $auto =~ /[0-9]/ ? $auto + 0 : 0.1;
                last if !IO::Select->new($client)->can_read($wait);
            }

            my $got = sysread $client, my $data, 65536;
            last if !$got;

            $query .= $data;

            if ($peer->{query_file}) {
                # A reader must see a whole file.
                my $temp = "$peer->{query_file}.new";
                open my $out, '>:raw', $temp or die "$temp: $!\n";
                print $out $query;
                close $out;
                rename $temp, $peer->{query_file};
            }

            last if !defined $auto && (!$length || length $query >= $length);
        }
    }

    my $delay = parse_time($block->tcp_reply_delay);
    sleep $delay if $delay;

    if (!$no_write && defined $reply) {
        $reply = $reply->($query) if ref $reply eq 'CODE';

        for my $part (ref $reply eq 'ARRAY' ? @$reply : $reply) {
            my $offset = 0;

            while ($offset < length $part) {
                my $sent = syswrite $client, $part, length($part) - $offset,
                                    $offset;
                last if !defined $sent;
                $offset += $sent;
            }
        }
    }

    while (defined $block->tcp_no_close) {
        sleep 1;
    }

    close $client;
}

sub finish_tcp_server {
    my ($block, $peer, $dry_run) = @_;

    return if !$peer;

    my $name = $block->name;
    my $query = '';

    if ($peer->{query_file}) {
        for (1 .. 20) {
            $query = slurp($peer->{query_file}) // '';
            last if length $query >= ($block->tcp_query_len
                                      // length $block->tcp_query);
            sleep 0.01;
        }
    }

    if (!$dry_run && defined $block->tcp_query) {
        is_str($query, $block->tcp_query, "$name - tcp_query ok");
    }

    if (!$dry_run && defined $block->tcp_query_len) {
        Test::More::is(length $query, $block->tcp_query_len,
                       "$name - TCP query length ok");
    }

    stop_tcp_server();
    close $peer->{sock};
    unlink $peer->{path} if defined $peer->{path};
}

sub stop_tcp_server {
    return if !defined $TcpServerPid;

    kill 'KILL', $TcpServerPid;
    waitpid $TcpServerPid, 0;
    undef $TcpServerPid;
}


# Comparison of text which shows the place of the difference.

my $HaveLongString = eval { require Test::LongString; 1 };

sub is_str (@) {
    my ($got, $expected, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    if (ref $expected eq 'Regexp') {
        return Test::More::like($got, $expected, $name);
    }

    if ($NoLongString || !$HaveLongString) {
        return Test::Base::is($got, $expected, $name);
    }

    return Test::LongString::is_string($got, $expected, $name);
}


# Checks on what a stopped nginx has left.  Nothing here adds a passed test,
# so numeric plans stay valid.

sub patterns_of {
    my $value = shift;

    return () if !defined $value;
    return ($value) if ref $value eq 'Regexp';
    return map { patterns_of($_) } grep { defined } @$value
        if ref $value eq 'ARRAY';
    return grep { length } split /\n+/, $value;
}

sub line_matches {
    my ($line, $pattern) = @_;

    return $line =~ (ref $pattern ? $pattern : qr/\Q$pattern\E/);
}

sub finish_block {
    return if !$Pending;

    my $pending = $Pending;
    undef $Pending;

    my $block = $pending->{block};

    if (defined $block->shutdown_error_log
        || defined $block->no_shutdown_error_log)
    {
        $CheckShutdownErrorLog->($block, $ENV{TEST_NGINX_NO_CLEAN});
    }

    check_strict_log($pending) if $StrictLog;
    check_canary($pending) if $CanaryScan;

    @Responses = ();
}

sub check_strict_log {
    my $pending = shift;

    my $block = $pending->{block};
    my $name = $block->name;

    my @allowed = map { patterns_of($_) }
                      scalar $block->error_log,
                      scalar $block->grep_error_log,
                      $block->shutdown_error_log;

    push @allowed, '[emerg]' if defined $block->must_die;

    my %seen;

    for my $file (grep { !$seen{$_}++ } $ErrLogFile, $pending->{error_log},
                                        $StderrFile)
    {
        for my $line (split /\n/, slurp($file) // '') {
            if ($line =~ /AddressSanitizer|LeakSanitizer|runtime error:/) {
                extra_fail("$name - sanitizer report in "
                           . basename($file) . ": $line");
                last;
            }

            next if $line !~ /\[(?:alert|crit|emerg)\]/;

            # nginx tries again, and starting it has worked in the end: the
            # port was not free yet.
            next if $line =~ /bind\(\) to \S+ failed \(98:/;

            next if $file eq $StderrFile;
            next if grep { line_matches("$line\n", $_) } @allowed;

            extra_fail("$name - unexpected line in "
                       . basename($file) . ": $line");
        }
    }
}

# Each form in which the token could leave.  The characters of base64 that
# depend on the neighbours of the token are left out.
sub canary_patterns {
    my $token = shift;

    my %forms = (
        raw => qr/\Q$token\E/,
        hex => qr/\Q@{[unpack 'H*', $token]}\E/i,
    );

    for my $shift (0 .. 2) {
        my $text = MIME::Base64::encode_base64(("\0" x $shift) . $token, '');
        my $first = (0, 2, 3)[$shift];
        my $last = int((length($token) + $shift) * 8 / 6);
        my $part = substr $text, $first, $last - $first;

        (my $url = $part) =~ tr{+/}{-_};
        $forms{"base64 (alignment $shift)"} = qr/\Q$part\E|\Q$url\E/;
    }

    return \%forms;
}

sub find_canary {
    my $data = shift;

    state $forms = canary_patterns($Canary);

    for my $form (sort keys %$forms) {
        return $form if $data =~ $forms->{$form};
    }

    if ($data =~ /%[0-9A-Fa-f]{2}/) {
        $data =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
        return 'percent-encoded' if $data =~ $forms->{raw};
    }

    return undef;
}

sub check_canary {
    my $pending = shift;

    my $name = $pending->{block}->name;
    my @files;

    # conf and html hold what the test itself wrote; the log of a bound
    # upstream records what must arrive there.
    if (-d $ServRoot) {
        File::Find::find({ no_chdir => 1, wanted => sub {
            if ($_ eq $ConfDir || $_ eq $HtmlDir) {
                $File::Find::prune = 1;

            } elsif (-f $_ && !-l $_ && basename($_) !~ /upstream.*\.log$/) {
                push @files, $_;
            }
        } }, $ServRoot);
    }

    for my $file (sort @files) {
        my $form = find_canary(slurp($file) // '');

        if (defined $form) {
            my $short = File::Spec->abs2rel($file, $ServRoot);
            extra_fail("$name - canary found in $short, form: $form");
        }
    }

    my $n = 0;

    for my $response (@Responses) {
        $n++;
        my $form = find_canary($response);

        if (defined $form) {
            extra_fail("$name - canary found in response $n, form: $form");
        }
    }
}


# One block.

my @NotSupported = qw(udp_listen http3 stream_config stream_server_config
                      stream_request stream_response dgram_request);

sub run_test ($) {
    my $block = shift;

    return if defined $block->SKIP;

    my $name = $block->name;

    for my $section (@NotSupported) {
        if (defined $block->$section) {
            bail_out("$name - this runner does not know the section $section");
        }
    }

    my ($skip_count, $skip_reason) = skip_block($block);

    if (defined $skip_count) {
        SKIP: {
            Test::More::skip("$name - $skip_reason", $skip_count);
        }
        return;
    }

    my ($todo_count, $todo_reason) = todo_block($block);

    if (defined $todo_count) {
        TODO: {
            Test::More::todo_skip("$name - $todo_reason", $todo_count);
        }
        return;
    }

    my $rand_ports = {};
    $RandPorts = $rand_ports;

    my $config = expand_env_in_text(scalar $block->config, $name, $rand_ports);

    local $LogLevel = $LogLevel;
    $LogLevel = $block->log_level if $block->log_level;

    my $restart = 0;

    if ($NoNginxManager) {
        if (defined $config) {
            Test::More::diag("nginx is not managed: config of $name ignored");
        }

    } elsif (!defined $config) {
        # The nginx of the block before goes on.
        defined $PrevConfig
            or bail_out("$name - the first block needs a config section");

    } else {
        $restart = $ForceRestartOnTest || defined $block->must_die
                   || !defined $PrevConfig || $config ne $PrevConfig;
        $PrevConfig = $config;
    }

    my $dry_run;

    if ($restart) {
        stop_nginx($name);
        finish_block();

        $Pending = {
            block => $block,
            error_log => expand_env_in_text(scalar $block->error_log_file,
                                            $name, $rand_ports)
                         || $ErrLogFile,
        };

        if (defined $block->must_die) {
            run_must_die($block, $config, $rand_ports);
            undef $PrevConfig if !$ForceRestartOnTest;
            return;
        }

        $dry_run = start_nginx($block, $config, $rand_ports);

    } elsif (!$NoNginxManager) {
        # Same nginx, another block: the stopped nginx is judged by the
        # block that ran last.
        $Pending->{block} = $block if $Pending;
    }

    run_block_code($block, 'init');

    $ErrLogFilePos = 0;

    for my $i (0 .. $RepeatEach - 1) {
        my $peer = $dry_run ? undef : start_tcp_server($block, $rand_ports);

        write_user_files($block, $rand_ports) if $i;

        $RunTestHelper->($block, $dry_run, $i);
        finish_tcp_server($block, $peer, $dry_run);
    }
}

sub cleanup_test ($) {
    my $block = shift;

    $_->($block) for @TestCleanupHandlers;
}

sub cleanup () {
    $_->() for splice @CleanupHandlers;
    stop_tcp_server();
}

sub run_tests () {
    $NginxVersion = get_nginx_version();

    $ENV{TEST_NGINX_SERVER_PORT} //= $ServerPort;

    my @blocks = Test::Base::blocks();
    @blocks = shuffle @blocks if !$NoShuffle;

    for my $block (@blocks) {
        $_->($block) for @BlockPreprocessors;

        $block->set_value(name => "$0 " . $block->name);

        run_test($block);
        cleanup_test($block);

        $PrevBlock = $block;
    }

    cleanup();
}

END {
    if (!$InSubprocess && $$ == $Owner) {
        my $status = $?;

        cleanup();

        if (!$ENV{TEST_NGINX_NO_CLEAN} && defined $PidFile) {
            stop_nginx('END');
        }

        finish_block() if !$BailedOut;

        if ($Randomize && !$ENV{TEST_NGINX_NO_CLEAN}
            && $ServRoot =~ m{/t/servroot_\d+$})
        {
            remove_tree($ServRoot, { safe => 0 });
        }

        $? = $status;
    }
}

1;
