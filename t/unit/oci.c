
/*
 * Copyright (C) the nginx egress gateway authors
 */


/* Vectors of requests for a token of a container registry. */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_oci_scope.h"
#include "vectors.h"


static void ngx_vectors_scopes(u_char *dst, ngx_egress_body_t *b);


ngx_int_t
ngx_vectors_oci_scope(ngx_vectors_t *v)
{
    char               *want, *repos;
    u_char             *buf;
    ngx_int_t           rc;
    ngx_str_t           query;
    ngx_egress_body_t   b;

    want = ngx_vectors_string(v->line, "want");
    repos = ngx_vectors_string(v->line, "repos");

    if (want == NULL) {
        ngx_vectors_die("an oci vector lacks a field");
    }

    if (ngx_vectors_bytes(v->line, "query", &query) != NGX_OK) {
        ngx_str_null(&query);
    }

    /* what lies behind a value there is none of it */

    buf = ngx_vectors_alloc(query.len);
    ngx_memset(buf, ':', query.len);

    ngx_memset(&b, 0xff, sizeof(ngx_egress_body_t));

    rc = ngx_egress_oci_scope(&query, buf, &b);

    ngx_vectors_text(v->want, want);
    ngx_vectors_text(v->got, (rc == NGX_DECLINED) ? "refuse"
                             : (rc != NGX_OK) ? "another result code"
                             : (b.class == NGX_EGRESS_READ) ? "read"
                             : (b.class == NGX_EGRESS_WRITE) ? "write"
                             : "another class");

    if (strcmp((char *) v->got, want) != 0) {
        return NGX_ERROR;
    }

    if (rc != NGX_OK || repos == NULL) {
        return NGX_OK;
    }

    ngx_vectors_text(v->want, repos);
    ngx_vectors_scopes(v->got, &b);

    return (strcmp((char *) v->got, repos) == 0) ? NGX_OK : NGX_ERROR;
}


/* "owner|name owner|name; operation" */

static void
ngx_vectors_scopes(u_char *dst, ngx_egress_body_t *b)
{
    u_char      *p, *last;
    ngx_uint_t   i;

    p = dst;
    last = dst + NGX_VECTORS_TEXT;

    for (i = 0; i < b->nrepos; i++) {
        p += snprintf((char *) p, last - p, "%.*s|%.*s ",
                      (int) b->repos[i].owner_len, b->repos[i].owner,
                      (int) b->repos[i].name_len, b->repos[i].name);
    }

    (void) snprintf((char *) p, last - p, "%s%.*s",
                    b->root_unknown ? "more; " : "; ",
                    (int) b->operation_len, b->operation);
}
