
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static void ngx_egress_record_cleanup(void *data);


ngx_egress_api_t  ngx_egress_api = {
    ngx_egress_reasons,
    ngx_egress_vias,
    ngx_egress_identify,
    ngx_egress_vouch,
    ngx_egress_vouch_check,
    ngx_egress_command_find,
    ngx_egress_command_run,
    ngx_egress_live_create,
    ngx_egress_live_join,
    ngx_egress_sever,
    ngx_egress_destination,
    ngx_egress_address_check,
    ngx_egress_resolved,
    ngx_egress_addrs_single,
    ngx_egress_addrs_next,
    ngx_egress_addrs_free,
    ngx_egress_loop_enter,
    ngx_egress_loop_leave,
    ngx_egress_limit_enter,
    ngx_egress_record_add,
    ngx_egress_audit_write,
    ngx_egress_audit_render,
    ngx_egress_audit_id,
    ngx_egress_client_hello_parse,
    ngx_egress_connect_parse,
    ngx_egress_socks5_methods,
    ngx_egress_socks5_password,
    ngx_egress_socks5_request
};


ngx_egress_record_t *
ngx_egress_record_get(ngx_pool_t *pool)
{
    ngx_pool_cleanup_t   *cln;
    ngx_egress_record_t  *record;

    for (cln = pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_egress_record_cleanup) {
            record = cln->data;

            return record->magic == NGX_EGRESS_MAGIC ? record : NULL;
        }
    }

    return NULL;
}


ngx_egress_record_t *
ngx_egress_record_add(ngx_pool_t *pool)
{
    ngx_pool_cleanup_t   *cln;
    ngx_egress_record_t  *record;

    record = ngx_egress_record_get(pool);

    if (record) {
        return record;
    }

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_egress_record_t));
    if (cln == NULL) {
        return NULL;
    }

    record = cln->data;

    ngx_memzero(record, sizeof(ngx_egress_record_t));
    record->magic = NGX_EGRESS_MAGIC;

    cln->handler = ngx_egress_record_cleanup;

    return record;
}


/* its address is what tells our record from other cleanups */

static void
ngx_egress_record_cleanup(void *data)
{
    ngx_egress_record_t *record = data;

    record->magic = 0;
}
