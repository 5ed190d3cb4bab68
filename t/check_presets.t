# util/check-presets.pl finds what it is there to find, and nothing in the
# presets

use strict;
use warnings;

use File::Temp ();
use FindBin ();
use Test::More;

my $check = "$FindBin::Bin/../util/check-presets.pl";
my @presets = glob "$FindBin::Bin/../conf-examples/bindings/*.conf";

# what is wrong, the page, and what is said of which line; a page of several
# files has "--- " between them

my @bad = (

    # reads of unsafe methods

    ['a prefix', 'read POST /search;', 1, 'takes more than exact paths'],
    ['any method', "\nread * /search;", 2, 'for DELETE, PATCH, POST, PUT, other'],
    ['one of two methods', 'read GET,PUT /x;', 1, 'for PUT'],
    ['a method of another protocol', 'read REPORT /x;', 1, 'for REPORT'],
    ['no start', 'read POST ~ /search$;', 1, 'takes more'],
    ['no end', 'read POST ~ ^/search;', 1, 'takes more'],
    ['a dollar sign that is none', 'read POST ~ ^/search\$;', 1, 'takes more'],
    ['any number of segments', 'read POST ~ ^/a/.*/search$;', 1, 'takes more'],
    ['a dot', 'read POST ~ ^/a.search$;', 1, 'takes more'],
    ['a class with a slash', 'read POST ~ ^/[a/]+/x$;', 1, 'takes more'],
    ['a range with a slash', 'read POST ~ ^/[.-9]+/x$;', 1, 'takes more'],
    ['all but a question mark', 'read POST ~ ^/[^?]+/x$;', 1, 'takes more'],
    ['repeated segments', 'read POST ~ ^(?:/[^/]+)+/x$;', 1, 'takes more'],
    ['repeated segments, counted', 'read POST ~ "^(?:/[^/]+){1,3}/x$";', 1,
     'takes more'],
    ['slashes', 'read POST ~ ^/+x$;', 1, 'takes more'],
    ['all but white space', 'read POST ~ ^/\S+$;', 1, 'takes more'],
    ['an alternative', 'read POST ~ ^/a|/b$;', 1, 'takes more'],
    ['an alternative behind a group', 'read POST ~ ^/(?:a|c)|/b$;', 1,
     'takes more'],
    ['a look ahead', 'read POST ~ ^/(?=x).$;', 1, 'takes more'],
    ['a word behind the pattern that is no inspector', 'read POST /x grapql;',
     1, 'takes more'],

    # rules that are never tried

    ['the same exact path', "read GET = /a;\nrefuse GET = /a;", 2,
     'line 1 matches all of it'],
    ['the same path in other letters', "refuse POST = /A;\nread POST = /a;", 2,
     'line 1'],
    ['an exact path below a prefix', "write POST /a;\nread POST = /a/b;", 2,
     'line 1'],
    ['the prefix itself', "write POST /a;\nread POST = /a;", 2, 'line 1'],
    ['a prefix below a prefix', "refuse * /a;\nwrite GET /a/b;", 2, 'line 1'],
    ['the same prefix', "refuse * /a;\nwrite PUT /a;", 2, 'line 1'],
    ['below everything', "refuse * /;\nwrite PUT ~ x;", 2, 'line 1'],
    ['a regex with a literal head', "write POST /a;\nread POST ~ ^/a/[^/]+\$;",
     2, 'line 1'],
    ['a regex whose head ends with the prefix',
     "write POST /a;\nrefuse POST ~ ^/a(?:/|\$);", 2, 'line 1'],
    ['an escaped dot in the head', "write GET /a.b;\nrefuse GET ~ ^/a\\.b/c;",
     2, 'line 1'],
    ['an exact path that a regex matches',
     "write POST ~ ^/a/[^/]+\$;\nread POST = /a/b;", 2, 'line 1'],
    ['the same regex', "refuse POST ~ /x;\nwrite POST ~ /x;", 2, 'line 1'],
    ['methods in two rules',
     "write POST /a;\nrefuse PUT /a;\nrefuse POST,PUT /a/b;", 3, 'line 1, 2'],
    ['all methods, one by one', "read GET,HEAD,OPTIONS /;\n"
     . "write POST,PUT,PATCH,DELETE /;\nrefuse * /;\nwrite PUT /x;", 4,
     'line 2'],
    ['an inspector has decided', "read POST = /q graphql;\nwrite POST = /q;", 2,
     'line 1'],
    ['within a host', "host a.test {\n refuse * /;\n write GET /x;\n}", 3,
     'line 2'],
    ['a rule of all hosts before one of a host',
     "hosts b.test;\nrefuse * /a;\nhost a.test {\n write GET /a;\n}", 4,
     'line 2'],
    ['a rule that is reached in no host',
     "host a.test { refuse * /; }\nhost b.test { refuse * /; }\nwrite GET /a;",
     3, 'line 1'],
    ['a list over two lines', "refuse *\n    /a;\nwrite\nGET /a/b;", 3,
     'line 1'],
    ['a second git', "git on;\ngit on;", 2, 'line 1'],
    ['git behind everything', "refuse * /;\ngit on;", 2, 'line 1'],
    ['a repo pattern twice', "repo ~ ^/(a)/(b);\nrepo ~ ^/(a)/(b);", 2,
     'line 1'],
    ['a repo_free below another', "repo_free GET /a;\nrepo_free GET = /a/b;",
     2, 'line 1'],
    ['another method in the last rule', "refuse * /;\nread QUERY = /x;", 2,
     'line 1'],

    # hosts

    ['a host in one list twice', 'hosts a.test b.test a.test;', 1,
     'a.test is bound already'],
    ['in other letters', 'hosts a.test A.test;', 1, 'a.test is bound already'],
    ['with the port that it has anyway', 'hosts a.test a.test:443;', 1,
     'bound already'],
    ['in a list and in a block', "hosts a.test;\nhost a.test { }", 2,
     'bound already'],
    ['in two blocks', "host a.test { }\nhost a.test { }", 2, 'bound already'],
    ['in two pages', "hosts a.test;\n--- \nhosts b.test a.test;", 1,
     'a.test is bound already, at '],

    # and what is no page at all

    ['a brace too few', 'host a.test {', 1, 'is not understood'],
    ['no semicolon', 'read GET /a', 1, 'is not understood'],
);

