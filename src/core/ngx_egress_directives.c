
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static char *ngx_egress_name(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_egress_ca(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_egress_resolver(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_egress_keepalive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_egress_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


static ngx_conf_enum_t  ngx_egress_inject[] = {
    { ngx_string("off"), NGX_EGRESS_INJECT_OFF },
    { ngx_string("swap"), NGX_EGRESS_INJECT_SWAP },
    { ngx_string("always"), NGX_EGRESS_INJECT_ALWAYS },
    { ngx_string("if_absent"), NGX_EGRESS_INJECT_IF_ABSENT },
    { ngx_string("strip"), NGX_EGRESS_INJECT_STRIP },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_egress_access[] = {
    { ngx_string("read"), NGX_EGRESS_READ },
    { ngx_string("write"), NGX_EGRESS_WRITE },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_egress_foreign[] = {
    { ngx_string("pass"), 0 },
    { ngx_string("refuse"), 1 },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_egress_mode[] = {
    { ngx_string("enforce"), 0 },
    { ngx_string("report"), 1 },
    { ngx_null_string, 0 }
};


static ngx_conf_num_bounds_t  ngx_egress_connections = {
    ngx_conf_check_num_bounds, 1, 65535
};


static ngx_conf_enum_t  ngx_egress_network[] = {
    { ngx_string("none"), 0 },
    { ngx_string("all"), 1 },
    { ngx_null_string, 0 }
};


/* all directives; contexts are told by bits (prototype2 P13) */

ngx_command_t  ngx_egress_commands[] = {

    { ngx_string("egress"),
      NGX_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_NOARGS,
      ngx_egress_block,
      0,
      0,
      NULL },

    { ngx_string("name"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_egress_name,
      0,
      0,
      NULL },

    { ngx_string("ca"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE2,
      ngx_egress_ca,
      0,
      0,
      NULL },

    { ngx_string("leaf_validity"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_sec_slot,
      0,
      offsetof(ngx_egress_conf_t, leaf_validity),
      NULL },

    { ngx_string("trusted_certificate"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      0,
      offsetof(ngx_egress_conf_t, trusted_certificate),
      NULL },

    { ngx_string("secret_check"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_egress_conf_t, secret_check),
      NULL },

    { ngx_string("resolver"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_resolver,
      0,
      0,
      NULL },

    { ngx_string("resolver_timeout"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_egress_conf_t, resolver_timeout),
      NULL },

    { ngx_string("upstream_keepalive"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE12,
      ngx_egress_keepalive,
      0,
      0,
      NULL },

    { ngx_string("zone"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_egress_zone,
      0,
      0,
      NULL },

    { ngx_string("mode"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_conf_t, report),
      &ngx_egress_mode },

    { ngx_string("audit_log"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_audit_log,
      0,
      0,
      NULL },

    { ngx_string("binding"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_egress_binding_block,
      0,
      0,
      NULL },

    { ngx_string("hosts"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_hosts,
      0,
      0,
      NULL },

    { ngx_string("host"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_BLOCK|NGX_CONF_1MORE,
      ngx_egress_host_block,
      0,
      0,
      NULL },

    { ngx_string("secret"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE123,
      ngx_egress_secret,
      0,
      0,
      NULL },

    { ngx_string("placeholder"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE1,
      ngx_egress_placeholder,
      0,
      0,
      NULL },

    { ngx_string("inject"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_credential_t, inject),
      &ngx_egress_inject },

    { ngx_string("header"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE123,
      ngx_egress_header,
      0,
      0,
      NULL },

    { ngx_string("basic_user"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE12,
      ngx_egress_basic_user,
      0,
      0,
      NULL },

    { ngx_string("credential"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_egress_credential_block,
      0,
      0,
      NULL },

    { ngx_string("env"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_1MORE,
      ngx_egress_env,
      0,
      0,
      NULL },

    { ngx_string("path_prefix"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_egress_path_prefix,
      0,
      0,
      NULL },

    { ngx_string("access"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_binding_t, access),
      &ngx_egress_access },

    { ngx_string("upstream"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_egress_upstream,
      0,
      0,
      NULL },

    { ngx_string("allow_private"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_binding_private,
      0,
      0,
      NULL },

    { ngx_string("redact"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      0,
      offsetof(ngx_egress_binding_t, redact),
      NULL },

    { ngx_string("upgrade"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      0,
      offsetof(ngx_egress_binding_t, upgrade),
      NULL },

    { ngx_string("foreign_credential"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_binding_t, foreign_refused),
      &ngx_egress_foreign },

    { ngx_string("ttl"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_CREDENTIAL_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE1,
      ngx_conf_set_sec_slot,
      0,
      offsetof(ngx_egress_credential_t, ttl),
      NULL },

    { ngx_string("pass_headers"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_pass_headers,
      0,
      0,
      NULL },

    { ngx_string("read"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_2MORE,
      ngx_egress_rule,
      0,
      NGX_EGRESS_RULE_READ,
      NULL },

    { ngx_string("write"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE23,
      ngx_egress_rule,
      0,
      NGX_EGRESS_RULE_WRITE,
      NULL },

    { ngx_string("refuse"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE23,
      ngx_egress_rule,
      0,
      NGX_EGRESS_RULE_REFUSE,
      NULL },

    { ngx_string("anonymous"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE23,
      ngx_egress_rule,
      0,
      NGX_EGRESS_RULE_ANONYMOUS,
      NULL },

    { ngx_string("repo_free"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE23,
      ngx_egress_rule,
      0,
      NGX_EGRESS_RULE_REPO_FREE,
      NULL },

    { ngx_string("repo"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE2,
      ngx_egress_repo,
      0,
      0,
      NULL },

    { ngx_string("repos"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_RESTRICT_CONF|NGX_DIRECT_CONF
      |NGX_CONF_1MORE,
      ngx_egress_repos,
      0,
      0,
      NULL },

    { ngx_string("inspect_body_max"),
      NGX_EGRESS_BINDING_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      0,
      offsetof(ngx_egress_binding_t, inspect_max),
      NULL },

    { ngx_string("git"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE12,
      ngx_egress_git,
      0,
      0,
      NULL },

    { ngx_string("encoded_slash"),
      NGX_EGRESS_BINDING_CONF|NGX_EGRESS_HOST_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE12,
      ngx_egress_encoded_slash,
      0,
      0,
      NULL },

    { ngx_string("sandboxes"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_egress_sandboxes,
      0,
      0,
      NULL },

    { ngx_string("unidentified"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      0,
      offsetof(ngx_egress_conf_t, unidentified_role),
      NULL },

    { ngx_string("self_url"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_egress_self_url,
      0,
      0,
      NULL },

    { ngx_string("role"),
      NGX_EGRESS_CONF|NGX_DIRECT_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_egress_role_block,
      0,
      0,
      NULL },

    { ngx_string("use"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_use,
      0,
      0,
      NULL },

    { ngx_string("restrict"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_egress_restrict_block,
      0,
      0,
      NULL },

    { ngx_string("access"),
      NGX_EGRESS_RESTRICT_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_restrict_t, access),
      &ngx_egress_access },

    { ngx_string("host"),
      NGX_EGRESS_RESTRICT_CONF|NGX_DIRECT_CONF|NGX_CONF_BLOCK|NGX_CONF_1MORE,
      ngx_egress_restrict_host,
      0,
      0,
      NULL },

    { ngx_string("allow"),
      NGX_EGRESS_RESTRICT_CONF|NGX_EGRESS_NARROW_CONF|NGX_DIRECT_CONF
      |NGX_CONF_TAKE23,
      ngx_egress_restrict_allow,
      0,
      0,
      NULL },

    { ngx_string("mode"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_role_t, report),
      &ngx_egress_mode },

    { ngx_string("max_connections"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      0,
      offsetof(ngx_egress_role_t, max_connections),
      &ngx_egress_connections },

    { ngx_string("network"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      0,
      offsetof(ngx_egress_role_t, network),
      &ngx_egress_network },

    { ngx_string("allow_host"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_allow_host,
      0,
      0,
      NULL },

    { ngx_string("allow_cidr"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_allow_cidr,
      0,
      0,
      NULL },

    { ngx_string("allow_private"),
      NGX_EGRESS_ROLE_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_egress_allow_private,
      0,
      0,
      NULL },

      ngx_null_command
};


/* an sf-token: it stands in Proxy-Status and Via unquoted (RFC 8941, 3.3.4) */

static char *
ngx_egress_name(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    u_char      ch;
    ngx_str_t  *value;
    ngx_uint_t  i;

    if (ecf->name.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (i = 0; i < value[1].len; i++) {
        ch = ngx_tolower(value[1].data[i]);

        if (ch >= 'a' && ch <= 'z') {
            continue;
        }

        if (i && ((ch >= '0' && ch <= '9')
                  || ngx_strchr("!#$%&'*+-.^_`|~", ch)))
        {
            continue;
        }

        break;
    }

    if (i == 0 || i != value[1].len) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\": a letter, then letters, "
                           "digits, \"-\", \".\" or \"_\" are needed",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    ecf->name = value[1];

    return NGX_CONF_OK;
}


static char *
ngx_egress_ca(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ngx_str_t  *value;

    if (ecf->ca_cert.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->ca_cert = value[1];
    ecf->ca_key = value[2];

    if (ngx_conf_full_name(cf->cycle, &ecf->ca_cert, 1) != NGX_OK
        || ngx_conf_full_name(cf->cycle, &ecf->ca_key, 1) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_egress_resolver(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ngx_str_t  *value;

    if (ecf->resolver) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->resolver = ngx_resolver_create(cf, &value[1], cf->args->nelts - 1);

    return ecf->resolver ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_egress_keepalive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ngx_int_t    n;
    ngx_str_t   *value, time;
    ngx_msec_t   idle;

    if (ecf->keepalive != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n > 65535) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid number of connections \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    ecf->keepalive = n;

    if (cf->args->nelts == 2) {
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value[2].data, "idle=", 5) == 0) {

        time.data = value[2].data + 5;
        time.len = value[2].len - 5;

        idle = ngx_parse_time(&time, 0);

        if (idle != (ngx_msec_t) NGX_ERROR && idle) {
            ecf->keepalive_idle = idle;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"", &value[2]);

    return NGX_CONF_ERROR;
}


static char *
ngx_egress_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ssize_t     size;
    ngx_str_t  *value;

    if (ecf->zone_size) {
        return "is duplicate";
    }

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size <= 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    ecf->zone_size = size;

    return NGX_CONF_OK;
}
