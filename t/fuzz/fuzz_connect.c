
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: an octet that tells where the input is cut off, then the octets of a
 * connection.
 */


#include "fuzz.h"
#include "ngx_egress_connect.h"


static ngx_int_t fuzz_connect_parse(const uint8_t *data, size_t size,
    u_char *buf, ngx_egress_connect_t *connect);
static void fuzz_connect_check(const uint8_t *data, size_t size, u_char *buf,
    ngx_egress_connect_t *connect);
static void fuzz_connect_target(const uint8_t *data,
    ngx_egress_connect_t *connect);
static void fuzz_connect_same(ngx_egress_connect_t *a,
    ngx_egress_connect_t *b);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t                 cut;
    u_char                *buf, *scratch;
    ngx_int_t              rc, part;
    ngx_egress_connect_t   connect, other;

    if (size == 0) {
        return 0;
    }

    cut = data[0];
    data++;
    size--;
    cut = size * cut / 256;

    buf = fuzz_alloc(NGX_EGRESS_CONNECT_LEN);
    scratch = fuzz_alloc(NGX_EGRESS_CONNECT_LEN);

    rc = fuzz_connect_parse(data, size, buf, &connect);

    /* the octets that are cut off change no answer, they only delay it */

    part = fuzz_connect_parse(data, cut, scratch, &other);

    fuzz_require(part == NGX_AGAIN || part == rc);

    if (part == NGX_OK) {
        fuzz_connect_same(&connect, &other);
    }

    if (rc == NGX_OK) {

        fuzz_connect_check(data, size, buf, &connect);

        fuzz_require((part == NGX_OK) == (cut >= connect.len));

        fuzz_require(fuzz_connect_parse(data, connect.len, scratch, &other)
                     == NGX_OK);
        fuzz_connect_same(&connect, &other);

        fuzz_require(fuzz_connect_parse(data, connect.len - 1, scratch,
                                        &other)
                     == NGX_AGAIN);
    }

    if (rc == NGX_DECLINED) {
        fuzz_require(memcmp(data, "CONNECT ",
                            ngx_min(size, sizeof("CONNECT ") - 1))
                     != 0);
    }

    free(scratch);
    free(buf);

    return 0;
}


static ngx_int_t
fuzz_connect_parse(const uint8_t *data, size_t size, u_char *buf,
    ngx_egress_connect_t *connect)
{
    ngx_int_t  rc;
    ngx_str_t  in;

    fuzz_copy(&in, data, size);

    memset(connect, 0xff, sizeof(ngx_egress_connect_t));

    rc = ngx_egress_connect_parse(in.data, in.len, buf, connect);

    fuzz_require(rc == NGX_OK || rc == NGX_AGAIN || rc == NGX_DECLINED
                 || rc == NGX_ERROR);
    fuzz_require(size == 0 || memcmp(in.data, data, size) == 0);

    free(in.data);

    return rc;
}


/* the octets of the parser are gone here: nothing may point to them */

static void
fuzz_connect_check(const uint8_t *data, size_t size, u_char *buf,
    ngx_egress_connect_t *connect)
{
    size_t      i;
    ngx_str_t   room;

    fuzz_require(connect->len <= size);
    fuzz_require(connect->len <= NGX_EGRESS_CONNECT_LEN);
    fuzz_require(connect->len > sizeof("CONNECT a:1 HTTP/1.1") - 1);

    /* the first empty line is the end of the head */

    for (i = 0; memcmp(data + i, "\r\n\r\n", 4) != 0; i++) {
        fuzz_require(i + 4 < connect->len);
        fuzz_require(data[i] >= 0x20 || data[i] == '\t' || data[i] == CR
                     || data[i] == LF);
        fuzz_require(data[i] != 0x7f);
        fuzz_require(data[i] != CR || data[i + 1] == LF);
        fuzz_require(data[i] != LF || (i && data[i - 1] == CR));
    }

    fuzz_require(i + 4 == connect->len);

    fuzz_connect_target(data, connect);

    if (connect->user.data == NULL) {
        fuzz_require(connect->user.len == 0);
        fuzz_require(connect->token.data == NULL && connect->token.len == 0);
        return;
    }

    room.data = buf;
    room.len = NGX_EGRESS_CONNECT_LEN;

    fuzz_require(connect->authorization);
    fuzz_require(connect->user.len);
    fuzz_require(fuzz_inside(&connect->user, &room));
    fuzz_require(fuzz_inside(&connect->token, &room));

    for (i = 0; i < connect->user.len; i++) {
        fuzz_require(connect->user.data[i] != ':');
    }
}


static void
fuzz_connect_target(const uint8_t *data, ngx_egress_connect_t *connect)
{
    ngx_str_t           target;
    const uint8_t      *p, *end;
    ngx_egress_host_t   host;

    fuzz_require(memcmp(data, "CONNECT ", sizeof("CONNECT ") - 1) == 0);

    p = data + sizeof("CONNECT ") - 1;
    end = memchr(p, ' ', connect->len - (p - data));

    fuzz_require(end != NULL);
    fuzz_require(memcmp(end, " HTTP/1.", sizeof(" HTTP/1.") - 1) == 0);

    fuzz_copy(&target, p, end - p);

    fuzz_require(ngx_egress_host_parse(&target, NGX_EGRESS_HOST_CONNECT, 0,
                                       &host)
                 == NGX_OK);

    fuzz_require(host.port == connect->host.port && host.port != 0);
    fuzz_require(host.family == connect->host.family);
    fuzz_require(host.len == connect->host.len);
    fuzz_require(memcmp(host.name, connect->host.name, host.len + 1) == 0);
    fuzz_require(memcmp(host.addr, connect->host.addr, 16) == 0);

    free(target.data);
}


static void
fuzz_connect_same(ngx_egress_connect_t *a, ngx_egress_connect_t *b)
{
    fuzz_require(a->len == b->len);
    fuzz_require(a->authorization == b->authorization);

    fuzz_require((a->user.data == NULL) == (b->user.data == NULL));
    fuzz_require(fuzz_eq(&a->user, &b->user));
    fuzz_require(fuzz_eq(&a->token, &b->token));

    fuzz_require(a->host.len == b->host.len && a->host.port == b->host.port
                 && a->host.family == b->host.family);
    fuzz_require(memcmp(a->host.name, b->host.name, a->host.len + 1) == 0);
    fuzz_require(memcmp(a->host.addr, b->host.addr, 16) == 0);
}
