# the two .so files in the distribution's nginx: what loads, and in which order

use strict;
use warnings;

use File::Temp ();
use Test::More;

my @modules = split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';

plan skip_all => 'the modules are within nginx' if @modules != 3;

my ($stock, $http, $stream) = @modules;
my $dir = File::Temp::tempdir(CLEANUP => 1);

mkdir "$dir/logs";

sub check {
    my ($name, $modules, $body, $want) = @_;

    open my $out, '>', "$dir/nginx.conf" or die $!;
    print $out map { "load_module $_;\n" } @$modules;
    print $out "pid $dir/pid;\nevents { }\n$body\n";
    close $out;

    my $text = `nginx -t -p $dir -e $dir/error.log -c $dir/nginx.conf 2>&1`;

    like($text, $want, $name);
}

my $ok = qr/test is successful/;
my $conf = 'egress { audit_log off; } stream { }';

check('all three', [$stock, $http, $stream], $conf, $ok);
check('the stream half before the http half', [$stock, $stream, $http],
      $conf, $ok);
check('the http half alone', [$http], 'egress { audit_log off; }', $ok);
check('no egress block', [$stock, $http, $stream], 'stream { }', $ok);
check('the stream half without the http half', [$stock, $stream],
      'stream { }',
      qr/ngx_stream_egress_module needs ngx_http_egress_module of the same/);
check('egress without the http half', [$stock, $stream], $conf,
      qr/unknown directive "egress"/);

# what "make install" lays out

my $text = `util/install.sh @{[$http =~ m{^(.*)/}]} $dir/root 2>&1`;

is($?, 0, 'installs') or diag($text);

for my $file (qw(ngx_http_egress_module.so ngx_stream_egress_module.so)) {
    my @found = glob "$dir/root/*/*/*/*/$file $dir/root/*/*/*/*/*/$file";
    is(scalar @found, 1, "$file, once");
}

ok(-s "$dir/root/etc/nginx/egress/bindings/github.conf", 'the preset');

done_testing();
