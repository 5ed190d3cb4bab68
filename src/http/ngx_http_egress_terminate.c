
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static int ngx_http_egress_servername(ngx_ssl_conn_t *ssl_conn, int *ad,
    void *arg);
static int ngx_http_egress_certificate(ngx_ssl_conn_t *ssl_conn, void *arg);
static ngx_egress_name_t *ngx_http_egress_sni(ngx_connection_t *c);
static ngx_int_t ngx_http_egress_name_record(ngx_connection_t *c,
    ngx_egress_name_t *name);

static char *ngx_http_egress_ssl(ngx_conf_t *cf, const char *name,
    const char *one);
static ngx_int_t ngx_http_egress_terminate_server(ngx_conf_t *cf,
    ngx_http_core_srv_conf_t *cscf, ngx_http_egress_srv_conf_t *escf);
static ngx_int_t ngx_http_egress_terminate_listens(ngx_conf_t *cf,
    ngx_http_conf_addr_t *addr);
static ngx_int_t ngx_http_egress_terminate_listener(ngx_conf_t *cf,
    ngx_http_conf_addr_t *addr, ngx_uint_t on,
    ngx_http_egress_srv_conf_t *first, ngx_http_egress_srv_conf_t *last);
static ngx_int_t ngx_http_egress_listener(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_http_conf_addr_t *addr);


/*
 * Names that are not bound end here, before anything is signed: alert
 * unrecognized_name (RFC 6066, 3).
 */

static int
ngx_http_egress_servername(ngx_ssl_conn_t *ssl_conn, int *ad, void *arg)
{
    ngx_int_t             rc;
    ngx_connection_t     *c;
    ngx_egress_name_t    *name;

    c = ngx_ssl_get_connection(ssl_conn);

    name = ngx_http_egress_sni(c);

    if (name == NULL) {
        c->ssl->handshake_rejected = 1;
        *ad = SSL_AD_UNRECOGNIZED_NAME;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }

    rc = ngx_http_egress_name_record(c, name);

    if (rc == NGX_ERROR) {
        *ad = SSL_AD_INTERNAL_ERROR;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }

    if (rc == NGX_DECLINED) {
        c->ssl->handshake_rejected = 1;
        *ad = SSL_AD_ACCESS_DENIED;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }

    return ngx_http_ssl_servername(ssl_conn, ad, NULL);
}


static ngx_egress_name_t *
ngx_http_egress_sni(ngx_connection_t *c)
{
    ngx_str_t           sni;
    const char         *servername;
    ngx_egress_host_t   host;
    ngx_egress_name_t  *name;
    ngx_egress_conf_t  *ecf;

    servername = SSL_get_servername(c->ssl->connection,
                                    TLSEXT_NAMETYPE_host_name);

    if (servername == NULL) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "handshake refused: no server name");
        return NULL;
    }

    sni.data = (u_char *) servername;
    sni.len = ngx_strlen(servername);

    if (ngx_egress_host_parse(&sni, NGX_EGRESS_HOST_NAME, NGX_EGRESS_PORT,
                              &host)
        != NGX_OK
        || host.family != AF_UNSPEC)
    {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "handshake refused: malformed server name");
        return NULL;
    }

    ecf = ngx_egress_get_conf((ngx_cycle_t *) ngx_cycle);

    name = ecf ? ngx_egress_name_find(ecf, host.name, host.len) : NULL;

    if (name == NULL || name->cert == NULL) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "handshake refused: \"%*s\" is not bound",
                      host.len, host.name);
        return NULL;
    }

    return name;
}


/*
 * A record is there where a gateway handed the connection over, and where the
 * callback has run before: after a HelloRetryRequest, which must not change
 * the name (RFC 8446, 4.1.2).  Either way the names must be the same.
 */

static ngx_int_t
ngx_http_egress_name_record(ngx_connection_t *c, ngx_egress_name_t *name)
{
    ngx_http_connection_t       *hc;
    ngx_egress_record_t         *record;
    ngx_http_egress_srv_conf_t  *escf;

    record = ngx_egress_record_get(c->pool);

    if (record) {
        if (record->name == name) {
            return NGX_OK;
        }

        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "handshake refused: \"%V\" is not the name that the "
                      "connection was opened for", &name->sn.str);

        return NGX_DECLINED;
    }

    hc = c->data;

    escf = ngx_http_get_module_srv_conf(hc->conf_ctx, ngx_http_egress_module);

    if (escf->terminate != NGX_HTTP_EGRESS_TERMINATE_ON) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "handshake refused: the connection did not come from "
                      "a gateway");
        return NGX_DECLINED;
    }

    record = ngx_egress_record_add(c->pool);
    if (record == NULL) {
        return NGX_ERROR;
    }

    record->via = NGX_EGRESS_VIA_DIRECT;
    record->name = name;

    return NGX_OK;
}


