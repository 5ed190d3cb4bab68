
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_REDACT_H_INCLUDED_
#define _NGX_EGRESS_REDACT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* shorter secrets are not looked for: they would stand everywhere */
#define NGX_EGRESS_REDACT_LEN       8

#define NGX_EGRESS_REDACT_SPELLINGS 20      /* of one secret */
#define NGX_EGRESS_REDACT_HASH      8192


/* the spellings of one or several secrets, and a table to find them by */

typedef struct {
    ngx_uint_t  n;
    size_t      min;            /* lengths of the shortest and the longest */
    size_t      max;
    ngx_str_t  *spelling;
    u_char      first[256];     /* octets that one of them begins with */
    u_char      shift[NGX_EGRESS_REDACT_HASH];
} ngx_egress_redact_t;


/* The octets of memory that ngx_egress_redact_init() needs for "n" secrets. */
size_t ngx_egress_redact_size(ngx_str_t *secrets, ngx_uint_t n);

/*
 * Makes the spellings of each secret (DESIGN 6.7): as it is, base64 in its
 * three alignments and both alphabets (RFC 4648), hex, percent-encoded and
 * escaped for JSON, the last two wholly or where they must be.  "mem" has room
 * for what ngx_egress_redact_size() returned; it holds the secrets from then
 * on, and is the caller's to lock and to wipe.
 *
 * Returns "mem", or NULL where all of them are too short.
 */
ngx_egress_redact_t *ngx_egress_redact_init(void *mem, ngx_str_t *secrets,
    ngx_uint_t n);

/*
 * Overwrites each spelling within "data" by as many "*", in one pass (Wu and
 * Manber).  Returns how many there were.
 */
ngx_uint_t ngx_egress_redact_scan(ngx_egress_redact_t *redact, u_char *data,
    size_t len);

/*
 * The number of octets at the end of "data" that may be the start of a
 * spelling which goes on in what comes next; 0 where there is none.
 */
size_t ngx_egress_redact_tail(ngx_egress_redact_t *redact, u_char *data,
    size_t len);


#endif /* _NGX_EGRESS_REDACT_H_INCLUDED_ */
