
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_uint_t ngx_egress_rule_matches(ngx_egress_rule_t *rule,
    ngx_egress_request_t *req, ngx_uint_t method);
static ngx_uint_t ngx_egress_rule_decides(ngx_egress_rule_t *rule,
    ngx_egress_request_t *req);
static void ngx_egress_classify_git(ngx_egress_request_t *req);

static char *ngx_egress_rule_inspector(ngx_conf_t *cf,
    ngx_egress_rule_t *rule, ngx_str_t *value, ngx_uint_t n);
static char *ngx_egress_rule_tools(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value, ngx_uint_t n);


static struct {
    ngx_str_t   name;
    ngx_uint_t  bit;
} ngx_egress_methods[] = {
    { ngx_string("GET"), NGX_EGRESS_GET },
    { ngx_string("HEAD"), NGX_EGRESS_HEAD },
    { ngx_string("POST"), NGX_EGRESS_POST },
    { ngx_string("OPTIONS"), NGX_EGRESS_OPTIONS },
    { ngx_string("PUT"), NGX_EGRESS_PUT },
    { ngx_string("PATCH"), NGX_EGRESS_PATCH },
    { ngx_string("DELETE"), NGX_EGRESS_DELETE },
    { ngx_null_string, 0 }
};


/* in the order of NGX_EGRESS_INSPECT_..., which begin with "none" */

static struct {
    ngx_str_t   name;
    ngx_uint_t  repos;      /* it tells repositories, too */
} ngx_egress_inspectors[] = {
    { ngx_string("graphql"), 1 },
    { ngx_string("lfs_batch"), 0 },
    { ngx_string("json_rpc"), 0 },
    { ngx_string("oci_scope"), 1 },
    { ngx_null_string, 0 }
};


ngx_uint_t
ngx_egress_method(ngx_str_t *method)
{
    ngx_uint_t  i;

    for (i = 0; ngx_egress_methods[i].bit; i++) {
        if (ngx_egress_methods[i].name.len == method->len
            && ngx_memcmp(ngx_egress_methods[i].name.data, method->data,
                          method->len)
               == 0)
        {
            return ngx_egress_methods[i].bit;
        }
    }

    return 0;
}


void
ngx_egress_classify(ngx_egress_request_t *req)
{
    ngx_uint_t          i, method;
    ngx_egress_rule_t  *rule;

    method = ngx_egress_method(&req->method);

    rule = req->bound->binding->rules.elts;

    for (i = 0; i < req->bound->binding->rules.nelts; i++) {

        if (ngx_egress_rule_applies(&rule[i], req)
            && ngx_egress_rule_matches(&rule[i], req, method)
            && ngx_egress_rule_decides(&rule[i], req))
        {
            return;
        }
    }

    if (method == 0) {
        req->class = NGX_EGRESS_UNKNOWN;

    } else if (method & NGX_EGRESS_SAFE) {
        req->class = NGX_EGRESS_READ;

    } else {
        req->class = NGX_EGRESS_WRITE;
    }
}


static ngx_uint_t
ngx_egress_rule_matches(ngx_egress_rule_t *rule, ngx_egress_request_t *req,
    ngx_uint_t method)
{
    ngx_uint_t            caseless;
    ngx_egress_target_t  *target;

    target = &req->target;

    if (rule->type == NGX_EGRESS_RULE_GIT) {
        return ngx_egress_git_classify(&req->method, &target->canonical,
                                       &target->query, &req->content_type,
                                       rule->segments, &req->git)
               == NGX_OK;
    }

    if (!ngx_egress_rule_method(rule, &req->method, method)) {
        return 0;
    }

    /*
     * What refuses is tried in each reading of the path that a server may
     * have, what allows in the strictest one only (DESIGN 5.2, 6.2).
     */

    caseless = (rule->type == NGX_EGRESS_RULE_REFUSE
                || rule->type == NGX_EGRESS_RULE_WRITE);

    return ngx_egress_rule_path(rule, &target->canonical, caseless)
           || (caseless && target->encoded_slash
               && ngx_egress_rule_path(rule, &target->folded, 1))
           || (caseless && target->bare.len != target->folded.len
               && ngx_egress_rule_path(rule, &target->bare, 1));
}


