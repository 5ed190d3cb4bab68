
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


static ngx_array_t *ngx_egress_command_args(ngx_conf_t *cf,
    const char **words);


ngx_command_t *
ngx_egress_command_find(ngx_module_t *module, const char *name)
{
    ngx_command_t  *cmd;

    for (cmd = module->commands; cmd && cmd->name.len; cmd++) {
        if (ngx_strcmp(cmd->name.data, name) == 0) {
            return cmd;
        }
    }

    return NULL;
}


char *
ngx_egress_command_run(ngx_conf_t *cf, ngx_module_t *module, void *conf,
    const char **words)
{
    char           *rv;
    ngx_str_t      *ours;
    ngx_array_t    *args, *saved;
    ngx_command_t  *cmd;

    cmd = ngx_egress_command_find(module, words[0]);

    if (cmd == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s has no \"%s\"", module->name, words[0]);
        return NGX_CONF_ERROR;
    }

    args = ngx_egress_command_args(cf, words);
    if (args == NULL) {
        return NGX_CONF_ERROR;
    }

    saved = cf->args;
    cf->args = args;

    rv = cmd->set(cf, cmd, conf);

    cf->args = saved;

    if (rv == NGX_CONF_OK || rv == NGX_CONF_ERROR) {
        return rv;
    }

    ours = saved->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%s\" beside \"%V\", which sets it",
                       words[0], ours);

    return NGX_CONF_ERROR;
}


/* handlers keep the words: they are copied */

static ngx_array_t *
ngx_egress_command_args(ngx_conf_t *cf, const char **words)
{
    size_t        len;
    ngx_str_t    *value;
    ngx_uint_t    i;
    ngx_array_t  *args;

    args = ngx_array_create(cf->pool, 3, sizeof(ngx_str_t));
    if (args == NULL) {
        return NULL;
    }

    for (i = 0; words[i]; i++) {

        value = ngx_array_push(args);
        if (value == NULL) {
            return NULL;
        }

        len = ngx_strlen(words[i]);

        value->data = ngx_pnalloc(cf->pool, len + 1);
        if (value->data == NULL) {
            return NULL;
        }

        ngx_cpystrn(value->data, (u_char *) words[i], len + 1);
        value->len = len;
    }

    return args;
}
