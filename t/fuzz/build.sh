#!/bin/sh
#
# Builds the fuzz targets with libFuzzer and sanitizers:
#
#   build.sh OUTDIR NGX_SRC_DIR
#
# NGX_SRC_DIR is a configured nginx source tree.

set -eu

out=$1
src=$2
top=$(dirname "$0")/../..

mkdir -p "$out"

for name in host target authorization git client_hello connect socks5 \
    address redact graphql body
do
    ${CLANG:-clang} -Wall -Wextra -Wno-unused-parameter -Werror -O1 -g \
        -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
        -I "$src/src/core" -I "$src/src/event" -I "$src/src/event/modules" \
        -I "$src/src/event/quic" -I "$src/src/os/unix" -I "$src/objs" \
        -I "$top/src/inspect" \
        -o "$out/fuzz_$name" "$top/t/fuzz/fuzz_$name.c" \
        "$top"/src/inspect/*.c -lcrypto -lyajl
done
