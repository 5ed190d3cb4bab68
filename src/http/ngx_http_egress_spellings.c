
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>

#include <sys/mman.h>


/* tables of spellings that a worker keeps; others are made when needed */
#define NGX_HTTP_EGRESS_REDACT_TABLES  256

/* places of those for sandboxes: two that meet in one take turns */
#define NGX_HTTP_EGRESS_REDACT_SANDBOXES  1021

/* wiped memory of tables, for the next ones: to map it costs most */
#define NGX_HTTP_EGRESS_REDACT_SPARE  8


/*
 * Mutable state of a worker: by the index of a secret, behind them by that of
 * a binding which has several, then by the names of sandboxes with secrets of
 * their own, and which were made.
 */

typedef struct {
    ngx_http_egress_spellings_t  **slots;
    ngx_uint_t                     kept[NGX_HTTP_EGRESS_REDACT_TABLES];
    ngx_uint_t                     next;
    ngx_http_egress_spellings_t   *spare[NGX_HTTP_EGRESS_REDACT_SPARE];
    ngx_uint_t                     next_spare;
} ngx_http_egress_tables_t;


static ngx_uint_t ngx_http_egress_redact_values(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_secret_t *secret, ngx_str_t *value,
    ngx_str_t *values);
static ngx_http_egress_spellings_t *ngx_http_egress_redact_table(
    ngx_http_egress_ctx_t *ctx, ngx_str_t *values, ngx_uint_t n,
    ngx_uint_t generation, ngx_log_t *log);
static ngx_int_t ngx_http_egress_redact_use(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_spellings_t *spellings);
static void ngx_http_egress_redact_cleanup(void *data);
static void ngx_http_egress_table_add(ngx_uint_t index,
    ngx_http_egress_spellings_t *spellings);
static ngx_http_egress_spellings_t *ngx_http_egress_spellings(
    ngx_str_t *values, ngx_uint_t n, ngx_log_t *log);
static ngx_http_egress_spellings_t *ngx_http_egress_spellings_map(size_t size,
    ngx_log_t *log);
static void ngx_http_egress_spellings_free(
    ngx_http_egress_spellings_t *spellings);


static ngx_http_egress_tables_t  ngx_http_egress_tables;


/*
 * All secrets of the binding are looked for, in one pass: an upstream that got
 * one of them may well have kept another.
 */

