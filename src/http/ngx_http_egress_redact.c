
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>

#include <sys/mman.h>


/* secrets whose spellings a worker keeps; others are made when needed */
#define NGX_HTTP_EGRESS_REDACT_SLOTS  256


typedef struct {
    ngx_egress_secret_t      *secret;
    ngx_uint_t                generation;
    ngx_egress_redact_t      *redact;
    size_t                    size;
} ngx_http_egress_redact_slot_t;


static ngx_uint_t ngx_http_egress_textual(ngx_str_t *type);
static void ngx_http_egress_redact_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_redact_buf(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_buf_t *b, ngx_chain_t ***last);
static ngx_int_t ngx_http_egress_redact_joined(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_buf_t *b, ngx_chain_t ***last);
static ngx_int_t ngx_http_egress_redact_held(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, size_t len, ngx_chain_t ***last);
static ngx_int_t ngx_http_egress_redact_link(ngx_http_request_t *r,
    ngx_buf_t *b, ngx_chain_t ***last);
static ngx_egress_redact_t *ngx_http_egress_spellings(
    ngx_egress_secret_t *secret, ngx_str_t *value, ngx_log_t *log);


/* mutable state of a worker; the pages are locked, and wiped when given back */

static ngx_http_egress_redact_slot_t
    ngx_http_egress_redact_slots[NGX_HTTP_EGRESS_REDACT_SLOTS];


static ngx_str_t  ngx_http_egress_textual_types[] = {
    ngx_string("application/json"),
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
    ngx_int_t              rc;
    ngx_str_t              value, *encoding;
    ngx_egress_secret_t   *secret;
    ngx_egress_binding_t  *binding;

    binding = ctx->req.bound->binding;
    secret = binding->credential.secret;

    if (!binding->redact || secret == NULL
        || ngx_egress_secret_get(ctx->conf, secret, &value, NULL,
                                 r->connection->log)
           != NGX_OK)
    {
        return NGX_OK;
    }

    ctx->redact = ngx_http_egress_spellings(secret, &value,
                                            r->connection->log);
    if (ctx->redact == NULL) {
        return value.len < NGX_EGRESS_REDACT_LEN ? NGX_OK : NGX_DECLINED;
    }

    ngx_http_egress_redact_headers(r, ctx);

    if (!ngx_http_egress_textual(&r->headers_out.content_type)
        || r->header_only || r->method == NGX_HTTP_HEAD
        || r->headers_out.status == NGX_HTTP_NO_CONTENT
        || r->headers_out.status == NGX_HTTP_NOT_MODIFIED
        || r->headers_out.status == NGX_HTTP_SWITCHING_PROTOCOLS)
    {
        return NGX_OK;
    }

    if (r->headers_out.status == NGX_HTTP_PARTIAL_CONTENT) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "upstream of binding \"%V\" sent a part of a text",
                      &binding->name);
        return NGX_DECLINED;
    }

    encoding = r->headers_out.content_encoding
               ? &r->headers_out.content_encoding->value : NULL;

    if (encoding && encoding->len
        && (encoding->len != 8
            || ngx_strncasecmp(encoding->data, (u_char *) "identity", 8)
               != 0))
    {
        rc = ngx_http_egress_inflate_init(r, ctx, encoding);

        if (rc != NGX_OK) {
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "upstream of binding \"%V\" sent an encoded text",
                          &binding->name);
            return NGX_DECLINED;
        }
    }

    ctx->redacting = 1;

    r->filter_need_in_memory = 1;
    r->main_filter_need_in_memory = 1;
    r->allow_ranges = 0;

    return NGX_OK;
}


/* text, or no type at all; parameters do not matter (RFC 9110, 8.3.1) */

static ngx_uint_t
ngx_http_egress_textual(ngx_str_t *type)
{
    u_char     *p, *last;
    size_t      len;
    ngx_str_t  *name;

    if (type->len == 0) {
        return 1;
    }

    last = type->data + type->len;

    for (p = type->data; p < last && *p != ';' && *p != ' '; p++) {
        /* void */
    }

    len = p - type->data;

    if (len >= 5
        && ngx_strncasecmp(type->data, (u_char *) "text/", 5) == 0)
    {
        return 1;
    }

    for (name = ngx_http_egress_textual_types; name->len; name++) {
        if (name->len == len
            && ngx_strncasecmp(type->data, name->data, len) == 0)
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


/* values are in the buffer of the upstream's header, which is ours */

static void
ngx_http_egress_redact_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &r->headers_out.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        ctx->redactions += ngx_egress_redact_scan(ctx->redact,
                                                  h[i].value.data,
                                                  h[i].value.len);
        ctx->redactions += ngx_egress_redact_scan(ctx->redact, h[i].key.data,
                                                  h[i].key.len);
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

        if (n) {

            /* what may be the start of a secret waits for what follows it */

            if (ctx->held == NULL) {
                ctx->held = ngx_http_egress_alloc(r, ctx,
                                                  2 * ctx->redact->max);
                if (ctx->held == NULL) {
                    return NGX_ERROR;
                }
            }

            ngx_memcpy(ctx->held, b->last - n, n);
            ctx->nheld = n;

            b->last -= n;
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


static ngx_egress_redact_t *
ngx_http_egress_spellings(ngx_egress_secret_t *secret, ngx_str_t *value,
    ngx_log_t *log)
{
    void                           *mem;
    size_t                          size;
    ngx_uint_t                      generation;
    ngx_http_egress_redact_slot_t  *slot;

    generation = ngx_egress_secret_generation(secret);

    slot = &ngx_http_egress_redact_slots[((uintptr_t) secret >> 4)
                                         % NGX_HTTP_EGRESS_REDACT_SLOTS];

    if (slot->secret == secret && slot->generation == generation
        && slot->redact)
    {
        return slot->redact;
    }

    if (value->len < NGX_EGRESS_REDACT_LEN) {
        return NULL;
    }

    size = ngx_align(ngx_egress_redact_size(value->len), ngx_pagesize);

    if (slot->redact) {
        ngx_explicit_memzero(slot->redact, slot->size);
    }

    if (slot->redact == NULL || slot->size != size) {

        mem = mmap(NULL, size, PROT_READ|PROT_WRITE,
                   MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

        if (mem == MAP_FAILED) {
            ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                          "mmap() of %uz bytes failed", size);
            return NULL;
        }

        (void) mlock(mem, size);
        (void) madvise(mem, size, MADV_DONTDUMP);

        if (slot->redact) {
            (void) munmap(slot->redact, slot->size);
        }

        slot->redact = mem;
        slot->size = size;
    }

    slot->secret = secret;
    slot->generation = generation;
    (void) ngx_egress_redact_init(slot->redact, value);

    return slot->redact;
}
