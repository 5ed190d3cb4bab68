
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_egress_role_t *ngx_egress_role_create(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_str_t *name);
static void ngx_egress_role_mode(ngx_conf_t *cf, ngx_egress_role_t *role);
static ngx_int_t ngx_egress_role_link(ngx_conf_t *cf,
    ngx_egress_role_t *role);
static ngx_int_t ngx_egress_role_add_host(ngx_conf_t *cf,
    ngx_egress_role_t *role, ngx_egress_host_t *host);
static ngx_int_t ngx_egress_role_cidr(ngx_conf_t *cf, ngx_str_t *text,
    ngx_cidr_t *cidr, in_port_t *port);
static ngx_int_t ngx_egress_role_port(ngx_str_t *value, in_port_t *port);


ngx_egress_role_t *
ngx_egress_role_find(ngx_egress_conf_t *ecf, ngx_str_t *name)
{
    ngx_uint_t           i;
    ngx_egress_role_t  **roles;

    roles = ecf->roles.elts;

    for (i = 0; i < ecf->roles.nelts; i++) {
        if (roles[i]->name.len == name->len
            && ngx_strncmp(roles[i]->name.data, name->data, name->len) == 0)
        {
            return roles[i];
        }
    }

    return NULL;
}


ngx_uint_t
ngx_egress_role_uses(ngx_egress_role_t *role, ngx_egress_binding_t *binding)
{
    return role->uses == NULL || role->uses[binding->index];
}


