
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_http_egress_name_t *ngx_http_egress_header_name(
    ngx_http_egress_main_conf_t *emcf, ngx_table_elt_t *h);
static void ngx_http_egress_scan_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_name_t *name,
    ngx_table_elt_t *h);
static void ngx_http_egress_scan_connection(ngx_http_egress_ctx_t *ctx,
    ngx_str_t *value);
static void ngx_http_egress_scan_via(ngx_http_egress_ctx_t *ctx,
    ngx_str_t *value);
static ngx_uint_t ngx_http_egress_header_removed(ngx_http_request_t *r,
    ngx_http_egress_main_conf_t *emcf, ngx_http_egress_ctx_t *ctx,
    ngx_table_elt_t *h);
static ngx_uint_t ngx_http_egress_header_nominated(ngx_http_request_t *r,
    ngx_http_egress_main_conf_t *emcf, ngx_table_elt_t *h);

static ngx_int_t ngx_http_egress_add_name(ngx_hash_keys_arrays_t *keys,
    ngx_conf_t *cf, ngx_str_t *name, ngx_uint_t kind,
    ngx_egress_field_t *field);


/*
 * What never goes upstream: hop-by-hop fields (RFC 9110, 7.6.1), what tells
 * of the client's side of the network, and method overrides (security R-01).
 * Fields that begin with "Proxy-" or "X-Forwarded-" are known by that.
 */