my @good = (
    ['an exact path', 'read POST = /search;'],
    ['safe methods', 'read GET,HEAD,OPTIONS /; '],
    ['an inspector', 'read POST /mcp json_rpc tool=*;'],
    ['the others', 'read POST /g graphql; read POST /l lfs_batch; '
     . 'read GET,POST /t oci_scope;'],
    ['segments', 'read POST ~ ^/a/[^/]+/(?:b|c/d)/[\w.-]+/x/?$;'],
    ['a segment of parts', 'read POST ~ "^/(?:[^/%]|%7[BD])+/x{2}$";'],
    ['a digit, an escape', 'read POST ~ ^/v\d+/a\.b$;'],
    ['a comment', "# read POST /;\n"],
    ['another method', "write POST /a;\nrefuse * /a;"],
    ['another path', "write POST /a;\nread POST = /ab;\nread POST = /b/a;"],
    ['a longer prefix first', "read POST = /a/b;\nwrite POST /a;"],
    ['the exact path first', "refuse * = /a;\nwrite * /a;"],
    ['exact letters', "anonymous GET = /A;\nread GET = /a;"],
    ['a regex that is wider', "write POST /a/b;\nread POST ~ ^/a/[^/]+\$;"],
    ['the head may end in the middle', "write POST /a;\nread POST ~ ^/ab?/c\$;"],
    ['a letter that may be missing', "write POST /a/b;\nrefuse POST ~ ^/a/b?;"],
    ['hosts apart', "host a.test { refuse * /; }\nhost b.test { git on; }"],
    ['reached in one host',
     "host a.test { refuse * /; }\nhost b.test { }\nwrite GET /a;"],
    ['other ports', 'hosts a.test a.test:8443;'],
    ['repo beside the rules', "read GET /a;\nrepo ~ ^/a/(b)/(c);\n"
     . "repo_free GET /a;\nencoded_slash ~ ^/a/;\nencoded_slash ~ ^/b/;"],
    ['git off', "git off;\ngit off;"],
    ['a semicolon in quotes', 'refuse GET "~" "^/a;b{2}$"; read GET /a;'],
    ['pages without hosts', "read GET /a;\n--- \nread GET /a;"],
);

plan tests => 2 + 2 * @bad + @good + @presets;

sub check {
    my ($text) = @_;

    my $dir = File::Temp->newdir();
    my @files;

    for my $page (split /^--- \n/m, $text) {
        my $file = "$dir/" . @files . '.conf';

        open my $out, '>', $file or die "$file: $!";
        print $out $page;
        close $out or die "$file: $!";

        push @files, $file;
    }

    my $said = qx("$^X" "$check" @files 2>&1);

    return ($? >> 8, $said);
}

for my $case (@bad) {
    my ($name, $page, $line, $what) = @$case;
    my ($rc, $said) = check($page);

    is($rc, 1, "$name: fails") or diag($said);
    like($said, qr/^\S+\.conf:$line: .*\Q$what\E.*\n.* 1 complaints$/,
         "$name: is told, and nothing else");
}

for my $case (@good) {
    my ($name, $page) = @$case;
    my ($rc, $said) = check($page);

    is($rc, 0, "good: $name") or diag($said);
}

for my $preset (@presets) {
    my $said = qx("$^X" "$check" "$preset" 2>&1);

    is($?, 0, $preset =~ s{.*/}{}r) or diag($said);
}

my $said = qx("$^X" "$check" @presets 2>&1);

is($?, 0, 'all presets together') or diag($said);

$said = qx("$^X" "$check" 2>&1);

isnt($?, 0, 'nothing to check is an error') or diag($said);
