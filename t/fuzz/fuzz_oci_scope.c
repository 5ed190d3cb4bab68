
/*
 * Copyright (C) the nginx egress gateway authors
 */


/* input: the query */


#include "fuzz.h"
#include "ngx_egress_git.h"
#include "ngx_egress_oci_scope.h"


static ngx_int_t fuzz_oci_scope(const uint8_t *data, size_t size,
    ngx_egress_body_t *b);
static void fuzz_oci_scope_again(ngx_str_t *query, ngx_int_t rc,
    ngx_egress_body_t *b);
static void fuzz_oci_scope_check(ngx_egress_body_t *b);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t            *more;
    ngx_int_t           rc;
    ngx_egress_body_t   b;

    static char  push[] = "&scope=repository:a/b:push";

    rc = fuzz_oci_scope(data, size, &b);

    if (rc == NGX_OK) {
        fuzz_oci_scope_check(&b);
    }

    /* whatever comes first: asking for more than pulling is no read */

    more = fuzz_alloc(size + sizeof(push) - 1);

    if (size) {
        memcpy(more, data, size);
    }

    memcpy(more + size, push, sizeof(push) - 1);

    rc = fuzz_oci_scope(more, size + sizeof(push) - 1, &b);

    fuzz_require(rc == NGX_DECLINED
                 || (rc == NGX_OK && b.class == NGX_EGRESS_WRITE));

    free(more);

    return 0;
}


static ngx_int_t
fuzz_oci_scope(const uint8_t *data, size_t size, ngx_egress_body_t *b)
{
    u_char     *buf;
    ngx_int_t   rc;
    ngx_str_t   query;

    fuzz_copy(&query, data, size);
    buf = fuzz_alloc(size);

    memset(buf, ':', size);
    memset(b, 0xff, sizeof(ngx_egress_body_t));

    rc = ngx_egress_oci_scope(&query, buf, b);

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED);
    fuzz_require(size == 0 || memcmp(query.data, data, size) == 0);

    fuzz_oci_scope_again(&query, rc, b);

    free(buf);
    free(query.data);

    return rc;
}


/* what the buffer held before makes no difference */

static void
fuzz_oci_scope_again(ngx_str_t *query, ngx_int_t rc, ngx_egress_body_t *b)
{
    u_char             *buf;
    ngx_egress_body_t   again;

    buf = fuzz_alloc(query->len);

    memset(buf, 'l', query->len);
    memset(&again, 0xff, sizeof(ngx_egress_body_t));

    fuzz_require(ngx_egress_oci_scope(query, buf, &again) == rc);

    if (rc == NGX_OK) {
        fuzz_require(memcmp(b, &again, sizeof(ngx_egress_body_t)) == 0);
    }

    free(buf);
}


static void
fuzz_oci_scope_check(ngx_egress_body_t *b)
{
    size_t      i;
    ngx_uint_t  n;

    fuzz_require(b->class == NGX_EGRESS_READ || b->class == NGX_EGRESS_WRITE);
    fuzz_require(b->nrepos <= NGX_EGRESS_GRAPHQL_REPOS);
    fuzz_require(b->operation_len >= sizeof("token") - 1
                 && b->operation_len <= NGX_EGRESS_BODY_OPERATION);
    fuzz_require(b->id_len == 0 && !b->tool_refused);

    for (i = 0; i < b->operation_len; i++) {
        fuzz_require(b->operation[i] >= 0x20 && b->operation[i] < 0x7f);
    }

    for (n = 0; n < b->nrepos; n++) {
        fuzz_require(b->repos[n].owner_len <= NGX_EGRESS_GRAPHQL_NAME);
        fuzz_require(b->repos[n].name_len <= NGX_EGRESS_GRAPHQL_NAME);
    }
}
