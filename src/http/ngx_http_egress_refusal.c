
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>

#include <yajl/yajl_gen.h>


/* buffers of plain text that one answer may make at a time */
#define NGX_HTTP_EGRESS_INFLATE_ROUND  16

/* bodies of refusals */
#define NGX_HTTP_EGRESS_BODY_PROBLEM   0
#define NGX_HTTP_EGRESS_BODY_TEXT      1
#define NGX_HTTP_EGRESS_BODY_LFS       2
#define NGX_HTTP_EGRESS_BODY_JSON_RPC  3


static ngx_int_t ngx_http_egress_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_egress_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_egress_answer(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_masked(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_chain_t *in);
static ngx_int_t ngx_http_egress_masked_out(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_chain_t *in);
static ngx_uint_t ngx_http_egress_ours(ngx_http_request_t *r);
static ngx_http_egress_ctx_t *ngx_http_egress_core_refusal(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_egress_proxy_status(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_body(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_sentence(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *text);
static ngx_int_t ngx_http_egress_problem(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *sentence, ngx_uint_t lfs);
static ngx_int_t ngx_http_egress_json_rpc(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *sentence);
static ngx_uint_t ngx_http_egress_shape(ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_generated(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, yajl_gen gen);
static void ngx_http_egress_json(yajl_gen gen, const char *name,
    ngx_str_t *value);
static ngx_int_t ngx_http_egress_not_http(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


ngx_int_t
ngx_http_egress_refuse(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_uint_t reason)
{
    ctx->denied = 1;
    ctx->reason = reason;

    ngx_http_egress_restore(ctx);

    if (ctx->reason == NGX_EGRESS_SANDBOX_REVOKED) {

        /* whoever it is now has to say so once more */

        r->keepalive = 0;
    }

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "egress request refused: %V",
                  &ngx_egress_reasons[reason].code);

    /* nothing went upstream: a record that fails changes nothing for it */

    (void) ngx_http_egress_log_decision(r, ctx);

    return ngx_egress_reasons[reason].status;
}


static ngx_int_t
ngx_http_egress_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t              status;
    ngx_http_egress_ctx_t  *ctx;

    if (r != r->main || !ngx_http_egress_ours(r)) {
        return ngx_http_next_header_filter(r);
    }

    ctx = ngx_http_egress_get_ctx(r);
    status = r->headers_out.status;

    if (ctx && !ctx->denied && ctx->reason == NGX_EGRESS_ALLOWED
        && r->upstream && ctx->injected)
    {
        if (r->http_version < NGX_HTTP_VERSION_10) {
            return ngx_http_egress_not_http(r, ctx);
        }

        if (r->upstream->headers_in.status_n) {

            /* an answer of the upstream, refusals of its own included */

            return ngx_http_egress_answer(r, ctx);
        }
    }

    if (ctx == NULL || ctx->reason == NGX_EGRESS_ALLOWED) {

        if (status < NGX_HTTP_BAD_REQUEST
            || status >= NGX_HTTP_INTERNAL_SERVER_ERROR + 100)
        {
            return ngx_http_next_header_filter(r);
        }

        ctx = ngx_http_egress_core_refusal(r);

        if (ctx == NULL) {
            return ngx_http_next_header_filter(r);
        }
    }

    if (status == 407) {

        /* nginx has no words for it */

        ngx_str_set(&r->headers_out.status_line,
                    "407 Proxy Authentication Required");
    }

    /* a page of the operator's own, served after error_page, may say 200 */

    if (ngx_http_egress_proxy_status(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    if (status < NGX_HTTP_BAD_REQUEST || (r->internal && r->error_page)) {
        return ngx_http_next_header_filter(r);
    }

    if (ngx_http_egress_body(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->replace = 1;

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_egress_answer(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_http_egress_note_status(r, ctx);
    ngx_http_egress_clean_response(r, ctx);

    if (ngx_http_egress_redact_header(r, ctx) != NGX_OK) {
        ctx->reason = NGX_EGRESS_HTTP_PROTOCOL_ERROR;

        return ngx_http_filter_finalize_request(r, &ngx_http_egress_module,
                                                NGX_HTTP_BAD_GATEWAY);
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_egress_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_buf_t              *b;
    ngx_chain_t             out, *cl;
    ngx_http_egress_ctx_t  *ctx;

    if (r != r->main || !ngx_http_egress_ours(r)) {
        return ngx_http_next_body_filter(r, in);
    }

    ctx = ngx_http_egress_get_ctx(r);

    if (in == NULL && (ctx == NULL || ctx->inflate == NULL)) {
        return ngx_http_next_body_filter(r, in);
    }

    if (ctx && ctx->redacting && !ctx->replace) {
        return ngx_http_egress_masked(r, ctx, in);
    }

    if (ctx == NULL || !ctx->replace) {
        return ngx_http_next_body_filter(r, in);
    }

    /* nginx's own page is dropped, ours goes out once */

    for (cl = in; cl; cl = cl->next) {
        cl->buf->pos = cl->buf->last;
        cl->buf->file_pos = cl->buf->file_last;
    }

    if (ctx->replaced) {
        return NGX_OK;
    }

    ctx->replaced = 1;

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->memory = 1;
    b->pos = ctx->body.data;
    b->last = ctx->body.data + ctx->body.len;
    b->last_buf = 1;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_next_body_filter(r, &out);
}


static ngx_int_t
ngx_http_egress_masked(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_chain_t *in)
{
    ngx_int_t     rc;
    ngx_uint_t    n;
    ngx_chain_t  *plain;

    if (ctx->inflate == NULL) {
        return ngx_http_egress_masked_out(r, ctx, in);
    }

    if (ngx_http_egress_inflate_add(r, ctx, in) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->busy) {

        /* what was made before goes first */

        rc = ngx_http_next_body_filter(r, NULL);

        plain = NULL;
        ngx_chain_update_chains(r->pool, &ctx->free, &ctx->busy, &plain,
                                (ngx_buf_tag_t) &ngx_http_egress_module);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    for (n = 0; /* void */ ; n++) {

        if (n == NGX_HTTP_EGRESS_INFLATE_ROUND) {

            /* others are served before more of it */

            ngx_post_event(r->connection->write, &ngx_posted_events);
            return NGX_AGAIN;
        }

        if (ngx_http_egress_inflate(r, ctx, &plain) != NGX_OK) {
            return NGX_ERROR;
        }

        if (plain == NULL) {
            return ctx->busy ? NGX_AGAIN : NGX_OK;
        }

        if (ngx_http_egress_masked_out(r, ctx, plain) == NGX_ERROR) {
            return NGX_ERROR;
        }
    }
}


static ngx_int_t
ngx_http_egress_masked_out(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_chain_t *in)
{
    ngx_int_t     rc;
    ngx_chain_t  *out;

    if (ngx_http_egress_redact_body(r, ctx, in, &out) != NGX_OK) {
        return NGX_ERROR;
    }

    if (out == NULL && ctx->busy == NULL) {
        return NGX_OK;
    }

    rc = ngx_http_next_body_filter(r, out);

    ngx_chain_update_chains(r->pool, &ctx->free, &ctx->busy, &out,
                            (ngx_buf_tag_t) &ngx_http_egress_module);

    return rc;
}


/* servers that terminate or forward are ours, also before a location is set */

static ngx_uint_t
ngx_http_egress_ours(ngx_http_request_t *r)
{
    ngx_http_egress_srv_conf_t  *escf;

    escf = ngx_http_get_module_srv_conf(r, ngx_http_egress_module);

    return escf->pass || escf->self
           || escf->terminate != NGX_HTTP_EGRESS_TERMINATE_OFF;
}


/* a refusal that nginx made itself, before anything was decided */

static ngx_http_egress_ctx_t *
ngx_http_egress_core_refusal(ngx_http_request_t *r)
{
    ngx_uint_t              reason;
    ngx_http_egress_ctx_t  *ctx;

    /* only what special responses are made for, not a "return 400 text" */

    if (r->err_status != r->headers_out.status) {
        return NULL;
    }

    switch (r->headers_out.status) {

    case NGX_HTTP_REQUEST_ENTITY_TOO_LARGE:
        reason = NGX_EGRESS_BODY_TOO_LARGE;
        break;

    case NGX_HTTP_NOT_ALLOWED:
        reason = NGX_EGRESS_METHOD_REFUSED;
        break;

    case NGX_HTTP_BAD_REQUEST:
    case NGX_HTTP_REQUEST_TIME_OUT:
    case NGX_HTTP_REQUEST_URI_TOO_LARGE:
    case 431: /* RFC 6585, 5; no constant */
    case NGX_HTTP_NOT_IMPLEMENTED:
    case NGX_HTTP_VERSION_NOT_SUPPORTED:
        reason = NGX_EGRESS_MALFORMED_REQUEST;
        break;

    default:
        return NULL;
    }

    ctx = ngx_http_egress_get_ctx(r);

    if (ctx == NULL) {
        ctx = ngx_http_egress_create_ctx(r);
        if (ctx == NULL) {
            return NULL;
        }
    }

    (void) ngx_http_egress_refuse(r, ctx, reason);

    return ctx;
}


/* RFC 9209, 2; an intermediary appends its member to what is there */

static ngx_int_t
ngx_http_egress_proxy_status(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    u_char               *p;
    size_t                len;
    ngx_table_elt_t      *h;
    ngx_egress_reason_t  *reason;

    reason = &ngx_egress_reasons[ctx->reason];

    len = ctx->conf->name.len + sizeof("; error=; details=\": \"") - 1
          + reason->error.len + reason->code.len + reason->detail.len;

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_egress_header_last(h);
    ngx_str_set(&h->key, "Proxy-Status");
    h->value.data = p;
    h->value.len = ngx_sprintf(p, "%V; error=%V; details=\"%V: %V\"",
                               &ctx->conf->name, &reason->error,
                               &reason->code, &reason->detail)
                   - p;

    return NGX_OK;
}


/* what the client will show: git shows text, gh and git-lfs a "message" */

static ngx_int_t
ngx_http_egress_body(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t  rc;
    ngx_str_t  sentence;

    if (ngx_http_egress_sentence(r, ctx, &sentence) != NGX_OK) {
        return NGX_ERROR;
    }

    switch (ngx_http_egress_shape(ctx)) {

    case NGX_HTTP_EGRESS_BODY_TEXT:
        ctx->body = sentence;
        ngx_str_set(&r->headers_out.content_type, "text/plain");
        ngx_str_set(&r->headers_out.charset, "utf-8");
        rc = NGX_OK;
        break;

    case NGX_HTTP_EGRESS_BODY_LFS:
        rc = ngx_http_egress_problem(r, ctx, &sentence, 1);
        ngx_str_set(&r->headers_out.content_type,
                    "application/vnd.git-lfs+json");
        break;

    case NGX_HTTP_EGRESS_BODY_JSON_RPC:
        rc = ngx_http_egress_json_rpc(r, ctx, &sentence);
        ngx_str_set(&r->headers_out.content_type, "application/json");
        break;

    default: /* NGX_HTTP_EGRESS_BODY_PROBLEM */
        rc = ngx_http_egress_problem(r, ctx, &sentence, 0);
        ngx_str_set(&r->headers_out.content_type,
                    "application/problem+json");
    }

    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    ngx_http_clear_content_length(r);
    r->headers_out.content_length_n = ctx->body.len;

    return rc;
}


static ngx_uint_t
ngx_http_egress_shape(ngx_http_egress_ctx_t *ctx)
{
    if (ctx->req.is_git) {
        return (ctx->req.git.kind == NGX_EGRESS_GIT_WIRE)
               ? NGX_HTTP_EGRESS_BODY_TEXT : NGX_HTTP_EGRESS_BODY_LFS;
    }

    if (ctx->req.rule == NULL) {
        return NGX_HTTP_EGRESS_BODY_PROBLEM;
    }

    switch (ctx->req.rule->inspector) {

    case NGX_EGRESS_INSPECT_LFS:
        return NGX_HTTP_EGRESS_BODY_LFS;

    case NGX_EGRESS_INSPECT_JSON_RPC:
        return NGX_HTTP_EGRESS_BODY_JSON_RPC;

    default:
        return NGX_HTTP_EGRESS_BODY_PROBLEM;
    }
}


/* "egress-1: write_refused: ..., binding github" and a line end */

static ngx_int_t
ngx_http_egress_sentence(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_str_t *text)
{
    u_char                *p;
    size_t                 len;
    ngx_str_t             *binding;
    ngx_egress_reason_t   *reason;

    static ngx_str_t  none = ngx_null_string;

    reason = &ngx_egress_reasons[ctx->reason];
    binding = ctx->req.bound ? &ctx->req.bound->binding->name : &none;

    len = ctx->conf->name.len + reason->code.len + reason->detail.len
          + binding->len + sizeof(": :  (binding )" CRLF);

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    p = ngx_sprintf(p, "%V: %V: %V", &ctx->conf->name, &reason->code,
                    &reason->detail);

    if (binding->len) {
        p = ngx_sprintf(p, " (binding %V)", binding);
    }

    *p++ = LF;

    text->len = p - text->data;

    return NGX_OK;
}


/* RFC 9457, with what clients look for: gh a "message", npm an "error" */

static ngx_int_t
ngx_http_egress_problem(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_str_t *sentence, ngx_uint_t lfs)
{
    yajl_gen              gen;
    ngx_str_t             type, title;
    ngx_egress_reason_t  *reason;

    u_char  urn[sizeof("urn:nginx-egress:problem:") + 64];

    reason = &ngx_egress_reasons[ctx->reason];

    gen = yajl_gen_alloc(NULL);
    if (gen == NULL) {
        return NGX_ERROR;
    }

    title = *sentence;
    title.len--;

    yajl_gen_map_open(gen);

    if (!lfs) {
        type.data = urn;
        type.len = ngx_sprintf(urn, "urn:nginx-egress:problem:%V",
                               &reason->code)
                   - urn;

        ngx_http_egress_json(gen, "type", &type);
        ngx_http_egress_json(gen, "title", &reason->code);
        yajl_gen_string(gen, (const u_char *) "status", 6);
        yajl_gen_integer(gen, r->headers_out.status);
        ngx_http_egress_json(gen, "detail", &reason->detail);
    }

    ngx_http_egress_json(gen, "message", &title);

    if (!lfs) {
        ngx_http_egress_json(gen, "error", &title);
    }

    ngx_http_egress_json(gen, "reason", &reason->code);

    if (ctx->req.bound) {
        ngx_http_egress_json(gen, "binding", &ctx->req.bound->binding->name);
    }

    if (ctx->req.told) {
        ngx_http_egress_json(gen, "rule", ctx->req.told);

    } else if (ctx->req.rule) {
        ngx_http_egress_json(gen, "rule", &ctx->req.rule->text);
    }

    ngx_http_egress_json(gen, "hint", &reason->hint);

    yajl_gen_map_close(gen);

    return ngx_http_egress_generated(r, ctx, gen);
}


/*
 * JSON-RPC 2.0, 5.1: an error with the id of the request, or null where none
 * was read; the code is of the range for servers of all kinds.
 */

static ngx_int_t
ngx_http_egress_json_rpc(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_str_t *sentence)
{
    yajl_gen              gen;
    ngx_str_t             title;
    ngx_egress_reason_t  *reason;

    reason = &ngx_egress_reasons[ctx->reason];

    gen = yajl_gen_alloc(NULL);
    if (gen == NULL) {
        return NGX_ERROR;
    }

    title = *sentence;
    title.len--;

    yajl_gen_map_open(gen);

    yajl_gen_string(gen, (const u_char *) "jsonrpc", 7);
    yajl_gen_string(gen, (const u_char *) "2.0", 3);
    yajl_gen_string(gen, (const u_char *) "id", 2);

    if (ctx->said && ctx->said->id_len) {

        /* rendered by the inspector: a "number" is written as it is */

        yajl_gen_number(gen, (const char *) ctx->said->id, ctx->said->id_len);

    } else {
        yajl_gen_null(gen);
    }

    yajl_gen_string(gen, (const u_char *) "error", 5);
    yajl_gen_map_open(gen);

    yajl_gen_string(gen, (const u_char *) "code", 4);
    yajl_gen_integer(gen, -32000);
    ngx_http_egress_json(gen, "message", &title);

    yajl_gen_string(gen, (const u_char *) "data", 4);
    yajl_gen_map_open(gen);
    ngx_http_egress_json(gen, "reason", &reason->code);

    if (ctx->req.bound) {
        ngx_http_egress_json(gen, "binding", &ctx->req.bound->binding->name);
    }

    ngx_http_egress_json(gen, "hint", &reason->hint);
    yajl_gen_map_close(gen);

    yajl_gen_map_close(gen);
    yajl_gen_map_close(gen);

    return ngx_http_egress_generated(r, ctx, gen);
}


/* takes the text over, with a line end, and frees the generator */

static ngx_int_t
ngx_http_egress_generated(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    yajl_gen gen)
{
    size_t         len;
    const u_char  *buf;

    yajl_gen_get_buf(gen, &buf, &len);

    ctx->body.len = len + 1;
    ctx->body.data = ngx_pnalloc(r->pool, len + 1);

    if (ctx->body.data) {
        ngx_memcpy(ctx->body.data, buf, len);
        ctx->body.data[len] = LF;
    }

    yajl_gen_free(gen);

    return ctx->body.data ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_egress_json(yajl_gen gen, const char *name, ngx_str_t *value)
{
    yajl_gen_string(gen, (const u_char *) name, ngx_strlen(name));
    yajl_gen_string(gen, value->data, value->len);
}


/*
 * The proxy module passes what is no HTTP on as HTTP/0.9 with status 200:
 * the client gets 502 in its own version instead (prototype2 P12).
 */

static ngx_int_t
ngx_http_egress_not_http(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "upstream of binding \"%V\" did not answer in HTTP",
                  &ctx->req.bound->binding->name);

    ctx->reason = NGX_EGRESS_HTTP_PROTOCOL_ERROR;

#if (NGX_HTTP_V2)
    r->http_version = r->stream ? NGX_HTTP_VERSION_20 : NGX_HTTP_VERSION_11;
#else
    r->http_version = NGX_HTTP_VERSION_11;
#endif

    return ngx_http_filter_finalize_request(r, &ngx_http_egress_module,
                                            NGX_HTTP_BAD_GATEWAY);
}


ngx_int_t
ngx_http_egress_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_egress_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_egress_body_filter;

    return NGX_OK;
}
