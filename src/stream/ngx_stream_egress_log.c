
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static void ngx_stream_egress_completion(ngx_stream_session_t *s,
    ngx_egress_audit_t *rec);


void
ngx_stream_egress_record(ngx_stream_egress_ctx_t *ctx, ngx_egress_audit_t *rec)
{
    ngx_uint_t           reason;
    ngx_egress_bound_t  *bound;

    ngx_memzero(rec, sizeof(ngx_egress_audit_t));

    ngx_str_set(&rec->event, "connection");

    rec->id.data = ctx->id;
    rec->id.len = NGX_EGRESS_ID_LEN;
    rec->sandbox = ctx->sandbox;
    rec->client = ctx->session->connection->addr_text;
    rec->sni = ctx->sni;

    if (ctx->role) {
        rec->role = ctx->role->name;
    }

    if (ctx->via) {
        rec->via = ctx->conf->api->vias[ctx->via];
    }

    if (ctx->host.len) {
        rec->host.data = ctx->host.name;
        rec->host.len = ctx->host.len;
        rec->port = ctx->host.port;
    }

    if (ctx->dest.name) {

        for (bound = ctx->dest.name->bound; bound; bound = bound->next) {
            if (ctx->host.port == 0 || bound->port == ctx->host.port) {
                rec->binding = bound->binding->name;
                break;
            }
        }
    }

    reason = ctx->reason;

    if (ctx->denied) {
        ngx_str_set(&rec->decision, "deny");

    } else if (ctx->dest.report) {
        ngx_str_set(&rec->decision, "would_deny");
        reason = NGX_EGRESS_DESTINATION_REFUSED;

    } else {
        ngx_str_set(&rec->decision, "allow");
    }

    rec->reason = ctx->conf->api->reasons[reason].code;
    rec->status = ctx->status;
}


void
ngx_stream_egress_log_connection(ngx_stream_egress_ctx_t *ctx)
{
    ngx_egress_audit_t  rec;

    ngx_stream_egress_record(ctx, &rec);

    /* nothing here carries a secret: it may go on without a record */

    (void) ctx->conf->api->audit_write(ctx->conf, &rec,
                                       ctx->session->connection->log);
}


ngx_int_t
ngx_stream_egress_log_handler(ngx_stream_session_t *s)
{
    ngx_egress_audit_t        rec;
    ngx_stream_egress_ctx_t  *ctx;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);

    if (ctx == NULL || !ctx->decided || ctx->denied) {
        return NGX_OK;
    }

    ngx_stream_egress_record(ctx, &rec);

    ngx_str_set(&rec.event, "completion");

    ngx_stream_egress_completion(s, &rec);

    (void) ctx->conf->api->audit_write(ctx->conf, &rec, s->connection->log);

    return NGX_OK;
}


static void
ngx_stream_egress_completion(ngx_stream_session_t *s, ngx_egress_audit_t *rec)
{
    ngx_time_t                   *tp;
    ngx_msec_int_t                ms;
    ngx_stream_upstream_state_t  *state;

    tp = ngx_timeofday();

    ms = (ngx_msec_int_t) ((tp->sec - s->start_sec) * 1000
                           + (tp->msec - s->start_msec));

    rec->completion = 1;
    rec->status = s->status;
    rec->bytes_in = s->received;
    rec->bytes_out = s->connection->sent;
    rec->duration = ngx_max(ms, 0);

    if (s->upstream_states == NULL || s->upstream_states->nelts == 0) {
        return;
    }

    state = s->upstream_states->elts;
    state += s->upstream_states->nelts - 1;

    if (state->peer) {
        rec->upstream_addr = *state->peer;
    }
}
