#!/bin/bash
# Builds a static nginx with our modules, AddressSanitizer and UBSan from the
# distribution's source package.  Leaves DIR/nginx.
# usage: asan.sh DIR        NGINX_SRC=tree uses a source tree that is there

set -eu

dir=$1
root=$(pwd)

if [ -x "$dir/nginx" ] && [ -z "$(find src config -newer "$dir/nginx")" ]; then
    exit 0
fi

mkdir -p "$dir"

if [ -n "${NGINX_SRC:-}" ]; then
    rm -rf "$dir/src"
    cp -r "$NGINX_SRC" "$dir/src"

elif [ ! -f "$dir/src/auto/configure" ]; then

    # lists of our own: those of the machine stay as they are

    apt=$dir/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    . /etc/os-release

    uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
              /etc/apt/sources.list.d/*.sources 2> /dev/null \
          | sed 's/#.*//' | grep -oE 'https?://[^ ]+/debian/?( |$)' \
          | tr -d ' ' | head -n 1)

    for s in "$VERSION_CODENAME" "$VERSION_CODENAME-updates"; do
        echo "deb-src ${uri:?no Debian archive is configured} $s main"
    done > "$apt/sources.list"

    opts=(-o "Dir::Etc::sourcelist=$root/$apt/sources.list"
          -o Dir::Etc::sourceparts=/dev/null
          -o "Dir::State::lists=$root/$apt/lists"
          -o "Dir::Cache=$root/$apt/cache"
          -o Acquire::Check-Valid-Until=false)

    apt-get "${opts[@]}" update > "$dir/apt.log" 2>&1

    (cd "$dir" && apt-get "${opts[@]}" --only-source --download-only source \
        nginx >> apt.log 2>&1) || true

    tar=$(ls "$dir"/nginx_*.orig.tar.gz 2>/dev/null | head -n 1)

    if [ -z "$tar" ]; then
        echo "no nginx source package to be had, see $dir/apt.log" >&2
        exit 2
    fi

    rm -rf "$dir/src"
    mkdir "$dir/src"
    tar xzf "$tar" -C "$dir/src" --strip-components=1
fi

san=-fsanitize=address,undefined
no=-fno-sanitize=nonnull-attribute,pointer-overflow,alignment,shift

cd "$dir/src"

configure=auto/configure
[ -f "$configure" ] || configure=./configure

$configure --with-debug --with-http_ssl_module --with-http_v2_module \
    --with-http_auth_request_module --with-stream --with-stream_ssl_module \
    --add-module="$root" --with-ld-opt="$san" \
    --with-cc-opt="-g -O1 -fno-omit-frame-pointer $san $no \
    -fno-sanitize-recover=undefined -DNGX_DEBUG_PALLOC=1" > configure.log

make -s -j2 > make.log 2>&1 || { tail -n 30 make.log; exit 1; }

cp objs/nginx "$root/$dir/nginx"
