
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_ADDRESS_H_INCLUDED_
#define _NGX_EGRESS_ADDRESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_EGRESS_ADDR_OK       0
#define NGX_EGRESS_ADDR_REFUSED  1   /* a range may be allowed */
#define NGX_EGRESS_ADDR_NEVER    2   /* nothing lifts it */


/*
 * Judges an address by DESIGN 6.13: only global unicast is fine.  An IPv4
 * address within an IPv6 one, in any of the forms that routers and stacks
 * take out again (RFC 4291, 2.5.5; RFC 6052; RFC 3056; RFC 4380; RFC 5214), is
 * judged as well, and the worse verdict counts.
 *
 * "addr" is 4 octets for AF_INET, 16 for AF_INET6, in network order.
 * "allowed" are ranges that the operator lifted (allow_private), and "own"
 * addresses of our own listeners; both arrays of ngx_cidr_t, or NULL.  An
 * IPv4 range does not lift an IPv4 address written as an IPv6 one.
 *
 * Returns one of the constants above; any other family is NEVER.
 */
ngx_uint_t ngx_egress_address_judge(sa_family_t family, u_char *addr,
    ngx_array_t *allowed, ngx_array_t *own);

/* Tells whether an address is in one of the ranges of an array or NULL. */
ngx_uint_t ngx_egress_address_in(sa_family_t family, u_char *addr,
    ngx_array_t *cidrs);

/* The IPv4 address within an IPv6 one, or NULL; "buf" has 4 octets of room. */
u_char *ngx_egress_address_embedded(u_char *addr, u_char *buf);


#endif /* _NGX_EGRESS_ADDRESS_H_INCLUDED_ */