static struct {
    ngx_str_t   name;
    ngx_uint_t  kind;
} ngx_http_egress_header_names[] = {
    { ngx_string("connection"), NGX_HTTP_EGRESS_NAME_CONNECTION },
    { ngx_string("via"), NGX_HTTP_EGRESS_NAME_VIA },
    { ngx_string("keep-alive"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("te"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("trailer"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("upgrade"), NGX_HTTP_EGRESS_NAME_UPGRADE },
    { ngx_string("http2-settings"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("forwarded"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("x-real-ip"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("x-http-method-override"), NGX_HTTP_EGRESS_NAME_OVERRIDE },
    { ngx_string("x-http-method"), NGX_HTTP_EGRESS_NAME_OVERRIDE },
    { ngx_string("x-method-override"), NGX_HTTP_EGRESS_NAME_OVERRIDE },
    { ngx_string("x-original-url"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("x-rewrite-url"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("x-original-method"), NGX_HTTP_EGRESS_NAME_REMOVE },
    { ngx_string("sec-websocket-key"), NGX_HTTP_EGRESS_NAME_KEY },
    { ngx_string("sec-websocket-version"), NGX_HTTP_EGRESS_NAME_VERSION },
    { ngx_string("content-type"), NGX_HTTP_EGRESS_NAME_TYPE },
    { ngx_string("accept-encoding"), NGX_HTTP_EGRESS_NAME_ENCODING },
    { ngx_string("content-encoding"), NGX_HTTP_EGRESS_NAME_CODING },
    { ngx_string("mcp-method"), NGX_HTTP_EGRESS_NAME_MCP_METHOD },
    { ngx_string("mcp-name"), NGX_HTTP_EGRESS_NAME_MCP_NAME },
    { ngx_string("host"), NGX_HTTP_EGRESS_NAME_OURS },
    { ngx_string("content-length"), NGX_HTTP_EGRESS_NAME_OURS },
    { ngx_string("transfer-encoding"), NGX_HTTP_EGRESS_NAME_OURS },
    { ngx_string("expect"), NGX_HTTP_EGRESS_NAME_OURS },
    { ngx_null_string, 0 }
};


ngx_int_t
ngx_http_egress_scan_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_table_elt_t              *h;
    ngx_http_egress_walk_t        walk;
    ngx_http_egress_name_t       *name;
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_get_module_main_conf(r, ngx_http_egress_module);

    for (h = ngx_http_egress_first(&walk, &r->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (h == r->headers_in.host) {

            /* each request has it, and it is judged elsewhere */

            continue;
        }

        name = ngx_http_egress_header_name(emcf, h);

        if (name == NULL) {
            continue;
        }

        ngx_http_egress_scan_header(r, ctx, name, h);
    }

    if (!ctx->connection_upgrade) {

        /* it asks for nothing (RFC 9110, 7.8) */

        ngx_str_null(&ctx->upgrade);
    }

    return NGX_OK;
}


static void
ngx_http_egress_scan_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_name_t *name,
    ngx_table_elt_t *h)
{
    ngx_http_egress_field_t  *field;

    switch (name->kind) {

    case NGX_HTTP_EGRESS_NAME_FIELD:
        field = &ctx->fields[name->field->index];

        if (field->count++ == 0) {
            field->header = h;
        }

        break;

    case NGX_HTTP_EGRESS_NAME_CONNECTION:
        ngx_http_egress_scan_connection(ctx, &h->value);
        break;

    case NGX_HTTP_EGRESS_NAME_VIA:
        ngx_http_egress_scan_via(ctx, &h->value);
        ctx->remove_headers = 1;
        break;

    case NGX_HTTP_EGRESS_NAME_OVERRIDE:

        if (h->value.len != r->method_name.len
            || ngx_strncmp(h->value.data, r->method_name.data, h->value.len)
               != 0)
        {
            ctx->method_overridden = 1;
        }

        ctx->remove_headers = 1;
        break;

    case NGX_HTTP_EGRESS_NAME_REMOVE:
        ctx->remove_headers = 1;
        break;

    case NGX_HTTP_EGRESS_NAME_UPGRADE:
        ctx->upgrade = h->value;
        ctx->nupgrades++;
        ctx->remove_headers = 1;
        break;

    case NGX_HTTP_EGRESS_NAME_KEY:
        ctx->websocket_key = h;
        break;

    case NGX_HTTP_EGRESS_NAME_VERSION:
        ctx->websocket = (h->value.len == 2
                          && ngx_strncmp(h->value.data, "13", 2) == 0);
        break;

    case NGX_HTTP_EGRESS_NAME_ENCODING:

        if (ctx->accept_encoding == NULL) {
            ctx->accept_encoding = h;
        }

        break;

    case NGX_HTTP_EGRESS_NAME_TYPE:
        ctx->content_types++;
        break;

    case NGX_HTTP_EGRESS_NAME_CODING:
        ctx->content_encoding = h->value;
        ctx->content_encodings++;
        break;

    case NGX_HTTP_EGRESS_NAME_MCP_METHOD:
        ctx->mcp_method.value = h->value;
        ctx->mcp_method.count++;
        break;

    case NGX_HTTP_EGRESS_NAME_MCP_NAME:
        ctx->mcp_name.value = h->value;
        ctx->mcp_name.count++;
        break;

    default: /* NGX_HTTP_EGRESS_NAME_OURS */
        break;
    }
}


static ngx_http_egress_name_t *
ngx_http_egress_header_name(ngx_http_egress_main_conf_t *emcf,
    ngx_table_elt_t *h)
{
    static ngx_http_egress_name_t  removed = {
        NGX_HTTP_EGRESS_NAME_REMOVE, NULL
    };

    ngx_http_egress_name_t  *name;

    /* most names have not even the length of one with this first letter */

    if (emcf->lengths[h->lowcase_key[0] % 32]
        & ((uint32_t) 1 << ngx_min(h->key.len, 31)))
    {
        name = ngx_hash_find(&emcf->names, h->hash, h->lowcase_key,
                             h->key.len);
        if (name) {
            return name;
        }
    }

    if ((h->key.len > 6 && h->lowcase_key[0] == 'p'
         && ngx_strncmp(h->lowcase_key, "proxy-", 6) == 0)
        || (h->key.len > 12 && h->lowcase_key[0] == 'x'
            && ngx_strncmp(h->lowcase_key, "x-forwarded-", 12) == 0))
    {
        return &removed;
    }

    return NULL;
}


/* notes whether Connection nominates anything that is not ours anyway */

static void
ngx_http_egress_scan_connection(ngx_http_egress_ctx_t *ctx, ngx_str_t *value)
{
    u_char     *p, *last;
    ngx_str_t   token;

    p = value->data;
    last = p + value->len;

    while (ngx_http_egress_token(&p, last, &token)) {

        if ((token.len == 10
             && ngx_strncasecmp(token.data, (u_char *) "keep-alive", 10) == 0)
            || (token.len == 5
                && ngx_strncasecmp(token.data, (u_char *) "close", 5) == 0))
        {
            continue;
        }

        if (token.len == 7
            && ngx_strncasecmp(token.data, (u_char *) "upgrade", 7) == 0)
        {
            ctx->connection_upgrade = 1;
            continue;
        }

        ctx->connection_tokens = 1;
        ctx->remove_headers = 1;
    }
}


/* a request that names us in Via has been here (RFC 9110, 7.6.3) */

static void
ngx_http_egress_scan_via(ngx_http_egress_ctx_t *ctx, ngx_str_t *value)
{
    u_char     *p, *last;
    ngx_str_t  *name;

    name = &ctx->conf->name;
    p = value->data;
    last = p + value->len;

    for ( /* void */ ; (size_t) (last - p) >= name->len; p++) {

        if ((p == value->data || p[-1] == ' ' || p[-1] == '\t')
            && ngx_strncasecmp(p, name->data, name->len) == 0
            && (p + name->len == last || p[name->len] == ','
                || p[name->len] == ' ' || p[name->len] == '\t'))
        {
            ctx->loop = 1;
            return;
        }
    }
}


ngx_int_t
ngx_http_egress_filter_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_list_t                    list;
    ngx_table_elt_t              *h, *copy;
    ngx_http_egress_walk_t        walk;
    ngx_http_egress_main_conf_t  *emcf;

    if (ctx->upgrade.len == 0) {

        /* with it the proxy module would take a 101 for an answer to it */

        r->headers_in.upgrade = NULL;
    }

    /* what the proxy module drops by itself needs no list of ours */

    if (!ctx->remove_headers && ctx->req.bound->binding->pass_all) {
        return NGX_OK;
    }

    emcf = ngx_http_get_module_main_conf(r, ngx_http_egress_module);

    if (ngx_list_init(&list, r->pool, 20, sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (h = ngx_http_egress_first(&walk, &r->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (ngx_http_egress_header_removed(r, emcf, ctx, h)) {
            continue;
        }

        copy = ngx_list_push(&list);
        if (copy == NULL) {
            return NGX_ERROR;
        }

        *copy = *h;
    }

    ctx->headers = r->headers_in.headers;
    ctx->headers_saved = 1;

    r->headers_in.headers = list;

    /* the list is copied by value: "last" may point to the part within it */

    if (list.last == &list.part) {
        r->headers_in.headers.last = &r->headers_in.headers.part;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_http_egress_header_passed(ngx_egress_binding_t *binding,
    ngx_table_elt_t *h)
{
    ngx_str_t   *name;
    ngx_uint_t   i;

    if (binding->pass_all) {
        return 1;
    }

    name = binding->pass_headers.elts;

    for (i = 0; i < binding->pass_headers.nelts; i++) {
        if (name[i].len == h->key.len
            && ngx_strncmp(name[i].data, h->lowcase_key, name[i].len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_egress_header_removed(ngx_http_request_t *r,
    ngx_http_egress_main_conf_t *emcf, ngx_http_egress_ctx_t *ctx,
    ngx_table_elt_t *h)
{
    ngx_http_egress_name_t  *name;

    name = ngx_http_egress_header_name(emcf, h);

    if (name == NULL) {
        return !ngx_http_egress_header_passed(ctx->req.bound->binding, h)
               || (ctx->connection_tokens
                   && ngx_http_egress_header_nominated(r, emcf, h));
    }

    if (name->kind == NGX_HTTP_EGRESS_NAME_TYPE
        || name->kind == NGX_HTTP_EGRESS_NAME_KEY
        || name->kind == NGX_HTTP_EGRESS_NAME_VERSION)
    {
        return !ngx_http_egress_header_passed(ctx->req.bound->binding, h);
    }

    /* fields that we set ourselves are ours, whatever Connection says */

    return name->kind != NGX_HTTP_EGRESS_NAME_FIELD
           && name->kind != NGX_HTTP_EGRESS_NAME_OURS;
}


static ngx_uint_t
ngx_http_egress_header_nominated(ngx_http_request_t *r,
    ngx_http_egress_main_conf_t *emcf, ngx_table_elt_t *h)
{
    u_char                  *p, *last;
    ngx_str_t                token;
    ngx_table_elt_t         *conn;
    ngx_http_egress_walk_t   walk;
    ngx_http_egress_name_t  *name;

    for (conn = ngx_http_egress_first(&walk, &r->headers_in.headers);
         conn;
         conn = ngx_http_egress_next(&walk))
    {
        name = ngx_http_egress_header_name(emcf, conn);

        if (name == NULL || name->kind != NGX_HTTP_EGRESS_NAME_CONNECTION) {
            continue;
        }

        p = conn->value.data;
        last = p + conn->value.len;

        while (ngx_http_egress_token(&p, last, &token)) {
            if (token.len == h->key.len
                && ngx_strncasecmp(token.data, h->key.data, token.len) == 0)
            {
                return 1;
            }
        }
    }

    return 0;
}


/* the next member of a comma-separated list (RFC 9110, 5.6.1) */

ngx_uint_t
ngx_http_egress_token(u_char **pos, u_char *last, ngx_str_t *token)
{
    u_char  *p;

    p = *pos;

    while (p < last && (*p == ' ' || *p == '\t' || *p == ',')) {
        p++;
    }

    token->data = p;

    while (p < last && *p != ',' && *p != ' ' && *p != '\t') {
        p++;
    }

    token->len = p - token->data;
    *pos = p;

    return token->len != 0;
}


ngx_int_t
ngx_http_egress_init_names(ngx_conf_t *cf, ngx_http_egress_main_conf_t *emcf)
{
    size_t                   len;
    ngx_uint_t               i;
    ngx_hash_key_t          *key;
    ngx_hash_init_t          hash;
    ngx_egress_field_t     **fields;
    ngx_hash_keys_arrays_t   keys;

    ngx_memzero(&keys, sizeof(ngx_hash_keys_arrays_t));

    keys.pool = cf->pool;
    keys.temp_pool = cf->temp_pool;

    if (ngx_hash_keys_array_init(&keys, NGX_HASH_SMALL) != NGX_OK) {
        return NGX_ERROR;
    }

    fields = emcf->egress->fields.elts;
    len = 64;

    for (i = 0; i < emcf->egress->fields.nelts; i++) {

        if (fields[i]->lowcase.len > len) {
            len = fields[i]->lowcase.len;
        }

        if (ngx_http_egress_add_name(&keys, cf, &fields[i]->lowcase,
                                     NGX_HTTP_EGRESS_NAME_FIELD, fields[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    for (i = 0; ngx_http_egress_header_names[i].kind; i++) {
        if (ngx_http_egress_add_name(&keys, cf,
                                     &ngx_http_egress_header_names[i].name,
                                     ngx_http_egress_header_names[i].kind,
                                     NULL)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    key = keys.keys.elts;

    for (i = 0; i < keys.keys.nelts; i++) {
        emcf->lengths[key[i].key.data[0] % 32]
            |= (uint32_t) 1 << ngx_min(key[i].key.len, 31);
    }

    hash.hash = &emcf->names;
    hash.key = ngx_hash_key_lc;
    hash.max_size = 1024;
    hash.bucket_size = ngx_align(len + 4 * sizeof(void *),
                                 ngx_cacheline_size);
    hash.name = "egress_header_hash";
    hash.pool = cf->pool;
    hash.temp_pool = NULL;

    return ngx_hash_init(&hash, keys.keys.elts, keys.keys.nelts);
}


static ngx_int_t
ngx_http_egress_add_name(ngx_hash_keys_arrays_t *keys, ngx_conf_t *cf,
    ngx_str_t *name, ngx_uint_t kind, ngx_egress_field_t *field)
{
    ngx_http_egress_name_t  *value;

    value = ngx_palloc(cf->pool, sizeof(ngx_http_egress_name_t));
    if (value == NULL) {
        return NGX_ERROR;
    }

    value->kind = kind;
    value->field = field;

    return ngx_hash_add_key(keys, name, value, NGX_HASH_READONLY_KEY);
}
