#!/bin/bash
# Builds, tests and shows the gateway in a fresh, minimal Debian: what nobody
# installed by hand is missing there.  As root, with debootstrap.
# usage: chroot-test.sh SUITE [TARGET...]
#
#   SUITE           bookworm or trixie
#   TARGET          of make; "check test demo" if none is given
#   TREE=HEAD       what is committed; else the working tree, build/ left out
#   KEEP_CHROOT=1   leaves the chroot and tells where it is

set -eu

suite=${1:-}
shift || true
[ $# -gt 0 ] || set -- check test demo

case $suite in
bookworm|trixie) ;;
*)
    echo "usage: chroot-test.sh bookworm|trixie [TARGET...]" >&2
    exit 1
esac

if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "chroot-test.sh needs root and debootstrap" >&2
    exit 1
fi

cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/egress-$suite.XXXXXX")
pid=

# Mounts are made in a mount namespace of our own: they end with its last
# process, so that nothing of the machine is in reach of the rm.

clean() {
    [ -z "$pid" ] || kill -KILL "$pid" 2> /dev/null || true

    if [ -n "${KEEP_CHROOT:-}" ]; then
        echo "left: $dir"

    else
        rm -rf --one-file-system "$dir"
    fi
}

trap clean EXIT
trap 'exit 1' HUP INT TERM

echo "$suite: bootstrap"

# from where this machine has its packages

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
             /etc/apt/sources.list.d/*.sources 2> /dev/null \
         | sed 's/#.*//' | grep -oE 'https?://[^ ]+/debian/?( |$)' \
         | tr -d ' ' | head -n 1)

debootstrap --variant=minbase "$suite" "$dir/root" ${mirror:+"$mirror"} \
    > "$dir/debootstrap.log" 2>&1 \
    || { tail -n 20 "$dir/debootstrap.log"; exit 1; }

mkdir "$dir/root/checkout"

if [ "${TREE:-}" = HEAD ]; then
    git archive HEAD | tar xf - -C "$dir/root/checkout"

else
    git ls-files -z --cached --others --exclude-standard \
        | while IFS= read -r -d '' f; do
              [ ! -e "$f" ] || printf '%s\0' "$f"
          done \
        | tar cf - --null -T - | tar xf - -C "$dir/root/checkout"
fi

# packages come over the network; all else has only a loopback of its own

cat > "$dir/root/step" << 'END'
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
cd /checkout

case $1 in
deps)
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends make > /dev/null
    make deps
    make deps

    if [ -e /usr/sbin/policy-rc.d ] || pgrep -x nginx || pgrep -x fcgiwrap
    then
        echo "make deps left a policy or a service" >&2
        exit 1
    fi
    ;;
*)
    ip link set lo up
    make "$@"
    ;;
esac
END

inside() {
    "$@" &
    pid=$!
    wait $pid
    pid=
}

enter='mount --make-rprivate / && mount -t proc proc "$0/proc" \
       && mount --rbind /dev "$0/dev" && exec chroot "$0" bash /step "$@"'

cp /etc/resolv.conf /etc/hosts "$dir/root/etc/" 2> /dev/null || true
cp -r /etc/apt/apt.conf.d/. "$dir/root/etc/apt/apt.conf.d/"

echo "$suite: make deps"

inside unshare --mount --pid --fork --kill-child \
    sh -c "$enter" "$dir/root" deps < /dev/null

for target in all "$@"; do
    echo "$suite: make $target"

    inside unshare --mount --pid --fork --kill-child --net \
        sh -c "$enter" "$dir/root" "$target" < /dev/null
done

echo "$suite: passed"
