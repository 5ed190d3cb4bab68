
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* an answer is used for so long at most, whatever its TTL */
#define NGX_HTTP_EGRESS_RESOLVE_VALID  60


static void ngx_http_egress_resolve_handler(ngx_resolver_ctx_t *rctx);
static void ngx_http_egress_resolve_done(ngx_http_egress_ctx_t *ctx,
    ngx_resolver_ctx_t *rctx);
static void ngx_http_egress_resolve_cleanup(void *data);


/*
 * Addresses of a bound host that were judged, shared by the requests that use
 * them and the worker's cache.  Read-only after they were made.
 */

ngx_int_t
ngx_http_egress_resolve(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_str_t            *name;
    ngx_pool_cleanup_t   *cln;
    ngx_resolver_ctx_t   *rctx;

    if (ctx->req.bound->binding->upstream) {

        /* the operator's choice: nothing to look up and nothing to judge */

        return NGX_OK;
    }

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_egress_resolve_cleanup;
    cln->data = ctx;

    ctx->addrs = ngx_http_egress_pool_addrs(ctx->req.bound);

    if (ctx->addrs) {
        return NGX_OK;
    }

    rctx = ngx_resolve_start(ctx->conf->resolver, NULL);

    if (rctx == NULL || rctx == NGX_NO_RESOLVER) {
        ctx->resolve_reason = NGX_EGRESS_DNS_ERROR;
        return NGX_DECLINED;
    }

    name = &ctx->req.bound->name->sn.str;

    rctx->name = *name;
    rctx->handler = ngx_http_egress_resolve_handler;
    rctx->data = ctx;
    rctx->timeout = ctx->conf->resolver_timeout;

    ctx->resolving = rctx;
    ctx->resolved = 0;
    ctx->sync = 1;

    if (ngx_resolve_name(rctx) != NGX_OK) {
        ctx->resolving = NULL;
        ctx->sync = 0;
        ctx->resolve_reason = NGX_EGRESS_DNS_ERROR;
        return NGX_DECLINED;
    }

    ctx->sync = 0;

    if (!ctx->resolved) {
        ctx->waiting = 1;
        return NGX_AGAIN;
    }

    return ctx->resolve_reason ? NGX_DECLINED : NGX_OK;
}


/* as limit_req waits: the request is held by its timers and events only */

void
ngx_http_egress_resolve_wait(ngx_http_request_t *r)
{
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (r->connection->read->ready) {
        ngx_post_event(r->connection->read, &ngx_posted_events);

    } else {
        (void) ngx_handle_read_event(r->connection->read, 0);
    }
}


static void
ngx_http_egress_resolve_handler(ngx_resolver_ctx_t *rctx)
{
    ngx_connection_t       *c;
    ngx_http_request_t     *r;
    ngx_http_egress_ctx_t  *ctx;

    ctx = rctx->data;

    /* what is known already is freed as soon as this returns: it is copied */

    ngx_http_egress_resolve_done(ctx, rctx);

    if (ctx->sync) {
        return;
    }

    r = ctx->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_egress_resolve_done(ngx_http_egress_ctx_t *ctx,
    ngx_resolver_ctx_t *rctx)
{
    time_t               valid;
    ngx_egress_bound_t  *bound;

    bound = ctx->req.bound;

    ctx->resolved = 1;
    ctx->resolve_reason = ngx_egress_resolved(ctx->conf, rctx, bound->port,
                                              &bound->binding->privates,
                                              NGX_LOG_ERR,
                                              ctx->request->connection->log,
                                              &ctx->addrs);

    if (ctx->resolve_reason == NGX_EGRESS_ALLOWED) {
        valid = ngx_min(rctx->valid,
                        ngx_time() + NGX_HTTP_EGRESS_RESOLVE_VALID);

        ngx_http_egress_pool_save_addrs(bound, ctx->addrs, valid);
    }

    ctx->resolving = NULL;

    ngx_resolve_name_done(rctx);
}


static void
ngx_http_egress_resolve_cleanup(void *data)
{
    ngx_http_egress_ctx_t *ctx = data;

    if (ctx->resolving) {
        ngx_resolve_name_done(ctx->resolving);
        ctx->resolving = NULL;
    }

    ngx_egress_addrs_free(ctx->addrs);
    ctx->addrs = NULL;
}
