
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


#define NGX_HTTP_EGRESS_SELF_ENV     0
#define NGX_HTTP_EGRESS_SELF_CA      1
#define NGX_HTTP_EGRESS_SELF_BUNDLE  2
#define NGX_HTTP_EGRESS_SELF_POLICY  3
#define NGX_HTTP_EGRESS_SELF_NONE    4


static ngx_int_t ngx_http_egress_self_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_egress_self_answer(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_identity_t *identity);
static ngx_int_t ngx_http_egress_self_refuse(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t reason);
static ngx_uint_t ngx_http_egress_self_page(ngx_http_request_t *r);
static ngx_chain_t *ngx_http_egress_self_pem(ngx_http_request_t *r,
    ngx_str_t *pem);
static ngx_int_t ngx_http_egress_self_send(ngx_http_request_t *r,
    ngx_uint_t page, ngx_chain_t *out);
static ngx_int_t ngx_http_egress_self_header(ngx_http_request_t *r,
    const char *name, ngx_str_t *value);


/* in the order of the constants */

static struct {
    ngx_str_t  name;
    ngx_str_t  type;
} ngx_http_egress_self_pages[] = {
    { ngx_string("env"), ngx_string("text/plain") },
    { ngx_string("ca.pem"), ngx_string("application/x-pem-file") },
    { ngx_string("bundle.pem"), ngx_string("application/x-pem-file") },
    { ngx_string("policy.json"), ngx_string("application/json") },
    { ngx_null_string, ngx_null_string }
};


static ngx_int_t
ngx_http_egress_self_handler(ngx_http_request_t *r)
{
    ngx_int_t               rc;
    ngx_uint_t              reason;
    ngx_http_egress_ctx_t  *ctx;
    ngx_egress_identity_t   identity;

    ctx = ngx_http_egress_get_ctx(r);

    if (r != r->main || (ctx && (ctx->denied || ctx->injected))) {
        return NGX_HTTP_FORBIDDEN;
    }

    if (ctx == NULL) {
        ctx = ngx_http_egress_create_ctx(r);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    ctx->decided = 1;

    reason = ngx_http_egress_identify_basic(r, ctx, &identity);

    if (reason != NGX_EGRESS_ALLOWED) {
        rc = ngx_http_egress_self_refuse(r, ctx, reason);

    } else if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        rc = NGX_HTTP_NOT_ALLOWED;

    } else {
        rc = ngx_http_egress_self_answer(r, ctx, &identity);
    }

    if (identity.token.len) {
        ngx_explicit_memzero(identity.token.data, identity.token.len);
    }

    return rc;
}


