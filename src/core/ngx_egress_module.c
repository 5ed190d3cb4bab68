
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <sys/prctl.h>


static ngx_int_t ngx_egress_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_egress_init_process(ngx_cycle_t *cycle);

static void *ngx_egress_create_conf(ngx_cycle_t *cycle);
static char *ngx_egress_init_conf(ngx_cycle_t *cycle, void *conf);
static ngx_int_t ngx_egress_block_order(ngx_conf_t *cf, const char *name);
static ngx_int_t ngx_egress_block_done(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


static ngx_core_module_t  ngx_egress_module_ctx = {
    ngx_string("egress"),
    ngx_egress_create_conf,
    ngx_egress_init_conf
};


ngx_module_t  ngx_egress_module = {
    NGX_MODULE_V1,
    &ngx_egress_module_ctx,                /* module context */
    ngx_egress_commands,                   /* module directives */
    NGX_CORE_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_egress_init_module,                /* init module */
    ngx_egress_init_process,               /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/* all listeners are known now, and no worker runs yet */

static ngx_int_t
ngx_egress_init_module(ngx_cycle_t *cycle)
{
    ngx_egress_conf_t  *ecf;

    ecf = ngx_egress_get_conf(cycle);

    if (ecf == NULL || !ecf->parsed) {
        return NGX_OK;
    }

    ngx_egress_tripwire_init(ecf, cycle->log);

    return ngx_egress_destination_init(cycle, ecf);
}


/*
 * nginx makes workers dumpable after they gave up root, which would let
 * another process of the same user read their memory (prototype P7).
 */

static ngx_int_t
ngx_egress_init_process(ngx_cycle_t *cycle)
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

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "prctl(PR_SET_DUMPABLE, 0) failed");
        return NGX_ERROR;
    }

    ngx_egress_secret_init_worker(ecf, cycle->log);
    ngx_egress_limit_init_worker(ecf);

    if (ngx_egress_secret_shelves(cycle, ecf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_egress_live_init(cycle, ecf);
}


static void *
ngx_egress_create_conf(ngx_cycle_t *cycle)
{
    ngx_egress_conf_t  *ecf;

    ecf = ngx_pcalloc(cycle->pool, sizeof(ngx_egress_conf_t));
    if (ecf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     ecf->parsed = 0;
     *     ecf->name = { 0, NULL };
     *     ecf->ca_cert = { 0, NULL };
     *     ecf->ca_key = { 0, NULL };
     *     ecf->trusted_certificate = { 0, NULL };
     *     ecf->zone_size = 0;
     *     ecf->audit_off = 0;
     *     ecf->shelves = NULL;
     *     ecf->chain = NULL;
     *     ecf->leaf_key = NULL;
     *     ecf->resolver = NULL;
     *     ecf->sandboxes = { 0, NULL };
     *     ecf->boxes = NULL;
     *     ecf->unidentified_role = { 0, NULL };
     *     ecf->unidentified = NULL;
     *     ecf->self_url = { 0, NULL };
     *     ecf->ca_pem = { 0, NULL };
     *     ecf->bundle_pem = { 0, NULL };
     */

    ecf->magic = NGX_EGRESS_MAGIC;
    ecf->api = &ngx_egress_api;
    ecf->resolver_timeout = NGX_CONF_UNSET_MSEC;
    ecf->keepalive = NGX_CONF_UNSET_UINT;
    ecf->keepalive_idle = 60000;
    ecf->report = NGX_CONF_UNSET_UINT;
    ecf->leaf_validity = NGX_CONF_UNSET;
    ecf->secret_check = NGX_CONF_UNSET_MSEC;

    ngx_rbtree_init(&ecf->names, &ecf->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&ecf->binding_names, &ecf->binding_sentinel,
                    ngx_str_rbtree_insert_value);

    if (ngx_array_init(&ecf->sinks, cycle->pool, 1, sizeof(ngx_egress_sink_t))
        != NGX_OK
        || ngx_array_init(&ecf->bindings, cycle->pool, 4,
                          sizeof(ngx_egress_binding_t *))
           != NGX_OK
        || ngx_array_init(&ecf->secrets, cycle->pool, 4,
                          sizeof(ngx_egress_secret_t *))
           != NGX_OK
        || ngx_array_init(&ecf->fields, cycle->pool, 2,
                          sizeof(ngx_egress_field_t *))
           != NGX_OK
        || ngx_array_init(&ecf->roles, cycle->pool, 1,
                          sizeof(ngx_egress_role_t *))
           != NGX_OK
        || ngx_array_init(&ecf->listeners, cycle->pool, 4,
                          sizeof(ngx_egress_listener_t))
           != NGX_OK
        || ngx_array_init(&ecf->gateways, cycle->pool, 1,
                          sizeof(ngx_egress_gateway_t))
           != NGX_OK
        || ngx_array_init(&ecf->owns, cycle->pool, 4,
                          sizeof(ngx_egress_own_t))
           != NGX_OK)
    {
        return NULL;
    }

    return ecf;
}


/* runs after the whole file was read: "user" is known now */

static char *
ngx_egress_init_conf(ngx_cycle_t *cycle, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    if (!ecf->parsed) {
        return NGX_CONF_OK;
    }

    if (ngx_egress_secret_check_paths(cycle, ecf) != NGX_OK
        || ngx_egress_destination_check(cycle, ecf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char               *rv;
    ngx_egress_conf_t  *ecf;

    ecf = (ngx_egress_conf_t *) cf->cycle->conf_ctx[ngx_egress_module.index];

    if (ecf->parsed) {
        return "is duplicate";
    }

    if (ngx_egress_block_order(cf, "http") != NGX_OK
        || ngx_egress_block_order(cf, "stream") != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (RAND_bytes(ecf->hash_key, sizeof(ecf->hash_key)) != 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "RAND_bytes() failed");
        return NGX_CONF_ERROR;
    }

    rv = ngx_egress_conf_block(cf, ecf, NGX_EGRESS_CONF);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ngx_egress_block_done(cf, ecf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ecf->parsed = 1;

    return NGX_CONF_OK;
}


/*
 * The directives in "http" and "stream" look bindings up while they are read,
 * so that these blocks must come later.
 */

static ngx_int_t
ngx_egress_block_order(ngx_conf_t *cf, const char *name)
{
    ngx_uint_t          i;
    ngx_module_t       *module;
    ngx_core_module_t  *ctx;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (module->type != NGX_CORE_MODULE) {
            continue;
        }

        ctx = module->ctx;

        if (ctx->name.len == ngx_strlen(name)
            && ngx_strncmp(ctx->name.data, name, ctx->name.len) == 0
            && cf->cycle->conf_ctx[module->index] != NULL)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "the \"egress\" block must come before "
                               "the \"%s\" block", name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_block_done(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    static char  *bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
        NULL
    };

    ngx_uint_t       i;
    ngx_file_info_t  fi;

    if (ecf->name.data == NULL) {
        ngx_str_set(&ecf->name, "nginx-egress");
    }

    ngx_conf_init_value(ecf->leaf_validity, 397 * 24 * 60 * 60);
    ngx_conf_init_msec_value(ecf->secret_check, 1000);
    ngx_conf_init_msec_value(ecf->resolver_timeout, 5000);
    ngx_conf_init_uint_value(ecf->keepalive, 32);

    if (ecf->trusted_certificate.data) {
        if (ngx_conf_full_name(cf->cycle, &ecf->trusted_certificate, 1)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

    } else {

        for (i = 0; bundles[i]; i++) {
            if (ngx_file_info(bundles[i], &fi) != NGX_FILE_ERROR) {
                ecf->trusted_certificate.data = (u_char *) bundles[i];
                ecf->trusted_certificate.len = ngx_strlen(bundles[i]);
                break;
            }
        }
    }

    if (ngx_egress_audit_default(cf, ecf) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_egress_secret_each_check(cf, ecf);

    if (ngx_egress_policy_check(cf, ecf) != NGX_OK
        || ngx_egress_role_init(cf, ecf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_egress_zone_add(cf, ecf) != NGX_OK) {
        return NGX_ERROR;
    }

    /* at the end of the block: init_conf runs only after "http" (P13) */

    return ngx_egress_ca_mint(cf, ecf);
}


char *
ngx_egress_conf_block(ngx_conf_t *cf, void *object, ngx_uint_t type)
{
    char        *rv;
    void       **ctx;
    ngx_conf_t   save;

    ctx = ngx_pcalloc(cf->pool, ngx_max_module * sizeof(void *));
    if (ctx == NULL) {
        return NGX_CONF_ERROR;
    }

    ctx[ngx_egress_module.index] = object;

    save = *cf;

    cf->ctx = ctx;
    cf->cmd_type = type;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    return rv;
}
