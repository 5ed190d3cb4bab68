#!/bin/bash
# The gateway at work, against a stand-in for GitHub on the loopback interface. Nothing leaves this machine.
#
#     demo.sh            shows and checks each promise, then cleans up (about fifteen seconds)
#     KEEP=1 demo.sh     leaves everything running and says how to go on by hand
#
# EGRESS_MODULES   directory with the two modules (build/modules of this checkout)
# EGRESS_USER      the workers' user when root starts it (www-data)
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
modules=${EGRESS_MODULES:-$top/build/modules}
what=demo

# shellcheck source-path=SCRIPTDIR
. "$here/../shell.sh"

needs nginx:nginx fcgiwrap:fcgiwrap git:git curl:curl openssl:openssl perl:perl
needs_modules

stream=$(stream_module)
[ -e "$stream" ] || stream=

forget_settings
worker_user


# --- a directory of its own, and the way out ----------------------------------------------------

dir=$(mktemp -d "${TMPDIR:-/tmp}/egress-demo.XXXXXX") || die 'no temporary directory'
chmod 0755 "$dir"

if [ -n "$user" ] && ! setpriv --reuid="$user" --regid="$group" --clear-groups test -x "$dir"; then
    rmdir "$dir"
    dir=$(mktemp -d /tmp/egress-demo.XXXXXX) || die 'no temporary directory'
    chmod 0755 "$dir"
fi

helper_pid=
kept=

stop_gateway() {        # directory
    [ ! -s "$1/nginx.pid" ] || end "$(cat "$1/nginx.pid")"
}

# shellcheck source-path=SCRIPTDIR
. "$here/proxy.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/transparent.sh"

cleanup() {
    trap '' INT TERM
    if [ -n "$helper_pid" ]; then
        kill "$helper_pid" 2>/dev/null
        wait "$helper_pid" 2>/dev/null
    fi
    proxy_cleanup
    transparent_cleanup
    stop_gateway "$dir"
    [ ! -d "$dir/standin" ] || sh "$here/standin.sh" stop "$dir/standin"
    rm -rf "$dir"
}

trap '[ -n "$kept" ] || cleanup' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM


# --- placeholders, tokens, authorities ----------------------------------------------------------

mkdir -p "$dir"/{secrets,bindings,logs,run,tmp,home,standin,work}
cp "$here/../bindings/github.conf" "$dir/bindings/"

copy_modules "$dir/modules"

placeholder=$(random ghp_)
tracker_placeholder=$(random trk_)
real=$(random ghp_)
tracker_real=$(random trk_)

printf '%s\n' "$placeholder"         >"$dir/github.placeholder"
printf '%s\n' "$tracker_placeholder" >"$dir/tracker.placeholder"

