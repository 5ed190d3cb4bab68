#!/bin/bash
# What compose.yml needs: the gateway's files, and the name and token of a sandbox.
#
#     run.sh           checks compose.yml and nginx.conf; no container is started
#     run.sh check     nginx -t only
#     run.sh DIR       makes DIR with all that is needed, but for the token of the service
# shellcheck disable=SC2119,SC2154
set -u

# shellcheck source=../common.sh
. "$(dirname "$0")/../common.sh"

made=
if [ -z "$only_check" ] && [ -n "${1-}" ]; then
    made=$1
    [ ! -e "$made" ] || die "$made is there already"
fi

lay_out github:ghp_
[ -z "$only_check" ] || configure


if [ -n "$made" ]; then

    # Users and groups are those of the container, where www-data is 33 as on every Debian.

    mkdir -p "$made/log" || die "can't make $made"
    group=33
    chgrp -R 33 "$dir/etc/secrets" "$dir/etc/sandboxes" || die 'group 33 is not ours to give: run this as root'
    : >"$dir/etc/secrets/github"
    token=$(sandbox add box-1)
    (umask 077; printf 'EGRESS_ID=box-1\nEGRESS_TOKEN=%s\n' "$token" >"$made/sandbox.env")
    cp -a "$dir/etc" "$made/egress"
    cat <<END
$made is made. What is missing is the token: one line in $made/egress/secrets/github, as it is, mode and group.

    EGRESS_DIR=$(cd "$made" && pwd) docker compose -f $here/compose.yml run --rm sandbox

END
    exit 0
fi


step '1. compose.yml'
out=$(python3 "$here/check.py" "$here/compose.yml" 2>&1)
status=$?
if [ $status = 77 ]; then
    skip "$out"
else
    check "the sandbox has no way out but the gateway, and none of its files ${out:+($out)}" test $status = 0
fi
if docker compose version >/dev/null 2>&1; then
    mkdir "$dir/made"
    : >"$dir/made/sandbox.env"
    out=$(EGRESS_DIR=$dir/made docker compose -f "$here/compose.yml" config -q 2>&1)
    check "docker compose is content with it $out" test $? = 0
else
    skip 'docker compose is not here'
fi

step '2. nginx.conf'
only_check=1
out=$(configure 2>&1)
check 'nginx -t is content with it' test $? = 0
[ "$failed" = 0 ] || show <<<"$out"

: >"$dir/log/error.log"
finish
