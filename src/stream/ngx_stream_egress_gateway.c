
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static void ngx_stream_egress_read_handler(ngx_event_t *rev);
static void ngx_stream_egress_write_handler(ngx_event_t *wev);
static ssize_t ngx_stream_egress_peek(ngx_connection_t *c);
static ngx_int_t ngx_stream_egress_wait(ngx_stream_egress_ctx_t *ctx,
    size_t peeked);
static ngx_int_t ngx_stream_egress_start(ngx_stream_egress_ctx_t *ctx,
    u_char *data, size_t len);
static ngx_uint_t ngx_stream_egress_admit(ngx_stream_egress_ctx_t *ctx);
static ngx_uint_t ngx_stream_egress_limit(ngx_stream_egress_ctx_t *ctx);
static ngx_int_t ngx_stream_egress_judge_name(ngx_stream_egress_ctx_t *ctx);
static ngx_int_t ngx_stream_egress_named(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_client_hello_t *hello);
static ngx_int_t ngx_stream_egress_by_address(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_client_hello_t *hello);
static ngx_int_t ngx_stream_egress_unnamed(ngx_stream_egress_ctx_t *ctx);
static ngx_int_t ngx_stream_egress_go(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_client_hello_t *hello);
static ngx_int_t ngx_stream_egress_hand_over(ngx_stream_egress_ctx_t *ctx);
static ngx_int_t ngx_stream_egress_leave(ngx_stream_egress_ctx_t *ctx);


/* the octets of one connection at a time: a step keeps none of them */

static u_char  ngx_stream_egress_peeked[NGX_STREAM_EGRESS_PEEK];
static u_char  ngx_stream_egress_message[NGX_EGRESS_CLIENT_HELLO_LEN];


ngx_int_t
ngx_stream_egress_preread_handler(ngx_stream_session_t *s)
{
    ngx_connection_t               *c;
    ngx_pool_cleanup_t             *cln;
    ngx_stream_egress_ctx_t        *ctx;
    ngx_stream_egress_srv_conf_t   *escf;
    ngx_stream_egress_main_conf_t  *emcf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_egress_module);

    if (!escf->gateway) {
        return NGX_DECLINED;
    }

    c = s->connection;

    emcf = ngx_stream_get_module_main_conf(s, ngx_stream_egress_module);

    cln = ngx_pool_cleanup_add(c->pool, sizeof(ngx_stream_egress_ctx_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    ctx = cln->data;

    ngx_memzero(ctx, sizeof(ngx_stream_egress_ctx_t));

    cln->handler = ngx_stream_egress_cleanup;

    ctx->session = s;
    ctx->conf = emcf->egress;
    ctx->step = ngx_stream_egress_start;

    ctx->conf->api->audit_id(ctx->id);

    ngx_stream_set_ctx(s, ctx, ngx_stream_egress_module);

    /*
     * nginx would read into a buffer, from which a connection can't be
     * handed over; and it deletes a timer that is set here (prototype P2).
     */

    c->read->handler = ngx_stream_egress_read_handler;
    c->write->handler = ngx_stream_egress_write_handler;

    ngx_post_event(c->read, &ngx_posted_events);

    return NGX_DONE;
}


static void
ngx_stream_egress_read_handler(ngx_event_t *rev)
{
    ngx_connection_t            *c;
    ngx_stream_session_t        *s;
    ngx_stream_egress_ctx_t     *ctx;
    ngx_stream_core_srv_conf_t  *cscf;

    c = rev->data;
    s = c->data;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);

    if (c->close) {

        /* connections are short, or the worker is leaving */

        ngx_stream_finalize_session(s, NGX_STREAM_SERVICE_UNAVAILABLE);
        return;
    }

    if (rev->timedout) {
        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "client did not say in time where it wants to go");

        (void) ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
        return;
    }

    if (!rev->timer_set) {

        /* one deadline for all of it: octets that come do not move it */

        cscf = ngx_stream_get_module_srv_conf(s, ngx_stream_core_module);

        ngx_add_timer(rev, cscf->preread_timeout);
        ngx_reusable_connection(c, 1);
    }

    ngx_stream_egress_read(ctx);
}


