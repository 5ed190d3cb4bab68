
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_BODY_H_INCLUDED_
#define _NGX_EGRESS_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_git.h"
#include "ngx_egress_graphql.h"


/* what looks into a body, or a query */
#define NGX_EGRESS_INSPECT_NONE      0
#define NGX_EGRESS_INSPECT_GRAPHQL   1
#define NGX_EGRESS_INSPECT_LFS       2
#define NGX_EGRESS_INSPECT_JSON_RPC  3
#define NGX_EGRESS_INSPECT_OCI       4

/* JSON in JSON, arrays and objects together (DESIGN 6.4) */
#define NGX_EGRESS_BODY_DEPTH        64

/* octets of "operation" and of "id" that are kept */
#define NGX_EGRESS_BODY_OPERATION    128
#define NGX_EGRESS_BODY_ID           256


/* a repository that a query names */

typedef struct {
    size_t                     owner_len;   /* 0: can't be told */
    size_t                     name_len;
    u_char                     owner[NGX_EGRESS_GRAPHQL_NAME];
    u_char                     name[NGX_EGRESS_GRAPHQL_NAME];
} ngx_egress_body_repo_t;


/* what a body says; nothing in it points elsewhere */

typedef struct {
    ngx_uint_t                 class;       /* NGX_EGRESS_READ, ... */

    /*
     * For the audit log, printable ASCII: "query Name", "lfs-download",
     * "lfs-upload", "tools/call name".
     */
    size_t                     operation_len;
    u_char                     operation[NGX_EGRESS_BODY_OPERATION];

    /*
     * Of a JSON-RPC request, ready to be written into an answer: a number as
     * it was sent, or a string in quotes; empty where there is none, or none
     * that is acceptable.  Set as far as it was read, for refusals too.
     */
    size_t                     id_len;
    u_char                     id[NGX_EGRESS_BODY_ID];

    /* roots of a GraphQL query, with variables filled in */
    ngx_uint_t                 nrepos;
    ngx_egress_body_repo_t     repos[NGX_EGRESS_GRAPHQL_REPOS];
    unsigned                   root_unknown:1;

    unsigned                   tool_refused:1;
} ngx_egress_body_t;


/* a field that says what a JSON-RPC body says, too: Mcp-Method, Mcp-Name */

typedef struct {
    ngx_str_t                  value;       /* NULL: it is absent */
    ngx_uint_t                 count;
} ngx_egress_body_field_t;


/*
 * Each of these takes the whole body and fills in *b, which need not be
 * initialised.  All of them want one strict JSON object (RFC 8259) in UTF-8
 * without BOM, with nothing behind it but white space, nested at most
 * NGX_EGRESS_BODY_DEPTH deep, no lone surrogates, no decisive key twice or in
 * another case, not even beside it (vectors/README.md, "Bodies").
 *
 * They return NGX_OK with b->class set; NGX_DECLINED where the body can't be
 * classed (DESIGN 6.4: unknown); NGX_ABORT where it is not UTF-8, or has a BOM
 * (415); NGX_ERROR where it disagrees with the request's own header
 * (malformed).  Memory is malloc()ed and freed before they return: at most
 * twice the body and some 20 KiB.
 */

/*
 * A GraphQL request (graphql-over-http): "query", "operationName",
 * "variables", "extensions", and no other member; B2, G1-G28.
 */

ngx_int_t ngx_egress_graphql_body(ngx_str_t *body, ngx_egress_body_t *b);

/*
 * The same in a query string (G29, G30): "buf" has room for query->len octets.
 * One that is empty or absent asks for the schema and is a read; one without
 * "query", or with another parameter than those of a body, may name a document
 * that is stored elsewhere, and is NGX_DECLINED, as is one that is not UTF-8.
 */
ngx_int_t ngx_egress_graphql_query(ngx_str_t *query, u_char *buf,
    ngx_egress_body_t *b);

/* A Git LFS batch request: top-level "operation"; B4, L1-L4. */
ngx_int_t ngx_egress_lfs_body(ngx_str_t *body, ngx_egress_body_t *b);

/*
 * A JSON-RPC 2.0 message of MCP's streamable HTTP transport (wire.md C).
 * "tools" is an array of ngx_str_t, the tools that may be called; "all" lets
 * any be called.  b->tool_refused is set, with NGX_OK and the class "write",
 * for a tools/call of another one; other methods that are no reads are
 * NGX_DECLINED.
 */
ngx_int_t ngx_egress_json_rpc_body(ngx_str_t *body, ngx_array_t *tools,
    ngx_uint_t all, ngx_egress_body_field_t *method,
    ngx_egress_body_field_t *name, ngx_egress_body_t *b);


#endif /* _NGX_EGRESS_BODY_H_INCLUDED_ */