char *
ngx_egress_role_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ngx_str_t          *value;
    ngx_egress_role_t  *role;

    value = cf->args->elts;

    if (ngx_egress_role_find(ecf, &value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate role \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    role = ngx_egress_role_create(cf, ecf, &value[1]);
    if (role == NULL) {
        return NGX_CONF_ERROR;
    }

    return ngx_egress_conf_block(cf, role, NGX_EGRESS_ROLE_CONF);
}


static ngx_egress_role_t *
ngx_egress_role_create(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_str_t *name)
{
    ngx_egress_role_t  *role, **roles;

    role = ngx_pcalloc(cf->pool, sizeof(ngx_egress_role_t));
    if (role == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     role->uses = NULL;
     *     role->restricted = NULL;
     *     role->nhosts = 0;
     */

    role->name = *name;
    role->conf = ecf;
    role->network = NGX_CONF_UNSET_UINT;
    role->report = NGX_CONF_UNSET_UINT;
    role->max_connections = NGX_CONF_UNSET;

    ngx_rbtree_init(&role->hosts, &role->sentinel,
                    ngx_str_rbtree_insert_value);

    if (ngx_array_init(&role->use, cf->pool, 4, sizeof(ngx_str_t)) != NGX_OK
        || ngx_array_init(&role->restricts, cf->pool, 1,
                          sizeof(ngx_egress_restrict_t *))
           != NGX_OK
        || ngx_array_init(&role->cidrs, cf->pool, 1,
                          sizeof(ngx_egress_cidr_t))
           != NGX_OK
        || ngx_array_init(&role->privates, cf->pool, 1, sizeof(ngx_cidr_t))
           != NGX_OK)
    {
        return NULL;
    }

    ngx_egress_place(cf, &role->place);

    roles = ngx_array_push(&ecf->roles);
    if (roles == NULL) {
        return NULL;
    }

    *roles = role;

    return role;
}


/*
 * Without a "role" block "default" uses every binding; beside other roles a
 * role that nobody wrote uses none.
 */

ngx_int_t
ngx_egress_role_init(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    ngx_str_t            name;
    ngx_uint_t           i, n;
    ngx_egress_role_t  **roles;

    n = ecf->roles.nelts;

    ngx_str_set(&name, "default");

    if (ngx_egress_role_find(ecf, &name) == NULL
        && ngx_egress_role_create(cf, ecf, &name) == NULL)
    {
        return NGX_ERROR;
    }

    if (ecf->unidentified_role.len) {
        name = ecf->unidentified_role;
    }

    if (ecf->unidentified_role.len || ecf->sandboxes.len == 0) {

        ecf->unidentified = ngx_egress_role_find(ecf, &name);

        if (ecf->unidentified == NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "unknown role \"%V\" in \"unidentified\"",
                               &name);
            return NGX_ERROR;
        }
    }

    ngx_conf_init_uint_value(ecf->report, 0);

    if (ecf->report) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"mode report\": what policy would refuse is let "
                      "through and logged, writes included");
    }

    roles = ecf->roles.elts;

    for (i = 0; i < ecf->roles.nelts; i++) {

        ngx_conf_init_uint_value(roles[i]->network, 0);
        ngx_conf_init_value(roles[i]->max_connections, 0);

        ngx_egress_role_mode(cf, roles[i]);

        if (n && ngx_egress_role_link(cf, roles[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_egress_role_mode(ngx_conf_t *cf, ngx_egress_role_t *role)
{
    if (role->report == NGX_CONF_UNSET_UINT) {
        role->report = role->conf->report;
        return;
    }

    if (role->report && !role->conf->report) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"mode report\" in role \"%V\": what policy would "
                      "refuse is let through and logged, writes included "
                      "in %V:%ui",
                      &role->name, &role->place.file, role->place.line);
    }
}


static ngx_int_t
ngx_egress_role_link(ngx_conf_t *cf, ngx_egress_role_t *role)
{
    ngx_str_t             *name;
    ngx_uint_t             i;
    ngx_egress_binding_t  *binding;

    role->uses = ngx_pcalloc(cf->pool, role->conf->bindings.nelts + 1);
    if (role->uses == NULL) {
        return NGX_ERROR;
    }

    name = role->use.elts;

    for (i = 0; i < role->use.nelts; i++) {

        binding = ngx_egress_binding_find(role->conf, &name[i]);

        if (binding == NULL) {
            ngx_egress_place_error(cf, &role->place,
                                   "unknown binding \"%V\" in role \"%V\"",
                                   &name[i], &role->name);
            return NGX_ERROR;
        }

        role->uses[binding->index] = 1;
    }

    return ngx_egress_restrict_link(cf, role);
}


/* bindings may stand behind the role: the names are looked up at the end */

char *
ngx_egress_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_role_t  *role = conf;

    ngx_str_t   *value, *name;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        name = ngx_array_push(&role->use);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_allow_host(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_role_t  *role = conf;

    ngx_str_t          *value;
    ngx_uint_t          i;
    ngx_egress_host_t   host;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_egress_host_parse(&value[i], NGX_EGRESS_HOST_AUTHORITY,
                                  NGX_EGRESS_PORT, &host)
            != NGX_OK
            || host.family != AF_UNSPEC)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid host \"%V\": an exact name with an "
                               "optional port is needed", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (ngx_egress_role_add_host(cf, role, &host) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_egress_role_add_host(ngx_conf_t *cf, ngx_egress_role_t *role,
    ngx_egress_host_t *host)
{
    uint32_t               hash;
    in_port_t             *port;
    ngx_str_t              name;
    ngx_egress_allowed_t  *allowed;

    name.data = host->name;
    name.len = host->len;

    hash = ngx_crc32_long(host->name, host->len);

    allowed = (ngx_egress_allowed_t *)
                  ngx_str_rbtree_lookup(&role->hosts, &name, hash);

    if (allowed == NULL) {
        allowed = ngx_pcalloc(cf->pool, sizeof(ngx_egress_allowed_t));
        if (allowed == NULL) {
            return NGX_ERROR;
        }

        allowed->sn.str.len = name.len;
        allowed->sn.str.data = ngx_pstrdup(cf->pool, &name);
        if (allowed->sn.str.data == NULL) {
            return NGX_ERROR;
        }

        if (ngx_array_init(&allowed->ports, cf->pool, 1, sizeof(in_port_t))
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        allowed->sn.node.key = hash;
        ngx_rbtree_insert(&role->hosts, &allowed->sn.node);

        role->nhosts++;
    }

    port = ngx_array_push(&allowed->ports);
    if (port == NULL) {
        return NGX_ERROR;
    }

    *port = host->port;

    return NGX_OK;
}


char *
ngx_egress_allow_cidr(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_role_t  *role = conf;

    ngx_str_t          *value;
    in_port_t           port;
    ngx_uint_t          i;
    ngx_cidr_t          cidr;
    ngx_egress_cidr_t  *allowed;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_egress_role_cidr(cf, &value[i], &cidr, &port) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        allowed = ngx_array_push(&role->cidrs);
        if (allowed == NULL) {
            return NGX_CONF_ERROR;
        }

        allowed->cidr = cidr;
        allowed->port = port;
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_allow_private(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_role_t  *role = conf;

    return ngx_egress_add_privates(cf, &role->privates);
}


char *
ngx_egress_add_privates(ngx_conf_t *cf, ngx_array_t *privates)
{
    ngx_str_t   *value;
    ngx_uint_t   i;
    ngx_cidr_t   cidr, *private;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_egress_role_cidr(cf, &value[i], &cidr, NULL) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        private = ngx_array_push(privates);
        if (private == NULL) {
            return NGX_CONF_ERROR;
        }

        *private = cidr;
    }

    return NGX_CONF_OK;
}


/* "cidr", or "cidr:port" where "port" is not NULL; IPv6 then in brackets */

static ngx_int_t
ngx_egress_role_cidr(ngx_conf_t *cf, ngx_str_t *text, ngx_cidr_t *cidr,
    in_port_t *port)
{
    ngx_int_t  rc;
    ngx_str_t  value;

    value = *text;

    if (port && ngx_egress_role_port(&value, port) != NGX_OK) {
        goto invalid;
    }

    rc = ngx_ptocidr(&value, cidr);

    if (rc == NGX_ERROR
        || (cidr->family != AF_INET
#if (NGX_HAVE_INET6)
            && cidr->family != AF_INET6
#endif
           ))
    {
        goto invalid;
    }

    if (rc == NGX_DONE) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "low address bits of %V are meaningless", text);
    }

    return NGX_OK;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid range \"%V\"", text);

    return NGX_ERROR;
}


/* takes ":port" off the end, and brackets off what is left; 0: no port */

static ngx_int_t
ngx_egress_role_port(ngx_str_t *value, in_port_t *port)
{
    u_char     *p, *last;
    ngx_int_t   n;

    *port = 0;

    last = value->data + value->len;

    if (value->len && value->data[0] == '[') {
        p = ngx_strlchr(value->data, last, ']');

        if (p == NULL) {
            return NGX_ERROR;
        }

        value->data++;
        value->len = p - value->data;
        p++;

        if (p == last) {
            return NGX_OK;
        }

        if (*p != ':') {
            return NGX_ERROR;
        }

    } else {
        p = ngx_strlchr(value->data, last, ':');

        /* without brackets, two colons make an IPv6 address */

        if (p == NULL || ngx_strlchr(p + 1, last, ':')) {
            return NGX_OK;
        }

        value->len = p - value->data;
    }

    n = ngx_atoi(p + 1, last - p - 1);

    if (n < 1 || n > 65535) {
        return NGX_ERROR;
    }

    *port = (in_port_t) n;

    return NGX_OK;
}
