
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_init_peer(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *uscf);
static ngx_int_t ngx_stream_egress_get_peer(ngx_peer_connection_t *pc,
    void *data);
static void ngx_stream_egress_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);

#if (NGX_SSL)
static ngx_int_t ngx_stream_egress_set_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_stream_egress_save_session(ngx_peer_connection_t *pc,
    void *data);
#endif


ngx_int_t
ngx_stream_egress_init_upstream(ngx_conf_t *cf,
    ngx_stream_upstream_srv_conf_t *uscf)
{
    uscf->peer.init = ngx_stream_egress_init_peer;

    return NGX_OK;
}


static ngx_int_t
ngx_stream_egress_init_peer(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *uscf)
{
    ngx_stream_upstream_t    *u;
    ngx_stream_egress_ctx_t  *ctx;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);

    /* "proxy_pass $name" can spell ours: only a decided session has peers */

    if (ctx == NULL || !ctx->decided || ctx->denied || ctx->addrs == NULL) {
        ngx_log_error(NGX_LOG_ERR, s->connection->log, 0,
                      "egress upstream reached by a session that was not "
                      "let through");
        return NGX_ERROR;
    }

    u = s->upstream;

    ctx->current = 0;

    u->peer.data = ctx;
    u->peer.get = ngx_stream_egress_get_peer;
    u->peer.free = ngx_stream_egress_free_peer;
    u->peer.tries = ctx->addrs->n;

#if (NGX_SSL)
    u->peer.set_session = ngx_stream_egress_set_session;
    u->peer.save_session = ngx_stream_egress_save_session;
#endif

    return NGX_OK;
}


/* each attempt has an address of its own, judged at that moment */

static ngx_int_t
ngx_stream_egress_get_peer(ngx_peer_connection_t *pc, void *data)
{
    ngx_stream_egress_ctx_t *ctx = data;

    return ctx->conf->api->addrs_next(ctx->conf, ctx->addrs, &ctx->current,
                                      ctx->dest.privates, pc);
}


static void
ngx_stream_egress_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    if (pc->tries) {
        pc->tries--;
    }
}


#if (NGX_SSL)

static ngx_int_t
ngx_stream_egress_set_session(ngx_peer_connection_t *pc, void *data)
{
    return NGX_OK;
}


static void
ngx_stream_egress_save_session(ngx_peer_connection_t *pc, void *data)
{
    return;
}

#endif
