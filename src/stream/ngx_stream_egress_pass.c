
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static void ngx_stream_egress_hand_over(ngx_stream_session_t *s);
static ngx_listening_t *ngx_stream_egress_listening(ngx_addr_t *addr);

static char *ngx_stream_egress_address(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_str_t *text, ngx_uint_t self,
    ngx_addr_t *addr);
static char *ngx_stream_egress_parameters(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_stream_egress_srv_conf_t *escf);
static char *ngx_stream_egress_accept(ngx_conf_t *cf,
    ngx_stream_egress_srv_conf_t *escf, ngx_str_t *value);
static char *ngx_stream_egress_upstream(ngx_conf_t *cf,
    ngx_stream_egress_main_conf_t *emcf);
static char *ngx_stream_egress_proxy(ngx_conf_t *cf, ngx_egress_api_t *api,
    const char *name, const char *value);
static ngx_int_t ngx_stream_egress_server_check(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf, ngx_stream_egress_srv_conf_t *escf);
static ngx_uint_t ngx_stream_egress_ssl_preread(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf);
static ngx_int_t ngx_stream_egress_listen_check(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf, ngx_stream_egress_srv_conf_t *escf);
static ngx_int_t ngx_stream_egress_listen_error(ngx_conf_t *cf,
    ngx_stream_egress_srv_conf_t *escf, const char *what);


extern ngx_module_t  ngx_stream_proxy_module;


/* every word that could undo it: nginx then refuses a second one (P11) */

static struct {
    const char  *name;
    const char  *value;
} ngx_stream_egress_proxy_directives[] = {
    { "proxy_pass", NGX_STREAM_EGRESS_UPSTREAM },
    { "proxy_protocol", "off" },
    { "proxy_bind", "off" },
    { "proxy_half_close", "on" },
    { "proxy_next_upstream", "on" },
    { "proxy_ssl", "off" },
    { NULL, NULL }
};


static struct {
    const char  *name;
    ngx_uint_t   bit;
} ngx_stream_egress_protocols[] = {
    { "tls", NGX_STREAM_EGRESS_TLS },
    { "connect", NGX_STREAM_EGRESS_CONNECT },
    { "socks5", NGX_STREAM_EGRESS_SOCKS5 },
    { NULL, 0 }
};


void
ngx_stream_egress_handler(ngx_stream_session_t *s)
{
    ngx_stream_egress_ctx_t       *ctx;
    ngx_stream_egress_srv_conf_t  *escf;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);
    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_egress_module);

    if (ctx == NULL || !ctx->decided || ctx->denied) {
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
        return;
    }

    if (ctx->handover) {
        ngx_stream_egress_hand_over(s);
        return;
    }

    escf->proxy(s);
}


/*
 * The connection becomes one of the other listener, in this worker, as if it
 * had been accepted there (prototype P3).  Nothing of what is for it was read.
 * The session is left behind on the connection's pool, and writes no log line.
 */

static void
ngx_stream_egress_hand_over(ngx_stream_session_t *s)
{
    ngx_addr_t                    *addr;
    ngx_listening_t               *ls;
    ngx_connection_t              *c;
    ngx_stream_egress_ctx_t       *ctx;
    ngx_stream_egress_srv_conf_t  *escf;

    c = s->connection;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);
    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_egress_module);

    addr = ctx->self ? &escf->self : &escf->addr;

    ls = ngx_stream_egress_listening(addr);

    if (ls == NULL || (c->buffer && c->buffer->pos != c->buffer->last)) {
        ngx_log_error(NGX_LOG_ERR, c->log, 0,
                      "connection can't be handed over to \"%V\"",
                      &addr->name);
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
        return;
    }

    c->listening = ls;

    c->data = NULL;
    c->buffer = NULL;
    c->sent = 0;

    *c->log = ls->log;
    c->log->handler = NULL;
    c->log->data = NULL;
    c->log->connection = c->number;

    c->local_sockaddr = addr->sockaddr;
    c->local_socklen = addr->socklen;

    ls->handler(c);
}


static ngx_listening_t *
ngx_stream_egress_listening(ngx_addr_t *addr)
{
    ngx_uint_t        i;
    ngx_listening_t  *ls;

    ls = ngx_cycle->listening.elts;

    for (i = 0; i < ngx_cycle->listening.nelts; i++) {

        if (ls[i].type == SOCK_STREAM
            && ngx_cmp_sockaddr(ls[i].sockaddr, ls[i].socklen,
                                addr->sockaddr, addr->socklen, 1)
               == NGX_OK)
        {
            return &ls[i];
        }
    }

    return NULL;
}


