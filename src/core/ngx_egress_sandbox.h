
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_SANDBOX_H_INCLUDED_
#define _NGX_EGRESS_SANDBOX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* what a client says it is; user.data is NULL where it can't be told */

typedef struct {
    ngx_str_t                 user;
    ngx_str_t                 token;
    ngx_uint_t                given;        /* unsigned  given:1; */
    ngx_uint_t                proved;       /* unsigned  proved:1; the answer */
} ngx_egress_identity_t;


/*
 * ngx_egress_sandbox.c: who a client is, DESIGN 6.9.
 */
char *ngx_egress_sandboxes(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Finds the role of a client, by the name and token that it gives.  "client"
 * is its address.  Returns NGX_EGRESS_ALLOWED with *role set, or the reason to
 * refuse: proxy_auth_required where it may try again with an identity.
 */
ngx_uint_t ngx_egress_identify(ngx_egress_conf_t *ecf,
    ngx_egress_identity_t *identity, struct sockaddr *client,
    ngx_egress_role_t **role, ngx_log_t *log);

/*
 * The same for a name that the operator's configuration vouches for, so that
 * it needs no token.  Whatever is wrong with it is a reason to refuse, and
 * never makes a client one without an identity.
 */
ngx_uint_t ngx_egress_vouch(ngx_egress_conf_t *ecf, ngx_str_t *id,
    struct sockaddr *client, ngx_egress_role_t **role, ngx_log_t *log);

/*
 * Finds out whether the text of an "egress_sandbox" is made of what a client
 * writes as it likes, and warns (DESIGN 6.10).  NGX_ERROR where there are no
 * "sandboxes" to look names up in.
 */
ngx_int_t ngx_egress_vouch_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


/*
 * ngx_egress_self.c: what sandboxes are told, DESIGN 6.15.
 */
char *ngx_egress_self_url(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Reads the certificates that sandboxes are to trust: ecf->ca_pem is our CA,
 * ecf->bundle_pem the system's bundle, "trusted_certificate" and our CA.
 */
ngx_int_t ngx_egress_self_init(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


#endif /* _NGX_EGRESS_SANDBOX_H_INCLUDED_ */
