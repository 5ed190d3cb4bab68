
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_int_t ngx_http_egress_init_process(ngx_cycle_t *cycle);

static ngx_int_t ngx_http_egress_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_http_egress_postconfiguration(ngx_conf_t *cf);
static void *ngx_http_egress_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_egress_create_srv_conf(ngx_conf_t *cf);
static char *ngx_http_egress_merge_srv_conf(ngx_conf_t *cf, void *parent,
    void *child);
static void *ngx_http_egress_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_egress_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);


static ngx_command_t  ngx_http_egress_commands[] = {

    { ngx_string("egress_terminate"),
      NGX_HTTP_SRV_CONF|NGX_CONF_TAKE1,
      ngx_http_egress_terminate,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("egress_pass"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE1,
      ngx_http_egress_pass,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("egress_sandbox"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_egress_sandbox,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_egress_loc_conf_t, sandbox),
      NULL },

    { ngx_string("egress_self"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_egress_self,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_egress_module_ctx = {
    ngx_http_egress_preconfiguration,      /* preconfiguration */
    ngx_http_egress_postconfiguration,     /* postconfiguration */

    ngx_http_egress_create_main_conf,      /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_http_egress_create_srv_conf,       /* create server configuration */
    ngx_http_egress_merge_srv_conf,        /* merge server configuration */

    ngx_http_egress_create_loc_conf,       /* create location configuration */
    ngx_http_egress_merge_loc_conf         /* merge location configuration */
};


ngx_module_t  ngx_http_egress_module = {
    NGX_MODULE_V1,
    &ngx_http_egress_module_ctx,           /* module context */
    ngx_http_egress_commands,              /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_egress_init_process,          /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_egress_init_process(ngx_cycle_t *cycle)
{
    ngx_egress_conf_t  *ecf;

    if (ngx_process != NGX_PROCESS_WORKER
        && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    ecf = ngx_egress_get_conf(cycle);

    if (ecf == NULL || !ecf->parsed) {
        return NGX_OK;
    }

    if (ngx_http_egress_redact_init(cycle, ecf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_egress_pool_init(cycle, ecf);
}


static ngx_int_t
ngx_http_egress_preconfiguration(ngx_conf_t *cf)
{
    ngx_http_egress_main_conf_t  *emcf;

    if (ngx_http_egress_add_variables(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);

    emcf->http = ((ngx_http_conf_ctx_t *) cf->ctx)->loc_conf;

    if (emcf->egress == NULL) {
        return NGX_OK;
    }

    return ngx_http_egress_add_field_variables(cf, emcf);
}


static ngx_int_t
ngx_http_egress_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_handler_pt          *h;
    ngx_http_core_main_conf_t    *cmcf;
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);

    if (emcf->egress == NULL) {
        return NGX_OK;
    }

    if (ngx_http_egress_init_names(cf, emcf) != NGX_OK
        || ngx_http_egress_terminate_init(cf, emcf) != NGX_OK
        || ngx_http_egress_filter_init(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (emcf->self && ngx_egress_self_init(cf, emcf->egress) != NGX_OK) {
        return NGX_ERROR;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    /*
     * Not ACCESS: "satisfy any" overrides what is decided there, and
     * subrequests skip it (prototype P10).
     */

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_egress_handler;

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_egress_log_handler;

    return NGX_OK;
}


static void *
ngx_http_egress_create_main_conf(ngx_conf_t *cf)
{
    ngx_egress_conf_t            *ecf;
    ngx_http_egress_main_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_egress_main_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->egress = NULL;
     *     conf->http = NULL;
     *     conf->upstream = NULL;
     *     conf->self = 0;
     */

    ecf = ngx_egress_get_conf(cf->cycle);

    if (ecf && ecf->parsed) {
        conf->egress = ecf;
    }

    if (ngx_array_init(&conf->variables, cf->pool, 2, sizeof(ngx_int_t))
        != NGX_OK)
    {
        return NULL;
    }

    return conf;
}


static void *
ngx_http_egress_create_srv_conf(ngx_conf_t *cf)
{
    ngx_http_egress_srv_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_egress_srv_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->pass = 0;
     *     conf->self = 0;
     */

    conf->terminate = NGX_CONF_UNSET_UINT;

    return conf;
}


static char *
ngx_http_egress_merge_srv_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_egress_srv_conf_t *conf = child;

    ngx_conf_init_uint_value(conf->terminate, NGX_HTTP_EGRESS_TERMINATE_OFF);

    return NGX_CONF_OK;
}


static void *
ngx_http_egress_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_egress_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_egress_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->binding = NULL;
     *     conf->prefix = { 0, NULL };
     *     conf->exact = 0;
     *     conf->handler = NULL;
     *     conf->nheaders = 0;
     *     conf->chosen = 0;
     */

    conf->pass = NGX_CONF_UNSET;
    conf->sandbox = NGX_CONF_UNSET_PTR;

    return conf;
}


static char *
ngx_http_egress_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_egress_loc_conf_t *prev = parent;
    ngx_http_egress_loc_conf_t *conf = child;

    char  *rv;

    if (conf->sandbox == NGX_CONF_UNSET_PTR) {
        conf->sandbox_place = prev->sandbox_place;
    }

    ngx_conf_merge_ptr_value(conf->sandbox, prev->sandbox, NULL);

    rv = ngx_http_egress_sandbox_check(cf, conf);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    return ngx_http_egress_pass_check(cf, prev, conf);
}