char *
ngx_stream_egress_gateway(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_egress_srv_conf_t *escf = conf;

    char                           *rv;
    ngx_str_t                      *value;
    ngx_stream_core_srv_conf_t     *cscf;
    ngx_stream_egress_main_conf_t  *emcf;

    if (escf->gateway) {
        return "is duplicate";
    }

    emcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_egress_module);

    if (emcf->egress == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_gateway\" needs an \"egress\" block "
                           "before the \"stream\" block");
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    rv = ngx_stream_egress_address(cf, emcf->egress, &value[1], 0,
                                   &escf->addr);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    escf->gateway = 1;
    escf->accept = NGX_STREAM_EGRESS_ALL;

    ngx_egress_place(cf, &escf->place);

    rv = ngx_stream_egress_parameters(cf, emcf->egress, escf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    cscf = ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_core_module);

    if (cscf->handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_gateway %V\" beside another directive "
                           "that handles the content", &value[1]);
        return NGX_CONF_ERROR;
    }

    rv = ngx_stream_egress_upstream(cf, emcf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    escf->proxy = cscf->handler;
    cscf->handler = ngx_stream_egress_handler;

    return NGX_CONF_OK;
}


char *
ngx_stream_egress_sandbox(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_egress_main_conf_t  *emcf;

    emcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_egress_module);

    if (emcf->egress == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_sandbox\" needs an \"egress\" block "
                           "before the \"stream\" block");
        return NGX_CONF_ERROR;
    }

    if (emcf->egress->api->vouch_check(cf, emcf->egress) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_stream_set_complex_value_slot(cf, cmd, conf);
}


/* that of a listener, which is looked for once all blocks were read */

static char *
ngx_stream_egress_address(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_str_t *text, ngx_uint_t self, ngx_addr_t *addr)
{
    ngx_url_t              u;
    ngx_egress_gateway_t  *gateway;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = *text;
    u.no_resolve = 1;

    if (ngx_parse_url(cf->pool, &u) != NGX_OK || u.naddrs == 0 || u.no_port) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid address \"%V\": that of a listener of "
                           "the \"http\" block is needed", text);
        return NGX_CONF_ERROR;
    }

    *addr = u.addrs[0];

    gateway = ngx_array_push(&ecf->gateways);
    if (gateway == NULL) {
        return NGX_CONF_ERROR;
    }

    gateway->addr = *addr;
    gateway->self = self;

    ngx_egress_place(cf, &gateway->place);

    return NGX_CONF_OK;
}


static char *
ngx_stream_egress_parameters(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_stream_egress_srv_conf_t *escf)
{
    char        *rv;
    ngx_str_t   *value, self;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "self=", 5) == 0) {
            self.data = value[i].data + 5;
            self.len = value[i].len - 5;

            rv = escf->self.sockaddr
                 ? "has \"self=\" twice"
                 : ngx_stream_egress_address(cf, ecf, &self, 1, &escf->self);

        } else {
            rv = ngx_stream_egress_accept(cf, escf, &value[i]);
        }

        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_stream_egress_accept(ngx_conf_t *cf, ngx_stream_egress_srv_conf_t *escf,
    ngx_str_t *value)
{
    u_char      *p, *last, *end;
    ngx_uint_t   i;

    if (ngx_strncmp(value->data, "accept=", 7) != 0) {
        goto invalid;
    }

    escf->accept = 0;

    last = value->data + value->len;

    for (p = value->data + 7; p <= last; p = end + 1) {

        end = ngx_strlchr(p, last, ',');

        if (end == NULL) {
            end = last;
        }

        for (i = 0; ngx_stream_egress_protocols[i].name; i++) {
            if (ngx_strlen(ngx_stream_egress_protocols[i].name)
                == (size_t) (end - p)
                && ngx_strncmp(ngx_stream_egress_protocols[i].name, p,
                               end - p)
                   == 0)
            {
                break;
            }
        }

        if (ngx_stream_egress_protocols[i].name == NULL) {
            goto invalid;
        }

        escf->accept |= ngx_stream_egress_protocols[i].bit;
    }

    return NGX_CONF_OK;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"", value);

    return NGX_CONF_ERROR;
}


