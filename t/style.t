# the style check can fail

use strict;
use warnings;

use File::Path ();
use File::Temp ();
use Test::More;

my $dir = File::Temp::tempdir(CLEANUP => 1);

my $good = <<'END';

/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>


static int ngx_f(int a);


static int
ngx_f(int a)
{
    if (a) {
        return 1;

    } else if (a == 2) {
        return 2;
    }

    return 0;
}
END

my @cases = (
    ['as it should be', sub { }, 0, 'src/core'],
    ['tab', sub { s/    if/\tif/ }, 1, 'src/core'],
    ['trailing space', sub { s/return 0;/return 0; / }, 1, 'src/core'],
    ['long line', sub { s{return 0;}{return 0; /* @{['x' x 80]} */} }, 1,
     'src/core'],
    ['// comment', sub { s{return 0;}{return 0; // no} }, 1, 'src/core'],
    ['no space', sub { s/if \(a\)/if(a)/ }, 1, 'src/core'],
    ['else', sub { s/\n    \} else if/\n    }\n    else if/ }, 1, 'src/core'],
    ['no empty line before else', sub { s/1;\n\n/1;\n/ }, 1, 'src/core'],
    ['no prototype', sub { s/^static int ngx_f.*;\n//m }, 1, 'src/core'],
    ['one empty line', sub { s/\n\n\nstatic int\n/\n\nstatic int\n/ }, 1,
     'src/core'],
    ['too long a file', sub { $_ .= "\n" x 900 }, 1, 'src/core'],
    ['request in inspect', sub { s/int a\)/ngx_http_request_t *r)/ }, 1,
     'src/inspect'],
    ['request in core', sub { s/int a\)/ngx_http_request_t *r)/ }, 1,
     'src/core'],
    ['stream in http', sub { s/ngx_config/ngx_stream/ }, 1, 'src/http'],
    ['http in stream', sub { s/ngx_config/ngx_http/ }, 1, 'src/stream'],
);

for my $case (@cases) {
    my ($name, $break, $red, $folder) = @$case;

    local $_ = $good;
    $break->();

    File::Path::remove_tree("$dir/src");
    File::Path::make_path("$dir/$folder");

    open my $out, '>', "$dir/$folder/x.c" or die $!;
    print $out $_;
    close $out;

    my $text = `util/style.pl $dir/src 2>&1`;

    is($? ? 1 : 0, $red, $name) or diag($text);
}

is(system('util/style.pl src t/unit t/fuzz t/bench > /dev/null'), 0,
   'the checkout');

done_testing();