/* a short answer is sent at once, or the connection is closed */

static void
ngx_stream_egress_write_handler(ngx_event_t *wev)
{
    ngx_log_debug0(NGX_LOG_DEBUG_STREAM, wev->log, 0,
                   "egress dummy write handler");
}


void
ngx_stream_egress_read(ngx_stream_egress_ctx_t *ctx)
{
    ssize_t                n;
    ngx_int_t              rc;
    ngx_event_t           *rev;
    ngx_stream_session_t  *s;

    s = ctx->session;
    rev = s->connection->read;

    for ( ;; ) {

        n = ngx_stream_egress_peek(s->connection);

        if (n == 0 || n == NGX_ERROR) {
            ngx_stream_finalize_session(s, NGX_STREAM_OK);
            return;
        }

        /* while a name is being resolved what comes has to wait */

        if (n == NGX_AGAIN || ctx->resolving) {
            break;
        }

        rc = ctx->step(ctx, ngx_stream_egress_peeked, n);

        /* a name and a token of a sandbox may have been there */

        ngx_explicit_memzero(ngx_stream_egress_peeked, n);

        if (rc == NGX_OK) {
            continue;
        }

        if (rc == NGX_ERROR) {
            ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
            return;
        }

        if (rc == NGX_DONE || ngx_stream_egress_wait(ctx, n) != NGX_OK) {
            return;
        }

        break;
    }

    rev->ready = 0;

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
    }
}


/* what waits in the socket stays there */

static ssize_t
ngx_stream_egress_peek(ngx_connection_t *c)
{
    ssize_t    n;
    ngx_err_t  err;

    do {
        n = recv(c->fd, (char *) ngx_stream_egress_peeked,
                 NGX_STREAM_EGRESS_PEEK, MSG_PEEK);
        err = ngx_socket_errno;

        ngx_log_debug1(NGX_LOG_DEBUG_STREAM, c->log, 0,
                       "egress peek: %z", n);

    } while (n == -1 && err == NGX_EINTR);

    if (n != -1) {
        return n;
    }

    if (err == NGX_EAGAIN) {
        return NGX_AGAIN;
    }

    c->read->error = 1;
    ngx_connection_error(c, err, "recv() failed");

    return NGX_ERROR;
}


/* tells whether what a step wants to go on can still come */

static ngx_int_t
ngx_stream_egress_wait(ngx_stream_egress_ctx_t *ctx, size_t peeked)
{
    if (ctx->resolving) {
        return NGX_OK;
    }

    if (peeked == NGX_STREAM_EGRESS_PEEK) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    if (ctx->session->connection->read->pending_eof) {

        /* the rest will not come */

        ngx_stream_finalize_session(ctx->session, NGX_STREAM_OK);
        return NGX_DONE;
    }

    return NGX_OK;
}


