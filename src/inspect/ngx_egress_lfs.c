
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_body.h"
#include "ngx_egress_json.h"


static ngx_int_t ngx_egress_lfs_member(void *data, ngx_uint_t field,
    ngx_str_t *key, ngx_uint_t type, ngx_str_t *text);


static ngx_egress_json_field_t  ngx_egress_lfs_fields[] = {
    { ngx_string("operation"), NGX_EGRESS_JSON_ROOT }
};


static struct {
    ngx_str_t    value;
    ngx_uint_t   class;
    ngx_str_t    operation;
} ngx_egress_lfs_operations[] = {

    { ngx_string("download"),
      NGX_EGRESS_READ,
      ngx_string("lfs-download") },

    { ngx_string("upload"),
      NGX_EGRESS_WRITE,
      ngx_string("lfs-upload") },

    { ngx_null_string, 0, ngx_null_string }
};


ngx_int_t
ngx_egress_lfs_body(ngx_str_t *body, ngx_egress_body_t *b)
{
    ngx_int_t          rc;
    ngx_egress_json_t  json;

    ngx_memzero(b, sizeof(ngx_egress_body_t));

    b->class = NGX_EGRESS_UNKNOWN;

    ngx_egress_json_init(&json, ngx_egress_lfs_fields, 1,
                         ngx_egress_lfs_member, b);

    rc = ngx_egress_json_parse(&json, body);

    if (rc == NGX_OK && b->class == NGX_EGRESS_UNKNOWN) {
        rc = NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        b->class = NGX_EGRESS_UNKNOWN;
    }

    return rc;
}


static ngx_int_t
ngx_egress_lfs_member(void *data, ngx_uint_t field, ngx_str_t *key,
    ngx_uint_t type, ngx_str_t *text)
{
    ngx_egress_body_t *b = data;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (type != NGX_EGRESS_JSON_STRING) {
        return NGX_DECLINED;
    }

    for (i = 0; ngx_egress_lfs_operations[i].class; i++) {

        value = &ngx_egress_lfs_operations[i].value;

        if (text->len != value->len
            || ngx_memcmp(text->data, value->data, text->len) != 0)
        {
            continue;
        }

        b->class = ngx_egress_lfs_operations[i].class;

        ngx_egress_json_printable(b->operation, &b->operation_len,
                                  NGX_EGRESS_BODY_OPERATION,
                                  &ngx_egress_lfs_operations[i].operation);

        return NGX_OK;
    }

    return NGX_DECLINED;
}
