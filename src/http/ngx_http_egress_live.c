
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_int_t ngx_http_egress_live_join(ngx_http_request_t *r,
    ngx_egress_sandbox_t *box);
static void ngx_http_egress_live_request(ngx_egress_live_t *live,
    ngx_uint_t reason);
static void ngx_http_egress_live_connection(ngx_egress_live_t *live,
    ngx_uint_t reason);


ngx_uint_t
ngx_http_egress_live(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_uint_t connection)
{
    if (ctx->live == NULL) {
        ctx->live = ngx_egress_live_create(r->main->pool,
                                           ngx_http_egress_live_request, ctx);
    }

    if (ctx->live == NULL) {
        ctx->box = NULL;
        return NGX_EGRESS_LIMIT_REACHED;
    }

    ngx_egress_live_join(ctx->live, ctx->box);

    if (connection && ngx_http_egress_live_join(r, ctx->box) != NGX_OK) {
        return NGX_EGRESS_LIMIT_REACHED;
    }

    return NGX_EGRESS_ALLOWED;
}


/*
 * The connection ends with the only sandbox that it ever was of.  One that
 * others use as well, through a proxy of the operator's own, is nobody's.
 */

static ngx_int_t
ngx_http_egress_live_join(ngx_http_request_t *r, ngx_egress_sandbox_t *box)
{
    ngx_connection_t     *c;
    ngx_egress_record_t  *record;

    c = ngx_http_egress_connection(r);

    record = ngx_egress_record_add(c->pool);

    if (record == NULL) {
        return NGX_ERROR;
    }

    if (record->several) {
        return NGX_OK;
    }

    if (record->live == NULL) {
        record->live = ngx_egress_live_create(c->pool,
                                         ngx_http_egress_live_connection, c);
        if (record->live == NULL) {
            return NGX_ERROR;
        }

        ngx_egress_live_join(record->live, box);

        return NGX_OK;
    }

    if (record->live->box != box) {
        ngx_egress_live_leave(record->live);
        record->several = 1;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_egress_live_secret(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred)
{
    ngx_egress_live_t  *live;

    live = ngx_egress_live_create(r->main->pool, ngx_http_egress_live_request,
                                  ctx);
    if (live == NULL) {
        return NGX_ERROR;
    }

    return ngx_egress_live_carry(live, ctx->conf, cred->secret,
                                 &ctx->sandbox, cred->ttl);
}


ngx_uint_t
ngx_http_egress_still(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t  reason;

    if (ctx->box) {
        reason = ngx_egress_sandbox_check(ctx->box, 0, r->connection->log);

        if (reason != NGX_EGRESS_ALLOWED) {
            return reason;
        }
    }

    return ngx_http_egress_credential_state(r, ctx);
}


/* with its upstream connection, whichever way round it waits */

static void
ngx_http_egress_live_request(ngx_egress_live_t *live, ngx_uint_t reason)
{
    ngx_http_request_t     *r;
    ngx_http_egress_ctx_t  *ctx;

    ctx = live->data;
    r = ctx->request;

    if (ctx->reason == NGX_EGRESS_ALLOWED) {
        ctx->reason = reason;
    }

    ctx->cut = 1;

    if (r->http_version > NGX_HTTP_VERSION_11) {

        /* other streams of the connection may be somebody else's */

        ngx_egress_end(r->connection);
        return;
    }

    ngx_egress_sever(r->connection, 1);
}


static void
ngx_http_egress_live_connection(ngx_egress_live_t *live, ngx_uint_t reason)
{
    ngx_egress_sever(live->data, 0);
}