ngx_int_t
ngx_stream_egress_consume(ngx_connection_t *c, size_t len)
{
    ssize_t  n;

    n = recv(c->fd, (char *) ngx_stream_egress_peeked, len, 0);

    if (n != (ssize_t) len) {
        ngx_log_error(NGX_LOG_ERR, c->log, n == -1 ? ngx_socket_errno : 0,
                      "recv() returned %z of %uz peeked bytes", n, len);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_stream_egress_send(ngx_connection_t *c, u_char *data, size_t len)
{
    ssize_t  n;

    n = c->send(c, data, len);

    if (n != (ssize_t) len) {

        /* a client that reads nothing at all, or is gone */

        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "send() sent %z of %uz bytes of an answer", n, len);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* DESIGN 4.1: the first octet tells what a client speaks */

static ngx_int_t
ngx_stream_egress_start(ngx_stream_egress_ctx_t *ctx, u_char *data, size_t len)
{
    u_char                         ch;
    ngx_uint_t                     accept;
    ngx_stream_egress_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(ctx->session,
                                          ngx_stream_egress_module);

    ch = ngx_tolower(data[0]);

    if (data[0] == 0x16) {
        accept = NGX_STREAM_EGRESS_TLS;
        ctx->via = NGX_EGRESS_VIA_TLS;
        ctx->tell = NGX_STREAM_EGRESS_ALERT;
        ctx->step = ngx_stream_egress_hello;

    } else if (data[0] == NGX_EGRESS_SOCKS5_VERSION) {
        accept = NGX_STREAM_EGRESS_SOCKS5;
        ctx->via = NGX_EGRESS_VIA_SOCKS5;
        ctx->tell = NGX_STREAM_EGRESS_METHOD;
        ctx->step = ngx_stream_egress_socks5;

    } else if (ch >= 'a' && ch <= 'z') {
        accept = NGX_STREAM_EGRESS_CONNECT;
        ctx->via = NGX_EGRESS_VIA_CONNECT;
        ctx->tell = NGX_STREAM_EGRESS_HTTP;
        ctx->step = ngx_stream_egress_connect;

    } else {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    /*
     * The names of the parameter are the protocols that are let in; a path
     * for "self=" is no use of the gateway.
     */

    if (!(escf->accept & accept)
        && !(accept == NGX_STREAM_EGRESS_CONNECT && escf->self.sockaddr))
    {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_METHOD_REFUSED);
    }

    return NGX_OK;
}


ngx_uint_t
ngx_stream_egress_identify(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_identity_t *identity)
{
    ngx_str_t                      id;
    ngx_uint_t                     reason;
    ngx_connection_t              *c;
    ngx_stream_egress_srv_conf_t  *escf;

    c = ctx->session->connection;

    ctx->box = NULL;
    ngx_str_null(&ctx->sandbox);

    escf = ngx_stream_get_module_srv_conf(ctx->session,
                                          ngx_stream_egress_module);

    ngx_str_null(&id);

    if (!identity->given && escf->sandbox
        && ngx_stream_complex_value(ctx->session, escf->sandbox, &id)
           != NGX_OK)
    {
        ctx->role = NULL;
        return NGX_EGRESS_SANDBOX_UNKNOWN;
    }

    if (id.len) {
        reason = ctx->conf->api->vouch(ctx->conf, &id, c->sockaddr,
                                       &ctx->role, &ctx->box, c->log);

    } else {
        reason = ctx->conf->api->identify(ctx->conf, identity, c->sockaddr,
                                          &ctx->role, &ctx->box, c->log);
    }

    if (reason != NGX_EGRESS_ALLOWED || ctx->box == NULL) {
        return reason;
    }

    if (ngx_stream_egress_live(ctx) != NGX_OK) {
        return NGX_EGRESS_LIMIT_REACHED;
    }

    ctx->sandbox = ctx->box->id;

    return NGX_EGRESS_ALLOWED;
}


/* a client that can give no credentials before what it says is read */

static ngx_uint_t
ngx_stream_egress_admit(ngx_stream_egress_ctx_t *ctx)
{
    ngx_uint_t             reason;
    ngx_egress_identity_t  identity;

    ngx_memzero(&identity, sizeof(ngx_egress_identity_t));

    reason = ngx_stream_egress_identify(ctx, &identity);

    return (reason == NGX_EGRESS_ALLOWED) ? ngx_stream_egress_limit(ctx)
                                          : reason;
}


/* asked again for the same client, it counts no connection twice */

static ngx_uint_t
ngx_stream_egress_limit(ngx_stream_egress_ctx_t *ctx)
{
    return ctx->conf->api->limit_enter(ctx->conf,
                                       ctx->session->connection->pool,
                                       ctx->role, &ctx->sandbox);
}


ngx_int_t
ngx_stream_egress_judge(ngx_stream_egress_ctx_t *ctx)
{
    ngx_egress_host_t  *host;

    host = &ctx->host;

    if (ctx->resolved) {
        return NGX_OK;
    }

    if (ngx_stream_egress_limit(ctx) != NGX_EGRESS_ALLOWED) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_LIMIT_REACHED);
    }

    ctx->conf->api->destination(ctx->role, host, &ctx->dest);

    if (host->family != AF_UNSPEC) {

        /* at 443 a ClientHello may still name a host (DESIGN 6.13) */

        if (ctx->dest.kind == NGX_EGRESS_DEST_REFUSED
            && host->port != NGX_EGRESS_PORT)
        {
            return ngx_stream_egress_refuse(ctx,
                                            NGX_EGRESS_DESTINATION_REFUSED);
        }

        return ngx_stream_egress_literal(ctx);
    }

    return ngx_stream_egress_judge_name(ctx);
}


static ngx_int_t
ngx_stream_egress_judge_name(ngx_stream_egress_ctx_t *ctx)
{
    switch (ctx->dest.kind) {

    case NGX_EGRESS_DEST_BOUND:
        return NGX_OK;

    case NGX_EGRESS_DEST_NAME:
        return ctx->resolved ? NGX_OK : ngx_stream_egress_resolve(ctx);

    case NGX_EGRESS_DEST_BINDING:
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_BINDING_REFUSED);

    default: /* NGX_EGRESS_DEST_REFUSED */
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_DESTINATION_REFUSED);
    }
}


