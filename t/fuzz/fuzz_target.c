
/*
 * Copyright (C) the nginx egress gateway authors
 */


/* input: a request target as it was sent */


#include "fuzz.h"
#include "ngx_egress_target.h"


static void fuzz_target_accepted(ngx_str_t *raw, u_char *buf,
    ngx_egress_target_t *target);
static void fuzz_target_again(ngx_egress_target_t *target);
static void fuzz_target_segments(ngx_str_t *path);
static void fuzz_target_decode(ngx_str_t *path);
static ngx_int_t fuzz_target_digit(u_char c);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char               *buf;
    ngx_int_t             rc;
    ngx_str_t             raw, query;
    ngx_egress_target_t   target;

    fuzz_copy(&raw, data, size);
    buf = fuzz_alloc(3 * size);

    memset(&target, 0xff, sizeof(ngx_egress_target_t));

    rc = ngx_egress_target_parse(&raw, buf, &target);

    fuzz_require(rc == NGX_OK || rc == NGX_ERROR || rc == NGX_DECLINED);
    fuzz_require(size == 0 || memcmp(raw.data, data, size) == 0);

    if (rc == NGX_OK) {
        fuzz_target_accepted(&raw, buf, &target);
        fuzz_target_again(&target);
    }

    free(buf);
    free(raw.data);

    /* a query is looked at on its own */

    fuzz_copy(&query, data, size);
    (void) ngx_egress_target_overrides(&query);
    free(query.data);

    return 0;
}


static void
fuzz_target_accepted(ngx_str_t *raw, u_char *buf, ngx_egress_target_t *target)
{
    ngx_str_t   path, room;
    ngx_uint_t  i;

    room.data = buf;
    room.len = 3 * raw->len;

    fuzz_require(fuzz_inside(&target->authority, raw));
    fuzz_require(fuzz_inside(&target->path, raw));
    fuzz_require(fuzz_inside(&target->query, raw));
    fuzz_require(fuzz_inside(&target->canonical, &room));
    fuzz_require(fuzz_inside(&target->folded, &room));

    fuzz_require(target->path.len && target->path.data[0] == '/');
    fuzz_require(target->canonical.len && target->canonical.data[0] == '/');
    fuzz_require(target->folded.len && target->folded.data[0] == '/');

    /* the bytes that are sent are all accounted for */

    fuzz_require(target->path.data + target->path.len
                 + (target->query.data ? 1 + target->query.len : 0)
                 == raw->data + raw->len);

    fuzz_copy(&path, target->path.data, target->path.len);

    for (i = 0; i < 3; i++) {
        fuzz_target_segments(&path);
        fuzz_target_decode(&path);
    }

    free(path.data);
}


static void
fuzz_target_again(ngx_egress_target_t *target)
{
    u_char               *buf;
    ngx_str_t             raw;
    ngx_egress_target_t   again;

    fuzz_copy(&raw, target->canonical.data, target->canonical.len);
    buf = fuzz_alloc(3 * raw.len);

    fuzz_require(ngx_egress_target_parse(&raw, buf, &again) == NGX_OK);
    fuzz_require(fuzz_eq(&again.canonical, &target->canonical));
    fuzz_require(fuzz_eq(&again.folded, &target->folded));
    fuzz_require(again.encoded_slash == target->encoded_slash);

    free(buf);
    free(raw.data);
}


/* no server finds an empty segment but the last, nor a dot segment */

static void
fuzz_target_segments(ngx_str_t *path)
{
    u_char     *p, *end, *cut, *last;
    ngx_str_t   segment;

    p = path->data + 1;
    last = path->data + path->len;

    for ( ;; ) {
        end = memchr(p, '/', last - p);

        if (end == NULL) {
            end = last;
        }

        cut = memchr(p, ';', end - p);

        segment.data = p;
        segment.len = (cut ? cut : end) - p;

        fuzz_require(!fuzz_is(&segment, "."));
        fuzz_require(!fuzz_is(&segment, ".."));

        if (end == last) {
            return;
        }

        fuzz_require(segment.len);

        p = end + 1;
    }
}


/* one layer of percent-encoding, in place; what is no encoding stays */

static void
fuzz_target_decode(ngx_str_t *path)
{
    u_char     *p, *dst, *last;
    ngx_int_t   high, low;

    p = path->data;
    dst = p;
    last = p + path->len;

    while (p < last) {

        if (*p == '%' && last - p > 2) {
            high = fuzz_target_digit(p[1]);
            low = fuzz_target_digit(p[2]);

            if (high >= 0 && low >= 0) {
                *dst++ = (u_char) (high * 16 + low);
                p += 3;
                continue;
            }
        }

        *dst++ = *p++;
    }

    path->len = dst - path->data;
}


static ngx_int_t
fuzz_target_digit(u_char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    c |= 0x20;

    return (c >= 'a' && c <= 'f') ? c - 'a' + 10 : -1;
}
