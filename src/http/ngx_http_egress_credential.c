
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* how far a clock that stamps secret files may be ahead, in seconds */
#define NGX_HTTP_EGRESS_CLOCK_SLACK  300


static ngx_uint_t ngx_http_egress_credential_one(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred);
static ngx_uint_t ngx_http_egress_swap_field(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred,
    ngx_egress_header_t *header);
static ngx_int_t ngx_http_egress_swap_parse(ngx_http_request_t *r,
    ngx_egress_header_t *header, ngx_str_t *value,
    ngx_egress_authorization_t *auth);
static void ngx_http_egress_set(ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred);
static void ngx_http_egress_strip(ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred);
static ngx_uint_t ngx_http_egress_credential_used(
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred);
static ngx_uint_t ngx_http_egress_secret_state(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred);


ngx_uint_t
ngx_http_egress_credential(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t                 i, result, reason;
    ngx_egress_binding_t      *binding;
    ngx_egress_credential_t  **creds;

    binding = ctx->req.bound->binding;
    creds = binding->credentials.elts;

    result = NGX_HTTP_EGRESS_CRED_NONE;
    reason = NGX_EGRESS_ALLOWED;

    for (i = 0;
         i < binding->credentials.nelts && reason == NGX_EGRESS_ALLOWED;
         i++)
    {
        /* each for itself: what one finds is nothing to another */

        ctx->credential = NGX_HTTP_EGRESS_CRED_NONE;

        reason = ngx_http_egress_credential_one(r, ctx, creds[i]);

        result = ngx_max(result, ctx->credential);
    }

    ctx->credential = result;

    if (reason != NGX_EGRESS_ALLOWED) {
        return reason;
    }

    if (ngx_http_egress_tripwire(r, ctx)
        || (ctx->foreign && binding->foreign_refused))
    {
        return NGX_EGRESS_FOREIGN_CREDENTIAL;
    }

    return ngx_http_egress_credential_state(r, ctx);
}


static ngx_uint_t
ngx_http_egress_credential_one(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred)
{
    ngx_uint_t            i, reason;
    ngx_egress_header_t  *header;

    header = cred->headers.elts;

    if (cred->inject == NGX_EGRESS_INJECT_OFF) {

        for (i = 0; i < cred->headers.nelts; i++) {
            if (ctx->fields[header[i].field->index].count) {
                ctx->foreign = 1;
                ctx->credential = NGX_HTTP_EGRESS_CRED_FOREIGN;
            }
        }

        return NGX_EGRESS_ALLOWED;
    }

    /* two fields of one name: which of them counts can't be told (H-04) */

    for (i = 0; i < cred->headers.nelts; i++) {
        if (ctx->fields[header[i].field->index].count > 1) {
            return NGX_EGRESS_MALFORMED_REQUEST;
        }
    }

    if (cred->inject == NGX_EGRESS_INJECT_STRIP
        || ctx->req.anonymous || !ctx->req.credentialed)
    {
        ngx_http_egress_strip(ctx, cred);
        return NGX_EGRESS_ALLOWED;
    }

    if (cred->inject == NGX_EGRESS_INJECT_ALWAYS) {
        ngx_http_egress_strip(ctx, cred);
        ngx_http_egress_set(ctx, cred);
        return NGX_EGRESS_ALLOWED;
    }

    for (i = 0; i < cred->headers.nelts; i++) {
        reason = ngx_http_egress_swap_field(r, ctx, cred, &header[i]);

        if (reason != NGX_EGRESS_ALLOWED) {
            return reason;
        }
    }

    if (cred->inject == NGX_EGRESS_INJECT_IF_ABSENT
        && ctx->credential == NGX_HTTP_EGRESS_CRED_NONE)
    {
        ngx_http_egress_set(ctx, cred);
    }

    return NGX_EGRESS_ALLOWED;
}


