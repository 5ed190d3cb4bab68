#!/bin/bash
# A process of another user on the same machine, set up by one line.
#
#     run.sh           as root: shows and checks it in a network of its own, against the stand-in of the quickstart
#     run.sh check     nginx -t only
# shellcheck disable=SC2016,SC2154
set -u

# shellcheck source=../common.sh
. "$(dirname "$0")/../common.sh"

needs_root
own_network "$@"
lay_out github:ghp_
[ -n "$only_check" ] || standin github
configure
gateway

# The sandbox is the user "nobody" with a home of its own.

box=nobody
mkdir "$dir/home"
chown "$box" "$dir/home"

token=$(sandbox add box-1)

# The address with the token stands in a file that only this user can read: arguments of a command are seen by all.

(umask 077; printf 'url = "http://box-1:%s@127.0.0.1:3128/env"\n' "$token" >"$dir/home/.egress")
chown "$box" "$dir/home/.egress"

line='eval "$(curl -fsS -K "$HOME/.egress")";'

boxed() { as "$box" "${bare[@]}" HOME="$dir/home" sh -c "cd; $1" 2>&1; }

goes_around() { boxed "curl -sSk -o /dev/null --max-time 5 https://$upstream/" >/dev/null; }


step '1. The process has nothing but a line to begin with'
echo "$line" | show
mark
out=$(boxed "$line"' curl -sS -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user')
check 'curl: the answer tells who the token belongs to' contains "$out" '"login":"octocat"'
check 'GitHub saw the token' contains "$(upstream_saw)" "Bearer ${secret[github]}"
out=$(boxed "$line"' echo "$GH_TOKEN"')
check 'the process has the placeholder' test "$out" = "${placeholder[github]}"

step '2. git'
out=$(boxed "$line git clone -q https://github.com/octo/private.git clone && git -C clone log --oneline | head -n 1")
check "git clone works: $out" contains "$out" 'Third commit'
out=$(boxed "$line"' cd clone && git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m x && git push origin HEAD:main')
check 'git push does not' test $? != 0
grep '^remote:' <<<"$out" | show
check 'and says why' contains "$out" write_refused

step '3. What is not its own'
out=$(boxed "$line curl -sS -o /dev/null https://example.com/")
check 'no other host' test $? != 0
check 'no token: the file' refused as "$box" cat "$dir/etc/secrets/github"
check 'no key of the authority' refused as "$box" cat "$dir/etc/ca.key"
check 'no list of other sandboxes' refused as "$box" ls "$dir/etc/sandboxes"
worker=$(pgrep -P "$(cat "$dir/run/nginx.pid")" | head -n 1)
check 'no memory of a worker' refused as "$box" cat "/proc/$worker/environ"
check 'nor for another process of the workers'"'"' own user' refused as "$user" cat "/proc/$worker/environ"

step '4. No way but the gateway: user.nft'
check 'without it the process could go around the gateway' goes_around
if ! command -v nft >/dev/null || ! nft -f "$here/user.nft" 2>/dev/null; then
    skip 'nft is not here, or refused'
else
    check 'another port of the machine does not answer any more' refused goes_around
    out=$(boxed "$line"' curl -sS -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user')
    check 'the gateway does' test "$out" = 200
fi

step '5. A new token, and none'
sandbox token box-1 >/dev/null
out=$(boxed "curl -sS -o /dev/null -w '%{http_code}' -K .egress")
check 'another token: the old one is refused' test "$out" = 403
sandbox remove box-1
out=$(boxed "curl -sS -o /dev/null -w '%{http_code}' -K .egress")
check 'the file of the sandbox removed: 403' test "$out" = 403

finish
