
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static void ngx_stream_egress_live_handler(ngx_egress_live_t *live,
    ngx_uint_t reason);


ngx_int_t
ngx_stream_egress_live(ngx_stream_egress_ctx_t *ctx)
{
    ngx_egress_api_t  *api;

    api = ctx->conf->api;

    if (ctx->live == NULL) {
        ctx->live = api->live_create(ctx->session->connection->pool,
                                     ngx_stream_egress_live_handler, ctx);
        if (ctx->live == NULL) {
            return NGX_ERROR;
        }
    }

    api->live_join(ctx->live, ctx->box);

    return NGX_OK;
}


/*
 * Of a connection that was handed over the session is not there any more, and
 * the requests on it are told for themselves.
 */

static void
ngx_stream_egress_live_handler(ngx_egress_live_t *live, ngx_uint_t reason)
{
    ngx_connection_t         *c;
    ngx_stream_egress_ctx_t  *ctx;

    ctx = live->data;
    c = ctx->session->connection;

    if (ctx->handover) {
        ctx->conf->api->sever(c, 0);
        return;
    }

    if (ctx->reason == NGX_EGRESS_ALLOWED) {
        ctx->reason = reason;
    }

    if (!ctx->decided) {

        /* in the middle of its preamble */

        ctx->decided = 1;
        ctx->denied = 1;

        ngx_stream_egress_log_connection(ctx);
    }

    ctx->conf->api->sever(c, 1);
}
