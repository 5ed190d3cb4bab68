
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_AUTHORIZATION_H_INCLUDED_
#define _NGX_EGRESS_AUTHORIZATION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_EGRESS_AUTH_NONE   0    /* an empty value */
#define NGX_EGRESS_AUTH_PLAIN  1    /* one token between head and tail */
#define NGX_EGRESS_AUTH_BASIC  2    /* base64 of user:password */


typedef struct {
    ngx_uint_t  form;
    ngx_str_t   head;       /* octets that stay in front: scheme, spaces */
    ngx_str_t   tail;       /* octets that stay behind: a suffix */
    ngx_str_t   token;      /* of PLAIN: what may be a placeholder */
    ngx_str_t   user;       /* of BASIC, up to the first colon */
    ngx_str_t   password;   /* of BASIC, after the first colon */
} ngx_egress_authorization_t;


/*
 * Takes apart the value of an Authorization field (RFC 9110, 11.4): a scheme
 * Bearer, token or Basic in any case, one or more spaces and a token, or a
 * bare token.  Basic is strict base64 (RFC 4648, 4), padding complete or
 * absent (DESIGN 6.3).
 *
 * "value" comes without optional white space around it; "buf" has room for
 * value->len octets and keeps what was decoded.  Results point into both.
 *
 * Returns NGX_OK; NGX_DECLINED for a value that can hold no placeholder in
 * any of these forms (foreign); NGX_ERROR for control bytes (400).
 */
ngx_int_t ngx_egress_authorization_parse(ngx_str_t *value, u_char *buf,
    ngx_egress_authorization_t *auth);


/*
 * The same for a field that a binding names with "header name prefix= suffix=":
 * exactly prefix, token, suffix, case-sensitive.
 */
ngx_int_t ngx_egress_authorization_parse_affixed(ngx_str_t *value,
    ngx_str_t *prefix, ngx_str_t *suffix, ngx_egress_authorization_t *auth);


/*
 * The length of the value with "secret" in place of the placeholder.  "user"
 * and "password" tell which parts of a Basic pair are replaced.
 */
size_t ngx_egress_authorization_len(ngx_egress_authorization_t *auth,
    ngx_uint_t user, ngx_uint_t password, ngx_str_t *secret);


/*
 * Writes that value to "p", which has room for what
 * ngx_egress_authorization_len() returned, and returns the end.  "scratch"
 * has room for user.len + password.len + 2 * secret->len + 1 octets; it holds
 * the secret afterwards, as does "p": both are the caller's to wipe.
 */
u_char *ngx_egress_authorization_build(u_char *p,
    ngx_egress_authorization_t *auth, ngx_uint_t user, ngx_uint_t password,
    ngx_str_t *secret, u_char *scratch);


#endif /* _NGX_EGRESS_AUTHORIZATION_H_INCLUDED_ */
