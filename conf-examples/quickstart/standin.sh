#!/bin/sh
# A stand-in for GitHub on the loopback interface: what the gateway talks to in the demo and in the tests.
#
#     standin.sh start DIR TOKENFILE [HOST...]
#     standin.sh stop DIR
#
# It is an nginx of its own with git http-backend behind it, and it does what matters here as GitHub does:
#
#     /octo/private.git            a private repository: needs the token, else 401 and a Basic challenge
#     /user, /repos/octo/private   need the token too
#     anything else                answers 200
#
# "start" writes into DIR, which must exist:
#
#     address      address and port of its TLS listener
#     ca.pem       the authority that signed its certificate
#     record.log   each request as it arrived, one JSON object a line
#     repos/octo/private.git
#
# A push with the right token would be accepted. HOST adds names to its certificate.
#
# STANDIN_FILES: number of files in the repository (40).  STANDIN_USER: the user it runs as under root (www-data).
set -eu

usage() { echo "usage: $0 start DIR TOKENFILE [HOST...] | $0 stop DIR" >&2; exit 2; }

[ $# -ge 2 ] || usage

here=$(cd "$(dirname "$0")" && pwd)
command=$1
[ -d "$2" ] || { echo "$0: $2 is no directory" >&2; exit 2; }
dir=$(cd "$2" && pwd)
shift 2

PATH=$PATH:/usr/sbin:/sbin


# --- stop: the processes that "start" wrote down, and no others ---------------------------------

# without an init process the dead stay as zombies: gone all the same

alive() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }

gone() {
    i=0
    while alive "$1"; do
        [ $i -lt 50 ] || return 1
        i=$((i + 1))
        sleep 0.1
    done
}

stop() {
    for file in nginx.pid fcgiwrap.pid; do
        [ -s "$dir/$file" ] || continue
        pid=$(cat "$dir/$file")
        kill "$pid" 2>/dev/null || true
        gone "$pid" || kill -9 "$pid" 2>/dev/null || true
        rm -f "$dir/$file"
    done
}

case $command in
    stop)  stop; exit 0 ;;
    start) [ $# -ge 1 ] || usage ;;
    *)     usage ;;
esac


# --- start --------------------------------------------------------------------------------------

token=$(cat "$1")
shift
hosts="github.com api.github.com uploads.github.com $*"

user=
if [ "$(id -u)" = 0 ]; then
    user=${STANDIN_USER:-www-data}
fi

trap 'stop' EXIT
umask 022

base64_of() { printf '%s' "$1" | openssl base64 -A; }


# a certificate for the names, by an authority of its own

sh "$here/make-ca.sh" "$dir/ca" 'stand-in CA'
cp "$dir/ca/ca.pem" "$dir/ca.pem"

names=
for host in $hosts; do
    names="$names${names:+,}DNS:$host"
done

cat >"$dir/leaf.cnf" <<CONF
[req]
prompt = no
distinguished_name = dn
[dn]
CN = stand-in
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = $names
CONF

(
    umask 077
    openssl req -new -sha256 -nodes -config "$dir/leaf.cnf" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
        -keyout "$dir/leaf.key" -out "$dir/leaf.csr" 2>/dev/null
)
openssl x509 -req -sha256 -days 30 -in "$dir/leaf.csr" -CA "$dir/ca/ca.pem" -CAkey "$dir/ca/ca.key" \
    -set_serial "0x$(openssl rand -hex 12)" -extfile "$dir/leaf.cnf" -extensions leaf -out "$dir/leaf.pem" 2>/dev/null


# a repository with a few commits

repo=$dir/repos/octo/private.git
mkdir -p "$dir/home" "$dir/repos/octo"

HOME=$dir/home
GIT_CONFIG_NOSYSTEM=1
export HOME GIT_CONFIG_NOSYSTEM
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT 2>/dev/null || true

git -c init.defaultBranch=main init -q --bare "$repo"
git -C "$repo" config uploadpack.allowFilter true
git -C "$repo" config uploadpack.allowAnySHA1InWant true
git -C "$repo" config http.receivepack true

commit() {
    printf 'commit refs/heads/%s\ncommitter Octo Cat <octo@example.test> %d +0000\ndata %d\n%s\n' \
        "$1" "$2" "${#3}" "$3"
    [ -z "${4-}" ] || printf 'from %s\n' "$4"
}

blob() { printf 'M 100644 inline %s\ndata %d\n%s\n' "$1" "${#2}" "$2"; }

{
    commit main 1700000000 'First commit'
    blob README.md "$(printf 'A private repository.\nIts only reader has the token.')"
    commit main 1700000100 'Add some files'
    n=0
    while [ $n -lt "${STANDIN_FILES:-40}" ]; do
        blob "src/part-$((n / 100))/file-$n.txt" "This is file number $n of the private repository."
        n=$((n + 1))
    done
    commit topic 1700000200 'A topic' refs/heads/main
    blob topic.txt 'On a branch of its own.'
    commit main 1700000300 'Third commit'
    blob README.md "$(printf 'A private repository.\nStill private.')"
    printf 'reset refs/tags/v1\nfrom refs/heads/main\n\n'
} | git -C "$repo" fast-import --quiet

[ -z "$user" ] || chown -R "$user" "$dir/repos" "$dir/home"


# git http-backend

