
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
static ngx_int_t ngx_egress_binding_inject(ngx_conf_t *cf,
    ngx_egress_binding_t *binding);
static ngx_egress_header_t *ngx_egress_header_add(ngx_conf_t *cf,
    ngx_egress_binding_t *binding, ngx_str_t *name);
static ngx_egress_field_t *ngx_egress_field_add(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_str_t *name);
static ngx_uint_t ngx_egress_header_reserved(ngx_str_t *name);
static ngx_uint_t ngx_egress_loopback(ngx_addr_t *addr);


char *
ngx_egress_binding_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    char                   *rv;
    u_char                  ch;
    ngx_str_t              *value;
    ngx_uint_t              i;
    ngx_egress_binding_t   *binding, **bindings;

    value = cf->args->elts;

    for (i = 0; i < value[1].len; i++) {
        ch = ngx_tolower(value[1].data[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')
            && ch != '-' && ch != '_' && ch != '.')
        {
            break;
        }
    }

    if (i == 0 || i != value[1].len || i > 64) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid binding name \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    bindings = ecf->bindings.elts;

    for (i = 0; i < ecf->bindings.nelts; i++) {
        if (bindings[i]->name.len == value[1].len
            && ngx_strncmp(bindings[i]->name.data, value[1].data,
                           value[1].len)
               == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate binding \"%V\"", &value[1]);
            return NGX_CONF_ERROR;
        }
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
     *     binding->credential.secret = NULL;
     *     binding->credential.basic_user = { 0, NULL };
     */

    binding->conf = ecf;
    binding->name = *name;
    binding->index = ecf->bindings.nelts;
    binding->access = NGX_CONF_UNSET_UINT;
    binding->inspect_max = NGX_CONF_UNSET_SIZE;
    binding->redact = NGX_CONF_UNSET;
    binding->upgrade = NGX_CONF_UNSET;
    binding->foreign_refused = NGX_CONF_UNSET_UINT;
    binding->credential.inject = NGX_CONF_UNSET_UINT;
    binding->credential.ttl = NGX_CONF_UNSET;

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
        || ngx_array_init(&binding->credential.placeholders, cf->pool, 1,
                          sizeof(ngx_egress_placeholder_t))
           != NGX_OK
        || ngx_array_init(&binding->credential.headers, cf->pool, 1,
                          sizeof(ngx_egress_header_t))
           != NGX_OK)
    {
        return NULL;
    }

    return binding;
}


static ngx_int_t
ngx_egress_binding_done(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_str_t                 authorization;
    ngx_egress_credential_t  *cred;

    cred = &binding->credential;

    ngx_conf_init_value(binding->redact, 1);
    ngx_conf_init_value(binding->upgrade, 0);
    ngx_conf_init_uint_value(binding->foreign_refused, 0);
    ngx_conf_init_value(cred->ttl, 0);

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

    if (cred->headers.nelts == 0) {
        ngx_str_set(&authorization, "Authorization");

        if (ngx_egress_header_add(cf, binding, &authorization) == NULL) {
            return NGX_ERROR;
        }
    }

    if (ngx_egress_binding_inject(cf, binding) != NGX_OK) {
        return NGX_ERROR;
    }

    if (binding->upstream && !binding->upstream_ssl
        && cred->secret && !ngx_egress_loopback(binding->upstream))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the upstream \"http://%V\" of binding \"%V\", "
                           "which has a secret, is neither loopback "
                           "nor \"unix:\"",
                           &binding->upstream->name, &binding->name);
        return NGX_ERROR;
    }

    if (ngx_egress_placeholder_init(cf, binding) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_egress_policy_link(cf, binding);
}


