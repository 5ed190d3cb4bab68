
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


#define NGX_HTTP_EGRESS_BUFFER_SIZE  32768
#define NGX_HTTP_EGRESS_BUFFERS      8
#define NGX_HTTP_EGRESS_TIMEOUT      600000

/* what we set where the operator did not */
#define NGX_HTTP_EGRESS_CHOSEN_BODY          0x01
#define NGX_HTTP_EGRESS_CHOSEN_BUFFER        0x02
#define NGX_HTTP_EGRESS_CHOSEN_BUFFERS       0x04
#define NGX_HTTP_EGRESS_CHOSEN_READ_TIMEOUT  0x08
#define NGX_HTTP_EGRESS_CHOSEN_SEND_TIMEOUT  0x10

/* what some binding has */
#define NGX_HTTP_EGRESS_USE_UPGRADE          0x01
#define NGX_HTTP_EGRESS_USE_ENCODING         0x02


static char *ngx_http_egress_pass_location(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *elcf, ngx_http_core_loc_conf_t *clcf,
    ngx_str_t *name);
static char *ngx_http_egress_pass_upstream(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf);
static char *ngx_http_egress_pass_proxy(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *elcf, ngx_egress_conf_t *ecf);
static char *ngx_http_egress_pass_headers(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *elcf, ngx_egress_conf_t *ecf);
static char *ngx_http_egress_pass_fields(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *elcf, ngx_egress_conf_t *ecf);
static ngx_uint_t ngx_http_egress_pass_uses(ngx_egress_conf_t *ecf);
static char *ngx_http_egress_proxy(ngx_conf_t *cf, const char *name,
    const char *one, const char *two);
static void *ngx_http_egress_proxy_field(ngx_conf_t *cf, const char *name);
static char *ngx_http_egress_pass_alone(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *conf, ngx_uint_t handler);
static const char *ngx_http_egress_pass_changed(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *conf);
static const char *ngx_http_egress_pass_added(ngx_conf_t *cf);
static const char *ngx_http_egress_pass_server(ngx_conf_t *cf);
static ngx_uint_t ngx_http_egress_pass_chosen(void **loc_conf);
static void ngx_http_egress_pass_defaults(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *conf);


extern ngx_module_t  ngx_http_proxy_module;


/* every word of it, defaults too: nginx then refuses a second one (P11) */

static struct {
    const char  *name;
    const char  *value;
} ngx_http_egress_proxy_directives[] = {
    { "proxy_pass", "https://" NGX_HTTP_EGRESS_UPSTREAM },
    { "proxy_ssl_verify", "on" },
    { "proxy_ssl_verify_depth", "5" },
    { "proxy_ssl_server_name", "on" },
    { "proxy_ssl_name", "$egress_upstream_name" },
    { "proxy_ssl_session_reuse", "on" },
    { "proxy_ssl_ciphers", "DEFAULT" },
    { "proxy_http_version", "1.1" },
    { "proxy_request_buffering", "off" },
    { "proxy_buffering", "off" },
    { "proxy_redirect", "off" },
    { "proxy_intercept_errors", "off" },
    { "proxy_pass_request_body", "on" },
    { "proxy_pass_request_headers", "on" },
    { "proxy_ignore_client_abort", "off" },
    { "proxy_store", "off" },
    { "proxy_pass_trailers", "off" },
#if (NGX_HTTP_CACHE)
    { "proxy_cache", "off" },
#endif
    { NULL, NULL }
};


/* a variable costs each request something: only where a binding needs it */

static struct {
    const char  *name;
    const char  *value;
    ngx_uint_t   use;
} ngx_http_egress_set_headers[] = {
    { "Host", "$egress_upstream_authority", 0 },
    { "Connection", "$egress_upstream_connection",
      NGX_HTTP_EGRESS_USE_UPGRADE },
    { "Upgrade", "$egress_upstream_upgrade", NGX_HTTP_EGRESS_USE_UPGRADE },
    { "Accept-Encoding", "$egress_upstream_encoding",
      NGX_HTTP_EGRESS_USE_ENCODING },
    { NULL, NULL, 0 }
};


static const char  *ngx_http_egress_ignored_headers[] = {
    "X-Accel-Redirect",
    "X-Accel-Expires",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
    "Expires",
    "Cache-Control",
    "Set-Cookie",
    "Vary",
    NULL
};


