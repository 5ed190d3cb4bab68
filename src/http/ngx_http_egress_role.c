
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_uint_t ngx_http_egress_reported(ngx_egress_request_t *req,
    ngx_uint_t reason);


ngx_uint_t
ngx_http_egress_limit(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t         reason;
    ngx_connection_t  *c;

    c = ngx_http_egress_connection(r);

    reason = ngx_egress_limit_enter(ctx->conf, c->pool, ctx->role,
                                    &ctx->sandbox);

    if (reason != NGX_EGRESS_ALLOWED) {

        /* one that is not counted must not stay open */

        r->keepalive = 0;
    }

    return reason;
}


void
ngx_http_egress_role_set(ngx_http_egress_ctx_t *ctx)
{
    ngx_egress_request_t  *req;

    req = &ctx->req;

    if (ctx->role == NULL) {

        /* an identity that is refused: told only once all else is right */

        req->restriction = NULL;
        req->report = 0;

        return;
    }

    req->restriction = ngx_egress_restrict_find(ctx->role,
                                                req->bound->binding);
    req->report = (ctx->role->report != 0);
}


ngx_uint_t
ngx_http_egress_role(ngx_http_egress_ctx_t *ctx)
{
    if (!ngx_egress_role_uses(ctx->role, ctx->req.bound->binding)) {
        return NGX_EGRESS_BINDING_REFUSED;
    }

    return ngx_http_egress_report(ctx, ngx_egress_restrict_check(&ctx->req));
}


ngx_uint_t
ngx_http_egress_judge(ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t             reason;
    ngx_egress_request_t  *req;

    req = &ctx->req;
    reason = NGX_EGRESS_ALLOWED;

    if (req->inspector == NGX_EGRESS_INSPECT_NONE || ctx->judged) {
        reason = ngx_http_egress_report(ctx,
                                        ngx_egress_class_reason(req,
                                                                ctx->said));
    }

    /* by its path once: those must not take the place of what a body names */

    if (reason == NGX_EGRESS_ALLOWED && !ctx->judged) {
        reason = ngx_http_egress_report(ctx, ngx_egress_repo_check(req));
    }

    if (reason == NGX_EGRESS_ALLOWED && ctx->said) {
        reason = ngx_egress_repo_check_body(req, ctx->said);
        reason = ngx_http_egress_report(ctx, reason);
    }

    return reason;
}


ngx_uint_t
ngx_http_egress_report(ngx_http_egress_ctx_t *ctx, ngx_uint_t reason)
{
    ngx_egress_request_t  *req;

    static ngx_str_t  none = ngx_null_string;

    req = &ctx->req;

    if (reason == NGX_EGRESS_ALLOWED || !req->report
        || !ngx_http_egress_reported(req, reason))
    {
        return reason;
    }

    if (ctx->would == NGX_EGRESS_ALLOWED) {

        /* the first reason is told, with the rule that it is of */

        ctx->would = reason;

        if (req->told == NULL) {
            req->told = req->rule ? &req->rule->text : &none;
        }
    }

    return NGX_EGRESS_ALLOWED;
}


/* DESIGN 6.6: all others protect the secret, or the gateway itself */

static ngx_uint_t
ngx_http_egress_reported(ngx_egress_request_t *req, ngx_uint_t reason)
{
    switch (reason) {

    case NGX_EGRESS_WRITE_REFUSED:
    case NGX_EGRESS_RULE_REFUSED:
    case NGX_EGRESS_TOOL_REFUSED:
    case NGX_EGRESS_REPO_REFUSED:
    case NGX_EGRESS_REPO_UNKNOWN:
        return 1;

    case NGX_EGRESS_METHOD_REFUSED:
        return ngx_egress_method(&req->method) != 0;

    default:
        return 0;
    }
}
