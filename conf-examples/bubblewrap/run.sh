#!/bin/bash
# Two sandboxes of bubblewrap, each with a socket of its own for a network.
#
#     run.sh           shows and checks it, against the stand-in of the quickstart; root is not needed
#     run.sh check     nginx -t only
# shellcheck disable=SC2016,SC2154
set -u

# shellcheck source=../common.sh
. "$(dirname "$0")/../common.sh"

lay_out github:ghp_

# Who runs the sandboxes: as root we take "nobody" for it.

box=$(id -un)
[ "$(id -u)" != 0 ] || box=nobody

# A directory for each sandbox that this user, and the master that makes the socket in it, can search.

for name in box-1 box-2; do
    mkdir -p "$dir/run/egress/$name" "$dir/work/$name"
    chmod 0700 "$dir/run/egress/$name"
    chown "$box" "$dir/run/egress/$name" "$dir/work/$name"
done

[ -n "$only_check" ] || {
    command -v bwrap >/dev/null || cannot 'bubblewrap is not installed (apt-get install bubblewrap)'
    boxed() {       # name, command
        local run=()
        [ "$(id -u)" != 0 ] || run=(as "$box")
        "${run[@]}" sh "$here/box.sh" "$dir/run/egress/$1" "$dir/work/$1" sh -c "$2" 2>&1
    }
    run=()
    [ "$(id -u)" != 0 ] || run=(as "$box")
    why=$("${run[@]}" bwrap --unshare-all --ro-bind / / true 2>&1) ||
        cannot "bubblewrap does not work for $box, user namespaces may be forbidden: $why"
    standin github
}

configure
gateway

# Nobody can prove to be one of them: it is the socket that tells.

sandbox add box-1 no-token
sandbox add box-2 no-token role=guest


step '1. A sandbox without a network'
out=$(boxed box-1 'tail -n +3 /proc/net/dev')
show <<<"$out"
check 'there is a loopback of its own, and nothing else' test "$(grep -c : <<<"$out")" = 1
mark
out=$(boxed box-1 'curl -sS -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user')
check 'curl: the answer tells who the token belongs to' contains "$out" '"login":"octocat"'
check 'GitHub saw the token' contains "$(upstream_saw)" "Bearer ${secret[github]}"
out=$(boxed box-1 'echo "$GH_TOKEN"')
check 'the sandbox has the placeholder' test "$out" = "${placeholder[github]}"

step '2. git'
out=$(boxed box-1 'git clone -q https://github.com/octo/private.git clone && git -C clone log --oneline | head -n 1')
check "git clone works: $out" contains "$out" 'Third commit'
out=$(boxed box-1 'cd clone && git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m x && git push origin HEAD:main')
check 'git push does not' test $? != 0
grep '^remote:' <<<"$out" | show
check 'and says why' contains "$out" write_refused

step '3. What it does not see'
out=$(boxed box-1 "curl -sSk --noproxy '*' --max-time 5 https://$upstream/")
check 'what listens on the machine' test $? != 0
out=$(boxed box-1 "ls $dir")
check 'files of the gateway' test $? != 0
out=$(boxed box-1 'ls /run/egress/')
check 'sockets of others' test "$out" = gateway.sock
out=$(boxed box-1 'curl -sS -o /dev/null https://example.com/')
check 'other hosts' test $? != 0

step '4. The other sandbox has another role'
mark
out=$(boxed box-2 'curl -sS -o /dev/null -w "%{http_connect}" https://api.github.com/user')
check 'its way to GitHub is refused' contains "$out" 403
check 'GitHub saw nothing' test -z "$(upstream_saw)"
check 'the audit log has both, by name' test "$(sed -n 's/.*"sandbox":"\(box-[12]\)".*/\1/p' "$dir/log/egress.json" |
    sort -u | tr '\n' ' ')" = 'box-1 box-2 '

step '5. A sandbox that is removed'
sandbox remove box-1
out=$(boxed box-1 'curl -sS -o /dev/null -w "%{http_code}" http://127.0.0.1:3128/env')
check 'is refused at once' contains "$out" 403

finish
