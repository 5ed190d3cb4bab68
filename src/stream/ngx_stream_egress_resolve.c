
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static void ngx_stream_egress_resolve_handler(ngx_resolver_ctx_t *rctx);
static ngx_uint_t ngx_stream_egress_resolve_done(
    ngx_stream_egress_ctx_t *ctx);
static ngx_uint_t ngx_stream_egress_addresses(ngx_stream_egress_ctx_t *ctx,
    ngx_resolver_ctx_t *rctx);
static ngx_int_t ngx_stream_egress_add_address(ngx_stream_egress_ctx_t *ctx,
    struct sockaddr *sockaddr, socklen_t socklen);


ngx_int_t
ngx_stream_egress_resolve(ngx_stream_egress_ctx_t *ctx)
{
    ngx_connection_t    *c;
    ngx_resolver_ctx_t  *rctx;

    c = ctx->session->connection;

    /* the name has been matched by now: no other is ever asked for */

    rctx = ngx_resolve_start(ctx->conf->resolver, NULL);

    if (rctx == NULL || rctx == NGX_NO_RESOLVER) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_DNS_ERROR);
    }

    rctx->name.data = ctx->host.name;
    rctx->name.len = ctx->host.len;
    rctx->handler = ngx_stream_egress_resolve_handler;
    rctx->data = ctx;
    rctx->timeout = ctx->conf->resolver_timeout;

    ctx->resolving = rctx;
    ctx->sync = 1;

    /*
     * The resolver takes a connection for itself and walks over those who
     * wait for it: nobody of them may be closed to make room meanwhile.
     */

    ngx_reusable_connection(c, 0);

    if (ngx_resolve_name(rctx) != NGX_OK) {
        ctx->resolving = NULL;
        ctx->sync = 0;
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_DNS_ERROR);
    }

    ctx->sync = 0;

    if (!ctx->resolved) {
        return NGX_AGAIN;
    }

    /* the answer was known: the handler has run already */

    ngx_reusable_connection(c, 1);

    return ctx->unresolved ? ngx_stream_egress_refuse(ctx, ctx->unresolved)
                           : NGX_OK;
}


static void
ngx_stream_egress_resolve_handler(ngx_resolver_ctx_t *rctx)
{
    ngx_stream_egress_ctx_t  *ctx;

    ctx = rctx->data;

    /* what is known already is freed as soon as this returns: it is copied */

    ctx->resolved = 1;
    ctx->unresolved = ngx_stream_egress_resolve_done(ctx);

    if (ctx->sync) {
        return;
    }

    ngx_reusable_connection(ctx->session->connection, 1);

    if (ctx->unresolved) {
        (void) ngx_stream_egress_refuse(ctx, ctx->unresolved);
        return;
    }

    ngx_stream_egress_read(ctx);
}


static ngx_uint_t
ngx_stream_egress_resolve_done(ngx_stream_egress_ctx_t *ctx)
{
    ngx_uint_t           reason;
    ngx_resolver_ctx_t  *rctx;

    rctx = ctx->resolving;

    if (rctx->state) {
        ngx_log_error(NGX_LOG_INFO, ctx->session->connection->log, 0,
                      "\"%V\" could not be resolved (%i: %s)",
                      &rctx->name, rctx->state,
                      ngx_resolver_strerror(rctx->state));

        reason = (rctx->state == NGX_RESOLVE_TIMEDOUT)
                 ? NGX_EGRESS_DNS_TIMEOUT : NGX_EGRESS_DNS_ERROR;

    } else {
        reason = ngx_stream_egress_addresses(ctx, rctx);
    }

    ctx->resolving = NULL;

    ngx_resolve_name_done(rctx);

    return reason;
}


