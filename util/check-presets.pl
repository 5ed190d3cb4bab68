#!/usr/bin/perl
# What is wrong with a page of rules although nginx takes it.
# usage: check-presets.pl FILE...
#
#   - a "read" rule for an unsafe method that has neither an inspector nor an
#     exact path; a regex is exact if it is anchored at both ends and none of
#     its parts can match a "/" more or less
#   - a rule that is never tried: for each of its methods an earlier one
#     matches all that it matches
#   - a host that is bound twice, in one page or in two
#
# A page that names no host is included in a "host" block; its rules are those
# of one host.

use strict;
use warnings;

my %safe = map { $_ => 1 } qw(GET HEAD OPTIONS);
my @methods = qw(GET HEAD OPTIONS POST PUT PATCH DELETE other);
my %inspector = map { $_ => 1 } qw(graphql lfs_batch json_rpc oci_scope);

my ($bad, $rules) = (0, 0);
my %bound;

die "usage: check-presets.pl FILE...\n" unless @ARGV;

check($_) for @ARGV;

print "presets: ", scalar @ARGV, " pages, $rules rules, $bad complaints\n";
exit($bad ? 1 : 0);


sub complain {
    my ($file, $line, $what) = @_;

    print "$file:$line: $what\n";
    $bad++;
}