char *
ngx_http_egress_pass(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_egress_loc_conf_t *elcf = conf;

    char                         *rv;
    ngx_str_t                    *value;
    ngx_http_conf_ctx_t          *ctx;
    ngx_http_core_loc_conf_t     *clcf;
    ngx_http_core_srv_conf_t     *cscf;
    ngx_http_egress_srv_conf_t   *escf;
    ngx_http_egress_main_conf_t  *emcf;

    if (elcf->pass != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);
    escf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_egress_module);
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (emcf->egress == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_pass\" needs an \"egress\" block "
                           "before the \"http\" block");
        return NGX_CONF_ERROR;
    }

    elcf->pass = 1;
    escf->pass = 1;

    ctx = cf->ctx;
    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    elcf->chosen = ngx_http_egress_pass_chosen(ctx->loc_conf)
                   | ngx_http_egress_pass_chosen(cscf->ctx->loc_conf);

    ngx_egress_place(cf, &elcf->place);

    if (cf->args->nelts == 2) {
        value = cf->args->elts;

        rv = ngx_http_egress_pass_location(cf, elcf, clcf, &value[1]);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    rv = ngx_http_egress_pass_upstream(cf, emcf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    rv = ngx_http_egress_pass_proxy(cf, elcf, emcf->egress);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    elcf->handler = clcf->handler;

    return NGX_CONF_OK;
}


/* base-URL mode: the location names the binding, and its prefix is cut off */

static char *
ngx_http_egress_pass_location(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *elcf, ngx_http_core_loc_conf_t *clcf,
    ngx_str_t *name)
{
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);

    elcf->binding = ngx_egress_binding_find(emcf->egress, name);

    if (elcf->binding == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown binding \"%V\"", name);
        return NGX_CONF_ERROR;
    }

    if (clcf->named
#if (NGX_PCRE)
        || clcf->regex
#endif
       )
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_pass %V\" is allowed in locations by "
                           "prefix or \"=\" only", name);
        return NGX_CONF_ERROR;
    }

    elcf->prefix = clcf->name;
    elcf->exact = clcf->exact_match;

    return NGX_CONF_OK;
}


static char *
ngx_http_egress_pass_upstream(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf)
{
    ngx_url_t  u;

    if (emcf->upstream) {
        return NGX_CONF_OK;
    }

    ngx_memzero(&u, sizeof(ngx_url_t));

    ngx_str_set(&u.host, NGX_HTTP_EGRESS_UPSTREAM);
    u.no_port = 1;

    emcf->upstream = ngx_http_upstream_add(cf, &u, NGX_HTTP_UPSTREAM_CREATE);
    if (emcf->upstream == NULL) {
        return NGX_CONF_ERROR;
    }

    emcf->upstream->peer.init_upstream = ngx_http_egress_init_upstream;

    return NGX_CONF_OK;
}


