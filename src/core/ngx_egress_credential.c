
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_egress_credential_t *ngx_egress_credential_find(
    ngx_egress_binding_t *binding, ngx_str_t *name);
static ngx_int_t ngx_egress_credential_done(ngx_conf_t *cf,
    ngx_egress_credential_t *cred);
static ngx_uint_t ngx_egress_credential_empty(ngx_egress_credential_t *cred);
static ngx_int_t ngx_egress_credential_inject(ngx_conf_t *cf,
    ngx_egress_credential_t *cred);
static const char *ngx_egress_credential_kind(ngx_egress_credential_t *cred);
static ngx_egress_header_t *ngx_egress_header_add(ngx_conf_t *cf,
    ngx_egress_credential_t *cred, ngx_str_t *name);
static ngx_uint_t ngx_egress_header_bound(ngx_egress_binding_t *binding,
    ngx_egress_field_t *field);
static ngx_egress_field_t *ngx_egress_field_add(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_str_t *name);
static ngx_uint_t ngx_egress_header_reserved(ngx_str_t *name);


/* each of them only grows */

ngx_uint_t
ngx_egress_generation(ngx_egress_binding_t *binding, ngx_str_t *sandbox)
{
    ngx_uint_t             i, generation;
    ngx_egress_secret_t  **secret;

    generation = 0;
    secret = binding->secrets.elts;

    for (i = 0; i < binding->secrets.nelts; i++) {
        generation += ngx_egress_secret_generation(secret[i], sandbox);
    }

    return generation;
}


char *
ngx_egress_credential_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_binding_t  *binding = conf;

    ngx_str_t                *value;
    ngx_egress_credential_t  *cred;

    value = cf->args->elts;

    if (ngx_egress_binding_name(cf, "credential", &value[1]) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    cred = ngx_egress_credential_find(binding, &value[1]);

    if (cred == &binding->own) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "credential \"%V\" has the name of its binding",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    if (cred == NULL) {
        if (binding->credentials.nelts == NGX_EGRESS_CREDENTIALS) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "too many credentials in binding \"%V\"",
                               &binding->name);
            return NGX_CONF_ERROR;
        }

        cred = ngx_pcalloc(cf->pool, sizeof(ngx_egress_credential_t));
        if (cred == NULL) {
            return NGX_CONF_ERROR;
        }

        if (ngx_egress_credential_init(cf, cred, binding, &value[1])
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return ngx_egress_conf_block(cf, cred, NGX_EGRESS_CREDENTIAL_CONF);
}


static ngx_egress_credential_t *
ngx_egress_credential_find(ngx_egress_binding_t *binding, ngx_str_t *name)
{
    ngx_uint_t                 i;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {
        if (creds[i]->name.len == name->len
            && ngx_strncmp(creds[i]->name.data, name->data, name->len) == 0)
        {
            return creds[i];
        }
    }

    return NULL;
}


