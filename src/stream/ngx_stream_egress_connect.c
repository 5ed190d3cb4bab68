
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_connect_ok(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_connect_t *connect);


/* decoded credentials, wiped before the step returns */

static u_char  ngx_stream_egress_credentials[NGX_EGRESS_CONNECT_LEN];


ngx_int_t
ngx_stream_egress_connect(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len)
{
    size_t                head;
    ngx_int_t             rc;
    ngx_egress_connect_t  connect;

    rc = ctx->conf->api->connect(data, len, ngx_stream_egress_credentials,
                                 &connect);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (connect.authorization) {

        /* without sandboxes nobody asked for them: they go no further */

        head = ngx_min(len, NGX_EGRESS_CONNECT_LEN);

        ngx_explicit_memzero(data, head);
        ngx_explicit_memzero(ngx_stream_egress_credentials, head);
    }

    if (rc == NGX_DECLINED) {

        /* bindings and allowed hosts are HTTPS only */

        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_PLAIN_HTTP);
    }

    if (rc == NGX_ERROR) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    return ngx_stream_egress_connect_ok(ctx, &connect);
}


static ngx_int_t
ngx_stream_egress_connect_ok(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_connect_t *connect)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;

    static ngx_str_t  established =
                      ngx_string("HTTP/1.1 200 Connection established" CRLF
                                 CRLF);

    c = ctx->session->connection;

    ctx->host = connect->host;

    rc = ngx_stream_egress_judge(ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    /* what follows the head is the start of the tunnel */

    if (ngx_stream_egress_consume(c, connect->len) != NGX_OK
        || ngx_stream_egress_send(c, established.data, established.len)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_stream_egress_answered(ctx);
}
