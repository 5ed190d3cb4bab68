
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_HOST_H_INCLUDED_
#define _NGX_EGRESS_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the longest host name in octets, without a trailing dot (RFC 1035, 3.1) */
#define NGX_EGRESS_HOST_LEN        253

#define NGX_EGRESS_HOST_NAME       0    /* SNI, SOCKS5, configuration */
#define NGX_EGRESS_HOST_AUTHORITY  1    /* Host and :authority, port optional */
#define NGX_EGRESS_HOST_CONNECT    2    /* CONNECT target, port required */


typedef struct {
    size_t       len;                   /* of name */
    in_port_t    port;                  /* in host byte order */
    sa_family_t  family;                /* of an IP literal, else AF_UNSPEC */
    u_char       addr[16];              /* of an IP literal, network order */
    u_char       name[NGX_EGRESS_HOST_LEN + 1];  /* lower case */
} ngx_egress_host_t;


/*
 * Brings a host name into its one canonical form (DESIGN 6.1): ASCII letters,
 * digits, hyphens and dots, lower-cased, one trailing dot stripped, labels of
 * 1 to 63 octets.  IP literals are told apart in family and addr.
 *
 * "in" is not changed and need not end in a zero byte; "form" is one of the
 * constants above; "port" is taken where the form gives none.
 *
 * Returns NGX_OK, or NGX_ERROR where the input is malformed; "host" is then
 * undefined.  Keeps no pointer into "in".
 */
ngx_int_t ngx_egress_host_parse(ngx_str_t *in, ngx_uint_t form,
    in_port_t port, ngx_egress_host_t *host);


#endif /* _NGX_EGRESS_HOST_H_INCLUDED_ */
