
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_int_t ngx_egress_env_add(ngx_conf_t *cf,
    ngx_egress_credential_t *cred, ngx_str_t *value);
static ngx_uint_t ngx_egress_env_valid(ngx_str_t *name);
static ngx_uint_t ngx_egress_env_reserved(ngx_str_t *name);


/* what the gateway sets itself, by any case of its letters */

static ngx_str_t  ngx_egress_env_ours[] = {
    ngx_string("HTTP_PROXY"),
    ngx_string("HTTPS_PROXY"),
    ngx_string("ALL_PROXY"),
    ngx_string("FTP_PROXY"),
    ngx_string("NO_PROXY"),
    ngx_string("NODE_USE_ENV_PROXY"),
    ngx_string("SSL_CERT_FILE"),
    ngx_string("SSL_CERT_DIR"),
    ngx_string("REQUESTS_CA_BUNDLE"),
    ngx_string("CURL_CA_BUNDLE"),
    ngx_string("NODE_EXTRA_CA_CERTS"),
    ngx_string("PIP_CERT"),
    ngx_string("NPM_CONFIG_CAFILE"),
    ngx_string("DENO_CERT"),
    ngx_string("AWS_CA_BUNDLE"),
    ngx_string("CARGO_HTTP_CAINFO"),
    ngx_string("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
    ngx_string("JAVA_TOOL_OPTIONS"),
    ngx_string("EGRESS_CA_BUNDLE"),
    ngx_null_string
};


/* what makes a shell, a loader or an interpreter do something else */

static ngx_str_t  ngx_egress_env_harmful[] = {
    ngx_string("PATH"),
    ngx_string("HOME"),
    ngx_string("IFS"),
    ngx_string("ENV"),
    ngx_string("BASH_ENV"),
    ngx_string("BASHOPTS"),
    ngx_string("SHELLOPTS"),
    ngx_string("PROMPT_COMMAND"),
    ngx_string("PS4"),
    ngx_string("NODE_OPTIONS"),
    ngx_string("PERL5OPT"),
    ngx_string("PYTHONSTARTUP"),
    ngx_string("RUBYOPT"),
    ngx_null_string
};


static ngx_str_t  ngx_egress_env_prefixes[] = {
    ngx_string("LD_"),
    ngx_string("DYLD_"),
    ngx_string("BASH_FUNC_"),
    ngx_string("GIT_CONFIG"),
    ngx_string("GIT_HTTP_PROXY"),
    ngx_string("GIT_SSL_"),
    ngx_string("GIT_PROXY_"),
    ngx_null_string
};


char *
ngx_egress_env(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_credential_t  *cred = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_egress_env_add(cf, cred, &value[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_egress_env_add(ngx_conf_t *cf, ngx_egress_credential_t *cred,
    ngx_str_t *value)
{
    u_char             *p;
    ngx_str_t           name, text;
    ngx_uint_t          i;
    const char         *why;
    ngx_array_t        *all;
    ngx_egress_env_t   *env;

    name = *value;
    ngx_str_null(&text);

    p = ngx_strlchr(value->data, value->data + value->len, '=');

    if (p) {
        name.len = p - value->data;
        text.data = p + 1;
        text.len = value->data + value->len - text.data;
    }

    if (!ngx_egress_env_valid(&name)) {
        why = "a letter or \"_\", then letters, digits or \"_\" are needed";
        goto refused;
    }

    if (ngx_egress_env_reserved(&name)) {
        why = "it is not for a binding to set";
        goto refused;
    }

    for (i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f) {
            why = "its text has a control character";
            goto refused;
        }
    }

    all = &cred->binding->env;
    env = all->elts;

    for (i = 0; i < all->nelts; i++) {
        if (env[i].name.len == name.len
            && ngx_strncmp(env[i].name.data, name.data, name.len) == 0)
        {
            why = "the binding has it already";
            goto refused;
        }
    }

    env = ngx_array_push(all);
    if (env == NULL) {
        return NGX_ERROR;
    }

    env->name = name;
    env->text = text;
    env->credential = cred;

    return NGX_OK;

refused:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid variable \"%V\": %s", &name, why);

    return NGX_ERROR;
}


/* what every shell takes, and no shell takes for something else */

static ngx_uint_t
ngx_egress_env_valid(ngx_str_t *name)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        ch = ngx_tolower(name->data[i]);

        if ((ch < 'a' || ch > 'z') && ch != '_'
            && (i == 0 || ch < '0' || ch > '9'))
        {
            return 0;
        }
    }

    return name->len > 0;
}


static ngx_uint_t
ngx_egress_env_reserved(ngx_str_t *name)
{
    ngx_str_t  *s;

    for (s = ngx_egress_env_ours; s->len; s++) {
        if (s->len == name->len
            && ngx_strncasecmp(s->data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    for (s = ngx_egress_env_harmful; s->len; s++) {
        if (s->len == name->len
            && ngx_strncmp(s->data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    for (s = ngx_egress_env_prefixes; s->len; s++) {
        if (s->len <= name->len
            && ngx_strncmp(s->data, name->data, s->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_egress_env_check(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_uint_t         i;
    ngx_egress_env_t  *env;

    env = binding->env.elts;

    for (i = 0; i < binding->env.nelts; i++) {
        if (env[i].text.data == NULL
            && env[i].credential->placeholders.nelts == 0)
        {
            ngx_egress_place_error(cf, &binding->place,
                                   "\"env %V\" without a text or a "
                                   "\"placeholder\" in binding \"%V\"",
                                   &env[i].name, &binding->name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
