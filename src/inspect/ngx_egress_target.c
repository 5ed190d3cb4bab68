
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_host.h"
#include "ngx_egress_plain.h"
#include "ngx_egress_target.h"


#define NGX_EGRESS_TARGET_PORT  443


static ngx_int_t ngx_egress_target_check(u_char *p, u_char *last);
static ngx_int_t ngx_egress_target_split(ngx_str_t *raw,
    ngx_egress_target_t *target);
static void ngx_egress_target_bare(u_char *dst, ngx_egress_target_t *target);
static ngx_int_t ngx_egress_target_path(u_char *dst, u_char *fold,
    ngx_egress_target_t *target);
static ngx_int_t ngx_egress_target_encoded(ngx_int_t c, u_char *p,
    u_char *last);
static ngx_uint_t ngx_egress_target_is_ambiguous(ngx_int_t c);
static ngx_int_t ngx_egress_target_segments(ngx_str_t *path);
static ngx_uint_t ngx_egress_target_is_end(u_char *p, u_char *last);
static ngx_int_t ngx_egress_target_hex(u_char *p, u_char *last);
static u_char *ngx_egress_target_escape(u_char *dst, ngx_int_t c);


ngx_int_t
ngx_egress_target_parse(ngx_str_t *raw, u_char *buf,
    ngx_egress_target_t *target)
{
    ngx_memzero(target, sizeof(ngx_egress_target_t));

    if (raw->len == 0) {
        return NGX_ERROR;
    }

    /* malformed anywhere goes before ambiguous: 400, not 403 */

    if (ngx_egress_target_check(raw->data, raw->data + raw->len) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_egress_target_split(raw, target) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_egress_target_path(buf, buf + raw->len, target) != NGX_OK) {
        return NGX_DECLINED;
    }

    /*
     * The folded path has all the segments that the path has, and more: a
     * dot segment or an empty one cannot hide from it.
     */

    return ngx_egress_target_segments(&target->folded);
}


/*
 * What is in no URI (RFC 3986, 2), and what servers cut a path at: "\", "#"
 * and zero bytes.
 */

