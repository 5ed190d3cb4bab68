
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_COMPAT_H_INCLUDED_
#define _NGX_EGRESS_COMPAT_H_INCLUDED_


/*
 * Where the nginx API differs between the supported versions, 1.22.1 to
 * 1.31, the difference is named here, and only here.
 */


/* 1.23.0: repeated headers are linked by "next" */

#if (nginx_version >= 1023000)
#define ngx_egress_header_last(h)  (h)->next = NULL
#else
#define ngx_egress_header_last(h)
#endif


/* 1.29.0: a return code of its own for 103; no other code has this value */

#ifdef NGX_HTTP_UPSTREAM_EARLY_HINTS
#define ngx_egress_early_hints  NGX_HTTP_UPSTREAM_EARLY_HINTS
#else
#define ngx_egress_early_hints  41
#endif


/* 1.25.0: QUIC listeners */

#if (NGX_HTTP_V3)
#define ngx_egress_listens_quic(opt)  (opt)->quic
#else
#define ngx_egress_listens_quic(opt)  0
#endif


/*
 * 1.25.5: servers of the stream block share listeners.  "shared" tells that
 * another server has the same one; "ssl" and "type" are the listener's.
 */

#ifdef _NGX_STREAM_H_INCLUDED_

typedef struct {
    ngx_stream_core_main_conf_t  *cmcf;
    ngx_stream_core_srv_conf_t   *cscf;
    ngx_uint_t                    i;
    ngx_uint_t                    j;

    int                           type;
    ngx_uint_t                    ssl;
    ngx_uint_t                    shared;
} ngx_egress_stream_listen_t;


static ngx_inline void ngx_egress_stream_listen_first(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf, ngx_egress_stream_listen_t *listen);
static ngx_inline ngx_uint_t ngx_egress_stream_listen_next(
    ngx_egress_stream_listen_t *listen);


static ngx_inline void
ngx_egress_stream_listen_first(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf, ngx_egress_stream_listen_t *listen)
{
    listen->cmcf = ngx_stream_conf_get_module_main_conf(cf,
                                                    ngx_stream_core_module);
    listen->cscf = cscf;
    listen->i = 0;
    listen->j = 0;
}


#if (nginx_version >= 1025005)

static ngx_inline ngx_uint_t
ngx_egress_stream_listen_next(ngx_egress_stream_listen_t *listen)
{
    ngx_uint_t                    k;
    ngx_stream_conf_port_t       *port;
    ngx_stream_conf_addr_t       *addr;
    ngx_stream_core_srv_conf_t  **servers;

    if (listen->cmcf->ports == NULL) {
        return 0;
    }

    port = listen->cmcf->ports->elts;

    for ( /* void */ ; listen->i < listen->cmcf->ports->nelts; listen->i++) {

        addr = port[listen->i].addrs.elts;

        while (listen->j < port[listen->i].addrs.nelts) {

            servers = addr[listen->j].servers.elts;

            listen->type = port[listen->i].type;
            listen->ssl = addr[listen->j].opt.ssl;
            listen->shared = addr[listen->j].servers.nelts > 1;

            for (k = 0; k < addr[listen->j].servers.nelts; k++) {
                if (servers[k] == listen->cscf) {
                    listen->j++;
                    return 1;
                }
            }

            listen->j++;
        }

        listen->j = 0;
    }

    return 0;
}

#else

static ngx_inline ngx_uint_t
ngx_egress_stream_listen_next(ngx_egress_stream_listen_t *listen)
{
    ngx_stream_listen_t  *ls;

    ls = listen->cmcf->listen.elts;

    while (listen->i < listen->cmcf->listen.nelts) {

        if (ls[listen->i].ctx == listen->cscf->ctx) {
            listen->type = ls[listen->i].type;
            listen->ssl = ls[listen->i].ssl;
            listen->shared = 0;
            listen->i++;
            return 1;
        }

        listen->i++;
    }

    return 0;
}

#endif

#endif /* _NGX_STREAM_H_INCLUDED_ */


#endif /* _NGX_EGRESS_COMPAT_H_INCLUDED_ */