/* what a rule that matches says of the class; 0: the next ones tell it */

static ngx_uint_t
ngx_egress_rule_decides(ngx_egress_rule_t *rule, ngx_egress_request_t *req)
{
    if (rule->type == NGX_EGRESS_RULE_REFUSE && req->report) {

        if (!req->refused) {
            req->refused = 1;
            req->told = &rule->text;
        }

        return 0;
    }

    req->rule = rule;

    switch (rule->type) {

    case NGX_EGRESS_RULE_GIT:
        ngx_egress_classify_git(req);
        break;

    case NGX_EGRESS_RULE_READ:
        req->inspector = rule->inspector;
        req->class = req->inspector ? NGX_EGRESS_UNKNOWN : NGX_EGRESS_READ;
        break;

    case NGX_EGRESS_RULE_ANONYMOUS:
        req->class = NGX_EGRESS_READ;
        req->anonymous = 1;
        break;

    case NGX_EGRESS_RULE_WRITE:
        req->class = NGX_EGRESS_WRITE;
        break;

    default: /* NGX_EGRESS_RULE_REFUSE */
        req->class = NGX_EGRESS_UNKNOWN;
        req->refused = 1;
    }

    return 1;
}


static void
ngx_egress_classify_git(ngx_egress_request_t *req)
{
    req->is_git = 1;
    req->class = req->git.class;

    req->owner = req->git.owner;
    req->repo = req->git.repo;

    if (req->git.kind == NGX_EGRESS_GIT_BATCH) {
        req->inspector = NGX_EGRESS_INSPECT_LFS;
    }
}


ngx_uint_t
ngx_egress_class_reason(ngx_egress_request_t *req, ngx_egress_body_t *body)
{
    ngx_uint_t              access;
    ngx_egress_restrict_t  *restriction;

    access = req->bound->binding->access;
    restriction = req->restriction;

    switch (req->class) {

    case NGX_EGRESS_READ:
        return NGX_EGRESS_ALLOWED;

    case NGX_EGRESS_WRITE:

        /* the lesser of both: a role never widens */

        if (access == NGX_EGRESS_WRITE && restriction
            && restriction->access == NGX_EGRESS_READ)
        {
            access = NGX_EGRESS_READ;

            if (req->told == NULL) {
                req->told = &restriction->text;
            }
        }

        if (access == NGX_EGRESS_WRITE) {
            return NGX_EGRESS_ALLOWED;
        }

        return (body && body->tool_refused) ? NGX_EGRESS_TOOL_REFUSED
                                            : NGX_EGRESS_WRITE_REFUSED;

    default: /* NGX_EGRESS_UNKNOWN */
        return NGX_EGRESS_CLASS_UNKNOWN;
    }
}


