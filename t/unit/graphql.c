
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Vectors of GraphQL documents: "document" is text that stands for its UTF-8,
 * or octets in "document_b64"; "operation" the type of the operation that is
 * told, a space and its name; "repos" pairs of an owner and a name, each of
 * them a text, {"variable": its name} or null.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_graphql.h"
#include "vectors.h"


static void ngx_vectors_graphql_text(yajl_val line, ngx_str_t *document);
static ngx_int_t ngx_vectors_graphql_operation(ngx_vectors_t *v,
    ngx_egress_graphql_t *g);
static ngx_int_t ngx_vectors_graphql_unknown(ngx_vectors_t *v,
    ngx_egress_graphql_t *g);
static ngx_int_t ngx_vectors_graphql_repos(ngx_vectors_t *v,
    ngx_egress_graphql_t *g);
static ngx_int_t ngx_vectors_graphql_arg(ngx_vectors_t *v, yajl_val want,
    ngx_egress_graphql_arg_t *arg);


ngx_int_t
ngx_vectors_graphql_document(ngx_vectors_t *v)
{
    char                  *want, *got;
    ngx_int_t              rc;
    ngx_str_t              document;
    ngx_egress_graphql_t   g;

    want = ngx_vectors_string(v->line, "want");

    if (want == NULL) {
        ngx_vectors_die("a GraphQL vector lacks a field");
    }

    ngx_vectors_graphql_text(v->line, &document);
    ngx_memset(&g, 0xff, sizeof(ngx_egress_graphql_t));

    rc = ngx_egress_graphql_parse(document.data, document.len, &g);

    got = (rc == NGX_DECLINED) ? "refuse"
          : (rc != NGX_OK) ? "another result code"
          : (g.class == NGX_EGRESS_READ) ? "read"
          : (g.class == NGX_EGRESS_WRITE) ? "write" : "another class";

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, want);

    if (strcmp(got, want) != 0) {
        return NGX_ERROR;
    }

    if (rc != NGX_OK) {
        return NGX_OK;
    }

    if (ngx_vectors_graphql_operation(v, &g) != NGX_OK
        || ngx_vectors_graphql_unknown(v, &g) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_vectors_graphql_repos(v, &g);
}


static void
ngx_vectors_graphql_text(yajl_val line, ngx_str_t *document)
{
    char    *text, *p;
    u_char  *q;

    text = ngx_vectors_string(line, "document");

    if (text == NULL) {

        if (ngx_vectors_bytes(line, "document", document) != NGX_OK) {
            ngx_vectors_die("a GraphQL vector has no document");
        }

        return;
    }

    document->data = ngx_vectors_alloc(strlen(text));
    q = document->data;

    for (p = text; *p; p++) {

        /* U+0100 stands for zero */

        if ((u_char) p[0] == 0xc4 && (u_char) p[1] == 0x80) {
            *q++ = '\0';
            p++;
            continue;
        }

        *q++ = (u_char) *p;
    }

    document->len = q - document->data;

    ngx_vectors_exact(document);
}


static ngx_int_t
ngx_vectors_graphql_operation(ngx_vectors_t *v, ngx_egress_graphql_t *g)
{
    char  *want;

    want = ngx_vectors_string(v->line, "operation");

    if (want == NULL) {
        return NGX_OK;
    }

    (void) snprintf((char *) v->got, NGX_VECTORS_TEXT, "%.*s %.*s",
                    (int) g->type.len, g->type.data,
                    (int) g->name.len, g->name.data);
    ngx_vectors_text(v->want, want);

    return (strcmp((char *) v->got, want) == 0) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_vectors_graphql_unknown(ngx_vectors_t *v, ngx_egress_graphql_t *g)
{
    yajl_val  want;

    want = ngx_vectors_get(v->line, "root_unknown");

    if (want == NULL) {
        return NGX_OK;
    }

    ngx_vectors_text(v->got, g->root_unknown ? "unknown" : "known");
    ngx_vectors_text(v->want, YAJL_IS_TRUE(want) ? "unknown" : "known");

    return (g->root_unknown == (YAJL_IS_TRUE(want) ? 1 : 0))
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_vectors_graphql_repos(ngx_vectors_t *v, ngx_egress_graphql_t *g)
{
    size_t     i;
    yajl_val   want, pair;

    want = ngx_vectors_get(v->line, "repos");

    if (want == NULL) {
        return NGX_OK;
    }

    if (!YAJL_IS_ARRAY(want)) {
        ngx_vectors_die("a GraphQL vector wants no array of repositories");
    }

    (void) snprintf((char *) v->got, NGX_VECTORS_TEXT, "%d repositories",
                    (int) g->nrepos);
    (void) snprintf((char *) v->want, NGX_VECTORS_TEXT, "%d repositories",
                    (int) YAJL_GET_ARRAY(want)->len);

    if (g->nrepos != YAJL_GET_ARRAY(want)->len) {
        return NGX_ERROR;
    }

    for (i = 0; i < g->nrepos; i++) {

        pair = YAJL_GET_ARRAY(want)->values[i];

        if (!YAJL_IS_ARRAY(pair) || YAJL_GET_ARRAY(pair)->len != 2) {
            ngx_vectors_die("a GraphQL vector wants no pair");
        }

        if (ngx_vectors_graphql_arg(v, YAJL_GET_ARRAY(pair)->values[0],
                                    &g->repos[i].owner)
            != NGX_OK
            || ngx_vectors_graphql_arg(v, YAJL_GET_ARRAY(pair)->values[1],
                                       &g->repos[i].name)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_vectors_graphql_arg(ngx_vectors_t *v, yajl_val want,
    ngx_egress_graphql_arg_t *arg)
{
    char       *text;
    ngx_str_t   str;

    text = YAJL_IS_OBJECT(want) ? ngx_vectors_string(want, "variable")
                                : YAJL_GET_STRING(want);

    ngx_vectors_text(v->want, "nothing");
    ngx_vectors_text(v->got, "nothing");

    if (arg->text.data) {
        ngx_vectors_show(v->got, arg->variable ? "variable" : "text",
                         &arg->text);
    }

    if (text == NULL) {
        return (arg->text.data == NULL) ? NGX_OK : NGX_ERROR;
    }

    str.data = (u_char *) text;
    str.len = strlen(text);

    ngx_vectors_show(v->want, YAJL_IS_OBJECT(want) ? "variable" : "text",
                     &str);

    return (arg->text.data != NULL && ngx_vectors_eq(&arg->text, &str)
            && arg->variable == (YAJL_IS_OBJECT(want) ? 1 : 0))
           ? NGX_OK : NGX_ERROR;
}