ngx_int_t
ngx_egress_credential_init(ngx_conf_t *cf, ngx_egress_credential_t *cred,
    ngx_egress_binding_t *binding, ngx_str_t *name)
{
    ngx_egress_credential_t  **creds;

    /*
     * set by ngx_pcalloc():
     *
     *     cred->secret = NULL;
     *     cred->placeholder = { 0, NULL };
     *     cred->basic_user = { 0, NULL };
     *     cred->basic_everywhere = 0;
     */

    cred->name = *name;
    cred->binding = binding;
    cred->inject = NGX_CONF_UNSET_UINT;
    cred->ttl = NGX_CONF_UNSET;

    if (ngx_array_init(&cred->placeholders, cf->pool, 1,
                       sizeof(ngx_egress_placeholder_t))
        != NGX_OK
        || ngx_array_init(&cred->headers, cf->pool, 1,
                          sizeof(ngx_egress_header_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    creds = ngx_array_push(&binding->credentials);
    if (creds == NULL) {
        return NGX_ERROR;
    }

    *creds = cred;

    return NGX_OK;
}


ngx_int_t
ngx_egress_credentials_done(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_uint_t                 i;
    ngx_egress_secret_t      **secret;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;

    if (binding->credentials.nelts > 1
        && ngx_egress_credential_empty(&binding->own))
    {
        /* only blocks: no header is bound that none of them names */

        binding->credentials.nelts--;

        ngx_memmove(creds, creds + 1, binding->credentials.nelts
                                      * sizeof(ngx_egress_credential_t *));
    }

    for (i = 0; i < binding->credentials.nelts; i++) {

        if (ngx_egress_credential_done(cf, creds[i]) != NGX_OK) {
            return NGX_ERROR;
        }

        if (creds[i]->secret == NULL) {
            continue;
        }

        secret = ngx_array_push(&binding->secrets);
        if (secret == NULL) {
            return NGX_ERROR;
        }

        *secret = creds[i]->secret;

        if (creds[i]->secret->each) {
            binding->sandboxed = 1;
        }
    }

    return ngx_egress_placeholder_init(cf, binding);
}


ngx_int_t
ngx_egress_credentials_check(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_uint_t                 i;
    ngx_egress_credential_t  **creds;

    if (binding->conf->sandboxes.len) {

        /* each of them may have a placeholder of its own */

        return NGX_OK;
    }

    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {

        if (creds[i]->inject == NGX_EGRESS_INJECT_SWAP
            && creds[i]->placeholders.nelts == 0)
        {
            ngx_egress_place_error(cf, &binding->place,
                                   "\"inject swap\" without a "
                                   "\"placeholder\" in %s \"%V\"",
                                   ngx_egress_credential_kind(creds[i]),
                                   &creds[i]->name);
            return NGX_ERROR;
        }
    }

    return ngx_egress_env_check(cf, binding);
}


static ngx_uint_t
ngx_egress_credential_empty(ngx_egress_credential_t *cred)
{
    return cred->secret == NULL
           && cred->placeholders.nelts == 0
           && cred->headers.nelts == 0
           && cred->inject == NGX_CONF_UNSET_UINT
           && cred->basic_user.data == NULL
           && cred->ttl == NGX_CONF_UNSET;
}


static ngx_int_t
ngx_egress_credential_done(ngx_conf_t *cf, ngx_egress_credential_t *cred)
{
    ngx_str_t  authorization;

    ngx_conf_init_value(cred->ttl, 0);

    if (cred->headers.nelts == 0) {
        ngx_str_set(&authorization, "Authorization");

        if (ngx_egress_header_add(cf, cred, &authorization) == NULL) {
            return NGX_ERROR;
        }
    }

    return ngx_egress_credential_inject(cf, cred);
}


static ngx_int_t
ngx_egress_credential_inject(ngx_conf_t *cf, ngx_egress_credential_t *cred)
{
    if (cred->inject == NGX_CONF_UNSET_UINT) {
        cred->inject = cred->secret ? NGX_EGRESS_INJECT_SWAP
                                    : NGX_EGRESS_INJECT_OFF;
    }

    switch (cred->inject) {

    case NGX_EGRESS_INJECT_OFF:
    case NGX_EGRESS_INJECT_STRIP:
        return NGX_OK;

    default: /* NGX_EGRESS_INJECT_SWAP, _ALWAYS, _IF_ABSENT */
        break;
    }

    if (cred->secret == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"inject\" without a \"secret\" in %s \"%V\"",
                           ngx_egress_credential_kind(cred), &cred->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static const char *
ngx_egress_credential_kind(ngx_egress_credential_t *cred)
{
    return cred == &cred->binding->own ? "binding" : "credential";
}


char *
ngx_egress_secret(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_credential_t  *cred = conf;

    ngx_str_t   *value;
    ngx_uint_t   i, fixed, insecure;

    if (cred->secret) {
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

    cred->secret = ngx_egress_secret_add(cf, &value[1], fixed, insecure);
    if (cred->secret == NULL) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_egress_placeholder(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_credential_t  *cred = conf;

    char                      *rv;
    u_char                     buf[1024];
    ssize_t                    n;
    ngx_str_t                 *value, path, text;
    ngx_file_info_t            fi;
    ngx_egress_placeholder_t  *ph;

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

    rv = ngx_egress_placeholder_add(cf, cred->binding->conf,
                                    &cred->placeholders, &text);

    if (rv == NGX_CONF_OK && cred->placeholder.data == NULL) {
        ph = cred->placeholders.elts;
        cred->placeholder = ph->text;
    }

    return rv;
}


char *
ngx_egress_header(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_credential_t  *cred = conf;

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

    header = ngx_egress_header_add(cf, cred, &value[1]);
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
ngx_egress_header_add(ngx_conf_t *cf, ngx_egress_credential_t *cred,
    ngx_str_t *name)
{
    ngx_egress_field_t    *field;
    ngx_egress_header_t   *header;
    ngx_egress_binding_t  *binding;

    binding = cred->binding;

    field = ngx_egress_field_add(cf, binding->conf, name);
    if (field == NULL) {
        return NULL;
    }

    if (ngx_egress_header_bound(binding, field)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate header \"%V\" in binding \"%V\"",
                           name, &binding->name);
        return NULL;
    }

    header = ngx_array_push(&cred->headers);
    if (header == NULL) {
        return NULL;
    }

    ngx_memzero(header, sizeof(ngx_egress_header_t));

    header->field = field;
    header->credential = cred;

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


/* a field carries one credential of a binding: which of them is plain */

static ngx_uint_t
ngx_egress_header_bound(ngx_egress_binding_t *binding,
    ngx_egress_field_t *field)
{
    ngx_uint_t                 i, j;
    ngx_egress_header_t       *header;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {

        header = creds[i]->headers.elts;

        for (j = 0; j < creds[i]->headers.nelts; j++) {
            if (header[j].field == field) {
                return 1;
            }
        }
    }

    return 0;
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
    ngx_egress_credential_t  *cred = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (cred->basic_user.data) {
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

        cred->basic_everywhere = 1;
    }

    cred->basic_user = value[1];

    return NGX_CONF_OK;
}
