
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>

#include <zlib.h>


#define NGX_HTTP_EGRESS_INFLATE_SIZE  32768
#define NGX_HTTP_EGRESS_INFLATE_BUFS  4


struct ngx_http_egress_inflate_s {
    z_stream                  stream;
    ngx_http_request_t       *request;
    ngx_http_egress_ctx_t    *ctx;
    ngx_chain_t              *in;
    ngx_uint_t                nbufs;
    unsigned                  gzip:1;
    unsigned                  begun:1;      /* some octets were inflated */
    unsigned                  pending:1;    /* more comes without input */
    unsigned                  ended:1;
    unsigned                  last:1;
    unsigned                  done:1;
};


static ngx_int_t ngx_http_egress_inflate_fill(
    ngx_http_egress_inflate_t *state, ngx_buf_t *b);
static ngx_int_t ngx_http_egress_inflate_next(
    ngx_http_egress_inflate_t *state, ngx_buf_t *from, ngx_buf_t *b);
static int ngx_http_egress_inflate_piece(ngx_http_egress_inflate_t *state,
    ngx_buf_t *from);
static ngx_int_t ngx_http_egress_inflate_failed(
    ngx_http_egress_inflate_t *state, const char *why);
static ngx_buf_t *ngx_http_egress_inflate_buf(
    ngx_http_egress_inflate_t *state, ngx_chain_t **link);
static void *ngx_http_egress_inflate_alloc(void *opaque, u_int items,
    u_int size);
static void ngx_http_egress_inflate_free(void *opaque, void *address);


ngx_int_t
ngx_http_egress_inflate_init(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *encoding)
{
    int                         bits;
    ngx_uint_t                  gzip;
    ngx_http_egress_inflate_t  *state;

    if ((encoding->len == 4
         && ngx_strncasecmp(encoding->data, (u_char *) "gzip", 4) == 0)
        || (encoding->len == 6
            && ngx_strncasecmp(encoding->data, (u_char *) "x-gzip", 6) == 0))
    {
        gzip = 1;
        bits = MAX_WBITS + 16;

    } else if (encoding->len == 7
               && ngx_strncasecmp(encoding->data, (u_char *) "deflate", 7)
                  == 0)
    {
        gzip = 0;
        bits = MAX_WBITS;

    } else {
        return NGX_DECLINED;
    }

    state = ngx_pcalloc(r->pool, sizeof(ngx_http_egress_inflate_t));
    if (state == NULL) {
        return NGX_ERROR;
    }

    state->request = r;
    state->ctx = ctx;
    state->gzip = gzip;
    state->stream.zalloc = ngx_http_egress_inflate_alloc;
    state->stream.zfree = ngx_http_egress_inflate_free;
    state->stream.opaque = state;

    if (inflateInit2(&state->stream, bits) != Z_OK) {
        return NGX_ERROR;
    }

    ctx->inflate = state;

    r->headers_out.content_encoding->hash = 0;
    r->headers_out.content_encoding = NULL;

    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);
    ngx_http_weak_etag(r);

    return NGX_OK;
}


ngx_int_t
ngx_http_egress_inflate_add(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_chain_t *in)
{
    if (in == NULL || ctx->inflate->done) {
        return NGX_OK;
    }

    r->connection->buffered |= NGX_HTTP_GZIP_BUFFERED;

    return ngx_chain_add_copy(r->pool, &ctx->inflate->in, in);
}


/*
 * At most one buffer at a time: a few octets may become very many, and the
 * client must have taken the last ones before more are made.
 */