static char *
ngx_http_egress_pass_proxy(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *elcf,
    ngx_egress_conf_t *ecf)
{
    char        *rv;
    ngx_uint_t   i;

    for (i = 0; ngx_http_egress_proxy_directives[i].name; i++) {
        rv = ngx_http_egress_proxy(cf,
                                   ngx_http_egress_proxy_directives[i].name,
                                   ngx_http_egress_proxy_directives[i].value,
                                   NULL);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    for (i = 0; ngx_http_egress_ignored_headers[i]; i++) {
        rv = ngx_http_egress_proxy(cf, "proxy_ignore_headers",
                                   ngx_http_egress_ignored_headers[i], NULL);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    rv = ngx_http_egress_proxy(cf, "proxy_ssl_protocols", "TLSv1.2",
                               "TLSv1.3");
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    /* the peer gives no second try to a request that was sent */

    rv = ngx_http_egress_proxy(cf, "proxy_next_upstream", "error", "timeout");
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ecf->trusted_certificate.data) {
        rv = ngx_http_egress_proxy(cf, "proxy_ssl_trusted_certificate",
                                   (char *) ecf->trusted_certificate.data,
                                   NULL);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return ngx_http_egress_pass_headers(cf, elcf, ecf);
}


static char *
ngx_http_egress_pass_headers(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *elcf,
    ngx_egress_conf_t *ecf)
{
    char        *rv;
    u_char      *p;
    ngx_uint_t   i, use;
    const char  *value;

    /*
     * Without a Connection upstream connections stay open; the last three
     * are empty, and so not sent, unless an upgrade was asked for, or answers
     * are not looked at.
     */

    use = ngx_http_egress_pass_uses(ecf);

    for (i = 0; ngx_http_egress_set_headers[i].name; i++) {

        value = ngx_http_egress_set_headers[i].value;

        if (ngx_http_egress_set_headers[i].use & ~use) {
            value = "";
        }

        rv = ngx_http_egress_proxy(cf, "proxy_set_header",
                                   ngx_http_egress_set_headers[i].name,
                                   value);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    elcf->nheaders = i;

    p = ngx_pnalloc(cf->pool, sizeof("1.1 ") + ecf->name.len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_sprintf(p, "1.1 %V%Z", &ecf->name);

    rv = ngx_http_egress_proxy(cf, "proxy_set_header", "Via", (char *) p);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    elcf->nheaders++;

    return ngx_http_egress_pass_fields(cf, elcf, ecf);
}


/* one for each field that a binding names, whatever the client sent */

static char *
ngx_http_egress_pass_fields(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *elcf,
    ngx_egress_conf_t *ecf)
{
    char                 *rv;
    u_char               *p, variable[sizeof("$egress_field_") + NGX_INT_T_LEN];
    ngx_uint_t            i;
    ngx_egress_field_t  **fields;

    fields = ecf->fields.elts;

    for (i = 0; i < ecf->fields.nelts; i++) {

        p = ngx_pnalloc(cf->pool, fields[i]->name.len + 1);
        if (p == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_cpystrn(p, fields[i]->name.data, fields[i]->name.len + 1);

        ngx_sprintf(variable, "$egress_field_%ui%Z", i);

        rv = ngx_http_egress_proxy(cf, "proxy_set_header", (char *) p,
                                   (char *) variable);
        if (rv != NGX_CONF_OK) {
            return rv;
        }

        elcf->nheaders++;
    }

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_http_egress_pass_uses(ngx_egress_conf_t *ecf)
{
    ngx_uint_t              i, use;
    ngx_egress_binding_t  **bindings;

    use = 0;
    bindings = ecf->bindings.elts;

    for (i = 0; i < ecf->bindings.nelts; i++) {

        if (bindings[i]->upgrade) {
            use |= NGX_HTTP_EGRESS_USE_UPGRADE;
        }

        if (!bindings[i]->redact || bindings[i]->secrets.nelts == 0) {
            use |= NGX_HTTP_EGRESS_USE_ENCODING;
        }
    }

    return use;
}


static char *
ngx_http_egress_proxy(ngx_conf_t *cf, const char *name, const char *one,
    const char *two)
{
    void        *plcf;
    const char  *words[4];

    if (ngx_strcmp(name, "proxy_pass_trailers") == 0
        && ngx_egress_command_find(&ngx_http_proxy_module, name) == NULL)
    {
        /* 1.27.2: before that nothing of a trailer is passed */

        return NGX_CONF_OK;
    }

    words[0] = name;
    words[1] = one;
    words[2] = two;
    words[3] = NULL;

    plcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_proxy_module);

    return ngx_egress_command_run(cf, &ngx_http_proxy_module, plcf, words);
}


/* where a directive with a slot handler keeps its value, by its own table */

static void *
ngx_http_egress_proxy_field(ngx_conf_t *cf, const char *name)
{
    u_char         *plcf;
    ngx_command_t  *cmd;

    plcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_proxy_module);
    cmd = ngx_egress_command_find(&ngx_http_proxy_module, name);

    return (cmd && cmd->offset) ? plcf + cmd->offset : NULL;
}


char *
ngx_http_egress_pass_check(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *prev,
    ngx_http_egress_loc_conf_t *conf)
{
    char                        *rv;
    ngx_http_core_loc_conf_t    *clcf;
    ngx_http_egress_srv_conf_t  *escf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* "if" and "limit_except" are nameless locations inside of ours (P11) */

    if (conf->pass == NGX_CONF_UNSET && clcf->noname && prev->pass == 1) {
        *conf = *prev;

        return ngx_http_egress_pass_alone(cf, conf, clcf->handler
                                                    && clcf->handler
                                                       != conf->handler);
    }

    ngx_conf_init_value(conf->pass, 0);

    if (!conf->pass) {
        return NGX_CONF_OK;
    }

    escf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_egress_module);

    if (conf->binding == NULL
        && escf->terminate == NGX_HTTP_EGRESS_TERMINATE_OFF)
    {
        ngx_egress_place_error(cf, &conf->place,
                               "\"egress_pass\" without a binding needs "
                               "\"egress_terminate\" in its server");
        return NGX_CONF_ERROR;
    }

    if (conf->binding && escf->terminate != NGX_HTTP_EGRESS_TERMINATE_OFF) {
        ngx_egress_place_error(cf, &conf->place,
                               "\"egress_pass %V\" is not allowed beside "
                               "\"egress_terminate\": the name that the "
                               "client was shown must choose the binding",
                               &conf->binding->name);
        return NGX_CONF_ERROR;
    }

    rv = ngx_http_egress_pass_alone(cf, conf, clcf->handler != conf->handler);

    if (rv == NGX_CONF_OK) {
        ngx_http_egress_pass_defaults(cf, conf);
    }

    return rv;
}


/* nothing may stand beside it that undoes what it is for */

static char *
ngx_http_egress_pass_alone(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *conf,
    ngx_uint_t handler)
{
    const char  *what;

    what = handler ? "another content handler"
                   : ngx_http_egress_pass_changed(cf, conf);

    if (what == NULL) {
        what = ngx_http_egress_pass_added(cf);
    }

    if (what == NULL) {
        what = ngx_http_egress_pass_server(cf);
    }

    if (what == NULL) {
        return NGX_CONF_OK;
    }

    ngx_egress_place_error(cf, &conf->place,
                           "\"%s\" is not allowed beside \"egress_pass\"",
                           what);

    return NGX_CONF_ERROR;
}


/*
 * What nginx does not detect by itself (prototype2 P11): other values than we
 * have set, and directives that must not be there at all.
 */

static const char *
ngx_http_egress_pass_changed(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *conf)
{
    ngx_uint_t                   *bits, next;
    ngx_array_t                 **headers;
    ngx_http_upstream_conf_t     *ucf;
    ngx_http_egress_main_conf_t  *emcf;

    /* the first member of the proxy module's configuration */

    ucf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_proxy_module);
    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);

    if (ucf->upstream != emcf->upstream) {
        return "proxy_pass";
    }

    if (ucf->ssl_verify != 1) {
        return "proxy_ssl_verify";
    }

    headers = ngx_http_egress_proxy_field(cf, "proxy_set_header");

    if (headers == NULL || *headers == NULL
        || (*headers)->nelts != conf->nheaders)
    {
        return "proxy_set_header";
    }

    bits = ngx_http_egress_proxy_field(cf, "proxy_ssl_protocols");

    if (bits == NULL
        || (*bits & ~NGX_CONF_BITMASK_SET)
           != (NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3))
    {
        return "proxy_ssl_protocols";
    }

    next = ucf->next_upstream & ~NGX_CONF_BITMASK_SET;

    if (next & ~(NGX_HTTP_UPSTREAM_FT_ERROR|NGX_HTTP_UPSTREAM_FT_TIMEOUT
                 |NGX_HTTP_UPSTREAM_FT_OFF))
    {
        return "proxy_next_upstream";
    }

    return NULL;
}


static const char *
ngx_http_egress_pass_added(ngx_conf_t *cf)
{
    void                      **pointer;
    ngx_str_t                  *str;
    ngx_http_upstream_conf_t   *ucf;

    ucf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_proxy_module);

    if (ucf->local) {
        return "proxy_bind";
    }

    if (ucf->ssl_certificate) {
        return "proxy_ssl_certificate";
    }

    if (ucf->store) {
        return "proxy_store";
    }

#if (NGX_HTTP_CACHE)
    if (ucf->cache) {
        return "proxy_cache";
    }
#endif

    if (ucf->intercept_errors) {
        return "proxy_intercept_errors";
    }

    pointer = ngx_http_egress_proxy_field(cf, "proxy_method");

    if (pointer == NULL || *pointer) {
        return "proxy_method";
    }

    pointer = ngx_http_egress_proxy_field(cf, "proxy_ssl_conf_command");

    if (pointer == NULL || *pointer) {
        return "proxy_ssl_conf_command";
    }

    str = ngx_http_egress_proxy_field(cf, "proxy_set_body");

    if (str == NULL || str->len) {
        return "proxy_set_body";
    }

    return NULL;
}


