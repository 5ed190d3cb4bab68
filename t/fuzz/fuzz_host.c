
/*
 * Copyright (C) the nginx egress gateway authors
 */


/* input: an octet that tells the form, then the name */


#include "fuzz.h"
#include "ngx_egress_host.h"


#define FUZZ_PORT  8443


static void fuzz_host_check(ngx_egress_host_t *host, ngx_uint_t form);
static void fuzz_host_again(ngx_egress_host_t *host);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_int_t           rc;
    ngx_str_t           in;
    ngx_uint_t          form;
    ngx_egress_host_t   host;

    if (size == 0) {
        return 0;
    }

    form = data[0] % 3;
    fuzz_copy(&in, data + 1, size - 1);

    memset(&host, 0xff, sizeof(ngx_egress_host_t));

    rc = ngx_egress_host_parse(&in, form, FUZZ_PORT, &host);

    fuzz_require(rc == NGX_OK || rc == NGX_ERROR);
    fuzz_require(in.len == 0 || memcmp(in.data, data + 1, in.len) == 0);

    free(in.data);

    if (rc == NGX_OK) {
        fuzz_host_check(&host, form);
        fuzz_host_again(&host);
    }

    return 0;
}


static void
fuzz_host_check(ngx_egress_host_t *host, ngx_uint_t form)
{
    u_char  c;
    size_t  i;

    fuzz_require(host->len > 0 && host->len <= NGX_EGRESS_HOST_LEN);
    fuzz_require(host->name[host->len] == '\0');
    fuzz_require(host->name[host->len - 1] != '.');
    fuzz_require(host->port != 0);

    fuzz_require(host->family == AF_UNSPEC || host->family == AF_INET
                 || host->family == AF_INET6);

    if (form == NGX_EGRESS_HOST_NAME) {
        fuzz_require(host->port == FUZZ_PORT && host->family != AF_INET6);
    }

    for (i = 0; i < host->len; i++) {
        c = host->name[i];

        fuzz_require((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
                     || c == '-' || c == '.'
                     || (c == ':' && host->family == AF_INET6));
    }
}


/* the canonical form is its own canonical form, in each place for a host */

static void
fuzz_host_again(ngx_egress_host_t *host)
{
    ngx_str_t           str;
    ngx_uint_t          form, inet6;
    ngx_egress_host_t   again;
    u_char              text[NGX_EGRESS_HOST_LEN + sizeof("[]:65535")];

    inet6 = (host->family == AF_INET6);

    for (form = 0; form < 3; form++) {

        if (form == NGX_EGRESS_HOST_NAME && inet6) {
            continue;
        }

        str.len = snprintf((char *) text, sizeof(text),
                           inet6 ? "[%s]:%d" : "%s:%d",
                           (char *) host->name, host->port);

        if (form == NGX_EGRESS_HOST_NAME) {
            str.len = host->len;
        }

        fuzz_copy(&str, text, str.len);

        fuzz_require(ngx_egress_host_parse(&str, form, host->port, &again)
                     == NGX_OK);

        free(str.data);

        fuzz_require(again.len == host->len && again.port == host->port
                     && again.family == host->family);
        fuzz_require(memcmp(again.name, host->name, host->len + 1) == 0);
        fuzz_require(memcmp(again.addr, host->addr, 16) == 0);
    }
}
