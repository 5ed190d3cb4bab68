#!/bin/bash
# A remote machine that holds a certificate: it reads one repository, asks a model, calls one tool, and nothing else.
#
#     run.sh           as root: shows and checks it in a network of its own, against the stand-in of the quickstart
#     run.sh check     nginx -t only
# shellcheck disable=SC2016,SC2119,SC2154
set -u

# shellcheck source=../common.sh
. "$(dirname "$0")/../common.sh"

needs_root
own_network "$@"
lay_out github:ghp_ model:sk- tickets:tik_

# --- certificates: of the server, of the authority that signs clients, of two clients and of a stranger ----------

leaf() {        # authority, name, file, extensions
    openssl req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj "/CN=$2" -keyout "$3.key" \
        -out "$3.csr" 2>/dev/null &&
    openssl x509 -req -sha256 -days 30 -in "$3.csr" -CA "$1/ca.pem" -CAkey "$1/ca.key" \
        -set_serial "0x$(openssl rand -hex 12)" -extfile <(printf '%s\n' "$4") -out "$3.pem" 2>/dev/null
}

certificates() {
    local make=$examples/quickstart/make-ca.sh name

    sh "$make" "$dir/servers" 'servers' && sh "$make" "$dir/clients" 'clients' && sh "$make" "$dir/others" 'others' &&
        mkdir "$dir/remote" || return 1
    cp "$dir/clients/ca.pem" "$dir/etc/clients.pem"
    leaf "$dir/servers" egress.example.net "$dir/etc/server" \
        $'subjectAltName = DNS:egress.example.net\nextendedKeyUsage = serverAuth' || return 1
    for name in sam-1 sam-2; do
        leaf "$dir/clients" "$name" "$dir/remote/$name" 'extendedKeyUsage = clientAuth' || return 1
    done
    leaf "$dir/others" sam-1 "$dir/remote/stranger" 'extendedKeyUsage = clientAuth'
}

certificates || die 'no certificates'

if [ -z "$only_check" ]; then
    echo '192.0.2.1 egress.example.net' >"$dir/remote1.hosts"
    connect remote1 192.0.2.1 192.0.2.2 || cannot 'no veth'
    standin github mcp.tickets.test api.openai.com
fi

configure
gateway

# The name of its certificate, its role, and the network that it comes from. There is no token: nothing else vouches.

sandbox add sam-1 no-token role=sam source=192.0.2.0/30

base=https://egress.example.net

ask() {         # certificate, path, options: the head and the body of the answer
    local name=$1 path=$2
    shift 2
    inside remote1 "${bare[@]}" curl -q -sS -i --max-time 20 --cacert "$dir/servers/ca.pem" --cert "$dir/remote/$name.pem" \
        --key "$dir/remote/$name.key" "$@" "$base$path" 2>&1
}

github() { ask sam-1 "$@" -H "Authorization: Bearer ${placeholder[github]}"; }

tool() {        # name
    ask sam-1 /tickets/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
        -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$1\",\"arguments\":{\"q\":\"x\"}}}"
}

ok() { grep -q '^HTTP/[0-9.]* 200' <<<"$1"; }

denied() {      # answer, reason
    grep -q '^HTTP/[0-9.]* 403' <<<"$1" && grep -q "^proxy-status: egress-1; error=http_request_denied; details=\"$2" \
        <<<"$(tr 'PS' 'ps' <<<"$1")"
}


step '1. Below its repository it may read'
mark
out=$(github /github/repos/google/sam/pulls -H 'X-Vector: of the client' -H 'X-Forwarded-For: 10.0.0.1')
check 'GET /repos/google/sam/pulls: 200' ok "$out"
saw=$(upstream_saw)
check 'GitHub saw the token' contains "$saw" "Bearer ${secret[github]}"
check 'the path without the prefix' contains "$saw" '"uri":"/repos/google/sam/pulls"'
check 'and no other field of the client' contains "$saw" '"x_forwarded_for":"","override":"",'
check 'of whatever name' lacks "$saw" 'of the client'

step '2. It may write nothing, and read nothing else'
mark
out=$(github /github/repos/google/sam/pulls -H 'Content-Type: application/json' -d '{"title":"x","head":"x","base":"main"}')
check 'POST /repos/google/sam/pulls: 403' denied "$out" ''
refusal "$out" | show
out=$(github /github/user)
check 'GET /user: 403' denied "$out" ''
refusal "$out" | show
out=$(github /github/repos/google/another/pulls)
check 'GET /repos/google/another/pulls: 403' denied "$out" ''
refusal "$out" | show
check 'GitHub saw none of it' test -z "$(upstream_saw)"

step '3. The model answers'
mark
out=$(ask sam-1 /model/v1/chat/completions -H "Authorization: Bearer ${placeholder[model]}" \
      -H 'Content-Type: application/json' -d '{"model":"m","messages":[{"role":"user","content":"hello"}]}')
check 'POST /v1/chat/completions: 200' ok "$out"
check 'the model saw its key' contains "$(upstream_saw)" "Bearer ${secret[model]}"
mark
out=$(ask sam-1 /model/v1/files -H "Authorization: Bearer ${placeholder[model]}")
check 'GET /v1/files: 403' denied "$out" rule_refused
check 'the model saw nothing of it' test -z "$(upstream_saw)"

step '4. One tool, by its name'
mark
out=$(tool search_tickets)
check 'tools/call of search_tickets: 200' ok "$out"
check 'with the key, which the client does not have in any form' contains "$(upstream_saw)" "Bearer ${secret[tickets]}"
mark
out=$(tool delete_ticket)
check 'tools/call of delete_ticket: 403' denied "$out" tool_refused
tail -n 1 <<<"$out" | show
check 'the server saw nothing of it' test -z "$(upstream_saw)"

step '5. Who it is'
mark
out=$(inside remote1 "${bare[@]}" curl -q -sS -i --cacert "$dir/servers/ca.pem" "$base/github/repos/google/sam" 2>&1)
check 'without a certificate: 400' grep -q '^HTTP/[0-9.]* 400' <<<"$out"
out=$(ask stranger /github/repos/google/sam)
check 'with the same name, signed by somebody else: 400' grep -q '^HTTP/[0-9.]* 400' <<<"$out"
out=$(ask sam-2 /github/repos/google/sam)
check 'with a good certificate and no file: 403' denied "$out" sandbox_unknown
sandbox remove sam-1
out=$(github /github/repos/google/sam)
check 'the file removed: 403' denied "$out" sandbox_
refusal "$out" | show
check 'nothing of it got through' test -z "$(upstream_saw)"
check 'the audit log has the sandbox and its role' grep -q '"sandbox":"sam-1","role":"sam"' "$dir/log/egress.json"

finish
