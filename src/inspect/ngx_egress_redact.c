
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_redact.h"


/* the last four octets of a window tell how far it may move */

#define NGX_EGRESS_REDACT_BLOCK     4
#define NGX_EGRESS_REDACT_SHIFT     19      /* 32 less the bits of a hash */


static ngx_inline ngx_uint_t ngx_egress_redact_hash(u_char *p);


typedef u_char *(*ngx_egress_redact_pt)(u_char *dst, u_char c,
    const char *digits);


static u_char *ngx_egress_redact_spell(ngx_egress_redact_t *redact,
    u_char *p, ngx_str_t *secret);
static u_char *ngx_egress_redact_base64(u_char *dst, ngx_str_t *secret,
    ngx_uint_t align, const char *alphabet);
static u_char *ngx_egress_redact_each(u_char *dst, ngx_str_t *secret,
    ngx_egress_redact_pt write, const char *digits);
static u_char *ngx_egress_redact_plain(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_hex(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_percent(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_reserved(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_unicode(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_json(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_solidus(u_char *dst, u_char c,
    const char *digits);
static u_char *ngx_egress_redact_add(ngx_egress_redact_t *redact, u_char *p,
    u_char *last);
static void ngx_egress_redact_table(ngx_egress_redact_t *redact);
static size_t ngx_egress_redact_match(ngx_egress_redact_t *redact, u_char *p,
    size_t len);


static const char  ngx_egress_redact_standard[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char  ngx_egress_redact_url[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static const char  ngx_egress_redact_lower[] = "0123456789abcdef";
static const char  ngx_egress_redact_upper[] = "0123456789ABCDEF";


static struct {
    ngx_egress_redact_pt   write;
    const char            *digits;
} ngx_egress_redact_writers[] = {
    { ngx_egress_redact_plain, NULL },
    { ngx_egress_redact_hex, ngx_egress_redact_lower },
    { ngx_egress_redact_hex, ngx_egress_redact_upper },
    { ngx_egress_redact_percent, ngx_egress_redact_upper },
    { ngx_egress_redact_percent, ngx_egress_redact_lower },
    { ngx_egress_redact_reserved, ngx_egress_redact_upper },
    { ngx_egress_redact_reserved, ngx_egress_redact_lower },
    { ngx_egress_redact_unicode, ngx_egress_redact_lower },
    { ngx_egress_redact_unicode, ngx_egress_redact_upper },
    { ngx_egress_redact_json, ngx_egress_redact_lower },
    { ngx_egress_redact_solidus, ngx_egress_redact_lower },
    { NULL, NULL }
};


static ngx_inline ngx_uint_t
ngx_egress_redact_hash(u_char *p)
{
    uint32_t  block;

    ngx_memcpy(&block, p - NGX_EGRESS_REDACT_BLOCK + 1, sizeof(block));

    /* multiplicative, by the golden ratio: text has few different octets */

    return (uint32_t) (block * 0x9e3779b1) >> NGX_EGRESS_REDACT_SHIFT;
}


ngx_uint_t
ngx_egress_redact_scan(ngx_egress_redact_t *redact, u_char *data, size_t len)
{
    size_t       n, window;
    u_char      *p, *start, *last;
    ngx_uint_t   found;

    found = 0;
    last = data + len;
    window = redact->min - 1;

    if (len <= window) {
        return 0;
    }

    p = data + window;

    while (p < last) {

        n = redact->shift[ngx_egress_redact_hash(p)];

        if (n) {
            p += n;
            continue;
        }

        start = p - window;

        n = redact->first[*start]
            ? ngx_egress_redact_match(redact, start, last - start) : 0;

        if (n == 0) {
            p++;
            continue;
        }

        ngx_memset(start, '*', n);
        found++;

        if ((size_t) (last - start) - n <= window) {
            break;
        }

        p = start + n + window;
    }

    return found;
}


/* the longest one that begins here */

static size_t
ngx_egress_redact_match(ngx_egress_redact_t *redact, u_char *p, size_t len)
{
    size_t      longest;
    ngx_str_t  *s;
    ngx_uint_t  i;

    longest = 0;
    s = redact->spelling;

    for (i = 0; i < redact->n; i++) {
        if (s[i].len <= len && s[i].len > longest
            && ngx_memcmp(s[i].data, p, s[i].len) == 0)
        {
            longest = s[i].len;
        }
    }

    return longest;
}


size_t
ngx_egress_redact_tail(ngx_egress_redact_t *redact, u_char *data, size_t len)
{
    size_t      n, shift;
    u_char     *p;
    ngx_str_t  *s;
    ngx_uint_t  i;

    s = redact->spelling;

    for (n = ngx_min(len, redact->max - 1); n; n--) {

        p = data + len - n;

        if (n >= NGX_EGRESS_REDACT_BLOCK) {

            /*
             * The block at the end of a window tells how many starts in front
             * of it are none; a window that is not whole is as long as n.
             */

            if (n >= redact->min) {
                shift = redact->shift[ngx_egress_redact_hash(p + redact->min
                                                             - 1)];

            } else {
                shift = redact->shift[ngx_egress_redact_hash(data + len - 1)];
                shift -= ngx_min(shift, redact->min - n);
            }

            if (shift) {
                n -= shift - 1;
                continue;
            }
        }

        if (!redact->first[*p]) {
            continue;
        }

        for (i = 0; i < redact->n; i++) {
            if (s[i].len > n && ngx_memcmp(s[i].data, p, n) == 0) {
                return n;
            }
        }
    }

    return 0;
}


size_t
ngx_egress_redact_size(ngx_str_t *secrets, ngx_uint_t n)
{
    ngx_uint_t  i, k;
    size_t      size;

    size = sizeof(ngx_egress_redact_t)
           + n * NGX_EGRESS_REDACT_SPELLINGS * sizeof(ngx_str_t);

    for (k = 0; k < n; k++) {

        /* at most six octets for one, and what base64 adds at both ends */

        size += 6 * (2 * secrets[k].len + 8);

        for (i = 0; ngx_egress_redact_writers[i].write; i++) {
            size += 6 * secrets[k].len;
        }
    }

    return size;
}


ngx_egress_redact_t *
ngx_egress_redact_init(void *mem, ngx_str_t *secrets, ngx_uint_t n)
{
    u_char               *p;
    ngx_uint_t            i;
    ngx_egress_redact_t  *redact;

    redact = mem;

    ngx_memzero(redact, sizeof(ngx_egress_redact_t));

    redact->spelling = (ngx_str_t *) (redact + 1);

    p = (u_char *) (redact->spelling + n * NGX_EGRESS_REDACT_SPELLINGS);

    for (i = 0; i < n; i++) {
        if (secrets[i].len >= NGX_EGRESS_REDACT_LEN) {
            p = ngx_egress_redact_spell(redact, p, &secrets[i]);
        }
    }

    if (redact->n == 0) {
        return NULL;
    }

    ngx_egress_redact_table(redact);

    return redact;
}


static u_char *
ngx_egress_redact_spell(ngx_egress_redact_t *redact, u_char *p,
    ngx_str_t *secret)
{
    u_char      *last;
    ngx_uint_t   i;

    for (i = 0; ngx_egress_redact_writers[i].write; i++) {
        last = ngx_egress_redact_each(p, secret,
                                      ngx_egress_redact_writers[i].write,
                                      ngx_egress_redact_writers[i].digits);
        p = ngx_egress_redact_add(redact, p, last);
    }

    for (i = 0; i < 3; i++) {
        last = ngx_egress_redact_base64(p, secret, i,
                                        ngx_egress_redact_standard);
        p = ngx_egress_redact_add(redact, p, last);

        last = ngx_egress_redact_base64(p, secret, i, ngx_egress_redact_url);
        p = ngx_egress_redact_add(redact, p, last);
    }

    return p;
}


/*
 * The characters that depend on the secret alone, with "align" octets of
 * something else in front of it: those at both ends that mix with neighbours
 * are left out.
 */

static u_char *
ngx_egress_redact_base64(u_char *dst, ngx_str_t *secret, ngx_uint_t align,
    const char *alphabet)
{
    size_t      i, octet;
    ngx_uint_t  bits, value, skip, k;

    skip = (align == 0) ? 0 : align + 1;

    /* character i is made of bits 6 * i to 6 * i + 5 */

    for (i = skip; 6 * i + 6 <= 8 * (secret->len + align); i++) {

        value = 0;

        for (k = 0; k < 6; k++) {
            bits = 6 * i + k;
            octet = bits / 8 - align;

            value = (value << 1)
                    | ((secret->data[octet] >> (7 - bits % 8)) & 1);
        }

        *dst++ = alphabet[value];
    }

    return dst;
}


static u_char *
ngx_egress_redact_each(u_char *dst, ngx_str_t *secret,
    ngx_egress_redact_pt write, const char *digits)
{
    size_t  i;

    for (i = 0; i < secret->len; i++) {
        dst = write(dst, secret->data[i], digits);
    }

    return dst;
}


static u_char *
ngx_egress_redact_plain(u_char *dst, u_char c, const char *digits)
{
    *dst++ = c;

    return dst;
}


static u_char *
ngx_egress_redact_hex(u_char *dst, u_char c, const char *digits)
{
    *dst++ = digits[c >> 4];
    *dst++ = digits[c & 0xf];

    return dst;
}


static u_char *
ngx_egress_redact_percent(u_char *dst, u_char c, const char *digits)
{
    *dst++ = '%';

    return ngx_egress_redact_hex(dst, c, digits);
}


/* only what is not unreserved (RFC 3986, 2.3) */

static u_char *
ngx_egress_redact_reserved(u_char *dst, u_char c, const char *digits)
{
    u_char  lower;

    lower = c | 0x20;

    if ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9')
        || c == '-' || c == '.' || c == '_' || c == '~')
    {
        *dst++ = c;
        return dst;
    }

    return ngx_egress_redact_percent(dst, c, digits);
}


static u_char *
ngx_egress_redact_unicode(u_char *dst, u_char c, const char *digits)
{
    *dst++ = '\\';
    *dst++ = 'u';
    *dst++ = '0';
    *dst++ = '0';

    return ngx_egress_redact_hex(dst, c, digits);
}


/* only what must be escaped (RFC 8259, 7) */

static u_char *
ngx_egress_redact_json(u_char *dst, u_char c, const char *digits)
{
    if (c == '"' || c == '\\') {
        *dst++ = '\\';
    }

    *dst++ = c;

    return dst;
}


static u_char *
ngx_egress_redact_solidus(u_char *dst, u_char c, const char *digits)
{
    if (c == '/') {
        *dst++ = '\\';
    }

    return ngx_egress_redact_json(dst, c, digits);
}


/* one spelling is there once; returns where the next one may be written */

static u_char *
ngx_egress_redact_add(ngx_egress_redact_t *redact, u_char *p, u_char *last)
{
    size_t      len;
    ngx_str_t  *s;
    ngx_uint_t  i;

    len = last - p;
    s = redact->spelling;

    for (i = 0; i < redact->n; i++) {
        if (s[i].len == len && ngx_memcmp(s[i].data, p, len) == 0) {
            return p;
        }
    }

    s[i].data = p;
    s[i].len = len;

    redact->n++;
    redact->first[*p] = 1;
    redact->max = ngx_max(redact->max, len);
    redact->min = redact->min ? ngx_min(redact->min, len) : len;

    return last;
}


static void
ngx_egress_redact_table(ngx_egress_redact_t *redact)
{
    size_t      k, n;
    u_char     *p, *shift;
    ngx_uint_t  i;

    n = redact->min - NGX_EGRESS_REDACT_BLOCK + 1;

    ngx_memset(redact->shift, ngx_min(n, 255), NGX_EGRESS_REDACT_HASH);

    for (i = 0; i < redact->n; i++) {

        for (k = NGX_EGRESS_REDACT_BLOCK - 1; k < redact->min; k++) {

            p = redact->spelling[i].data + k;
            shift = &redact->shift[ngx_egress_redact_hash(p)];

            n = redact->min - 1 - k;
            *shift = ngx_min(*shift, n);
        }
    }
}
