# Clients with a proxy setting. A part of demo.sh, which reads it in.
# shellcheck shell=bash disable=SC2034,SC2154

go_pid='' python='' pip='' requests=''

through() { env HTTPS_PROXY="http://$gateway" "$@"; }
socks()   { env ALL_PROXY="socks5h://$gateway" "$@"; }


# Go compiles while the first checks run

proxy_prepare() {
    local candidate

    for candidate in python3 /usr/bin/python3; do
        "$candidate" -c 'import ssl' 2>/dev/null || continue
        [ -n "$python" ] || python=$candidate
        "$candidate" -c 'import requests' 2>/dev/null && { python=$candidate requests=1; break; }
    done
    [ -z "$python" ] || ! "$python" -m pip --version >/dev/null 2>&1 || pip=1

    command -v go >/dev/null || return 0
    mkdir "$dir/go"
    cat >"$dir/go/main.go" <<'GO'
package main

import (
    "fmt"
    "io"
    "net/http"
    "os"
)

func main() {
    request, _ := http.NewRequest("GET", os.Args[1], nil)
    request.Header.Set("Authorization", "Bearer "+os.Args[2])
    response, err := http.DefaultClient.Do(request)
    if err != nil {
        fmt.Println(err)
        os.Exit(1)
    }
    body, _ := io.ReadAll(response.Body)
    fmt.Println(response.StatusCode, string(body))
}
GO
    (cd "$dir/go" && HOME=$dir/go GO111MODULE=off GOTOOLCHAIN=local GOENV=off GOCACHE=$dir/go/cache \
        exec timeout -k 1 20 go build -o "$dir/go/client" main.go) >"$dir/go/log" 2>&1 &
    go_pid=$!
}

proxy_cleanup() {
    [ -n "$go_pid" ] || return 0
    kill "$go_pid" 2>/dev/null      # timeout, which ends the compilers too
    wait "$go_pid" 2>/dev/null
    go_pid=
}

saw_token() {   # client, what it printed
    check "$1: the answer is 200" contains "$2" '"login":"octocat"'
    check "$1: the stand-in saw the real token, not the placeholder" test "$(upstream_saw | grep -c "Bearer $real\"")" = 1
}

proxied_curl() { "$@" curl -q --silent --show-error --max-time 20 --cacert "$dir/ca/ca.pem" \
                     -H "Authorization: Bearer $placeholder" "${options[@]}"; }