static int
ngx_http_egress_certificate(ngx_ssl_conn_t *ssl_conn, void *arg)
{
    ngx_connection_t     *c;
    ngx_egress_conf_t    *ecf;
    ngx_egress_record_t  *record;

    c = ngx_ssl_get_connection(ssl_conn);

    record = ngx_egress_record_get(c->pool);
    ecf = ngx_egress_get_conf((ngx_cycle_t *) ngx_cycle);

    if (record == NULL || record->name == NULL || record->name->cert == NULL
        || ecf == NULL)
    {
        return 0;
    }

    if (SSL_use_certificate(ssl_conn, record->name->cert) != 1
        || SSL_use_PrivateKey(ssl_conn, ecf->leaf_key) != 1)
    {
        ngx_ssl_error(NGX_LOG_ALERT, c->log, 0,
                      "SSL_use_certificate() failed");
        return 0;
    }

    if (sk_X509_num(ecf->chain) > 0
        && SSL_set1_chain(ssl_conn, ecf->chain) != 1)
    {
        ngx_ssl_error(NGX_LOG_ALERT, c->log, 0, "SSL_set1_chain() failed");
        return 0;
    }

    return 1;
}


char *
ngx_http_egress_terminate(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_egress_srv_conf_t *escf = conf;

    ngx_str_t                    *value;
    ngx_http_egress_main_conf_t  *emcf;

    if (escf->terminate != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        escf->terminate = NGX_HTTP_EGRESS_TERMINATE_OFF;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "on") == 0) {
        escf->terminate = NGX_HTTP_EGRESS_TERMINATE_ON;

    } else if (ngx_strcmp(value[1].data, "gateway") == 0) {
        escf->terminate = NGX_HTTP_EGRESS_TERMINATE_GATEWAY;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"egress_terminate\" "
                           "directive", &value[1]);
        return NGX_CONF_ERROR;
    }

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);

    if (emcf->egress == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_terminate\" needs an \"egress\" block "
                           "before the \"http\" block");
        return NGX_CONF_ERROR;
    }

    if (emcf->egress->ca_cert.data == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_terminate\" needs a \"ca\" in the "
                           "\"egress\" block");
        return NGX_CONF_ERROR;
    }

    ngx_egress_place(cf, &escf->place);

    /*
     * With ssl_reject_handshake nginx makes an SSL_CTX without a certificate;
     * should we be missing, each handshake is refused (prototype P5, P13).
     * A session that is resumed would bring its old name along.
     */

    if (ngx_http_egress_ssl(cf, "ssl_reject_handshake", "on") != NGX_CONF_OK
        || ngx_http_egress_ssl(cf, "ssl_session_cache", "off") != NGX_CONF_OK
        || ngx_http_egress_ssl(cf, "ssl_session_tickets", "off")
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_egress_ssl(ngx_conf_t *cf, const char *name, const char *one)
{
    void        *sscf;
    const char  *words[3];

    words[0] = name;
    words[1] = one;
    words[2] = NULL;

    sscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_ssl_module);

    return ngx_egress_command_run(cf, &ngx_http_ssl_module, sscf, words);
}


