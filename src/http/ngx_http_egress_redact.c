
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* how many lines of a field the upstream has sent */

typedef struct {
    ngx_uint_t                     types;
    ngx_uint_t                     encodings;
    ngx_uint_t                     transfers;
} ngx_http_egress_lines_t;


static ngx_int_t ngx_http_egress_redact_text(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_lines_t *lines);
static ngx_uint_t ngx_http_egress_textual(ngx_str_t *type);
static void ngx_http_egress_redact_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_lines_t *lines);
static ngx_int_t ngx_http_egress_redact_buf(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_buf_t *b, ngx_chain_t ***last);
static ngx_int_t ngx_http_egress_redact_hold(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_buf_t *b, size_t n);
static ngx_int_t ngx_http_egress_redact_joined(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_buf_t *b, ngx_chain_t ***last);
static ngx_int_t ngx_http_egress_redact_held(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, size_t len, ngx_chain_t ***last);
static ngx_int_t ngx_http_egress_redact_link(ngx_http_request_t *r,
    ngx_buf_t *b, ngx_chain_t ***last);


static ngx_str_t  ngx_http_egress_textual_types[] = {
    ngx_string("application/json"),
    ngx_string("application/x-ndjson"),
    ngx_string("application/ndjson"),
    ngx_string("application/jsonl"),
    ngx_string("application/json-seq"),
    ngx_string("application/graphql"),
    ngx_string("application/yaml"),
    ngx_string("application/x-yaml"),
    ngx_string("application/xml"),
    ngx_string("application/javascript"),
    ngx_string("application/ecmascript"),
    ngx_string("application/x-javascript"),
    ngx_string("application/x-www-form-urlencoded"),
    ngx_string("multipart/form-data"),
    ngx_null_string
};


static ngx_str_t  ngx_http_egress_textual_suffixes[] = {
    ngx_string("+json"),
    ngx_string("+xml"),
    ngx_null_string
};


/*
 * Prepares an answer of the upstream: masks its header, and decides about its
 * body.  A part of a text could hold a part of a secret, and an encoded text
 * is nothing that can be looked at: NGX_DECLINED, it must not be passed on.
 */

ngx_int_t
ngx_http_egress_redact_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t                status;
    ngx_egress_binding_t     *binding;
    ngx_http_egress_lines_t   lines;

    binding = ctx->req.bound->binding;
    status = r->headers_out.status;

    if (!binding->redact || binding->secrets.nelts == 0) {
        return NGX_OK;
    }

    /* what was sent counts; without a credential, what could have been */

    if (ctx->generation == 0 && ctx->spellings == NULL
        && ngx_http_egress_redact_note(r, ctx, NULL, NULL) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    if (ctx->redact == NULL) {
        return NGX_OK;
    }

    ngx_http_egress_redact_headers(r, ctx, &lines);

    if (r->header_only || r->method == NGX_HTTP_HEAD
        || status == NGX_HTTP_NO_CONTENT
        || status == NGX_HTTP_NOT_MODIFIED
        || status == NGX_HTTP_SWITCHING_PROTOCOLS)
    {
        return NGX_OK;
    }

    return ngx_http_egress_redact_text(r, ctx, &lines);
}


static ngx_int_t
ngx_http_egress_redact_text(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_lines_t *lines)
{
    ngx_str_t    *type, *encoding;
    const char   *what;

    static ngx_str_t  ranges = ngx_string("multipart/byteranges");

    type = &r->headers_out.content_type;

    if (r->headers_out.status == NGX_HTTP_PARTIAL_CONTENT
        && type->len >= ranges.len
        && ngx_strncasecmp(type->data, ranges.data, ranges.len) == 0)
    {
        what = "parts of something";
        goto refused;
    }

    if (lines->types < 2 && !ngx_http_egress_textual(type)) {
        return NGX_OK;
    }

    if (r->headers_out.status == NGX_HTTP_PARTIAL_CONTENT) {
        what = "a part of a text";
        goto refused;
    }

    what = "an encoded text";

    if (lines->encodings > 1
        || (lines->transfers && !r->upstream->headers_in.chunked))
    {
        goto refused;
    }

    encoding = r->headers_out.content_encoding
               ? &r->headers_out.content_encoding->value : NULL;

    if (encoding && encoding->len
        && (encoding->len != 8
            || ngx_strncasecmp(encoding->data, (u_char *) "identity", 8)
               != 0)
        && ngx_http_egress_inflate_init(r, ctx, encoding) != NGX_OK)
    {
        goto refused;
    }

    ctx->redacting = 1;

    r->filter_need_in_memory = 1;
    r->main_filter_need_in_memory = 1;
    r->allow_ranges = 0;

    return NGX_OK;

refused:

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "upstream of binding \"%V\" sent %s",
                  &ctx->req.bound->binding->name, what);

    return NGX_DECLINED;
}


