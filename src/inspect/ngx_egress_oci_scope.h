
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_OCI_SCOPE_H_INCLUDED_
#define _NGX_EGRESS_OCI_SCOPE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_body.h"


/*
 * A request for a token to the realm of a container registry: the query of a
 * GET, or the form that a POST carries (distribution's token specification).
 * "buf" has room for query->len octets.  A POST must be a read in both places:
 * servers take parameters from either.
 *
 * Returns NGX_OK with the class set: a read where the actions of every scope
 * are exactly "pull" on a repository, or there is no scope; a write where
 * there is another action or resource, or a token is asked for that can be
 * turned into any.  NGX_DECLINED where it can't be told.  b->repos has the
 * repositories, a name without "/" with an empty owner; b->operation is
 * "token" and the first scope.
 */
ngx_int_t ngx_egress_oci_scope(ngx_str_t *query, u_char *buf,
    ngx_egress_body_t *b);


#endif /* _NGX_EGRESS_OCI_SCOPE_H_INCLUDED_ */
