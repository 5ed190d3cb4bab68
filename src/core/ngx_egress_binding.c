
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_egress_binding_t *ngx_egress_binding_create(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_str_t *name);
static ngx_int_t ngx_egress_binding_done(ngx_conf_t *cf,
    ngx_egress_binding_t *binding);
static ngx_uint_t ngx_egress_loopback(ngx_addr_t *addr);


ngx_egress_binding_t *
ngx_egress_binding_find(ngx_egress_conf_t *ecf, ngx_str_t *name)
{
    ngx_str_node_t  *sn;

    sn = ngx_str_rbtree_lookup(&ecf->binding_names, name,
                               ngx_crc32_short(name->data, name->len));

    return sn ? (ngx_egress_binding_t *)
                    ((u_char *) sn - offsetof(ngx_egress_binding_t, sn))
              : NULL;
}


char *
ngx_egress_binding_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    char                   *rv;
    ngx_str_t              *value;
    ngx_egress_binding_t   *binding, **bindings;

    value = cf->args->elts;

    if (ngx_egress_binding_name(cf, "binding", &value[1]) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_egress_binding_find(ecf, &value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate binding \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    binding = ngx_egress_binding_create(cf, ecf, &value[1]);
    if (binding == NULL) {
        return NGX_CONF_ERROR;
    }

    rv = ngx_egress_conf_block(cf, binding, NGX_EGRESS_BINDING_CONF);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ngx_egress_binding_done(cf, binding) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    bindings = ngx_array_push(&ecf->bindings);
    if (bindings == NULL) {
        return NGX_CONF_ERROR;
    }

    *bindings = binding;

    binding->sn.str = binding->name;
    binding->sn.node.key = ngx_crc32_short(binding->name.data,
                                           binding->name.len);

    ngx_rbtree_insert(&ecf->binding_names, &binding->sn.node);

    return NGX_CONF_OK;
}


char *
ngx_egress_binding_name(ngx_conf_t *cf, const char *what, ngx_str_t *name)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        ch = ngx_tolower(name->data[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')
            && ch != '-' && ch != '_' && ch != '.')
        {
            break;
        }
    }

    if (i == 0 || i != name->len || i > 64) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid %s name \"%V\"", what, name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_egress_binding_t *
ngx_egress_binding_create(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_str_t *name)
{
    ngx_egress_binding_t  *binding;

    binding = ngx_pcalloc(cf->pool, sizeof(ngx_egress_binding_t));
    if (binding == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     binding->path_prefix = { 0, NULL };
     *     binding->upstream = NULL;
     *     binding->pass_all = 0;
     */

    binding->conf = ecf;
    binding->name = *name;
    binding->index = ecf->bindings.nelts;
    binding->access = NGX_CONF_UNSET_UINT;
    binding->inspect_max = NGX_CONF_UNSET_SIZE;
    binding->redact = NGX_CONF_UNSET;
    binding->upgrade = NGX_CONF_UNSET;
    binding->foreign_refused = NGX_CONF_UNSET_UINT;

    ngx_egress_place(cf, &binding->place);

    if (ngx_array_init(&binding->hosts, cf->pool, 2,
                       sizeof(ngx_egress_bound_t *))
        != NGX_OK
        || ngx_array_init(&binding->privates, cf->pool, 1, sizeof(ngx_cidr_t))
           != NGX_OK
        || ngx_array_init(&binding->pass_headers, cf->pool, 4,
                          sizeof(ngx_str_t))
           != NGX_OK
        || ngx_array_init(&binding->rules, cf->pool, 4,
                          sizeof(ngx_egress_rule_t))
           != NGX_OK
        || ngx_array_init(&binding->repo_rules, cf->pool, 4,
                          sizeof(ngx_egress_rule_t))
           != NGX_OK
        || ngx_array_init(&binding->repos, cf->pool, 4,
                          sizeof(ngx_egress_repo_t))
           != NGX_OK
        || ngx_array_init(&binding->credentials, cf->pool, 1,
                          sizeof(ngx_egress_credential_t *))
           != NGX_OK
        || ngx_array_init(&binding->secrets, cf->pool, 1,
                          sizeof(ngx_egress_secret_t *))
           != NGX_OK
        || ngx_array_init(&binding->env, cf->pool, 1,
                          sizeof(ngx_egress_env_t))
           != NGX_OK
        || ngx_egress_credential_init(cf, &binding->own, binding, name)
           != NGX_OK)
    {
        return NULL;
    }

    return binding;
}


static ngx_int_t
ngx_egress_binding_done(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_conf_init_value(binding->redact, 1);
    ngx_conf_init_value(binding->upgrade, 0);
    ngx_conf_init_uint_value(binding->foreign_refused, 0);

    if (binding->upstream == NULL) {

        /* the host itself: TLS, at addresses that we resolve and check */

        binding->upstream_ssl = 1;
    }

    if (binding->pass_headers.nelts == 0) {
        binding->pass_all = 1;
    }

    if (binding->hosts.nelts == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no \"hosts\" and no \"host\" in binding \"%V\"",
                           &binding->name);
        return NGX_ERROR;
    }

    ngx_conf_init_uint_value(binding->access, NGX_EGRESS_READ);
    ngx_conf_init_size_value(binding->inspect_max, 1024 * 1024);

    if (binding->path_prefix.data == NULL) {
        ngx_str_set(&binding->path_prefix, "/");
    }

    if (ngx_egress_credentials_done(cf, binding) != NGX_OK) {
        return NGX_ERROR;
    }

    if (binding->upstream && !binding->upstream_ssl
        && binding->secrets.nelts && !ngx_egress_loopback(binding->upstream))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the upstream \"http://%V\" of binding \"%V\", "
                           "which has a secret, is neither loopback "
                           "nor \"unix:\"",
                           &binding->upstream->name, &binding->name);
        return NGX_ERROR;
    }

    return ngx_egress_policy_link(cf, binding);
}


