
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_address.h"


typedef struct {
    u_char      addr[16];
    ngx_uint_t  bits;
} ngx_egress_range_t;


static ngx_uint_t ngx_egress_address_inet(u_char *addr);
static ngx_uint_t ngx_egress_address_inet6(u_char *addr);
static ngx_uint_t ngx_egress_address_in_ranges(u_char *addr,
    ngx_egress_range_t *ranges, ngx_uint_t n);
static ngx_uint_t ngx_egress_address_equal(u_char *addr, u_char *range,
    ngx_uint_t bits);


/* metadata services of clouds, and "this network": no option lifts these */

static ngx_egress_range_t  ngx_egress_never[] = {
    { { 0 }, 8 },
    { { 169, 254, 169, 254 }, 32 },
    { { 169, 254, 170, 2 }, 32 },
    { { 169, 254, 170, 23 }, 32 },
    { { 100, 100, 100, 200 }, 32 },
    { { 168, 63, 129, 16 }, 32 }
};


static ngx_egress_range_t  ngx_egress_never6[] = {
    { { 0 }, 128 },
    { { 0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54 },
      128 },
    { { 0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x23 },
      128 },
    { { 0xfd, 0x20, 0x00, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54 },
      128 }
};


/* RFC 6890 and its registry: what is not global unicast */

static ngx_egress_range_t  ngx_egress_special[] = {
    { { 10 }, 8 },
    { { 100, 64 }, 10 },                    /* shared, RFC 6598 */
    { { 127 }, 8 },
    { { 169, 254 }, 16 },
    { { 172, 16 }, 12 },
    { { 192, 0, 0 }, 24 },                  /* protocol assignments */
    { { 192, 0, 2 }, 24 },                  /* documentation */
    { { 192, 88, 99 }, 24 },                /* 6to4 relays, RFC 7526 */
    { { 192, 168 }, 16 },
    { { 198, 18 }, 15 },                    /* benchmarks, RFC 2544 */
    { { 198, 51, 100 }, 24 },
    { { 203, 0, 113 }, 24 },
    { { 224 }, 3 }                          /* multicast, reserved */
};


/* within 2000::/3, outside of which nothing is global unicast */

static ngx_egress_range_t  ngx_egress_special6[] = {
    { { 0x20, 0x01, 0x00 }, 23 },           /* protocol assignments, Teredo */
    { { 0x20, 0x01, 0x0d, 0xb8 }, 32 },
    { { 0x20, 0x02 }, 16 },                 /* 6to4 */
    { { 0x3f, 0xff, 0x00 }, 20 }            /* documentation, RFC 9637 */
};


static ngx_egress_range_t  ngx_egress_global6 = { { 0x20 }, 3 };


ngx_uint_t
ngx_egress_address_judge(sa_family_t family, u_char *addr,
    ngx_array_t *allowed, ngx_array_t *own)
{
    u_char      *inner, buf[4];
    ngx_uint_t   verdict, worse;

    if (family == AF_INET) {
        verdict = ngx_egress_address_inet(addr);

    } else if (family == AF_INET6) {
        verdict = ngx_egress_address_inet6(addr);

    } else {
        return NGX_EGRESS_ADDR_NEVER;
    }

    if (verdict == NGX_EGRESS_ADDR_NEVER
        || ngx_egress_address_in(family, addr, own))
    {
        return NGX_EGRESS_ADDR_NEVER;
    }

    if (verdict == NGX_EGRESS_ADDR_REFUSED
        && ngx_egress_address_in(family, addr, allowed))
    {
        verdict = NGX_EGRESS_ADDR_OK;
    }

    if (family == AF_INET) {
        return verdict;
    }

    inner = ngx_egress_address_embedded(addr, buf);

    if (inner == NULL) {
        return verdict;
    }

    worse = ngx_egress_address_judge(AF_INET, inner, allowed, own);

    return ngx_max(verdict, worse);
}


static ngx_uint_t
ngx_egress_address_inet(u_char *addr)
{
    ngx_uint_t  n;

    n = sizeof(ngx_egress_never) / sizeof(ngx_egress_range_t);

    if (ngx_egress_address_in_ranges(addr, ngx_egress_never, n)) {
        return NGX_EGRESS_ADDR_NEVER;
    }

    n = sizeof(ngx_egress_special) / sizeof(ngx_egress_range_t);

    if (ngx_egress_address_in_ranges(addr, ngx_egress_special, n)) {
        return NGX_EGRESS_ADDR_REFUSED;
    }

    return NGX_EGRESS_ADDR_OK;
}


