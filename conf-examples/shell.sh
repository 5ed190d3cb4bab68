# What all scripts here share, the demonstration of the quickstart among them. Each reads this page in and goes on; it
# is not run by itself. "$what" is the script's name, "$modules" the directory of the two modules.
# shellcheck shell=bash disable=SC2034,SC2154

PATH=$PATH:/usr/sbin:/sbin
umask 022

die() { echo "$what: $*" >&2; exit 1; }

needs() {       # tool:package ...
    local tool missing=''
    for tool in "$@"; do
        command -v "${tool%%:*}" >/dev/null || missing="$missing ${tool##*:}"
    done
    [ -z "$missing" ] || die "please install:$missing"
}

needs_modules() {
    local name
    for name in http stream; do
        [ -e "$modules/ngx_${name}_egress_module.so" ] ||
            die "no ngx_${name}_egress_module.so in $modules: run make, or set EGRESS_MODULES"
    done
}

# copies: a build in the meantime would write over what a running nginx has mapped

copy_modules() {        # directory
    mkdir -p "$1"
    cp "$modules"/ngx_{http,stream}_egress_module.so "$1/" || die "can't read the modules in $modules"
}

# nginx's own stream module is a file beside nginx's others, or it is built in: then this is no file

stream_module() { echo "$(nginx -V 2>&1 | tr ' ' '\n' | sed -n 's/^--modules-path=//p')/ngx_stream_module.so"; }

# nothing of the caller's own settings for clients

forget_settings() {
    local name
    for name in $(compgen -e); do
        case $name in
            GIT_*|SSL_*|CURL_*|OPENSSL_*|SSH_ASKPASS|[hH][tT][tT][pP]*_[pP][rR][oO][xX][yY]|all_proxy|ALL_PROXY| \
            no_proxy|NO_PROXY|EGRESS_CA_BUNDLE|EGRESS_SANDBOXES|GH_*|GITHUB_*|REQUESTS_*|PIP_*|PYTHON*|NODE_*|GO*)
                unset "$name" ;;
        esac
    done
    export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
}

# whom workers run as: "user" is empty where we are not root

worker_user() {
    user='' group=$(id -gn)
    if [ "$(id -u)" = 0 ]; then
        user=${EGRESS_USER:-www-data}
        id "$user" >/dev/null 2>&1 || die "no user $user: set EGRESS_USER"
        group=$(id -gn "$user")
    fi
}

# without an init process the dead stay as zombies: gone all the same

alive() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }

gone() {
    local i
    for ((i = 0; i < 50; i++)); do
        alive "$1" || return 0
        sleep 0.1
    done
    return 1
}

end() {         # a process that we started
    kill "$1" 2>/dev/null
    gone "$1" || kill -9 "$1" 2>/dev/null
}

random() {      # prefix: a token of the usual shape
    perl -e 'open my $f, "<", "/dev/urandom" or die; my @c = ("A".."Z", "a".."z", 0..9); my $s = "";
             while (length $s < 36) { read $f, my $b, 1; $b = ord $b; $s .= $c[$b] if $b < 62 } print "$ARGV[0]$s"' "$1"
}
