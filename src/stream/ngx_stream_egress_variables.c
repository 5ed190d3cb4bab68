
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_stream_egress_audit_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data);


static ngx_stream_variable_t  ngx_stream_egress_vars[] = {

    { ngx_string("egress_sandbox"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, sandbox), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_role"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, role), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_via"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, via), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_host"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, host), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_binding"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, binding), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_decision"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, decision), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_reason"), NULL, ngx_stream_egress_variable,
      offsetof(ngx_egress_audit_t, reason), NGX_STREAM_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_audit"), NULL, ngx_stream_egress_audit_variable, 0,
      NGX_STREAM_VAR_NOCACHEABLE, 0 },

      ngx_stream_null_variable
};


static ngx_int_t
ngx_stream_egress_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                *value;
    ngx_egress_audit_t        rec;
    ngx_stream_egress_ctx_t  *ctx;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);

    if (ctx == NULL || !ctx->decided) {
        v->not_found = 1;
        return NGX_OK;
    }

    ngx_stream_egress_record(ctx, &rec);

    value = (ngx_str_t *) ((u_char *) &rec + data);

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = value->len;
    v->data = value->data;

    return NGX_OK;
}


/* the record as it stands, without a sequence number of its own */

static ngx_int_t
ngx_stream_egress_audit_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                 line;
    ngx_egress_audit_t        rec;
    ngx_stream_egress_ctx_t  *ctx;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);

    if (ctx == NULL || !ctx->decided) {
        v->not_found = 1;
        return NGX_OK;
    }

    ngx_stream_egress_record(ctx, &rec);

    if (ctx->conf->api->audit_render(ctx->conf, &rec, 0, &line) != NGX_OK) {
        return NGX_ERROR;
    }

    v->data = ngx_pnalloc(s->connection->pool, line.len);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(v->data, line.data, line.len);

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = line.len;

    return NGX_OK;
}


ngx_int_t
ngx_stream_egress_add_variables(ngx_conf_t *cf)
{
    ngx_stream_variable_t  *var, *v;

    for (v = ngx_stream_egress_vars; v->name.len; v++) {
        var = ngx_stream_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}