static const char *
ngx_http_egress_pass_server(ngx_conf_t *cf)
{
    u_char                     *conf;
    ngx_uint_t                  i;
    ngx_module_t               *module;
    ngx_command_t              *cmd;
    ngx_http_conf_ctx_t        *ctx;
    ngx_http_core_srv_conf_t   *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    if (!cscf->ignore_invalid_headers) {
        return "ignore_invalid_headers off";
    }

    if (cscf->underscores_in_headers) {
        return "underscores_in_headers on";
    }

    /* SSI would make an upstream's text into requests of ours */

    ctx = cf->ctx;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (module->type != NGX_HTTP_MODULE
            || ngx_strcmp(module->name, "ngx_http_ssi_filter_module") != 0)
        {
            continue;
        }

        cmd = ngx_egress_command_find(module, "ssi");
        conf = ctx->loc_conf[module->ctx_index];

        if (cmd && conf && *(ngx_flag_t *) (conf + cmd->offset)) {
            return "ssi on";
        }
    }

    return NULL;
}


/* which of the values are written at this level, before it is merged */

static ngx_uint_t
ngx_http_egress_pass_chosen(void **loc_conf)
{
    ngx_uint_t                 chosen;
    ngx_http_upstream_conf_t  *ucf;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = loc_conf[ngx_http_core_module.ctx_index];
    ucf = loc_conf[ngx_http_proxy_module.ctx_index];

    chosen = 0;

    if (clcf->client_max_body_size != NGX_CONF_UNSET) {
        chosen |= NGX_HTTP_EGRESS_CHOSEN_BODY;
    }

    if (ucf->buffer_size != NGX_CONF_UNSET_SIZE) {
        chosen |= NGX_HTTP_EGRESS_CHOSEN_BUFFER;
    }

    if (ucf->bufs.num) {
        chosen |= NGX_HTTP_EGRESS_CHOSEN_BUFFERS;
    }

    if (ucf->read_timeout != NGX_CONF_UNSET_MSEC) {
        chosen |= NGX_HTTP_EGRESS_CHOSEN_READ_TIMEOUT;
    }

    if (ucf->send_timeout != NGX_CONF_UNSET_MSEC) {
        chosen |= NGX_HTTP_EGRESS_CHOSEN_SEND_TIMEOUT;
    }

    return chosen;
}