ngx_int_t
ngx_stream_egress_answered(ngx_stream_egress_ctx_t *ctx)
{
    ctx->tell = NGX_STREAM_EGRESS_SILENT;
    ctx->step = ngx_stream_egress_hello;

    /*
     * A server may speak first, and the client then sends nothing: by port,
     * not by waiting (prototype P2).
     */

    if (ctx->dest.kind == NGX_EGRESS_DEST_ADDRESS
        && ctx->host.port != NGX_EGRESS_PORT)
    {
        return ngx_stream_egress_go(ctx, NULL);
    }

    return NGX_OK;
}


ngx_int_t
ngx_stream_egress_hello(ngx_stream_egress_ctx_t *ctx, u_char *data, size_t len)
{
    u_char                     ch;
    ngx_int_t                  rc;
    ngx_egress_client_hello_t  hello;

    if (data[0] != 0x16) {

        if (ctx->dest.kind == NGX_EGRESS_DEST_ADDRESS) {
            return ngx_stream_egress_go(ctx, NULL);
        }

        ch = ngx_tolower(data[0]);

        return ngx_stream_egress_refuse(ctx, (ch >= 'a' && ch <= 'z')
                                             ? NGX_EGRESS_PLAIN_HTTP
                                             : NGX_EGRESS_MALFORMED_REQUEST);
    }

    /* from here on an alert is what the client understands */

    ctx->tell = NGX_STREAM_EGRESS_ALERT;

    rc = ctx->conf->api->client_hello(data, len, ngx_stream_egress_message,
                                      &hello);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc == NGX_ERROR) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    if (hello.sni && ctx->sni.len == 0) {
        ctx->sni.len = hello.host.len;
        ctx->sni.data = ngx_pnalloc(ctx->session->connection->pool,
                                    hello.host.len);
        if (ctx->sni.data == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(ctx->sni.data, hello.host.name, hello.host.len);
    }

    if (ctx->via == NGX_EGRESS_VIA_TLS || ctx->host.family != AF_UNSPEC) {
        return ngx_stream_egress_named(ctx, &hello);
    }

    /* the name of the tunnel and that within must agree */

    if (!hello.sni
        || hello.host.len != ctx->host.len
        || ngx_memcmp(hello.host.name, ctx->host.name, ctx->host.len) != 0)
    {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_HOST_MISMATCH);
    }

    return ngx_stream_egress_go(ctx, &hello);
}


/* bare TLS, or an address instead of a name: the server name decides */

static ngx_int_t
ngx_stream_egress_named(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_client_hello_t *hello)
{
    ngx_int_t                 rc;
    ngx_uint_t                reason;
    ngx_egress_destination_t  dest;

    if (ctx->via == NGX_EGRESS_VIA_TLS) {

        /* there is no place for credentials in front of a handshake */

        reason = ngx_stream_egress_admit(ctx);

        if (reason != NGX_EGRESS_ALLOWED) {
            return ngx_stream_egress_refuse(ctx, reason);
        }
    }

    if (!hello->sni) {
        return ngx_stream_egress_by_address(ctx, hello);
    }

    if (!ctx->resolved || ctx->dest.kind != NGX_EGRESS_DEST_NAME) {

        /* the port is not known: bound names are found at any */

        hello->host.port = 0;

        ctx->conf->api->destination(ctx->role, &hello->host, &dest);

        if ((dest.kind == NGX_EGRESS_DEST_REFUSED || dest.report)
            && ctx->host.family != AF_UNSPEC)
        {
            return ngx_stream_egress_by_address(ctx, hello);
        }

        ctx->host = hello->host;
        ctx->dest = dest;

        ctx->conf->api->addrs_free(ctx->addrs);
        ctx->addrs = NULL;
    }

    if (hello->host.len != ctx->host.len
        || ngx_memcmp(hello->host.name, ctx->host.name, ctx->host.len) != 0)
    {
        /* not the name that was resolved */

        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_HOST_MISMATCH);
    }

    if (ctx->dest.kind == NGX_EGRESS_DEST_NAME) {
        ctx->host.port = NGX_EGRESS_PORT;
    }

    rc = ngx_stream_egress_judge_name(ctx);

    return (rc == NGX_OK) ? ngx_stream_egress_go(ctx, hello) : rc;
}


