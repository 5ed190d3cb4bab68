
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_PLAIN_H_INCLUDED_
#define _NGX_EGRESS_PLAIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* one octet, eight times */
#define ngx_egress_octets(c)  ((uint64_t) 0x0101010101010101 * (c))


/*
 * Tells whether all of "p" is ASCII from "low" to 0x7e, and nothing of it is
 * "a", "b" or "c", which may be equal.  Nearly all that clients send is, which
 * saves to look at each octet by itself.
 */
static ngx_inline ngx_uint_t ngx_egress_plain(u_char *p, size_t len,
    u_char low, u_char a, u_char b, u_char c);


static ngx_inline ngx_uint_t
ngx_egress_plain(u_char *p, size_t len, u_char low, u_char a, u_char b,
    u_char c)
{
    u_char    *last;
    uint32_t   front, back;
    uint64_t   octets, other;

    last = p + len;
    other = 0;

    while (p < last) {

        if (last - p >= 8) {
            ngx_memcpy(&octets, p, 8);
            p += 8;

        } else if (len >= 8) {

            /* the last of them, some for the second time */

            ngx_memcpy(&octets, last - 8, 8);
            p = last;

        } else if (len >= 4) {
            ngx_memcpy(&front, p, 4);
            ngx_memcpy(&back, last - 4, 4);
            octets = ((uint64_t) front << 32) | back;
            p = last;

        } else {
            octets = ngx_egress_octets(*p);

            while (++p < last) {
                octets = (octets << 8) | *p;
            }
        }

        /*
         * The highest bit of an octet tells: it is there already, comes with
         * the subtraction, or with the addition to 0x7f.  A carry into another
         * octet comes only from one that has told.
         */

        other |= octets
                 | (octets - ngx_egress_octets(low))
                 | (octets + ngx_egress_octets(1))
                 | ((octets ^ ngx_egress_octets(a)) - ngx_egress_octets(1))
                 | ((octets ^ ngx_egress_octets(b)) - ngx_egress_octets(1))
                 | ((octets ^ ngx_egress_octets(c)) - ngx_egress_octets(1));
    }

    return (other & ngx_egress_octets(0x80)) == 0;
}


#endif /* _NGX_EGRESS_PLAIN_H_INCLUDED_ */
