#!/bin/sh
# Makes and removes sandbox files.
#
#     sandbox.sh add ID [role=NAME] [source=CIDR]... [expires=TIME] [no-token]
#     sandbox.sh token ID       a new token: the old one is refused from then on
#     sandbox.sh remove ID      the sandbox is refused, its open connections are closed
#     sandbox.sh list
#
# "add" and "token" print the token, which is kept nowhere: the file has its hash. With "no-token" nobody can prove to be
# this sandbox by a name and a token; "egress_sandbox" in the configuration has to tell who it is. A file is always
# replaced as a whole, so that no worker sees half of one.
#
# EGRESS_SANDBOXES   the directory that "sandboxes" names (/etc/nginx/egress/sandboxes)
# EGRESS_GROUP       the group of the workers (www-data)
set -eu

directory=${EGRESS_SANDBOXES:-/etc/nginx/egress/sandboxes}
group=${EGRESS_GROUP:-www-data}

die() { echo "sandbox.sh: $*" >&2; exit 1; }

usage() { sed -n '3,7s/^# *//p' "$0" >&2; exit 2; }

is() {          # value, what grep has to find in it, what it is
    if [ "$(printf '%s\n' "$1" | wc -l)" != 1 ] || ! printf '%s\n' "$1" | grep -qE "^($2)\$"; then
        die "no $3: $1"
    fi
}

random() { od -An -N 24 -t x1 /dev/urandom | tr -d ' \n'; }

sha256() { printf %s "$1" | sha256sum | cut -d ' ' -f 1; }

replace() {     # the text on standard input becomes the file, at once
    new=$(mktemp "$directory/.new.XXXXXX")
    trap 'rm -f "$new"' EXIT
    cat >"$new"
    chgrp "$group" "$new"
    chmod 0640 "$new"
    mv "$new" "$file"
    trap - EXIT
}

[ -d "$directory" ] || die "$directory is no directory: set EGRESS_SANDBOXES"
[ $# -ge 1 ] || usage

command=$1
shift

if [ "$command" = list ]; then
    for file in "$directory"/*.json; do
        [ -e "$file" ] || continue
        id=${file##*/}
        printf '%s\t%s\n' "${id%.json}" "$(tr -d '\n{}' <"$file" | sed 's/ *"token_sha256": *"[^"]*",\{0,1\}//; s/  */ /g')"
    done
    exit 0
fi

[ $# -ge 1 ] || usage

id=$1
shift
is "$id" '[A-Za-z0-9_][A-Za-z0-9._-]{0,63}' 'name of a sandbox'
file=$directory/$id.json

case $command in

add)
    [ ! -e "$file" ] || die "$file is there already"
    role='' sources='' expires='' token=$(random)

    for option in "$@"; do
        value=${option#*=}
        case $option in
            role=*)     is "$value" '[^"\\[:cntrl:]]+' role; role=$value ;;
            source=*)   is "$value" '[0-9a-fA-F.:/]+' 'range of addresses'
                        sources="$sources${sources:+, }\"$value\"" ;;
            expires=*)  is "$value" '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)' 'time (2027-01-31T18:00:00Z)'
                        expires=$value ;;
            no-token)   token= ;;
            *)          usage ;;
        esac
    done

    {
        echo '{'
        {
            [ -z "$role" ]    || printf '    "role": "%s"\n' "$role"
            [ -z "$token" ]   || printf '    "token_sha256": "%s"\n' "$(sha256 "$token")"
            [ -z "$sources" ] || printf '    "sources": [%s]\n' "$sources"
            [ -z "$expires" ] || printf '    "expires": "%s"\n' "$expires"
        } | sed '$!s/$/,/'
        echo '}'
    } | replace

    [ -z "$token" ] || printf '%s\n' "$token"
    ;;

token)
    [ $# = 0 ] || usage
    [ -e "$file" ] || die "no sandbox $id"
    grep -q '"token_sha256"' "$file" || die "$file has no token"
    token=$(random)
    sed "s/\(\"token_sha256\": *\)\"[^\"]*\"/\1\"$(sha256 "$token")\"/" "$file" | replace
    printf '%s\n' "$token"
    ;;

remove)
    [ $# = 0 ] || usage
    rm -- "$file"
    ;;

*)
    usage
    ;;

esac
