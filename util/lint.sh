#!/bin/bash
# cppcheck, and all of src with gcc and clang, warnings being errors.
# usage: lint.sh CONFIGURED_NGINX_TREE

set -eu

tree=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

inc=()

for d in core event event/modules event/quic os/unix http http/modules \
         http/v2 http/v3 stream ../objs; do
    [ -d "$tree/src/$d" ] && inc+=(-I "$tree/src/$d")
done

for d in core inspect http stream; do
    inc+=(-I "src/$d")
done

warn=(-W -Wall -Wextra -Wpointer-arith -Wno-unused-parameter
      -Wno-missing-field-initializers -Werror -O2 -fPIC)

for cc in gcc clang; do
    if ! command -v $cc > /dev/null; then
        echo "no $cc here"
        exit 1
    fi

    mkdir "$out/$cc"

    for f in src/*/*.c; do
        printf '%s\0-o\0%s\0' "$f" "$out/$cc/$(basename "$f").o"
    done | xargs -0 -n 3 -P "$(nproc)" \
        $cc -c "${warn[@]}" "${inc[@]}"

    echo "$cc: no warnings"
done

cppcheck -q --enable=warning,portability --inline-suppr \
    --suppress=nullPointerRedundantCheck \
    --suppress=normalCheckLevelMaxBranches --error-exitcode=1 \
    -I src/core -I src/inspect -I src/http src

echo "cppcheck: nothing found"
