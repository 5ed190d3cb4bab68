
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _FUZZ_H_INCLUDED_
#define _FUZZ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* what every fuzz target shares: traps and strings of an exact size */

#define fuzz_require(cond)  do { if (!(cond)) { __builtin_trap(); } } while (0)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void *fuzz_alloc(size_t size);
static inline void fuzz_copy(ngx_str_t *str, const void *data, size_t len);
static inline ngx_uint_t fuzz_eq(ngx_str_t *a, ngx_str_t *b);
static inline ngx_uint_t fuzz_is(ngx_str_t *str, const char *text);
static inline ngx_uint_t fuzz_inside(ngx_str_t *inner, ngx_str_t *outer);


static inline void *
fuzz_alloc(size_t size)
{
    void  *p;

    p = malloc(size);
    fuzz_require(p != NULL);

    return p;
}


/* a copy that ends where its allocation ends; to be freed */

static inline void
fuzz_copy(ngx_str_t *str, const void *data, size_t len)
{
    str->len = len;
    str->data = fuzz_alloc(len);

    if (len) {
        memcpy(str->data, data, len);
    }
}


static inline ngx_uint_t
fuzz_eq(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}


static inline ngx_uint_t
fuzz_is(ngx_str_t *str, const char *text)
{
    return str->len == strlen(text)
           && memcmp(str->data, text, str->len) == 0;
}


/* an empty string may be anywhere */

static inline ngx_uint_t
fuzz_inside(ngx_str_t *inner, ngx_str_t *outer)
{
    return inner->len == 0
           || (inner->data >= outer->data && inner->len <= outer->len
               && inner->data + inner->len <= outer->data + outer->len);
}


#endif /* _FUZZ_H_INCLUDED_ */
