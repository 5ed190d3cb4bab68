
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static void ngx_stream_egress_resolve_handler(ngx_resolver_ctx_t *rctx);


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
    ngx_connection_t         *c;
    ngx_stream_egress_ctx_t  *ctx;

    ctx = rctx->data;
    c = ctx->session->connection;

    /* what is known already is freed as soon as this returns: it is copied */

    ctx->resolved = 1;
    ctx->unresolved = ctx->conf->api->resolved(ctx->conf, rctx, ctx->host.port,
                                               ctx->dest.privates,
                                               NGX_LOG_INFO, c->log,
                                               &ctx->addrs);
    ctx->resolving = NULL;

    ngx_resolve_name_done(rctx);

    if (ctx->sync) {
        return;
    }

    ngx_reusable_connection(c, 1);

    if (ctx->unresolved) {
        (void) ngx_stream_egress_refuse(ctx, ctx->unresolved);
        return;
    }

    ngx_stream_egress_read(ctx);
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

    ctx->addrs = ctx->conf->api->addrs_single(&sa.sockaddr, socklen, c->log);

    return ctx->addrs ? NGX_OK : NGX_ERROR;
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

    /* what other cleanups log may have the name of the peer, which is there */

    if (ctx->addrs && ctx->session->upstream) {
        ctx->session->upstream->peer.name = NULL;
    }

    ctx->conf->api->addrs_free(ctx->addrs);
    ctx->addrs = NULL;
}
