# util/style.pl finds what it is there to find, and nothing in clean code

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp ();
use FindBin ();
use Test::More;

my $style = "$FindBin::Bin/../util/style.pl";

my $good = <<'END';

/*
 * A comment; // in it, or if( and "\t", is nothing to complain of.
 */


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_str_t   name;
    ngx_uint_t  n;
} ngx_egress_sample_t;


static ngx_int_t ngx_egress_sample_find(ngx_egress_sample_t *sample,
    ngx_str_t *name);


static ngx_str_t  ngx_egress_sample_url = ngx_string("https://example.com/");


/* a comment of a function */

ngx_int_t
ngx_egress_sample(ngx_egress_sample_t *sample)
{
    u_char  *p;

    p = (u_char *) ngx_egress_sample_url.data;

    if (*p == '/') {
        return NGX_OK;

    } else if (sample->n) {
        return NGX_DECLINED;
    }

    return ngx_egress_sample_find(sample, &ngx_egress_sample_url);
}


static ngx_int_t
ngx_egress_sample_find(ngx_egress_sample_t *sample, ngx_str_t *name)
{
    /* not shorter */

    for ( ;; ) {
        if (sample->name.len == name->len) {
            break;
        }
    }

    return NGX_OK;
}
END

# what is changed in it (from => to), where the file is, what is said

my @bad = (
    ['a tab', '    u_char  *p;' => "\tu_char  *p;", 'tab'],
    ['a carriage return', '    break;' => "    break;\r", 'carriage return'],
    ['a space at the end', 'u_char  *p;' => 'u_char  *p; ',
     'trailing space'],
    ['a line of 81 columns', '    /* not shorter */' =>
     '    /* ' . 'x' x 71 . ' */', 'more than 80 columns'],
    ['a comment of C++', '    break;' => '    break; // done', '// comment'],
    ['if(', '    if (*p' => '    if(*p', 'no space before ('],
    ['for(', 'for ( ;; )' => 'for( ;; )', 'no space before ('],
    ['a cast to a pointer', '(u_char *) ngx' => '(u_char *)ngx',
     'no space after a cast'],
    ['a cast to a number', '= (u_char *) ngx' => '= (size_t)ngx',
     'no space after a cast'],
    ['a cast to a structure', '= (u_char *) ngx' =>
     '= (struct sockaddr *)ngx', 'no space after a cast'],
    ['a cast of another type', '= (u_char *) ngx' => '= (unsigned int)ngx',
     'no space after a cast'],
    ['else on a line of its own', "\n    } else if" => "    }\n    else if",
     'else on a line of its own'],
    ['no empty line before else', "\n\n    } else" => "\n    } else",
     'no empty line before } else'],
    ['one empty line between functions', "}\n\n\nstatic" => "}\n\nstatic",
     'no two empty lines before a function'],
    ['three empty lines between functions', "}\n\n\nstatic" =>
     "}\n\n\n\nstatic", 'more than two empty lines'],
    ['a static function without a prototype',
     "static ngx_int_t ngx_egress_sample_find(ngx_egress_sample_t *sample,\n"
     . "    ngx_str_t *name);\n" => "\n",
     'no prototype for static ngx_egress_sample_find'],
    ['a long function', "    /* not shorter */\n" =>
     "    /* not shorter */\n" . "    n++;\n" x 120, 'more than 120 lines'],
    ['a long file', "static ngx_str_t " => "#define N\n" x 900
     . "static ngx_str_t ", 'more than 900 lines'],
);

my @worlds = (
    ['src/inspect/a.c', 'ngx_str_t   name;' => 'ngx_http_request_t  *r;',
     'nginx request or session type in inspect'],
    ['src/inspect/a.c', '#include <ngx_core.h>' => '#include <ngx_http.h>',
     'nginx header in inspect'],
    ['src/inspect/a.c', '#include <ngx_core.h>' => '#include <ngx_egress.h>',
     'header of core in inspect'],
    ['src/core/a.c', 'ngx_str_t   name;' => 'ngx_stream_session_t  *s;',
     'request or session type in core'],
    ['src/core/a.c', '#include <ngx_core.h>' =>
     '#include "ngx_http_egress.h"', 'http or stream header in core'],
    ['src/http/a.c', '#include <ngx_core.h>' => '#include <ngx_stream.h>',
     'stream header in http'],
    ['src/http/a.c', '#include <ngx_core.h>' =>
     '#include "ngx_stream_egress.h"', 'stream header in http'],
    ['src/stream/a.c', '#include <ngx_core.h>' =>
     '#include <ngx_http_egress.h>', 'http header in stream'],
    ['src/stream/a.h', '#include <ngx_core.h>' => '#include "ngx_http.h"',
     'http header in stream'],
);

plan tests => 6 + 2 * (@bad + @worlds);

sub check {
    my ($path, $text) = @_;

    my $dir = File::Temp->newdir();

    make_path(dirname("$dir/$path"));

    open my $out, '>', "$dir/$path" or die "$path: $!";
    print $out $text;
    close $out or die "$path: $!";

    my $said = qx("$^X" "$style" "$dir/src" 2>&1);

    return ($? >> 8, $said);
}

for my $path (map { "src/$_/a.c" } qw(core inspect http stream)) {
    my ($rc, $said) = check($path, $good);

    is("$rc $said", "0 style: 1 files, 0 complaints\n", "clean: $path");
}

for my $case ((map { ['src/core/a.c', @$_[1 .. 3], $_->[0]] } @bad), @worlds) {
    my ($path, $from, $to, $what, $name) = @$case;

    $name //= "$path: $to";

    my $text = $good;
    $text =~ s/\Q$from\E/$to/ or die "$name: the sample has no such text";

    my ($rc, $said) = check($path, $text);

    is($rc, 1, "$name: fails") or diag($said);
    like($said, qr/^\S+\/\Q$path\E:\d+: .*\Q$what\E/m, "$name: is told");
}

my $top = "$FindBin::Bin/..";

my $checkout = qx("$^X" "$style" "$top/src" "$top/t/unit" "$top/t/fuzz" 2>&1);

is($?, 0, 'the checkout') or diag($checkout);


# a folder that is not there is a mistake in the call, not a clean result

my $said = qx("$^X" "$style" "$FindBin::Bin/none" 2>&1);

isnt($?, 0, 'nothing to check is an error') or diag($said);
