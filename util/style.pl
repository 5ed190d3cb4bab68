#!/usr/bin/perl
# The rules of style that a machine can check, over C files.
# usage: style.pl FILE_OR_FOLDER...

use strict;
use warnings;

use File::Find ();

my $type = qr/(?:(?:const|struct|unsigned|signed)[ ])*
              (?:void|char|u_char|short|int|long|double|sockaddr\w*|\w+_t)/x;

my $bad = 0;
my @files;

for my $arg (@ARGV) {
    next if !-e $arg;
    File::Find::find({ no_chdir => 1, wanted => sub {
        push @files, $_ if /\.[ch]$/;
    } }, $arg);
}

sub complain {
    my ($file, $line, $what) = @_;

    print "$file:$line: $what\n";
    $bad++;
}

for my $file (sort @files) {
    open my $in, '<', $file or die "$file: $!";
    my @lines = <$in>;
    close $in;

    my $n = 0;
    my $text = join '', @lines;
    my $comment = 0;
    my ($function, $since, %proto);

    complain($file, scalar @lines, 'more than 900 lines') if @lines > 900;

    while ($text =~ /^static [^;{=()]*?\b(\w+)\([^{}]*?\);/msg) {
        $proto{$1} = 1;
    }

    for my $line (@lines) {
        $n++;
        chomp(my $l = $line);

        complain($file, $n, 'tab') if $l =~ /\t/;
        complain($file, $n, 'carriage return') if $l =~ /\r/;
        complain($file, $n, 'trailing space') if $l =~ /[ ]$/;
        complain($file, $n, 'more than 80 columns') if length $l > 80;

        my $inside = $comment;
        $comment = 1 if $l =~ m{/\*(?!.*\*/)};
        $comment = 0 if $l =~ m{\*/\s*$};
        next if $inside || $l =~ m{^\s*/\*};

        (my $code = $l) =~ s/"(?:\\.|[^"\\])*"/""/g;
        $code =~ s{/\*.*?\*/}{}g;

        complain($file, $n, '// comment') if $code =~ m{//};
        complain($file, $n, 'no space before (')
            if $code =~ /\b(?:if|for|while|switch)\(/;
        complain($file, $n, 'no space after a cast')
            if $code =~ /(?<!\w)\($type(?: \*+)?\)[\w(&"]/;
        complain($file, $n, 'else on a line of its own')
            if $code =~ /^\s*else\b/;
        complain($file, $n, 'no empty line before } else')
            if $code =~ /^\s*\} else\b/ && $n > 1
               && $lines[$n - 2] !~ /^\s*$|^#/;

        complain($file, $n, 'more than two empty lines')
            if $n > 3 && $l ne ''
               && join('', @lines[$n - 4 .. $n - 2]) =~ /^\n\n\n$/;

        my $header = $l =~ /^#\s*include\s*[<"]([^>"]+)/ ? $1 : '';

        if ($file =~ m{src/inspect/}) {
            complain($file, $n, 'nginx request or session type in inspect')
                if $code =~ /\bngx_(?:http|stream)_/;
            complain($file, $n, 'nginx header in inspect')
                if $header =~ /^ngx_(?:http|stream|event)/;
            complain($file, $n, 'header of core in inspect')
                if $header eq 'ngx_egress.h';
        }

        if ($file =~ m{src/core/}) {
            complain($file, $n, 'request or session type in core')
                if $code =~ /\bngx_(?:http_request|stream_session)_t\b/;
            complain($file, $n, 'http or stream header in core')
                if $header =~ /^ngx_(?:http|stream)/;
        }

        complain($file, $n, 'stream header in http')
            if $file =~ m{src/http/} && $header =~ /^ngx_stream/;
        complain($file, $n, 'http header in stream')
            if $file =~ m{src/stream/} && $header =~ /^ngx_http/;

        my $name = $code =~ /^(\w+)\(/ ? $1 : undef;

        if (defined $name && $n > 1
            && $lines[$n - 2] =~ /^(static |extern )?[a-zA-Z_][\w \*]*$/)
        {
            ($function, $since) = ($name, $n);

            complain($file, $n, "no prototype for static $name")
                if $lines[$n - 2] =~ /^static / && !$proto{$name};

            # above the return type, and above a comment that is there
            my $k = $n - 3;

            if ($k > 1 && $lines[$k] =~ /^$/ && $lines[$k - 1] =~ m{\*/\s*$})
            {
                $k--;
                $k-- while $k > 0 && $lines[$k] !~ m{^/\*};
                $k--;
            }

            complain($file, $n, 'no two empty lines before a function')
                if $k > 1 && $lines[$k] !~ /^#/
                   && !($lines[$k] =~ /^$/
                        && $lines[$k - 1] =~ /^$|^#/);
        }

        if ($l eq '}' && defined $function) {
            complain($file, $since, "$function: more than 120 lines")
                if $n - $since > 120;
            undef $function;
        }
    }
}

print "style: ", scalar @files, " files, $bad complaints\n";
exit($bad || !@files ? 1 : 0);