static ngx_uint_t
ngx_http_egress_swap_field(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred, ngx_egress_header_t *header)
{
    ngx_int_t                    rc;
    ngx_http_egress_field_t     *field;
    ngx_egress_authorization_t  *auth;

    field = &ctx->fields[header->field->index];

    if (field->header == NULL) {
        return NGX_EGRESS_ALLOWED;
    }

    auth = &field->auth;

    rc = ngx_http_egress_swap_parse(r, header, &field->header->value, auth);

    if (rc == NGX_ERROR) {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    if (rc == NGX_OK) {

        switch (auth->form) {

        case NGX_EGRESS_AUTH_NONE:
            return NGX_EGRESS_ALLOWED;

        case NGX_EGRESS_AUTH_PLAIN:
            field->user = ngx_http_egress_swappable(r, ctx, cred,
                                                    &auth->token);
            break;

        default: /* NGX_EGRESS_AUTH_BASIC */
            field->user = ngx_http_egress_swappable(r, ctx, cred,
                                                    &auth->user);
            field->password = ngx_http_egress_swappable(r, ctx, cred,
                                                        &auth->password);
        }
    }

    if (field->user || field->password) {
        field->action = NGX_HTTP_EGRESS_SWAP;
        field->bound = header;
        ctx->credential = NGX_HTTP_EGRESS_CRED_SWAPPED;

    } else {
        ctx->foreign = 1;

        if (ctx->credential == NGX_HTTP_EGRESS_CRED_NONE) {
            ctx->credential = NGX_HTTP_EGRESS_CRED_FOREIGN;
        }
    }

    return NGX_EGRESS_ALLOWED;
}


/* NGX_DECLINED: nothing that could hold a placeholder */

static ngx_int_t
ngx_http_egress_swap_parse(ngx_http_request_t *r, ngx_egress_header_t *header,
    ngx_str_t *value, ngx_egress_authorization_t *auth)
{
    u_char  *buf;

    if (header->affixed) {
        return ngx_egress_authorization_parse_affixed(value, &header->prefix,
                                                      &header->suffix, auth);
    }

    buf = ngx_pnalloc(r->pool, value->len + 1);
    if (buf == NULL) {
        return NGX_ERROR;
    }

    return ngx_egress_authorization_parse(value, buf, auth);
}


/* the first header of a credential is the one that is set */

static void
ngx_http_egress_set(ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred)
{
    ngx_egress_header_t      *header;
    ngx_http_egress_field_t  *field;

    header = cred->headers.elts;
    field = &ctx->fields[header->field->index];

    field->action = NGX_HTTP_EGRESS_SET;
    field->bound = header;
    field->basic = (header->authorization && cred->basic_user.len
                    && (cred->basic_everywhere || ctx->req.is_git));

    ctx->credential = NGX_HTTP_EGRESS_CRED_SET;
}


static void
ngx_http_egress_strip(ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred)
{
    ngx_uint_t                i;
    ngx_egress_header_t      *header;
    ngx_http_egress_field_t  *field;

    header = cred->headers.elts;

    for (i = 0; i < cred->headers.nelts; i++) {

        field = &ctx->fields[header[i].field->index];
        field->action = NGX_HTTP_EGRESS_REMOVE;

        if (field->count) {
            ctx->credential = NGX_HTTP_EGRESS_CRED_STRIPPED;
        }
    }
}


ngx_uint_t
ngx_http_egress_credential_state(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t                 i, reason;
    ngx_egress_binding_t      *binding;
    ngx_egress_credential_t  **creds;

    if (ctx->credential != NGX_HTTP_EGRESS_CRED_SWAPPED
        && ctx->credential != NGX_HTTP_EGRESS_CRED_SET)
    {
        return NGX_EGRESS_ALLOWED;
    }

    binding = ctx->req.bound->binding;
    creds = binding->credentials.elts;

    ctx->has_credential_id = 0;

    for (i = 0; i < binding->credentials.nelts; i++) {

        if (!ngx_http_egress_credential_used(ctx, creds[i])) {
            continue;
        }

        reason = ngx_http_egress_secret_state(r, ctx, creds[i]);

        if (reason != NGX_EGRESS_ALLOWED) {
            return reason;
        }
    }

    return NGX_EGRESS_ALLOWED;
}


/* whether the request is to carry the secret of it */

static ngx_uint_t
ngx_http_egress_credential_used(ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred)
{
    ngx_uint_t                i;
    ngx_egress_header_t      *header;
    ngx_http_egress_field_t  *field;

    header = cred->headers.elts;

    for (i = 0; i < cred->headers.nelts; i++) {

        field = &ctx->fields[header[i].field->index];

        if (field->action == NGX_HTTP_EGRESS_SWAP
            || field->action == NGX_HTTP_EGRESS_SET)
        {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_egress_secret_state(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred)
{
    time_t     age;
    ngx_str_t  id;

    switch (ngx_egress_secret_get(ctx->conf, cred->secret, &ctx->sandbox,
                                  NULL, &id, r->connection->log))
    {

    case NGX_OK:
        if (!ctx->has_credential_id) {
            ngx_memcpy(ctx->credential_id, id.data,
                       sizeof(ctx->credential_id));
            ctx->has_credential_id = 1;
        }

        age = ngx_egress_secret_age(cred->secret, &ctx->sandbox);

        if (cred->ttl
            && (age > cred->ttl || age < -NGX_HTTP_EGRESS_CLOCK_SLACK))
        {
            /* a file of the future would never grow old */

            ctx->credential = NGX_HTTP_EGRESS_CRED_MISSING;
            return NGX_EGRESS_CREDENTIAL_EXPIRED;
        }

        return NGX_EGRESS_ALLOWED;

    case NGX_DECLINED:
        ctx->credential = NGX_HTTP_EGRESS_CRED_MISSING;
        return NGX_EGRESS_CREDENTIAL_MISSING;

    default: /* NGX_ERROR */
        ctx->credential = NGX_HTTP_EGRESS_CRED_MISSING;
        return NGX_EGRESS_SECRET_UNREADABLE;
    }
}
