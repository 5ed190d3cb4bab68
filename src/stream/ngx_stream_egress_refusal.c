
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_egress.h>


/* what a client had sent on before it read the answer is read for so long */
#define NGX_STREAM_EGRESS_LINGER  2000

/* a head, and a body of our own words */
#define NGX_STREAM_EGRESS_ANSWER  2048


static ngx_uint_t ngx_stream_egress_status(ngx_stream_egress_ctx_t *ctx);
static ngx_int_t ngx_stream_egress_tell(ngx_stream_egress_ctx_t *ctx);
static ngx_int_t ngx_stream_egress_tell_http(ngx_stream_egress_ctx_t *ctx);
static ngx_uint_t ngx_stream_egress_reply(ngx_stream_egress_ctx_t *ctx);
static void ngx_stream_egress_linger(ngx_stream_egress_ctx_t *ctx);
static void ngx_stream_egress_linger_handler(ngx_event_t *rev);


ngx_int_t
ngx_stream_egress_refuse(ngx_stream_egress_ctx_t *ctx, ngx_uint_t reason)
{
    ngx_connection_t  *c;

    c = ctx->session->connection;

    if (ctx->resolving) {

        /* an answer that comes later finds nobody */

        ngx_resolve_name_done(ctx->resolving);
        ctx->resolving = NULL;
    }

    ctx->reason = reason;
    ctx->decided = 1;
    ctx->denied = 1;

    if (ctx->tell == NGX_STREAM_EGRESS_HTTP) {
        ctx->status = ngx_stream_egress_status(ctx);
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0, "egress connection refused: %V",
                  &ctx->conf->api->reasons[reason].code);

    ngx_stream_egress_log_connection(ctx);

    if (ngx_stream_egress_tell(ctx) != NGX_OK) {
        ngx_stream_finalize_session(ctx->session, NGX_STREAM_FORBIDDEN);
        return NGX_DONE;
    }

    ngx_stream_egress_linger(ctx);

    return NGX_DONE;
}


ngx_int_t
ngx_stream_egress_challenge(ngx_stream_egress_ctx_t *ctx)
{
    u_char               *p, answer[NGX_STREAM_EGRESS_ANSWER];
    ngx_egress_reason_t  *reason;

    ctx->reason = NGX_EGRESS_PROXY_AUTH_REQUIRED;
    ctx->status = 407;
    ctx->denied = 1;

    ngx_stream_egress_log_connection(ctx);

    reason = &ctx->conf->api->reasons[ctx->reason];

    ctx->denied = 0;
    ctx->status = 0;
    ctx->reason = NGX_EGRESS_ALLOWED;

    /* git needs a scheme to try, no body, and the same connection */

    p = ngx_slprintf(answer, answer + sizeof(answer),
                     "HTTP/1.1 407 Proxy Authentication Required" CRLF
                     "Proxy-Authenticate: Basic realm=\"%V\"" CRLF
                     "Proxy-Status: %V; error=%V; details=\"%V: %V\"" CRLF
                     "Content-Length: 0" CRLF
                     "Connection: keep-alive" CRLF
                     "Proxy-Connection: keep-alive" CRLF CRLF,
                     &ctx->conf->name, &ctx->conf->name, &reason->error,
                     &reason->code, &reason->detail);

    return ngx_stream_egress_send(ctx->session->connection, answer,
                                  p - answer);
}


/* clients show the status line of an answer to CONNECT, and no 5xx as well */

static ngx_uint_t
ngx_stream_egress_status(ngx_stream_egress_ctx_t *ctx)
{
    if (ctx->reason == NGX_EGRESS_ADDRESS_REFUSED) {
        return NGX_STREAM_FORBIDDEN;
    }

    return ctx->conf->api->reasons[ctx->reason].status;
}


static ngx_int_t
ngx_stream_egress_tell(ngx_stream_egress_ctx_t *ctx)
{
    u_char             answer[10];
    ngx_connection_t  *c;

    static u_char  alert[7] = { 0x15, 3, 3, 0, 2, 2, 49 };

    c = ctx->session->connection;

    ngx_memzero(answer, sizeof(answer));

    switch (ctx->tell) {

    case NGX_STREAM_EGRESS_HTTP:
        return ngx_stream_egress_tell_http(ctx);

    case NGX_STREAM_EGRESS_METHOD:
        answer[0] = NGX_EGRESS_SOCKS5_VERSION;
        answer[1] = NGX_EGRESS_SOCKS5_NO_METHOD;

        return ngx_stream_egress_send(c, answer, 2);

    case NGX_STREAM_EGRESS_PASSWORD:
        answer[0] = NGX_EGRESS_SOCKS5_AUTH_VERSION;
        answer[1] = NGX_EGRESS_SOCKS5_FAILURE;

        return ngx_stream_egress_send(c, answer, 2);

    case NGX_STREAM_EGRESS_REPLY:
        answer[0] = NGX_EGRESS_SOCKS5_VERSION;
        answer[1] = (u_char) ngx_stream_egress_reply(ctx);
        answer[3] = 1;

        return ngx_stream_egress_send(c, answer, 10);

    case NGX_STREAM_EGRESS_ALERT:

        /* access_denied (RFC 8446, 6.2) */

        return ngx_stream_egress_send(c, alert, sizeof(alert));

    default: /* NGX_STREAM_EGRESS_SILENT */
        return NGX_OK;
    }
}


