
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_egress_restrict_t *ngx_egress_restrict_create(ngx_conf_t *cf,
    ngx_egress_role_t *role, ngx_str_t *name);
static ngx_egress_narrow_t *ngx_egress_narrow_create(ngx_conf_t *cf,
    ngx_egress_restrict_t *restriction);
static ngx_int_t ngx_egress_restrict_link_hosts(ngx_conf_t *cf,
    ngx_egress_role_t *role, ngx_egress_restrict_t *restriction,
    ngx_egress_binding_t *binding);
static ngx_egress_bound_t *ngx_egress_restrict_bound(
    ngx_egress_binding_t *binding, ngx_egress_host_t *host);


ngx_egress_restrict_t *
ngx_egress_restrict_find(ngx_egress_role_t *role,
    ngx_egress_binding_t *binding)
{
    return role->restricted ? role->restricted[binding->index] : NULL;
}


/* what allows is tried in the strictest reading of the path (DESIGN 6.2) */

ngx_uint_t
ngx_egress_restrict_check(ngx_egress_request_t *req)
{
    ngx_uint_t              i, method;
    ngx_egress_rule_t      *rule;
    ngx_egress_restrict_t  *restriction;

    restriction = req->restriction;

    if (restriction == NULL || restriction->rules.nelts == 0) {
        return NGX_EGRESS_ALLOWED;
    }

    method = ngx_egress_method(&req->method);

    rule = restriction->rules.elts;

    for (i = 0; i < restriction->rules.nelts; i++) {

        if (ngx_egress_rule_applies(&rule[i], req)
            && ngx_egress_rule_method(&rule[i], &req->method, method)
            && ngx_egress_rule_path(&rule[i], &req->target.canonical, 0))
        {
            req->allow = &rule[i].text;

            return NGX_EGRESS_ALLOWED;
        }
    }

    if (req->told == NULL) {
        req->told = &restriction->text;
    }

    return NGX_EGRESS_RULE_REFUSED;
}


char *
ngx_egress_restrict_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_role_t  *role = conf;

    ngx_str_t              *value;
    ngx_uint_t              i;
    ngx_egress_restrict_t  *restriction, **restrictions;

    value = cf->args->elts;

    restrictions = role->restricts.elts;

    for (i = 0; i < role->restricts.nelts; i++) {

        if (restrictions[i]->name.len != value[1].len
            || ngx_strncmp(restrictions[i]->name.data, value[1].data,
                           value[1].len)
               != 0)
        {
            continue;
        }

        /* would what one of them allows do, or must both allow it? */

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate \"restrict %V\" in role \"%V\"",
                           &value[1], &role->name);
        return NGX_CONF_ERROR;
    }

    restriction = ngx_egress_restrict_create(cf, role, &value[1]);

    if (restriction == NULL
        || ngx_egress_rule_text(cf, &restriction->text) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return ngx_egress_conf_block(cf, restriction, NGX_EGRESS_RESTRICT_CONF);
}


