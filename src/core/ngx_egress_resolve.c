
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_egress_addrs_t *ngx_egress_addrs_create(ngx_uint_t n,
    ngx_log_t *log);
static ngx_egress_addr_t *ngx_egress_addrs_set(ngx_egress_addrs_t *addrs,
    struct sockaddr *sockaddr, socklen_t socklen, in_port_t port);


ngx_uint_t
ngx_egress_resolved(ngx_egress_conf_t *ecf, ngx_resolver_ctx_t *rctx,
    in_port_t port, ngx_array_t *privates, ngx_uint_t level, ngx_log_t *log,
    ngx_egress_addrs_t **addrs)
{
    ngx_uint_t           i;
    ngx_egress_addr_t   *addr;
    ngx_egress_addrs_t  *judged;

    if (rctx->state) {
        ngx_log_error(level, log, 0,
                      "\"%V\" could not be resolved (%i: %s)",
                      &rctx->name, rctx->state,
                      ngx_resolver_strerror(rctx->state));

        return (rctx->state == NGX_RESOLVE_TIMEDOUT) ? NGX_EGRESS_DNS_TIMEOUT
                                                     : NGX_EGRESS_DNS_ERROR;
    }

    judged = ngx_egress_addrs_create(rctx->naddrs, log);
    if (judged == NULL) {
        return NGX_EGRESS_DNS_ERROR;
    }

    for (i = 0; i < rctx->naddrs; i++) {

        addr = ngx_egress_addrs_set(judged, rctx->addrs[i].sockaddr,
                                    rctx->addrs[i].socklen, port);

        /* one bad address does not spoil the others, nor is it ever tried */

        if (ngx_egress_address_check(ecf, &addr->sockaddr.sockaddr, privates,
                                     log)
            != NGX_EGRESS_ADDR_OK)
        {
            ngx_log_error(level, log, 0, "address %V of \"%V\" is refused",
                          &addr->name, &rctx->name);
            continue;
        }

        judged->n++;
    }

    if (judged->n == 0) {
        ngx_egress_addrs_free(judged);
        return NGX_EGRESS_ADDRESS_REFUSED;
    }

    *addrs = judged;

    return NGX_EGRESS_ALLOWED;
}


ngx_egress_addrs_t *
ngx_egress_addrs_single(struct sockaddr *sockaddr, socklen_t socklen,
    ngx_log_t *log)
{
    ngx_egress_addrs_t  *addrs;

    addrs = ngx_egress_addrs_create(1, log);
    if (addrs == NULL) {
        return NULL;
    }

    (void) ngx_egress_addrs_set(addrs, sockaddr, socklen,
                                ngx_inet_get_port(sockaddr));
    addrs->n = 1;

    return addrs;
}


/* room for so many, none of them there yet */

static ngx_egress_addrs_t *
ngx_egress_addrs_create(ngx_uint_t n, ngx_log_t *log)
{
    ngx_egress_addrs_t  *addrs;

    addrs = ngx_calloc(sizeof(ngx_egress_addrs_t)
                       + n * sizeof(ngx_egress_addr_t), log);
    if (addrs == NULL) {
        return NULL;
    }

    addrs->refs = 1;
    addrs->addr = (ngx_egress_addr_t *) (addrs + 1);

    return addrs;
}


/* the first one behind those that are there; it does not count yet */

static ngx_egress_addr_t *
ngx_egress_addrs_set(ngx_egress_addrs_t *addrs, struct sockaddr *sockaddr,
    socklen_t socklen, in_port_t port)
{
    ngx_egress_addr_t  *addr;

    addr = &addrs->addr[addrs->n];

    ngx_memcpy(&addr->sockaddr, sockaddr, socklen);
    addr->socklen = socklen;

    ngx_inet_set_port(&addr->sockaddr.sockaddr, port);

    addr->name.data = addr->text;
    addr->name.len = ngx_sock_ntop(&addr->sockaddr.sockaddr, socklen,
                                   addr->text, NGX_SOCKADDR_STRLEN, 1);

    return addr;
}


ngx_int_t
ngx_egress_addrs_next(ngx_egress_conf_t *ecf, ngx_egress_addrs_t *addrs,
    ngx_uint_t *current, ngx_array_t *privates, ngx_peer_connection_t *pc)
{
    ngx_egress_addr_t  *addr;

    while (addrs && *current < addrs->n) {

        addr = &addrs->addr[(*current)++];

        if (ngx_egress_address_check(ecf, &addr->sockaddr.sockaddr, privates,
                                     pc->log)
            != NGX_EGRESS_ADDR_OK)
        {
            ngx_log_error(NGX_LOG_ERR, pc->log, 0,
                          "address %V is refused", &addr->name);
            continue;
        }

        pc->sockaddr = &addr->sockaddr.sockaddr;
        pc->socklen = addr->socklen;
        pc->name = &addr->name;

        return NGX_OK;
    }

    return NGX_BUSY;
}


void
ngx_egress_addrs_free(ngx_egress_addrs_t *addrs)
{
    if (addrs && --addrs->refs == 0) {
        ngx_free(addrs);
    }
}
