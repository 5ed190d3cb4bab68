# A sandbox that knows of no proxy: all that it can reach is the gateway. A part of demo.sh, which reads it in.
#
#     network namespace of the sandbox            network namespace of the gateway
#     192.0.2.2, default route to 192.0.2.1  ---  192.0.2.1, TCP to port 443 of any address goes to port 3128,
#                                                 the rest is dropped; stand-in and gateway of their own
#
# The namespaces belong to two processes that sleep. When these end nothing of it is left. The machine's own interfaces,
# routes and rules are neither used nor changed.
# shellcheck shell=bash disable=SC2015,SC2034,SC2154

gateway_ns='' sandbox_ns=''

in_ns() { nsenter --net="/proc/$1/ns/net" "${@:2}"; }

sandboxed() {   # the user of the workers, without a capability that could change a route
    in_ns "$sandbox_ns" setpriv --reuid="$user" --regid="$group" --clear-groups --inh-caps=-all --bounding-set=-all \
        --no-new-privs env HOME="$dir/transparent/home" "$@"
}

namespace() {   # the variable for its process
    local i ns
    unshare --net sleep 120 2>/dev/null &
    ns=$!
    disown "$ns"
    printf -v "$1" %s "$ns"
    for ((i = 0; i < 50; i++)); do
        [ "$(readlink "/proc/$ns/ns/net")" = "$(readlink /proc/self/ns/net)" ] || break
        alive "$ns" || return 1
        sleep 0.1
    done
    [ $i -lt 50 ] && alive "$ns"
}

transparent_cleanup() {
    local ns
    if [ -d "$dir/transparent" ]; then
        stop_gateway "$dir/transparent"
        [ ! -d "$dir/transparent/standin" ] || sh "$here/standin.sh" stop "$dir/transparent/standin"
    fi
    for ns in $sandbox_ns $gateway_ns; do
        kill "$ns" 2>/dev/null
        gone "$ns"
    done
    sandbox_ns='' gateway_ns=''
}


# the network; on failure it says what was refused

network() {
    command -v ip >/dev/null || { echo 'no ip command (iproute2)'; return 1; }
    in_ns "$gateway_ns" ip link add gw0 type veth peer name sb0 netns "$sandbox_ns" 2>/dev/null &&
    in_ns "$gateway_ns" ip link set lo up &&
    in_ns "$gateway_ns" ip address add 192.0.2.1/30 dev gw0 &&
    in_ns "$gateway_ns" ip link set gw0 up &&
    in_ns "$sandbox_ns" ip link set lo up &&
    in_ns "$sandbox_ns" ip address add 192.0.2.2/30 dev sb0 &&
    in_ns "$sandbox_ns" ip link set sb0 up &&
    in_ns "$sandbox_ns" ip route add default via 192.0.2.1 || { echo 'no veth'; return 1; }

    if command -v nft >/dev/null && in_ns "$gateway_ns" nft -f - 2>/dev/null <<'NFT'
table inet egress {
    chain to_gateway {
        type nat hook prerouting priority -100;
        iifname "gw0" tcp dport 443 redirect to :3128
    }
    chain input {
        type filter hook input priority 0; policy drop;
        iifname "lo" accept
        iifname "gw0" ct status dnat accept
    }
    chain forward {
        type filter hook forward priority 0; policy drop;
    }
}
NFT
    then
        return 0
    fi

    command -v iptables >/dev/null || command -v nft >/dev/null || { echo 'neither nft nor iptables'; return 1; }
    in_ns "$gateway_ns" iptables -t nat -A PREROUTING -i gw0 -p tcp --dport 443 -j REDIRECT --to-ports 3128 2>/dev/null &&
    in_ns "$gateway_ns" iptables -A INPUT -i lo -j ACCEPT &&
    in_ns "$gateway_ns" iptables -A INPUT -i gw0 -m conntrack --ctstate DNAT -j ACCEPT &&
    in_ns "$gateway_ns" iptables -P INPUT DROP &&
    in_ns "$gateway_ns" iptables -P FORWARD DROP || { echo 'nft and iptables are refused'; return 1; }
}