drop=
if [ -n "$user" ]; then
    mkdir -p "$dir/run"
    chown "$user" "$dir/run"
    drop="setpriv --reuid=$user --regid=$(id -g "$user") --clear-groups"
else
    mkdir -p "$dir/run"
fi

# shellcheck disable=SC2086
$drop fcgiwrap -s "unix:$dir/run/fcgi.sock" </dev/null >"$dir/fcgiwrap.log" 2>&1 &
echo $! >"$dir/fcgiwrap.pid"


# nginx

port=$(perl -MIO::Socket::INET -e '
    print IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1)->sockport')

mkdir -p "$dir/tmp"

(
umask 077
cat >"$dir/nginx.conf" <<CONF
${user:+user $user;}
worker_processes 1;
pid $dir/nginx.pid;
error_log $dir/error.log warn;
events { }

http {
    client_body_temp_path $dir/tmp/body;
    proxy_temp_path       $dir/tmp/proxy;
    fastcgi_temp_path     $dir/tmp/fastcgi;
    uwsgi_temp_path       $dir/tmp/uwsgi;
    scgi_temp_path        $dir/tmp/scgi;

    log_format record escape=json '{"method":"\$request_method","host":"\$http_host","sni":"\$ssl_server_name",'
        '"uri":"\$request_uri","protocol":"\$server_protocol","status":"\$status","who":"\$who",'
        '"authorization":"\$http_authorization","via":"\$http_via","user_agent":"\$http_user_agent",'
        '"accept":"\$http_accept","accept_encoding":"\$http_accept_encoding","content_type":"\$http_content_type",'
        '"content_length":"\$http_content_length","content_encoding":"\$http_content_encoding",'
        '"transfer_encoding":"\$http_transfer_encoding","expect":"\$http_expect","git_protocol":"\$http_git_protocol",'
        '"x_forwarded_for":"\$http_x_forwarded_for","override":"\$http_x_http_method_override",'
        '"request_length":"\$request_length","x_vector":"\$http_x_vector"}';
    access_log $dir/record.log record;

    # who may: the token itself, or one of the three pairs that Basic is used with

    map \$http_authorization \$who {
        default "";
        "~^(?i:token|bearer) +\Q$token\E\$"                                  octocat;
        "~^(?i:basic) +\Q$(base64_of "x-access-token:$token")\E\$"  octocat;
        "~^(?i:basic) +\Q$(base64_of "$token:")\E\$"  octocat;
        "~^(?i:basic) +\Q$(base64_of "$token:x-oauth-basic")\E\$"  octocat;
    }

    map \$who \$challenge { default ""; "" 'Basic realm="GitHub"'; }

    server {
        listen 127.0.0.1:$port ssl;
        server_name $hosts;

        ssl_certificate     $dir/leaf.pem;
        ssl_certificate_key $dir/leaf.key;

        client_max_body_size 0;
        default_type application/json;
        add_header WWW-Authenticate \$challenge always;
        add_header X-OAuth-Scopes repo always;

        location ~ ^/octo/private(\.git)?/ {
            if (\$who = "") { return 401 "Repository not found.\n"; }

            fastcgi_pass  unix:$dir/run/fcgi.sock;
            fastcgi_param SCRIPT_FILENAME     $(git --exec-path)/git-http-backend;
            fastcgi_param GIT_PROJECT_ROOT    $dir/repos;
            fastcgi_param GIT_HTTP_EXPORT_ALL "";
            fastcgi_param GIT_PROTOCOL        \$http_git_protocol;
            fastcgi_param GIT_CONFIG_NOSYSTEM 1;
            fastcgi_param HOME                $dir/home;
            fastcgi_param REMOTE_USER         \$who;
            fastcgi_param REMOTE_ADDR         \$remote_addr;
            fastcgi_param PATH_INFO           \$uri;
            fastcgi_param QUERY_STRING        \$query_string;
            fastcgi_param REQUEST_METHOD      \$request_method;
            fastcgi_param CONTENT_TYPE        \$content_type;
            fastcgi_param CONTENT_LENGTH      \$content_length;
        }

        location = /user {
            if (\$who = "") { return 401 '{"message":"Requires authentication"}\n'; }
            return 200 '{"login":"octocat","id":1,"type":"User"}\n';
        }

        location /repos/octo/private {
            if (\$who = "") { return 401 '{"message":"Requires authentication"}\n'; }
            return 200 '{"full_name":"octo/private","private":true}\n';
        }

        # "return" would answer before a large body has arrived, so this goes to a server that reads all of it first

        location = /markdown/raw {
            proxy_pass http://unix:$dir/run/page.sock;
        }

        location / {
            add_header WWW-Authenticate "" always;
            return 200 '{"message":"here is a page"}\n';
        }
    }

    server {
        listen unix:$dir/run/page.sock;
        access_log off;
        client_max_body_size 0;
        location / { return 200 '<p>here is a page</p>\n'; }
    }
}
CONF
)

: >"$dir/record.log"
chmod 0600 "$dir/record.log"
nginx -e "$dir/error.log" -p "$dir/" -c "$dir/nginx.conf"

i=0
until [ -s "$dir/nginx.pid" ] && [ -S "$dir/run/fcgi.sock" ]; do
    [ $i -lt 50 ] || { echo "$0: did not start" >&2; exit 1; }
    i=$((i + 1))
    sleep 0.1
done

echo "127.0.0.1:$port" >"$dir/address"
trap - EXIT
