
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_body.h"
#include "ngx_egress_json.h"


/* variables that are kept until the document is known */
#define NGX_EGRESS_GRAPHQL_VARIABLES  64

#define NGX_EGRESS_GRAPHQL_QUERY      1
#define NGX_EGRESS_GRAPHQL_OPERATION  2
#define NGX_EGRESS_GRAPHQL_VARS       3
#define NGX_EGRESS_GRAPHQL_EXTENSIONS 4


typedef struct {
    size_t                           name_len;
    size_t                           value_len;     /* 0: can't be told */
    u_char                           name[NGX_EGRESS_GRAPHQL_NAME];
    u_char                           value[NGX_EGRESS_GRAPHQL_NAME];
} ngx_egress_graphql_variable_t;


typedef struct {
    ngx_egress_body_t               *b;

    ngx_uint_t                       nvariables;
    ngx_egress_graphql_variable_t   *variables;

    /* by repository: its text is the name of a variable */
    uint32_t                         owner;
    uint32_t                         name;

    unsigned                         unknown:1;     /* all variables */
} ngx_egress_graphql_ctx_t;


static ngx_int_t ngx_egress_graphql_member(void *data, ngx_uint_t field,
    ngx_str_t *key, ngx_uint_t type, ngx_str_t *text);
static ngx_int_t ngx_egress_graphql_document(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *text);
static void ngx_egress_graphql_argument(ngx_egress_graphql_arg_t *arg,
    u_char *dst, size_t *len);
static void ngx_egress_graphql_variable(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *key, ngx_uint_t type, ngx_str_t *text);
static ngx_int_t ngx_egress_graphql_done(ngx_egress_graphql_ctx_t *ctx,
    ngx_int_t rc);
static void ngx_egress_graphql_resolve(ngx_egress_graphql_ctx_t *ctx,
    u_char *dst, size_t *len);

static ngx_int_t ngx_egress_graphql_params(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *query, u_char *buf);
static ngx_int_t ngx_egress_graphql_pair(u_char *p, u_char *end, u_char *buf,
    ngx_str_t *name, ngx_str_t *value);
static ngx_int_t ngx_egress_graphql_decode(ngx_str_t *text, u_char *buf);
static ngx_int_t ngx_egress_graphql_param(ngx_str_t *name);
static ngx_int_t ngx_egress_graphql_json(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *text);


/*
 * In the order of NGX_EGRESS_GRAPHQL_QUERY, ...  Nothing else may stand beside
 * them: a server may prefer the key of a stored query ("id", "documentId"), or
 * the list of queries that it keeps under a name of its own ("_json").
 */

