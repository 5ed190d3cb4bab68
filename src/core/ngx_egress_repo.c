
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_uint_t ngx_egress_repo_named(ngx_egress_request_t *req,
    ngx_str_t *id);
static ngx_uint_t ngx_egress_repo_capture(ngx_egress_request_t *req,
    ngx_str_t *path, int *captures, ngx_uint_t n, ngx_str_t *id);
static ngx_uint_t ngx_egress_repo_plain(ngx_str_t *name);
static ngx_uint_t ngx_egress_repo_free(ngx_egress_request_t *req);
static ngx_uint_t ngx_egress_repo_lists(ngx_egress_request_t *req,
    ngx_array_t **lists);
static ngx_uint_t ngx_egress_repo_listed(ngx_egress_request_t *req,
    ngx_str_t *owner, ngx_str_t *name);
static ngx_uint_t ngx_egress_repo_on_list(ngx_array_t *repos,
    ngx_str_t *owner, ngx_str_t *name);
static ngx_uint_t ngx_egress_repo_listed_id(ngx_egress_request_t *req,
    ngx_str_t *id);
static ngx_uint_t ngx_egress_repo_id_on_list(ngx_array_t *repos,
    ngx_str_t *id);
static ngx_uint_t ngx_egress_repo_eq(ngx_str_t *listed, ngx_str_t *name);

static char *ngx_egress_repo_add(ngx_conf_t *cf, ngx_array_t *repos,
    ngx_str_t *value);


/* of the binding, of the role and of the sandbox: each has to have it */
#define NGX_EGRESS_REPO_LISTS  3


ngx_uint_t
ngx_egress_repo_check(ngx_egress_request_t *req)
{
    ngx_str_t              id;
    ngx_uint_t             listed;
    ngx_array_t           *lists[NGX_EGRESS_REPO_LISTS];
    ngx_egress_binding_t  *binding;

    binding = req->bound->binding;
    listed = ngx_egress_repo_lists(req, lists);

    ngx_str_null(&id);

    if (req->is_git) {

        /* git paths name their repository by themselves */

        if (listed == 0) {
            return NGX_EGRESS_ALLOWED;
        }

        return ngx_egress_repo_listed(req, &req->owner, &req->repo)
               ? NGX_EGRESS_ALLOWED : NGX_EGRESS_REPO_REFUSED;
    }

    if (binding->repo_rules.nelts && ngx_egress_repo_named(req, &id)) {

        if (listed == 0) {
            return NGX_EGRESS_ALLOWED;
        }

        if (id.len) {
            return ngx_egress_repo_listed_id(req, &id)
                   ? NGX_EGRESS_ALLOWED : NGX_EGRESS_REPO_UNKNOWN;
        }

        if (req->repo.len == 0) {
            return NGX_EGRESS_REPO_UNKNOWN;
        }

        return ngx_egress_repo_listed(req, &req->owner, &req->repo)
               ? NGX_EGRESS_ALLOWED : NGX_EGRESS_REPO_REFUSED;
    }

    if (listed == 0) {
        return NGX_EGRESS_ALLOWED;
    }

    if (req->rule && req->rule->inspector_repos) {

        /* what a query names is looked at once it has been read */

        return NGX_EGRESS_ALLOWED;
    }

    return ngx_egress_repo_free(req) ? NGX_EGRESS_ALLOWED
                                     : NGX_EGRESS_REPO_UNKNOWN;
}


ngx_uint_t
ngx_egress_repo_check_body(ngx_egress_request_t *req, ngx_egress_body_t *body)
{
    ngx_str_t                owner, name;
    ngx_uint_t               i, reason;
    ngx_array_t             *lists[NGX_EGRESS_REPO_LISTS];
    ngx_egress_body_repo_t  *repo;

    if (ngx_egress_repo_lists(req, lists) == 0) {
        return NGX_EGRESS_ALLOWED;
    }

    /* the worst of all roots counts */

    reason = body->root_unknown ? NGX_EGRESS_REPO_UNKNOWN
                                : NGX_EGRESS_ALLOWED;

    for (i = 0; i < body->nrepos; i++) {
        repo = &body->repos[i];

        if (repo->owner_len == 0 || repo->name_len == 0) {
            reason = NGX_EGRESS_REPO_UNKNOWN;
            continue;
        }

        owner.data = repo->owner;
        owner.len = repo->owner_len;
        name.data = repo->name;
        name.len = repo->name_len;

        if (!ngx_egress_repo_listed(req, &owner, &name)) {
            return NGX_EGRESS_REPO_REFUSED;
        }
    }

    return reason;
}


/*
 * The first "repo" pattern that matches tells the name; one that holds what is
 * no plain name is a name that can't be told.
 */

