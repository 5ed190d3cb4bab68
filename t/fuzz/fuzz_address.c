
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: three times an octet '4' or '6', an octet with a length in bits and
 * 16 octets of an address: the one to judge, a range that is allowed, and one
 * of our own.  Ranges that are not there are none.
 */


#include "fuzz.h"
#include "ngx_egress_address.h"


#define FUZZ_ENTRY  18
#define FUZZ_INET6  0x02


static const uint8_t *fuzz_address_range(ngx_array_t *array,
    ngx_cidr_t *cidr, const uint8_t *p, const uint8_t *last);
static void fuzz_address_mask(ngx_cidr_t *cidr, sa_family_t family,
    const uint8_t *addr, ngx_uint_t bits);
static void fuzz_address_plain(sa_family_t family, u_char *addr,
    ngx_uint_t plain);
static void fuzz_address_lifted(sa_family_t family, u_char *addr,
    ngx_uint_t plain, ngx_array_t *allowed);
static void fuzz_address_own(sa_family_t family, u_char *addr,
    ngx_array_t *allowed, ngx_array_t *own);
static void fuzz_address_wrapped(u_char *inner, ngx_uint_t verdict,
    ngx_array_t *allowed, ngx_array_t *own);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char          buf[4];
    ngx_str_t       addr, *inner, within;
    ngx_cidr_t      cidrs[2];
    ngx_uint_t      plain, verdict;
    ngx_array_t     allowed, own;
    sa_family_t     family;
    const uint8_t  *p;

    if (size < FUZZ_ENTRY) {
        return 0;
    }

    family = (data[0] & FUZZ_INET6) ? AF_INET6 : AF_INET;

    fuzz_copy(&addr, data + 2, (family == AF_INET6) ? 16 : 4);

    p = fuzz_address_range(&allowed, &cidrs[0], data + FUZZ_ENTRY,
                           data + size);
    (void) fuzz_address_range(&own, &cidrs[1], p, data + size);

    plain = ngx_egress_address_judge(family, addr.data, NULL, NULL);

    fuzz_address_plain(family, addr.data, plain);
    fuzz_address_lifted(family, addr.data, plain, &allowed);
    fuzz_address_own(family, addr.data, &allowed, &own);

    verdict = ngx_egress_address_judge(family, addr.data, &allowed, &own);

    inner = NULL;

    if (family == AF_INET) {
        fuzz_address_wrapped(addr.data, verdict, &allowed, &own);

    } else {
        within.len = 4;
        within.data = ngx_egress_address_embedded(addr.data, buf);

        if (within.data) {
            inner = &within;
        }
    }

    /* the worse verdict counts, and no one sends to an embedded address */

    if (inner) {
        fuzz_require(inner->data == buf);
        fuzz_require(plain != NGX_EGRESS_ADDR_OK);
        fuzz_require(verdict >= ngx_egress_address_judge(AF_INET, buf,
                                                         &allowed, &own));
    }

    fuzz_require(ngx_egress_address_judge(AF_UNIX, addr.data, &allowed, &own)
                 == NGX_EGRESS_ADDR_NEVER);

    fuzz_require(memcmp(addr.data, data + 2, addr.len) == 0);

    free(addr.data);

    return 0;
}


/* takes a range off the input into an array of one or none */

static const uint8_t *
fuzz_address_range(ngx_array_t *array, ngx_cidr_t *cidr, const uint8_t *p,
    const uint8_t *last)
{
    memset(array, 0, sizeof(ngx_array_t));

    array->elts = cidr;
    array->size = sizeof(ngx_cidr_t);

    if (last - p < FUZZ_ENTRY) {
        return last;
    }

    fuzz_address_mask(cidr, (p[0] & FUZZ_INET6) ? AF_INET6 : AF_INET, p + 2,
                      p[1]);

    array->nelts = 1;

    return p + FUZZ_ENTRY;
}


static void
fuzz_address_mask(ngx_cidr_t *cidr, sa_family_t family, const uint8_t *addr,
    ngx_uint_t bits)
{
    ngx_uint_t  i, all;
    u_char      mask[16], net[16];

    all = (family == AF_INET6) ? 128 : 32;

    memset(cidr, 0, sizeof(ngx_cidr_t));
    memset(mask, 0, sizeof(mask));
    memset(net, 0, sizeof(net));

    for (i = 0; i < all && i < bits % (all + 1); i++) {
        mask[i / 8] |= 0x80 >> i % 8;
    }

    for (i = 0; i < all / 8; i++) {
        net[i] = addr[i] & mask[i];
    }

    cidr->family = family;

    if (family == AF_INET) {
        memcpy(&cidr->u.in.addr, net, 4);
        memcpy(&cidr->u.in.mask, mask, 4);

    } else {
        memcpy(&cidr->u.in6.addr, net, 16);
        memcpy(&cidr->u.in6.mask, mask, 16);
    }
}


/* what no address may be without an operator that allows it */

