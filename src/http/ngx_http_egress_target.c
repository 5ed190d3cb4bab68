
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_uint_t ngx_http_egress_host_located(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_binding_t *binding);
static ngx_uint_t ngx_http_egress_host_named(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *name, ngx_egress_host_t *host);
static ngx_uint_t ngx_http_egress_absolute_form(ngx_http_request_t *r,
    ngx_egress_host_t *host);
static ngx_uint_t ngx_http_egress_target_parse(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_base_url(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *target);


ngx_uint_t
ngx_http_egress_host(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_str_t                   *name;
    ngx_egress_host_t            host;
    ngx_http_egress_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_egress_module);

    if (elcf->binding) {
        return ngx_http_egress_host_located(r, ctx, elcf->binding);
    }

    ctx->via = NGX_EGRESS_VIA_DIRECT;
    ctx->record = ngx_egress_record_get(ngx_http_egress_connection(r)->pool);

    if (ctx->record) {
        ctx->via = ctx->record->via;
    }

    name = (ctx->record && ctx->record->name) ? &ctx->record->name->sn.str
                                              : NULL;

    if (ngx_http_egress_host_named(r, ctx, name, &host)
        != NGX_EGRESS_ALLOWED)
    {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    if (name == NULL) {

        /* "egress_pass" without a binding serves terminators only */

        return NGX_EGRESS_HOST_MISMATCH;
    }

    if (name->len != host.len
        || ngx_memcmp(name->data, host.name, host.len) != 0)
    {
        return NGX_EGRESS_HOST_MISMATCH;
    }

    /* a port that the client told the gateway is the port of the request */

    if (ctx->record->port && ctx->record->port != host.port) {
        return NGX_EGRESS_HOST_MISMATCH;
    }

    ctx->req.bound = ngx_egress_bound_find(ctx->record->name, host.port);

    return ctx->req.bound ? NGX_EGRESS_ALLOWED : NGX_EGRESS_HOST_MISMATCH;
}


static ngx_uint_t
ngx_http_egress_host_located(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_binding_t *binding)
{
    ngx_egress_bound_t  **bounds;

    bounds = binding->hosts.elts;

    ctx->via = NGX_EGRESS_VIA_BASE_URL;
    ctx->req.bound = bounds[0];
    ctx->host = bounds[0]->name->sn.str;
    ctx->port = bounds[0]->port;

    return r->http_version < NGX_HTTP_VERSION_10
           ? NGX_EGRESS_MALFORMED_REQUEST : NGX_EGRESS_ALLOWED;
}


/* what the client calls it; "name" is that of the handshake, or NULL */

static ngx_uint_t
ngx_http_egress_host_named(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_str_t *name, ngx_egress_host_t *host)
{
    ngx_str_t  *value;

    if (r->headers_in.host == NULL
        || r->http_version < NGX_HTTP_VERSION_10)
    {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    value = &r->headers_in.host->value;

    if (name && value->len == name->len
        && ngx_memcmp(value->data, name->data, name->len) == 0)
    {
        /* the name that was parsed at the handshake, letter by letter */

        host->port = NGX_EGRESS_PORT;
        host->len = name->len;
        ngx_memcpy(host->name, name->data, name->len);

    } else if (ngx_egress_host_parse(value, NGX_EGRESS_HOST_AUTHORITY,
                                     NGX_EGRESS_PORT, host)
               != NGX_OK)
    {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    ctx->port = host->port;
    ctx->host.len = host->len;
    ctx->host.data = ngx_pnalloc(r->pool, host->len);
    if (ctx->host.data == NULL) {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    ngx_memcpy(ctx->host.data, host->name, host->len);

    if (r->host_start && r->http_version <= NGX_HTTP_VERSION_11) {
        return ngx_http_egress_absolute_form(r, host);
    }

    return NGX_EGRESS_ALLOWED;
}


/* an absolute-form target must agree with Host (RFC 9112, 3.2.2; X-11) */

static ngx_uint_t
ngx_http_egress_absolute_form(ngx_http_request_t *r, ngx_egress_host_t *host)
{
    u_char            *p, *last;
    ngx_str_t          authority;
    ngx_egress_host_t  target;

    if (r->schema_start == NULL
        || r->schema_end - r->schema_start != 5
        || ngx_strncasecmp(r->schema_start, (u_char *) "https", 5) != 0)
    {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    last = r->request_line.data + r->request_line.len;

    for (p = r->host_start; p < last; p++) {
        if (*p == '/' || *p == '?' || *p == ' ') {
            break;
        }
    }

    authority.data = r->host_start;
    authority.len = p - r->host_start;

    if (ngx_egress_host_parse(&authority, NGX_EGRESS_HOST_AUTHORITY,
                              NGX_EGRESS_PORT, &target)
        != NGX_OK
        || target.len != host->len || target.port != host->port
        || ngx_memcmp(target.name, host->name, host->len) != 0)
    {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    return NGX_EGRESS_ALLOWED;
}


ngx_uint_t
ngx_http_egress_target(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t             reason, credentialed;
    ngx_egress_target_t   *target;
    ngx_egress_request_t  *req;

    req = &ctx->req;
    target = &req->target;

    reason = ngx_http_egress_target_parse(r, ctx);

    if (reason != NGX_EGRESS_ALLOWED) {
        return reason;
    }

    ctx->path = target->path;

    if (ctx->content_types > 1) {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    /* a body that a server may or may not read as the next request */

    if ((r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_OPTIONS))
        && (r->headers_in.content_length_n > 0 || r->headers_in.chunked))
    {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    if (ctx->via != NGX_EGRESS_VIA_BASE_URL) {
        req->bound = ngx_egress_bound_match(req->bound, &target->canonical,
                                            &credentialed);

    } else {
        credentialed =
             ngx_egress_prefix_match(&req->bound->binding->path_prefix,
                                     &target->canonical, 0);
    }

    req->credentialed = credentialed;

    if (target->encoded_slash && !ngx_egress_encoded_slash_allowed(req)) {
        return NGX_EGRESS_PATH_REFUSED;
    }

    return NGX_EGRESS_ALLOWED;
}


static ngx_uint_t
ngx_http_egress_target_parse(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    u_char      *buf;
    ngx_str_t    target;
    ngx_uint_t   reason;

    target = r->unparsed_uri;

    /* after a rewrite nginx would send another target than the one judged */

    if (!r->valid_unparsed_uri) {
        return NGX_EGRESS_PATH_REFUSED;
    }

    if (ctx->via == NGX_EGRESS_VIA_BASE_URL) {
        reason = ngx_http_egress_base_url(r, ctx, &target);

        if (reason != NGX_EGRESS_ALLOWED) {
            return reason;
        }
    }

    buf = ngx_pnalloc(r->pool, 3 * target.len + 1);
    if (buf == NULL) {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    switch (ngx_egress_target_parse(&target, buf, &ctx->req.target)) {

    case NGX_OK:
        return NGX_EGRESS_ALLOWED;

    case NGX_DECLINED:
        return NGX_EGRESS_PATH_REFUSED;

    default: /* NGX_ERROR */
        return NGX_EGRESS_MALFORMED_REQUEST;
    }
}


/*
 * Cuts the location's prefix from the raw target.  nginx has chosen the
 * location by the decoded path: the raw one must begin the same way.
 */

static ngx_uint_t
ngx_http_egress_base_url(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_str_t *target)
{
    u_char                      *p;
    size_t                       len;
    ngx_http_egress_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_egress_module);

    len = elcf->prefix.len;

    if (len && elcf->prefix.data[len - 1] == '/' && !elcf->exact) {
        len--;
    }

    if (target->len < len
        || ngx_memcmp(target->data, elcf->prefix.data, len) != 0)
    {
        return NGX_EGRESS_PATH_REFUSED;
    }

    p = target->data + len;

    if (p == target->data + target->len || *p == '?') {

        p = ngx_pnalloc(r->pool, target->len - len + 1);
        if (p == NULL) {
            return NGX_EGRESS_PATH_REFUSED;
        }

        *p = '/';
        ngx_memcpy(p + 1, target->data + len, target->len - len);

        target->data = p;
        target->len = target->len - len + 1;

    } else if (*p == '/' && !elcf->exact) {
        target->data = p;
        target->len -= len;

    } else {
        return NGX_EGRESS_PATH_REFUSED;
    }

    ctx->unparsed_uri = r->unparsed_uri;
    ctx->uri_saved = 1;

    r->unparsed_uri = *target;

    return NGX_EGRESS_ALLOWED;
}
