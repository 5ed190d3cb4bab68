
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_socks5_request(ngx_stream_egress_ctx_t *ctx,
    u_char *data, size_t len);


/* RFC 1928, 3: which way to identify is chosen */

ngx_int_t
ngx_stream_egress_socks5(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len)
{
    u_char                answer[2];
    ngx_int_t             rc;
    ngx_connection_t     *c;
    ngx_egress_socks5_t   socks;

    c = ctx->session->connection;

    rc = ctx->conf->api->socks5_methods(data, len, &socks);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc == NGX_ERROR) {
        ctx->tell = NGX_STREAM_EGRESS_SILENT;
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    if (!socks.none) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    answer[0] = NGX_EGRESS_SOCKS5_VERSION;
    answer[1] = NGX_EGRESS_SOCKS5_NONE;

    if (ngx_stream_egress_consume(c, socks.len) != NGX_OK
        || ngx_stream_egress_send(c, answer, 2) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->tell = NGX_STREAM_EGRESS_REPLY;
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