char *
ngx_egress_hosts(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_egress_policy_add(cf, binding, &value[i]) == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_host_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t            *value;
    ngx_uint_t            i;
    ngx_egress_bound_t   *bound, **bounds;
    ngx_egress_scope_t   *scope;

    scope = ngx_pcalloc(cf->pool, sizeof(ngx_egress_scope_t));
    if (scope == NULL) {
        return NGX_CONF_ERROR;
    }

    scope->binding = binding;

    if (ngx_array_init(&scope->hosts, cf->pool, 1,
                       sizeof(ngx_egress_bound_t *))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        bound = ngx_egress_policy_add(cf, binding, &value[i]);
        if (bound == NULL) {
            return NGX_CONF_ERROR;
        }

        bounds = ngx_array_push(&scope->hosts);
        if (bounds == NULL) {
            return NGX_CONF_ERROR;
        }

        *bounds = bound;
    }

    return ngx_egress_conf_block(cf, scope, NGX_EGRESS_HOST_CONF);
}


char *
ngx_egress_path_prefix(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    u_char               *buf;
    ngx_str_t            *value;
    ngx_egress_target_t   target;

    if (binding->path_prefix.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    buf = ngx_pnalloc(cf->pool, 3 * value[1].len + 1);
    if (buf == NULL) {
        return NGX_CONF_ERROR;
    }

    /* a prefix that no canonical path can have would never match */

    if (value[1].len == 0 || value[1].data[0] != '/'
        || ngx_egress_target_parse(&value[1], buf, &target) != NGX_OK
        || target.query.data)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid path \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    binding->path_prefix = target.canonical;

    return NGX_CONF_OK;
}


char *
ngx_egress_upstream(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t   *value;
    ngx_url_t    u;
    ngx_uint_t   skip;

    if (binding->upstream) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ngx_memzero(&u, sizeof(ngx_url_t));

    if (ngx_strncmp(value[1].data, "https://", 8) == 0) {
        skip = 8;
        u.default_port = 443;
        binding->upstream_ssl = 1;

    } else if (ngx_strncmp(value[1].data, "http://", 7) == 0) {
        skip = 7;
        u.default_port = 80;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid upstream \"%V\": https://address[:port] "
                           "or http://address[:port] is needed", &value[1]);
        return NGX_CONF_ERROR;
    }

    u.url.data = value[1].data + skip;
    u.url.len = value[1].len - skip;
    u.no_resolve = 1;

    /* an address: the operator's choice must not hang on a resolver */

    if (ngx_parse_url(cf->pool, &u) != NGX_OK || u.naddrs == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid address in upstream \"%V\"%s%s",
                           &value[1], u.err ? ": " : "",
                           u.err ? u.err : "");
        return NGX_CONF_ERROR;
    }

    binding->upstream = &u.addrs[0];

    return NGX_CONF_OK;
}


char *
ngx_egress_binding_private(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    return ngx_egress_add_privates(cf, &binding->privates);
}


char *
ngx_egress_pass_headers(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t   *value, *name;
    ngx_uint_t   i;

    if (binding->pass_headers.nelts || binding->pass_all) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "all") == 0) {

        if (cf->args->nelts > 2) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"all\" beside a name in \"pass_headers\"");
            return NGX_CONF_ERROR;
        }

        binding->pass_all = 1;
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        name = ngx_array_push(&binding->pass_headers);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        name->len = value[i].len;
        name->data = ngx_pnalloc(cf->pool, value[i].len);
        if (name->data == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_strlow(name->data, value[i].data, value[i].len);
    }

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_egress_loopback(ngx_addr_t *addr)
{
    struct sockaddr_in   *sin;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;
#endif

    switch (addr->sockaddr->sa_family) {

    case AF_INET:
        sin = (struct sockaddr_in *) addr->sockaddr;
        return (ntohl(sin->sin_addr.s_addr) >> 24) == 127;

#if (NGX_HAVE_INET6)
    case AF_INET6:
        sin6 = (struct sockaddr_in6 *) addr->sockaddr;
        return IN6_IS_ADDR_LOOPBACK(&sin6->sin6_addr);
#endif

    default: /* AF_UNIX */
        return 1;
    }
}


void ngx_cdecl
ngx_egress_place_error(ngx_conf_t *cf, ngx_egress_place_t *place,
    const char *fmt, ...)
{
    u_char   errstr[NGX_MAX_CONF_ERRSTR], *p;
    va_list  args;

    va_start(args, fmt);
    p = ngx_vslprintf(errstr, errstr + NGX_MAX_CONF_ERRSTR, fmt, args);
    va_end(args);

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "%*s in %V:%ui",
                  (size_t) (p - errstr), errstr, &place->file, place->line);
}
