
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* of "ssl_verify_client": certificates that nobody need have signed */
#define NGX_HTTP_EGRESS_VERIFY_NO_CA  3


static void ngx_http_egress_nobody(ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_credentials_find(ngx_http_request_t *r,
    ngx_table_elt_t **found);
static ngx_int_t ngx_http_egress_credentials_parse(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_egress_identity_t *identity);


ngx_uint_t
ngx_http_egress_identify(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_str_t                    id;
    ngx_uint_t                   reason;
    ngx_egress_record_t         *record;
    ngx_http_egress_loc_conf_t  *elcf;

    ngx_http_egress_nobody(ctx);

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_egress_module);
    record = ngx_egress_record_get(ngx_http_egress_connection(r)->pool);

    if (record && record->box) {

        /* a gateway has learned who it is */

        reason = ngx_egress_sandbox_check(record->box, 0,
                                          r->connection->log);

        ctx->role = record->role;
        ctx->sandbox = record->box->id;

        if (reason != NGX_EGRESS_ALLOWED) {
            return reason;
        }

        ctx->box = record->box;

        return ngx_http_egress_live(r, ctx, 0);
    }

    if (elcf->sandbox) {

        if (ngx_http_complex_value(r, elcf->sandbox, &id) != NGX_OK) {
            return NGX_EGRESS_SANDBOX_UNKNOWN;
        }

        if (id.len) {
            reason = ngx_egress_vouch(ctx->conf, &id, r->connection->sockaddr,
                                      &ctx->role, &ctx->box,
                                      r->connection->log);

            if (reason != NGX_EGRESS_ALLOWED) {
                return reason;
            }

            ctx->sandbox = id;

            return ngx_http_egress_live(r, ctx, 1);
        }
    }

    /* nobody in particular */

    ctx->role = (record && record->role) ? record->role
                                         : ctx->conf->unidentified;

    return ctx->role ? NGX_EGRESS_ALLOWED : NGX_EGRESS_PROXY_AUTH_REQUIRED;
}


ngx_uint_t
ngx_http_egress_identify_basic(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_identity_t *identity)
{
    ngx_uint_t        reason;
    ngx_table_elt_t  *h;

    ngx_memzero(identity, sizeof(ngx_egress_identity_t));

    ngx_http_egress_nobody(ctx);

    if (ngx_http_egress_credentials_find(r, &h) != NGX_OK) {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    if (h == NULL || ctx->conf->sandboxes.len == 0) {
        return ngx_http_egress_identify(r, ctx);
    }

    if (ngx_http_egress_credentials_parse(r, h, identity) != NGX_OK) {
        return NGX_EGRESS_MALFORMED_REQUEST;
    }

    reason = ngx_egress_identify(ctx->conf, identity, r->connection->sockaddr,
                                 &ctx->role, &ctx->box, r->connection->log);

    if (reason != NGX_EGRESS_ALLOWED || ctx->box == NULL) {
        return reason;
    }

    ctx->sandbox = identity->user;

    return ngx_http_egress_live(r, ctx, 0);
}


static void
ngx_http_egress_nobody(ngx_http_egress_ctx_t *ctx)
{
    ctx->role = NULL;
    ctx->box = NULL;
    ngx_str_null(&ctx->sandbox);

    if (ctx->live) {
        ngx_egress_live_leave(ctx->live);
    }
}


/* a field of either name; two that differ are not for us to choose from */

static ngx_int_t
ngx_http_egress_credentials_find(ngx_http_request_t *r,
    ngx_table_elt_t **found)
{
    ngx_uint_t               n;
    ngx_table_elt_t         *h;
    ngx_http_egress_walk_t   walk;

    static ngx_str_t  names[] = {
        ngx_string("authorization"),
        ngx_string("proxy-authorization")
    };

    *found = NULL;

    for (h = ngx_http_egress_first(&walk, &r->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        for (n = 0; n < sizeof(names) / sizeof(names[0]); n++) {

            if (h->key.len != names[n].len
                || ngx_strncasecmp(h->key.data, names[n].data, names[n].len)
                   != 0)
            {
                continue;
            }

            if (*found
                && ((*found)->value.len != h->value.len
                    || ngx_memcmp((*found)->value.data, h->value.data,
                                  h->value.len)
                       != 0))
            {
                return NGX_ERROR;
            }

            *found = h;
        }
    }

    return NGX_OK;
}


/* what is no Basic pair with a user is an identity, but one of nobody */

static ngx_int_t
ngx_http_egress_credentials_parse(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_egress_identity_t *identity)
{
    u_char                      *buf;
    ngx_int_t                    rc;
    ngx_egress_authorization_t   auth;

    identity->given = 1;

    buf = ngx_pnalloc(r->pool, h->value.len + 1);
    if (buf == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_egress_authorization_parse(&h->value, buf, &auth);

    if (rc == NGX_OK && auth.form == NGX_EGRESS_AUTH_BASIC && auth.user.len) {
        identity->user = auth.user;
        identity->token = auth.password;
    }

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


/*
 * Where a sandbox has a placeholder of its own, only that one is valid; one of
 * another sandbox is inert, and told to the operator (security T-01).
 */

ngx_uint_t
ngx_http_egress_swappable(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_credential_t *cred, ngx_str_t *text)
{
    ngx_str_t             *own;
    ngx_egress_sandbox_t  *owner;

    own = ngx_egress_sandbox_placeholder(ctx->box, cred->binding);

    if (own) {
        if (own->len == text->len
            && CRYPTO_memcmp(own->data, text->data, own->len) == 0)
        {
            return 1;
        }

    } else if (ngx_egress_placeholder_find(ctx->conf, &cred->placeholders,
                                           text))
    {
        return 1;
    }

    owner = ngx_egress_sandbox_owner(ctx->conf, text);

    if (owner && owner != ctx->box) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "placeholder of sandbox \"%V\" came from %s%V%s",
                      &owner->id,
                      ctx->sandbox.len ? "sandbox \"" : "no sandbox",
                      &ctx->sandbox, ctx->sandbox.len ? "\"" : "");
    }

    return 0;
}


char *
ngx_http_egress_sandbox(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_egress_loc_conf_t *elcf = conf;

    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_egress_module);

    ngx_egress_place(cf, &elcf->sandbox_place);

    if (ngx_egress_vouch_check(cf, emcf->egress) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_set_complex_value_slot(cf, cmd, conf);
}


char *
ngx_http_egress_sandbox_check(ngx_conf_t *cf, ngx_http_egress_loc_conf_t *conf)
{
    ngx_http_ssl_srv_conf_t  *sscf;

    if (conf->sandbox == NULL || conf->sandbox->lengths == NULL
        || (ngx_strstr(conf->sandbox->value.data, "$ssl_client_") == NULL
            && ngx_strstr(conf->sandbox->value.data, "${ssl_client_") == NULL))
    {
        return NGX_CONF_OK;
    }

    sscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_ssl_module);

    if (sscf->verify == NGX_HTTP_EGRESS_VERIFY_NO_CA) {
        ngx_egress_place_error(cf, &conf->sandbox_place,
                               "\"egress_sandbox %V\" beside "
                               "\"ssl_verify_client optional_no_ca\": nobody "
                               "has verified who is named there",
                               &conf->sandbox->value);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
