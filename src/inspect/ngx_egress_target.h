
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_TARGET_H_INCLUDED_
#define _NGX_EGRESS_TARGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_str_t   authority;      /* of an absolute-form target, else no data */
    ngx_str_t   path;           /* raw, up to "?" */
    ngx_str_t   query;          /* raw, after "?"; no data without a "?" */
    ngx_str_t   canonical;      /* path, "%7E" read as "~", upper case hex */
    ngx_str_t   folded;         /* canonical with "%2F" read as "/" too */
    ngx_str_t   bare;           /* folded, without ";parameters" */
    ngx_uint_t  encoded_slash;  /* unsigned  encoded_slash:1; */
} ngx_egress_target_t;


/*
 * Judges a request target (RFC 9112, 3.2) by DESIGN 6.2: only a target that
 * no server could read in two ways passes.
 *
 * "raw" is the target as it was sent, in origin-form or in absolute-form with
 * the scheme https; "buf" has room for 3 * raw->len octets and keeps the
 * canonical forms, to which "target" points; the other members of "target"
 * point into "raw".
 *
 * A path with "%2F" in a segment passes with encoded_slash set: it is for the
 * caller to refuse it where the configuration does not allow it.
 *
 * Returns NGX_OK; NGX_ERROR where the target is malformed (400); or
 * NGX_DECLINED where it is well-formed but ambiguous (403 path_refused).
 */
ngx_int_t ngx_egress_target_parse(ngx_str_t *raw, u_char *buf,
    ngx_egress_target_t *target);


/*
 * Tells whether a raw query names a method override: a parameter "_method",
 * in any percent-encoding and in any case (security X, R-01).
 */
ngx_uint_t ngx_egress_target_overrides(ngx_str_t *query);


#endif /* _NGX_EGRESS_TARGET_H_INCLUDED_ */
