
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_GRAPHQL_H_INCLUDED_
#define _NGX_EGRESS_GRAPHQL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_git.h"


/* "repository" root fields that are looked at, in all operations together */
#define NGX_EGRESS_GRAPHQL_REPOS   16

/* octets of an owner's, a repository's or a variable's name */
#define NGX_EGRESS_GRAPHQL_NAME    128

/* brackets of any kind, one within the other */
#define NGX_EGRESS_GRAPHQL_DEPTH   256

/* the longest name of an operation that is kept for the audit log */
#define NGX_EGRESS_GRAPHQL_OP      64


/* an argument of a root field: a plain string, or the name of a variable */

typedef struct {
    ngx_str_t                       text;       /* NULL: can't be told */
    unsigned                        variable:1;
} ngx_egress_graphql_arg_t;


typedef struct {
    ngx_egress_graphql_arg_t        owner;
    ngx_egress_graphql_arg_t        name;
} ngx_egress_graphql_repo_t;


/* what a document says; strings but "type" point into it */

typedef struct {
    ngx_uint_t                      class;      /* NGX_EGRESS_READ or _WRITE */
    ngx_uint_t                      nqueries;
    ngx_uint_t                      nmutations;
    ngx_uint_t                      nsubscriptions;
    ngx_uint_t                      nfragments;

    /*
     * The operation that is told in the audit log: the first that writes, or
     * else the first; "type" is "query", "mutation" or "subscription", "name"
     * is empty for an anonymous one and the start of a longer one.
     */
    ngx_str_t                       type;
    ngx_str_t                       name;

    /*
     * Root fields, of the selection sets of all operations (wire.md B6):
     * "root_unknown" is set for a field other than repository, viewer,
     * rateLimit, meta, __schema, __type and __typename, for any fragment
     * spread or inline fragment at the root, where there are more "repository"
     * fields than repos[] holds, and where servers could read the document in
     * two ways.
     */
    ngx_uint_t                      nrepos;
    ngx_egress_graphql_repo_t       repos[NGX_EGRESS_GRAPHQL_REPOS];
    unsigned                        root_unknown:1;
} ngx_egress_graphql_t;


/*
 * Lexes a whole GraphQL document (GraphQL specification, section 2) and
 * classes it by the definitions at its top level: a read has at least one
 * query and neither a mutation nor a subscription anywhere, whatever operation
 * is to be executed (wire.md B2).  "data" is UTF-8 that was checked before; one
 * pass, no recursion, no allocation.
 *
 * Returns NGX_OK with *g filled in, or NGX_DECLINED where the text is no
 * executable document, nested too deeply, or a read only for some servers:
 * nothing can be said of it.
 */
ngx_int_t ngx_egress_graphql_parse(u_char *data, size_t len,
    ngx_egress_graphql_t *g);


#endif /* _NGX_EGRESS_GRAPHQL_H_INCLUDED_ */
