
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_postconfiguration(ngx_conf_t *cf);
static void *ngx_stream_egress_create_main_conf(ngx_conf_t *cf);
static void *ngx_stream_egress_create_srv_conf(ngx_conf_t *cf);


static ngx_command_t  ngx_stream_egress_commands[] = {

    { ngx_string("egress_gateway"),
      NGX_STREAM_SRV_CONF|NGX_CONF_TAKE123,
      ngx_stream_egress_gateway,
      NGX_STREAM_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("egress_sandbox"),
      NGX_STREAM_SRV_CONF|NGX_CONF_TAKE1,
      ngx_stream_egress_sandbox,
      NGX_STREAM_SRV_CONF_OFFSET,
      offsetof(ngx_stream_egress_srv_conf_t, sandbox),
      NULL },

      ngx_null_command
};


static ngx_stream_module_t  ngx_stream_egress_module_ctx = {
    ngx_stream_egress_add_variables,       /* preconfiguration */
    ngx_stream_egress_postconfiguration,   /* postconfiguration */

    ngx_stream_egress_create_main_conf,    /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_stream_egress_create_srv_conf,     /* create server configuration */
    NULL                                   /* merge server configuration */
};


ngx_module_t  ngx_stream_egress_module = {
    NGX_MODULE_V1,
    &ngx_stream_egress_module_ctx,         /* module context */
    ngx_stream_egress_commands,            /* module directives */
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
    ngx_stream_handler_pt        *h;
    ngx_stream_core_main_conf_t  *cmcf;

    if (ngx_egress_get_conf(cf->cycle) == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "ngx_stream_egress_module needs "
                           "ngx_http_egress_module of the same build");
        return NGX_ERROR;
    }

    if (ngx_stream_egress_gateway_check(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_STREAM_PREREAD_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_stream_egress_preread_handler;

    h = ngx_array_push(&cmcf->phases[NGX_STREAM_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_stream_egress_log_handler;

    return NGX_OK;
}


static void *
ngx_stream_egress_create_main_conf(ngx_conf_t *cf)
{
    ngx_egress_conf_t              *ecf;
    ngx_stream_egress_main_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_stream_egress_main_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->egress = NULL;
     *     conf->upstream = NULL;
     */

    ecf = ngx_egress_get_conf(cf->cycle);

    if (ecf && ecf->parsed) {
        conf->egress = ecf;
    }

    return conf;
}


static void *
ngx_stream_egress_create_srv_conf(ngx_conf_t *cf)
{
    ngx_stream_egress_srv_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_stream_egress_srv_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->gateway = 0;
     *     conf->accept = 0;
     *     conf->proxy = NULL;
     *     conf->self = { NULL };
     *     conf->sandbox = NULL;
     */

    return conf;
}