static char *
ngx_stream_egress_upstream(ngx_conf_t *cf,
    ngx_stream_egress_main_conf_t *emcf)
{
    char        *rv;
    ngx_url_t    u;
    ngx_uint_t   i;

    if (emcf->upstream == NULL) {

        ngx_memzero(&u, sizeof(ngx_url_t));

        ngx_str_set(&u.host, NGX_STREAM_EGRESS_UPSTREAM);
        u.no_port = 1;

        emcf->upstream = ngx_stream_upstream_add(cf, &u,
                                                 NGX_STREAM_UPSTREAM_CREATE);
        if (emcf->upstream == NULL) {
            return NGX_CONF_ERROR;
        }

        emcf->upstream->peer.init_upstream = ngx_stream_egress_init_upstream;
    }

    for (i = 0; ngx_stream_egress_proxy_directives[i].name; i++) {
        rv = ngx_stream_egress_proxy(cf, emcf->egress->api,
                                ngx_stream_egress_proxy_directives[i].name,
                                ngx_stream_egress_proxy_directives[i].value);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_stream_egress_proxy(ngx_conf_t *cf, ngx_egress_api_t *api,
    const char *name, const char *value)
{
    void        *pscf;
    const char  *words[3];

    if (ngx_strcmp(name, "proxy_ssl") == 0
        && api->command_find(&ngx_stream_proxy_module, name) == NULL)
    {
        /* a stream block that was built without TLS */

        return NGX_CONF_OK;
    }

    words[0] = name;
    words[1] = value;
    words[2] = NULL;

    pscf = ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_proxy_module);

    return api->command_run(cf, &ngx_stream_proxy_module, pscf, words);
}


ngx_int_t
ngx_stream_egress_gateway_check(ngx_conf_t *cf)
{
    ngx_uint_t                      i;
    ngx_stream_core_srv_conf_t    **cscfp;
    ngx_stream_core_main_conf_t    *cmcf;
    ngx_stream_egress_srv_conf_t   *escf;

    cmcf = ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module);

    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {

        escf = cscfp[i]->ctx->srv_conf[ngx_stream_egress_module.ctx_index];

        if (!escf->gateway) {
            continue;
        }

        if (ngx_stream_egress_server_check(cf, cscfp[i], escf) != NGX_OK
            || ngx_stream_egress_listen_check(cf, cscfp[i], escf) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_stream_egress_server_check(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf, ngx_stream_egress_srv_conf_t *escf)
{
    if (cscf->handler != ngx_stream_egress_handler) {
        return ngx_stream_egress_listen_error(cf, escf,
                               "beside another directive that handles the "
                               "content");
    }

    if (ngx_stream_egress_ssl_preread(cf, cscf)) {

        /* it reads what has to stay in the socket (prototype P2) */

        return ngx_stream_egress_listen_error(cf, escf,
                                              "beside \"ssl_preread on\"");
    }

    return NGX_OK;
}


/* the module may be missing, and its configuration is private */

static ngx_uint_t
ngx_stream_egress_ssl_preread(ngx_conf_t *cf, ngx_stream_core_srv_conf_t *cscf)
{
    u_char         *conf;
    ngx_uint_t      i;
    ngx_module_t   *module;
    ngx_command_t  *cmd;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (module->type != NGX_STREAM_MODULE
            || ngx_strcmp(module->name, "ngx_stream_ssl_preread_module") != 0)
        {
            continue;
        }

        for (cmd = module->commands; cmd->name.len; cmd++) {
            if (ngx_strcmp(cmd->name.data, "ssl_preread") == 0) {
                conf = cscf->ctx->srv_conf[module->ctx_index];

                return *(ngx_flag_t *) (conf + cmd->offset) != 0;
            }
        }
    }

    return 0;
}


static ngx_int_t
ngx_stream_egress_listen_check(ngx_conf_t *cf,
    ngx_stream_core_srv_conf_t *cscf, ngx_stream_egress_srv_conf_t *escf)
{
    ngx_egress_stream_listen_t  listen;

    ngx_egress_stream_listen_first(cf, cscf, &listen);

    while (ngx_egress_stream_listen_next(&listen)) {

        if (listen.type != SOCK_STREAM) {
            return ngx_stream_egress_listen_error(cf, escf,
                                                  "on a listener with "
                                                  "\"udp\"");
        }

        if (listen.ssl) {
            return ngx_stream_egress_listen_error(cf, escf,
                                                  "on a listener with "
                                                  "\"ssl\"");
        }

        if (listen.shared) {
            return ngx_stream_egress_listen_error(cf, escf,
                                                  "on a listener that "
                                                  "another server has too");
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_stream_egress_listen_error(ngx_conf_t *cf,
    ngx_stream_egress_srv_conf_t *escf, const char *what)
{
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"egress_gateway %V\" %s in %V:%ui",
                  &escf->addr.name, what, &escf->place.file,
                  escf->place.line);

    return NGX_ERROR;
}
