
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>

#include <openssl/sha.h>


/* so many equal 401s in a row, and the next such request is refused */
#define NGX_HTTP_EGRESS_UNAUTHORIZED  20

#define NGX_HTTP_EGRESS_ACCEPT_LEN                                            \
    ngx_base64_encoded_length(SHA_DIGEST_LENGTH)


static ngx_uint_t ngx_http_egress_response_removed(ngx_table_elt_t *h,
    ngx_uint_t upgraded);
static ngx_uint_t ngx_http_egress_response_nominated(ngx_http_request_t *r,
    ngx_table_elt_t *h);
static ngx_uint_t ngx_http_egress_response_usual(ngx_str_t *token);
static ngx_int_t ngx_http_egress_accept(ngx_str_t *key, ngx_str_t *accept);
static uint32_t ngx_http_egress_response_key(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


/*
 * Fields that are for one hop (RFC 9110, 7.6.1), that steer nginx, or that
 * lead clients past the gateway (security, H-11).
 */

static ngx_str_t  ngx_http_egress_response_names[] = {
    ngx_string("alt-svc"),
    ngx_string("keep-alive"),
    ngx_string("proxy-connection"),
    ngx_string("proxy-authenticate"),
    ngx_string("proxy-authentication-info"),
    ngx_string("te"),
    ngx_string("trailer"),
    ngx_null_string
};


void
ngx_http_egress_clean_response(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t               nominated, upgraded;
    ngx_table_elt_t         *h;
    ngx_http_egress_walk_t   walk;

    upgraded = (r->headers_out.status == NGX_HTTP_SWITCHING_PROTOCOLS);
    nominated = ngx_http_egress_response_nominated(r, NULL);

    for (h = ngx_http_egress_first(&walk, &r->headers_out.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (h->hash == 0) {
            continue;
        }

        if (ngx_http_egress_response_removed(h, upgraded)
            || (nominated && ngx_http_egress_response_nominated(r, h)))
        {
            h->hash = 0;
        }
    }
}


static ngx_uint_t
ngx_http_egress_response_removed(ngx_table_elt_t *h, ngx_uint_t upgraded)
{
    ngx_str_t  *name;

    switch (h->key.data[0] | 0x20) {

    case 'x':
        return h->key.len > 8
               && ngx_strncasecmp(h->key.data, (u_char *) "x-accel-", 8) == 0;

    case 'u':
        return !upgraded && h->key.len == 7
               && ngx_strncasecmp(h->key.data, (u_char *) "upgrade", 7) == 0;

    case 'a':
    case 'k':
    case 'p':
    case 't':
        break;

    default:
        return 0;
    }

    for (name = ngx_http_egress_response_names; name->len; name++) {
        if (name->len == h->key.len
            && ngx_strncasecmp(name->data, h->key.data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Whether Connection of the upstream names this field, or any but those that
 * it always may where "h" is NULL.
 */

static ngx_uint_t
ngx_http_egress_response_nominated(ngx_http_request_t *r, ngx_table_elt_t *h)
{
    u_char                  *p, *last;
    ngx_str_t                token;
    ngx_table_elt_t         *conn;
    ngx_http_egress_walk_t   walk;

    for (conn = ngx_http_egress_first(&walk, &r->upstream->headers_in.headers);
         conn;
         conn = ngx_http_egress_next(&walk))
    {
        if (conn->key.len != 10
            || ngx_memcmp(conn->lowcase_key, "connection", 10) != 0)
        {
            continue;
        }

        p = conn->value.data;
        last = p + conn->value.len;

        if (h == NULL && conn->value.len == 10
            && ngx_memcmp(p, "keep-alive", 10) == 0)
        {
            continue;
        }

        while (ngx_http_egress_token(&p, last, &token)) {
            if (h ? (token.len == h->key.len
                     && ngx_strncasecmp(token.data, h->key.data, token.len)
                        == 0)
                  : !ngx_http_egress_response_usual(&token))
            {
                return 1;
            }
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_egress_response_usual(ngx_str_t *token)
{
    return (token->len == 5
            && ngx_strncasecmp(token->data, (u_char *) "close", 5) == 0)
           || (token->len == 10
               && ngx_strncasecmp(token->data, (u_char *) "keep-alive", 10)
                  == 0)
           || (token->len == 7
               && ngx_strncasecmp(token->data, (u_char *) "upgrade", 7)
                  == 0);
}


ngx_uint_t
ngx_http_egress_switched(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    u_char                   accept[NGX_HTTP_EGRESS_ACCEPT_LEN];
    ngx_str_t                want;
    ngx_uint_t               upgrade, accepted;
    ngx_table_elt_t         *h;
    ngx_http_egress_walk_t   walk;

    want.data = accept;

    if (ctx->websocket_key == NULL
        || ngx_http_egress_accept(&ctx->websocket_key->value, &want)
           != NGX_OK)
    {
        return 0;
    }

    /* one line of each, with what is wanted in it */

    upgrade = 0;
    accepted = 0;

    for (h = ngx_http_egress_first(&walk, &r->upstream->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (h->key.len == sizeof("upgrade") - 1
            && ngx_strncasecmp(h->key.data, (u_char *) "upgrade", 7) == 0)
        {
            upgrade += (h->value.len == sizeof("websocket") - 1
                        && ngx_strncasecmp(h->value.data,
                                           (u_char *) "websocket", 9)
                           == 0) ? 1 : 2;
        }

        if (h->key.len == sizeof("sec-websocket-accept") - 1
            && ngx_strncasecmp(h->key.data,
                               (u_char *) "sec-websocket-accept", 20)
               == 0)
        {
            accepted += (h->value.len == want.len
                         && ngx_memcmp(h->value.data, want.data, want.len)
                            == 0) ? 1 : 2;
        }
    }

    return upgrade == 1 && accepted == 1;
}


/* the answer to this key; "accept" has room for it */

static ngx_int_t
ngx_http_egress_accept(ngx_str_t *key, ngx_str_t *accept)
{
    u_char      digest[SHA_DIGEST_LENGTH], text[256];
    ngx_str_t   hash;

    static ngx_str_t  guid =
                      ngx_string("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");

    if (key->len + guid.len > sizeof(text)) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(text, key->data, key->len), guid.data, guid.len);

    if (EVP_Digest(text, key->len + guid.len, digest, NULL, EVP_sha1(), NULL)
        != 1)
    {
        return NGX_ERROR;
    }

    hash.data = digest;
    hash.len = sizeof(digest);

    ngx_encode_base64(accept, &hash);

    return NGX_OK;
}


/*
 * git-lfs has been seen to ask for the same object some hundred thousand times
 * as long as it was answered 401 (DESIGN 6.3).
 */

ngx_uint_t
ngx_http_egress_auth_loop(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_egress_record_t  *record;

    record = ctx->record;

    if (record == NULL) {

        /* in base-URL mode there is one only after a 401 */

        record = ngx_egress_record_get(ngx_http_egress_connection(r)->pool);
    }

    return record && record->nunauthorized >= NGX_HTTP_EGRESS_UNAUTHORIZED
           && record->unauthorized == ngx_http_egress_response_key(r, ctx);
}


void
ngx_http_egress_note_status(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    uint32_t              key;
    ngx_egress_record_t  *record;

    if (r->headers_out.status != NGX_HTTP_UNAUTHORIZED) {

        record = ngx_egress_record_get(ngx_http_egress_connection(r)->pool);

        if (record) {
            record->nunauthorized = 0;
        }

        return;
    }

    record = ngx_egress_record_add(ngx_http_egress_connection(r)->pool);
    if (record == NULL) {
        return;
    }

    key = ngx_http_egress_response_key(r, ctx);

    if (record->unauthorized != key) {
        record->unauthorized = key;
        record->nunauthorized = 0;
    }

    record->nunauthorized++;
}


/* what makes two requests equal here: method, host, port and target */

static uint32_t
ngx_http_egress_response_key(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    uint32_t  key;

    ngx_crc32_init(key);
    ngx_crc32_update(&key, r->method_name.data, r->method_name.len);
    ngx_crc32_update(&key, ctx->req.bound->authority.data,
                     ctx->req.bound->authority.len);
    ngx_crc32_update(&key, r->unparsed_uri.data, r->unparsed_uri.len);
    ngx_crc32_final(key);

    return key;
}
