
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: an octet that tells whether a password is asked for where it is
 * offered, then all that a client says.
 */


#include "fuzz.h"
#include "ngx_egress_socks5.h"


#define FUZZ_PASSWORD  0x01


typedef ngx_int_t (*fuzz_socks5_pt)(u_char *data, size_t len,
    ngx_egress_socks5_t *socks);


static ngx_int_t fuzz_socks5_message(fuzz_socks5_pt parse,
    const uint8_t *data, size_t size, ngx_egress_socks5_t *socks);
static ngx_int_t fuzz_socks5_parse(fuzz_socks5_pt parse, const uint8_t *data,
    size_t size, ngx_egress_socks5_t *socks);
static void fuzz_socks5_methods(const uint8_t *data,
    ngx_egress_socks5_t *socks);
static void fuzz_socks5_request(const uint8_t *data,
    ngx_egress_socks5_t *socks);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_uint_t            password;
    const uint8_t        *p, *last;
    ngx_egress_socks5_t   socks;

    if (size == 0) {
        return 0;
    }

    password = data[0] & FUZZ_PASSWORD;

    p = data + 1;
    last = data + size;

    if (fuzz_socks5_message(ngx_egress_socks5_methods, p, last - p, &socks)
        != NGX_OK)
    {
        return 0;
    }

    fuzz_socks5_methods(p, &socks);

    p += socks.len;

    if (password && socks.password) {

        if (fuzz_socks5_message(ngx_egress_socks5_password, p, last - p,
                                &socks)
            != NGX_OK)
        {
            return 0;
        }

        fuzz_require(socks.len == 3 + socks.user.len + socks.token.len);
        fuzz_require(p[0] == 1 && p[1] == socks.user.len);

        p += socks.len;
    }

    if (fuzz_socks5_message(ngx_egress_socks5_request, p, last - p, &socks)
        == NGX_OK)
    {
        fuzz_socks5_request(p, &socks);
    }

    return 0;
}


/* one message of all that is there, and of all that may be there before it */

static ngx_int_t
fuzz_socks5_message(fuzz_socks5_pt parse, const uint8_t *data, size_t size,
    ngx_egress_socks5_t *socks)
{
    size_t                n;
    ngx_int_t             rc, part, before;
    ngx_egress_socks5_t   other;

    rc = fuzz_socks5_parse(parse, data, size, socks);
    before = NGX_AGAIN;

    for (n = 0; n < size && n <= NGX_EGRESS_SOCKS5_LEN; n++) {

        part = fuzz_socks5_parse(parse, data, n, &other);

        fuzz_require(part == NGX_AGAIN || part == rc);
        fuzz_require(part != NGX_AGAIN || before == NGX_AGAIN);

        if (part == NGX_ERROR) {
            fuzz_require(other.reply == socks->reply);
        }

        if (rc == NGX_OK) {
            fuzz_require((part == NGX_OK) == (n >= socks->len));
            fuzz_require(part != NGX_OK || other.len == socks->len);
        }

        before = part;
    }

    /* no message is longer than what there is room for */

    if (size >= NGX_EGRESS_SOCKS5_LEN) {
        fuzz_require(rc != NGX_AGAIN);
    }

    return rc;
}


static ngx_int_t
fuzz_socks5_parse(fuzz_socks5_pt parse, const uint8_t *data, size_t size,
    ngx_egress_socks5_t *socks)
{
    ngx_int_t  rc;
    ngx_str_t  in;

    fuzz_copy(&in, data, size);

    memset(socks, 0xff, sizeof(ngx_egress_socks5_t));

    rc = parse(in.data, in.len, socks);

    fuzz_require(rc == NGX_OK || rc == NGX_AGAIN || rc == NGX_ERROR);
    fuzz_require(size == 0 || memcmp(in.data, data, size) == 0);

    if (rc == NGX_OK) {
        fuzz_require(socks->reply == 0);
        fuzz_require(socks->len > 0 && socks->len <= size);
        fuzz_require(socks->len <= NGX_EGRESS_SOCKS5_LEN);
    }

    if (rc == NGX_ERROR) {
        fuzz_require(socks->reply == 0
                     || (parse == ngx_egress_socks5_request
                         && (socks->reply == NGX_EGRESS_SOCKS5_FAILURE
                             || socks->reply == NGX_EGRESS_SOCKS5_NO_COMMAND
                             || socks->reply
                                == NGX_EGRESS_SOCKS5_NO_ADDRESS)));
    }

    if (rc == NGX_OK && parse == ngx_egress_socks5_password) {
        in.len = socks->len;
        fuzz_require(fuzz_inside(&socks->user, &in));
        fuzz_require(fuzz_inside(&socks->token, &in));
    }

    free(in.data);

    return rc;
}


static void
fuzz_socks5_methods(const uint8_t *data, ngx_egress_socks5_t *socks)
{
    fuzz_require(data[0] == 5 && socks->len == (size_t) 2 + data[1]);

    fuzz_require(socks->none == (memchr(data + 2, 0, data[1]) != NULL));
    fuzz_require(socks->password == (memchr(data + 2, 2, data[1]) != NULL));
}


static void
fuzz_socks5_request(const uint8_t *data, ngx_egress_socks5_t *socks)
{
    ngx_str_t           name;
    ngx_egress_host_t  *host, again;
    u_char              addr[16];

    host = &socks->host;

    fuzz_require(data[0] == 5 && data[1] == 1 && data[2] == 0);

    fuzz_require(host->len > 0 && host->len <= NGX_EGRESS_HOST_LEN);
    fuzz_require(host->name[host->len] == '\0');
    fuzz_require(host->port != 0);
    fuzz_require(host->port == (data[socks->len - 2] << 8)
                               + data[socks->len - 1]);

    switch (data[3]) {

    case 1:
        fuzz_require(host->family == AF_INET && socks->len == 10);
        fuzz_require(memcmp(host->addr, data + 4, 4) == 0);
        break;

    case 3:
        fuzz_require(host->family != AF_INET6);
        fuzz_require(socks->len == (size_t) 7 + data[4]);

        fuzz_copy(&name, data + 5, data[4]);

        fuzz_require(ngx_egress_host_parse(&name, NGX_EGRESS_HOST_NAME, 0,
                                           &again)
                     == NGX_OK);
        fuzz_require(again.len == host->len && again.family == host->family);
        fuzz_require(memcmp(again.name, host->name, again.len) == 0);
        fuzz_require(memcmp(again.addr, host->addr, 16) == 0);

        free(name.data);
        break;

    case 4:
        fuzz_require(host->family == AF_INET6 && socks->len == 22);
        fuzz_require(memcmp(host->addr, data + 4, 16) == 0);
        break;

    default:
        __builtin_trap();
    }

    if (host->family != AF_UNSPEC) {
        fuzz_require(inet_pton(host->family, (char *) host->name, addr) == 1);
        fuzz_require(memcmp(addr, host->addr,
                            (host->family == AF_INET) ? 4 : 16)
                     == 0);
    }
}
