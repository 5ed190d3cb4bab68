#!/bin/bash
# Runs "make demo" and "make test" in a fresh minimal Debian, as root.
# usage: chroot-test.sh bookworm|trixie [FOLDER]     keeps a FOLDER given

set -eu

suite=$1
root=${2:-}
keep=$root

[ -n "$root" ] || root=$(mktemp -d)

cleanup() {
    umount "$root/proc" 2> /dev/null || true
    umount "$root/dev" 2> /dev/null || true
    [ -n "$keep" ] || rm -rf --one-file-system "$root"
}

trap cleanup EXIT

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
             /etc/apt/sources.list.d/*.sources 2> /dev/null \
         | sed 's/#.*//' | grep -oE 'https?://[^ ]+/debian/?( |$)' \
         | tr -d ' ' | head -n 1)

debootstrap --variant=minbase "$suite" "$root" "$mirror" > /dev/null

chmod 755 "$root"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"

mkdir "$root/src"
git archive HEAD | tar x -C "$root/src"

run() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root LANG=C.UTF-8 sh -c "cd /src && $1"
}

run 'apt-get update > /dev/null && apt-get install -y make > /dev/null 2>&1'
run 'make demo'
run 'make test'

echo "$suite: passed"