/*
 * The status text says why, since that is what clients print; the body is the
 * same as that of a refused request, and all of it is our own words.
 */

static ngx_int_t
ngx_stream_egress_tell_http(ngx_stream_egress_ctx_t *ctx)
{
    u_char               *p, *last, body[NGX_STREAM_EGRESS_ANSWER / 2];
    u_char                answer[NGX_STREAM_EGRESS_ANSWER];
    ngx_str_t             text;
    const char           *challenge[2];
    ngx_egress_reason_t  *reason;

    static ngx_str_t  none = ngx_null_string;

    challenge[0] = "";
    challenge[1] = "";

    if (ctx->reason == NGX_EGRESS_PROXY_AUTH_REQUIRED) {
        challenge[0] = "Proxy-Authenticate: Basic realm=\"";
        challenge[1] = "\"" CRLF;
    }

    reason = &ctx->conf->api->reasons[ctx->reason];

    text.data = body;
    text.len = ngx_snprintf(body, sizeof(body),
                            "{\"type\":\"urn:nginx-egress:problem:%V\","
                            "\"title\":\"%V\",\"status\":%ui,"
                            "\"detail\":\"%V\",\"message\":\"%V: %V\","
                            "\"reason\":\"%V\",\"hint\":\"%V\"}\n",
                            &reason->code, &reason->code, ctx->status,
                            &reason->detail, &reason->code, &reason->detail,
                            &reason->code, &reason->hint)
               - body;

    last = answer + sizeof(answer);

    p = ngx_slprintf(answer, last,
                     "HTTP/1.1 %ui Blocked by gateway: %V" CRLF
                     "%s%V%s"
                     "Proxy-Status: %V; error=%V; details=\"%V: %V\"" CRLF
                     "Content-Type: application/problem+json" CRLF
                     "Content-Length: %uz" CRLF
                     "Connection: close" CRLF CRLF
                     "%V",
                     ctx->status, &reason->detail, challenge[0],
                     challenge[0][0] ? &ctx->conf->name : &none, challenge[1],
                     &ctx->conf->name, &reason->error,
                     &reason->code, &reason->detail, text.len, &text);

    return ngx_stream_egress_send(ctx->session->connection, answer,
                                  p - answer);
}


/* RFC 1928, 6 */

static ngx_uint_t
ngx_stream_egress_reply(ngx_stream_egress_ctx_t *ctx)
{
    if (ctx->reply) {
        return ctx->reply;
    }

    switch (ctx->reason) {

    case NGX_EGRESS_DESTINATION_REFUSED:
    case NGX_EGRESS_BINDING_REFUSED:
    case NGX_EGRESS_ADDRESS_REFUSED:
        return NGX_EGRESS_SOCKS5_NOT_ALLOWED;

    case NGX_EGRESS_DNS_ERROR:
    case NGX_EGRESS_DNS_TIMEOUT:
        return NGX_EGRESS_SOCKS5_UNREACHABLE;

    default:
        return NGX_EGRESS_SOCKS5_FAILURE;
    }
}


/*
 * Closing a socket with octets that nobody has read resets the connection,
 * and the client may lose the answer (prototype P2).
 */

static void
ngx_stream_egress_linger(ngx_stream_egress_ctx_t *ctx)
{
    ngx_event_t       *rev;
    ngx_connection_t  *c;

    c = ctx->session->connection;
    rev = c->read;

    if (ngx_shutdown_socket(c->fd, NGX_WRITE_SHUTDOWN) == -1) {
        ngx_connection_error(c, ngx_socket_errno,
                             ngx_shutdown_socket_n " failed");
        ngx_stream_finalize_session(ctx->session, NGX_STREAM_FORBIDDEN);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;
    }

    rev->handler = ngx_stream_egress_linger_handler;

    ngx_add_timer(rev, NGX_STREAM_EGRESS_LINGER);
    ngx_reusable_connection(c, 1);

    rev->ready = 1;

    ngx_stream_egress_linger_handler(rev);
}


static void
ngx_stream_egress_linger_handler(ngx_event_t *rev)
{
    ssize_t                   n;
    ngx_connection_t         *c;
    ngx_stream_session_t     *s;
    ngx_stream_egress_ctx_t  *ctx;

    static u_char  discarded[4096];

    c = rev->data;
    s = c->data;

    ctx = ngx_stream_get_module_ctx(s, ngx_stream_egress_module);

    if (c->close || rev->timedout) {
        goto done;
    }

    while (rev->ready) {

        n = c->recv(c, discarded, sizeof(discarded));

        if (n > 0) {
            ngx_explicit_memzero(discarded, n);
        }

        if (n == NGX_ERROR || n == 0) {
            goto done;
        }

        if (n == NGX_AGAIN) {
            break;
        }
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        goto done;
    }

    return;

done:

    ngx_stream_finalize_session(s, ngx_stream_egress_status(ctx));
}
