
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_host.h"


#define NGX_EGRESS_HOST_LABEL_LEN  63
#define NGX_EGRESS_HOST_PORT_LEN   5


static ngx_int_t ngx_egress_host_name(u_char *p, u_char *last,
    ngx_egress_host_t *host);
static ngx_uint_t ngx_egress_host_is_number(u_char *p, u_char *last);
static ngx_int_t ngx_egress_host_inet6(u_char *p, u_char *last,
    ngx_egress_host_t *host);
static ngx_int_t ngx_egress_host_port(u_char *p, u_char *last,
    ngx_egress_host_t *host);


ngx_int_t
ngx_egress_host_parse(ngx_str_t *in, ngx_uint_t form, in_port_t port,
    ngx_egress_host_t *host)
{
    u_char     *p, *end, *last;
    ngx_int_t   rc;

    if (in->len == 0) {
        return NGX_ERROR;
    }

    p = in->data;
    last = p + in->len;

    host->port = port;
    host->family = AF_UNSPEC;
    ngx_memzero(host->addr, sizeof(host->addr));

    if (form == NGX_EGRESS_HOST_NAME) {
        return ngx_egress_host_name(p, last, host);
    }

    if (*p == '[') {

        /* an IP-literal of RFC 3986, 3.2.2; IPvFuture is no host to us */

        end = ngx_strlchr(p, last, ']');

        if (end == NULL) {
            return NGX_ERROR;
        }

        rc = ngx_egress_host_inet6(p + 1, end, host);
        end++;

    } else {

        /* the first colon: a second one is no digit of a port */

        end = ngx_strlchr(p, last, ':');

        if (end == NULL) {
            end = last;
        }

        rc = ngx_egress_host_name(p, end, host);
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    if (end == last) {
        return (form == NGX_EGRESS_HOST_CONNECT) ? NGX_ERROR : NGX_OK;
    }

    if (*end != ':') {
        return NGX_ERROR;
    }

    return ngx_egress_host_port(end + 1, last, host);
}


static ngx_int_t
ngx_egress_host_name(u_char *p, u_char *last, ngx_egress_host_t *host)
{
    u_char  c, *dst, *label;

    /* a trailing dot names the root (RFC 1034, 3.1): the same host */

    if (p < last && *(last - 1) == '.') {
        last--;
    }

    if (p == last || last - p > NGX_EGRESS_HOST_LEN) {
        return NGX_ERROR;
    }

    dst = host->name;
    label = dst;

    for ( /* void */ ; p < last; p++) {
        c = ngx_tolower(*p);

        if (c == '.') {

            if (dst == label || dst - label > NGX_EGRESS_HOST_LABEL_LEN) {
                return NGX_ERROR;
            }

            label = dst + 1;

        } else if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-') {
            return NGX_ERROR;
        }

        *dst++ = c;
    }

    if (dst == label || dst - label > NGX_EGRESS_HOST_LABEL_LEN) {
        return NGX_ERROR;
    }

    *dst = '\0';
    host->len = dst - host->name;

    if (!ngx_egress_host_is_number(label, dst)) {
        return NGX_OK;
    }

    /*
     * Resolvers read a name that ends in a number as an IPv4 address of one
     * of the forms of inet_aton(): all but dotted decimals are refused, so
     * that the name is read in one way only.
     */

    if (inet_pton(AF_INET, (char *) host->name, host->addr) != 1) {
        return NGX_ERROR;
    }

    host->family = AF_INET;

    return NGX_OK;
}


static ngx_uint_t
ngx_egress_host_is_number(u_char *p, u_char *last)
{
    u_char      c;
    ngx_uint_t  hex;

    hex = 0;

    if (last - p >= 2 && p[0] == '0' && p[1] == 'x') {
        hex = 1;
        p += 2;
    }

    for ( /* void */ ; p < last; p++) {
        c = *p;

        if (c >= '0' && c <= '9') {
            continue;
        }

        if (hex && c >= 'a' && c <= 'f') {
            continue;
        }

        return 0;
    }

    return 1;
}


static ngx_int_t
ngx_egress_host_inet6(u_char *p, u_char *last, ngx_egress_host_t *host)
{
    u_char  c;
    size_t  len;
    char    text[INET6_ADDRSTRLEN];

    len = last - p;

    if (len == 0 || len >= INET6_ADDRSTRLEN) {
        return NGX_ERROR;
    }

    /* no zone and no zero byte gets to inet_pton() */

    for (len = 0; p < last; p++) {
        c = ngx_tolower(*p);

        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')
            && c != ':' && c != '.')
        {
            return NGX_ERROR;
        }

        text[len++] = c;
    }

    text[len] = '\0';

    if (inet_pton(AF_INET6, text, host->addr) != 1) {
        return NGX_ERROR;
    }

    /* one spelling of an address, whatever was sent (RFC 5952) */

    if (inet_ntop(AF_INET6, host->addr, (char *) host->name,
                  sizeof(host->name))
        == NULL)
    {
        return NGX_ERROR;
    }

    host->family = AF_INET6;
    host->len = ngx_strlen(host->name);

    return NGX_OK;
}


static ngx_int_t
ngx_egress_host_port(u_char *p, u_char *last, ngx_egress_host_t *host)
{
    ngx_uint_t  port;

    /* a leading zero is refused, and with it port 0 */

    if (p == last || last - p > NGX_EGRESS_HOST_PORT_LEN || *p == '0') {
        return NGX_ERROR;
    }

    port = 0;

    for ( /* void */ ; p < last; p++) {

        if (*p < '0' || *p > '9') {
            return NGX_ERROR;
        }

        port = port * 10 + (*p - '0');
    }

    if (port > 65535) {
        return NGX_ERROR;
    }

    host->port = (in_port_t) port;

    return NGX_OK;
}
