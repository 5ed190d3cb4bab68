#!/bin/bash
# Two network namespaces that know of no proxy: what they send to port 443 is led to the gateway.
#
#     run.sh           as root: shows and checks it in a network of its own, against the stand-in of the quickstart
#     run.sh check     nginx -t only
# shellcheck disable=SC2016,SC2119,SC2154
set -u

# shellcheck source=../common.sh
. "$(dirname "$0")/../common.sh"

needs_root
own_network "$@"
lay_out github:ghp_

# Names have to resolve to some address that is routed here. What it is does not matter: a name server that says the same
# to all questions does, or a few lines in /etc/hosts.

printf '203.0.113.10 %s\n' github.com api.github.com example.com | tee "$dir/box-1.hosts" >"$dir/box-2.hosts"

if [ -z "$only_check" ]; then
    if ! connect box-1 192.0.2.1 192.0.2.2 || ! connect box-2 192.0.2.5 192.0.2.6; then
        cannot 'no veth'
    fi
    nft -f "$here/redirect.nft" || cannot 'nft is not here, or refused'
    standin github
    mkdir "$dir/home"
    chown nobody "$dir/home"
else
    ip address add 192.0.2.1/32 dev lo
    ip address add 192.0.2.5/32 dev lo
fi

configure
gateway

sandbox add box-1 no-token source=192.0.2.2/32
sandbox add box-2 no-token source=192.0.2.6/32 role=guest

# The sandboxed process is "nobody" without capabilities: it could change its routes otherwise.

boxed() {       # name, command
    inside "$1" setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups --inh-caps=-all --bounding-set=-all \
        --no-new-privs "${bare[@]}" HOME="$dir/home" SSL_CERT_FILE="$dir/bundle.pem" CURL_CA_BUNDLE="$dir/bundle.pem" \
        GIT_SSL_CAINFO="$dir/bundle.pem" GH_TOKEN="${placeholder[github]}" sh -c "cd; $2" 2>&1
}

reaches() { boxed "$1" "timeout 1 bash -c ': </dev/tcp/$2/$3'" >/dev/null; }


step '1. A namespace that knows of no proxy'
boxed box-1 'ip route; getent hosts api.github.com' | show
mark
out=$(boxed box-1 'curl -sS -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user')
check 'curl: the answer tells who the token belongs to' contains "$out" '"login":"octocat"'
check 'GitHub saw the token' contains "$(upstream_saw)" "Bearer ${secret[github]}"

step '2. git'
out=$(boxed box-1 'git clone -q "https://x-access-token:$GH_TOKEN@github.com/octo/private.git" clone &&
    git -C clone log --oneline | head -n 1')
check "git clone works: $out" contains "$out" 'Third commit'
out=$(boxed box-1 'cd clone && git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m x && git push origin HEAD:main')
check 'git push does not' test $? != 0
grep '^remote:' <<<"$out" | show
check 'and says why' contains "$out" write_refused

step '3. Nothing else is reached'
out=$(boxed box-1 'curl -sS https://example.com/')
show <<<"$out"
check 'another name: the handshake is refused' grep -qi 'access denied' <<<"$out"
check 'port 443 of any address is the gateway' reaches box-1 198.51.100.7 443
check 'no other port is there' refused reaches box-1 203.0.113.10 80
check 'nor the listener itself' refused reaches box-1 192.0.2.1 3101
check 'nor that of the other namespace' refused reaches box-1 192.0.2.5 3102
check 'nor the other namespace' refused reaches box-1 192.0.2.6 22
out=$(boxed box-1 'ip route add 198.51.100.0/24 dev lo')
check 'its routes are not its own to change' test $? != 0

step '4. The other namespace has another role'
mark
out=$(boxed box-2 'curl -sS https://api.github.com/user')
check 'the handshake is refused' grep -qi 'access denied' <<<"$out"
check 'GitHub saw nothing' test -z "$(upstream_saw)"
check 'the audit log tells who and why' grep -q '"sandbox":"box-2".*"reason":"binding_refused"' "$dir/log/egress.json"

step '5. A sandbox that is removed'
sandbox remove box-1
out=$(boxed box-1 'curl -sS https://api.github.com/user')
check 'the handshake is refused' grep -qi 'access denied' <<<"$out"

finish