ngx_int_t
ngx_http_egress_redact_note(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_secret_t *secret, ngx_str_t *value)
{
    ngx_str_t                     values[NGX_EGRESS_CREDENTIALS];
    ngx_uint_t                    n, generation;
    ngx_http_egress_spellings_t  *spellings;

    n = ngx_http_egress_redact_values(r, ctx, secret, value, values);

    /* no value comes without a new one */

    generation = ngx_egress_generation(ctx->req.bound->binding,
                                       &ctx->sandbox);

    spellings = ctx->spellings;

    if (spellings) {

        /* changed since the first one was sent: what is looked for was not */

        return spellings->generation == generation ? NGX_OK : NGX_DECLINED;
    }

    if (n == 0) {
        return NGX_OK;
    }

    spellings = ngx_http_egress_redact_table(ctx, values, n, generation,
                                             r->connection->log);
    if (spellings == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_egress_redact_use(r, ctx, spellings);
}


static ngx_http_egress_spellings_t *
ngx_http_egress_redact_table(ngx_http_egress_ctx_t *ctx, ngx_str_t *values,
    ngx_uint_t n, ngx_uint_t generation, ngx_log_t *log)
{
    ngx_str_t                     sandbox;
    ngx_uint_t                    i, of;
    ngx_egress_secret_t         **secrets;
    ngx_egress_binding_t         *binding;
    ngx_http_egress_spellings_t  *spellings;

    binding = ctx->req.bound->binding;
    secrets = binding->secrets.elts;

    of = binding->secrets.nelts == 1 ? secrets[0]->index
                                     : ctx->conf->secrets.nelts
                                       + binding->index;
    i = of;
    ngx_str_set(&sandbox, "");

    if (binding->sandboxed && ctx->sandbox.len) {
        sandbox = ctx->sandbox;

        i = ctx->conf->secrets.nelts + ctx->conf->bindings.nelts
            + (ngx_crc32_short(sandbox.data, sandbox.len) + of)
              % NGX_HTTP_EGRESS_REDACT_SANDBOXES;
    }

    spellings = ngx_http_egress_tables.slots[i];

    if (spellings && spellings->generation == generation
        && spellings->of == of && spellings->sandbox_len == sandbox.len
        && ngx_memcmp(spellings->sandbox, sandbox.data, sandbox.len) == 0)
    {
        return spellings;
    }

    if (sandbox.len > NGX_EGRESS_SANDBOX_ID_LEN) {
        return NULL;
    }

    spellings = ngx_http_egress_spellings(values, n, log);
    if (spellings == NULL) {
        return NULL;
    }

    spellings->generation = generation;
    spellings->of = of;
    spellings->sandbox_len = sandbox.len;
    ngx_memcpy(spellings->sandbox, sandbox.data, sandbox.len);

    ngx_http_egress_table_add(i, spellings);

    return spellings;
}


/* those that there are now, and long enough to be looked for */

static ngx_uint_t
ngx_http_egress_redact_values(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_secret_t *secret, ngx_str_t *value,
    ngx_str_t *values)
{
    ngx_uint_t             i, n;
    ngx_array_t           *all;
    ngx_egress_secret_t  **secrets;

    n = 0;

    all = &ctx->req.bound->binding->secrets;
    secrets = all->elts;

    for (i = 0; i < all->nelts; i++) {

        if (secrets[i] == secret) {
            values[n] = *value;

        } else if (ngx_egress_secret_get(ctx->conf, secrets[i],
                                         &ctx->sandbox, &values[n], NULL,
                                         r->connection->log)
                   != NGX_OK)
        {
            continue;
        }

        if (values[n].len >= NGX_EGRESS_REDACT_LEN) {
            n++;
        }
    }

    return n;
}


static ngx_int_t
ngx_http_egress_redact_use(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_spellings_t *spellings)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(r->main->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    spellings->refs++;

    ctx->spellings = spellings;
    ctx->redact = spellings->redact;

    cln->handler = ngx_http_egress_redact_cleanup;
    cln->data = ctx;

    return NGX_OK;
}


static void
ngx_http_egress_redact_cleanup(void *data)
{
    ngx_http_egress_ctx_t *ctx = data;

    ngx_http_egress_spellings_free(ctx->spellings);

    ctx->spellings = NULL;
    ctx->redact = NULL;
}


/* a few hundred tables are kept, the oldest makes room */

static void
ngx_http_egress_table_add(ngx_uint_t index,
    ngx_http_egress_spellings_t *spellings)
{
    ngx_uint_t  *place;

    if (ngx_http_egress_tables.slots[index] == NULL) {

        place = &ngx_http_egress_tables.kept[ngx_http_egress_tables.next];

        if (*place) {
            ngx_http_egress_spellings_free(
                               ngx_http_egress_tables.slots[*place - 1]);
            ngx_http_egress_tables.slots[*place - 1] = NULL;
        }

        *place = index + 1;

        ngx_http_egress_tables.next = (ngx_http_egress_tables.next + 1)
                                      % NGX_HTTP_EGRESS_REDACT_TABLES;
    }

    ngx_http_egress_spellings_free(ngx_http_egress_tables.slots[index]);

    ngx_http_egress_tables.slots[index] = spellings;
}


static ngx_http_egress_spellings_t *
ngx_http_egress_spellings(ngx_str_t *values, ngx_uint_t n, ngx_log_t *log)
{
    size_t                        size;
    ngx_http_egress_spellings_t  *spellings;

    size = ngx_align(sizeof(ngx_http_egress_spellings_t)
                     + ngx_egress_redact_size(values, n), ngx_pagesize);

    spellings = ngx_http_egress_spellings_map(size, log);
    if (spellings == NULL) {
        return NULL;
    }

    spellings->refs = 1;
    spellings->size = size;
    spellings->redact = ngx_egress_redact_init(spellings + 1, values, n);

    return spellings;
}


static ngx_http_egress_spellings_t *
ngx_http_egress_spellings_map(size_t size, ngx_log_t *log)
{
    ngx_uint_t                    i;
    ngx_http_egress_spellings_t  *spellings;

    for (i = 0; i < NGX_HTTP_EGRESS_REDACT_SPARE; i++) {

        spellings = ngx_http_egress_tables.spare[i];

        if (spellings && spellings->size == size) {
            ngx_http_egress_tables.spare[i] = NULL;
            return spellings;
        }
    }

    spellings = mmap(NULL, size, PROT_READ|PROT_WRITE,
                     MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

    if (spellings == MAP_FAILED) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "mmap() of %uz bytes failed", size);
        return NULL;
    }

    /* a limit on locked memory is no reason to let a secret through */

    (void) mlock(spellings, size);
    (void) madvise(spellings, size, MADV_DONTDUMP);

    return spellings;
}


static void
ngx_http_egress_spellings_free(ngx_http_egress_spellings_t *spellings)
{
    size_t                         size;
    ngx_http_egress_spellings_t  **spare;

    if (spellings == NULL || --spellings->refs) {
        return;
    }

    size = spellings->size;

    ngx_explicit_memzero(spellings, size);

    spellings->size = size;

    spare = &ngx_http_egress_tables.spare[ngx_http_egress_tables.next_spare];

    ngx_http_egress_tables.next_spare =
                                     (ngx_http_egress_tables.next_spare + 1)
                                     % NGX_HTTP_EGRESS_REDACT_SPARE;

    if (*spare) {
        (void) munmap(*spare, (*spare)->size);
    }

    *spare = spellings;
}


ngx_int_t
ngx_http_egress_redact_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    ngx_uint_t  n;

    ngx_memzero(&ngx_http_egress_tables, sizeof(ngx_http_egress_tables));

    n = ecf->secrets.nelts + ecf->bindings.nelts
        + NGX_HTTP_EGRESS_REDACT_SANDBOXES;

    ngx_http_egress_tables.slots =
                         ngx_pcalloc(cycle->pool,
                                     n * sizeof(ngx_http_egress_spellings_t *));

    return ngx_http_egress_tables.slots ? NGX_OK : NGX_ERROR;
}
