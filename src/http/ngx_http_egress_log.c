
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static void ngx_http_egress_record_target(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec);
static void ngx_http_egress_record_rule(ngx_http_egress_ctx_t *ctx,
    ngx_egress_audit_t *rec);
static void ngx_http_egress_record_decision(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec);
static void ngx_http_egress_record_upstream(ngx_http_request_t *r,
    ngx_egress_audit_t *rec);
static ngx_int_t ngx_http_egress_record_repo(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec);
static ngx_http_egress_ctx_t *ngx_http_egress_log_unanswered(
    ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx);


ngx_int_t
ngx_http_egress_record(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_audit_t *rec)
{
    ngx_connection_t      *c;
    ngx_egress_request_t  *req;

    req = &ctx->req;
    c = ngx_http_egress_connection(r);

    ngx_memzero(rec, sizeof(ngx_egress_audit_t));

    rec->id.data = ctx->id;
    rec->id.len = NGX_EGRESS_ID_LEN;

    if (ctx->role) {
        rec->role = ctx->role->name;
    }

    rec->via = ngx_egress_vias[ctx->via];
    rec->client = c->addr_text;
    rec->host = ctx->host;
    rec->port = ctx->port;

    rec->sandbox = ctx->sandbox;

    if (ctx->record && ctx->record->name) {
        rec->sni = ctx->record->name->sn.str;
    }

    rec->method = r->method_name;

    ngx_http_egress_record_target(r, ctx, rec);

    if (req->bound) {
        rec->binding = req->bound->binding->name;
    }

    ngx_http_egress_record_rule(ctx, rec);
    ngx_http_egress_record_decision(r, ctx, rec);

    if (req->repo.len) {
        return ngx_http_egress_record_repo(r, ctx, rec);
    }

    return NGX_OK;
}


/* what the request does, and by which rule */

static void
ngx_http_egress_record_rule(ngx_http_egress_ctx_t *ctx,
    ngx_egress_audit_t *rec)
{
    ngx_egress_request_t  *req;

    req = &ctx->req;

    rec->class = ngx_egress_class_names[req->class];

    if (req->told) {
        rec->rule = *req->told;

    } else if (req->allow && !ctx->denied) {
        rec->rule = *req->allow;

    } else if (req->rule) {
        rec->rule = req->rule->text;
    }

    if (ctx->said && ctx->said->operation_len) {
        rec->operation.data = ctx->said->operation;
        rec->operation.len = ctx->said->operation_len;

    } else if (req->is_git && req->git.operation) {
        rec->operation.data = (u_char *) req->git.operation;
        rec->operation.len = ngx_strlen(req->git.operation);
    }
}


static void
ngx_http_egress_record_decision(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec)
{
    ngx_uint_t  reason;

    reason = ctx->reason;

    if (ctx->denied) {
        ngx_str_set(&rec->decision, "deny");
        rec->status = ngx_egress_reasons[ctx->reason].status;

        if (r->headers_out.status) {
            rec->status = r->headers_out.status;
        }

    } else if (ctx->would) {
        ngx_str_set(&rec->decision, "would_deny");

        if (!ctx->cut) {
            reason = ctx->would;
        }

    } else {
        ngx_str_set(&rec->decision, "allow");
    }

    rec->reason = ngx_egress_reasons[reason].code;
    rec->credential = ngx_http_egress_credentials[ctx->credential];

    if (ctx->has_credential_id) {
        rec->credential_id.data = ctx->credential_id;
        rec->credential_id.len = sizeof(ctx->credential_id);
    }
}


/* the path only: a query may hold anything */

static void
ngx_http_egress_record_target(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec)
{
    u_char  *p;

    rec->path = ctx->path;

    if (rec->path.len) {
        return;
    }

    rec->path = r->unparsed_uri;

    p = ngx_strlchr(rec->path.data, rec->path.data + rec->path.len, '?');

    if (p) {
        rec->path.len = p - rec->path.data;
    }
}


/* "owner/repository", with case folded as the policy compares it */