static ngx_int_t
ngx_http_egress_self_answer(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_identity_t *identity)
{
    ngx_int_t     rc;
    ngx_uint_t    page;
    ngx_chain_t  *out;

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    page = ngx_http_egress_self_page(r);

    switch (page) {

    case NGX_HTTP_EGRESS_SELF_ENV:
        out = ngx_http_egress_env(r, ctx, identity);
        break;

    case NGX_HTTP_EGRESS_SELF_CA:

        if (ctx->conf->ca_pem.len == 0) {
            return NGX_HTTP_NOT_FOUND;
        }

        out = ngx_http_egress_self_pem(r, &ctx->conf->ca_pem);
        break;

    case NGX_HTTP_EGRESS_SELF_BUNDLE:
        out = ngx_http_egress_self_pem(r, &ctx->conf->bundle_pem);
        break;

    case NGX_HTTP_EGRESS_SELF_POLICY:
        out = ngx_http_egress_policy(r, ctx);
        break;

    default: /* NGX_HTTP_EGRESS_SELF_NONE */
        return NGX_HTTP_NOT_FOUND;
    }

    if (out == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_egress_self_send(r, page, out);
}


/* as a CONNECT without credentials is: the client may try again (407) */

static ngx_int_t
ngx_http_egress_self_refuse(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_uint_t reason)
{
    u_char     *p;
    ngx_str_t   value;

    if (reason == NGX_EGRESS_PROXY_AUTH_REQUIRED) {

        p = ngx_pnalloc(r->pool, sizeof("Basic realm=\"\"")
                                 + ctx->conf->name.len);
        if (p == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        value.data = p;
        value.len = ngx_sprintf(p, "Basic realm=\"%V\"", &ctx->conf->name) - p;

        if (ngx_http_egress_self_header(r, "Proxy-Authenticate", &value)
            != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_egress_refuse(r, ctx, reason);
}


/* what stands below the location, which a segment boundary ends */

static ngx_uint_t
ngx_http_egress_self_page(ngx_http_request_t *r)
{
    ngx_str_t                  name;
    ngx_uint_t                 i;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    name = r->uri;

    if (name.len < clcf->name.len
        || ngx_strncmp(name.data, clcf->name.data, clcf->name.len) != 0)
    {
        return NGX_HTTP_EGRESS_SELF_NONE;
    }

    name.data += clcf->name.len;
    name.len -= clcf->name.len;

    if (clcf->name.data[clcf->name.len - 1] != '/') {

        if (name.len == 0 || name.data[0] != '/') {
            return NGX_HTTP_EGRESS_SELF_NONE;
        }

        name.data++;
        name.len--;
    }

    for (i = 0; ngx_http_egress_self_pages[i].name.len; i++) {
        if (ngx_http_egress_self_pages[i].name.len == name.len
            && ngx_memcmp(ngx_http_egress_self_pages[i].name.data, name.data,
                          name.len)
               == 0)
        {
            break;
        }
    }

    return i;
}


static ngx_chain_t *
ngx_http_egress_self_pem(ngx_http_request_t *r, ngx_str_t *pem)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    b = ngx_calloc_buf(r->pool);
    cl = ngx_alloc_chain_link(r->pool);

    if (b == NULL || cl == NULL) {
        return NULL;
    }

    b->memory = (pem->len > 0);
    b->pos = pem->data;
    b->last = pem->data + pem->len;

    cl->buf = b;
    cl->next = NULL;

    return cl;
}


static ngx_int_t
ngx_http_egress_self_send(ngx_http_request_t *r, ngx_uint_t page,
    ngx_chain_t *out)
{
    off_t         len;
    ngx_int_t     rc;
    ngx_str_t     value;
    ngx_chain_t  *cl;

    len = 0;

    for (cl = out; cl; cl = cl->next) {

        len += ngx_buf_size(cl->buf);

        if (cl->next == NULL) {
            cl->buf->last_buf = 1;
            cl->buf->last_in_chain = 1;
        }
    }

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = len;
    r->headers_out.content_type = ngx_http_egress_self_pages[page].type;
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    if (page == NGX_HTTP_EGRESS_SELF_ENV) {
        ngx_str_set(&r->headers_out.charset, "utf-8");
    }

    /* it is this sandbox's, and of this moment */

    ngx_str_set(&value, "no-store");

    if (ngx_http_egress_self_header(r, "Cache-Control", &value) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, out);
}


static ngx_int_t
ngx_http_egress_self_header(ngx_http_request_t *r, const char *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_egress_header_last(h);
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value = *value;

    return NGX_OK;
}


char *
ngx_http_egress_self(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t     *clcf;
    ngx_http_egress_srv_conf_t   *escf;
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);
    escf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_egress_module);
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (emcf->egress == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_self\" needs an \"egress\" block "
                           "before the \"http\" block");
        return NGX_CONF_ERROR;
    }

    if (clcf->handler == ngx_http_egress_self_handler) {
        return "is duplicate";
    }

    if (clcf->handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_self\" beside another content handler");
        return NGX_CONF_ERROR;
    }

    if (clcf->named || clcf->exact_match
#if (NGX_PCRE)
        || clcf->regex
#endif
       )
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_self\" is allowed in locations by "
                           "prefix only");
        return NGX_CONF_ERROR;
    }

    clcf->handler = ngx_http_egress_self_handler;

    emcf->self = 1;
    escf->self = 1;

    return NGX_CONF_OK;
}
