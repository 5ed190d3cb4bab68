#!/bin/sh
# A command in a sandbox of bubblewrap whose only way out is the gateway's socket.
#
#     box.sh DIRECTORY WORK COMMAND...
#
# DIRECTORY is the one with gateway.sock, WORK what the command may write to and where it starts. Of the machine it sees
# /usr, what of /etc programs need, and nothing else; it has no interface but a loopback of its own.
set -eu

[ $# -ge 3 ] || { echo "usage: $0 DIRECTORY WORK COMMAND..." >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
directory=$1
work=$2
shift 2

# The directory is bound, not the socket: after a restart nginx has made another one in its place.

# shellcheck disable=SC2016
exec bwrap --unshare-all --die-with-parent --new-session --clearenv \
    --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv HOME /work --setenv LC_ALL C \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib \
    --symlink usr/lib64 /lib64 --ro-bind-try /etc/alternatives /etc/alternatives --ro-bind-try /etc/ssl /etc/ssl \
    --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --ro-bind-try /etc/passwd /etc/passwd \
    --ro-bind-try /etc/group /etc/group --ro-bind-try /etc/nsswitch.conf /etc/nsswitch.conf \
    --proc /proc --dev /dev --tmpfs /tmp --bind "$work" /work --chdir /work \
    --ro-bind "$directory" /run/egress --ro-bind "$here/bridge.pl" /run/bridge.pl \
    sh -c '
        perl /run/bridge.pl /run/egress/gateway.sock &
        i=0
        until perl -MIO::Socket::INET -e "exit !IO::Socket::INET->new(q(127.0.0.1:3128))" || [ $i = 50 ]; do
            i=$((i + 1))
            sleep 0.1
        done
        eval "$(curl -fsS http://127.0.0.1:3128/env)"
        "$@"' sh "$@"
