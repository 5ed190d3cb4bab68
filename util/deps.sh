#!/bin/bash
# Installs the packages that are missing, as root or by sudo.
# usage: deps.sh PACKAGE...

set -eu

. /etc/os-release 2>/dev/null || ID=unknown

case "${ID:-}:${VERSION_ID:-}" in
debian:12|debian:13) ;;
*)
    echo "make deps knows Debian 12 and 13; here these are needed:" >&2
    echo "nginx with its headers and configure script (nginx-dev), the" \
         "stream module, yajl, OpenSSL 3, PCRE2 and zlib with headers, gcc" \
         "or clang, make, Perl with Test::Base, curl, git, python3," \
         "fcgiwrap." >&2
    exit 1
esac

missing=()

for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null \
        | grep -q 'ok installed' || missing+=("$p")
done

# the fuzzer's runtime is named after the version of clang

clang=$(apt-cache depends clang 2> /dev/null \
        | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)

if [ -n "$clang" ]; then
    dpkg-query -W -f '${Status}' "libclang-rt-$clang-dev" 2> /dev/null \
        | grep -q 'ok installed' || missing+=("libclang-rt-$clang-dev")
fi

[ ${#missing[@]} -eq 0 ] && exit 0

sudo=

if [ "$(id -u)" != 0 ]; then
    sudo=sudo
fi

# a packaged service must not start by itself, here least of all

policy=/usr/sbin/policy-rc.d

if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy > /dev/null
    $sudo chmod 755 $policy
    trap '$sudo rm -f $policy' EXIT
fi

export DEBIAN_FRONTEND=noninteractive

if ! $sudo apt-get install -y --no-install-recommends "${missing[@]}" \
     > /dev/null 2>&1
then
    $sudo apt-get update > /dev/null
    $sudo apt-get install -y --no-install-recommends "${missing[@]}" \
        > /dev/null
fi