sub check {
    my ($file) = @_;

    my ($rules, @hosts) = parse($file);
    my %seen;

    for my $h (@hosts) {
        my ($name, $line) = @$h;
        my $first = $seen{$name} // $bound{$name};

        complain($file, $line, "$name is bound already, at $first") if $first;
        $seen{$name} = "$file:$line";
    }

    %bound = (%seen, %bound);

    for my $r (@$rules) {
        open_read($file, $r);
    }

    # a rule outside of "host" stands among those of each host

    my @names = sort keys %seen;
    @names = ('') unless @names;

    my (%idle, %within);

    for my $name (@names) {
        my @mine = grep { ($_->{host} // $name) eq $name } @$rules;

        for my $i (0 .. $#mine) {
            my $by = covered($mine[$i], @mine[0 .. $i - 1]);

            $within{$mine[$i]{line}}++;
            push @{$idle{$mine[$i]{line}}}, $by if $by;
        }
    }

    for my $r (@$rules) {
        my $by = $idle{$r->{line}} or next;

        complain($file, $r->{line}, "\"$r->{text}\" can't be reached: line "
                 . join(', ', @{$by->[0]}) . ' matches all of it')
            if @$by == $within{$r->{line}};
    }
}


# --- the page -----------------------------------------------------------------

sub parse {
    my ($file) = @_;

    open my $in, '<', $file or die "$file: $!\n";
    my $text = join '', <$in>;
    close $in;

    my (@rules, @hosts, @words, @blocks);
    my ($line, $start) = (1, 1);

    while ($text =~ /\G(\s*)(?:(\#[^\n]*)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'
                     |([;{}])|((?:[^\s;{}"'\\]|\\.)(?:[^\s;{}\\]|\\.)*))/gcxs)
    {
        my ($space, $comment, $mark) = ($1, $2, $5);
        my $word = $3 // $4 // $6;

        $line += $space =~ tr/\n//;

        next if defined $comment;

        if (defined $word) {
            $start = $line unless @words;
            push @words, $word;
            next;
        }

        if ($mark eq '}') {
            pop @blocks;
            next;
        }

        next unless @words;

        if ($words[0] =~ /^hosts?$/) {
            push @hosts, map { [bare($_), $start] } @words[1 .. $#words];
        }

        if ($mark eq '{') {
            push @blocks, $words[0] eq 'host' ? bare($words[1]) : '';

        } elsif (my $rule = rule(@words)) {
            $rule->{line} = $start;
            $rule->{host} = $blocks[-1] if @blocks && $blocks[-1] ne '';
            push @rules, $rule;
            $rules++;
        }

        @words = ();
    }

    if ($text =~ /\G\s*\S/gc || @words || @blocks) {
        complain($file, $line, 'this is not understood');
    }

    return \@rules, @hosts;
}


sub bare { return lc($_[0]) =~ s/:443$//r }


sub rule {
    my ($name, @words) = @_;

    my %r = (name => $name, text => join(' ', $name, @words));

    if ($name =~ /^(read|write|refuse|anonymous|repo_free)$/) {
        $r{kind} = $name eq 'repo_free' ? 'repo_free' : 'rule';
        $r{methods} = methods(shift @words);

    } elsif ($name eq 'git' && ($words[0] // '') eq 'on') {
        return { %r, kind => 'rule', git => 1, methods => methods('*') };

    } elsif ($name =~ /^(repo|encoded_slash)$/
             && ($words[0] // '') !~ /^(on|off)$/)
    {
        $r{kind} = $name;
        $r{methods} = methods('*');

    } else {
        return;
    }

    my $first = shift @words // '';

    if ($first =~ /^[=~]$/) {
        $r{$first eq '=' ? 'exact' : 'regex'} = shift @words // '';

    } else {
        $r{prefix} = $first;
    }

    $r{inspector} = shift @words if @words && $inspector{$words[0]};
    $r{caseless} = $name =~ /^(write|refuse)$/;

    return \%r;
}


# those that have a meaning of their own, and "other" for the rest of "*"

sub methods {
    my ($list) = @_;

    return { map { $_ => 1 } @methods } if ($list // '') eq '*';
    return { map { $_ => 1 } split /,/, $list // '' };
}


# --- what is wrong with a rule ------------------------------------------------

sub open_read {
    my ($file, $r) = @_;

    return if $r->{name} ne 'read' || $r->{inspector} || defined $r->{exact};

    my @unsafe = grep { !$safe{$_} } sort keys %{$r->{methods}};

    return if !@unsafe;
    return if defined $r->{regex} && closed($r->{regex});

    complain($file, $r->{line}, "\"$r->{text}\" takes more than exact paths "
             . 'for ' . join(', ', @unsafe) . ', and nothing looks at the body');
}


# whether a regex tells the whole path, with the number of its segments

sub closed {
    my ($regex) = @_;

    return 0 unless $regex =~ s/^\^//;
    return 0 unless $regex =~ s/(?<!\\)((?:\\\\)*)\$$/$1/;

    my ($ok, $slash, $rest) = sequence($regex);

    return $ok && $rest eq '' && !alternatives($regex);
}


# "^" and "$" bind closer than a "|" outside of groups

sub alternatives {
    my ($regex) = @_;

    $regex =~ s/\\.//g;
    $regex =~ s/\[\^?\]?[^\]]*\]//g;
    1 while $regex =~ s/\([^()]*\)//g;

    return $regex =~ /\|/;
}


# A part of a regex up to its end or to the ")" of its group: whether it is
# closed, whether it has a "/", and what is left.

sub sequence {
    my ($regex) = @_;

    my $slash = 0;

    while ($regex ne '' && $regex !~ /^\)/) {
        my $here = 0;

        if ($regex =~ s/^\|//) {
            next;

        } elsif ($regex =~ s/^\((?:\?:)?(?!\?)//) {
            (my $ok, $here, $regex) = sequence($regex);
            return (0, 1, '') unless $ok && $regex =~ s/^\)//;

        } elsif ($regex =~ s/^(\[\^?\]?(?:[^\]\\]|\\.)*\])//) {
            my $class = $1;
            return (0, 1, '') if '/' =~ /^$class/;

        } elsif ($regex =~ s/^\\([dwsvhRb])//) {
            # none of these is a "/"

        } elsif ($regex =~ s/^\\([^A-Za-z0-9])// || $regex =~ s/^([^\\.(\[])//) {
            $here = $1 eq '/';

        } else {
            return (0, 1, '');
        }

        my $many = $regex =~ s/^(?:[*+?]|\{[\d,]+\})[+?]?//;

        return (0, 1, '') if $many && $here && $& !~ /^\?/;

        $slash ||= $here;
    }

    return (1, $slash, $regex);
}


# the lines of earlier rules that leave nothing for this one

sub covered {
    my ($r, @earlier) = @_;

    my %line;

    for my $m (keys %{$r->{methods}}) {
        my ($by) = grep { $_->{kind} eq $r->{kind}
                          && ($_->{methods}{$m}
                              || $m !~ /^[A-Z]+$/ && $_->{methods}{other}
                              || $_->{methods}{other}
                                 && !grep { $_ eq $m } @methods)
                          && within($r, $_) } @earlier;

        return unless $by;
        $line{$by->{line}} = 1;
    }

    return [sort { $a <=> $b } keys %line];
}


# whether all that $r matches is matched by $e

sub within {
    my ($r, $e) = @_;

    return $r->{git} && "$r->{text}" eq "$e->{text}" if $e->{git};

    if (defined $e->{regex}) {
        return 1 if defined $r->{regex} && $r->{regex} eq $e->{regex};
        return 0 unless defined $r->{exact};

        return $e->{caseless} ? $r->{exact} =~ /$e->{regex}/i
                              : $r->{exact} =~ /$e->{regex}/;
    }

    if (defined $e->{exact}) {
        return defined $r->{exact} && same($r->{exact}, $e->{exact}, $e);
    }

    return 1 if $e->{prefix} eq '/';
    return 0 if $r->{git};

    my ($path, $whole) = defined $r->{regex} ? head($r->{regex})
                                             : ($r->{exact} // $r->{prefix}, 1);
    my $n = length $e->{prefix};

    return 0 unless length $path >= $n
                    && same(substr($path, 0, $n), $e->{prefix}, $e);

    return 1 if length $path == $n && ($whole || $e->{prefix} =~ m{/$});
    return $e->{prefix} =~ m{/$} || substr($path, $n, 1) eq '/';
}


sub same {
    my ($one, $other, $e) = @_;

    return $e->{caseless} ? lc $one eq lc $other : $one eq $other;
}


# what all paths begin with that a regex matches

sub head {
    my ($regex) = @_;

    return ('', 0) unless !alternatives($regex) && $regex =~ s/^\^//;

    my $head = '';

    while ($regex =~ s{^(?:\\([^A-Za-z0-9])|([^\\.\[\](){}*+?|\$^]))(?![*?\{])}{}) {
        $head .= $1 // $2;
    }

    return ($head, $regex =~ /^(?:\$|\((?:\?:)?\/\|\$\)|\((?:\?:)?\$\|\/\))/);
}