/* text, or no type at all; parameters do not matter (RFC 9110, 8.3.1) */

static ngx_uint_t
ngx_http_egress_textual(ngx_str_t *type)
{
    u_char     *p, *start, *last;
    size_t      len;
    ngx_str_t  *name;

    start = type->data;
    last = start + type->len;

    while (start < last && (*start == ' ' || *start == '\t')) {
        start++;
    }

    if (start == last) {
        return 1;
    }

    for (p = start;
         p < last && *p != ';' && *p != ' ' && *p != '\t';
         p++)
    {
        /* void */
    }

    len = p - start;

    if (len >= 5
        && ngx_strncasecmp(start, (u_char *) "text/", 5) == 0)
    {
        return 1;
    }

    for (name = ngx_http_egress_textual_types; name->len; name++) {
        if (name->len == len
            && (ngx_memcmp(start, name->data, len) == 0
                || ngx_strncasecmp(start, name->data, len) == 0))
        {
            return 1;
        }
    }

    for (name = ngx_http_egress_textual_suffixes; name->len; name++) {
        if (len > name->len
            && ngx_strncasecmp(p - name->len, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Values are in the buffer of the upstream's header, which is ours, and those
 * that go to the client are the same octets; variables show the others.
 */

static void
ngx_http_egress_redact_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_lines_t *lines)
{
    u_char                  *name;
    ngx_table_elt_t         *h;
    ngx_http_egress_walk_t   walk;

    ngx_memzero(lines, sizeof(ngx_http_egress_lines_t));

    for (h = ngx_http_egress_first(&walk, &r->upstream->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        ctx->redactions += ngx_egress_redact_scan(ctx->redact,
                                                  h->value.data,
                                                  h->value.len);
        ctx->redactions += ngx_egress_redact_scan(ctx->redact, h->key.data,
                                                  h->key.len);

        name = h->lowcase_key;

        switch (h->key.len) {

        case 12:
            lines->types += (ngx_memcmp(name, "content-type", 12) == 0);
            break;

        case 16:
            lines->encodings += (ngx_memcmp(name, "content-encoding", 16)
                                 == 0);
            break;

        case 17:
            lines->transfers += (ngx_memcmp(name, "transfer-encoding", 17)
                                 == 0);
            break;

        default:
            break;
        }
    }

    ctx->redactions += ngx_egress_redact_scan(ctx->redact,
                                             r->headers_out.content_type.data,
                                             r->headers_out.content_type.len);
    ctx->redactions += ngx_egress_redact_scan(ctx->redact,
                                             r->headers_out.status_line.data,
                                             r->headers_out.status_line.len);
}


ngx_int_t
ngx_http_egress_redact_body(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out)
{
    ngx_int_t      rc;
    ngx_chain_t  **last;

    *out = NULL;
    last = out;

    for ( /* void */ ; in; in = in->next) {

        rc = ngx_http_egress_redact_buf(r, ctx, in->buf, &last);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_redact_buf(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_buf_t *b, ngx_chain_t ***last)
{
    size_t  size, n;

    size = ngx_buf_in_memory(b) ? (size_t) (b->last - b->pos) : 0;

    if (size) {

        if (ctx->nheld) {
            if (ngx_http_egress_redact_joined(r, ctx, b, last) != NGX_OK) {
                return NGX_ERROR;
            }

            size = b->last - b->pos;
        }

        ctx->redactions += ngx_egress_redact_scan(ctx->redact, b->pos, size);

        n = (ctx->nheld || b->last_buf) ? 0
            : ngx_egress_redact_tail(ctx->redact, b->pos, size);

        if (n && ngx_http_egress_redact_hold(r, ctx, b, n) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (b->last_buf && ctx->nheld
        && ngx_http_egress_redact_held(r, ctx, ctx->nheld, last) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_buf_size(b) == 0 && !ngx_buf_special(b)) {

        /* all of it is held: a buffer of no size must not be passed on */

        if (!b->flush && !b->last_buf && !b->last_in_chain) {
            return NGX_OK;
        }

        b->temporary = 0;
        b->memory = 0;
        b->mmap = 0;

        if (!b->flush && !b->last_buf) {
            b->sync = 1;
        }
    }

    return ngx_http_egress_redact_link(r, b, last);
}


/* what may be the start of a secret waits for what follows it */

static ngx_int_t
ngx_http_egress_redact_hold(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_buf_t *b, size_t n)
{
    if (ctx->held == NULL) {
        ctx->held = ngx_http_egress_keep(r, ctx, 2 * ctx->redact->max);
        if (ctx->held == NULL) {
            return NGX_ERROR;
        }
    }

    ngx_memcpy(ctx->held, b->last - n, n);
    ctx->nheld = n;

    /* the copy is wiped with the request, so is what it is of */

    b->last -= n;
    ngx_explicit_memzero(b->last, n);

    return NGX_OK;
}


/*
 * Joins what is held with the first octets of what came: a secret over the
 * border is in both together.  What is left of both is certain.
 */

static ngx_int_t
ngx_http_egress_redact_joined(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_buf_t *b, ngx_chain_t ***last)
{
    size_t   n, k, tail;
    u_char  *joined;

    joined = ctx->held;
    k = ngx_min((size_t) (b->last - b->pos), ctx->redact->max - 1);

    ngx_memcpy(joined + ctx->nheld, b->pos, k);

    n = ctx->nheld + k;

    ctx->redactions += ngx_egress_redact_scan(ctx->redact, joined, n);

    ngx_memcpy(b->pos, joined + ctx->nheld, k);

    tail = 0;

    if (b->pos + k == b->last && !b->last_buf) {
        tail = ngx_egress_redact_tail(ctx->redact, joined, n);
    }

    if (tail <= k) {

        /* all that was held can go; the rest of it is looked at as usual */

        return ngx_http_egress_redact_held(r, ctx, ctx->nheld, last);
    }

    /* too little came to tell: it is held, too */

    n -= tail;

    if (n && ngx_http_egress_redact_held(r, ctx, n, last) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memmove(joined, joined + n, tail);
    ctx->nheld = tail;

    ngx_explicit_memzero(b->pos, b->last - b->pos);
    b->pos = b->last;

    return NGX_OK;
}


/* the first "len" octets that are held, in a buffer of their own */

static ngx_int_t
ngx_http_egress_redact_held(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    size_t len, ngx_chain_t ***last)
{
    size_t        size;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    cl = ngx_chain_get_free_buf(r->pool, &ctx->free);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    b = cl->buf;

    if (b->start == NULL) {
        size = ngx_http_egress_inflate_size(ctx);

        b->start = ngx_palloc(r->pool, size);
        if (b->start == NULL) {
            return NGX_ERROR;
        }

        b->end = b->start + size;
        b->tag = (ngx_buf_tag_t) &ngx_http_egress_module;
    }

    b->temporary = 1;
    b->flush = 0;
    b->sync = 0;
    b->last_buf = 0;

    b->pos = b->start;
    b->last = ngx_cpymem(b->pos, ctx->held, len);

    ctx->nheld = 0;

    **last = cl;
    cl->next = NULL;
    *last = &cl->next;

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_redact_link(ngx_http_request_t *r, ngx_buf_t *b,
    ngx_chain_t ***last)
{
    ngx_chain_t  *cl;

    cl = ngx_alloc_chain_link(r->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    cl->buf = b;
    cl->next = NULL;

    **last = cl;
    *last = &cl->next;

    return NGX_OK;
}