static ngx_int_t
ngx_egress_binding_inject(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_egress_credential_t  *cred;

    cred = &binding->credential;

    if (cred->inject == NGX_CONF_UNSET_UINT) {
        cred->inject = cred->secret ? NGX_EGRESS_INJECT_SWAP
                                    : NGX_EGRESS_INJECT_OFF;
    }

    switch (cred->inject) {

    case NGX_EGRESS_INJECT_OFF:
    case NGX_EGRESS_INJECT_STRIP:
        return NGX_OK;

    case NGX_EGRESS_INJECT_SWAP:

        if (cred->placeholders.nelts == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"inject swap\" without a \"placeholder\" "
                               "in binding \"%V\"", &binding->name);
            return NGX_ERROR;
        }

        break;

    default: /* NGX_EGRESS_INJECT_ALWAYS, NGX_EGRESS_INJECT_IF_ABSENT */
        break;
    }

    if (cred->secret == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"inject\" without a \"secret\" "
                           "in binding \"%V\"", &binding->name);
        return NGX_ERROR;
    }

    return NGX_OK;
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
ngx_egress_secret(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t   *value;
    ngx_uint_t   i, fixed, insecure;

    if (binding->credential.secret) {
        return "is duplicate";
    }

    value = cf->args->elts;

    fixed = 0;
    insecure = 0;

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "static") == 0) {
            fixed = 1;

        } else if (ngx_strcmp(value[i].data, "insecure_permissions") == 0) {
            insecure = 1;

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    binding->credential.secret = ngx_egress_secret_add(cf, &value[1], fixed,
                                                       insecure);
    if (binding->credential.secret == NULL) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_placeholder(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    u_char            buf[1024];
    ssize_t           n;
    ngx_str_t        *value, path, text;
    ngx_file_info_t   fi;

    value = cf->args->elts;
    text = value[1];

    if (ngx_strncmp(text.data, "file:", 5) == 0) {

        path.data = text.data + 5;
        path.len = text.len - 5;

        if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        /* a placeholder is no secret: any permissions will do */

        n = ngx_egress_file_read(cf->log, "placeholder", &path, buf,
                                 sizeof(buf), 1, 1, &fi);
        if (n <= 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "could not read the placeholder \"%V\"%s",
                               &path, n == 0 ? ": the file is empty" : "");
            return NGX_CONF_ERROR;
        }

        text.data = buf;
        text.len = n;
    }

    return ngx_egress_placeholder_add(cf, binding->conf,
                                      &binding->credential.placeholders,
                                      &text);
}


char *
ngx_egress_header(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t            *value, *affix;
    ngx_uint_t            i, j;
    ngx_egress_header_t  *header;

    value = cf->args->elts;

    if (ngx_egress_header_reserved(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "header \"%V\" can't carry a credential",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    header = ngx_egress_header_add(cf, binding, &value[1]);
    if (header == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "prefix=", 7) == 0) {
            affix = &header->prefix;

        } else if (ngx_strncmp(value[i].data, "suffix=", 7) == 0) {
            affix = &header->suffix;

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        affix->data = value[i].data + 7;
        affix->len = value[i].len - 7;

        for (j = 0; j < affix->len; j++) {
            if (affix->data[j] < 0x20 || affix->data[j] == 0x7f) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "invalid parameter \"%V\"", &value[i]);
                return NGX_CONF_ERROR;
            }
        }

        header->affixed = 1;
    }

    return NGX_CONF_OK;
}


static ngx_egress_header_t *
ngx_egress_header_add(ngx_conf_t *cf, ngx_egress_binding_t *binding,
    ngx_str_t *name)
{
    ngx_uint_t            i;
    ngx_egress_field_t   *field;
    ngx_egress_header_t  *header;

    field = ngx_egress_field_add(cf, binding->conf, name);
    if (field == NULL) {
        return NULL;
    }

    header = binding->credential.headers.elts;

    for (i = 0; i < binding->credential.headers.nelts; i++) {
        if (header[i].field == field) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate header \"%V\" in binding \"%V\"",
                               name, &binding->name);
            return NULL;
        }
    }

    header = ngx_array_push(&binding->credential.headers);
    if (header == NULL) {
        return NULL;
    }

    ngx_memzero(header, sizeof(ngx_egress_header_t));

    header->field = field;

    if (field->lowcase.len == sizeof("authorization") - 1
        && ngx_strncmp(field->lowcase.data, "authorization",
                       sizeof("authorization") - 1)
           == 0)
    {
        header->authorization = 1;

    } else {
        header->affixed = 1;
    }

    return header;
}


