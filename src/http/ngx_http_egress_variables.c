
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_int_t ngx_http_egress_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_egress_audit_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_egress_upstream_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_egress_connection_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_egress_encoding_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


ngx_str_t  ngx_http_egress_credentials[] = {
    ngx_string("none"),
    ngx_string("stripped"),
    ngx_string("foreign"),
    ngx_string("set"),
    ngx_string("swapped"),
    ngx_string("missing")
};


static ngx_http_variable_t  ngx_http_egress_vars[] = {

    { ngx_string("egress_sandbox"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, sandbox), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_role"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, role), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_via"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, via), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_host"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, host), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_binding"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, binding), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_class"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, class), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_decision"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, decision), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_reason"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, reason), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_rule"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, rule), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_operation"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, operation), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_repo"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, repo), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_credential"), NULL, ngx_http_egress_variable,
      offsetof(ngx_egress_audit_t, credential),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_audit"), NULL, ngx_http_egress_audit_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    /* for the proxy module only */

    { ngx_string("egress_upstream_authority"), NULL,
      ngx_http_egress_upstream_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_upstream_name"), NULL,
      ngx_http_egress_upstream_variable, 1, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_upstream_connection"), NULL,
      ngx_http_egress_connection_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_upstream_upgrade"), NULL,
      ngx_http_egress_connection_variable, 1, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("egress_upstream_encoding"), NULL,
      ngx_http_egress_encoding_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_int_t
ngx_http_egress_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_str_t              *value;
    ngx_egress_audit_t      rec;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx == NULL || (!ctx->decided && !ctx->denied)
        || ngx_http_egress_record(r, ctx, &rec) != NGX_OK)
    {
        v->not_found = 1;
        return NGX_OK;
    }

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
ngx_http_egress_audit_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t               line;
    ngx_egress_audit_t      rec;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx == NULL || (!ctx->decided && !ctx->denied)) {
        v->not_found = 1;
        return NGX_OK;
    }

    if (ngx_http_egress_completion(r, ctx, &rec) != NGX_OK
        || ngx_egress_audit_render(ctx->conf, &rec, 0, &line) != NGX_OK)
    {
        return NGX_ERROR;
    }

    v->data = ngx_pnalloc(r->pool, line.len);
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


/* the binding's own spelling, never what the client wrote (DESIGN 6.1) */

static ngx_int_t
ngx_http_egress_upstream_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t              *value;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_egress_module);

    if (ctx == NULL || ctx->req.bound == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    value = data ? &ctx->req.bound->name->sn.str : &ctx->req.bound->authority;

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = value->len;
    v->data = value->data;

    return NGX_OK;
}


/* "upgrade" and its protocol, where they were asked for and may be */

static ngx_int_t
ngx_http_egress_connection_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_egress_module);

    if (ctx == NULL || ctx->upgrade.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    if (data) {
        v->len = ctx->upgrade.len;
        v->data = ctx->upgrade.data;

    } else {
        v->len = sizeof("upgrade") - 1;
        v->data = (u_char *) "upgrade";
    }

    return NGX_OK;
}


/* what is looked at for a secret must not be compressed */

static ngx_int_t
ngx_http_egress_encoding_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_table_elt_t        *h;
    ngx_egress_binding_t   *binding;
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_egress_module);

    v->not_found = 1;

    if (ctx == NULL || ctx->req.bound == NULL) {
        return NGX_OK;
    }

    binding = ctx->req.bound->binding;
    h = ctx->accept_encoding;

    if (h == NULL || (binding->redact && binding->secrets.nelts)
        || !ngx_http_egress_header_passed(binding, h))
    {
        return NGX_OK;
    }

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = h->value.len;
    v->data = h->value.data;

    return NGX_OK;
}


ngx_int_t
ngx_http_egress_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_egress_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_egress_add_field_variables(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf)
{
    ngx_int_t            *index;
    ngx_str_t             name;
    ngx_uint_t            i;
    ngx_http_variable_t  *var;

    for (i = 0; i < emcf->egress->fields.nelts; i++) {

        name.data = ngx_pnalloc(cf->pool,
                                sizeof("egress_field_") + NGX_INT_T_LEN);
        if (name.data == NULL) {
            return NGX_ERROR;
        }

        name.len = ngx_sprintf(name.data, "egress_field_%ui", i) - name.data;

        var = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_egress_field_variable;
        var->data = i;

        index = ngx_array_push(&emcf->variables);
        if (index == NULL) {
            return NGX_ERROR;
        }

        *index = ngx_http_get_variable_index(cf, &name);
        if (*index == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