ngx_int_t
ngx_http_egress_terminate_init(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf)
{
    ngx_uint_t                    i, j;
    ngx_http_conf_port_t         *port;
    ngx_http_conf_addr_t         *addr;
    ngx_http_core_srv_conf_t    **cscfp;
    ngx_http_core_main_conf_t    *cmcf;
    ngx_http_egress_srv_conf_t   *escf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {

        escf = cscfp[i]->ctx->srv_conf[ngx_http_egress_module.ctx_index];

        if (escf->terminate == NGX_HTTP_EGRESS_TERMINATE_OFF) {
            continue;
        }

        if (ngx_http_egress_terminate_server(cf, cscfp[i], escf) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (cmcf->ports == NULL) {
        return NGX_OK;
    }

    port = cmcf->ports->elts;

    for (i = 0; i < cmcf->ports->nelts; i++) {

        addr = port[i].addrs.elts;

        for (j = 0; j < port[i].addrs.nelts; j++) {
            if (ngx_http_egress_terminate_listens(cf, &addr[j]) != NGX_OK
                || ngx_http_egress_listener(cf, emcf->egress, &addr[j])
                   != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_terminate_server(ngx_conf_t *cf,
    ngx_http_core_srv_conf_t *cscf, ngx_http_egress_srv_conf_t *escf)
{
    ngx_http_ssl_srv_conf_t  *sscf;

    sscf = cscf->ctx->srv_conf[ngx_http_ssl_module.ctx_index];

    if (sscf->certificates) {
        ngx_egress_place_error(cf, &escf->place,
                               "\"ssl_certificate\" beside "
                               "\"egress_terminate\"");
        return NGX_ERROR;
    }

    if (sscf->ssl.ctx == NULL) {
        ngx_egress_place_error(cf, &escf->place,
                               "\"egress_terminate\" needs a listener "
                               "with \"ssl\"");
        return NGX_ERROR;
    }

    sscf->reject_handshake = 0;

    /* nginx's own default leaves TLS 1.3 out up to 1.23.3 */

    SSL_CTX_set_min_proto_version(sscf->ssl.ctx, TLS1_2_VERSION);

    if ((sscf->protocols & ~NGX_CONF_BITMASK_SET)
        == (NGX_SSL_TLSv1|NGX_SSL_TLSv1_1|NGX_SSL_TLSv1_2))
    {
        SSL_CTX_set_max_proto_version(sscf->ssl.ctx, 0);
        SSL_CTX_clear_options(sscf->ssl.ctx, SSL_OP_NO_TLSv1_3);
    }

    /* not all versions do all of it for TLS 1.3 with the directives above */

    SSL_CTX_set_session_cache_mode(sscf->ssl.ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(sscf->ssl.ctx, SSL_OP_NO_TICKET);

    if (SSL_CTX_set_num_tickets(sscf->ssl.ctx, 0) != 1) {
        ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                      "SSL_CTX_set_num_tickets() failed");
        return NGX_ERROR;
    }

    SSL_CTX_set_cert_cb(sscf->ssl.ctx, ngx_http_egress_certificate, NULL);

    SSL_CTX_set_tlsext_servername_callback(sscf->ssl.ctx,
                                           ngx_http_egress_servername);

    return NGX_OK;
}


/*
 * The name callback is that of the listener's default server: either all
 * servers of a listener terminate, or none.
 */

static ngx_int_t
ngx_http_egress_terminate_listens(ngx_conf_t *cf, ngx_http_conf_addr_t *addr)
{
    ngx_uint_t                    i, on, ours;
    ngx_http_core_srv_conf_t    **cscfp, *odd;
    ngx_http_egress_srv_conf_t   *escf, *last, *first;

    on = 0;
    ours = 0;
    odd = NULL;
    last = NULL;
    first = NULL;
    cscfp = addr->servers.elts;

    for (i = 0; i < addr->servers.nelts; i++) {

        escf = cscfp[i]->ctx->srv_conf[ngx_http_egress_module.ctx_index];

        ours |= escf->pass;

        if (!cscfp[i]->ignore_invalid_headers
            || cscfp[i]->underscores_in_headers)
        {
            odd = cscfp[i];
        }

        if (escf->terminate != NGX_HTTP_EGRESS_TERMINATE_OFF) {
            last = escf;
            on++;

            if (first == NULL) {
                first = escf;
            }
        }
    }

    if ((on || ours) && odd) {

        /* lines before Host are read as the default server has it */

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"ignore_invalid_headers off\" or "
                      "\"underscores_in_headers on\" in server %s:%ui, on "
                      "listener \"%V\" of a server with \"egress_pass\"",
                      odd->file_name, odd->line, &addr->opt.addr_text);
        return NGX_ERROR;
    }

    return on ? ngx_http_egress_terminate_listener(cf, addr, on, first, last)
              : NGX_OK;
}


static ngx_int_t
ngx_http_egress_terminate_listener(ngx_conf_t *cf, ngx_http_conf_addr_t *addr,
    ngx_uint_t on, ngx_http_egress_srv_conf_t *first,
    ngx_http_egress_srv_conf_t *last)
{
    if (on != addr->servers.nelts) {
        ngx_egress_place_error(cf, &last->place,
                               "\"egress_terminate\" on some but not all "
                               "servers of listener \"%V\"",
                               &addr->opt.addr_text);
        return NGX_ERROR;
    }

    if (first->terminate != last->terminate) {
        ngx_egress_place_error(cf, &last->place,
                               "\"egress_terminate\" differs between servers "
                               "of listener \"%V\"", &addr->opt.addr_text);
        return NGX_ERROR;
    }

    if (!addr->opt.ssl) {
        ngx_egress_place_error(cf, &last->place,
                               "\"egress_terminate\" on listener \"%V\" "
                               "without \"ssl\"", &addr->opt.addr_text);
        return NGX_ERROR;
    }

    if (ngx_egress_listens_quic(&addr->opt)) {
        ngx_egress_place_error(cf, &last->place,
                               "\"egress_terminate\" on listener \"%V\" "
                               "with \"quic\"", &addr->opt.addr_text);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* gateways of the stream module must find what they lead to */

static ngx_int_t
ngx_http_egress_listener(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_http_conf_addr_t *addr)
{
    ngx_uint_t                    i;
    ngx_egress_listener_t        *listener;
    ngx_http_core_srv_conf_t     *cscf, **cscfp;
    ngx_http_egress_srv_conf_t   *escf;

    listener = ngx_array_push(&ecf->listeners);
    if (listener == NULL) {
        return NGX_ERROR;
    }

    cscf = addr->default_server;
    escf = cscf->ctx->srv_conf[ngx_http_egress_module.ctx_index];

    listener->sockaddr = addr->opt.sockaddr;
    listener->socklen = addr->opt.socklen;
    listener->proxy_protocol = addr->opt.proxy_protocol;
    listener->terminates = (escf->terminate != NGX_HTTP_EGRESS_TERMINATE_OFF);
    listener->ssl = addr->opt.ssl;
    listener->self = 0;

    cscfp = addr->servers.elts;

    for (i = 0; i < addr->servers.nelts; i++) {
        escf = cscfp[i]->ctx->srv_conf[ngx_http_egress_module.ctx_index];
        listener->self |= (escf->self != 0);
    }

    return NGX_OK;
}
