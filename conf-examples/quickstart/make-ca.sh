#!/bin/sh
# Makes a certificate authority of your own for the gateway.
#
#     make-ca.sh DIR [NAME [HOST...]]
#
# writes DIR/ca.pem (for the clients' trust stores) and DIR/ca.key (for the gateway alone, mode 0600).
# With hosts the CA is good for these names and the names below them only, whatever its key is made to sign.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 DIR [NAME [HOST...]]" >&2; exit 2; }

dir=$1
name=${2:-egress gateway CA}
shift
[ $# -eq 0 ] || shift

if [ -e "$dir/ca.key" ] || [ -e "$dir/ca.pem" ]; then
    echo "$0: $dir has a CA already: move it away first" >&2
    exit 1
fi

umask 077
mkdir -p "$dir"
conf=$(mktemp)
trap 'rm -f "$conf"' EXIT

{
    cat <<CONF
[req]
prompt = no
string_mask = utf8only
distinguished_name = dn
x509_extensions = ca
[dn]
CN = $name
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
CONF
    if [ $# -gt 0 ]; then
        echo 'nameConstraints = critical, @names'
        echo '[names]'
        n=0
        for host in "$@"; do
            echo "permitted;DNS.$n = $host"
            n=$((n + 1))
        done
        echo 'excluded;IP.0 = 0.0.0.0/0.0.0.0'
        echo 'excluded;IP.1 = 0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0'
    fi
} >"$conf"

openssl req -new -x509 -sha256 -days 825 -config "$conf" -nodes \
    -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
    -keyout "$dir/ca.key" -out "$dir/ca.pem" 2>/dev/null

chmod 0644 "$dir/ca.pem"
