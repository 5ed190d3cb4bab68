
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* interim answers to one request */
#define NGX_HTTP_EGRESS_INTERIMS  16


static ngx_int_t ngx_http_egress_process_header(ngx_http_request_t *r);
static ngx_int_t ngx_http_egress_parse_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_interim(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_reinit(ngx_http_request_t *r);
static void ngx_http_egress_finalize(ngx_http_request_t *r, ngx_int_t rc);


void
ngx_http_egress_guard(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    ctx->injected = 1;
    ctx->http_version = r->http_version;

    ctx->process_header = u->process_header;
    ctx->reinit_request = u->reinit_request;
    ctx->finalize_request = u->finalize_request;

    u->process_header = ngx_http_egress_process_header;
    u->reinit_request = ngx_http_egress_reinit;
    u->finalize_request = ngx_http_egress_finalize;
}


/* before another attempt the proxy module starts over with its own parser */

static ngx_int_t
ngx_http_egress_reinit(ngx_http_request_t *r)
{
    ngx_int_t               rc;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx == NULL) {
        return NGX_ERROR;
    }

    rc = ctx->reinit_request(r);

    ctx->process_header = r->upstream->process_header;
    r->upstream->process_header = ngx_http_egress_process_header;

    return rc;
}


/*
 * Core quotes malformed lines of a response at error level, and an upstream
 * may have put the secret there (DESIGN 6.7, security X-34).
 */

static ngx_int_t
ngx_http_egress_process_header(ngx_http_request_t *r)
{
    ngx_log_t              *log;
    ngx_int_t               rc;
    ngx_uint_t              level;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx == NULL) {
        return NGX_ERROR;
    }

    log = r->connection->log;
    level = log->log_level;

    if ((level & NGX_LOG_DEBUG_ALL) || level > NGX_LOG_CRIT) {
        log->log_level = NGX_LOG_CRIT;
    }

    do {
        rc = ngx_http_egress_parse_header(r, ctx);

    } while (rc == NGX_DECLINED);

    log->log_level = level;

    if (ctx->not_http) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "upstream of binding \"%V\" did not answer in HTTP",
                      &ctx->req.bound->binding->name);
        return rc;
    }

    if (rc == NGX_ERROR || rc == NGX_HTTP_UPSTREAM_INVALID_HEADER) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "upstream of binding \"%V\" sent an invalid response",
                      &ctx->req.bound->binding->name);
    }

    return rc;
}


/*
 * One header of possibly several.  Returns what core expects, or NGX_DECLINED
 * where it was an interim one and there are octets of the next.
 */

static ngx_int_t
ngx_http_egress_parse_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t             rc;
    ngx_uint_t            status;
    ngx_http_upstream_t  *u;

    u = r->upstream;

#if (NGX_HTTP_SSL)

    if (u->ssl && u->peer.connection->ssl == NULL) {

        /* clear text from a server that TLS was not begun with */

        ctx->not_tls = 1;

        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
    }

#endif

    rc = ctx->process_header(r);

    /* a status line sets up another parser for the lines that follow it */

    if (u->process_header != ngx_http_egress_process_header) {
        ctx->process_header = u->process_header;
        u->process_header = ngx_http_egress_process_header;
    }

    if (rc == ngx_egress_early_hints) {
        return ngx_http_egress_interim(r, ctx);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    if (r->http_version < NGX_HTTP_VERSION_10) {

        /* what has no status line is taken for HTTP/0.9 by the proxy module */

        r->http_version = ctx->http_version;
        ctx->not_http = 1;

        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
    }

    status = u->headers_in.status_n;

    if (status < NGX_HTTP_CONTINUE) {
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
    }

    return (status < NGX_HTTP_OK) ? ngx_http_egress_interim(r, ctx) : NGX_OK;
}


/*
 * An interim answer (RFC 9110, 15.2) is dropped, and what follows it is read
 * with a parser that starts over; of 101 only one that was asked for is final.
 */

static ngx_int_t
ngx_http_egress_interim(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u->headers_in.status_n == NGX_HTTP_SWITCHING_PROTOCOLS) {

        if (ctx->upgrade.len && ngx_http_egress_switched(r, ctx)) {
            return NGX_OK;
        }

        ctx->upgrade_failed = 1;
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
    }

    if (++ctx->interims > NGX_HTTP_EGRESS_INTERIMS
        || ctx->reinit_request(r) != NGX_OK)
    {
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
    }

    ngx_memzero(&u->headers_in, sizeof(ngx_http_upstream_headers_in_t));
    u->headers_in.content_length_n = -1;
    u->headers_in.last_modified_time = -1;
    u->keepalive = 0;

    if (ngx_list_init(&u->headers_in.headers, r->pool, 8,
                      sizeof(ngx_table_elt_t))
        != NGX_OK
        || ngx_list_init(&u->headers_in.trailers, r->pool, 2,
                         sizeof(ngx_table_elt_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->process_header = u->process_header;
    u->process_header = ngx_http_egress_process_header;

    return (u->buffer.pos < u->buffer.last) ? NGX_DECLINED : NGX_AGAIN;
}


static void
ngx_http_egress_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx == NULL) {
        return;
    }

    ngx_http_egress_restore(ctx);

    if (r->header_sent && ctx->reason == NGX_EGRESS_ALLOWED
        && (rc == NGX_HTTP_BAD_GATEWAY || rc == NGX_HTTP_GATEWAY_TIME_OUT
            || (rc == NGX_ERROR && !r->connection->error)))
    {
        /* too late for the client to be told: the completion record tells */

        ctx->reason = NGX_EGRESS_HTTP_RESPONSE_INCOMPLETE;
    }

    if (ctx->finalize_request) {
        ctx->finalize_request(r, rc);
    }
}
