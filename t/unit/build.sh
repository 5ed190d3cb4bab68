#!/bin/sh
#
# Builds the harness of the test vectors with sanitizers:
#
#   build.sh OUTDIR NGX_SRC_DIR
#
# NGX_SRC_DIR is a configured nginx source tree.

set -eu

out=$1
src=$2
top=$(dirname "$0")/../..

mkdir -p "$out"

${CC:-gcc} -Wall -Wextra -Wno-unused-parameter -Werror -O1 -g \
    -fsanitize=address,undefined -fno-sanitize-recover=all \
    -I "$src/src/core" -I "$src/src/event" -I "$src/src/event/modules" \
    -I "$src/src/event/quic" -I "$src/src/os/unix" -I "$src/objs" \
    -I "$top/src/inspect" \
    -o "$out/vectors" "$top"/t/unit/*.c \
    "$top"/src/inspect/*.c \
    -lyajl -lssl -lcrypto
