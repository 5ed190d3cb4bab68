
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include "ngx_egress_authorization.h"
#include "ngx_egress_plain.h"


#define NGX_EGRESS_AUTH_GROUP  4    /* base64 characters for 3 octets */


static ngx_int_t ngx_egress_authorization_check(ngx_str_t *value,
    ngx_egress_authorization_t *auth);
static ngx_uint_t ngx_egress_authorization_is_token(ngx_str_t *token);
static ngx_uint_t ngx_egress_authorization_is_scheme(u_char *p, size_t len,
    const char *scheme);
static ngx_int_t ngx_egress_authorization_basic(u_char *buf,
    ngx_egress_authorization_t *auth);
static ssize_t ngx_egress_authorization_decode(u_char *dst, ngx_str_t *src);
static ngx_int_t ngx_egress_authorization_base64(u_char c);
static u_char *ngx_egress_authorization_encode(u_char *p, u_char *src,
    size_t len);
static u_char *ngx_egress_authorization_copy(u_char *p, ngx_str_t *str);


ngx_int_t
ngx_egress_authorization_parse(ngx_str_t *value, u_char *buf,
    ngx_egress_authorization_t *auth)
{
    size_t       len;
    u_char      *p, *last, *space;
    ngx_uint_t   basic;

    if (ngx_egress_authorization_check(value, auth) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value->len == 0) {
        return NGX_OK;
    }

    p = value->data;
    last = p + value->len;

    space = memchr(p, ' ', value->len);
    basic = 0;

    if (space) {

        len = space - p;

        if (ngx_egress_authorization_is_scheme(p, len, "basic")) {
            basic = 1;

        } else if ((len != 6 || ngx_memcmp(p, "Bearer", 6) != 0)
                   && !ngx_egress_authorization_is_scheme(p, len, "bearer")
                   && !ngx_egress_authorization_is_scheme(p, len, "token"))
        {
            return NGX_DECLINED;
        }

        /* RFC 9110, 11.4: 1*SP, which leaves out tabs */

        while (space < last && *space == ' ') {
            space++;
        }

        auth->head.data = p;
        auth->head.len = space - p;
        p = space;
    }

    auth->token.data = p;
    auth->token.len = last - p;

    if (!ngx_egress_authorization_is_token(&auth->token)) {
        return NGX_DECLINED;
    }

    if (basic) {
        return ngx_egress_authorization_basic(buf, auth);
    }

    auth->form = NGX_EGRESS_AUTH_PLAIN;

    return NGX_OK;
}


ngx_int_t
ngx_egress_authorization_parse_affixed(ngx_str_t *value, ngx_str_t *prefix,
    ngx_str_t *suffix, ngx_egress_authorization_t *auth)
{
    u_char  *p, *last;

    if (ngx_egress_authorization_check(value, auth) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value->len == 0) {
        return NGX_OK;
    }

    /* compared before they are added up: prefix and suffix may not overlap */

    if (value->len <= prefix->len || value->len - prefix->len <= suffix->len) {
        return NGX_DECLINED;
    }

    p = value->data;
    last = p + value->len - suffix->len;

    if (prefix->len && ngx_memcmp(p, prefix->data, prefix->len) != 0) {
        return NGX_DECLINED;
    }

    if (suffix->len && ngx_memcmp(last, suffix->data, suffix->len) != 0) {
        return NGX_DECLINED;
    }

    auth->head.data = p;
    auth->head.len = prefix->len;

    auth->token.data = p + prefix->len;
    auth->token.len = last - auth->token.data;

    auth->tail.data = last;
    auth->tail.len = suffix->len;

    if (!ngx_egress_authorization_is_token(&auth->token)) {
        return NGX_DECLINED;
    }

    auth->form = NGX_EGRESS_AUTH_PLAIN;

    return NGX_OK;
}


/* RFC 9110, 5.5: of all control characters a field value may hold a tab */

