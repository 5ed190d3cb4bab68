
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_VECTORS_JSON_H_INCLUDED_
#define _NGX_VECTORS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <yajl/yajl_tree.h>


/* A member of an object, or NULL. */
yajl_val ngx_vectors_get(yajl_val obj, const char *name);

/* A member that is a string, or NULL; owned by the tree. */
char *ngx_vectors_string(yajl_val obj, const char *name);

/* The octets of a member or of its "_b64" twin; NGX_DECLINED if absent. */
ngx_int_t ngx_vectors_bytes(yajl_val obj, const char *name, ngx_str_t *str);

/* The same of a member in hexadecimal, which has no twin. */
ngx_int_t ngx_vectors_hex(yajl_val obj, const char *name, ngx_str_t *str);

/* Makes zero characters of a line last until ngx_vectors_bytes(). */
void ngx_vectors_zero(char *text);

/* Moves a string to where a read past either end of it is caught. */
void ngx_vectors_exact(ngx_str_t *str);

/* Memory until ngx_vectors_free(); ends the program where there is none. */
void *ngx_vectors_alloc(size_t size);
void ngx_vectors_free(void);
void ngx_vectors_die(const char *text);


#endif /* _NGX_VECTORS_JSON_H_INCLUDED_ */
