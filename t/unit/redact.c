
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Vectors of masking: the spellings of a secret, and what is left of a text
 * without them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_redact.h"
#include "vectors.h"


static ngx_int_t ngx_vectors_spellings(ngx_vectors_t *v,
    ngx_egress_redact_t *redact, yajl_val want);
static ngx_int_t ngx_vectors_masked(ngx_vectors_t *v,
    ngx_egress_redact_t *redact, yajl_val want);
static ngx_int_t ngx_vectors_number(yajl_val obj, const char *name);


ngx_int_t
ngx_vectors_redact(ngx_vectors_t *v)
{
    void                 *mem;
    size_t                size;
    yajl_val              want, spellings;
    ngx_str_t             secret;
    ngx_uint_t            none;
    ngx_egress_redact_t  *redact;

    want = ngx_vectors_get(v->line, "want");

    if (want == NULL
        || ngx_vectors_bytes(v->line, "secret", &secret) != NGX_OK)
    {
        ngx_vectors_die("a redact vector lacks a field");
    }

    size = ngx_egress_redact_size(&secret, 1);
    mem = ngx_vectors_alloc(size);
    ngx_memset(mem, 0xff, size);

    redact = ngx_egress_redact_init(mem, &secret, 1);

    none = YAJL_IS_TRUE(ngx_vectors_get(want, "none"));

    ngx_vectors_text(v->got, redact ? "spellings" : "none");
    ngx_vectors_text(v->want, none ? "none" : "spellings");

    if (redact == NULL || none) {
        return (redact == NULL && none) ? NGX_OK : NGX_ERROR;
    }

    spellings = ngx_vectors_get(want, "spellings");

    if (spellings) {
        return ngx_vectors_spellings(v, redact, spellings);
    }

    return ngx_vectors_masked(v, redact, want);
}


/* each of them, and no others; some may be equal to one another */

static ngx_int_t
ngx_vectors_spellings(ngx_vectors_t *v, ngx_egress_redact_t *redact,
    yajl_val want)
{
    char        *name;
    ngx_str_t    str;
    ngx_uint_t   i, k;
    u_char       seen[NGX_EGRESS_REDACT_SPELLINGS];

    if (!YAJL_IS_OBJECT(want)) {
        ngx_vectors_die("a redact vector wants no spellings");
    }

    ngx_memzero(seen, sizeof(seen));

    for (i = 0; i < YAJL_GET_OBJECT(want)->len; i++) {

        name = (char *) YAJL_GET_OBJECT(want)->keys[i];

        if (ngx_vectors_bytes(want, name, &str) != NGX_OK) {
            ngx_vectors_die("a spelling is no string");
        }

        for (k = 0; k < redact->n; k++) {
            if (ngx_vectors_eq(&redact->spelling[k], &str)) {
                break;
            }
        }

        ngx_vectors_text(v->got, "none like it");
        ngx_vectors_show(v->want, name, &str);

        if (k == redact->n) {
            return NGX_ERROR;
        }

        seen[k] = 1;
    }

    for (k = 0; k < redact->n; k++) {
        ngx_vectors_show(v->got, "one more", &redact->spelling[k]);
        ngx_vectors_text(v->want, "nothing else");

        if (!seen[k]) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_vectors_masked(ngx_vectors_t *v, ngx_egress_redact_t *redact,
    yajl_val want)
{
    size_t      tail;
    ngx_int_t   wanted;
    ngx_str_t   text, expected;
    ngx_uint_t  found;

    if (ngx_vectors_bytes(v->line, "text", &text) != NGX_OK
        || ngx_vectors_bytes(want, "text", &expected) != NGX_OK)
    {
        ngx_vectors_die("a redact vector lacks a text");
    }

    ngx_vectors_exact(&text);

    found = ngx_egress_redact_scan(redact, text.data, text.len);
    tail = ngx_egress_redact_tail(redact, text.data, text.len);

    ngx_vectors_show(v->got, "text", &text);
    ngx_vectors_show(v->want, "text", &expected);

    if (!ngx_vectors_eq(&text, &expected)) {
        return NGX_ERROR;
    }

    wanted = ngx_vectors_number(want, "tail");

    if (wanted == NGX_ERROR) {
        wanted = tail;
    }

    (void) snprintf((char *) v->got, NGX_VECTORS_TEXT, "found %d tail %d",
                    (int) found, (int) tail);
    (void) snprintf((char *) v->want, NGX_VECTORS_TEXT, "found %d tail %d",
                    (int) ngx_vectors_number(want, "found"), (int) wanted);

    return ((ngx_int_t) found == ngx_vectors_number(want, "found")
            && (ngx_int_t) tail == wanted)
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_vectors_number(yajl_val obj, const char *name)
{
    yajl_val  number;

    number = ngx_vectors_get(obj, name);

    return YAJL_IS_INTEGER(number) ? (ngx_int_t) YAJL_GET_INTEGER(number)
                                   : NGX_ERROR;
}
