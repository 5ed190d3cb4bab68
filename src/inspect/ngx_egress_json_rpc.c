
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_body.h"
#include "ngx_egress_json.h"


#define NGX_EGRESS_JSON_RPC_VERSION  1
#define NGX_EGRESS_JSON_RPC_ID       2
#define NGX_EGRESS_JSON_RPC_METHOD   3
#define NGX_EGRESS_JSON_RPC_PARAMS   4
#define NGX_EGRESS_JSON_RPC_RESULT   5
#define NGX_EGRESS_JSON_RPC_ERROR    6
#define NGX_EGRESS_JSON_RPC_NAME     7
#define NGX_EGRESS_JSON_RPC_URI      8

/* what the field Mcp-Name names, by method */
#define NGX_EGRESS_JSON_RPC_NOTHING  0

#define ngx_egress_json_rpc_has(ctx, n)  ((ctx)->seen & (1 << (n)))


typedef struct {
    ngx_egress_body_t        *b;
    ngx_array_t              *tools;
    ngx_egress_body_field_t  *method_field;
    ngx_egress_body_field_t  *name_field;

    ngx_uint_t                seen;         /* with a value that may stand */
    ngx_uint_t                names;        /* what Mcp-Name names */

    u_char                    method[NGX_EGRESS_BODY_OPERATION];
    u_char                    name[NGX_EGRESS_BODY_OPERATION];
    size_t                    method_len;
    size_t                    name_len;

    unsigned                  read:1;
    unsigned                  call:1;
    unsigned                  tool:1;       /* it is listed */
    unsigned                  method_agrees:1;
    unsigned                  name_agrees:1;
    unsigned                  uri_agrees:1;
} ngx_egress_json_rpc_ctx_t;


static ngx_int_t ngx_egress_json_rpc_member(void *data, ngx_uint_t field,
    ngx_str_t *key, ngx_uint_t type, ngx_str_t *text);
static void ngx_egress_json_rpc_method(ngx_egress_json_rpc_ctx_t *ctx,
    ngx_str_t *text);
static ngx_uint_t ngx_egress_json_rpc_notification(ngx_str_t *text);
static void ngx_egress_json_rpc_name(ngx_egress_json_rpc_ctx_t *ctx,
    ngx_str_t *text);
static void ngx_egress_json_rpc_id(ngx_egress_body_t *b, ngx_uint_t type,
    ngx_str_t *text);
static u_char *ngx_egress_json_rpc_quote(u_char *dst, u_char *last,
    u_char ch);

static ngx_int_t ngx_egress_json_rpc_judge(ngx_egress_json_rpc_ctx_t *ctx,
    ngx_uint_t all);
static ngx_uint_t ngx_egress_json_rpc_agrees(ngx_egress_json_rpc_ctx_t *ctx);
static void ngx_egress_json_rpc_operation(ngx_egress_json_rpc_ctx_t *ctx);

static ngx_uint_t ngx_egress_json_rpc_eq(ngx_str_t *a, ngx_str_t *b);
static ngx_uint_t ngx_egress_json_rpc_said(ngx_egress_body_field_t *field,
    ngx_str_t *text);
static ngx_uint_t ngx_egress_json_rpc_encoded(ngx_str_t *value,
    ngx_str_t *text);


/* in the order of NGX_EGRESS_JSON_RPC_VERSION, ... */