static ngx_uint_t
ngx_egress_repo_named(ngx_egress_request_t *req, ngx_str_t *id)
{
#if (NGX_PCRE)
    int                 captures[9];
    ngx_str_t          *path;
    ngx_uint_t          i, n;
    ngx_egress_rule_t  *rule;

    path = &req->target.canonical;
    rule = req->bound->binding->repo_rules.elts;
    n = req->bound->binding->repo_rules.nelts;

    for (i = 0; i < n; i++) {

        if (rule[i].type != NGX_EGRESS_RULE_REPO
            || !ngx_egress_rule_applies(&rule[i], req))
        {
            continue;
        }

        if (ngx_regex_exec(rule[i].regex, path, captures, 9) >= 0) {
            return ngx_egress_repo_capture(req, path, captures,
                                           rule[i].captures, id);
        }
    }
#endif

    return 0;
}


/* one capture is a number, two are owner and name */

static ngx_uint_t
ngx_egress_repo_capture(ngx_egress_request_t *req, ngx_str_t *path,
    int *captures, ngx_uint_t n, ngx_str_t *id)
{
    size_t     i;
    ngx_str_t  owner, name;

    if (captures[2] < 0 || captures[3] == captures[2]) {
        return 1;
    }

    owner.data = path->data + captures[2];
    owner.len = captures[3] - captures[2];

    if (n == 1) {

        for (i = 0; i < owner.len; i++) {
            if (owner.data[i] < '0' || owner.data[i] > '9') {
                return 1;
            }
        }

        *id = owner;

        return 1;
    }

    if (captures[4] < 0 || captures[5] == captures[4]) {
        return 1;
    }

    name.data = path->data + captures[4];
    name.len = captures[5] - captures[4];

    if (ngx_egress_repo_plain(&owner) && ngx_egress_repo_plain(&name)) {
        req->owner = owner;
        req->repo = name;
    }

    return 1;
}


/* "%2F" between names of groups is theirs; any other "%" hides something */

