
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* a credential is one word, behind a scheme or not */
#define NGX_HTTP_EGRESS_TRIPWIRE_WORDS  4


static ngx_uint_t ngx_http_egress_tripwire_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_header_t *header);
static ngx_uint_t ngx_http_egress_tripwire_lines(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_header_t *header,
    ngx_table_elt_t *first);
static ngx_uint_t ngx_http_egress_tripwire_value(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_header_t *header,
    ngx_str_t *value);
static ngx_uint_t ngx_http_egress_tripwire_basic(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *word);
static ngx_uint_t ngx_http_egress_tripwire_text(ngx_http_egress_ctx_t *ctx,
    ngx_str_t *text);


ngx_uint_t
ngx_http_egress_tripwire(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t                 i, j;
    ngx_egress_header_t       *header;
    ngx_egress_binding_t      *binding;
    ngx_egress_credential_t  **creds;

    binding = ctx->req.bound->binding;
    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {

        header = creds[i]->headers.elts;

        for (j = 0; j < creds[i]->headers.nelts; j++) {

            if (!ngx_http_egress_tripwire_header(r, ctx, &header[j])) {
                continue;
            }

            ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                          "client sent the present or a former value of a "
                          "secret in \"%V\", binding \"%V\", sandbox \"%V\"",
                          &header[j].field->name, &binding->name,
                          &ctx->sandbox);

            ctx->foreign = 1;
            ctx->credential = NGX_HTTP_EGRESS_CRED_FOREIGN;

            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_egress_tripwire_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_header_t *header)
{
    ngx_http_egress_field_t     *field;
    ngx_egress_authorization_t  *auth;

    field = &ctx->fields[header->field->index];

    if (field->header == NULL) {
        return 0;
    }

    if (field->action == NGX_HTTP_EGRESS_SWAP) {

        auth = &field->auth;

        /* a placeholder is all of it, or one half of a pair */

        return auth->form == NGX_EGRESS_AUTH_BASIC
               && ((!field->user
                    && ngx_http_egress_tripwire_text(ctx, &auth->user))
                   || (!field->password
                       && ngx_http_egress_tripwire_text(ctx,
                                                        &auth->password)));
    }

    if (field->count > 1) {
        return ngx_http_egress_tripwire_lines(r, ctx, header, field->header);
    }

    return ngx_http_egress_tripwire_value(r, ctx, header,
                                          &field->header->value);
}


/* only "inject off" lets several lines of a field through */

static ngx_uint_t
ngx_http_egress_tripwire_lines(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_header_t *header,
    ngx_table_elt_t *first)
{
    ngx_table_elt_t         *h;
    ngx_http_egress_walk_t   walk;

    for (h = ngx_http_egress_first(&walk, &r->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (h->key.len == first->key.len
            && ngx_strncasecmp(h->key.data, first->key.data, first->key.len)
               == 0
            && ngx_http_egress_tripwire_value(r, ctx, header, &h->value))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Whatever the binding expects there: an upstream may take a token in any of
 * the usual forms.
 */

static ngx_uint_t
ngx_http_egress_tripwire_value(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_header_t *header,
    ngx_str_t *value)
{
    u_char                      *p, *last;
    ngx_str_t                    word;
    ngx_uint_t                   n, basic;
    ngx_egress_authorization_t   auth;

    if ((header->prefix.len || header->suffix.len)
        && ngx_egress_authorization_parse_affixed(value, &header->prefix,
                                                  &header->suffix, &auth)
           == NGX_OK
        && auth.form == NGX_EGRESS_AUTH_PLAIN
        && ngx_http_egress_tripwire_text(ctx, &auth.token))
    {
        return 1;
    }

    p = value->data;
    last = p + value->len;
    basic = 0;

    for (n = 0; n < NGX_HTTP_EGRESS_TRIPWIRE_WORDS; n++) {

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        if (p == last) {
            return 0;
        }

        word.data = p;

        while (p < last && *p != ' ' && *p != '\t') {
            p++;
        }

        word.len = p - word.data;

        if (ngx_http_egress_tripwire_text(ctx, &word)
            || (basic && ngx_http_egress_tripwire_basic(r, ctx, &word)))
        {
            return 1;
        }

        basic = (word.len == 5
                 && ngx_strncasecmp(word.data, (u_char *) "basic", 5) == 0);
    }

    return 0;
}


/* less strict than for a placeholder: an upstream may be, too */

static ngx_uint_t
ngx_http_egress_tripwire_basic(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *word)
{
    u_char      *colon;
    ngx_str_t    pair, half;
    ngx_uint_t   found;

    pair.data = ngx_pnalloc(r->pool, ngx_base64_decoded_length(word->len));
    if (pair.data == NULL) {
        return 1;
    }

    if (ngx_decode_base64(&pair, word) != NGX_OK
        && ngx_decode_base64url(&pair, word) != NGX_OK)
    {
        return 0;
    }

    found = ngx_http_egress_tripwire_text(ctx, &pair);

    colon = ngx_strlchr(pair.data, pair.data + pair.len, ':');

    if (!found && colon) {
        half.data = pair.data;
        half.len = colon - pair.data;

        found = ngx_http_egress_tripwire_text(ctx, &half);
    }

    if (!found && colon) {
        half.data = colon + 1;
        half.len = pair.data + pair.len - half.data;

        found = ngx_http_egress_tripwire_text(ctx, &half);
    }

    ngx_explicit_memzero(pair.data, pair.len);

    return found;
}


static ngx_uint_t
ngx_http_egress_tripwire_text(ngx_http_egress_ctx_t *ctx, ngx_str_t *text)
{
    return ngx_egress_tripwire_find(ctx->conf, text->data, text->len);
}