ngx_uint_t
ngx_egress_encoded_slash_allowed(ngx_egress_request_t *req)
{
    ngx_uint_t          i;
    ngx_egress_rule_t  *rule;

    rule = req->bound->binding->rules.elts;

    for (i = 0; i < req->bound->binding->rules.nelts; i++) {

        if (rule[i].type != NGX_EGRESS_RULE_SLASH
            || (rule[i].scope && !ngx_egress_rule_applies(&rule[i], req)))
        {
            continue;
        }

        if (rule[i].any_path) {
            return rule[i].on;
        }

        if (ngx_egress_rule_path(&rule[i], &req->target.canonical, 0)) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_egress_rule_applies(ngx_egress_rule_t *rule, ngx_egress_request_t *req)
{
    ngx_uint_t            i;
    ngx_egress_bound_t  **bounds;

    if (rule->scope == NULL) {
        return 1;
    }

    bounds = rule->scope->hosts.elts;

    for (i = 0; i < rule->scope->hosts.nelts; i++) {
        if (bounds[i] == req->bound) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_egress_rule_method(ngx_egress_rule_t *rule, ngx_str_t *method,
    ngx_uint_t bit)
{
    ngx_str_t   *other;
    ngx_uint_t   i;

    if (rule->any_method) {
        return 1;
    }

    if (bit) {
        return (rule->methods & bit) != 0;
    }

    if (rule->others == NULL) {
        return 0;
    }

    other = rule->others->elts;

    for (i = 0; i < rule->others->nelts; i++) {
        if (other[i].len == method->len
            && ngx_memcmp(other[i].data, method->data, method->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_egress_rule_path(ngx_egress_rule_t *rule, ngx_str_t *path,
    ngx_uint_t caseless)
{
    size_t  len;

#if (NGX_PCRE)
    if (rule->regex) {
        return ngx_regex_exec(rule->regex, path, NULL, 0) >= 0;
    }
#endif

    if (rule->exact.data) {

        len = path->len;

        if (caseless && len == rule->exact.len + 1
            && path->data[len - 1] == '/')
        {
            /* what refuses a path refuses it with a slash behind it, too */
            len--;
        }

        return rule->exact.len == len
               && (caseless ? ngx_strncasecmp(rule->exact.data, path->data,
                                              len)
                            : ngx_memcmp(rule->exact.data, path->data, len))
                  == 0;
    }

    return ngx_egress_prefix_match(&rule->prefix, path, caseless);
}


ngx_uint_t
ngx_egress_prefix_match(ngx_str_t *prefix, ngx_str_t *path,
    ngx_uint_t caseless)
{
    if (path->len < prefix->len
        || (caseless ? ngx_strncasecmp(prefix->data, path->data, prefix->len)
                     : ngx_memcmp(prefix->data, path->data, prefix->len))
           != 0)
    {
        return 0;
    }

    return path->len == prefix->len
           || path->data[prefix->len] == '/'
           || prefix->data[prefix->len - 1] == '/';
}


char *
ngx_egress_rule(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                  *rv;
    ngx_str_t             *value;
    ngx_uint_t             n, used, caseless;
    ngx_egress_rule_t     *rule;
    ngx_egress_binding_t  *binding;

    binding = ngx_egress_rule_binding(cf, conf);

    rule = ngx_egress_rule_add(cf, conf,
                               cmd->offset == NGX_EGRESS_RULE_REPO_FREE
                               ? &binding->repo_rules : &binding->rules);
    if (rule == NULL) {
        return NGX_CONF_ERROR;
    }

    rule->type = cmd->offset;

    value = cf->args->elts;
    n = cf->args->nelts - 2;

    rv = ngx_egress_rule_methods(cf, rule, &value[1]);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    caseless = (rule->type == NGX_EGRESS_RULE_REFUSE
                || rule->type == NGX_EGRESS_RULE_WRITE);

    rv = ngx_egress_rule_pattern(cf, rule, &value[2], n, caseless, &used);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    rv = ngx_egress_rule_inspector(cf, rule, &value[2 + used], n - used);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (rule->type == NGX_EGRESS_RULE_READ && !rule->anchored
        && rule->inspector == NGX_EGRESS_INSPECT_NONE
        && (rule->any_method || (rule->methods & ~NGX_EGRESS_SAFE)))
    {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"read %V\" allows an unsafe method for more "
                           "than one exact path", &value[1]);
    }

    return ngx_egress_rule_text(cf, &rule->text);
}


/* the word of an inspector, with tools of "json_rpc"; of a "read" only */

static char *
ngx_egress_rule_inspector(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value, ngx_uint_t n)
{
    ngx_uint_t  i;

    if (n == 0) {
        return NGX_CONF_OK;
    }

    if (rule->type != NGX_EGRESS_RULE_READ) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\": only a \"read\" rule "
                           "has an inspector", &value[0]);
        return NGX_CONF_ERROR;
    }

    for (i = 0; ngx_egress_inspectors[i].name.len; i++) {
        if (ngx_egress_inspectors[i].name.len == value[0].len
            && ngx_strncmp(ngx_egress_inspectors[i].name.data, value[0].data,
                           value[0].len)
               == 0)
        {
            rule->inspector = i + 1;
            rule->inspector_repos = ngx_egress_inspectors[i].repos;
        }
    }

    if (rule->inspector == NGX_EGRESS_INSPECT_NONE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown inspector \"%V\"", &value[0]);
        return NGX_CONF_ERROR;
    }

    return ngx_egress_rule_tools(cf, rule, &value[1], n - 1);
}


static char *
ngx_egress_rule_tools(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value, ngx_uint_t n)
{
    ngx_str_t   *tool;
    ngx_uint_t   i;

    if (ngx_array_init(&rule->tools, cf->pool, 4, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < n; i++) {

        if (rule->inspector != NGX_EGRESS_INSPECT_JSON_RPC
            || ngx_strncmp(value[i].data, "tool=", 5) != 0
            || value[i].len == 5)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (value[i].len == 6 && value[i].data[5] == '*') {
            rule->all_tools = 1;
            continue;
        }

        tool = ngx_array_push(&rule->tools);
        if (tool == NULL) {
            return NGX_CONF_ERROR;
        }

        tool->data = value[i].data + 5;
        tool->len = value[i].len - 5;
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_git(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t              n;
    ngx_str_t             *value;
    ngx_egress_rule_t     *rule;
    ngx_egress_binding_t  *binding;

    value = cf->args->elts;
    n = 0;

    if (cf->args->nelts == 3) {

        if (ngx_strncmp(value[2].data, "segments=", 9) != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[2]);
            return NGX_CONF_ERROR;
        }

        n = ngx_atoi(value[2].data + 9, value[2].len - 9);

        if (n < 1 || n > 32) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid number of segments \"%V\"",
                               &value[2]);
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "on") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"git\" directive, "
                           "it must be \"on\" or \"off\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    binding = ngx_egress_rule_binding(cf, conf);

    rule = ngx_egress_rule_add(cf, conf, &binding->rules);
    if (rule == NULL) {
        return NGX_CONF_ERROR;
    }

    rule->type = NGX_EGRESS_RULE_GIT;
    rule->segments = n;

    return ngx_egress_rule_text(cf, &rule->text);
}


char *
ngx_egress_encoded_slash(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                  *rv;
    ngx_str_t             *value;
    ngx_uint_t             used;
    ngx_egress_rule_t     *rule;
    ngx_egress_binding_t  *binding;

    value = cf->args->elts;

    binding = ngx_egress_rule_binding(cf, conf);

    rule = ngx_egress_rule_add(cf, conf, &binding->rules);
    if (rule == NULL) {
        return NGX_CONF_ERROR;
    }

    rule->type = NGX_EGRESS_RULE_SLASH;

    if (cf->args->nelts == 2
        && (ngx_strcmp(value[1].data, "on") == 0
            || ngx_strcmp(value[1].data, "off") == 0))
    {
        rule->any_path = 1;
        rule->on = (value[1].len == 2);

        return NGX_CONF_OK;
    }

    rv = ngx_egress_rule_pattern(cf, rule, &value[1], cf->args->nelts - 1, 0,
                                 &used);

    if (rv == NGX_CONF_OK && used != cf->args->nelts - 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\"", &value[1 + used]);
        return NGX_CONF_ERROR;
    }

    return rv;
}


ngx_egress_binding_t *
ngx_egress_rule_binding(ngx_conf_t *cf, void *conf)
{
    ngx_egress_scope_t  *scope;

    if (cf->cmd_type == NGX_EGRESS_HOST_CONF) {
        scope = conf;
        return scope->binding;
    }

    return conf;
}


ngx_egress_rule_t *
ngx_egress_rule_add(ngx_conf_t *cf, void *conf, ngx_array_t *rules)
{
    ngx_egress_rule_t  *rule;

    rule = ngx_array_push(rules);
    if (rule == NULL) {
        return NULL;
    }

    ngx_memzero(rule, sizeof(ngx_egress_rule_t));

    if (cf->cmd_type == NGX_EGRESS_HOST_CONF
        || cf->cmd_type == NGX_EGRESS_NARROW_CONF)
    {
        rule->scope = conf;
    }

    ngx_egress_place(cf, &rule->place);

    return rule;
}


char *
ngx_egress_rule_methods(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value)
{
    u_char      *p, *last, *next;
    ngx_str_t    method, *other;
    ngx_uint_t   bit;

    if (value->len == 1 && value->data[0] == '*') {
        rule->any_method = 1;
        return NGX_CONF_OK;
    }

    last = value->data + value->len;

    for (p = value->data; p <= last; p = next + 1) {

        next = ngx_strlchr(p, last, ',');

        if (next == NULL) {
            next = last;
        }

        method.data = p;
        method.len = next - p;

        while (p < next && ((*p >= 'A' && *p <= 'Z') || *p == '-')) {
            p++;
        }

        if (p != next || method.len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid method in \"%V\"", value);
            return NGX_CONF_ERROR;
        }

        bit = ngx_egress_method(&method);

        if (bit) {
            rule->methods |= bit;
            continue;
        }

        if (rule->others == NULL) {
            rule->others = ngx_array_create(cf->pool, 1, sizeof(ngx_str_t));
            if (rule->others == NULL) {
                return NGX_CONF_ERROR;
            }
        }

        other = ngx_array_push(rule->others);
        if (other == NULL) {
            return NGX_CONF_ERROR;
        }

        *other = method;
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_rule_pattern(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value, ngx_uint_t n, ngx_uint_t caseless, ngx_uint_t *used)
{
#if (NGX_PCRE)
    u_char               errstr[NGX_MAX_CONF_ERRSTR];
    ngx_regex_compile_t  rc;
#endif

    *used = 2;

    if (value[0].len == 1 && value[0].data[0] == '=' && n >= 2) {

        if (value[1].len && value[1].data[0] == '/') {
            rule->exact = value[1];
            rule->anchored = 1;
            return NGX_CONF_OK;
        }

        value++;

    } else if (value[0].len == 1 && value[0].data[0] == '~' && n >= 2) {

#if (NGX_PCRE)
        ngx_memzero(&rc, sizeof(ngx_regex_compile_t));

        rc.pattern = value[1];
        rc.pool = cf->pool;
        rc.err.len = NGX_MAX_CONF_ERRSTR;
        rc.err.data = errstr;
        rc.options = caseless ? NGX_REGEX_CASELESS : 0;

        if (ngx_regex_compile(&rc) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V", &rc.err);
            return NGX_CONF_ERROR;
        }

        rule->regex = rc.regex;
        rule->captures = rc.captures;

        /* "^...$" says what the whole path looks like */

        rule->anchored = (value[1].len > 1 && value[1].data[0] == '^'
                          && value[1].data[value[1].len - 1] == '$'
                          && value[1].data[value[1].len - 2] != '\\');

        return NGX_CONF_OK;
#else
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "using regex \"%V\" requires PCRE library",
                           &value[1]);
        return NGX_CONF_ERROR;
#endif

    } else if (value[0].len && value[0].data[0] == '/') {
        rule->prefix = value[0];
        *used = 1;
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid pattern \"%V\": \"= /exact\", \"/prefix\" "
                       "or \"~ regex\" is needed", &value[0]);

    return NGX_CONF_ERROR;
}


char *
ngx_egress_rule_text(ngx_conf_t *cf, ngx_str_t *text)
{
    size_t       len;
    u_char      *p;
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;
    len = 0;

    for (i = 0; i < cf->args->nelts; i++) {
        len += value[i].len + 1;
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    text->data = p;
    text->len = len - 1;

    for (i = 0; i < cf->args->nelts; i++) {
        p = ngx_cpymem(p, value[i].data, value[i].len);
        *p++ = ' ';
    }

    return NGX_CONF_OK;
}
