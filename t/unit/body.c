
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Vectors of bodies: what the inspectors make of them.  Encodings and character
 * sets that the HTTP side refuses before a body is looked at are refused here
 * as well.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_body.h"
#include "vectors.h"


#define NGX_VECTORS_TOOLS  8


static ngx_uint_t ngx_vectors_coded(ngx_vectors_t *v);
static void ngx_vectors_body(ngx_vectors_t *v, ngx_str_t *body);
static ngx_int_t ngx_vectors_inspect(ngx_vectors_t *v, char *inspector,
    ngx_str_t *body, ngx_egress_body_t *b);
static ngx_int_t ngx_vectors_message(ngx_vectors_t *v, ngx_str_t *body,
    ngx_egress_body_t *b);
static void ngx_vectors_tools(ngx_vectors_t *v, ngx_array_t *tools,
    ngx_str_t *elts);
static void ngx_vectors_field(ngx_vectors_t *v, const char *name,
    ngx_egress_body_field_t *field);
static ngx_int_t ngx_vectors_class(ngx_vectors_t *v, ngx_int_t rc,
    ngx_egress_body_t *b);
static char *ngx_vectors_result(ngx_int_t rc, ngx_egress_body_t *b);
static ngx_uint_t ngx_vectors_plain(ngx_egress_body_t *b);
static ngx_int_t ngx_vectors_told(ngx_vectors_t *v, yajl_val want,
    const char *name, u_char *data, size_t len);
static ngx_int_t ngx_vectors_repos(ngx_vectors_t *v, yajl_val want,
    ngx_egress_body_t *b);


ngx_int_t
ngx_vectors_graphql(ngx_vectors_t *v)
{
    char               *p, *target;
    ngx_int_t           rc;
    ngx_str_t           body;
    ngx_egress_body_t   b;

    target = ngx_vectors_string(v->line, "target");

    if (target == NULL) {
        ngx_vectors_body(v, &body);
        rc = ngx_vectors_inspect(v, "graphql", &body, &b);

        return ngx_vectors_class(v, rc, &b);
    }

    p = strchr(target, '?');

    ngx_str_null(&body);

    if (p) {
        body.data = (u_char *) p + 1;
        body.len = strlen(p + 1);
        ngx_vectors_exact(&body);
    }

    rc = ngx_vectors_inspect(v, "graphql_query", &body, &b);

    return ngx_vectors_class(v, rc, &b);
}


ngx_int_t
ngx_vectors_json_rpc(ngx_vectors_t *v)
{
    ngx_int_t          rc;
    ngx_str_t          body;
    ngx_egress_body_t  b;

    ngx_vectors_body(v, &body);

    rc = ngx_vectors_inspect(v, "json_rpc", &body, &b);

    return ngx_vectors_class(v, rc, &b);
}


ngx_int_t
ngx_vectors_batch(ngx_vectors_t *v)
{
    ngx_int_t          rc;
    ngx_str_t          body;
    ngx_egress_body_t  b;

    ngx_vectors_body(v, &body);

    rc = ngx_vectors_inspect(v, "lfs", &body, &b);

    return ngx_vectors_class(v, rc, &b);
}


/* what an inspector tells besides the class, with the very result code */

ngx_int_t
ngx_vectors_bodies(ngx_vectors_t *v)
{
    char               *inspector, *result, *got;
    yajl_val            want;
    ngx_int_t           rc;
    ngx_str_t           body;
    ngx_egress_body_t   b;

    inspector = ngx_vectors_string(v->line, "inspector");
    want = ngx_vectors_get(v->line, "want");
    result = want ? ngx_vectors_string(want, "result") : NULL;

    if (inspector == NULL || result == NULL) {
        ngx_vectors_die("a vector of bodies lacks a field");
    }

    ngx_vectors_body(v, &body);

    rc = ngx_vectors_inspect(v, inspector, &body, &b);

    got = ngx_vectors_result(rc, &b);

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, result);

    if (strcmp(got, result) != 0) {
        return NGX_ERROR;
    }

    if (ngx_vectors_told(v, want, "operation", b.operation, b.operation_len)
        != NGX_OK
        || ngx_vectors_told(v, want, "id", b.id, b.id_len) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_vectors_repos(v, want, &b);
}


static ngx_uint_t
ngx_vectors_coded(ngx_vectors_t *v)
{
    char  *text;

    text = ngx_vectors_string(v->line, "content_encoding");

    if (text && strcasecmp(text, "identity") != 0) {
        return 1;
    }

    text = ngx_vectors_string(v->line, "content_type");
    text = text ? strstr(text, "charset=") : NULL;

    return text && strcasecmp(text + sizeof("charset=") - 1, "utf-8") != 0;
}


