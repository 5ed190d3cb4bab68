
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


static ngx_int_t ngx_stream_egress_connect_ok(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_connect_t *connect, size_t len);


/* decoded credentials, wiped before the step returns */

static u_char  ngx_stream_egress_credentials[NGX_EGRESS_CONNECT_LEN];


ngx_int_t
ngx_stream_egress_connect(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len)
{
    size_t                         head;
    ngx_int_t                      rc;
    ngx_egress_connect_t           connect;
    ngx_stream_egress_srv_conf_t  *escf;

    rc = ctx->conf->api->connect(data, len, ngx_stream_egress_credentials,
                                 &connect);

    switch (rc) {

    case NGX_AGAIN:
        return NGX_AGAIN;

    case NGX_OK:
        rc = ngx_stream_egress_connect_ok(ctx, &connect, len);
        break;

    case NGX_DECLINED:

        escf = ngx_stream_get_module_srv_conf(ctx->session,
                                              ngx_stream_egress_module);

        if (connect.origin && escf->self.sockaddr) {
            rc = ngx_stream_egress_origin(ctx);
            break;
        }

        /* bindings and allowed hosts are HTTPS only */

        rc = ngx_stream_egress_refuse(ctx, NGX_EGRESS_PLAIN_HTTP);
        break;

    default: /* NGX_ERROR */
        rc = ngx_stream_egress_refuse(ctx, NGX_EGRESS_MALFORMED_REQUEST);
    }

    if (connect.authorization) {
        head = ngx_min(len, NGX_EGRESS_CONNECT_LEN);

        ngx_explicit_memzero(data, head);
        ngx_explicit_memzero(ngx_stream_egress_credentials, head);
    }

    return rc;
}


static ngx_int_t
ngx_stream_egress_connect_ok(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_connect_t *connect, size_t len)
{
    ngx_int_t                      rc;
    ngx_uint_t                     reason;
    ngx_connection_t              *c;
    ngx_egress_identity_t          identity;
    ngx_stream_egress_srv_conf_t  *escf;

    static ngx_str_t  established =
                      ngx_string("HTTP/1.1 200 Connection established" CRLF
                                 CRLF);

    c = ctx->session->connection;

    escf = ngx_stream_get_module_srv_conf(ctx->session,
                                          ngx_stream_egress_module);

    if (!(escf->accept & NGX_STREAM_EGRESS_CONNECT)) {
        return ngx_stream_egress_refuse(ctx, NGX_EGRESS_METHOD_REFUSED);
    }

    ctx->host = connect->host;

    identity.user = connect->user;
    identity.token = connect->token;
    identity.given = connect->authorization;

    reason = ngx_stream_egress_identify(ctx, &identity);

    if (reason == NGX_EGRESS_PROXY_AUTH_REQUIRED && connect->len == len) {

        /*
         * git and others ask once more on this connection.  What was sent
         * behind the head was for a tunnel: that client is cut off.
         */

        if (ngx_stream_egress_consume(c, len) != NGX_OK) {
            return NGX_ERROR;
        }

        return ngx_stream_egress_challenge(ctx);
    }

    if (reason != NGX_EGRESS_ALLOWED) {
        return ngx_stream_egress_refuse(ctx, reason);
    }

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