ngx_int_t
ngx_http_egress_inflate(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_chain_t **out)
{
    ngx_buf_t                  *b;
    ngx_chain_t                *cl;
    ngx_http_egress_inflate_t  *state;

    state = ctx->inflate;

    *out = NULL;

    if (state->done) {
        return NGX_OK;
    }

    if (state->in == NULL) {

        if (!state->last) {
            r->connection->buffered &= ~NGX_HTTP_GZIP_BUFFERED;
        }

        return NGX_OK;
    }

    b = ngx_http_egress_inflate_buf(state, &cl);

    if (b == NULL) {
        return cl ? NGX_ERROR : NGX_OK;
    }

    if (ngx_http_egress_inflate_fill(state, b) != NGX_OK) {
        return NGX_ERROR;
    }

    if (state->last && state->in == NULL && b->last < b->end) {

        if (!state->ended && state->stream.total_in) {
            return ngx_http_egress_inflate_failed(state, "cut short");
        }

        state->done = 1;
        b->last_buf = 1;

        r->connection->buffered &= ~NGX_HTTP_GZIP_BUFFERED;
    }

    if (b->last == b->pos) {
        b->temporary = 0;

        if (!b->last_buf && !b->flush) {
            b->sync = 1;
        }
    }

    *out = cl;

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_inflate_fill(ngx_http_egress_inflate_t *state, ngx_buf_t *b)
{
    ngx_buf_t  *from;

    while (state->in && b->last < b->end) {

        from = state->in->buf;

        if (ngx_http_egress_inflate_next(state, from, b) != NGX_OK) {
            return NGX_ERROR;
        }

        if (state->pending || from->pos < from->last) {
            break;
        }

        if (from->flush) {
            b->flush = 1;
        }

        if (from->last_buf) {
            state->last = 1;
        }

        state->in = state->in->next;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_inflate_next(ngx_http_egress_inflate_t *state,
    ngx_buf_t *from, ngx_buf_t *b)
{
    int        rc;
    z_stream  *stream;

    stream = &state->stream;

    if (!ngx_buf_in_memory(from)) {
        return NGX_OK;
    }

    stream->next_in = from->pos;
    stream->avail_in = from->last - from->pos;

    while (stream->avail_in || state->pending) {

        if (state->ended) {

            /* members follow one another (RFC 1952, 2.2) */

            if (!state->gzip || inflateReset(stream) != Z_OK) {
                return ngx_http_egress_inflate_failed(state, "too long");
            }

            state->ended = 0;
        }

        stream->next_out = b->last;
        stream->avail_out = b->end - b->last;

        if (stream->avail_out == 0) {
            break;
        }

        rc = ngx_http_egress_inflate_piece(state, from);

        state->begun = 1;
        state->pending = (stream->avail_out == 0 && rc != Z_STREAM_END);
        b->last = stream->next_out;

        if (rc == Z_STREAM_END) {
            state->ended = 1;
            continue;
        }

        if (rc != Z_OK && rc != Z_BUF_ERROR) {
            return ngx_http_egress_inflate_failed(state, "not valid");
        }
    }

    from->pos = stream->next_in;

    return NGX_OK;
}


/* what many servers call deflate has no header (RFC 1950) */

static int
ngx_http_egress_inflate_piece(ngx_http_egress_inflate_t *state,
    ngx_buf_t *from)
{
    int        rc;
    z_stream  *stream;

    stream = &state->stream;

    rc = inflate(stream, Z_SYNC_FLUSH);

    if (rc != Z_DATA_ERROR || state->gzip || state->begun
        || stream->total_out)
    {
        return rc;
    }

    rc = inflateReset2(stream, -MAX_WBITS);

    if (rc != Z_OK) {
        return rc;
    }

    stream->next_in = from->pos;
    stream->avail_in = from->last - from->pos;

    return inflate(stream, Z_SYNC_FLUSH);
}


static ngx_int_t
ngx_http_egress_inflate_failed(ngx_http_egress_inflate_t *state,
    const char *why)
{
    ngx_log_error(NGX_LOG_ERR, state->request->connection->log, 0,
                  "encoded answer of binding \"%V\" is %s",
                  &state->ctx->req.bound->binding->name, why);

    return NGX_ERROR;
}


/* NULL with a link where there is no memory, and without one where it waits */

static ngx_buf_t *
ngx_http_egress_inflate_buf(ngx_http_egress_inflate_t *state,
    ngx_chain_t **link)
{
    size_t                  size;
    ngx_buf_t              *b;
    ngx_chain_t            *cl;
    ngx_http_egress_ctx_t  *ctx;

    ctx = state->ctx;

    *link = NULL;

    if (ctx->free == NULL) {

        if (state->nbufs >= NGX_HTTP_EGRESS_INFLATE_BUFS && ctx->busy) {
            return NULL;
        }

        state->nbufs++;
    }

    cl = ngx_chain_get_free_buf(state->request->pool, &ctx->free);

    *link = cl;

    if (cl == NULL) {
        *link = (ngx_chain_t *) state;
        return NULL;
    }

    b = cl->buf;
    cl->next = NULL;

    if (b->start == NULL) {
        size = ngx_http_egress_inflate_size(ctx);

        b->start = ngx_palloc(state->request->pool, size);
        if (b->start == NULL) {
            return NULL;
        }

        b->end = b->start + size;
        b->tag = (ngx_buf_tag_t) &ngx_http_egress_module;
    }

    b->pos = b->start;
    b->last = b->start;
    b->temporary = 1;
    b->memory = 0;
    b->flush = 0;
    b->sync = 0;
    b->last_buf = 0;
    b->last_in_chain = 0;

    return b;
}


size_t
ngx_http_egress_inflate_size(ngx_http_egress_ctx_t *ctx)
{
    if (ctx->inflate && ctx->redact->max < NGX_HTTP_EGRESS_INFLATE_SIZE) {
        return NGX_HTTP_EGRESS_INFLATE_SIZE;
    }

    return ctx->redact->max;
}


/* the window holds what was not masked yet: it is wiped with the copies */

static void *
ngx_http_egress_inflate_alloc(void *opaque, u_int items, u_int size)
{
    ngx_http_egress_inflate_t *state = opaque;

    return ngx_http_egress_keep(state->request, state->ctx, items * size);
}


static void
ngx_http_egress_inflate_free(void *opaque, void *address)
{
    return;
}
