#!/bin/bash
# Copies the modules and presets to where the distribution's nginx finds them.
# usage: install.sh MODULES_DIR [DESTDIR]

set -eu

from=$1
dest=${2:-}

modules=$(nginx -V 2>&1 | tr ' ' '\n' | sed -n 's/^--modules-path=//p')
conf=$(nginx -V 2>&1 | tr ' ' '\n' | sed -n 's/^--conf-path=//p')

if [ -z "$modules" ] || [ -z "$conf" ]; then
    echo "nginx -V tells no modules path: copy $from/*.so by hand" >&2
    exit 1
fi

conf=$(dirname "$conf")

install -d "$dest$modules" "$dest$conf/egress/bindings"
install -m 644 "$from"/*.so "$dest$modules/"
install -m 644 conf-examples/bindings/*.conf "$dest$conf/egress/bindings/"

# Debian loads modules by the order of these names; stream is 50

if [ -d "$dest$conf/modules-enabled" ]; then
    echo "load_module modules/ngx_http_egress_module.so;" \
        > "$dest$conf/modules-enabled/70-mod-http-egress.conf"
    echo "load_module modules/ngx_stream_egress_module.so;" \
        > "$dest$conf/modules-enabled/70-mod-stream-egress.conf"
fi

echo "installed to $dest$modules and $dest$conf/egress/bindings"
echo "a reload keeps old module code: restart nginx"
