
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_SOCKS5_H_INCLUDED_
#define _NGX_EGRESS_SOCKS5_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_host.h"


#define NGX_EGRESS_SOCKS5_VERSION         5

/* methods, RFC 1928, 3 */
#define NGX_EGRESS_SOCKS5_NONE            0x00
#define NGX_EGRESS_SOCKS5_PASSWORD        0x02
#define NGX_EGRESS_SOCKS5_NO_METHOD       0xff

/* the version of the sub-negotiation, RFC 1929, 2 */
#define NGX_EGRESS_SOCKS5_AUTH_VERSION    1

/* replies, RFC 1928, 6 */
#define NGX_EGRESS_SOCKS5_SUCCEEDED       0
#define NGX_EGRESS_SOCKS5_FAILURE         1
#define NGX_EGRESS_SOCKS5_NOT_ALLOWED     2
#define NGX_EGRESS_SOCKS5_UNREACHABLE     4
#define NGX_EGRESS_SOCKS5_NO_COMMAND      7
#define NGX_EGRESS_SOCKS5_NO_ADDRESS      8

/* the longest of the three messages of a client */
#define NGX_EGRESS_SOCKS5_LEN             513


typedef struct {
    size_t             len;         /* octets of the message read last */
    unsigned           none:1;      /* methods that the client offers */
    unsigned           password:1;
    ngx_str_t          user;        /* point into the octets given */
    ngx_str_t          token;
    ngx_egress_host_t  host;
    ngx_uint_t         reply;       /* to a request that is refused, or 0 */
} ngx_egress_socks5_t;


/*
 * Read one message of a client from the first "len" octets of "data", which
 * is not changed: the methods offered (RFC 1928, 3), the user and password
 * (RFC 1929, 2), the request (RFC 1928, 4).
 *
 * Return NGX_OK, with socks->len set to the octets of the message; NGX_AGAIN
 * where more octets are needed; NGX_ERROR where it is malformed or asks for
 * what is not offered: socks->reply is then the reply to give, or 0 to close
 * without a word.
 */
ngx_int_t ngx_egress_socks5_methods(u_char *data, size_t len,
    ngx_egress_socks5_t *socks);
ngx_int_t ngx_egress_socks5_password(u_char *data, size_t len,
    ngx_egress_socks5_t *socks);
ngx_int_t ngx_egress_socks5_request(u_char *data, size_t len,
    ngx_egress_socks5_t *socks);


#endif /* _NGX_EGRESS_SOCKS5_H_INCLUDED_ */