static ngx_egress_json_field_t  ngx_egress_json_rpc_fields[] = {
    { ngx_string("jsonrpc"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("id"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("method"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("params"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("result"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("error"), NGX_EGRESS_JSON_ROOT },
    { ngx_string("name"), NGX_EGRESS_JSON_RPC_PARAMS },
    { ngx_string("uri"), NGX_EGRESS_JSON_RPC_PARAMS }
};


/* methods that change nothing (wire.md C); notifications have any name */

static struct {
    ngx_str_t    method;
    ngx_uint_t   names;
} ngx_egress_json_rpc_reads[] = {
    { ngx_string("initialize"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("ping"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("tools/list"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("resources/list"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("resources/read"), NGX_EGRESS_JSON_RPC_URI },
    { ngx_string("resources/templates/list"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("prompts/list"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("prompts/get"), NGX_EGRESS_JSON_RPC_NAME },
    { ngx_string("completion/complete"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_string("logging/setLevel"), NGX_EGRESS_JSON_RPC_NOTHING },
    { ngx_null_string, 0 }
};


ngx_int_t
ngx_egress_json_rpc_body(ngx_str_t *body, ngx_array_t *tools, ngx_uint_t all,
    ngx_egress_body_field_t *method, ngx_egress_body_field_t *name,
    ngx_egress_body_t *b)
{
    ngx_int_t                  rc;
    ngx_egress_json_t          json;
    ngx_egress_json_rpc_ctx_t  ctx;

    ngx_memzero(b, sizeof(ngx_egress_body_t));
    ngx_memzero(&ctx, sizeof(ngx_egress_json_rpc_ctx_t));

    b->class = NGX_EGRESS_UNKNOWN;

    ctx.b = b;
    ctx.tools = tools;
    ctx.method_field = method;
    ctx.name_field = name;

    ngx_egress_json_init(&json, ngx_egress_json_rpc_fields,
                         sizeof(ngx_egress_json_rpc_fields)
                         / sizeof(ngx_egress_json_field_t),
                         ngx_egress_json_rpc_member, &ctx);

    rc = ngx_egress_json_parse(&json, body);

    ngx_egress_json_rpc_operation(&ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_egress_json_rpc_judge(&ctx, all);
}


static ngx_int_t
ngx_egress_json_rpc_member(void *data, ngx_uint_t field, ngx_str_t *key,
    ngx_uint_t type, ngx_str_t *text)
{
    ngx_egress_json_rpc_ctx_t *ctx = data;

    switch (field) {

    case NGX_EGRESS_JSON_RPC_VERSION:

        if (type != NGX_EGRESS_JSON_STRING || text->len != 3
            || ngx_memcmp(text->data, "2.0", 3) != 0)
        {
            return NGX_DECLINED;
        }

        break;

    case NGX_EGRESS_JSON_RPC_ID:

        if (type != NGX_EGRESS_JSON_STRING && type != NGX_EGRESS_JSON_NUMBER
            && type != NGX_EGRESS_JSON_NULL)
        {
            return NGX_DECLINED;
        }

        ngx_egress_json_rpc_id(ctx->b, type, text);
        break;

    case NGX_EGRESS_JSON_RPC_METHOD:

        if (type != NGX_EGRESS_JSON_STRING) {
            return NGX_DECLINED;
        }

        ngx_egress_json_rpc_method(ctx, text);
        break;

    case NGX_EGRESS_JSON_RPC_PARAMS:

        if (type != NGX_EGRESS_JSON_OBJECT && type != NGX_EGRESS_JSON_ARRAY
            && type != NGX_EGRESS_JSON_NULL)
        {
            return NGX_DECLINED;
        }

        break;

    case NGX_EGRESS_JSON_RPC_NAME:

        if (type != NGX_EGRESS_JSON_STRING) {
            return NGX_OK;
        }

        ngx_egress_json_rpc_name(ctx, text);
        break;

    case NGX_EGRESS_JSON_RPC_URI:

        if (type != NGX_EGRESS_JSON_STRING) {
            return NGX_OK;
        }

        ctx->uri_agrees = ngx_egress_json_rpc_said(ctx->name_field, text);
        break;
    }

    ctx->seen |= 1 << field;

    return NGX_OK;
}


static void
ngx_egress_json_rpc_method(ngx_egress_json_rpc_ctx_t *ctx, ngx_str_t *text)
{
    ngx_str_t   call;
    ngx_uint_t  i;

    ngx_egress_json_printable(ctx->method, &ctx->method_len,
                              NGX_EGRESS_BODY_OPERATION, text);

    ctx->method_agrees = ngx_egress_json_rpc_said(ctx->method_field, text);

    ngx_str_set(&call, "tools/call");

    if (ngx_egress_json_rpc_eq(text, &call)) {
        ctx->call = 1;
        ctx->names = NGX_EGRESS_JSON_RPC_NAME;
        return;
    }

    for (i = 0; ngx_egress_json_rpc_reads[i].method.len; i++) {

        if (ngx_egress_json_rpc_eq(text,
                                   &ngx_egress_json_rpc_reads[i].method))
        {
            ctx->read = 1;
            ctx->names = ngx_egress_json_rpc_reads[i].names;
            return;
        }
    }

    ctx->read = ngx_egress_json_rpc_notification(text);
}


static ngx_uint_t
ngx_egress_json_rpc_notification(ngx_str_t *text)
{
    u_char  ch;
    size_t  i;

    i = sizeof("notifications/") - 1;

    if (text->len <= i || ngx_memcmp(text->data, "notifications/", i) != 0) {
        return 0;
    }

    for ( /* void */ ; i < text->len; i++) {

        ch = ngx_tolower(text->data[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')
            && ch != '_' && ch != '-' && ch != '/' && ch != '.' && ch != '$')
        {
            return 0;
        }
    }

    return 1;
}


static void
ngx_egress_json_rpc_name(ngx_egress_json_rpc_ctx_t *ctx, ngx_str_t *text)
{
    ngx_str_t   *tool;
    ngx_uint_t   i;

    ngx_egress_json_printable(ctx->name, &ctx->name_len,
                              NGX_EGRESS_BODY_OPERATION, text);

    ctx->name_agrees = ngx_egress_json_rpc_said(ctx->name_field, text);

    if (ctx->tools == NULL) {
        return;
    }

    tool = ctx->tools->elts;

    for (i = 0; i < ctx->tools->nelts; i++) {
        if (ngx_egress_json_rpc_eq(&tool[i], text)) {
            ctx->tool = 1;
            return;
        }
    }
}


/* one that does not fit, or is null, is none */

static void
ngx_egress_json_rpc_id(ngx_egress_body_t *b, ngx_uint_t type, ngx_str_t *text)
{
    u_char  *p, *last;
    size_t   i;

    p = b->id;
    last = p + NGX_EGRESS_BODY_ID;

    if (type == NGX_EGRESS_JSON_NULL || text->len > NGX_EGRESS_BODY_ID) {
        return;
    }

    if (type == NGX_EGRESS_JSON_NUMBER) {
        ngx_memcpy(p, text->data, text->len);
        b->id_len = text->len;
        return;
    }

    *p++ = '"';

    for (i = 0; i < text->len && p; i++) {
        p = ngx_egress_json_rpc_quote(p, last, text->data[i]);
    }

    if (p == NULL || p == last) {
        return;
    }

    *p++ = '"';

    b->id_len = p - b->id;
}


static u_char *
ngx_egress_json_rpc_quote(u_char *dst, u_char *last, u_char ch)
{
    static const char  hex[] = "0123456789abcdef";

    if (ch < 0x20) {

        if (last - dst < 6) {
            return NULL;
        }

        *dst++ = '\\';
        *dst++ = 'u';
        *dst++ = '0';
        *dst++ = '0';
        *dst++ = hex[ch >> 4];
        *dst++ = hex[ch & 0xf];

        return dst;
    }

    if (last - dst < 2) {
        return NULL;
    }

    if (ch == '"' || ch == '\\') {
        *dst++ = '\\';
    }

    *dst++ = ch;

    return dst;
}


/* the whole message is read: what it asks for, if it is one at all */

static ngx_int_t
ngx_egress_json_rpc_judge(ngx_egress_json_rpc_ctx_t *ctx, ngx_uint_t all)
{
    ngx_uint_t          method, result, error;
    ngx_egress_body_t  *b;

    b = ctx->b;

    method = ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_METHOD) ? 1 : 0;
    result = ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_RESULT) ? 1 : 0;
    error = ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_ERROR) ? 1 : 0;

    if (!ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_VERSION)
        || method + result + error != 1)
    {
        return NGX_DECLINED;
    }

    /* only in an object can there be a name */

    if (ctx->call && !ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_NAME)) {
        return NGX_DECLINED;
    }

    if (!ngx_egress_json_rpc_agrees(ctx)) {
        return NGX_ERROR;
    }

    if (ctx->call && !ctx->tool && !all) {
        b->class = NGX_EGRESS_WRITE;
        b->tool_refused = 1;
        return NGX_OK;
    }

    /* an answer of the client's changes nothing either */

    if (method && !ctx->call && !ctx->read) {
        return NGX_DECLINED;
    }

    b->class = NGX_EGRESS_READ;

    return NGX_OK;
}


/* a field that is absent agrees with anything */

static ngx_uint_t
ngx_egress_json_rpc_agrees(ngx_egress_json_rpc_ctx_t *ctx)
{
    if (ctx->method_field->count > 1 || ctx->name_field->count > 1) {
        return 0;
    }

    if (ctx->method_field->value.data && !ctx->method_agrees) {
        return 0;
    }

    if (ctx->name_field->value.data == NULL) {
        return 1;
    }

    switch (ctx->names) {

    case NGX_EGRESS_JSON_RPC_NAME:
        return ctx->name_agrees;

    case NGX_EGRESS_JSON_RPC_URI:
        return ctx->uri_agrees;

    default:
        return 0;
    }
}


static void
ngx_egress_json_rpc_operation(ngx_egress_json_rpc_ctx_t *ctx)
{
    ngx_str_t           text;
    ngx_egress_body_t  *b;

    b = ctx->b;

    text.data = ctx->method;
    text.len = ctx->method_len;

    if (!ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_METHOD)
        && (ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_RESULT)
            || ngx_egress_json_rpc_has(ctx, NGX_EGRESS_JSON_RPC_ERROR)))
    {
        ngx_str_set(&text, "response");
    }

    ngx_egress_json_printable(b->operation, &b->operation_len,
                              NGX_EGRESS_BODY_OPERATION, &text);

    if (!ctx->call || ctx->name_len == 0) {
        return;
    }

    ngx_str_set(&text, " ");

    ngx_egress_json_printable(b->operation, &b->operation_len,
                              NGX_EGRESS_BODY_OPERATION, &text);

    text.data = ctx->name;
    text.len = ctx->name_len;

    ngx_egress_json_printable(b->operation, &b->operation_len,
                              NGX_EGRESS_BODY_OPERATION, &text);
}


static ngx_uint_t
ngx_egress_json_rpc_eq(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || ngx_memcmp(a->data, b->data, a->len) == 0);
}


/*
 * What a field can't hold as it stands is sent in base64, as =?base64?...?=;
 * what looks so is never meant literally.
 */

static ngx_uint_t
ngx_egress_json_rpc_said(ngx_egress_body_field_t *field, ngx_str_t *text)
{
    ngx_str_t   value;
    ngx_uint_t  prefix, suffix;

    value = field->value;

    if (value.data == NULL) {
        return 0;
    }

    prefix = sizeof("=?base64?") - 1;
    suffix = sizeof("?=") - 1;

    if (value.len < prefix + suffix
        || ngx_memcmp(value.data, "=?base64?", prefix) != 0
        || ngx_memcmp(value.data + value.len - suffix, "?=", suffix) != 0)
    {
        return ngx_egress_json_rpc_eq(&value, text);
    }

    value.data += prefix;
    value.len -= prefix + suffix;

    return ngx_egress_json_rpc_encoded(&value, text);
}


/* compares a value with what the text is in canonical base64 */

static ngx_uint_t
ngx_egress_json_rpc_encoded(ngx_str_t *value, ngx_str_t *text)
{
    u_char      *p;
    size_t       i, left;
    ngx_uint_t   k, n;

    static const char  alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    if (value->len != (text->len + 2) / 3 * 4) {
        return 0;
    }

    p = value->data;

    for (i = 0; i < text->len; i += 3) {

        left = text->len - i;

        n = (ngx_uint_t) text->data[i] << 16;
        n |= (left > 1) ? (ngx_uint_t) text->data[i + 1] << 8 : 0;
        n |= (left > 2) ? (ngx_uint_t) text->data[i + 2] : 0;

        for (k = 0; k < 4; k++) {

            if (*p++ != ((k > left) ? '='
                                    : alphabet[(n >> (18 - 6 * k)) & 0x3f]))
            {
                return 0;
            }
        }
    }

    return 1;
}
