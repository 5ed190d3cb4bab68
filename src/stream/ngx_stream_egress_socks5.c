
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_socks5_password(
    ngx_stream_egress_ctx_t *ctx, u_char *data, size_t len);
static ngx_int_t ngx_stream_egress_socks5_request(ngx_stream_egress_ctx_t *ctx,
    u_char *data, size_t len);


/* RFC 1928, 3: which way to identify is chosen */

ngx_int_t
ngx_stream_egress_socks5(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len)
{
    u_char                  answer[2];
    ngx_int_t               rc;
    ngx_uint_t              reason;
    ngx_connection_t       *c;
    ngx_egress_socks5_t     socks;
    ngx_egress_identity_t   identity;

    c = ctx->session->connection;

    rc = ctx->conf->api->socks5_methods(data, len, &socks);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc == NGX_ERROR) {
        ctx->tell = NGX_STREAM_EGRESS_SILENT;
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    answer[0] = NGX_EGRESS_SOCKS5_VERSION;

    if (socks.password && ctx->conf->sandboxes.len) {
        answer[1] = NGX_EGRESS_SOCKS5_PASSWORD;
        ctx->step = ngx_stream_egress_socks5_password;

    } else {

        if (!socks.none) {
            return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
        }

        ngx_memzero(&identity, sizeof(ngx_egress_identity_t));

        reason = ngx_stream_egress_identify(ctx, &identity);

        if (reason != NGX_EGRESS_ALLOWED) {
            return ngx_stream_egress_refuse(ctx, reason);
        }

        answer[1] = NGX_EGRESS_SOCKS5_NONE;
        ctx->step = ngx_stream_egress_socks5_request;
    }

    if (ngx_stream_egress_consume(c, socks.len) != NGX_OK
        || ngx_stream_egress_send(c, answer, 2) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->tell = NGX_STREAM_EGRESS_REPLY;

    return NGX_OK;
}


/* RFC 1929 */

static ngx_int_t
ngx_stream_egress_socks5_password(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len)
{
    ngx_int_t               rc;
    ngx_uint_t              reason;
    ngx_connection_t       *c;
    ngx_egress_socks5_t     socks;
    ngx_egress_identity_t   identity;

    static u_char  accepted[2] = { NGX_EGRESS_SOCKS5_AUTH_VERSION,
                                   NGX_EGRESS_SOCKS5_SUCCEEDED };

    c = ctx->session->connection;

    rc = ctx->conf->api->socks5_password(data, len, &socks);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc == NGX_ERROR) {
        ctx->tell = NGX_STREAM_EGRESS_SILENT;
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    identity.user = socks.user;
    identity.token = socks.token;
    identity.given = 1;

    reason = ngx_stream_egress_identify(ctx, &identity);

    ngx_explicit_memzero(data, socks.len);

    if (reason != NGX_EGRESS_ALLOWED) {
        ctx->tell = NGX_STREAM_EGRESS_PASSWORD;
        return ngx_stream_egress_refuse(ctx, reason);
    }

    /* takes the octets once more, into the place that was wiped */

    rc = ngx_stream_egress_consume(c, socks.len);

    ngx_explicit_memzero(data, socks.len);

    if (rc != NGX_OK
        || ngx_stream_egress_send(c, accepted, sizeof(accepted)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->step = ngx_stream_egress_socks5_request;

    return NGX_OK;
}


static ngx_int_t
ngx_stream_egress_socks5_request(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len)
{
    ngx_int_t             rc;
    ngx_connection_t     *c;
    ngx_egress_socks5_t   socks;

    /* succeeded, from an address that we do not tell: 0.0.0.0:0 */

    static u_char  succeeded[10] = { NGX_EGRESS_SOCKS5_VERSION,
                                     NGX_EGRESS_SOCKS5_SUCCEEDED, 0, 1 };

    c = ctx->session->connection;

    rc = ctx->conf->api->socks5_request(data, len, &socks);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc == NGX_ERROR) {
        ctx->reply = socks.reply;

        if (socks.reply == 0) {
            ctx->tell = NGX_STREAM_EGRESS_SILENT;
        }

        return ngx_stream_egress_refuse(ctx,
                                  socks.reply == NGX_EGRESS_SOCKS5_NO_COMMAND
                                  ? NGX_EGRESS_METHOD_REFUSED
                                  : NGX_EGRESS_MALFORMED_REQUEST);
    }

    ctx->host = socks.host;

    rc = ngx_stream_egress_judge(ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_stream_egress_consume(c, socks.len) != NGX_OK
        || ngx_stream_egress_send(c, succeeded, sizeof(succeeded)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_stream_egress_answered(ctx);
}
