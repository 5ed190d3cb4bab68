#!/bin/bash
# cppcheck, and all of src with gcc and clang, warnings being errors.
# usage: lint.sh CONFIGURED_NGINX_TREE

set -eu

tree=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

inc=(-I "$tree/src/core" -I "$tree/src/event" -I "$tree/src/event/modules"
     -I "$tree/src/event/quic" -I "$tree/src/os/unix" -I "$tree/objs" -I "$tree/src/http"
     -I "$tree/src/http/modules" -I "$tree/src/http/v2" -I "$tree/src/http/v3"
     -I "$tree/src/stream" -I src/core -I src/inspect -I src/http)

warn=(-W -Wall -Wextra -Wpointer-arith -Wno-unused-parameter
      -Wno-missing-field-initializers -Werror -O2 -fPIC)

for cc in gcc clang; do
    if ! command -v $cc > /dev/null; then
        echo "no $cc here"
        exit 1
    fi

    for f in src/*/*.c; do
        $cc -c "${warn[@]}" "${inc[@]}" "$f" -o "$out/o.o"
    done

    echo "$cc: no warnings"
done

cppcheck -q --enable=warning,portability --inline-suppr \
    --suppress=nullPointerRedundantCheck --error-exitcode=1 \
    -I src/core -I src/inspect -I src/http src

echo "cppcheck: nothing found"
