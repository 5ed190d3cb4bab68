
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_RESOLVE_H_INCLUDED_
#define _NGX_EGRESS_RESOLVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event_connect.h>


/* an address that was judged, with its port */

typedef struct {
    ngx_sockaddr_t            sockaddr;
    socklen_t                 socklen;
    ngx_str_t                 name;
    u_char                    text[NGX_SOCKADDR_STRLEN];
} ngx_egress_addr_t;


/* those of one host; shared, and read-only after they were made */

typedef struct {
    ngx_uint_t                refs;
    ngx_uint_t                n;
    ngx_egress_addr_t        *addr;
} ngx_egress_addrs_t;


/*
 * ngx_egress_resolve.c: what the resolver says, each address of it judged
 * (DESIGN 6.13).
 */

/*
 * Takes the addresses of an answer that may be connected to at "port";
 * "privates" are ranges that are lifted, or NULL.  What is refused is logged
 * at "level".  Returns NGX_EGRESS_ALLOWED with *addrs set, a reference for the
 * caller, or the reason why there are none.  The caller gives "rctx" back.
 */
ngx_uint_t ngx_egress_resolved(ngx_egress_conf_t *ecf,
    ngx_resolver_ctx_t *rctx, in_port_t port, ngx_array_t *privates,
    ngx_uint_t level, ngx_log_t *log, ngx_egress_addrs_t **addrs);

/* A list of this address alone, judged by the caller; NULL without memory. */
ngx_egress_addrs_t *ngx_egress_addrs_single(struct sockaddr *sockaddr,
    socklen_t socklen, ngx_log_t *log);

/*
 * Gives an attempt the next address, which is judged at that moment: *current
 * counts those that have been tried or refused.  Returns NGX_OK, or NGX_BUSY
 * where there is none left.
 */
ngx_int_t ngx_egress_addrs_next(ngx_egress_conf_t *ecf,
    ngx_egress_addrs_t *addrs, ngx_uint_t *current, ngx_array_t *privates,
    ngx_peer_connection_t *pc);

/* Gives a reference back; NULL is let through. */
void ngx_egress_addrs_free(ngx_egress_addrs_t *addrs);


#endif /* _NGX_EGRESS_RESOLVE_H_INCLUDED_ */