/*
 * Values for agents and git, where nothing was written: long answers, long
 * pauses and bodies of any size.  The "http" level is never merged itself, so
 * that it tells what was written there; other values than nginx's own were
 * written below.
 */

static void
ngx_http_egress_pass_defaults(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *conf)
{
    ngx_uint_t                    chosen;
    ngx_http_upstream_conf_t     *ucf;
    ngx_http_core_loc_conf_t     *clcf;
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    ucf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_proxy_module);

    chosen = conf->chosen | ngx_http_egress_pass_chosen(emcf->http);

    if (!(chosen & NGX_HTTP_EGRESS_CHOSEN_BODY)
        && clcf->client_max_body_size == 1 * 1024 * 1024)
    {
        clcf->client_max_body_size = 0;
    }

    if (!(chosen & NGX_HTTP_EGRESS_CHOSEN_BUFFER)
        && ucf->buffer_size == ngx_pagesize)
    {
        ucf->buffer_size = NGX_HTTP_EGRESS_BUFFER_SIZE;
    }

    if (!(chosen & NGX_HTTP_EGRESS_CHOSEN_BUFFERS)
        && ucf->bufs.num == 8 && ucf->bufs.size == ngx_pagesize)
    {
        ucf->bufs.num = NGX_HTTP_EGRESS_BUFFERS;
        ucf->bufs.size = NGX_HTTP_EGRESS_BUFFER_SIZE;

        if (ucf->busy_buffers_size_conf == NGX_CONF_UNSET_SIZE) {
            ucf->busy_buffers_size = 2 * NGX_HTTP_EGRESS_BUFFER_SIZE;
        }
    }

    if (!(chosen & NGX_HTTP_EGRESS_CHOSEN_READ_TIMEOUT)
        && ucf->read_timeout == 60000)
    {
        ucf->read_timeout = NGX_HTTP_EGRESS_TIMEOUT;
    }

    if (!(chosen & NGX_HTTP_EGRESS_CHOSEN_SEND_TIMEOUT)
        && ucf->send_timeout == 60000)
    {
        ucf->send_timeout = NGX_HTTP_EGRESS_TIMEOUT;
    }
}
