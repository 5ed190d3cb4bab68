
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_CLIENT_HELLO_H_INCLUDED_
#define _NGX_EGRESS_CLIENT_HELLO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_host.h"


/* the longest handshake message, with its header of four octets */
#define NGX_EGRESS_CLIENT_HELLO_LEN      16384

#define NGX_EGRESS_CLIENT_HELLO_RANDOM   32


typedef struct {
    ngx_egress_host_t  host;        /* the server name, where sni is set */
    u_char             random[NGX_EGRESS_CLIENT_HELLO_RANDOM];
    unsigned           sni:1;
    unsigned           ech:1;       /* extension 0xfe0d is there */
} ngx_egress_client_hello_t;


/*
 * Reads a ClientHello (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2) from the first
 * "len" octets of a connection, in any number of records (RFC 8446, 5.1), and
 * its server name (RFC 6066, 3) in the form of DESIGN 6.1.  What follows the
 * record with the end of the message is not looked at.
 *
 * "data" is not changed.  "buf" has room for NGX_EGRESS_CLIENT_HELLO_LEN
 * octets, for a message that came in several records.
 *
 * Returns NGX_OK; NGX_AGAIN where more octets are needed; NGX_ERROR where this
 * is no ClientHello, or one that TLS stacks could read in different ways:
 * empty records, other records or messages within, lengths that do not agree,
 * a second server name, a server name that is no host name.
 */
ngx_int_t ngx_egress_client_hello_parse(u_char *data, size_t len, u_char *buf,
    ngx_egress_client_hello_t *hello);


#endif /* _NGX_EGRESS_CLIENT_HELLO_H_INCLUDED_ */
