# The examples: nginx takes each configuration, and each script that can run
# here shows what its page promises, and leaves nothing behind.
#
# EGRESS_EXAMPLES="container remote-mtls" runs these only.

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::SHA qw(sha256_hex);
use File::Temp ();
use FindBin ();
use IO::Socket::INET;
use JSON::PP;
use Test::More;

$ENV{PATH} .= ':/usr/sbin:/sbin';

my $top = abs_path("$FindBin::Bin/..");
my $examples = "$top/conf-examples";
my $modules = abs_path($ENV{EGRESS_MODULES} || "$top/build/modules");

plan skip_all => 'these are for the distribution\'s nginx'
    if $ENV{TEST_NGINX_BINARY};
plan skip_all => "no modules in $top/build/modules"
    unless $modules && -e "$modules/ngx_http_egress_module.so";

my @names = split ' ', $ENV{EGRESS_EXAMPLES} // '';
@names = map { m{([^/]+)/nginx\.conf$} } sort glob "$examples/*/nginx.conf"
    unless @names;

my $tmp = File::Temp->newdir('egress-t-XXXXXX', TMPDIR => 1);
chmod 0755, "$tmp";

$ENV{EGRESS_EXAMPLE_TMP} = "$tmp";
$ENV{EGRESS_MODULES} = $modules;


sub run {
    my (@command) = @_;

    my $pid = open(my $out, '-|') // die "fork: $!";

    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        open STDIN, '<', '/dev/null';
        exec @command or POSIX::_exit(127);
    }

    local $/;
    my $said = <$out>;
    close $out;

    return ($? >> 8, $said // '');
}


sub slurp {
    my ($file) = @_;

    open my $in, '<', $file or die "$file: $!";
    local $/;
    return scalar <$in>;
}


# the processes that have this directory in their command, and are no ghosts

sub left {
    return grep {
        my $line = eval { slurp("/proc/$_/cmdline") } // '';
        $line =~ /\Q$tmp\E/;
    } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
}


# --- each page, and each script -------------------------------------------------

for my $name (@names) {
    my $folder = "$examples/$name";

    if ($name eq 'quickstart') {
        quickstart($folder);
        next;
    }

    ok(-s "$folder/README.md", "$name: there is a page");

    my ($status, $said) = run('bash', "$folder/run.sh", 'check');

    SKIP: {
        skip $said, 2 if $status == 77;

        is($status, 0, "$name: nginx -t") or diag($said);
        unlike($said, qr/\[(warn|error|emerg)\]/, "$name: without a warning")
            or diag($said);
    }

    ($status, $said) = run('bash', "$folder/run.sh");

    SKIP: {
        skip $said, 2 if $status == 77;

        is($status, 0, "$name: run.sh") or diag($said);

        my $checks = () = $said =~ /^    ok      /mg;
        like($said, qr/^\Q$name\E: $checks passed, 0 failed$/m,
             "$name: all $checks checks are told") or diag($said);
    }

    is_deeply([glob "$tmp/*"], [], "$name: no file is left");
    is_deeply([left()], [], "$name: no process is left");
}


# demo.sh has a target of its own, "make demo"

