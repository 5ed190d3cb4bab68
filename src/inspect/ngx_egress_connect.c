
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_authorization.h"
#include "ngx_egress_connect.h"


static ngx_int_t ngx_egress_connect_line(u_char **pos, u_char *last,
    ngx_str_t *line);
static ngx_int_t ngx_egress_connect_request(ngx_str_t *line,
    ngx_egress_connect_t *connect);
static ngx_int_t ngx_egress_connect_fields(u_char **pos, u_char *last,
    ngx_str_t *authorization, ngx_egress_connect_t *connect);
static ngx_int_t ngx_egress_connect_field(ngx_str_t *line, ngx_str_t *name,
    ngx_str_t *value);
static ngx_uint_t ngx_egress_connect_is(ngx_str_t *name, const char *text);
static ngx_uint_t ngx_egress_connect_token(u_char *p, u_char *last);
static void ngx_egress_connect_credentials(ngx_str_t *value, u_char *buf,
    ngx_egress_connect_t *connect);


ngx_int_t
ngx_egress_connect_parse(u_char *data, size_t len, u_char *buf,
    ngx_egress_connect_t *connect)
{
    u_char     *p, *last;
    ngx_int_t   rc;
    ngx_str_t   line, authorization;

    p = data;
    last = data + ngx_min(len, NGX_EGRESS_CONNECT_LEN);

    ngx_str_null(&connect->user);
    ngx_str_null(&connect->token);
    connect->authorization = 0;
    connect->origin = 0;

    ngx_str_null(&authorization);

    rc = ngx_egress_connect_line(&p, last, &line);

    if (rc == NGX_OK) {
        rc = ngx_egress_connect_request(&line, connect);
    }

    if (rc == NGX_OK) {
        rc = ngx_egress_connect_fields(&p, last, &authorization, connect);
    }

    if (rc == NGX_AGAIN && len >= NGX_EGRESS_CONNECT_LEN) {
        return NGX_ERROR;
    }

    if (rc != NGX_OK) {
        return rc;
    }

    connect->len = p - data;

    if (connect->authorization) {
        ngx_egress_connect_credentials(&authorization, buf, connect);
    }

    return NGX_OK;
}


/* one line without its CRLF; a control byte is an error at once */

static ngx_int_t
ngx_egress_connect_line(u_char **pos, u_char *last, ngx_str_t *line)
{
    u_char  *p;

    for (p = *pos; p < last; p++) {

        if (*p == CR) {

            if (p + 1 == last) {
                return NGX_AGAIN;
            }

            if (p[1] != LF) {
                return NGX_ERROR;
            }

            line->data = *pos;
            line->len = p - *pos;
            *pos = p + 2;

            return NGX_OK;
        }

        if ((*p < 0x20 && *p != '\t') || *p == 0x7f) {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


/* "method SP target SP version", one space each (RFC 9112, 3) */

static ngx_int_t
ngx_egress_connect_request(ngx_str_t *line, ngx_egress_connect_t *connect)
{
    u_char     *p, *last, *target, *version;
    ngx_str_t   text;

    p = line->data;
    last = p + line->len;

    for (target = p; target < last && *target != ' '; target++) {
        /* void */
    }

    if (target == last || !ngx_egress_connect_token(p, target)) {
        return NGX_ERROR;
    }

    target++;

    for (version = target; version < last && *version != ' '; version++) {
        if (*version == '\t') {
            return NGX_ERROR;
        }
    }

    if (last - version != sizeof(" HTTP/1.1") - 1
        || ngx_memcmp(version, " HTTP/1.", sizeof(" HTTP/1.") - 1) != 0
        || (last[-1] != '0' && last[-1] != '1'))
    {
        return NGX_ERROR;
    }

    text.data = p;
    text.len = target - 1 - p;

    if (!ngx_egress_connect_is(&text, "connect")) {
        connect->origin = (*target == '/');
        return NGX_DECLINED;
    }

    /* methods have a case (RFC 9110, 9.1) */

    if (ngx_memcmp(p, "CONNECT", sizeof("CONNECT") - 1) != 0) {
        return NGX_ERROR;
    }

    text.data = target;
    text.len = version - target;

    return ngx_egress_host_parse(&text, NGX_EGRESS_HOST_CONNECT, 0,
                                 &connect->host);
}


/* up to the empty line, and behind it */

static ngx_int_t
ngx_egress_connect_fields(u_char **pos, u_char *last,
    ngx_str_t *authorization, ngx_egress_connect_t *connect)
{
    ngx_int_t   rc;
    ngx_str_t   line, name, value;
    ngx_uint_t  fields, hosts;

    hosts = 0;

    for (fields = 0; /* void */ ; fields++) {

        rc = ngx_egress_connect_line(pos, last, &line);

        if (rc != NGX_OK || line.len == 0) {
            return rc;
        }

        if (fields == NGX_EGRESS_CONNECT_FIELDS
            || ngx_egress_connect_field(&line, &name, &value) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (ngx_egress_connect_is(&name, "host") && hosts++) {
            return NGX_ERROR;
        }

        /* a body would be read as the start of the tunnel by others */

        if (ngx_egress_connect_is(&name, "transfer-encoding")
            || (ngx_egress_connect_is(&name, "content-length")
                && (value.len != 1 || value.data[0] != '0')))
        {
            return NGX_ERROR;
        }

        if (ngx_egress_connect_is(&name, "proxy-authorization")) {

            if (connect->authorization) {
                return NGX_ERROR;
            }

            connect->authorization = 1;
            *authorization = value;
        }
    }
}


static ngx_int_t
ngx_egress_connect_field(ngx_str_t *line, ngx_str_t *name, ngx_str_t *value)
{
    u_char  *p, *last;

    p = line->data;
    last = p + line->len;

    name->data = p;

    while (p < last && *p != ':') {
        p++;
    }

    /* a line that begins with white space has no token there */

    if (p == last || !ngx_egress_connect_token(name->data, p)) {
        return NGX_ERROR;
    }

    name->len = p - name->data;
    p++;

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    while (last > p && (last[-1] == ' ' || last[-1] == '\t')) {
        last--;
    }

    value->data = p;
    value->len = last - p;

    return NGX_OK;
}


/* "text" is in lower case */

static ngx_uint_t
ngx_egress_connect_is(ngx_str_t *name, const char *text)
{
    size_t  i;

    for (i = 0; i < name->len; i++) {
        if (text[i] == '\0' || ngx_tolower(name->data[i]) != text[i]) {
            return 0;
        }
    }

    return text[i] == '\0';
}


/* RFC 9110, 5.6.2 */

static ngx_uint_t
ngx_egress_connect_token(u_char *p, u_char *last)
{
    u_char  c;

    if (p == last) {
        return 0;
    }

    for ( /* void */ ; p < last; p++) {
        c = ngx_tolower(*p);

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9')
            && (c == '\0' || ngx_strchr("!#$%&'*+-.^_`|~", c) == NULL))
        {
            return 0;
        }
    }

    return 1;
}


static void
ngx_egress_connect_credentials(ngx_str_t *value, u_char *buf,
    ngx_egress_connect_t *connect)
{
    ngx_egress_authorization_t  auth;

    if (ngx_egress_authorization_parse(value, buf, &auth) != NGX_OK
        || auth.form != NGX_EGRESS_AUTH_BASIC
        || auth.user.len == 0)
    {
        return;
    }

    connect->user = auth.user;
    connect->token = auth.password;
}
