#!/bin/bash
# Installs the packages that are missing, as root or by sudo.
# usage: deps.sh PACKAGE...

set -eu

[ -r /etc/os-release ] && . /etc/os-release

case "${ID:-}:${VERSION_ID:-}" in
debian:12|debian:13) ;;
*)
    echo "make deps knows Debian 12 and 13; here these are needed:" >&2
    echo "nginx with its headers and configure script (nginx-dev), the" \
         "stream module, yajl, OpenSSL 3, PCRE2 and zlib with headers, gcc," \
         "clang with its sanitizer runtime, cppcheck, make, Perl with" \
         "Test::Base, Test::LongString and Text::Diff, curl, git, python3," \
         "fcgiwrap.  Then: make all" >&2
    exit 1
esac

missing=()

for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2> /dev/null \
        | grep -q 'ok installed' || missing+=("$p")
done

[ ${#missing[@]} -eq 0 ] && exit 0

root=()

if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
        echo "as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi

    root=(sudo)
fi


# A service that a package brings must not be started, nor one that runs be
# restarted: while packages are installed, a policy says no to both.  One that
# says so already stays, another is put back afterwards.

policy=/usr/sbin/policy-rc.d
kept=

restore() {
    if [ -n "$kept" ]; then
        "${root[@]}" mv -f "$kept" $policy

    else
        "${root[@]}" rm -f $policy
    fi
}

says() {
    [ -x $policy ] || return 0
    $policy nginx start > /dev/null 2>&1
}

rc=0
says || rc=$?

if [ $rc != 101 ]; then
    if [ -e $policy ]; then
        kept=$policy.kept
        "${root[@]}" mv $policy $kept
    fi

    trap restore EXIT
    trap 'exit 1' HUP INT TERM

    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy > /dev/null
    "${root[@]}" chmod 755 $policy
fi

get=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
install=("${get[@]}" install -y --no-install-recommends "${missing[@]}")

echo "installing: ${missing[*]}"

# the lists at hand may do; if they are old, or none, get new ones

if ! "${install[@]}" < /dev/null > /dev/null 2>&1; then
    "${get[@]}" update < /dev/null > /dev/null || true
    "${install[@]}" < /dev/null > /dev/null
fi