static ngx_int_t
ngx_egress_authorization_check(ngx_str_t *value,
    ngx_egress_authorization_t *auth)
{
    u_char  c;
    size_t  i;

    ngx_memzero(auth, sizeof(ngx_egress_authorization_t));

    if (ngx_egress_plain(value->data, value->len, 0x20, 0x7f, 0x7f, 0x7f)) {
        return NGX_OK;
    }

    for (i = 0; i < value->len; i++) {
        c = value->data[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* white space is in no placeholder: a list of two credentials is none */

static ngx_uint_t
ngx_egress_authorization_is_token(ngx_str_t *token)
{
    return token->len != 0
           && memchr(token->data, ' ', token->len) == NULL
           && memchr(token->data, '\t', token->len) == NULL;
}


static ngx_uint_t
ngx_egress_authorization_is_scheme(u_char *p, size_t len, const char *scheme)
{
    size_t  i;

    if (len != ngx_strlen(scheme)) {
        return 0;
    }

    for (i = 0; i < len; i++) {
        if (ngx_tolower(p[i]) != (u_char) scheme[i]) {
            return 0;
        }
    }

    return 1;
}


static ngx_int_t
ngx_egress_authorization_basic(u_char *buf, ngx_egress_authorization_t *auth)
{
    u_char   *p, *last, *colon;
    ssize_t   n;

    n = ngx_egress_authorization_decode(buf, &auth->token);

    if (n == NGX_ERROR) {
        return NGX_DECLINED;
    }

    last = buf + n;

    /* RFC 7617, 2: no control characters, and the user has no colon */

    colon = NULL;

    for (p = buf; p < last; p++) {

        if (*p < 0x20 || *p == 0x7f) {
            return NGX_DECLINED;
        }

        if (*p == ':' && colon == NULL) {
            colon = p;
        }
    }

    if (colon == NULL) {
        return NGX_DECLINED;
    }

    auth->form = NGX_EGRESS_AUTH_BASIC;

    ngx_str_null(&auth->token);

    auth->user.data = buf;
    auth->user.len = colon - buf;

    auth->password.data = colon + 1;
    auth->password.len = last - colon - 1;

    return NGX_OK;
}


/*
 * Strict base64 (RFC 4648, 3.2, 3.3 and 3.5).  EVP_DecodeBlock() by itself
 * passes over white space and does not look at the bits that padding leaves.
 * Writes whole groups of 3 octets to "dst".
 */

static ssize_t
ngx_egress_authorization_decode(u_char *dst, ngx_str_t *src)
{
    size_t      i, len, rest, whole;
    u_char     *p;
    ngx_int_t   value;
    u_char      last[NGX_EGRESS_AUTH_GROUP];

    p = src->data;
    len = src->len;

    if (len > NGX_MAX_INT32_VALUE) {
        return NGX_ERROR;
    }

    if (len % NGX_EGRESS_AUTH_GROUP == 0) {
        for (i = 0; i < 2 && len && p[len - 1] == '='; i++) {
            len--;
        }
    }

    value = 0;

    for (i = 0; i < len; i++) {
        value = ngx_egress_authorization_base64(p[i]);

        if (value == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    rest = len % NGX_EGRESS_AUTH_GROUP;
    whole = len - rest;

    if (len == 0 || rest == 1
        || (rest == 2 && (value & 0xf)) || (rest == 3 && (value & 0x3)))
    {
        return NGX_ERROR;
    }

    if (whole && EVP_DecodeBlock(dst, p, (int) whole) == -1) {
        return NGX_ERROR;
    }

    len = whole / 4 * 3;

    if (rest == 0) {
        return len;
    }

    ngx_memset(last, '=', NGX_EGRESS_AUTH_GROUP);
    ngx_memcpy(last, p + whole, rest);

    if (EVP_DecodeBlock(dst + len, last, NGX_EGRESS_AUTH_GROUP) == -1) {
        return NGX_ERROR;
    }

    return len + rest - 1;
}


static ngx_int_t
ngx_egress_authorization_base64(u_char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }

    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }

    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }

    switch (c) {

    case '+':
        return 62;

    case '/':
        return 63;

    default:
        return NGX_ERROR;
    }
}


size_t
ngx_egress_authorization_len(ngx_egress_authorization_t *auth,
    ngx_uint_t user, ngx_uint_t password, ngx_str_t *secret)
{
    size_t  len;

    switch (auth->form) {

    case NGX_EGRESS_AUTH_PLAIN:
        len = secret->len;
        break;

    case NGX_EGRESS_AUTH_BASIC:
        len = (user ? secret->len : auth->user.len) + 1
              + (password ? secret->len : auth->password.len);

        len = ngx_base64_encoded_length(len);
        break;

    default: /* NGX_EGRESS_AUTH_NONE */
        return 0;
    }

    return auth->head.len + len + auth->tail.len;
}


u_char *
ngx_egress_authorization_build(u_char *p, ngx_egress_authorization_t *auth,
    ngx_uint_t user, ngx_uint_t password, ngx_str_t *secret, u_char *scratch)
{
    u_char  *last;

    switch (auth->form) {

    case NGX_EGRESS_AUTH_PLAIN:
        p = ngx_egress_authorization_copy(p, &auth->head);
        p = ngx_egress_authorization_copy(p, secret);
        break;

    case NGX_EGRESS_AUTH_BASIC:
        p = ngx_egress_authorization_copy(p, &auth->head);

        last = ngx_egress_authorization_copy(scratch,
                                             user ? secret : &auth->user);
        *last++ = ':';
        last = ngx_egress_authorization_copy(last,
                                             password ? secret
                                                      : &auth->password);

        p = ngx_egress_authorization_encode(p, scratch, last - scratch);
        break;

    default: /* NGX_EGRESS_AUTH_NONE */
        return p;
    }

    return ngx_egress_authorization_copy(p, &auth->tail);
}


/*
 * EVP_EncodeBlock() ends its output with a zero byte, for which "p" has no
 * room: the last group is encoded aside.
 */

static u_char *
ngx_egress_authorization_encode(u_char *p, u_char *src, size_t len)
{
    size_t  rest, whole;
    u_char  last[NGX_EGRESS_AUTH_GROUP + 1];

    rest = (len - 1) % 3 + 1;
    whole = len - rest;

    (void) EVP_EncodeBlock(last, src + whole, (int) rest);

    if (whole) {
        p += EVP_EncodeBlock(p, src, (int) whole);
    }

    p = ngx_cpymem(p, last, NGX_EGRESS_AUTH_GROUP);

    OPENSSL_cleanse(last, sizeof(last));

    return p;
}


static u_char *
ngx_egress_authorization_copy(u_char *p, ngx_str_t *str)
{
    if (str->len == 0) {
        return p;
    }

    return ngx_cpymem(p, str->data, str->len);
}
