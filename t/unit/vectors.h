
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_VECTORS_H_INCLUDED_
#define _NGX_VECTORS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "json.h"


#define NGX_VECTORS_TEXT  512


typedef struct {
    yajl_val  line;
    u_char    got[NGX_VECTORS_TEXT];
    u_char    want[NGX_VECTORS_TEXT];
    char     *skip;
} ngx_vectors_t;


/* Bytes in a TAP line: printable, and no "#", which starts a directive. */
void ngx_vectors_show(u_char *dst, char *name, ngx_str_t *str);

void ngx_vectors_text(u_char *dst, const char *text);

ngx_uint_t ngx_vectors_eq(ngx_str_t *a, ngx_str_t *b);


/* the body of a batch request, see body.c */
ngx_int_t ngx_vectors_batch(ngx_vectors_t *v);


/* the kinds of gateway.c, socks5.c, redact.c and body.c */
ngx_int_t ngx_vectors_client_hello(ngx_vectors_t *v);
ngx_int_t ngx_vectors_connect(ngx_vectors_t *v);
ngx_int_t ngx_vectors_address(ngx_vectors_t *v);
ngx_int_t ngx_vectors_socks5(ngx_vectors_t *v);
ngx_int_t ngx_vectors_redact(ngx_vectors_t *v);
ngx_int_t ngx_vectors_graphql(ngx_vectors_t *v);
ngx_int_t ngx_vectors_json_rpc(ngx_vectors_t *v);
ngx_int_t ngx_vectors_bodies(ngx_vectors_t *v);

/* the kind of graphql.c */
ngx_int_t ngx_vectors_graphql_document(ngx_vectors_t *v);


#endif /* _NGX_VECTORS_H_INCLUDED_ */