static ngx_uint_t
ngx_egress_address_inet6(u_char *addr)
{
    u_char      buf[4];
    ngx_uint_t  n;

    n = sizeof(ngx_egress_never6) / sizeof(ngx_egress_range_t);

    if (ngx_egress_address_in_ranges(addr, ngx_egress_never6, n)) {
        return NGX_EGRESS_ADDR_NEVER;
    }

    if (!ngx_egress_address_in_ranges(addr, &ngx_egress_global6, 1)) {
        return NGX_EGRESS_ADDR_REFUSED;
    }

    n = sizeof(ngx_egress_special6) / sizeof(ngx_egress_range_t);

    if (ngx_egress_address_in_ranges(addr, ngx_egress_special6, n)
        || ngx_egress_address_embedded(addr, buf))
    {
        return NGX_EGRESS_ADDR_REFUSED;
    }

    return NGX_EGRESS_ADDR_OK;
}


u_char *
ngx_egress_address_embedded(u_char *addr, u_char *buf)
{
    ngx_uint_t  i;

    static u_char  mapped[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    static u_char  translated[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    static u_char  nat64[16] = { 0x00, 0x64, 0xff, 0x9b };
    static u_char  nat64_local[16] = { 0x00, 0x64, 0xff, 0x9b, 0, 1 };
    static u_char  compatible[16];
    static u_char  loopback[16] = { 0, 0, 0, 0, 0, 0, 0, 0,
                                    0, 0, 0, 0, 0, 0, 0, 1 };
    static u_char  teredo[16] = { 0x20, 0x01 };

    if (ngx_memcmp(addr, loopback, 16) == 0) {
        return NULL;
    }

    if (ngx_egress_address_equal(addr, mapped, 96)
        || ngx_egress_address_equal(addr, translated, 96)
        || ngx_egress_address_equal(addr, nat64, 96)
        || ngx_egress_address_equal(addr, nat64_local, 48)
        || ngx_egress_address_equal(addr, compatible, 96))
    {
        ngx_memcpy(buf, addr + 12, 4);
        return buf;
    }

    /* 6to4 */

    if (addr[0] == 0x20 && addr[1] == 0x02) {
        ngx_memcpy(buf, addr + 2, 4);
        return buf;
    }

    /* Teredo: the client's address is sent inverted */

    if (ngx_egress_address_equal(addr, teredo, 32)) {

        for (i = 0; i < 4; i++) {
            buf[i] = addr[12 + i] ^ 0xff;
        }

        return buf;
    }

    /* ISATAP: an interface identifier under any prefix */

    if ((addr[8] & 0xfd) == 0 && addr[9] == 0
        && addr[10] == 0x5e && addr[11] == 0xfe)
    {
        ngx_memcpy(buf, addr + 12, 4);
        return buf;
    }

    return NULL;
}


ngx_uint_t
ngx_egress_address_in(sa_family_t family, u_char *addr, ngx_array_t *cidrs)
{
    ngx_uint_t   i, k, n;
    ngx_cidr_t  *cidr;
    u_char      *net, *mask;

    if (cidrs == NULL) {
        return 0;
    }

    cidr = cidrs->elts;

    for (i = 0; i < cidrs->nelts; i++) {

        if (cidr[i].family != family) {
            continue;
        }

        if (family == AF_INET) {
            net = (u_char *) &cidr[i].u.in.addr;
            mask = (u_char *) &cidr[i].u.in.mask;
            n = 4;

#if (NGX_HAVE_INET6)
        } else if (family == AF_INET6) {
            net = (u_char *) &cidr[i].u.in6.addr;
            mask = (u_char *) &cidr[i].u.in6.mask;
            n = 16;
#endif

        } else {
            continue;
        }

        for (k = 0; k < n; k++) {
            if ((addr[k] & mask[k]) != net[k]) {
                break;
            }
        }

        if (k == n) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_egress_address_in_ranges(u_char *addr, ngx_egress_range_t *ranges,
    ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (ngx_egress_address_equal(addr, ranges[i].addr, ranges[i].bits)) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_egress_address_equal(u_char *addr, u_char *range, ngx_uint_t bits)
{
    u_char      mask;
    ngx_uint_t  octets;

    octets = bits / 8;

    if (ngx_memcmp(addr, range, octets) != 0) {
        return 0;
    }

    if (bits % 8 == 0) {
        return 1;
    }

    mask = (u_char) (0xff << (8 - bits % 8));

    return (addr[octets] & mask) == (range[octets] & mask);
}