static ngx_egress_json_field_t  ngx_egress_graphql_fields[] = {
    { ngx_string("query"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("operationName"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("variables"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("extensions"), NGX_EGRESS_JSON_ROOT }
};


ngx_int_t
ngx_egress_graphql_body(ngx_str_t *body, ngx_egress_body_t *b)
{
    ngx_int_t                 rc;
    ngx_egress_json_t         json;
    ngx_egress_graphql_ctx_t  ctx;

    ngx_memzero(b, sizeof(ngx_egress_body_t));
    ngx_memzero(&ctx, sizeof(ngx_egress_graphql_ctx_t));

    b->class = NGX_EGRESS_UNKNOWN;
    ctx.b = b;

    ngx_egress_json_init(&json, ngx_egress_graphql_fields,
                         sizeof(ngx_egress_graphql_fields)
                         / sizeof(ngx_egress_json_field_t),
                         ngx_egress_graphql_member, &ctx);

    json.any = NGX_EGRESS_GRAPHQL_VARS;
    json.known = 1;

    rc = ngx_egress_json_parse(&json, body);

    return ngx_egress_graphql_done(&ctx, rc);
}


static ngx_int_t
ngx_egress_graphql_member(void *data, ngx_uint_t field, ngx_str_t *key,
    ngx_uint_t type, ngx_str_t *text)
{
    ngx_egress_graphql_ctx_t *ctx = data;

    switch (field) {

    case NGX_EGRESS_GRAPHQL_QUERY:

        return (type == NGX_EGRESS_JSON_STRING)
               ? ngx_egress_graphql_document(ctx, text) : NGX_DECLINED;

    case NGX_EGRESS_GRAPHQL_OPERATION:

        return (type == NGX_EGRESS_JSON_STRING || type == NGX_EGRESS_JSON_NULL)
               ? NGX_OK : NGX_DECLINED;

    case NGX_EGRESS_GRAPHQL_VARS:

        return (type == NGX_EGRESS_JSON_OBJECT || type == NGX_EGRESS_JSON_NULL)
               ? NGX_OK : NGX_DECLINED;

    case NGX_EGRESS_GRAPHQL_EXTENSIONS:

        return NGX_OK;

    default:

        ngx_egress_graphql_variable(ctx, key, type, text);

        return NGX_OK;
    }
}


/* keeps what the document says: its text is gone before the variables come */

static ngx_int_t
ngx_egress_graphql_document(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *text)
{
    ngx_str_t                   space;
    ngx_uint_t                  i;
    ngx_egress_body_t          *b;
    ngx_egress_graphql_t        g;
    ngx_egress_body_repo_t     *repo;
    ngx_egress_graphql_repo_t  *root;

    if (text->len == 0
        || ngx_egress_graphql_parse(text->data, text->len, &g) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    b = ctx->b;

    b->class = g.class;
    b->root_unknown = g.root_unknown;
    b->nrepos = g.nrepos;

    for (i = 0; i < g.nrepos; i++) {

        root = &g.repos[i];
        repo = &b->repos[i];

        ngx_egress_graphql_argument(&root->owner, repo->owner,
                                    &repo->owner_len);
        ngx_egress_graphql_argument(&root->name, repo->name, &repo->name_len);

        ctx->owner |= (uint32_t) root->owner.variable << i;
        ctx->name |= (uint32_t) root->name.variable << i;
    }

    ngx_egress_json_printable(b->operation, &b->operation_len,
                              NGX_EGRESS_BODY_OPERATION, &g.type);

    if (g.name.len) {
        ngx_str_set(&space, " ");

        ngx_egress_json_printable(b->operation, &b->operation_len,
                                  NGX_EGRESS_BODY_OPERATION, &space);
        ngx_egress_json_printable(b->operation, &b->operation_len,
                                  NGX_EGRESS_BODY_OPERATION, &g.name);
    }

    return NGX_OK;
}


static void
ngx_egress_graphql_argument(ngx_egress_graphql_arg_t *arg, u_char *dst,
    size_t *len)
{
    *len = 0;

    if (arg->text.data && arg->text.len <= NGX_EGRESS_GRAPHQL_NAME) {
        ngx_memcpy(dst, arg->text.data, arg->text.len);
        *len = arg->text.len;
    }
}


/*
 * Servers differ in which of two equal names counts, and a name that finds no
 * place here may be equal to one that did: then none of them can be told.
 */

static void
ngx_egress_graphql_variable(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *key,
    ngx_uint_t type, ngx_str_t *text)
{
    ngx_uint_t                      i;
    ngx_egress_graphql_variable_t  *v;

    if (ctx->unknown || key->data == NULL || key->len == 0) {
        return;
    }

    if (ctx->variables == NULL) {
        ctx->variables = malloc(NGX_EGRESS_GRAPHQL_VARIABLES
                                * sizeof(ngx_egress_graphql_variable_t));

        if (ctx->variables == NULL) {
            ctx->unknown = 1;
            return;
        }
    }

    v = ctx->variables;

    for (i = 0; i < ctx->nvariables; i++) {
        if (v[i].name_len == key->len
            && ngx_memcmp(v[i].name, key->data, key->len) == 0)
        {
            ctx->unknown = 1;
            return;
        }
    }

    if (i == NGX_EGRESS_GRAPHQL_VARIABLES) {
        ctx->unknown = 1;
        return;
    }

    v = &ctx->variables[ctx->nvariables++];

    v->name_len = key->len;
    ngx_memcpy(v->name, key->data, key->len);

    v->value_len = 0;

    if (type == NGX_EGRESS_JSON_STRING && text->len
        && text->len <= NGX_EGRESS_GRAPHQL_NAME)
    {
        v->value_len = text->len;
        ngx_memcpy(v->value, text->data, text->len);
    }
}


/* fills in variables, and frees them */

static ngx_int_t
ngx_egress_graphql_done(ngx_egress_graphql_ctx_t *ctx, ngx_int_t rc)
{
    ngx_uint_t               i;
    ngx_egress_body_t       *b;
    ngx_egress_body_repo_t  *repo;

    b = ctx->b;

    for (i = 0; i < b->nrepos; i++) {

        repo = &b->repos[i];

        if (ctx->owner & ((uint32_t) 1 << i)) {
            ngx_egress_graphql_resolve(ctx, repo->owner, &repo->owner_len);
        }

        if (ctx->name & ((uint32_t) 1 << i)) {
            ngx_egress_graphql_resolve(ctx, repo->name, &repo->name_len);
        }

        if (repo->owner_len == 0 || repo->name_len == 0) {
            repo->owner_len = 0;
            repo->name_len = 0;
        }
    }

    free(ctx->variables);

    if (rc == NGX_OK && b->class == NGX_EGRESS_UNKNOWN) {
        rc = NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        b->class = NGX_EGRESS_UNKNOWN;
    }

    return rc;
}


static void
ngx_egress_graphql_resolve(ngx_egress_graphql_ctx_t *ctx, u_char *dst,
    size_t *len)
{
    ngx_uint_t                      i;
    ngx_egress_graphql_variable_t  *v;

    if (!ctx->unknown) {

        for (i = 0; i < ctx->nvariables; i++) {

            v = &ctx->variables[i];

            if (v->name_len == *len && ngx_memcmp(v->name, dst, *len) == 0) {
                ngx_memcpy(dst, v->value, v->value_len);
                *len = v->value_len;
                return;
            }
        }
    }

    *len = 0;
}


ngx_int_t
ngx_egress_graphql_query(ngx_str_t *query, u_char *buf, ngx_egress_body_t *b)
{
    ngx_int_t                 rc;
    ngx_egress_graphql_ctx_t  ctx;

    ngx_memzero(b, sizeof(ngx_egress_body_t));
    ngx_memzero(&ctx, sizeof(ngx_egress_graphql_ctx_t));

    b->class = NGX_EGRESS_UNKNOWN;
    ctx.b = b;

    if (query->len == 0) {

        /* the schema belongs to no repository */

        b->class = NGX_EGRESS_READ;
        return NGX_OK;
    }

    rc = ngx_egress_graphql_params(&ctx, query, buf);

    return ngx_egress_graphql_done(&ctx, rc);
}


static ngx_int_t
ngx_egress_graphql_params(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *query,
    u_char *buf)
{
    u_char     *p, *last, *end;
    ngx_int_t   rc, n;
    ngx_str_t   name, value;
    uint32_t    seen;

    seen = 0;
    p = query->data;
    last = p + query->len;

    /* some servers take a semicolon for a separator, too */

    if (memchr(p, ';', query->len)) {
        return NGX_DECLINED;
    }

    for ( ;; ) {

        end = memchr(p, '&', last - p);

        if (end == NULL) {
            end = last;
        }

        if (ngx_egress_graphql_pair(p, end, buf, &name, &value) != NGX_OK) {
            return NGX_DECLINED;
        }

        buf += name.len + value.len;

        n = ngx_egress_graphql_param(&name);

        if (n == NGX_ERROR || (seen & ((uint32_t) 1 << n))) {
            return NGX_DECLINED;
        }

        seen |= (uint32_t) 1 << n;

        rc = NGX_OK;

        if (n == NGX_EGRESS_GRAPHQL_QUERY) {
            rc = ngx_egress_graphql_document(ctx, &value);

        } else if (n == NGX_EGRESS_GRAPHQL_VARS && value.len) {
            rc = ngx_egress_graphql_json(ctx, &value);
        }

        if (rc != NGX_OK) {
            return NGX_DECLINED;
        }

        if (end == last) {
            return NGX_OK;
        }

        p = end + 1;
    }
}


/* "name=value", or a name alone */

static ngx_int_t
ngx_egress_graphql_pair(u_char *p, u_char *end, u_char *buf, ngx_str_t *name,
    ngx_str_t *value)
{
    u_char  *eq;

    eq = memchr(p, '=', end - p);

    name->data = p;
    name->len = (eq ? eq : end) - p;

    value->data = eq ? eq + 1 : end;
    value->len = end - value->data;

    if (ngx_egress_graphql_decode(name, buf) != NGX_OK) {
        return NGX_DECLINED;
    }

    return ngx_egress_graphql_decode(value, buf + name->len);
}


/* as forms are encoded; what comes out must be UTF-8 without zeros */

static ngx_int_t
ngx_egress_graphql_decode(ngx_str_t *text, u_char *buf)
{
    u_char      *p, *d, *last, ch;
    ngx_uint_t   i, octet;

    p = text->data;
    last = p + text->len;

    for (d = buf; p < last; p++) {

        if (*p != '%') {
            *d++ = (*p == '+') ? ' ' : *p;
            continue;
        }

        if (last - p < 3) {
            return NGX_DECLINED;
        }

        octet = 0;

        for (i = 0; i < 2; i++) {

            p++;
            ch = ngx_tolower(*p);

            if (ch >= '0' && ch <= '9') {
                octet = octet * 16 + (ch - '0');

            } else if (ch >= 'a' && ch <= 'f') {
                octet = octet * 16 + (ch - 'a' + 10);

            } else {
                return NGX_DECLINED;
            }
        }

        *d++ = (u_char) octet;
    }

    text->data = buf;
    text->len = d - buf;

    for (p = buf; p < d; /* void */ ) {

        if (*p == '\0') {
            return NGX_DECLINED;
        }

        p = ngx_egress_json_utf8(p, d);

        if (p == NULL) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/*
 * The number of a field, or NGX_ERROR for any other parameter: a server may
 * take it for a field, or prefer it to "query".
 */

static ngx_int_t
ngx_egress_graphql_param(ngx_str_t *name)
{
    ngx_str_t   *field;
    ngx_uint_t   i;

    for (i = 0; i < NGX_EGRESS_GRAPHQL_EXTENSIONS; i++) {

        field = &ngx_egress_graphql_fields[i].name;

        if (name->len == field->len
            && ngx_memcmp(name->data, field->data, field->len) == 0)
        {
            return i + 1;
        }
    }

    return NGX_ERROR;
}


/* the parameter "variables": the object that a body would have */

static ngx_int_t
ngx_egress_graphql_json(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *text)
{
    ngx_egress_json_t  json;

    ngx_egress_json_init(&json, NULL, 0, ngx_egress_graphql_member, ctx);

    json.any = NGX_EGRESS_JSON_ROOT;

    return ngx_egress_json_parse(&json, text);
}