static ngx_egress_field_t *
ngx_egress_field_add(ngx_conf_t *cf, ngx_egress_conf_t *ecf, ngx_str_t *name)
{
    u_char                ch;
    ngx_uint_t            i;
    ngx_egress_field_t   *field, **fields;

    for (i = 0; i < name->len; i++) {
        ch = ngx_tolower(name->data[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9') && ch != '-') {
            break;
        }
    }

    if (i == 0 || i != name->len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid header name \"%V\"", name);
        return NULL;
    }

    fields = ecf->fields.elts;

    for (i = 0; i < ecf->fields.nelts; i++) {
        if (fields[i]->name.len == name->len
            && ngx_strncasecmp(fields[i]->name.data, name->data, name->len)
               == 0)
        {
            return fields[i];
        }
    }

    field = ngx_palloc(cf->pool, sizeof(ngx_egress_field_t));
    if (field == NULL) {
        return NULL;
    }

    field->name = *name;
    field->index = ecf->fields.nelts;
    field->lowcase.len = name->len;
    field->lowcase.data = ngx_pnalloc(cf->pool, name->len);
    if (field->lowcase.data == NULL) {
        return NULL;
    }

    ngx_strlow(field->lowcase.data, name->data, name->len);

    fields = ngx_array_push(&ecf->fields);
    if (fields == NULL) {
        return NULL;
    }

    *fields = field;

    return field;
}


/* fields that frame or route the request, or that never go upstream */

static ngx_uint_t
ngx_egress_header_reserved(ngx_str_t *name)
{
    ngx_uint_t  i;

    static ngx_str_t  reserved[] = {
        ngx_string("Host"),
        ngx_string("Connection"),
        ngx_string("Content-Length"),
        ngx_string("Transfer-Encoding"),
        ngx_string("Content-Encoding"),
        ngx_string("Content-Type"),
        ngx_string("Expect"),
        ngx_string("Forwarded"),
        ngx_string("Keep-Alive"),
        ngx_string("Range"),
        ngx_string("TE"),
        ngx_string("Trailer"),
        ngx_string("Upgrade"),
        ngx_string("Via"),
        ngx_string("HTTP2-Settings"),
        ngx_string("X-Real-IP"),
        ngx_string("X-HTTP-Method-Override"),
        ngx_string("X-HTTP-Method"),
        ngx_string("X-Method-Override"),
        ngx_string("X-Original-URL"),
        ngx_string("X-Original-Method"),
        ngx_string("X-Rewrite-URL"),
        ngx_null_string
    };

    for (i = 0; reserved[i].len; i++) {
        if (reserved[i].len == name->len
            && ngx_strncasecmp(reserved[i].data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return (name->len > 6
            && ngx_strncasecmp(name->data, (u_char *) "Proxy-", 6) == 0)
           || (name->len > 12
               && ngx_strncasecmp(name->data, (u_char *) "X-Forwarded-", 12)
                  == 0);
}


char *
ngx_egress_basic_user(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (binding->credential.basic_user.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (i = 0; i < value[1].len; i++) {
        if (value[1].data[i] < 0x20 || value[1].data[i] == 0x7f
            || value[1].data[i] == ':')
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid user name \"%V\"", &value[1]);
            return NGX_CONF_ERROR;
        }
    }

    if (cf->args->nelts == 3) {

        if (ngx_strcmp(value[2].data, "everywhere") != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[2]);
            return NGX_CONF_ERROR;
        }

        binding->credential.basic_everywhere = 1;
    }

    binding->credential.basic_user = value[1];

    return NGX_CONF_OK;
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
