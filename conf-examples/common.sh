# What the scripts of the deployments share. Each reads this page in and goes on; it is not run by itself.
#
# A script works on a copy of its folder's nginx.conf in a temporary directory. Other paths, the stand-in of the
# quickstart in place of the real services: no more than that is changed in it.
#
#     /etc/nginx/egress   $dir/etc           /var/log/nginx   $dir/log           /run   $dir/run
#
# Called with "check" a script only makes these files and has nginx -t look at the configuration.
#
# EGRESS_MODULES      directory with the two modules (build/modules of this checkout)
# EGRESS_USER         the workers' user when root starts it (www-data)
# EGRESS_EXAMPLE_TMP  where that directory is made (/tmp)
# shellcheck shell=bash disable=SC2034,SC2154

examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$examples/.." && pwd)
modules=${EGRESS_MODULES:-$top/build/modules}
what=${here##*/}

# shellcheck source-path=SCRIPTDIR
. "$examples/shell.sh"

only_check=
[ "${1-}" != check ] || only_check=1

# 77 is what a test takes for "skipped"

cannot() { echo "$what: can't be shown here: $*"; exit 77; }

needs_root() { [ "$(id -u)" = 0 ] || cannot 'root is needed'; }

# The script starts over in a network of its own, with nothing in it but loopback: no port, address or rule of this
# machine is used or changed, and all that is made there is gone with the last process.

own_network() {
    if [ -z "${EGRESS_EXAMPLE_NETWORK-}" ]; then
        unshare --net true 2>/dev/null || cannot 'network namespaces are refused'
        EGRESS_EXAMPLE_NETWORK=1 exec unshare --net bash "$0" "$@"
    fi
    unset EGRESS_EXAMPLE_NETWORK
    ip link set lo up 2>/dev/null || cannot 'no ip link (iproute2), or it is refused'
}


# --- the way out ----------------------------------------------------------------------------------

helpers=''      # processes to end

cleanup() {
    local pid
    trap '' INT TERM
    for pid in $helpers $(cat "$dir/run/nginx.pid" 2>/dev/null); do
        end "$pid"
    done
    [ ! -d "$dir/standin" ] || sh "$examples/quickstart/standin.sh" stop "$dir/standin"
    rm -rf "$dir"
}


# --- what an operator puts on a machine -------------------------------------------------------------

declare -A secret placeholder

lay_out() {     # names of secrets, each with the prefix of its tokens: github:ghp_ ...
    local name prefix

    needs nginx:nginx openssl:openssl perl:perl
    needs_modules
    forget_settings
    worker_user

    # where every user can search

    dir=$(mktemp -d "${EGRESS_EXAMPLE_TMP:-/tmp}/egress-example.XXXXXX") || die 'no temporary directory'
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    chmod 0755 "$dir"
    mkdir -p "$dir"/{etc/secrets,etc/sandboxes,log,run,tmp}

    copy_modules "$dir/modules"
    cp -r "$examples/bindings" "$dir/etc/bindings"

    sh "$examples/quickstart/make-ca.sh" "$dir/ca" 'Egress example CA' || die 'no authority'
    mv "$dir"/ca/ca.* "$dir/etc/"

    # docs/operations.md tells why these modes

    for name in "$@"; do
        prefix=${name#*:} name=${name%%:*}
        secret[$name]=$(random "$prefix")
        placeholder[$name]=$(random "$prefix")
        printf '%s\n' "${placeholder[$name]}" >"$dir/etc/$name.placeholder"
        (umask 027; printf '%s\n' "${secret[$name]}" >"$dir/etc/secrets/$name")
    done

    chgrp -R "$group" "$dir/etc/secrets" "$dir/etc/sandboxes"
    chmod 0750 "$dir/etc/secrets" "$dir/etc/sandboxes"
    find "$dir/etc/secrets" -type f -exec chmod 0640 {} +

    # what clients trust; /env and /bundle.pem of the gateway tell the same

    cat /etc/ssl/certs/ca-certificates.crt "$dir/etc/ca.pem" >"$dir/bundle.pem" 2>/dev/null ||
        cp "$dir/etc/ca.pem" "$dir/bundle.pem"
}

# A worker looks at files in use once a second (secret_check), and until then relies on what it knows.

looked=1.2

sandbox() { EGRESS_SANDBOXES=$dir/etc/sandboxes EGRESS_GROUP=$group sh "$examples/sandbox.sh" "$@"; }

standin() {     # its token's name, then names beside those of GitHub
    local name=$1
    shift
    needs fcgiwrap:fcgiwrap git:git curl:curl
    mkdir "$dir/standin"
    sh "$examples/quickstart/standin.sh" start "$dir/standin" "$dir/etc/secrets/$name" "$@" ||
        die 'the stand-in did not start'
    upstream=$(cat "$dir/standin/address")
    record=$dir/standin/record.log
}


# --- the gateway --------------------------------------------------------------------------------------

configure() {   # more for sed
    local stream to=()

    stream=$(stream_module)
    if [ -e "$stream" ]; then
        stream="s|modules/ngx_stream_module.so|$stream|"
    else
        stream='/ngx_stream_module.so/d'        # it is built in
    fi

    # the services are the stand-in, which no public authority vouches for

    if [ -n "${upstream-}" ]; then
        to=(-e "s|^\( *\)secret .*|&\n\1upstream https://$upstream;|"
            -e "s|^ *resolver .*|&\n    trusted_certificate $dir/standin/ca.pem;|")
    fi

    # our own modules are found below $dir, which is the prefix

    sed -e "$stream" -e "s|/etc/nginx/egress|$dir/etc|g" -e "s|/var/log/nginx|$dir/log|g" -e "s|unix:/run/|unix:$dir/run/|g" \
        -e "s|^user .*|${user:+user $user;}\nworker_processes 1;\npid $dir/run/nginx.pid;\nerror_log $dir/log/error.log info;|" \
        -e "/^error_log /d" -e "s|^http {|&\n$(
            for name in client_body proxy fastcgi uwsgi scgi; do printf '    %s_temp_path %s;\\n' "$name" "$dir/tmp/$name"; done
        )    access_log $dir/log/access.log;|" \
        "${to[@]}" "$@" "$here/nginx.conf" >"$dir/nginx.conf"

    if [ -n "$only_check" ]; then
        nginx -t -e "$dir/log/error.log" -p "$dir/" -c "$dir/nginx.conf" || die 'nginx -t is not content'
        exit 0
    fi
}

gateway() {     # what to run it by, if anything
    local i
    "$@" nginx -e "$dir/log/error.log" -p "$dir/" -c "$dir/nginx.conf" || die 'the gateway did not start'
    for ((i = 0; i < 50; i++)); do
        [ ! -s "$dir/run/nginx.pid" ] || return 0
        sleep 0.1
    done
    die 'the gateway did not start'
}


# --- another network namespace ---------------------------------------------------------------------

# Joined to ours by a pair of interfaces: NAME here, with ADDRESS/30, and eth0 there, with PEER and a default route. It
# belongs to a process that sleeps, and has an /etc/hosts of its own if $dir/NAME.hosts is there. Sets namespace[NAME].

declare -A namespace

connect() {     # name, address, peer
    local i pid hosts=$dir/$1.hosts

    # shellcheck disable=SC2016
    unshare --net --mount sh -c '[ ! -e "$1" ] || mount --bind "$1" /etc/hosts || exit 1; exec sleep 300' sh "$hosts" &
    pid=$!
    disown "$pid"
    helpers="$helpers $pid"
    for ((i = 0; i < 50; i++)); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != sleep ] || break
        alive "$pid" || return 1
        sleep 0.1
    done
    namespace[$1]=$pid

    ip link add "$1" type veth peer name eth0 netns "$pid" 2>/dev/null &&
    ip address add "$2/30" dev "$1" &&
    ip link set "$1" up &&
    inside "$1" ip link set lo up &&
    inside "$1" ip address add "$3/30" dev eth0 &&
    inside "$1" ip link set eth0 up &&
    inside "$1" ip route add default via "$2"
}

