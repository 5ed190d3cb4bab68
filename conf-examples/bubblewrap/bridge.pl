#!/usr/bin/perl
# Leads connections to 127.0.0.1:3128 within a sandbox to the gateway's socket, for clients that know no unix sockets.
#
#     bridge.pl SOCKET [PORT]
#
# It belongs to the sandbox and holds nothing that the sandbox does not hold. Where socat is installed this does the same:
#
#     socat TCP-LISTEN:3128,bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:SOCKET

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Socket qw(SHUT_WR);

my ($path, $port) = @ARGV;
die "usage: bridge.pl SOCKET [PORT]\n" unless $path;

my $listener = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1', LocalPort => $port || 3128, Listen => 128, ReuseAddr => 1
) or die "bridge: port " . ($port || 3128) . ": $!\n";

$SIG{CHLD} = 'IGNORE';
$SIG{PIPE} = 'IGNORE';

while (1) {
    my $client = $listener->accept or next;

    if (!defined(my $pid = fork)) {
        warn "bridge: fork: $!\n";

    } elsif ($pid == 0) {
        close $listener;
        carry($client);
        exit;
    }

    close $client;
}


# both ways, each until its side has said all

sub carry {
    my ($client) = @_;

    my $gateway = IO::Socket::UNIX->new(Peer => $path) or die "bridge: $path: $!\n";
    my $open = IO::Select->new($client, $gateway);

    while ($open->count) {
        for my $from ($open->can_read) {
            my $to = $from == $client ? $gateway : $client;
            my $n = sysread $from, my $octets, 65536;

            return unless defined $n;

            if ($n == 0) {
                $open->remove($from);
                shutdown $to, SHUT_WR;
                next;
            }

            while (length $octets) {
                my $sent = syswrite $to, $octets or return;
                substr $octets, 0, $sent, '';
            }
        }
    }
}