static void
fuzz_address_plain(sa_family_t family, u_char *addr, ngx_uint_t plain)
{
    fuzz_require(plain == NGX_EGRESS_ADDR_OK
                 || plain == NGX_EGRESS_ADDR_REFUSED
                 || plain == NGX_EGRESS_ADDR_NEVER);

    if (family == AF_INET6) {
        fuzz_require((addr[0] & 0xe0) == 0x20
                     || plain != NGX_EGRESS_ADDR_OK);
        return;
    }

    if (addr[0] == 10 || addr[0] == 127 || addr[0] >= 224
        || (addr[0] == 172 && (addr[1] & 0xf0) == 16)
        || (addr[0] == 192 && addr[1] == 168)
        || (addr[0] == 169 && addr[1] == 254))
    {
        fuzz_require(plain != NGX_EGRESS_ADDR_OK);
    }

    fuzz_require(addr[0] != 0 || plain == NGX_EGRESS_ADDR_NEVER);
}


/* a range lifts a refusal and nothing else */

static void
fuzz_address_lifted(sa_family_t family, u_char *addr, ngx_uint_t plain,
    ngx_array_t *allowed)
{
    u_char       buf[4];
    ngx_uint_t   verdict, wide;
    ngx_cidr_t   all[2];
    ngx_array_t  array;
    u_char       zero[16];

    verdict = ngx_egress_address_judge(family, addr, allowed, NULL);

    fuzz_require(verdict <= plain);

    if (plain != NGX_EGRESS_ADDR_REFUSED) {
        fuzz_require(verdict == plain);
    }

    if (!ngx_egress_address_in(family, addr, allowed)) {

        fuzz_require(verdict == plain);

    } else if (family == AF_INET
               || ngx_egress_address_embedded(addr, buf) == NULL)
    {
        fuzz_require(verdict != NGX_EGRESS_ADDR_REFUSED);
    }

    /* all there is allowed: what is left is what nothing lifts */

    memset(zero, 0, sizeof(zero));

    fuzz_address_mask(&all[0], AF_INET, zero, 0);
    fuzz_address_mask(&all[1], AF_INET6, zero, 0);

    array = *allowed;
    array.elts = all;
    array.nelts = 2;

    wide = ngx_egress_address_judge(family, addr, &array, NULL);

    fuzz_require(wide == ((plain == NGX_EGRESS_ADDR_NEVER)
                          ? NGX_EGRESS_ADDR_NEVER
                          : NGX_EGRESS_ADDR_OK));
}


/* an address of our own is never lifted, and others are what they were */

static void
fuzz_address_own(sa_family_t family, u_char *addr, ngx_array_t *allowed,
    ngx_array_t *own)
{
    u_char      *inner, buf[4];
    ngx_uint_t   verdict, is_own;

    verdict = ngx_egress_address_judge(family, addr, allowed, own);

    is_own = ngx_egress_address_in(family, addr, own);

    if (family == AF_INET6) {
        inner = ngx_egress_address_embedded(addr, buf);

        if (inner && ngx_egress_address_in(AF_INET, inner, own)) {
            is_own = 1;
        }
    }

    fuzz_require(verdict == (is_own ? NGX_EGRESS_ADDR_NEVER
                                    : ngx_egress_address_judge(family, addr,
                                                               allowed,
                                                               NULL)));
}


/* an IPv4 address is no better for being written as an IPv6 one */

static void
fuzz_address_wrapped(u_char *inner, ngx_uint_t verdict, ngx_array_t *allowed,
    ngx_array_t *own)
{
    ngx_uint_t  i, k, outer;
    u_char      addr[16], buf[4];

    static struct {
        u_char      prefix[12];
        ngx_uint_t  at;
        u_char      flip;
    } forms[] = {
        { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff }, 12, 0 },
        { { 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff }, 12, 0 },
        { { 0x00, 0x64, 0xff, 0x9b }, 12, 0 },
        { { 0x00, 0x64, 0xff, 0x9b, 0, 1, 1, 2, 3, 4, 5, 6 }, 12, 0 },
        { { 0x20, 0x02 }, 2, 0 },
        { { 0x20, 0x01, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 }, 12, 0xff },
        { { 0x2a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x5e, 0xfe }, 12, 0 },
        { { 0x2a, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0x5e, 0xfe }, 12, 0 }
    };

    for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {

        memset(addr, 0, sizeof(addr));
        memcpy(addr, forms[i].prefix, sizeof(forms[i].prefix));

        for (k = 0; k < 4; k++) {
            addr[forms[i].at + k] = inner[k] ^ forms[i].flip;
        }

        fuzz_require(ngx_egress_address_embedded(addr, buf) == buf);
        fuzz_require(memcmp(buf, inner, 4) == 0);

        fuzz_require(ngx_egress_address_judge(AF_INET6, addr, NULL, NULL)
                     != NGX_EGRESS_ADDR_OK);

        outer = ngx_egress_address_judge(AF_INET6, addr, allowed, own);

        fuzz_require(outer >= verdict);
    }
}