proxy_steps() { # number of the first
    local n=$1 options out

    step "$((n++)). HTTPS_PROXY=http://$gateway: curl and git ask the gateway for a tunnel"
    mark
    options=(https://api.github.com/user)
    saw_token curl "$(proxied_curl through 2>&1)"
    out=$(through git clone -q "$url" "$dir/work/proxied" 2>&1)
    check 'git clone works' test $? = 0
    mark
    git -C "$dir/work/proxied" -c user.name=Sandbox -c user.email=sandbox@example.test commit -q --allow-empty \
        -m 'Not wanted'
    out=$(through git -C "$dir/work/proxied" push origin HEAD:main 2>&1)
    check 'git push fails' test $? != 0
    check 'git prints why' grep -q '^remote: .*write_refused' <<<"$out"
    check 'the stand-in was asked nothing' test -z "$(upstream_saw)"

    step "$((n++)). The same for other clients, each with the variables that docs/clients.md names"
    proxy_python
    proxy_node
    proxy_go

    step "$((n++)). ALL_PROXY=socks5h://$gateway: the same port speaks SOCKS5"
    mark
    options=(https://api.github.com/user)
    saw_token curl "$(proxied_curl socks 2>&1)"
    out=$(socks git clone -q "$url" "$dir/work/socks" 2>&1)
    check 'git clone works' test $? = 0

    step "$((n++)). A host that is not allowed"
    out=$(through curl -q -sS -v --max-time 20 https://example.com/ 2>&1)
    check 'curl by HTTPS_PROXY fails in CONNECT (exit 56)' test $? = 56
    grep -e '^curl: ' -e '^< HTTP' <<<"$out" | tr -d '\r' | show
    check 'the answer is 403 and says why' grep -q \
        '^< HTTP/1.1 403 Blocked by gateway: this host or port is not allowed' <<<"$out"
    check 'its Proxy-Status too' grep -q '^< Proxy-Status: egress-demo; .*destination_refused' <<<"$out"
    out=$(through git ls-remote https://example.com/octo/private.git 2>&1)
    check 'git fails' test $? != 0
    show <<<"$out"
    out=$(socks curl -q -sS --max-time 20 https://example.com/ 2>&1)
    check 'curl by ALL_PROXY fails (exit 97)' test $? = 97
    show <<<"$out"
    check 'the SOCKS reply is 2, not allowed' contains "$out" '(2)'

    step "$((n++)). Plain http is refused, at bound hosts too"
    mark
    out=$(http_proxy="http://$gateway" curl -q -sS -i --max-time 20 -H "Authorization: Bearer $placeholder" \
          http://api.github.com/user 2>&1)
    tr -d '\r' <<<"$out" | grep -i -e '^HTTP' -e '^{' | show
    check 'the answer is 403 plain_http' grep -q '^HTTP/1.1 403 .*plain HTTP is refused' <<<"$out"
    check 'and a body for programs' contains "$out" '"reason":"plain_http"'
    check 'the stand-in was asked nothing' test -z "$(upstream_saw)"
}


proxy_python() {
    local out program

    if [ -z "$python" ]; then
        skip 'python: not installed'
        return
    fi

    mark
    program='import sys, urllib.request as u
print(u.urlopen(u.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]}), timeout=20).read().decode())'
    out=$(through SSL_CERT_FILE="$dir/ca/ca.pem" "$python" -c "$program" https://api.github.com/user "$placeholder" 2>&1)
    saw_token 'python urllib' "$out"

    if [ -n "$requests" ]; then
        mark
        program='import sys, requests
print(requests.get(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]}, timeout=20).text)'
        out=$(through REQUESTS_CA_BUNDLE="$dir/ca/ca.pem" "$python" -c "$program" https://api.github.com/user \
              "$placeholder" 2>&1)
        saw_token 'python requests' "$out"
    else
        skip 'python requests: not installed'
    fi

    # the stand-in is no package index: what counts is how it was asked

    if [ -n "$pip" ]; then
        mark
        through PIP_CERT="$dir/ca/ca.pem" PIP_CONFIG_FILE=/dev/null PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
            PIP_NO_INPUT=1 "$python" -m pip download -q --no-deps --retries 0 --timeout 5 -d "$dir/work" \
            --index-url "https://octo:$tracker_placeholder@tracker.example.test/simple" demo >/dev/null 2>&1
        out=$(upstream_saw)
        check 'pip: the index was asked for the package' contains "$out" '"uri":"/simple/demo/"'
        check 'pip: with the real token as the password' contains "$out" \
            "Basic $(printf 'octo:%s' "$tracker_real" | openssl base64 -A)"
    else
        skip 'pip: not installed'
    fi
}


proxy_node() {
    local out program

    if ! command -v node >/dev/null; then
        skip 'node: not installed'
    elif ! node -e 'process.exit(process.allowedNodeEnvironmentFlags.has("--use-env-proxy") ? 0 : 1)' 2>/dev/null; then
        skip "node: $(node --version) knows no proxy variables by itself, 22.21 and 24.5 do"
    else
        mark
        program='const [url, token] = process.argv.slice(1);
fetch(url, { headers: { authorization: "Bearer " + token } }).then(r => r.text()).then(console.log)'
        out=$(through NODE_USE_ENV_PROXY=1 NODE_EXTRA_CA_CERTS="$dir/ca/ca.pem" node -e "$program" \
              https://api.github.com/user "$placeholder" 2>&1)
        saw_token "node $(node --version)" "$out"
    fi
}


proxy_go() {
    local i out

    if [ -z "$go_pid" ]; then
        skip 'go: not installed'
        return
    fi
    for ((i = 0; i < 40; i++)); do
        alive "$go_pid" || break
        sleep 0.1
    done
    if [ ! -x "$dir/go/client" ]; then
        skip 'go: did not compile the client in time'
        return
    fi
    mark
    out=$(through SSL_CERT_FILE="$dir/ca/ca.pem" "$dir/go/client" https://api.github.com/user "$placeholder" 2>&1)
    saw_token go "$out"
}
