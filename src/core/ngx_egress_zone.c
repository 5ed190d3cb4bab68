
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_int_t ngx_egress_zone_init(ngx_shm_zone_t *shm_zone, void *data);


ngx_int_t
ngx_egress_zone_add(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    size_t     need;
    ngx_str_t  name;

    /* the slab allocator's own pages, and those of the shared structure */

    need = 8 * ngx_pagesize + ngx_align(sizeof(ngx_egress_shared_t),
                                        ngx_pagesize);

    if (ecf->zone_size == 0) {
        ecf->zone_size = need;

    } else if (ecf->zone_size < need) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "zone of %uz bytes is too small, "
                           "%uz bytes are needed", ecf->zone_size, need);
        return NGX_ERROR;
    }

    ngx_str_set(&name, "egress");

    ecf->zone = ngx_shared_memory_add(cf, &name, ecf->zone_size,
                                      &ngx_egress_module);
    if (ecf->zone == NULL) {
        return NGX_ERROR;
    }

    ecf->zone->init = ngx_egress_zone_init;
    ecf->zone->data = ecf;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_egress_conf_t  *old = data;

    ngx_egress_conf_t  *ecf;
    ngx_slab_pool_t    *shpool;

    ecf = shm_zone->data;

    if (old) {
        ecf->shared = old->shared;
        return NGX_OK;
    }

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (shm_zone->shm.exists) {
        ecf->shared = shpool->data;
        return NGX_OK;
    }

    ecf->shared = ngx_slab_calloc(shpool, sizeof(ngx_egress_shared_t));
    if (ecf->shared == NULL) {
        return NGX_ERROR;
    }

    if (RAND_bytes(ecf->shared->loop_key, sizeof(ecf->shared->loop_key))
        != 1
        || RAND_bytes(ecf->shared->counts.key,
                      sizeof(ecf->shared->counts.key))
           != 1
        || RAND_bytes(ecf->shared->tripwire.key,
                      sizeof(ecf->shared->tripwire.key))
           != 1)
    {
        return NGX_ERROR;
    }

    shpool->data = ecf->shared;

    return NGX_OK;
}