# a stand-in and a gateway as those of the demo, within the namespace

transparent_start() {
    local base=$dir/transparent
    mkdir -p "$base"/{logs,run,tmp,standin,home,work} &&
    cp -a "$dir/secrets" "$dir/bindings" "$dir/ca" "$dir"/*.placeholder "$base/" &&
    cp "$dir/ca/ca.pem" "$base/ca.pem" &&
    chown "$user" "$base/home" "$base/work" &&
    in_ns "$gateway_ns" sh "$here/standin.sh" start "$base/standin" "$base/secrets/github" tracker.example.test || return 1
    configure "$base" 127.0.0.1:443 192.0.2.1:3128 "$(cat "$base/standin/address")"
    start_gateway "$base" in_ns "$gateway_ns"
}


reaches() {     # address, port: does anything answer there?
    sandboxed timeout 0.5 bash -c ": </dev/tcp/$1/$2" 2>/dev/null
}

nothing_else() {
    local probe pid pids='' found=''
    for probe in "192.0.2.1 3128" "192.0.2.1 80" "203.0.113.10 80" "203.0.113.10 22" "127.0.0.1 ${gateway##*:}" \
                 "${upstream%:*} ${upstream##*:}"; do
        # shellcheck disable=SC2086
        reaches $probe & pids="$pids $!"
    done
    for pid in $pids; do
        ! wait "$pid" || found=1
    done
    [ -z "$found" ]
}


transparent_step() {
    local ns why out status base=$dir/transparent
    local record=$base/standin/record.log

    step "$1. Transparent: a sandbox that knows no proxy and whose only route leads to the gateway"

    if [ -z "$user" ]; then
        skip 'network namespaces: root is needed'
        return
    fi

    if ! namespace gateway_ns || ! namespace sandbox_ns; then
        skip 'network namespaces are refused here'
        transparent_cleanup
        return
    fi
    ns=$sandbox_ns
    why=$(network) || { skip "network namespaces: $why"; transparent_cleanup; return; }

    transparent_start
    check 'stand-in and gateway run in the namespace of the gateway' test $? = 0

    mark
    out=$(sandboxed curl -q -sS --max-time 20 --cacert "$base/ca.pem" --resolve api.github.com:443:203.0.113.10 \
          -H "Authorization: Bearer $placeholder" https://api.github.com/user 2>&1)
    saw_token 'curl to 203.0.113.10' "$out"
    out=$(sandboxed env GIT_SSL_CAINFO="$base/ca.pem" git -c http.curloptResolve=github.com:443:198.51.100.20 \
          clone -q "$url" "$base/work/clone" 2>&1)
    check 'git clone works, by another address: the name in the handshake decides' test $? = 0

    out=$(sandboxed curl -q -sS --max-time 20 --resolve example.com:443:203.0.113.10 https://example.com/ 2>&1)
    status=$?
    show <<<"$out"
    check 'another name: the handshake is refused (exit 35)' test $status = 35
    check 'with the alert access_denied' grep -qi 'access denied' <<<"$out"

    in_ns "$sandbox_ns" ip route | show
    check 'the sandbox has this one way out' test "$(in_ns "$sandbox_ns" ip route | grep -c '')" = 2
    check 'port 443 of any address answers, and is the gateway' reaches 203.0.113.10 443
    check 'no other port, address or listener of the machine answers' nothing_else
    out=$(sandboxed ip route add 198.51.100.0/24 dev lo 2>&1)
    check 'the sandbox cannot change its routes' test $? != 0
    check 'no token in what this gateway wrote' test -z "$(grep -lrFe "$real" -e "$tracker_real" "$base/logs" "$base/tmp")"

    transparent_cleanup
    check 'and all of it is gone again' test ! -e "/proc/$ns/ns/net"
}
