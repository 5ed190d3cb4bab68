
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_CONNECT_H_INCLUDED_
#define _NGX_EGRESS_CONNECT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_host.h"


/* limits of a request's head; more of it is malformed */
#define NGX_EGRESS_CONNECT_LEN     16384
#define NGX_EGRESS_CONNECT_FIELDS  100


typedef struct {
    ngx_egress_host_t  host;        /* the target, which has a port */
    size_t             len;         /* of the head, with its empty line */
    ngx_str_t          user;        /* of Basic credentials, else NULL */
    ngx_str_t          token;
    unsigned           authorization:1;     /* Proxy-Authorization is there */
    unsigned           origin:1;    /* no CONNECT, and the target is a path */
} ngx_egress_connect_t;


/*
 * Reads the head of a CONNECT request (RFC 9110, 9.3.6; RFC 9112, 3.2.3) of
 * HTTP/1.0 or 1.1 from the first "len" octets of a connection.  Host is not
 * needed and need not agree; Connection is not looked at; what follows the
 * head is the start of the tunnel.
 *
 * "buf" has room for NGX_EGRESS_CONNECT_LEN octets and keeps the decoded
 * credentials (RFC 7617): user and token point into it, and are the caller's
 * to wipe.  Credentials that are not well-formed Basic with a user give
 * user.data NULL, with authorization set.
 *
 * Returns NGX_OK; NGX_AGAIN where more octets are needed; NGX_DECLINED for a
 * well-formed request line with another method, with "origin" set where its
 * target is in origin-form; NGX_ERROR where the head is
 * malformed: line ends other than CRLF, folded lines, control bytes, a body,
 * Host or Proxy-Authorization twice, a target that is no host with a port.
 */
ngx_int_t ngx_egress_connect_parse(u_char *data, size_t len, u_char *buf,
    ngx_egress_connect_t *connect);


#endif /* _NGX_EGRESS_CONNECT_H_INCLUDED_ */