/* text is sent in UTF-8; U+0100 stands for zero, see ngx_vectors_zero() */

static void
ngx_vectors_body(ngx_vectors_t *v, ngx_str_t *body)
{
    char  *p;

    p = ngx_vectors_string(v->line, "body");

    if (p == NULL) {

        if (ngx_vectors_bytes(v->line, "body", body) != NGX_OK) {
            ngx_vectors_die("a vector has no body");
        }

        return;
    }

    body->len = 0;
    body->data = ngx_vectors_alloc(strlen(p));

    for ( /* void */ ; *p; p++) {

        if (strncmp(p, "\xc4\x80", 2) == 0) {
            body->data[body->len++] = '\0';
            p++;
            continue;
        }

        body->data[body->len++] = (u_char) *p;
    }

    ngx_vectors_exact(body);
}


static ngx_int_t
ngx_vectors_inspect(ngx_vectors_t *v, char *inspector, ngx_str_t *body,
    ngx_egress_body_t *b)
{
    ngx_memset(b, 0xff, sizeof(ngx_egress_body_t));

    if (ngx_vectors_coded(v)) {
        ngx_memzero(b, sizeof(ngx_egress_body_t));
        b->class = NGX_EGRESS_UNKNOWN;
        return NGX_ABORT;
    }

    if (strcmp(inspector, "graphql") == 0) {
        return ngx_egress_graphql_body(body, b);
    }

    if (strcmp(inspector, "graphql_query") == 0) {
        return ngx_egress_graphql_query(body, ngx_vectors_alloc(body->len), b);
    }

    if (strcmp(inspector, "lfs") == 0) {
        return ngx_egress_lfs_body(body, b);
    }

    if (strcmp(inspector, "json_rpc") != 0) {
        ngx_vectors_die("a vector names an unknown inspector");
    }

    return ngx_vectors_message(v, body, b);
}


static ngx_int_t
ngx_vectors_message(ngx_vectors_t *v, ngx_str_t *body, ngx_egress_body_t *b)
{
    ngx_str_t                elts[NGX_VECTORS_TOOLS];
    ngx_uint_t               all;
    ngx_array_t              tools;
    ngx_egress_body_field_t  method, name;

    ngx_vectors_tools(v, &tools, elts);
    ngx_vectors_field(v, "Mcp-Method", &method);
    ngx_vectors_field(v, "Mcp-Name", &name);

    all = YAJL_IS_TRUE(ngx_vectors_get(v->line, "all"));

    return ngx_egress_json_rpc_body(body, &tools, all, &method, &name, b);
}


static void
ngx_vectors_tools(ngx_vectors_t *v, ngx_array_t *tools, ngx_str_t *elts)
{
    size_t    i;
    yajl_val  list;

    ngx_memzero(tools, sizeof(ngx_array_t));

    tools->elts = elts;

    list = ngx_vectors_get(v->line, "tools");

    if (!YAJL_IS_ARRAY(list)) {
        return;
    }

    for (i = 0; i < YAJL_GET_ARRAY(list)->len; i++) {

        if (i == NGX_VECTORS_TOOLS
            || !YAJL_IS_STRING(YAJL_GET_ARRAY(list)->values[i]))
        {
            ngx_vectors_die("a vector has no list of tools");
        }

        elts[i].data = (u_char *)
                             YAJL_GET_STRING(YAJL_GET_ARRAY(list)->values[i]);
        elts[i].len = ngx_strlen(elts[i].data);

        tools->nelts++;
    }
}


static void
ngx_vectors_field(ngx_vectors_t *v, const char *name,
    ngx_egress_body_field_t *field)
{
    char      *text;
    size_t     i;
    yajl_val   list, pair;

    ngx_memzero(field, sizeof(ngx_egress_body_field_t));

    list = ngx_vectors_get(v->line, "headers");

    if (!YAJL_IS_ARRAY(list)) {
        return;
    }

    for (i = 0; i < YAJL_GET_ARRAY(list)->len; i++) {

        pair = YAJL_GET_ARRAY(list)->values[i];

        if (!YAJL_IS_ARRAY(pair) || YAJL_GET_ARRAY(pair)->len != 2) {
            ngx_vectors_die("a header of a vector is no pair");
        }

        text = YAJL_GET_STRING(YAJL_GET_ARRAY(pair)->values[0]);

        if (text == NULL || strcasecmp(text, name) != 0) {
            continue;
        }

        text = YAJL_GET_STRING(YAJL_GET_ARRAY(pair)->values[1]);

        field->value.data = (u_char *) text;
        field->value.len = strlen(text);
        ngx_vectors_exact(&field->value);
        field->count++;
    }
}