sub quickstart {
    my ($folder) = @_;
    my $dir = "$tmp/quickstart";

    mkdir $_ for $dir, map { "$dir/$_" } qw(logs run tmp secrets standin);
    run('cp', '-r', "$examples/bindings", "$dir/bindings");

    my ($status, $said) = run('sh', "$folder/make-ca.sh", "$dir/ca");
    is($status, 0, 'quickstart: make-ca.sh') or diag($said);

    run('cp', "$dir/ca/ca.pem", "$dir/standin/ca.pem");

    for my $file ('github.placeholder', 'tracker.placeholder',
                  'secrets/github', 'secrets/tracker')
    {
        (my $text = $file) =~ s/\W/_/g;

        open my $out, '>', "$dir/$file" or die "$dir/$file: $!";
        print $out "${text}_0123456789\n";
        close $out;

        chmod 0600, "$dir/$file";
    }

    my ($direct, $gateway) = map { "127.0.0.1:" . port() } 1 .. 2;
    my ($path) = qx(nginx -V 2>&1) =~ /--modules-path=(\S+)/;
    my $stream = "$path/ngx_stream_module.so";
    my $user = $> ? '' : 'user ' . ($ENV{EGRESS_USER} || 'www-data') . ';';

    my %word = (
        MODULES => $modules, DIR => $dir, GATEWAY => $gateway,
        UPSTREAM => '127.0.0.1:' . port(), USER => $user,
        STREAM => -e $stream ? "load_module $stream;" : '',
        DIRECT => "listen $direct ssl;",
        HANDED => "listen unix:$dir/run/egress.sock ssl;",
    );

    my $text = slurp("$folder/nginx.conf");
    $text =~ s/^#.*\n//mg;
    $text =~ s/@([A-Z]+)@/$word{$1} \/\/ die "quickstart: no word $1"/ge;

    open my $out, '>', "$dir/nginx.conf" or die "$dir/nginx.conf: $!";
    print $out $text;
    close $out;

    ($status, $said) = run('nginx', '-t', '-e', "$dir/logs/error.log", '-p',
                           "$dir/", '-c', "$dir/nginx.conf");
    is($status, 0, 'quickstart: nginx -t') or diag($said);

    run('rm', '-r', $dir);
}


sub port {
    return IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
           ->sockport;
}


# --- sandbox files by a script ----------------------------------------------------

my $boxes = "$tmp/sandboxes";
mkdir $boxes;

$ENV{EGRESS_SANDBOXES} = $boxes;
$ENV{EGRESS_GROUP} = (split ' ', $))[0];

sub box { return run('sh', "$examples/sandbox.sh", @_) }

my ($status, $token) = box('add', 'box-1', 'role=reader',
                           'source=10.0.0.0/8', 'source=2001:db8::/32',
                           'expires=2030-01-31T18:00:00Z');

is($status, 0, 'sandbox.sh add') or diag($token);
chomp $token;
like($token, qr/^[0-9a-f]{48}$/, 'prints a token');
is_deeply(decode_json(slurp("$boxes/box-1.json")), {
    role => 'reader', token_sha256 => sha256_hex($token),
    sources => ['10.0.0.0/8', '2001:db8::/32'],
    expires => '2030-01-31T18:00:00Z',
}, 'and writes what it was told');
is((stat "$boxes/box-1.json")[2] & 07777, 0640, 'for workers to read');

is((box('add', 'box-1'))[0], 1, 'what is there is not written over');

my $new;
($status, $new) = box('token', 'box-1');
chomp $new;
isnt($new, $token, 'sandbox.sh token: another one');
is(decode_json(slurp("$boxes/box-1.json"))->{token_sha256}, sha256_hex($new),
   'whose hash is in the file');
is(decode_json(slurp("$boxes/box-1.json"))->{role}, 'reader',
   'beside all the rest');

($status, $new) = box('add', 'box-2', 'no-token');
is("$status$new", '0', 'no-token: none is printed');
is_deeply(decode_json(slurp("$boxes/box-2.json")), {}, 'and none is there');
is((box('token', 'box-2'))[0], 1, 'nor is one made later');

for my $wrong (['../box'], [''], ['.box'], ["a\nb"], ['x' x 65],
               ['a', 'role=a"b'], ['a', 'source=10.0.0.0/8", "0.0.0.0/0'],
               ['a', 'expires=tomorrow'], ['a', 'rule=x'])
{
    isnt((box('add', @$wrong))[0], 0, "add @$wrong: refused");
}

is((box('remove', 'box-1'))[0], 0, 'sandbox.sh remove');
is((box('list'))[1], "box-2\t\n", 'sandbox.sh list');
is_deeply([map { s{.*/}{}r } glob "$boxes/{.[!.]*,*}"], ['box-2.json'],
          'nothing else is in the directory');

done_testing;
