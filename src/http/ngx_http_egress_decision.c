
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* states of requests that a worker keeps for the next ones */
#define NGX_HTTP_EGRESS_SPARE  256


static ngx_int_t ngx_http_egress_resume(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_decide(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_header_reason(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_decided(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t reason);
static ngx_int_t ngx_http_egress_go(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_classify(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_websocket(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_allow(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static void ngx_http_egress_reset_ctx(ngx_http_egress_ctx_t *ctx);
static void ngx_http_egress_cleanup(void *data);


/* a worker's, of requests that are over: for those to come */

static ngx_http_egress_ctx_t  *ngx_http_egress_spare;
static ngx_uint_t              ngx_http_egress_nspare;


ngx_int_t
ngx_http_egress_handler(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_egress_ctx_t       *ctx;
    ngx_http_egress_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_egress_module);

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx && (ctx->waiting || ctx->reading)) {

        rc = ngx_http_egress_resume(r, ctx);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    /*
     * A refusal stays: an error_page with a proxy of any kind must not send
     * the request on all the same (prototype P10).  Pages from files may.
     */

    if (ctx && ctx->denied) {

        if (elcf->pass || r->content_handler) {
            return ngx_egress_reasons[ctx->reason].status;
        }

        return NGX_DECLINED;
    }

    if (!elcf->pass) {
        return NGX_DECLINED;
    }

    if (r != r->main || (ctx && ctx->injected)) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "\"egress_pass\" reached by a %s, refused",
                      r != r->main ? "subrequest" : "request that was "
                      "sent upstream before");
        return NGX_HTTP_FORBIDDEN;
    }

    if (ctx == NULL) {
        ctx = ngx_http_egress_create_ctx(r);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_egress_decide(r, ctx);
}


/* NGX_OK: the request came here by another way, post_action for one */

static ngx_int_t
ngx_http_egress_resume(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    if (ctx->waiting) {

        ctx->waiting = 0;

        if (ctx->resolved) {

            /* the host has been resolved, or it can't be */

            return ngx_http_egress_go(r, ctx);
        }

        ngx_resolve_name_done(ctx->resolving);
        ctx->resolving = NULL;
    }

    if (!ctx->reading) {
        return NGX_OK;
    }

    ctx->reading = 0;

    if (ctx->read) {

        /* the body that tells the class is there */

        return ngx_http_egress_decided(r, ctx,
                                       ngx_http_egress_inspected(r, ctx));
    }

    /* by another way, and half of the body has been read */

    return ngx_http_egress_refuse(r, ctx, NGX_EGRESS_MALFORMED_REQUEST);
}


static ngx_int_t
ngx_http_egress_decide(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t   rc;
    ngx_uint_t  reason;

    if (ctx->decided) {
        ngx_http_egress_restore(ctx);
        ngx_http_egress_reset_ctx(ctx);
    }

    ctx->decided = 1;
    ctx->req.method = r->method_name;

    if (ngx_http_egress_scan_headers(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reason = ngx_http_egress_header_reason(r, ctx);

    if (reason == NGX_EGRESS_ALLOWED && ctx->req.inspector) {

        /* nothing in its header refuses it: now its body is read */

        rc = ngx_http_egress_inspect(r, ctx);

        if (rc != NGX_OK) {
            return rc;
        }

        reason = ctx->inspect_reason;
    }

    return ngx_http_egress_decided(r, ctx, reason);
}


/*
 * In the order of DESIGN 4.5: where several reasons to refuse apply the
 * first one is told.
 */

static ngx_uint_t
ngx_http_egress_header_reason(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t  identity, reason;

    identity = ngx_http_egress_identify(r, ctx);

    if (identity == NGX_EGRESS_ALLOWED) {
        identity = ngx_http_egress_limit(r, ctx);
    }

    reason = ngx_http_egress_host(r, ctx);

    if (reason == NGX_EGRESS_ALLOWED) {
        reason = ngx_http_egress_target(r, ctx);
    }

    if (reason == NGX_EGRESS_ALLOWED) {
        reason = ngx_http_egress_classify(r, ctx);
    }

    /* without an identity, on a listener that can't ask for one */

    if (reason == NGX_EGRESS_ALLOWED) {
        reason = (identity == NGX_EGRESS_PROXY_AUTH_REQUIRED)
                 ? NGX_EGRESS_SANDBOX_UNKNOWN : identity;
    }

    if (reason == NGX_EGRESS_ALLOWED) {
        reason = ngx_http_egress_role(ctx);
    }

    if (reason == NGX_EGRESS_ALLOWED && ctx->loop) {
        reason = NGX_EGRESS_LOOP;
    }

    if (reason == NGX_EGRESS_ALLOWED && ctx->upgrade.len
        && !(ctx->req.bound->binding->upgrade
             && ngx_http_egress_websocket(r, ctx)))
    {
        reason = NGX_EGRESS_UPGRADE_REFUSED;
    }

    if (reason == NGX_EGRESS_ALLOWED) {
        reason = ngx_http_egress_credential(r, ctx);
    }

    if (reason == NGX_EGRESS_ALLOWED && ngx_http_egress_auth_loop(r, ctx)) {
        reason = NGX_EGRESS_AUTH_LOOP;
    }

    return reason;
}


/* all has been judged that the client sent */

static ngx_int_t
ngx_http_egress_decided(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_uint_t reason)
{
    if (reason == NGX_EGRESS_ALLOWED && ctx->judged) {

        /* access may have been cut off while the body came in */

        reason = ngx_http_egress_still(r, ctx);
    }

    if (reason != NGX_EGRESS_ALLOWED) {
        return ngx_http_egress_refuse(r, ctx, reason);
    }

    switch (ngx_http_egress_resolve(r, ctx)) {

    case NGX_AGAIN:
        ngx_http_egress_resolve_wait(r);
        return NGX_AGAIN;

    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;

    case NGX_DECLINED:
        return ngx_http_egress_refuse(r, ctx, ctx->resolve_reason);

    default: /* NGX_OK */
        return ngx_http_egress_allow(r, ctx);
    }
}


/* once the resolver has answered a request that waited for it */

static ngx_int_t
ngx_http_egress_go(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t  reason;

    reason = ctx->resolve_reason;

    if (reason == NGX_EGRESS_ALLOWED) {

        /* access may have been cut off while the host was looked up */

        reason = ngx_http_egress_still(r, ctx);
    }

    if (reason != NGX_EGRESS_ALLOWED) {
        return ngx_http_egress_refuse(r, ctx, reason);
    }

    return ngx_http_egress_allow(r, ctx);
}


static ngx_uint_t
ngx_http_egress_classify(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t                     reason;
    ngx_egress_request_t          *req;
    ngx_egress_sandbox_binding_t  *bound;

    req = &ctx->req;

    bound = ngx_egress_sandbox_bound(ctx->box, req->bound->binding);

    if (bound) {
        req->repos = bound->repos;
    }

    if (r->headers_in.content_type) {
        req->content_type = r->headers_in.content_type->value;
    }

    ngx_http_egress_role_set(ctx);

    ngx_egress_classify(req);

    reason = req->refused ? NGX_EGRESS_RULE_REFUSED : NGX_EGRESS_ALLOWED;
    reason = ngx_http_egress_report(ctx, reason);

    if (reason == NGX_EGRESS_ALLOWED
        && (ctx->method_overridden
            || ngx_egress_target_overrides(&req->target.query)))
    {
        reason = ngx_http_egress_report(ctx, NGX_EGRESS_METHOD_REFUSED);
    }

    if (reason != NGX_EGRESS_ALLOWED) {
        return reason;
    }

    if (req->inspector && ngx_http_egress_inspect_query(r, ctx) != NGX_OK) {
        return NGX_EGRESS_CLASS_UNKNOWN;
    }

    return ngx_http_egress_judge(ctx);
}


/* WebSocket and nothing else, since all else would be judged by nobody */

static ngx_uint_t
ngx_http_egress_websocket(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    return r->http_version == NGX_HTTP_VERSION_11
           && r->method == NGX_HTTP_GET
           && ctx->nupgrades == 1
           && ctx->upgrade.len == sizeof("websocket") - 1
           && ngx_strncasecmp(ctx->upgrade.data, (u_char *) "websocket",
                              sizeof("websocket") - 1)
              == 0
           && ctx->websocket && ctx->websocket_key;
}


static ngx_int_t
ngx_http_egress_allow(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_log_t           *log;
    ngx_http_cleanup_t  *cln;

    /* no record, no secret */

    if (ngx_http_egress_log_decision(r, ctx) != NGX_OK) {
        return ngx_http_egress_refuse(r, ctx, NGX_EGRESS_AUDIT_UNAVAILABLE);
    }

    /* handlers added here run before the access log is written */

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_egress_restore;
    cln->data = ctx;

    if (ngx_http_egress_filter_headers(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->req.bound->binding->secrets.nelts) {

        /* at debug level core prints all headers, and an upstream may echo */

        log = r->connection->log;

        ctx->log_level = log->log_level;
        ctx->log_masked = 1;

        log->log_level &= ~NGX_LOG_DEBUG_HTTP;
    }

    ngx_http_set_ctx(r, ctx, ngx_http_egress_module);

    return NGX_DECLINED;
}


ngx_http_egress_ctx_t *
ngx_http_egress_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t     *cln;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_egress_module);

    if (ctx || (!r->internal && !r->filter_finalize && r == r->main)) {
        return ctx;
    }

    for (cln = r->main->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_egress_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


ngx_http_egress_ctx_t *
ngx_http_egress_create_ctx(ngx_http_request_t *r)
{
    ngx_uint_t                    nfields;
    ngx_pool_cleanup_t           *cln;
    ngx_http_egress_ctx_t        *ctx;
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_get_module_main_conf(r, ngx_http_egress_module);

    nfields = emcf->egress->fields.nelts;

    cln = ngx_pool_cleanup_add(r->main->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    ctx = ngx_http_egress_spare;

    if (ctx) {
        ngx_http_egress_spare = ctx->next;
        ngx_http_egress_nspare--;

    } else {
        ctx = ngx_alloc(sizeof(ngx_http_egress_ctx_t), r->connection->log);
        if (ctx == NULL) {
            return NULL;
        }
    }

    ngx_memzero(ctx, offsetof(ngx_http_egress_ctx_t, some_copies));

    cln->handler = ngx_http_egress_cleanup;
    cln->data = ctx;

    ctx->fields = ngx_pcalloc(r->main->pool,
                              nfields * sizeof(ngx_http_egress_field_t));
    if (ctx->fields == NULL) {
        return NULL;
    }

    /* arrays that take memory of the pool only when they grow */

    ctx->copies.elts = ctx->some_copies;
    ctx->copies.nalloc = sizeof(ctx->some_copies)
                         / sizeof(ngx_http_egress_copy_t);
    ctx->copies.size = sizeof(ngx_http_egress_copy_t);
    ctx->copies.pool = r->main->pool;

    ctx->kept = ctx->copies;
    ctx->kept.elts = ctx->some_kept;
    ctx->kept.nalloc = sizeof(ctx->some_kept)
                       / sizeof(ngx_http_egress_copy_t);

    ctx->request = r->main;
    ctx->conf = emcf->egress;
    ctx->role = emcf->egress->unidentified;

    ngx_egress_audit_id(ctx->id);

    ngx_http_set_ctx(r, ctx, ngx_http_egress_module);

    return ctx;
}


ngx_connection_t *
ngx_http_egress_connection(ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream) {
        return r->stream->connection->connection;
    }
#endif

    return r->connection;
}


/* an internal redirect before anything was sent: all is judged anew */

static void
ngx_http_egress_reset_ctx(ngx_http_egress_ctx_t *ctx)
{
    ngx_memzero(&ctx->req, sizeof(ngx_egress_request_t));

    ngx_memzero(ctx->fields, ctx->conf->fields.nelts
                             * sizeof(ngx_http_egress_field_t));

    ctx->would = NGX_EGRESS_ALLOWED;
    ctx->resolve_reason = NGX_EGRESS_ALLOWED;
    ngx_str_null(&ctx->upgrade);
    ctx->accept_encoding = NULL;
    ctx->websocket_key = NULL;
    ctx->websocket = 0;
    ctx->nupgrades = 0;
    ctx->foreign = 0;
    ctx->generation = 0;

    ngx_egress_addrs_free(ctx->addrs);
    ctx->addrs = NULL;

    ctx->said = NULL;
    ctx->judged = 0;
    ctx->content_encodings = 0;
    ctx->mcp_method.count = 0;
    ctx->mcp_name.count = 0;

    ctx->credential = NGX_HTTP_EGRESS_CRED_NONE;
    ctx->has_credential_id = 0;
    ctx->connection_tokens = 0;
    ctx->connection_upgrade = 0;
    ctx->remove_headers = 0;
    ctx->loop = 0;
    ctx->method_overridden = 0;
    ctx->content_types = 0;
    ctx->audited = 0;
}


/* it marks the state, and wipes where nothing else has done so */

static void
ngx_http_egress_cleanup(void *data)
{
    ngx_http_egress_ctx_t *ctx = data;

    ngx_uint_t               i;
    ngx_http_egress_copy_t  *kept;

    ngx_http_egress_wipe(NULL, ctx);

    kept = ctx->kept.elts;

    for (i = 0; i < ctx->kept.nelts; i++) {
        ngx_explicit_memzero(kept[i].data, kept[i].len);
    }

    ctx->kept.nelts = 0;

    /* the last use of it: no cleanup of ours is older */

    if (ngx_http_egress_nspare == NGX_HTTP_EGRESS_SPARE) {
        ngx_free(ctx);
        return;
    }

    ctx->next = ngx_http_egress_spare;
    ngx_http_egress_spare = ctx;
    ngx_http_egress_nspare++;
}


void
ngx_http_egress_restore(void *data)
{
    ngx_http_egress_ctx_t *ctx = data;

    ngx_http_request_t  *r;

    r = ctx->request;

    ngx_http_egress_wipe(r, ctx);

    if (ctx->headers_saved) {
        r->headers_in.headers = ctx->headers;
        ctx->headers_saved = 0;
    }

    if (ctx->uri_saved) {
        r->unparsed_uri = ctx->unparsed_uri;
        ctx->uri_saved = 0;
    }

    if (ctx->log_masked) {
        r->connection->log->log_level = ctx->log_level;
        ctx->log_masked = 0;
    }
}