static ngx_int_t
ngx_vectors_class(ngx_vectors_t *v, ngx_int_t rc, ngx_egress_body_t *b)
{
    char  *got, *want;

    want = ngx_vectors_string(v->line, "want");

    if (want == NULL) {
        ngx_vectors_die("a vector wants nothing");
    }

    got = ngx_vectors_result(rc, b);

    if (strcmp(got, "declined") == 0 || strcmp(got, "abort") == 0
        || strcmp(got, "error") == 0)
    {
        got = "refuse";
    }

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, want);

    return (strcmp(got, want) == 0) ? NGX_OK : NGX_ERROR;
}


static char *
ngx_vectors_result(ngx_int_t rc, ngx_egress_body_t *b)
{
    if (!ngx_vectors_plain(b)) {
        return "an operation or an id that can't be written";
    }

    if (rc != NGX_OK && b->class != NGX_EGRESS_UNKNOWN) {
        return "a class of what is refused";
    }

    switch (rc) {

    case NGX_DECLINED:
        return "declined";

    case NGX_ABORT:
        return "abort";

    case NGX_ERROR:
        return "error";

    case NGX_OK:
        break;

    default:
        return "another result code";
    }

    if (b->tool_refused) {
        return (b->class == NGX_EGRESS_WRITE) ? "tool_refused"
                                              : "a tool that is no write";
    }

    return (b->class == NGX_EGRESS_READ) ? "read"
           : (b->class == NGX_EGRESS_WRITE) ? "write" : "no class";
}


static ngx_uint_t
ngx_vectors_plain(ngx_egress_body_t *b)
{
    size_t  i;

    if (b->operation_len > NGX_EGRESS_BODY_OPERATION
        || b->id_len > NGX_EGRESS_BODY_ID)
    {
        return 0;
    }

    for (i = 0; i < b->operation_len; i++) {
        if (b->operation[i] < ' ' || b->operation[i] > '~') {
            return 0;
        }
    }

    for (i = 0; i < b->id_len; i++) {
        if (b->id[i] < ' ') {
            return 0;
        }
    }

    return 1;
}


static ngx_int_t
ngx_vectors_told(ngx_vectors_t *v, yajl_val want, const char *name,
    u_char *data, size_t len)
{
    char       *text;
    ngx_str_t   got, expected;

    text = ngx_vectors_string(want, name);

    if (text == NULL) {
        return NGX_OK;
    }

    got.data = data;
    got.len = len;

    expected.data = (u_char *) text;
    expected.len = strlen(text);

    ngx_vectors_show(v->got, (char *) name, &got);
    ngx_vectors_show(v->want, (char *) name, &expected);

    return ngx_vectors_eq(&got, &expected) ? NGX_OK : NGX_ERROR;
}


/* "owner/name", or "?" where it can't be told; "+" at the end: other roots */

static ngx_int_t
ngx_vectors_repos(ngx_vectors_t *v, yajl_val want, ngx_egress_body_t *b)
{
    char        *text;
    u_char       buf[NGX_EGRESS_GRAPHQL_REPOS
                     * (2 * NGX_EGRESS_GRAPHQL_NAME + 2) + 2];
    u_char      *p;
    ngx_str_t    got, expected;
    ngx_uint_t   i;

    text = ngx_vectors_string(want, "repos");

    if (text == NULL) {
        return NGX_OK;
    }

    p = buf;

    for (i = 0; i < b->nrepos; i++) {

        if (i) {
            *p++ = ' ';
        }

        if (b->repos[i].owner_len == 0) {
            *p++ = '?';
            continue;
        }

        p = ngx_cpymem(p, b->repos[i].owner, b->repos[i].owner_len);
        *p++ = '/';
        p = ngx_cpymem(p, b->repos[i].name, b->repos[i].name_len);
    }

    if (b->root_unknown) {
        *p++ = '+';
    }

    got.data = buf;
    got.len = p - buf;

    expected.data = (u_char *) text;
    expected.len = strlen(text);

    ngx_vectors_show(v->got, "repositories", &got);
    ngx_vectors_show(v->want, "repositories", &expected);

    return ngx_vectors_eq(&got, &expected) ? NGX_OK : NGX_ERROR;
}
