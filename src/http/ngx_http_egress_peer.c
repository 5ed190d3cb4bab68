
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* how long a connection may be idle for a request that can't be repeated */
#define NGX_HTTP_EGRESS_PEER_FRESH  5000


typedef struct {
    ngx_http_request_t         *request;
    ngx_http_egress_ctx_t      *ctx;
    ngx_egress_bound_t         *bound;
    ngx_uint_t                  current;        /* among the addresses */
    unsigned                    repeatable:1;
    unsigned                    pooled:1;       /* one was tried already */
    unsigned                    alert:1;        /* a fatal one was received */
} ngx_http_egress_peer_t;


static ngx_int_t ngx_http_egress_init_peer(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *uscf);
static ngx_int_t ngx_http_egress_get_peer(ngx_peer_connection_t *pc,
    void *data);
static ngx_int_t ngx_http_egress_next_address(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer);
static void ngx_http_egress_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);
static void ngx_http_egress_again(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer);
static ngx_int_t ngx_http_egress_keep_peer(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer);
static ngx_uint_t ngx_http_egress_peer_error(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer);
static ngx_uint_t ngx_http_egress_peer_connect_error(ngx_connection_t *c,
    ngx_http_egress_peer_t *peer);
#if (NGX_HTTP_SSL)
static ngx_uint_t ngx_http_egress_peer_tls_error(ngx_connection_t *c,
    ngx_http_egress_peer_t *peer);
static ngx_int_t ngx_http_egress_set_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_egress_save_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_egress_peer_info(const ngx_ssl_conn_t *ssl_conn,
    int where, int ret);
#endif


ngx_int_t
ngx_http_egress_init_upstream(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *uscf)
{
    uscf->peer.init = ngx_http_egress_init_peer;

    return NGX_OK;
}


/*
 * A proxy_pass with a variable could name this upstream: only a request that
 * was decided and recorded gets a peer (prototype2 P12).
 */

