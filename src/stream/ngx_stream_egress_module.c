
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_egress.h>


static ngx_int_t ngx_stream_egress_postconfiguration(ngx_conf_t *cf);


static ngx_stream_module_t  ngx_stream_egress_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_stream_egress_postconfiguration,   /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL                                   /* merge server configuration */
};


ngx_module_t  ngx_stream_egress_module = {
    NGX_MODULE_V1,
    &ngx_stream_egress_module_ctx,         /* module context */
    NULL,                                  /* module directives */
    NGX_STREAM_MODULE,                     /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * The policy is in the other .so file: one that is missing, or of another
 * build, must not be found out by the first connection.
 */

static ngx_int_t
ngx_stream_egress_postconfiguration(ngx_conf_t *cf)
{
    if (ngx_egress_get_conf(cf->cycle) == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "ngx_stream_egress_module needs "
                           "ngx_http_egress_module of the same build");
        return NGX_ERROR;
    }

    return NGX_OK;
}