static ngx_int_t
ngx_egress_target_check(u_char *p, u_char *last)
{
    ngx_int_t  c;

    if (ngx_egress_plain(p, last - p, 0x21, '\\', '#', '%')) {
        return NGX_OK;
    }

    while (p < last) {
        c = *p++;

        if (c <= 0x20 || c >= 0x7f || c == '\\' || c == '#') {
            return NGX_ERROR;
        }

        if (c != '%') {
            continue;
        }

        c = ngx_egress_target_hex(p, last);

        if (c == NGX_ERROR || c == 0) {
            return NGX_ERROR;
        }

        p += 2;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_target_split(ngx_str_t *raw, ngx_egress_target_t *target)
{
    u_char             *p, *end, *last;
    ngx_uint_t          i;
    ngx_egress_host_t   host;

    static u_char       scheme[] = "https://";

    p = raw->data;
    last = p + raw->len;

    if (*p != '/') {

        /* absolute-form (RFC 9112, 3.2.2); "*" and authority-form are none */

        if (raw->len < sizeof(scheme) - 1) {
            return NGX_ERROR;
        }

        for (i = 0; i < sizeof(scheme) - 1; i++) {
            if (ngx_tolower(*p) != scheme[i]) {
                return NGX_ERROR;
            }

            p++;
        }

        end = p;

        while (end < last && *end != '/' && *end != '?') {
            end++;
        }

        /* a path cannot be left out: it is what the rules look at */

        if (end == last || *end != '/') {
            return NGX_ERROR;
        }

        target->authority.data = p;
        target->authority.len = end - p;

        if (ngx_egress_host_parse(&target->authority,
                                  NGX_EGRESS_HOST_AUTHORITY,
                                  NGX_EGRESS_TARGET_PORT, &host)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        p = end;
    }

    end = memchr(p, '?', last - p);

    if (end) {
        target->query.data = end + 1;
        target->query.len = last - end - 1;
        last = end;
    }

    target->path.data = p;
    target->path.len = last - p;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_target_path(u_char *dst, u_char *fold, ngx_egress_target_t *target)
{
    u_char     *p, *last;
    ngx_int_t   c;

    target->canonical.data = dst;
    target->folded.data = fold;

    p = target->path.data;
    last = p + target->path.len;

    if (memchr(p, '%', last - p) == NULL && memchr(p, ';', last - p) == NULL) {

        /* one reading of it, as of most paths */

        ngx_memcpy(dst, p, last - p);

        target->canonical.len = last - p;
        target->folded = target->canonical;
        target->bare = target->canonical;

        return NGX_OK;
    }

    while (p < last) {
        c = *p++;

        if (c == '%') {
            c = ngx_egress_target_hex(p, last);
            p += 2;

            if (ngx_egress_target_encoded(c, p, last) != NGX_OK) {
                return NGX_DECLINED;
            }

            if (c == '/') {
                target->encoded_slash = 1;
                dst = ngx_egress_target_escape(dst, c);
                *fold++ = '/';
                continue;
            }

            if (c != '~') {
                dst = ngx_egress_target_escape(dst, c);
                fold = ngx_egress_target_escape(fold, c);
                continue;
            }
        }

        *dst++ = (u_char) c;
        *fold++ = (u_char) c;
    }

    target->canonical.len = dst - target->canonical.data;
    target->folded.len = fold - target->folded.data;

    ngx_egress_target_bare(fold, target);

    return NGX_OK;
}


/*
 * The path as servers see it that cut ";parameters" (RFC 3986, 3.3) from each
 * segment, before or after they decode.
 */

static void
ngx_egress_target_bare(u_char *dst, ngx_egress_target_t *target)
{
    u_char      *p, *last;
    ngx_uint_t   cut;

    target->bare.data = dst;

    p = target->folded.data;
    last = p + target->folded.len;
    cut = 0;

    for ( /* void */ ; p < last; p++) {

        if (*p == '/') {
            cut = 0;

        } else if (*p == ';'
                   || (last - p > 2 && ngx_strncmp(p, "%3B", 3) == 0))
        {
            cut = 1;
        }

        if (!cut) {
            *dst++ = *p;
        }
    }

    target->bare.len = dst - target->bare.data;
}


/*
 * Judges an octet "c" that stood percent-encoded in a path; "p" is what
 * follows.  Encoded hexadecimal digits are refused as unreserved characters,
 * so a second layer of encoding can only be "%25" and two plain digits.
 */

static ngx_int_t
ngx_egress_target_encoded(ngx_int_t c, u_char *p, u_char *last)
{
    ngx_int_t  next;

    if (ngx_egress_target_is_ambiguous(c)) {
        return NGX_DECLINED;
    }

    if (c == '%') {
        next = ngx_egress_target_hex(p, last);

        if (next == NGX_ERROR) {
            return NGX_OK;
        }

        if (ngx_egress_target_is_ambiguous(next)
            || next == '/' || next == '%' || next == '~'
            || next == 0xe0 || next == 0xf0)
        {
            return NGX_DECLINED;
        }

        return NGX_OK;
    }

    if (c == 0xe0 || c == 0xf0) {

        /* only with these do they not start an over-long UTF-8 sequence */

        if (p == last || *p != '%') {
            return NGX_DECLINED;
        }

        next = ngx_egress_target_hex(p + 1, last);

        if (next < ((c == 0xe0) ? 0xa0 : 0x90) || next > 0xbf) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/*
 * Octets that no client needs to encode, or that servers are known to act
 * upon once they are decoded.  0xc0, 0xc1 and all above 0xf4 are in no UTF-8
 * (RFC 3629, 3), yet lenient decoders make ASCII of what they start.
 */

static ngx_uint_t
ngx_egress_target_is_ambiguous(ngx_int_t c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
        || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_')
    {
        return 1;
    }

    return c < 0x20 || c == 0x7f || c == '\\'
           || c == 0xc0 || c == 0xc1 || c > 0xf4;
}


/* refuses empty and dot segments, with or without ";parameters" */

static ngx_int_t
ngx_egress_target_segments(ngx_str_t *path)
{
    u_char  *p, *end, *last;
    size_t   dots;

    p = path->data + 1;
    last = path->data + path->len;

    for ( ;; ) {
        end = ngx_strlchr(p, last, '/');

        if (end == NULL) {
            end = last;
        }

        /* after the last slash there may be nothing at all */

        if (p == last) {
            return NGX_OK;
        }

        dots = 0;

        while (dots < 3 && p < end && *p == '.') {
            dots++;
            p++;
        }

        if (dots < 3 && ngx_egress_target_is_end(p, end)) {
            return NGX_DECLINED;
        }

        if (end == last) {
            return NGX_OK;
        }

        p = end + 1;
    }
}


/* tells whether the name of a segment ends here: nothing or ";" follows */

static ngx_uint_t
ngx_egress_target_is_end(u_char *p, u_char *last)
{
    if (p == last || *p == ';') {
        return 1;
    }

    if (*p++ != '%') {
        return 0;
    }

    if (ngx_egress_target_hex(p, last) == '%') {
        p += 2;
    }

    return ngx_egress_target_hex(p, last) == ';';
}


ngx_uint_t
ngx_egress_target_overrides(ngx_str_t *query)
{
    u_char         *p, *last;
    ngx_int_t       c, next;
    ngx_uint_t      n, skip;

    static u_char   name[] = "_method";

    if (query->len == 0) {
        return 0;
    }

    p = query->data;
    last = p + query->len;

    n = 0;
    skip = 0;

    while (p < last) {
        c = *p++;

        if (c == '&' || c == ';' || c == '=') {

            if (!skip && n == sizeof(name) - 1) {
                return 1;
            }

            skip = (c == '=');
            n = 0;
            continue;
        }

        if (skip) {
            continue;
        }

        /* in any encoding: also in more than one layer */

        while (c == '%') {
            next = ngx_egress_target_hex(p, last);

            if (next == NGX_ERROR) {
                break;
            }

            c = next;
            p += 2;
        }

        /* PHP drops spaces in front of a name and reads "name[" as a name */

        if (n == 0 && (c == ' ' || c == '+')) {
            continue;
        }

        if (n == sizeof(name) - 1 && c == '[') {
            return 1;
        }

        if (n < sizeof(name) - 1 && ngx_tolower(c) == name[n]) {
            n++;
            continue;
        }

        skip = 1;
    }

    return !skip && n == sizeof(name) - 1;
}


/* the octet that two hexadecimal digits at "p" stand for, or NGX_ERROR */

static ngx_int_t
ngx_egress_target_hex(u_char *p, u_char *last)
{
    u_char      c;
    ngx_int_t   value;
    ngx_uint_t  i;

    if (last - p < 2) {
        return NGX_ERROR;
    }

    value = 0;

    for (i = 0; i < 2; i++) {
        c = ngx_tolower(p[i]);

        if (c >= '0' && c <= '9') {
            value = value * 16 + (c - '0');

        } else if (c >= 'a' && c <= 'f') {
            value = value * 16 + (c - 'a' + 10);

        } else {
            return NGX_ERROR;
        }
    }

    return value;
}


static u_char *
ngx_egress_target_escape(u_char *dst, ngx_int_t c)
{
    static u_char  hex[] = "0123456789ABCDEF";

    *dst++ = '%';
    *dst++ = hex[c >> 4];
    *dst++ = hex[c & 0xf];

    return dst;
}
