#!/bin/bash
# Builds a static nginx with our modules, AddressSanitizer and UBSan from the
# distribution's source package.  Leaves DIR/nginx.
# usage: asan.sh DIR        NGINX_SRC=tree uses a source tree that is there
# exit status: 3 where no source can be had, else as of the build

set -eu

root=$(pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

if [ -x "$dir/nginx" ] && [ -z "$(find src config -newer "$dir/nginx")" ]; then
    exit 0
fi


# Lists of our own: those of the machine stay as they are.  Not each version
# that a list names can be fetched: the installed one first, then the others,
# last the original without the distribution's patches.

fetch() {
    local apt=$dir/apt opts sources versions version tar

    [ -r /etc/os-release ] && . /etc/os-release

    sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
                  /etc/apt/sources.list.d/*.sources 2> /dev/null \
              | sed 's/#.*//' \
              | grep -oE 'https?://[^ ]+/debian(-security)?/?( |$)' \
              | tr -d ' ' | sort -u)

    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"

    for uri in $sources; do
        case $uri in
        *-security*)
            echo "deb-src $uri ${VERSION_CODENAME:-}-security main" ;;
        *)
            echo "deb-src $uri ${VERSION_CODENAME:-} main"
            echo "deb-src $uri ${VERSION_CODENAME:-}-updates main" ;;
        esac
    done > "$apt/sources.list"

    opts=(-o "Dir::Etc::sourcelist=$apt/sources.list"
          -o Dir::Etc::sourceparts=/dev/null
          -o "Dir::State::lists=$apt/lists"
          -o "Dir::Cache=$apt/cache"
          -o APT::Sandbox::User=
          -o Acquire::Check-Valid-Until=false)

    apt-get "${opts[@]}" update || true

    versions=$({ dpkg-query -W -f '${source:Version}\n' nginx
                 apt-cache "${opts[@]}" showsrc nginx \
                 | sed -n 's/^Version: //p' | sort -Vr; } | awk '!seen[$0]++')

    for version in $versions; do
        rm -rf "$dir/fetch"
        mkdir "$dir/fetch"
        cd "$dir/fetch"

        if apt-get "${opts[@]}" --only-source source "nginx=$version"; then
            mv "$dir/fetch"/nginx-*/ "$dir/src"
            return
        fi

        tar=$(ls nginx_*.orig.tar.gz 2> /dev/null || true)
        [ -z "$tar" ] || mv "$tar" "$dir"
    done

    for tar in "$dir"/nginx_*.orig.tar.gz; do
        [ -f "$tar" ] || return 1
        mkdir "$dir/src"
        tar xzf "$tar" -C "$dir/src" --strip-components=1
        return
    done
}


if [ -n "${NGINX_SRC:-}" ]; then
    rm -rf "$dir/src"
    cp -r "$NGINX_SRC" "$dir/src"

elif [ ! -f "$dir/src/auto/options" ]; then
    rm -rf "$dir/src"

    if ! (fetch) < /dev/null > "$dir/apt.log" 2>&1; then
        tail -n 5 "$dir/apt.log" >&2
        echo "no nginx source package to be had, see $dir/apt.log" >&2
        exit 3
    fi

    grep -E '^dpkg-source: info: unpacking' "$dir/apt.log" | tail -n 1 || true
fi

san=-fsanitize=address,undefined
no=-fno-sanitize=nonnull-attribute,pointer-overflow,alignment,shift

cd "$dir/src"

configure=auto/configure
[ -f "$configure" ] || configure=./configure

# -Wno-error: the sanitizers make compilers guess wrong; "make check" is strict

$configure --with-debug --with-http_ssl_module --with-http_v2_module \
    --with-http_auth_request_module --with-stream --with-stream_ssl_module \
    --with-stream_ssl_preread_module --with-stream_realip_module \
    --with-select_module --with-poll_module \
    --add-module="$root" --with-ld-opt="$san" \
    --with-cc-opt="-g -O1 -fno-omit-frame-pointer $san $no -Wno-error \
    -fno-sanitize-recover=undefined -DNGX_DEBUG_PALLOC=1" > configure.log \
    || { tail -n 20 configure.log; exit 1; }

make -s -j"$(nproc)" > make.log 2>&1 || { tail -n 30 make.log; exit 1; }

cp objs/nginx "$dir/nginx"