/* no name that the policy knows: the address alone decides, if there is one */

static ngx_int_t
ngx_stream_egress_by_address(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_client_hello_t *hello)
{
    return (ctx->dest.kind == NGX_EGRESS_DEST_ADDRESS)
           ? ngx_stream_egress_go(ctx, hello)
           : ngx_stream_egress_unnamed(ctx);
}


/* an address that may not be connected to has had its chance to be named */

static ngx_int_t
ngx_stream_egress_unnamed(ngx_stream_egress_ctx_t *ctx)
{
    return ngx_stream_egress_refuse(ctx, ctx->reason
                                         ? ctx->reason
                                         : NGX_EGRESS_DESTINATION_REFUSED);
}


static ngx_int_t
ngx_stream_egress_go(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_client_hello_t *hello)
{
    if (ctx->dest.kind == NGX_EGRESS_DEST_BOUND) {
        return ngx_stream_egress_hand_over(ctx);
    }

    if (ctx->addrs == NULL) {
        return ngx_stream_egress_unnamed(ctx);
    }

    if (hello) {
        ctx->loop = ctx->conf->api->loop_enter(ctx->conf, hello->random,
                                               sizeof(hello->random));
        if (ctx->loop == NULL) {
            return ngx_stream_egress_refuse(ctx, NGX_EGRESS_LOOP);
        }
    }

    ctx->reason = NGX_EGRESS_ALLOWED;
    ctx->decided = 1;

    ngx_stream_egress_log_connection(ctx);

    return ngx_stream_egress_leave(ctx);
}


ngx_int_t
ngx_stream_egress_origin(ngx_stream_egress_ctx_t *ctx)
{
    ngx_uint_t  reason;

    ctx->via = NGX_EGRESS_VIA_DIRECT;

    reason = ngx_stream_egress_admit(ctx);

    /* credentials are in the head, which is read there, at each request */

    if (reason != NGX_EGRESS_ALLOWED
        && reason != NGX_EGRESS_PROXY_AUTH_REQUIRED)
    {
        return ngx_stream_egress_refuse(ctx, reason);
    }

    ctx->self = 1;

    return ngx_stream_egress_hand_over(ctx);
}


static ngx_int_t
ngx_stream_egress_hand_over(ngx_stream_egress_ctx_t *ctx)
{
    ngx_egress_record_t  *record;

    record = ctx->conf->api->record_add(ctx->session->connection->pool);
    if (record == NULL) {
        return NGX_ERROR;
    }

    record->via = ctx->via;
    record->name = ctx->dest.name;
    record->port = ctx->host.port;
    record->role = ctx->role;
    record->box = ctx->box;

    ctx->handover = 1;
    ctx->decided = 1;

    return ngx_stream_egress_leave(ctx);
}


/* on to the content phase, with the ClientHello still in the socket */

static ngx_int_t
ngx_stream_egress_leave(ngx_stream_egress_ctx_t *ctx)
{
    ngx_connection_t      *c;
    ngx_stream_session_t  *s;

    s = ctx->session;
    c = s->connection;

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    ngx_reusable_connection(c, 0);

    c->read->ready = 1;
    c->sent = 0;

    s->phase_handler++;

    ngx_stream_core_run_phases(s);

    return NGX_DONE;
}
