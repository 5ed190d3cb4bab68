
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_socks5.h"


#define NGX_EGRESS_SOCKS5_CONNECT  1

#define NGX_EGRESS_SOCKS5_INET     1
#define NGX_EGRESS_SOCKS5_NAME     3
#define NGX_EGRESS_SOCKS5_INET6    4


static ngx_int_t ngx_egress_socks5_header(u_char *data, size_t len,
    ngx_egress_socks5_t *socks, ngx_str_t *address);
static ngx_int_t ngx_egress_socks5_refused(ngx_egress_socks5_t *socks,
    ngx_uint_t reply);
static ngx_int_t ngx_egress_socks5_address(ngx_uint_t type,
    ngx_str_t *address, ngx_egress_host_t *host);


ngx_int_t
ngx_egress_socks5_methods(u_char *data, size_t len,
    ngx_egress_socks5_t *socks)
{
    size_t  i;

    socks->none = 0;
    socks->password = 0;
    socks->reply = 0;

    if (len && data[0] != NGX_EGRESS_SOCKS5_VERSION) {
        return NGX_ERROR;
    }

    if (len < 2 || len - 2 < data[1]) {
        return NGX_AGAIN;
    }

    for (i = 0; i < data[1]; i++) {

        switch (data[2 + i]) {

        case NGX_EGRESS_SOCKS5_NONE:
            socks->none = 1;
            break;

        case NGX_EGRESS_SOCKS5_PASSWORD:
            socks->password = 1;
            break;
        }
    }

    socks->len = 2 + data[1];

    return NGX_OK;
}


ngx_int_t
ngx_egress_socks5_password(u_char *data, size_t len,
    ngx_egress_socks5_t *socks)
{
    size_t  n;

    socks->reply = 0;

    if (len && data[0] != NGX_EGRESS_SOCKS5_AUTH_VERSION) {
        return NGX_ERROR;
    }

    if (len < 2) {
        return NGX_AGAIN;
    }

    n = 2 + data[1];

    if (len <= n || len - n - 1 < data[n]) {
        return NGX_AGAIN;
    }

    socks->user.data = data + 2;
    socks->user.len = data[1];
    socks->token.data = data + n + 1;
    socks->token.len = data[n];

    socks->len = n + 1 + data[n];

    return NGX_OK;
}


ngx_int_t
ngx_egress_socks5_request(u_char *data, size_t len,
    ngx_egress_socks5_t *socks)
{
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   address;

    socks->reply = 0;

    rc = ngx_egress_socks5_header(data, len, socks, &address);

    if (rc != NGX_OK) {
        return rc;
    }

    /* the port follows */

    if ((size_t) (data + len - address.data) < address.len + 2) {
        return NGX_AGAIN;
    }

    p = address.data + address.len;

    socks->len = p + 2 - data;

    if (ngx_egress_socks5_address(data[3], &address, &socks->host) != NGX_OK) {
        return ngx_egress_socks5_refused(socks, NGX_EGRESS_SOCKS5_FAILURE);
    }

    socks->host.port = (in_port_t) ((p[0] << 8) + p[1]);

    if (socks->host.port == 0) {
        return ngx_egress_socks5_refused(socks, NGX_EGRESS_SOCKS5_FAILURE);
    }

    return NGX_OK;
}


/* up to the address, all of which need not be there yet */

static ngx_int_t
ngx_egress_socks5_header(u_char *data, size_t len,
    ngx_egress_socks5_t *socks, ngx_str_t *address)
{
    if (len && data[0] != NGX_EGRESS_SOCKS5_VERSION) {
        return NGX_ERROR;
    }

    if (len > 1 && data[1] != NGX_EGRESS_SOCKS5_CONNECT) {
        return ngx_egress_socks5_refused(socks, NGX_EGRESS_SOCKS5_NO_COMMAND);
    }

    if (len > 2 && data[2] != 0) {
        return ngx_egress_socks5_refused(socks, NGX_EGRESS_SOCKS5_FAILURE);
    }

    if (len < 4) {
        return NGX_AGAIN;
    }

    address->data = data + 4;

    switch (data[3]) {

    case NGX_EGRESS_SOCKS5_INET:
        address->len = 4;
        return NGX_OK;

    case NGX_EGRESS_SOCKS5_INET6:
        address->len = 16;
        return NGX_OK;

    case NGX_EGRESS_SOCKS5_NAME:

        if (len < 5) {
            return NGX_AGAIN;
        }

        address->data = data + 5;
        address->len = data[4];
        return NGX_OK;

    default:
        return ngx_egress_socks5_refused(socks, NGX_EGRESS_SOCKS5_NO_ADDRESS);
    }
}


static ngx_int_t
ngx_egress_socks5_refused(ngx_egress_socks5_t *socks, ngx_uint_t reply)
{
    socks->reply = reply;

    return NGX_ERROR;
}


static ngx_int_t
ngx_egress_socks5_address(ngx_uint_t type, ngx_str_t *address,
    ngx_egress_host_t *host)
{
    if (type == NGX_EGRESS_SOCKS5_NAME) {
        return ngx_egress_host_parse(address, NGX_EGRESS_HOST_NAME, 0, host);
    }

    ngx_memzero(host->addr, sizeof(host->addr));
    ngx_memcpy(host->addr, address->data, address->len);

    host->family = (type == NGX_EGRESS_SOCKS5_INET) ? AF_INET : AF_INET6;

    if (inet_ntop(host->family, host->addr, (char *) host->name,
                  sizeof(host->name))
        == NULL)
    {
        return NGX_ERROR;
    }

    host->len = ngx_strlen(host->name);

    return NGX_OK;
}
