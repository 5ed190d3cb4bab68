# The github preset under a list of repositories: DESIGN 6.5, wire.md B6

use strict;
use warnings;

use lib 't/fixture';
use Fixture;
use Presets;
use FindBin ();
use JSON::PP;
use Test::More;

my $T = $FindBin::Bin;
my $json = JSON::PP->new->latin1;

open my $in, '<', "$T/data/vectors/repos.jsonl" or die "repos.jsonl: $!";
my @vectors = map { $json->decode($_) } <$in>;
close $in;

# one list for all of them; the scope is told whatever the class would be

my @lists = do { my %s; grep { !$s{$_}++ } map { "@{$_->{repos}}" } @vectors };

plan tests => 3 + @vectors;

is(scalar @lists, 1, 'the vectors have one list');

my $g = Presets->new('repos');

END { local $?; $g->stop if $g }

my $up = $g->start(<<"CONF") || diag($g->log) && 0;
    binding github {
        include $T/../conf-examples/bindings/github.conf;
        secret $ENV{TEST_NGINX_SECRET} static;
        placeholder $ENV{TEST_NGINX_PLACEHOLDER};
        upstream http://127.0.0.1:$ENV{TEST_NGINX_CLEAR_PORT};
        access write;
        repos $lists[0];
    }
CONF

my @answers = $up ? $g->ask(map { +{ sni => $_->{host}, request => request($_),
                                     head => $_->{method} eq 'HEAD' } }
                            @vectors) : ();
my @records = $g->records;

ok(@answers == @vectors && @records == @vectors, 'each has its record');

for my $v (@vectors) {
    my $r = shift @records // {};
    my $want = $v->{want} =~ /^(ok|free)$/ ? 'allowed' : $v->{want};

    is(($r->{path} // '') eq $v->{target} =~ s/\?.*//r ? $r->{reason} : 'lost',
       $want, "$v->{id} $v->{method} $v->{target} " . ($v->{body} // ''));
}

is(join('', $g->complaints), '', 'nothing in the log that should not be there');


sub request {
    my ($v) = @_;

    my $body = $v->{body} // ($v->{method} eq 'POST' ? '0000' : '');
    my $type = $v->{target} =~ /git-upload-pack$/
               ? 'application/x-git-upload-pack-request'
               : $v->{target} =~ m{/objects/batch$}
                 ? 'application/vnd.git-lfs+json' : 'application/json';

    $body = '{"operation":"download"}' if $type =~ /lfs/;

    return "$v->{method} $v->{target} HTTP/1.1\r\nHost: $v->{host}\r\n"
           . "Authorization: Bearer $ENV{TEST_NGINX_PLACEHOLDER}\r\n"
           . (length $body ? "Content-Type: $type\r\nContent-Length: "
                             . length($body) . "\r\n" : '')
           . "\r\n$body";
}