static ngx_int_t
ngx_http_egress_record_repo(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_audit_t *rec)
{
    u_char                *p;
    ngx_egress_request_t  *req;

    req = &ctx->req;

    p = ngx_pnalloc(r->pool, req->owner.len + 1 + req->repo.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    rec->repo.data = p;

    if (req->owner.len) {
        ngx_strlow(p, req->owner.data, req->owner.len);
        p += req->owner.len;
        *p++ = '/';
    }

    ngx_strlow(p, req->repo.data, req->repo.len);

    rec->repo.len = p + req->repo.len - rec->repo.data;

    return NGX_OK;
}


ngx_int_t
ngx_http_egress_log_decision(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t            rc;
    ngx_egress_audit_t   rec;

    if (ctx->conf->sinks.nelts == 0) {

        /* "audit_log off": there is nobody to tell */

        ctx->audited = 1;
        return NGX_OK;
    }

    if (ngx_http_egress_record(r, ctx, &rec) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_str_set(&rec.event, "decision");

    rc = ngx_egress_audit_write(ctx->conf, &rec, r->connection->log);

    /* what carries no secret may go on without a record */

    if (rc != NGX_OK && !ctx->denied
        && ctx->credential != NGX_HTTP_EGRESS_CRED_SWAPPED
        && ctx->credential != NGX_HTTP_EGRESS_CRED_SET)
    {
        rc = NGX_OK;
    }

    if (rc == NGX_OK) {
        ctx->audited = 1;
    }

    return rc;
}


ngx_int_t
ngx_http_egress_log_handler(ngx_http_request_t *r)
{
    ngx_egress_audit_t      rec;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx && ctx->cut && !ctx->audited && !ctx->denied) {

        /* access was cut off before all was known that decides */

        (void) ngx_http_egress_refuse(r, ctx, ctx->reason);
        return NGX_OK;
    }

    if (ctx == NULL || (ctx->reading && !ctx->read)) {
        ctx = ngx_http_egress_log_unanswered(r, ctx);
    }

    if (ctx == NULL || ctx->denied || !ctx->audited
        || ctx->conf->sinks.nelts == 0
        || ngx_http_egress_completion(r, ctx, &rec) != NGX_OK)
    {
        return NGX_OK;
    }

    (void) ngx_egress_audit_write(ctx->conf, &rec, r->connection->log);

    return NGX_OK;
}


ngx_int_t
ngx_http_egress_completion(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_audit_t *rec)
{
    ngx_time_t      *tp;
    ngx_msec_int_t   ms;

    if (ngx_http_egress_record(r, ctx, rec) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->denied) {
        ngx_str_set(&rec->event, "decision");
        return NGX_OK;
    }

    ngx_str_set(&rec->event, "completion");

    tp = ngx_timeofday();

    ms = (ngx_msec_int_t) ((tp->sec - r->start_sec) * 1000
                           + (tp->msec - r->start_msec));

    rec->completion = 1;
    rec->status = r->err_status ? r->err_status : r->headers_out.status;
    rec->bytes_in = r->request_length;
    rec->bytes_out = r->connection->sent;
    rec->duration = ngx_max(ms, 0);
    rec->redactions = ctx->redactions;

    ngx_http_egress_record_upstream(r, rec);

    return NGX_OK;
}


static void
ngx_http_egress_record_upstream(ngx_http_request_t *r,
    ngx_egress_audit_t *rec)
{
    ngx_http_upstream_state_t  *state;

    if (r->upstream_states == NULL || r->upstream_states->nelts == 0) {
        return;
    }

    state = r->upstream_states->elts;
    state += r->upstream_states->nelts - 1;

    rec->upstream_status = state->status;

    if (state->peer) {
        rec->upstream_addr = *state->peer;
    }
}


/*
 * Closed without an answer, by a time-out of the request's header or of a body
 * that was to be inspected: 408
 */

static ngx_http_egress_ctx_t *
ngx_http_egress_log_unanswered(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_http_egress_srv_conf_t  *escf;

    escf = ngx_http_get_module_srv_conf(r, ngx_http_egress_module);

    if ((!escf->pass && escf->terminate == NGX_HTTP_EGRESS_TERMINATE_OFF)
        || r->headers_out.status != NGX_HTTP_REQUEST_TIME_OUT)
    {
        return NULL;
    }

    if (ctx == NULL) {
        ctx = ngx_http_egress_create_ctx(r);
        if (ctx == NULL) {
            return NULL;
        }
    }

    (void) ngx_http_egress_refuse(r, ctx, NGX_EGRESS_MALFORMED_REQUEST);

    return ctx;
}