(
    umask 027
    printf '%s\n' "$real"         >"$dir/secrets/github"
    printf '%s\n' "$tracker_real" >"$dir/secrets/tracker"
)
chgrp "$group" "$dir"/secrets "$dir"/secrets/*
chmod 0750 "$dir/secrets"
chmod 0640 "$dir"/secrets/*

sh "$here/make-ca.sh" "$dir/ca" 'Egress demo CA' github.com api.github.com uploads.github.com tracker.example.test ||
    die 'no authority'


# --- the stand-in and the gateway ---------------------------------------------------------------

sh "$here/standin.sh" start "$dir/standin" "$dir/secrets/github" tracker.example.test || die 'the stand-in did not start'
upstream=$(cat "$dir/standin/address")

free_port() {
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1)->sockport'
}

can_listen() {
    perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => $ARGV[1], Listen => 1,
                                                            ReuseAddr => 1)' "$1" "$2"
}

# Root listens on port 443 of an address that nobody else uses. Others take a high port.

address='' port=''
for last in 77 78 79 80 81 82 83 84; do
    can_listen "127.0.0.$last" 443 || continue
    address=127.0.0.$last port=443
    break
done
[ -n "$address" ] || { address=127.0.0.1; port=$(free_port); }

gateway=127.0.0.1:$(free_port)

version=$(nginx -v 2>&1 | sed 's,.*nginx/,,; s,[^0-9.].*,,')
if [ "$(printf '%s\n' 1.25.1 "$version" | sort -V | head -n 1)" = 1.25.1 ]; then
    http2='ssl;\n        http2          on;'
else
    http2='ssl http2;'
fi

configure() {           # directory, address for direct clients, address of the gateway, upstream
    sed -e "s|@STREAM@|${stream:+load_module $stream;}|; s|@USER@|${user:+user              $user;}|" \
        -e "s|@DIRECT@|listen         $2 $http2|; s|@HANDED@|listen         unix:$1/run/egress.sock $http2|" \
        -e "s|@MODULES@|$dir/modules|g; s|@DIR@|$1|g; s|@GATEWAY@|$3|; s|@UPSTREAM@|$4|g" \
        -e '/^# The gateway of the quickstart/,/^$/d' "$here/nginx.conf" >"$1/nginx.conf"
}

start_gateway() {       # directory, and what to run nginx by
    local i base=$1
    shift
    "$@" nginx -e "$base/logs/error.log" -p "$base/" -c "$base/nginx.conf" 2>"$base/logs/start.log" || {
        cat "$base/logs/start.log" >&2
        return 1
    }
    for ((i = 0; i < 50; i++)); do
        [ ! -s "$base/nginx.pid" ] || break
        sleep 0.1
    done
}

configure "$dir" "$address:$port" "$gateway" "$upstream"
start_gateway "$dir" || die 'the gateway did not start'


# --- clients ------------------------------------------------------------------------------------

# Names resolve to the gateway: curl and git have an option for that. An option for the port has curl only, so where
# the port is not 443 git asks a few lines of Perl, a proxy that leads every CONNECT to the gateway.

export HOME=$dir/home GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_SSL_CAINFO=$dir/ca/ca.pem

curl=(curl -q --silent --show-error --max-time 20 --noproxy '*' --cacert "$dir/ca/ca.pem"
      --connect-to "::$address:$port")
git=(git)

if [ "$port" = 443 ]; then
    git+=(-c http.proxy= -c "http.curloptResolve=github.com:443:$address")
else
    proxy=$(free_port)
    perl -MIO::Socket::INET -MIO::Select -e '
        my ($port, $to) = @ARGV;
        my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 16, ReuseAddr => 1) or die;
        $SIG{CHLD} = "IGNORE";
        my $parent = $$;
        while (1) {
            my $c = $l->accept or next;
            next if fork;
            close $l;
            my $head = "";
            while ($head !~ /\r\n\r\n\z/) { sysread $c, my $b, 1 or exit; $head .= $b }
            my $s = IO::Socket::INET->new(PeerAddr => $to) or exit;
            syswrite $c, "HTTP/1.1 200 OK\r\n\r\n";
            my $sel = IO::Select->new($c, $s);
            while (1) {
                for my $from ($sel->can_read(1)) {
                    sysread $from, my $b, 65536 or exit;
                    my $other = $from == $c ? $s : $c;
                    while (length $b) { my $n = syswrite $other, $b or exit; substr $b, 0, $n, "" }
                }
                exit if getppid != $parent;
            }
        }' "$proxy" "$address:$port" &
    helper_pid=$!
    for ((i = 0; i < 50; i++)); do
        can_listen 127.0.0.1 "$proxy" || break
        sleep 0.1
    done
    git+=(-c "http.proxy=http://127.0.0.1:$proxy")
fi

url=https://x-access-token:$placeholder@github.com/octo/private.git
record=$dir/standin/record.log
repo=$dir/standin/repos/octo/private.git


# --- checks -------------------------------------------------------------------------------------

passed=0 failed=0

step() { printf '\n%s\n' "$*"; }

check() {       # what, and a command that must succeed
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        printf '    ok      %s\n' "$what"
    else
        failed=$((failed + 1))
        printf '    FAILED  %s\n' "$what"
    fi
}

skip()     { printf '    skip    %s\n' "$*"; }
show()     { sed "s/$placeholder/<placeholder>/g; s/^/            /"; }
contains() { [[ $1 == *"$2"* ]]; }
lacks()    { [[ $1 != *"$2"* ]]; }
mark()     { seen=$(wc -c <"$record"); }
upstream_saw() { sleep 0.1; tail -c "+$((seen + 1))" "$record"; }
bearer()   { "${curl[@]}" -H "Authorization: Bearer $placeholder" "$@"; }


echo "The sandbox holds  $placeholder"
echo "The gateway holds  another token of that shape, in a file that the sandbox cannot read"
echo "github.com is      $address:$port for clients that connect directly (1 to 7)"
echo "the gateway is     $gateway, for clients with a proxy setting (8 to 12)"
proxy_prepare


step '1. curl sends the placeholder; GitHub sees the real token'
mark
out=$(bearer -w '\n%{http_code}' https://api.github.com/user 2>&1)
check 'the answer is 200 and tells who the token belongs to' contains "$out" '"login":"octocat"'
check 'the stand-in saw the real token' contains "$(upstream_saw)" "\"authorization\":\"Bearer $real\""
check 'the placeholder did not arrive there' lacks "$(upstream_saw)" "$placeholder"


step '2. git clones a private repository with the placeholder as its password'
out=$("${git[@]}" clone -q "$url" "$dir/work/clone" 2>&1)
check 'git clone works' test $? = 0
check 'its HEAD is the original'"'"'s' test "$(git -C "$dir/work/clone" rev-parse HEAD 2>&1)" = "$(
    git -c "safe.directory=$repo" --git-dir="$repo" rev-parse refs/heads/main)"
out=$(git -C "$dir/work/clone" fsck --full --strict 2>&1)
check 'git fsck has nothing to say against it' test $? = 0


step '3. git push is refused, and the person at the terminal is told why'
refs=$(git -c "safe.directory=$repo" --git-dir="$repo" for-each-ref)
mark
git -C "$dir/work/clone" -c user.name=Sandbox -c user.email=sandbox@example.test commit -q --allow-empty -m 'Not wanted'
out=$("${git[@]}" -C "$dir/work/clone" push origin HEAD:main 2>&1)
check 'git push fails' test $? != 0
printf '%s\n' "$out" | show
check 'git prints the gateway'"'"'s sentence' grep -q '^remote: .*write_refused' <<<"$out"
check 'the stand-in was asked nothing' test -z "$(upstream_saw)"
check 'the repository is as it was' test "$refs" = "$(git -c "safe.directory=$repo" --git-dir="$repo" for-each-ref)"


step '4. A placeholder in a query stays a placeholder'
mark
out=$("${curl[@]}" -o /dev/null -w '%{http_code}' "https://api.github.com/search/code?q=$placeholder" 2>&1)
check 'the request went through' test "$out" = 200
check 'the stand-in saw the placeholder' contains "$(upstream_saw)" "?q=$placeholder"
check 'and no token' lacks "$(upstream_saw)" "$real"


step '5. A placeholder at another host stays a placeholder'
mark
out=$(bearer -o /dev/null -w '%{http_code}' https://tracker.example.test/issues 2>&1)
check 'the request went through' test "$out" = 200
check 'the other host saw the placeholder' contains "$(upstream_saw)" "\"authorization\":\"Bearer $placeholder\""
check 'and no token' lacks "$(upstream_saw)" "$real"


step '6. A second request on the connection that names another host is misdirected'
mark
out=$(bearer --http1.1 -o /dev/null -w '%{http_code} ' https://api.github.com/user \
      --next -q --silent --max-time 20 --noproxy '*' --cacert "$dir/ca/ca.pem" --connect-to "::$address:$port" --http1.1 \
      -H "Authorization: Bearer $placeholder" -H 'Host: tracker.example.test' \
      -o /dev/null -w '%{http_code} over %{num_connects} new connections' https://api.github.com/user 2>&1)
check "200, then 421 on the same connection" test "$out" = '200 421 over 0 new connections'
check 'the stand-in saw the first one only' test "$(upstream_saw | wc -l)" = 1


step '7. A name that is not bound gets no certificate: the handshake is refused'
out=$("${curl[@]}" https://example.com/ 2>&1)
check 'curl ends in the handshake (exit 35)' test $? = 35
check "and prints the alert: ${out##*:}" grep -qi 'unrecognized name' <<<"$out"


proxy_steps 8
transparent_step 13


step '14. The secret is removed: from the next second on nothing is sent'
rm "$dir/secrets/github"
mark
started=$(date +%s%N)
for ((i = 0; i < 30; i++)); do
    out=$(bearer -i https://api.github.com/user 2>&1)
    [[ $out == HTTP/*" 200"* ]] || break
    sleep 0.1
done
took=$((($(date +%s%N) - started) / 1000000))
check "refused after $took ms (secret_check is one second)" test "$took" -lt 2000
check 'the status is 403' grep -q '^HTTP/[0-9.]* 403' <<<"$out"
check "$(grep -i '^proxy-status:' <<<"$out" | tr -d '\r')" grep -qi '^proxy-status:.*credential_missing' <<<"$out"
mark
out=$(bearer -o /dev/null -w '%{http_code}' https://api.github.com/user 2>&1)
check 'and again, with nothing sent upstream' test "$out:$(upstream_saw)" = 403:
mark
out=$("${curl[@]}" -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $tracker_placeholder" \
      https://tracker.example.test/issues 2>&1)
check 'the other binding goes on' test "$out" = 200
check 'with its own token' contains "$(upstream_saw)" "\"authorization\":\"Bearer $tracker_real\""


step '15. Each decision is in the audit log, none of the tokens is'
check 'no token in what the gateway wrote' test -z "$(grep -lrFe "$real" -e "$tracker_real" -e "$(
    printf 'x-access-token:%s' "$real" | openssl base64 -A)" "$dir/logs" "$dir/tmp")"
check 'no alarm in its error log' test -z "$(grep -E '\[(emerg|alert|crit)\]' "$dir/logs/error.log")"
# shellcheck disable=SC2016
perl -MJSON::PP -ne '
    my $r = eval { decode_json($_) } or next;
    next unless $r->{event} eq "decision" || $r->{event} eq "connection" && $r->{decision} eq "deny";
    my $path = $r->{path} // "";
    $path = substr($path, 0, 30) . "..." if length $path > 33;
    my $line = sprintf "    %-5s %-20s %-7s %-5s %-20s %-33s %s", @$r{qw(decision reason via)}, $r->{method} // "",
        $r->{host} // "", $path, $r->{credential} // "";
    print "$line\n" unless $seen{$line}++;' "$dir/logs/egress.json"
check 'the tunnel to a host that is not allowed is there, refused' grep -q \
    '"via":"connect".*"host":"example.com".*"decision":"deny","reason":"destination_refused"' "$dir/logs/egress.json"
check 'the push is there as a refused write' grep -q '"path":"/octo/private.git/info/refs".*"reason":"write_refused"' \
    "$dir/logs/egress.json"


printf '\n%d passed, %d failed\n' "$passed" "$failed"

if [ "${KEEP:-0}" = 1 ]; then
    kept=1
    printf '%s\n' "$real" >"$dir/secrets/.new"
    chmod 0640 "$dir/secrets/.new"
    chgrp "$group" "$dir/secrets/.new"
    mv "$dir/secrets/.new" "$dir/secrets/github"
    [ -z "$helper_pid" ] || disown "$helper_pid"
    sleep 1.2
    cat <<END

Everything is left running, the secret is back. In another terminal:

    dir=$dir
    placeholder=$placeholder
    export HOME=\$dir/home GIT_CONFIG_NOSYSTEM=1 GIT_SSL_CAINFO=\$dir/ca/ca.pem

    curl -q -sS --noproxy '*' --cacert \$dir/ca/ca.pem --connect-to ::$address:$port \\
        -H "Authorization: Bearer \$placeholder" https://api.github.com/user

    HTTPS_PROXY=http://$gateway curl -q -sS --cacert \$dir/ca/ca.pem \\
        -H "Authorization: Bearer \$placeholder" https://api.github.com/user

    $(printf '%s ' "${git[@]}" | sed "s|$dir|\$dir|g")clone \\
        https://x-access-token:\$placeholder@github.com/octo/private.git

    tail -f \$dir/logs/egress.json \$dir/standin/record.log

and to stop:

    kill \$(cat \$dir/nginx.pid)${helper_pid:+ $helper_pid}; sh $here/standin.sh stop \$dir/standin; rm -rf \$dir
END
fi

[ "$failed" = 0 ]