inside() {      # name, command
    nsenter --net="/proc/${namespace[$1]}/ns/net" --mount="/proc/${namespace[$1]}/ns/mnt" --wd="$dir" "${@:2}"
}

# another user, without a right to change anything of the network

as() {          # user, command
    setpriv --reuid="$1" --regid="$(id -g "$1")" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "${@:2}"
}

# what a sandbox has in its environment to begin with

bare=(env -i "PATH=$PATH" LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0)


# --- checks -------------------------------------------------------------------------------------------

passed=0 failed=0

step() { printf '\n%s\n' "$*"; }

check() {       # what, and a command that must succeed
    local text=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        printf '    ok      %s\n' "$text"
    else
        failed=$((failed + 1))
        printf '    FAILED  %s\n' "$text"
    fi
}

skip()     { printf '    skip    %s\n' "$*"; }
show()     { sed 's/^/            /'; }
contains() { [[ $1 == *"$2"* ]]; }
lacks()    { [[ $1 != *"$2"* ]]; }
refused()  { ! "$@" >/dev/null 2>&1; }
mark()     { seen=$(wc -c <"$record"); }
upstream_saw() { sleep 0.1; tail -c "+$((seen + 1))" "$record"; }
refusal()  { grep -i '^proxy-status:' <<<"$1" | tr -d '\r'; }
untold()   { ! grep -rqFe "${secret[$1]}" "$dir/log" "$dir/tmp"; }

finish() {
    local name
    for name in "${!secret[@]}"; do
        check "the $name token is in no log" untold "$name"
    done
    check 'no alarm in the error log' refused grep -E '\[(emerg|alert|crit)\]' "$dir/log/error.log"
    printf '\n%s: %d passed, %d failed\n' "$what" "$passed" "$failed"
    [ "$failed" = 0 ]
    exit
}