static ngx_int_t
ngx_http_egress_init_peer(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *uscf)
{
    ngx_http_upstream_t     *u;
    ngx_http_egress_ctx_t   *ctx;
    ngx_http_egress_peer_t  *peer;

    ctx = ngx_http_get_module_ctx(r, ngx_http_egress_module);

    if (ctx == NULL || ctx->denied || !ctx->audited || !ctx->injected
        || ctx->closed || r != r->main)
    {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "upstream of \"egress_pass\" reached without it");
        return NGX_ERROR;
    }

    if (ngx_http_egress_note_request(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    peer = ngx_palloc(r->pool, sizeof(ngx_http_egress_peer_t));
    if (peer == NULL) {
        return NGX_ERROR;
    }

    peer->request = r;
    peer->ctx = ctx;
    peer->bound = ctx->req.bound;
    peer->current = 0;
    peer->pooled = 0;
    peer->alert = 0;

    /* a bodiless safe request may be sent a second time (DESIGN 6.7) */

    peer->repeatable = ((r->method
                         & (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_OPTIONS))
                        && r->headers_in.content_length_n <= 0
                        && !r->headers_in.chunked);

    u = r->upstream;

    u->peer.data = peer;
    u->peer.get = ngx_http_egress_get_peer;
    u->peer.free = ngx_http_egress_free_peer;
    u->peer.tries = ctx->addrs ? ctx->addrs->n : 1;

#if (NGX_HTTP_SSL)
    u->ssl = peer->bound->binding->upstream_ssl;
    u->peer.set_session = ngx_http_egress_set_session;
    u->peer.save_session = ngx_http_egress_save_session;
#endif

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_get_peer(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_egress_peer_t *peer = data;

    ngx_addr_t         *fixed;
    ngx_connection_t   *c;
    ngx_egress_addr_t  *addr;

    pc->cached = 0;
    pc->connection = NULL;

    peer->ctx->reason = NGX_EGRESS_ALLOWED;
    peer->alert = 0;

    if (peer->pooled) {
        return ngx_http_egress_next_address(pc, peer);
    }

    c = ngx_http_egress_pool_get(peer->bound, &peer->ctx->sandbox,
                                 peer->repeatable ? 0
                                                  : NGX_HTTP_EGRESS_PEER_FRESH,
                                 &peer->ctx->addr, pc->log);
    peer->pooled = 1;

    if (c == NULL) {
        return ngx_http_egress_next_address(pc, peer);
    }

    pc->cached = 1;
    pc->connection = c;

    fixed = peer->bound->binding->upstream;

    addr = &peer->ctx->addr;

    pc->sockaddr = fixed ? fixed->sockaddr : &addr->sockaddr.sockaddr;
    pc->socklen = fixed ? fixed->socklen : addr->socklen;
    pc->name = fixed ? &fixed->name : &addr->name;

    return NGX_DONE;
}


/* each attempt has an address of its own, judged at that moment */

static ngx_int_t
ngx_http_egress_next_address(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer)
{
    ngx_addr_t  *fixed;

    fixed = peer->bound->binding->upstream;

    if (fixed) {
        pc->sockaddr = fixed->sockaddr;
        pc->socklen = fixed->socklen;
        pc->name = &fixed->name;

        return NGX_OK;
    }

    if (ngx_egress_addrs_next(peer->ctx->conf, peer->ctx->addrs,
                              &peer->current, &peer->bound->binding->privates,
                              pc)
        == NGX_OK)
    {
        return NGX_OK;
    }

    peer->ctx->reason = NGX_EGRESS_ADDRESS_REFUSED;

    return NGX_BUSY;
}


static void
ngx_http_egress_free_peer(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_http_egress_peer_t *peer = data;

    if (pc->tries) {
        pc->tries--;
    }

    if (state & NGX_PEER_FAILED) {

        /* nginx closes the connection next: the evidence is here only */

        peer->ctx->reason = ngx_http_egress_peer_error(pc, peer);

        ngx_http_egress_again(pc, peer);

#if (NGX_HTTP_SSL)
        if (!peer->request->upstream->request_sent) {
            ngx_http_egress_pool_save_session(peer->bound, NULL);
        }
#endif
    }

    if (pc->connection == NULL) {
        return;
    }

    /* called for each attempt: nothing of the request stays behind */

    ngx_http_egress_wipe_connection(pc->connection, peer->ctx->request_size);

#if (NGX_HTTP_SSL)
    if (pc->connection->ssl && !pc->cached) {
        SSL_set_app_data(pc->connection->ssl->connection, NULL);
    }
#endif

    if (!(state & NGX_PEER_FAILED)
        && ngx_http_egress_keep_peer(pc, peer) == NGX_OK)
    {
        pc->connection = NULL;
    }
}


/*
 * The next address is for a request that nobody has seen.  Only where a kept
 * connection failed before an octet of an answer all of them are tried once
 * more, with a request that may be repeated; nginx adds a try of its own then.
 */

static void
ngx_http_egress_again(ngx_peer_connection_t *pc, ngx_http_egress_peer_t *peer)
{
    ngx_uint_t            closed;
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    c = pc->connection;
    u = peer->request->upstream;

    closed = (c && !c->read->timedout && !c->write->timedout);

    if (pc->cached && closed
        && (!u->request_sent
            || (peer->repeatable && u->buffer.last == u->buffer.start)))
    {
        pc->tries = peer->ctx->addrs ? peer->ctx->addrs->n - 1 : 0;
        return;
    }

    pc->cached = 0;

    if (u->request_sent) {
        pc->tries = 0;
    }
}


static ngx_int_t
ngx_http_egress_keep_peer(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    c = pc->connection;
    u = peer->request->upstream;

    if (c->read->eof
        || c->read->error
        || c->read->timedout
        || c->write->error
        || c->write->timedout
        || !u->keepalive
        || !u->request_body_sent
        || ngx_terminate
        || ngx_exiting)
    {
        return NGX_DECLINED;
    }

    return ngx_http_egress_pool_put(peer->bound, &peer->ctx->sandbox, c, pc,
                                    peer->ctx->generation);
}


/* why it failed, by what is left of the attempt (prototype2 P12) */

static ngx_uint_t
ngx_http_egress_peer_error(ngx_peer_connection_t *pc,
    ngx_http_egress_peer_t *peer)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    c = pc->connection;
    u = peer->request->upstream;

    if (peer->ctx->upgrade_failed) {
        return NGX_EGRESS_HTTP_UPGRADE_FAILED;
    }

    if (peer->ctx->not_tls) {
        return NGX_EGRESS_TLS_PROTOCOL_ERROR;
    }

    if (peer->ctx->not_http) {
        return NGX_EGRESS_HTTP_PROTOCOL_ERROR;
    }

    if (c == NULL) {
        return NGX_EGRESS_CONNECTION_REFUSED;
    }

#if (NGX_HTTP_SSL)

    if (c->ssl) {

        if (!c->ssl->handshaked || !u->request_sent) {
            return ngx_http_egress_peer_tls_error(c, peer);
        }

    } else

#endif

    if (!u->request_sent) {
        return ngx_http_egress_peer_connect_error(c, peer);
    }

    if (c->read->timedout || c->write->timedout) {
        return NGX_EGRESS_CONNECTION_READ_TIMEOUT;
    }

    if (c->read->eof || c->read->error || c->write->error || c->error) {

        return u->buffer.start && u->buffer.last != u->buffer.start
               ? NGX_EGRESS_HTTP_RESPONSE_INCOMPLETE
               : NGX_EGRESS_CONNECTION_TERMINATED;
    }

    return NGX_EGRESS_HTTP_PROTOCOL_ERROR;
}


static ngx_uint_t
ngx_http_egress_peer_connect_error(ngx_connection_t *c,
    ngx_http_egress_peer_t *peer)
{
    char            buf[1];
    socklen_t       len;
    ngx_sockaddr_t  sa;

    if (c->write->timedout) {
        return NGX_EGRESS_CONNECTION_TIMEOUT;
    }

    len = sizeof(ngx_sockaddr_t);

    /* bytes before the handshake: nginx 1.28.2 and later refuse them */

    if (peer->bound->binding->upstream_ssl
        && (recv(c->fd, buf, 1, MSG_PEEK) > 0
            || getpeername(c->fd, &sa.sockaddr, &len) == 0))
    {
        return NGX_EGRESS_TLS_PROTOCOL_ERROR;
    }

    return NGX_EGRESS_CONNECTION_REFUSED;
}


#if (NGX_HTTP_SSL)

static ngx_uint_t
ngx_http_egress_peer_tls_error(ngx_connection_t *c,
    ngx_http_egress_peer_t *peer)
{
    ngx_str_t  *name;

    if (!c->ssl->handshaked) {

        if (c->write->timedout || c->read->timedout) {
            return NGX_EGRESS_CONNECTION_TIMEOUT;
        }

        if (peer->alert) {
            return NGX_EGRESS_TLS_ALERT_RECEIVED;
        }

        return c->read->error ? NGX_EGRESS_TLS_PROTOCOL_ERROR
                              : NGX_EGRESS_CONNECTION_TERMINATED;
    }

    name = &peer->bound->name->sn.str;

    if (SSL_get_verify_result(c->ssl->connection) != X509_V_OK
        || ngx_ssl_check_host(c, name) != NGX_OK)
    {
        return NGX_EGRESS_TLS_CERTIFICATE_ERROR;
    }

    return NGX_EGRESS_CONNECTION_TERMINATED;
}


static ngx_int_t
ngx_http_egress_set_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_egress_peer_t *peer = data;

    ngx_ssl_conn_t     *ssl;
    ngx_ssl_session_t  *session;

    ssl = pc->connection->ssl->connection;

    SSL_set_app_data(ssl, peer);
    SSL_set_info_callback(ssl, ngx_http_egress_peer_info);

    /*
     * nginx takes a common name for the host where there is no other name,
     * and a wildcard within a label (RFC 9525, 6.3 and 2): not so here.
     */

    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
                           |X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);

    if (SSL_set1_host(ssl, (char *) peer->bound->name->sn.str.data) != 1) {
        return NGX_ERROR;
    }

    session = ngx_http_egress_pool_session(peer->bound);

    if (session == NULL) {
        return NGX_OK;
    }

    return ngx_ssl_set_session(pc->connection, session);
}


/* only of a peer that was verified: OpenSSL keeps the result within (P12) */

static void
ngx_http_egress_save_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_egress_peer_t *peer = data;

    ngx_connection_t   *c;
    ngx_ssl_session_t  *session;

    c = pc->connection;

    if (SSL_get_verify_result(c->ssl->connection) != X509_V_OK) {
        return;
    }

    session = ngx_ssl_get_session(c);

    if (session) {
        ngx_http_egress_pool_save_session(peer->bound, session);
    }
}


static void
ngx_http_egress_peer_info(const ngx_ssl_conn_t *ssl_conn, int where, int ret)
{
    ngx_http_egress_peer_t  *peer;

    if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT
        || (ret >> 8) != SSL3_AL_FATAL)
    {
        return;
    }

    peer = SSL_get_app_data(ssl_conn);

    if (peer) {
        peer->alert = 1;
    }
}

#endif
