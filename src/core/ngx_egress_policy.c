
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_egress_name_t *ngx_egress_name_add(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_egress_host_t *host);
static ngx_egress_bound_t *ngx_egress_bound_create(ngx_conf_t *cf,
    ngx_egress_binding_t *binding, ngx_egress_name_t *name, in_port_t port);
static ngx_int_t ngx_egress_policy_link_bound(ngx_conf_t *cf,
    ngx_egress_bound_t *bound);


ngx_egress_name_t *
ngx_egress_name_find(ngx_egress_conf_t *ecf, u_char *name, size_t len)
{
    ngx_str_t  key;

    key.data = name;
    key.len = len;

    return (ngx_egress_name_t *)
               ngx_str_rbtree_lookup(&ecf->names, &key,
                                     ngx_crc32_long(name, len));
}


ngx_egress_bound_t *
ngx_egress_bound_find(ngx_egress_name_t *name, in_port_t port)
{
    ngx_egress_bound_t  *bound;

    for (bound = name->bound; bound; bound = bound->next) {
        if (bound->port == port) {
            return bound;
        }
    }

    return NULL;
}


ngx_egress_bound_t *
ngx_egress_bound_match(ngx_egress_bound_t *bound, ngx_str_t *path,
    ngx_uint_t *credentialed)
{
    in_port_t            port;
    ngx_egress_bound_t  *last;

    /* the list has the longest path_prefix of a port first */

    port = bound->port;
    last = bound;

    for ( /* void */ ; bound && bound->port == port; bound = bound->next) {

        if (ngx_egress_prefix_match(&bound->binding->path_prefix, path, 0)) {
            *credentialed = 1;
            return bound;
        }

        last = bound;
    }

    *credentialed = 0;

    return last;
}


ngx_egress_bound_t *
ngx_egress_policy_add(ngx_conf_t *cf, ngx_egress_binding_t *binding,
    ngx_str_t *value)
{
    ngx_uint_t            i;
    ngx_egress_name_t    *name;
    ngx_egress_host_t     host;
    ngx_egress_bound_t  **bounds;

    if (ngx_egress_host_parse(value, NGX_EGRESS_HOST_AUTHORITY,
                              NGX_EGRESS_PORT, &host)
        != NGX_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid host \"%V\": an exact name with an "
                           "optional port is needed", value);
        return NULL;
    }

    if (host.family != AF_UNSPEC) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid host \"%V\": an address can't be bound",
                           value);
        return NULL;
    }

    name = ngx_egress_name_add(cf, binding->conf, &host);
    if (name == NULL) {
        return NULL;
    }

    bounds = binding->hosts.elts;

    for (i = 0; i < binding->hosts.nelts; i++) {
        if (bounds[i]->name == name && bounds[i]->port == host.port) {
            return bounds[i];
        }
    }

    return ngx_egress_bound_create(cf, binding, name, host.port);
}


static ngx_egress_bound_t *
ngx_egress_bound_create(ngx_conf_t *cf, ngx_egress_binding_t *binding,
    ngx_egress_name_t *name, in_port_t port)
{
    u_char              *p;
    ngx_str_t            text;
    ngx_egress_bound_t  *bound, **bounds;

    bound = ngx_pcalloc(cf->pool, sizeof(ngx_egress_bound_t));
    if (bound == NULL) {
        return NULL;
    }

    text = name->sn.str;

    bound->name = name;
    bound->port = port;
    bound->binding = binding;
    bound->index = binding->conf->nbound++;
    bound->authority = text;

    if (port != NGX_EGRESS_PORT) {
        p = ngx_pnalloc(cf->pool, text.len + sizeof(":65535") - 1);
        if (p == NULL) {
            return NULL;
        }

        bound->authority.data = p;
        bound->authority.len = ngx_sprintf(p, "%V:%ui", &text,
                                           (ngx_uint_t) port)
                               - p;
    }

    bounds = ngx_array_push(&binding->hosts);
    if (bounds == NULL) {
        return NULL;
    }

    *bounds = bound;

    return bound;
}


static ngx_egress_name_t *
ngx_egress_name_add(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_host_t *host)
{
    ngx_egress_name_t  *name;

    name = ngx_egress_name_find(ecf, host->name, host->len);

    if (name) {
        return name;
    }

    name = ngx_pcalloc(cf->pool, sizeof(ngx_egress_name_t));
    if (name == NULL) {
        return NULL;
    }

    name->sn.str.len = host->len;
    name->sn.str.data = ngx_pnalloc(cf->pool, host->len + 1);
    if (name->sn.str.data == NULL) {
        return NULL;
    }

    ngx_cpystrn(name->sn.str.data, host->name, host->len + 1);

    name->sn.node.key = ngx_crc32_long(host->name, host->len);

    ngx_rbtree_insert(&ecf->names, &name->sn.node);

    return name;
}


ngx_int_t
ngx_egress_policy_link(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_uint_t            i;
    ngx_egress_bound_t  **bounds;

    bounds = binding->hosts.elts;

    for (i = 0; i < binding->hosts.nelts; i++) {
        if (ngx_egress_policy_link_bound(cf, bounds[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_policy_link_bound(ngx_conf_t *cf, ngx_egress_bound_t *bound)
{
    ngx_str_t            *prefix, *other;
    ngx_egress_bound_t  **next;

    prefix = &bound->binding->path_prefix;

    for (next = &bound->name->bound; *next; next = &(*next)->next) {

        if ((*next)->port > bound->port) {
            break;
        }

        if ((*next)->port < bound->port) {
            continue;
        }

        other = &(*next)->binding->path_prefix;

        if (other->len == prefix->len
            && ngx_strncmp(other->data, prefix->data, prefix->len) == 0)
        {
            ngx_egress_place_error(cf, &bound->binding->place,
                                   "host \"%V\" of binding \"%V\" is bound "
                                   "already by binding \"%V\"",
                                   &bound->authority, &bound->binding->name,
                                   &(*next)->binding->name);
            return NGX_ERROR;
        }

        if (other->len < prefix->len) {
            break;
        }
    }

    bound->next = *next;
    *next = bound;

    return NGX_OK;
}


ngx_int_t
ngx_egress_policy_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    ngx_uint_t              i;
    ngx_egress_binding_t  **bindings, *binding;

    bindings = ecf->bindings.elts;

    for (i = 0; i < ecf->bindings.nelts; i++) {
        binding = bindings[i];

        if (binding->upstream == NULL && ecf->resolver == NULL) {
            ngx_egress_place_error(cf, &binding->place,
                                   "no \"upstream\" in binding \"%V\", and "
                                   "no \"resolver\" in the \"egress\" block "
                                   "to look its hosts up",
                                   &binding->name);
            return NGX_ERROR;
        }

        if (binding->upstream_ssl && ecf->trusted_certificate.data == NULL) {
            ngx_egress_place_error(cf, &binding->place,
                                   "no \"trusted_certificate\" to verify "
                                   "the upstream of binding \"%V\", and no "
                                   "system bundle was found",
                                   &binding->name);
            return NGX_ERROR;
        }

        if (ngx_egress_credentials_check(cf, binding) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