static ngx_uint_t
ngx_stream_egress_addresses(ngx_stream_egress_ctx_t *ctx,
    ngx_resolver_ctx_t *rctx)
{
    u_char             text[NGX_SOCKADDR_STRLEN];
    size_t             len;
    ngx_uint_t         i;
    ngx_connection_t  *c;
    ngx_sockaddr_t     sa;

    c = ctx->session->connection;

    ctx->naddrs = 0;
    ctx->addrs = ngx_pcalloc(c->pool, rctx->naddrs
                                      * sizeof(ngx_stream_egress_addr_t));
    if (ctx->addrs == NULL) {
        return NGX_EGRESS_DNS_ERROR;
    }

    for (i = 0; i < rctx->naddrs; i++) {

        ngx_memcpy(&sa, rctx->addrs[i].sockaddr, rctx->addrs[i].socklen);
        ngx_inet_set_port(&sa.sockaddr, ctx->host.port);

        /* one bad address does not spoil the others, nor is it ever tried */

        if (ctx->conf->api->address_check(ctx->conf, &sa.sockaddr,
                                          ctx->dest.privates, c->log)
            != NGX_EGRESS_ADDR_OK)
        {
            len = ngx_sock_ntop(&sa.sockaddr, rctx->addrs[i].socklen, text,
                                NGX_SOCKADDR_STRLEN, 0);

            ngx_log_error(NGX_LOG_INFO, c->log, 0,
                          "address %*s of \"%V\" is refused",
                          len, text, &rctx->name);
            continue;
        }

        if (ngx_stream_egress_add_address(ctx, &sa.sockaddr,
                                          rctx->addrs[i].socklen)
            != NGX_OK)
        {
            return NGX_EGRESS_DNS_ERROR;
        }
    }

    return ctx->naddrs ? NGX_EGRESS_ALLOWED : NGX_EGRESS_ADDRESS_REFUSED;
}


static ngx_int_t
ngx_stream_egress_add_address(ngx_stream_egress_ctx_t *ctx,
    struct sockaddr *sockaddr, socklen_t socklen)
{
    u_char                    *p;
    ngx_stream_egress_addr_t  *addr;

    p = ngx_pnalloc(ctx->session->connection->pool, NGX_SOCKADDR_STRLEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    addr = &ctx->addrs[ctx->naddrs++];

    ngx_memcpy(&addr->sockaddr, sockaddr, socklen);
    addr->socklen = socklen;
    addr->name.data = p;
    addr->name.len = ngx_sock_ntop(sockaddr, socklen, p, NGX_SOCKADDR_STRLEN,
                                   1);

    return NGX_OK;
}


ngx_int_t
ngx_stream_egress_literal(ngx_stream_egress_ctx_t *ctx)
{
    socklen_t             socklen;
    ngx_uint_t            verdict;
    ngx_connection_t     *c;
    ngx_sockaddr_t        sa;

    c = ctx->session->connection;

    ngx_memzero(&sa, sizeof(ngx_sockaddr_t));

    if (ctx->host.family == AF_INET) {
        socklen = sizeof(struct sockaddr_in);
        ngx_memcpy(&sa.sockaddr_in.sin_addr, ctx->host.addr, 4);

#if (NGX_HAVE_INET6)
    } else {
        socklen = sizeof(struct sockaddr_in6);
        ngx_memcpy(&sa.sockaddr_in6.sin6_addr, ctx->host.addr, 16);
#else
    } else {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_ADDRESS_REFUSED);
#endif
    }

    sa.sockaddr.sa_family = ctx->host.family;
    ngx_inet_set_port(&sa.sockaddr, ctx->host.port);

    verdict = ctx->conf->api->address_check(ctx->conf, &sa.sockaddr,
                                            ctx->dest.privates, c->log);

    /*
     * Nobody's resolver gives these to a host of ours: no chance to be named.
     * At another port than 443 there is none either.
     */

    if (verdict == NGX_EGRESS_ADDR_NEVER
        || (verdict == NGX_EGRESS_ADDR_REFUSED
            && ctx->host.port != NGX_EGRESS_PORT))
    {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_ADDRESS_REFUSED);
    }

    if (ctx->dest.kind != NGX_EGRESS_DEST_ADDRESS) {
        ctx->reason = NGX_EGRESS_DESTINATION_REFUSED;
        return NGX_OK;
    }

    if (verdict == NGX_EGRESS_ADDR_REFUSED) {
        ctx->reason = NGX_EGRESS_ADDRESS_REFUSED;
        return NGX_OK;
    }

    ctx->addrs = ngx_pcalloc(c->pool, sizeof(ngx_stream_egress_addr_t));
    if (ctx->addrs == NULL) {
        return NGX_ERROR;
    }

    return ngx_stream_egress_add_address(ctx, &sa.sockaddr, socklen);
}


void
ngx_stream_egress_cleanup(void *data)
{
    ngx_stream_egress_ctx_t *ctx = data;

    if (ctx->resolving) {
        ngx_resolve_name_done(ctx->resolving);
        ctx->resolving = NULL;
    }

    if (ctx->loop) {
        ctx->conf->api->loop_leave(ctx->conf, ctx->loop);
        ctx->loop = NULL;
    }
}