static ngx_egress_restrict_t *
ngx_egress_restrict_create(ngx_conf_t *cf, ngx_egress_role_t *role,
    ngx_str_t *name)
{
    ngx_egress_restrict_t  *restriction, **restrictions;

    restriction = ngx_pcalloc(cf->pool, sizeof(ngx_egress_restrict_t));
    if (restriction == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     restriction->repos_all = 0;
     *     restriction->text = { 0, NULL };
     */

    restriction->name = *name;
    restriction->access = NGX_CONF_UNSET_UINT;

    ngx_egress_place(cf, &restriction->place);

    if (ngx_array_init(&restriction->rules, cf->pool, 4,
                       sizeof(ngx_egress_rule_t))
        != NGX_OK
        || ngx_array_init(&restriction->repos, cf->pool, 1,
                          sizeof(ngx_egress_repo_t))
           != NGX_OK
        || ngx_array_init(&restriction->hosts, cf->pool, 1,
                          sizeof(ngx_egress_narrow_t *))
           != NGX_OK)
    {
        return NULL;
    }

    restrictions = ngx_array_push(&role->restricts);
    if (restrictions == NULL) {
        return NULL;
    }

    *restrictions = restriction;

    return restriction;
}


/* bindings may stand behind the role: hosts are looked up at the end, too */

char *
ngx_egress_restrict_host(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_restrict_t  *restriction = conf;

    char                 *rv;
    ngx_str_t            *value;
    ngx_uint_t            i, n;
    ngx_egress_host_t    *host;
    ngx_egress_narrow_t  *narrow;

    narrow = ngx_egress_narrow_create(cf, restriction);
    if (narrow == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        host = ngx_array_push(&narrow->names);
        if (host == NULL) {
            return NGX_CONF_ERROR;
        }

        if (ngx_egress_host_parse(&value[i], NGX_EGRESS_HOST_AUTHORITY,
                                  NGX_EGRESS_PORT, host)
            != NGX_OK
            || host->family != AF_UNSPEC)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid host \"%V\": an exact name with an "
                               "optional port is needed", &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    n = restriction->rules.nelts;

    rv = ngx_egress_conf_block(cf, narrow, NGX_EGRESS_NARROW_CONF);

    if (rv == NGX_CONF_OK && restriction->rules.nelts == n) {

        /* an empty block would look like "nothing", and mean "all" */

        ngx_egress_place_error(cf, &narrow->place,
                               "no \"allow\" in \"host %V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    return rv;
}


static ngx_egress_narrow_t *
ngx_egress_narrow_create(ngx_conf_t *cf, ngx_egress_restrict_t *restriction)
{
    ngx_egress_narrow_t  *narrow, **narrows;

    narrow = ngx_pcalloc(cf->pool, sizeof(ngx_egress_narrow_t));
    if (narrow == NULL) {
        return NULL;
    }

    narrow->restriction = restriction;

    ngx_egress_place(cf, &narrow->place);

    if (ngx_array_init(&narrow->scope.hosts, cf->pool, 1,
                       sizeof(ngx_egress_bound_t *))
        != NGX_OK
        || ngx_array_init(&narrow->names, cf->pool, 1,
                          sizeof(ngx_egress_host_t))
           != NGX_OK)
    {
        return NULL;
    }

    narrows = ngx_array_push(&restriction->hosts);
    if (narrows == NULL) {
        return NULL;
    }

    *narrows = narrow;

    return narrow;
}


/* allow METHODS PATTERN */

char *
ngx_egress_restrict_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                   *rv;
    ngx_str_t              *value;
    ngx_uint_t              n, used;
    ngx_egress_rule_t      *rule;
    ngx_egress_narrow_t    *narrow;
    ngx_egress_restrict_t  *restriction;

    if (cf->cmd_type == NGX_EGRESS_NARROW_CONF) {
        narrow = conf;
        restriction = narrow->restriction;

    } else {
        restriction = conf;
    }

    rule = ngx_egress_rule_add(cf, conf, &restriction->rules);
    if (rule == NULL) {
        return NGX_CONF_ERROR;
    }

    rule->type = NGX_EGRESS_RULE_ALLOW;

    value = cf->args->elts;
    n = cf->args->nelts - 2;

    rv = ngx_egress_rule_methods(cf, rule, &value[1]);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    rv = ngx_egress_rule_pattern(cf, rule, &value[2], n, 0, &used);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (used != n) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\"", &value[2 + used]);
        return NGX_CONF_ERROR;
    }

    return ngx_egress_rule_text(cf, &rule->text);
}


ngx_int_t
ngx_egress_restrict_link(ngx_conf_t *cf, ngx_egress_role_t *role)
{
    ngx_uint_t               i;
    ngx_egress_binding_t    *binding;
    ngx_egress_restrict_t  **restrictions;

    if (role->restricts.nelts == 0) {
        return NGX_OK;
    }

    role->restricted = ngx_pcalloc(cf->pool,
                                   (role->conf->bindings.nelts + 1)
                                   * sizeof(ngx_egress_restrict_t *));
    if (role->restricted == NULL) {
        return NGX_ERROR;
    }

    restrictions = role->restricts.elts;

    for (i = 0; i < role->restricts.nelts; i++) {

        binding = ngx_egress_binding_find(role->conf, &restrictions[i]->name);

        if (binding == NULL) {
            ngx_egress_place_error(cf, &restrictions[i]->place,
                                   "unknown binding \"%V\" in role \"%V\"",
                                   &restrictions[i]->name, &role->name);
            return NGX_ERROR;
        }

        if (restrictions[i]->access == NGX_EGRESS_WRITE
            && binding->access == NGX_EGRESS_READ)
        {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "\"access write\" in \"restrict %V\" of role "
                          "\"%V\" allows no writes: the binding itself is "
                          "read-only in %V:%ui",
                          &binding->name, &role->name,
                          &restrictions[i]->place.file,
                          restrictions[i]->place.line);
        }

        if (ngx_egress_restrict_link_hosts(cf, role, restrictions[i], binding)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        role->uses[binding->index] = 1;
        role->restricted[binding->index] = restrictions[i];
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_restrict_link_hosts(ngx_conf_t *cf, ngx_egress_role_t *role,
    ngx_egress_restrict_t *restriction, ngx_egress_binding_t *binding)
{
    ngx_str_t              name;
    ngx_uint_t             i, n;
    ngx_egress_host_t     *host;
    ngx_egress_bound_t    *bound, **bounds;
    ngx_egress_narrow_t  **narrows;

    narrows = restriction->hosts.elts;

    for (i = 0; i < restriction->hosts.nelts; i++) {

        narrows[i]->scope.binding = binding;

        host = narrows[i]->names.elts;

        for (n = 0; n < narrows[i]->names.nelts; n++) {

            bound = ngx_egress_restrict_bound(binding, &host[n]);

            if (bound == NULL) {
                name.data = host[n].name;
                name.len = host[n].len;

                ngx_egress_place_error(cf, &narrows[i]->place,
                                       "\"%V:%ui\" in \"restrict %V\" of role "
                                       "\"%V\" is no host of this binding",
                                       &name, (ngx_uint_t) host[n].port,
                                       &binding->name, &role->name);
                return NGX_ERROR;
            }

            bounds = ngx_array_push(&narrows[i]->scope.hosts);
            if (bounds == NULL) {
                return NGX_ERROR;
            }

            *bounds = bound;
        }
    }

    return NGX_OK;
}


static ngx_egress_bound_t *
ngx_egress_restrict_bound(ngx_egress_binding_t *binding,
    ngx_egress_host_t *host)
{
    ngx_uint_t            i;
    ngx_egress_bound_t  **bounds;

    bounds = binding->hosts.elts;

    for (i = 0; i < binding->hosts.nelts; i++) {

        if (bounds[i]->port == host->port
            && bounds[i]->name->sn.str.len == host->len
            && ngx_memcmp(bounds[i]->name->sn.str.data, host->name, host->len)
               == 0)
        {
            return bounds[i];
        }
    }

    return NULL;
}
