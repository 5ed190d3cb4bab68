#!/bin/bash
# Copies the modules and presets to where the distribution's nginx finds them.
# usage: install.sh MODULES_DIR [DESTDIR]

set -eu

from=$1
dest=${2:-}

option() {
    nginx -V 2>&1 | tr ' ' '\n' | sed -n "s/^--$1=//p"
}

modules=$(option modules-path)
conf=$(option conf-path)

if [ -z "$modules" ] || [ -z "$conf" ]; then
    echo "nginx -V tells no modules path: copy $from/*.so by hand" >&2
    exit 1
fi

conf=$(dirname "$conf")

install -d "$dest$modules" "$dest$conf/egress/bindings"
install -m 644 "$from"/*.so "$dest$modules/"
install -m 644 conf-examples/bindings/*.conf "$dest$conf/egress/bindings/"

echo "installed to $dest$modules and $dest$conf/egress/bindings"


# Debian has a file for each module, and loads those that are linked to, in the
# order of the links: its stream module is 50, which ours has to follow

available=$(option prefix)/modules-available
enabled=$conf/modules-enabled

if [ -d "$available" ] && [ -d "$enabled" ]; then
    install -d "$dest$available" "$dest$enabled"

    for m in http stream; do
        file=mod-$m-egress.conf

        echo "load_module modules/ngx_${m}_egress_module.so;" \
            > "$dest$available/$file"
        chmod 644 "$dest$available/$file"

        # the stream module may not be there

        if [ "$m" = http ] || [ -e "$modules/ngx_stream_module.so" ]; then
            ln -sf "$available/$file" "$dest$enabled/70-$file"
        fi
    done

    echo "enabled by $dest$enabled/70-*"
fi

echo "a reload keeps old module code: restart nginx"