static ngx_uint_t
ngx_egress_repo_plain(ngx_str_t *name)
{
    size_t  i;

    for (i = 0; i < name->len; i++) {

        if (name->data[i] != '%') {
            continue;
        }

        if (name->len - i < 3 || name->data[i + 1] != '2'
            || name->data[i + 2] != 'F')
        {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_egress_repo_free(ngx_egress_request_t *req)
{
    ngx_uint_t          i, bit;
    ngx_egress_rule_t  *rule;

    bit = ngx_egress_method(&req->method);

    rule = req->bound->binding->repo_rules.elts;

    for (i = 0; i < req->bound->binding->repo_rules.nelts; i++) {

        if (rule[i].type == NGX_EGRESS_RULE_REPO_FREE
            && ngx_egress_rule_applies(&rule[i], req)
            && ngx_egress_rule_method(&rule[i], &req->method, bit)
            && ngx_egress_rule_path(&rule[i], &req->target.canonical, 0))
        {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_egress_repo_lists(ngx_egress_request_t *req, ngx_array_t **lists)
{
    ngx_uint_t  n;

    n = 0;

    if (req->bound->binding->repos.nelts) {
        lists[n++] = &req->bound->binding->repos;
    }

    if (req->restriction && req->restriction->repos.nelts) {
        lists[n++] = &req->restriction->repos;
    }

    if (req->repos) {
        lists[n++] = req->repos;
    }

    return n;
}


static ngx_uint_t
ngx_egress_repo_listed(ngx_egress_request_t *req, ngx_str_t *owner,
    ngx_str_t *name)
{
    ngx_uint_t    i, n;
    ngx_array_t  *lists[NGX_EGRESS_REPO_LISTS];

    n = ngx_egress_repo_lists(req, lists);

    for (i = 0; i < n; i++) {
        if (!ngx_egress_repo_on_list(lists[i], owner, name)) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_egress_repo_on_list(ngx_array_t *repos, ngx_str_t *owner, ngx_str_t *name)
{
    ngx_uint_t          i;
    ngx_egress_repo_t  *repo;

    repo = repos->elts;

    for (i = 0; i < repos->nelts; i++) {

        if (ngx_egress_repo_eq(&repo[i].owner, owner)
            && (repo[i].name.len == 0
                || ngx_egress_repo_eq(&repo[i].name, name)))
        {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_egress_repo_listed_id(ngx_egress_request_t *req, ngx_str_t *id)
{
    ngx_uint_t    i, n;
    ngx_array_t  *lists[NGX_EGRESS_REPO_LISTS];

    n = ngx_egress_repo_lists(req, lists);

    for (i = 0; i < n; i++) {
        if (!ngx_egress_repo_id_on_list(lists[i], id)) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_egress_repo_id_on_list(ngx_array_t *repos, ngx_str_t *id)
{
    ngx_uint_t          i;
    ngx_egress_repo_t  *repo;

    repo = repos->elts;

    for (i = 0; i < repos->nelts; i++) {

        if (repo[i].id.len && repo[i].id.len == id->len
            && ngx_memcmp(repo[i].id.data, id->data, id->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* names are compared without regard to case, and "%2F" is read as "/" */

static ngx_uint_t
ngx_egress_repo_eq(ngx_str_t *listed, ngx_str_t *name)
{
    u_char   ch;
    size_t   i, n;

    for (i = 0, n = 0; i < name->len; i++, n++) {

        ch = ngx_tolower(name->data[i]);

        if (ch == '%' && name->len - i >= 3) {
            ch = '/';
            i += 2;
        }

        if (n == listed->len || listed->data[n] != ch) {
            return 0;
        }
    }

    return n == listed->len;
}


/* "all", or "owner/name", "owner/name#id" and "owner/" with a star */

char *
ngx_egress_repos(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                   *rv;
    ngx_str_t              *value;
    ngx_uint_t              i, *all;
    ngx_array_t            *repos;
    ngx_egress_binding_t   *binding;
    ngx_egress_restrict_t  *restriction;

    if (cf->cmd_type == NGX_EGRESS_RESTRICT_CONF) {
        restriction = conf;
        repos = &restriction->repos;
        all = &restriction->repos_all;

    } else {
        binding = conf;
        repos = &binding->repos;
        all = &binding->repos_all;
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "all") == 0) {

        if (cf->args->nelts != 2 || repos->nelts) {
            return "has both \"all\" and a list";
        }

        *all = 1;

        return NGX_CONF_OK;
    }

    if (*all) {
        return "has both \"all\" and a list";
    }

    for (i = 1; i < cf->args->nelts; i++) {
        rv = ngx_egress_repo_add(cf, repos, &value[i]);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_egress_repo_add(ngx_conf_t *cf, ngx_array_t *repos, ngx_str_t *value)
{
    ngx_egress_repo_t  *repo;

    repo = ngx_array_push(repos);
    if (repo == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_egress_repo_parse(repo, value) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid repository \"%V\": \"owner/name\", "
                           "\"owner/name#id\" or \"owner/*\" is needed",
                           value);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_egress_repo_parse(ngx_egress_repo_t *repo, ngx_str_t *value)
{
    u_char  *p, *last, *slash, *hash, ch;

    ngx_memzero(repo, sizeof(ngx_egress_repo_t));

    last = value->data + value->len;
    slash = NULL;
    hash = NULL;

    ngx_strlow(value->data, value->data, value->len);

    for (p = value->data; p < last; p++) {

        ch = *p;

        if (hash) {
            if (ch < '0' || ch > '9') {
                return NGX_ERROR;
            }

        } else if (ch == '/') {
            if (p == value->data || (slash && p == slash + 1)) {
                return NGX_ERROR;
            }

            slash = p;

        } else if (ch == '#') {
            hash = p;

        } else if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')
                   && ch != '.' && ch != '_' && ch != '-' && ch != '~'
                   && ch != '+'
                   && !(ch == '*' && slash == p - 1 && p == last - 1))
        {
            return NGX_ERROR;
        }
    }

    if (slash == NULL || slash == last - 1 || hash == slash + 1
        || hash == last - 1)
    {
        return NGX_ERROR;
    }

    repo->owner.data = value->data;
    repo->owner.len = slash - value->data;

    if (hash) {
        repo->id.data = hash + 1;
        repo->id.len = last - hash - 1;
        last = hash;
    }

    if (slash[1] != '*') {
        repo->name.data = slash + 1;
        repo->name.len = last - slash - 1;
    }

    return NGX_OK;
}


/* repo ~ regex */

char *
ngx_egress_repo(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                  *rv;
    ngx_str_t             *value;
    ngx_uint_t             used;
    ngx_egress_rule_t     *rule;
    ngx_egress_binding_t  *binding;

    binding = ngx_egress_rule_binding(cf, conf);

    rule = ngx_egress_rule_add(cf, conf, &binding->repo_rules);
    if (rule == NULL) {
        return NGX_CONF_ERROR;
    }

    rule->type = NGX_EGRESS_RULE_REPO;

    value = cf->args->elts;

    if (value[1].len != 1 || value[1].data[0] != '~') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid pattern \"%V\": \"~ regex\" is needed",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    rv = ngx_egress_rule_pattern(cf, rule, &value[1], 2, 0, &used);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (rule->captures != 1 && rule->captures != 2) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"repo ~ %V\" needs two captures, owner and name, "
                           "or one, a number", &value[2]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
