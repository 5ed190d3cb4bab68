
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* the first buffer of a body whose length is not known */
#define NGX_HTTP_EGRESS_INSPECT_SIZE  4096


/* what inspected bodies of a sandbox hold in this worker */

struct ngx_http_egress_budget_s {
    ngx_str_node_t                 sn;
    size_t                         size;
    ngx_uint_t                     refs;
};


static ngx_int_t ngx_http_egress_query_graphql(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t safe);
static ngx_int_t ngx_http_egress_query_lfs(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t safe);
static ngx_int_t ngx_http_egress_query_oci(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t safe);
static ngx_int_t ngx_http_egress_query_json_rpc(ngx_http_request_t *r,
    ngx_uint_t safe);
static ngx_int_t ngx_http_egress_inspect_by_query(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static void ngx_http_egress_inspect_repo(ngx_http_egress_ctx_t *ctx);
static ngx_egress_body_t *ngx_http_egress_inspect_said(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_inspect_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_inspect_start(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static void ngx_http_egress_inspect_begin(ngx_http_request_t *r);
static void ngx_http_egress_inspect_handler(ngx_http_request_t *r);
static void ngx_http_egress_inspect_next(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_inspect_read(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_inspect_take(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_uint_t ngx_http_egress_inspect_room(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, size_t size);
static ngx_int_t ngx_http_egress_inspect_done(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_int_t ngx_http_egress_inspect_body(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *body);
static ngx_int_t ngx_http_egress_budget_get(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);
static ngx_http_egress_budget_t *ngx_http_egress_budget(ngx_str_t *name,
    ngx_log_t *log);
static void ngx_http_egress_budget_cleanup(void *data);


/* of this worker, by the name of the sandbox; empty while nothing is read */

static ngx_rbtree_t       ngx_http_egress_budgets;
static ngx_rbtree_node_t  ngx_http_egress_budgets_sentinel;


ngx_int_t
ngx_http_egress_inspect_query(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t              rc;
    ngx_uint_t             safe;
    ngx_egress_request_t  *req;

    req = &ctx->req;

    safe = (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_OPTIONS)) != 0;

    /* without a query it is the schema, a session's stream, or no scope */

    req->class = NGX_EGRESS_READ;

    switch (req->inspector) {

    case NGX_EGRESS_INSPECT_GRAPHQL:
        rc = ngx_http_egress_query_graphql(r, ctx, safe);
        break;

    case NGX_EGRESS_INSPECT_LFS:
        rc = ngx_http_egress_query_lfs(r, ctx, safe);
        break;

    case NGX_EGRESS_INSPECT_OCI:
        rc = ngx_http_egress_query_oci(r, ctx, safe);
        break;

    default: /* NGX_EGRESS_INSPECT_JSON_RPC */
        rc = ngx_http_egress_query_json_rpc(r, safe);
    }

    if (rc == NGX_OK) {
        req->inspector = NGX_EGRESS_INSPECT_NONE;
        return NGX_OK;
    }

    req->class = NGX_EGRESS_UNKNOWN;

    return rc == NGX_AGAIN ? NGX_OK : NGX_DECLINED;
}


/*
 * Each of these returns NGX_OK where the class is known without a body;
 * NGX_AGAIN where a body has a say, too; NGX_DECLINED where neither can tell.
 */

static ngx_int_t
ngx_http_egress_query_graphql(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t safe)
{
    if (ctx->req.target.query.len == 0) {
        return safe ? NGX_OK : NGX_AGAIN;
    }

    /*
     * Servers may take what they execute from either place: beside a body
     * nothing may stand in the target, since a parameter of any name may be
     * one that decides, the key of a stored query for one.
     */

    return safe ? ngx_http_egress_inspect_by_query(r, ctx) : NGX_DECLINED;
}


static ngx_int_t
ngx_http_egress_query_lfs(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_uint_t safe)
{
    if (ctx->req.target.query.len) {
        return NGX_DECLINED;
    }

    if (safe) {
        return r->method == NGX_HTTP_OPTIONS ? NGX_OK : NGX_DECLINED;
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_egress_query_oci(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_uint_t safe)
{
    if ((!safe && r->method != NGX_HTTP_POST)
        || ngx_http_egress_inspect_by_query(r, ctx) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    /* with a body both places have to be reads */

    return (safe || ctx->req.class != NGX_EGRESS_READ) ? NGX_OK : NGX_AGAIN;
}


static ngx_int_t
ngx_http_egress_query_json_rpc(ngx_http_request_t *r, ngx_uint_t safe)
{
    if (r->method != NGX_HTTP_DELETE) {
        return safe ? NGX_OK : NGX_AGAIN;
    }

    /* the end of a session of MCP's streamable HTTP transport */

    return (r->headers_in.content_length_n > 0 || r->headers_in.chunked)
           ? NGX_DECLINED : NGX_OK;
}


static ngx_int_t
ngx_http_egress_inspect_by_query(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    u_char             *buf;
    ngx_int_t           rc;
    ngx_str_t          *query;
    ngx_egress_body_t  *said;

    query = &ctx->req.target.query;

    said = ngx_http_egress_inspect_said(r, ctx);
    buf = ngx_pnalloc(r->pool, query->len + 1);

    if (said == NULL || buf == NULL) {
        return NGX_DECLINED;
    }

    rc = (ctx->req.inspector == NGX_EGRESS_INSPECT_OCI)
         ? ngx_egress_oci_scope(query, buf, said)
         : ngx_egress_graphql_query(query, buf, said);

    if (rc != NGX_OK) {
        return NGX_DECLINED;
    }

    ctx->req.class = said->class;
    ngx_http_egress_inspect_repo(ctx);

    return NGX_OK;
}


/* for the audit log: the repository that a query begins with */

static void
ngx_http_egress_inspect_repo(ngx_http_egress_ctx_t *ctx)
{
    ngx_egress_body_repo_t  *repo;

    if (ctx->said->nrepos == 0) {
        return;
    }

    repo = ctx->said->repos;

    if (repo->owner_len == 0 || repo->name_len == 0) {
        return;
    }

    ctx->req.owner.data = repo->owner;
    ctx->req.owner.len = repo->owner_len;
    ctx->req.repo.data = repo->name;
    ctx->req.repo.len = repo->name_len;
}


static ngx_egress_body_t *
ngx_http_egress_inspect_said(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    /* a refusal tells of it also where no inspector has filled it in */

    ctx->said = ngx_pcalloc(r->pool, sizeof(ngx_egress_body_t));

    return ctx->said;
}


ngx_int_t
ngx_http_egress_inspect(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t  rc;

    ctx->inspect_reason = ngx_http_egress_inspect_header(r, ctx);

    if (ctx->inspect_reason != NGX_EGRESS_ALLOWED) {
        return NGX_OK;
    }

    if (!ctx->read) {

        if (r->request_body) {

            /* somebody else has read it, and may have changed it */

            ctx->inspect_reason = NGX_EGRESS_CLASS_UNKNOWN;
            return NGX_OK;
        }

        rc = ngx_http_egress_inspect_start(r, ctx);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    /* there at once, or judged anew, after an internal redirect */

    ctx->inspect_reason = ngx_http_egress_inspected(r, ctx);

    return NGX_OK;
}


/* what can be told of a body by the header */

static ngx_uint_t
ngx_http_egress_inspect_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_str_t  *coding;

    coding = &ctx->content_encoding;

    if (ctx->content_encodings > 1
        || (ctx->content_encodings
            && (coding->len != sizeof("identity") - 1
                || ngx_strncasecmp(coding->data, (u_char *) "identity",
                                   sizeof("identity") - 1)
                   != 0)))
    {
        return NGX_EGRESS_BODY_UNSUPPORTED;
    }

    if (!ngx_http_egress_media_charset(&ctx->req.content_type)) {
        return NGX_EGRESS_BODY_UNSUPPORTED;
    }

    if (r->headers_in.content_length_n
        > (off_t) ctx->req.bound->binding->inspect_max)
    {
        return NGX_EGRESS_BODY_TOO_LARGE;
    }

    return NGX_EGRESS_ALLOWED;
}


/*
 * Unbuffered, nginx reads into a small buffer, which is emptied into ours as
 * it fills: with buffering all of client_body_buffer_size would be taken at
 * once for a body of unknown length.
 */

static ngx_int_t
ngx_http_egress_inspect_start(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (ngx_http_egress_budget_get(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->request_body_no_buffering = 1;

    ctx->reading = 1;
    ctx->sync = 1;
    ctx->inspect_status = NGX_AGAIN;

    rc = ngx_http_read_client_request_body(r, ngx_http_egress_inspect_begin);

    ctx->sync = 0;

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        ctx->reading = 0;
        return rc;
    }

    /* gives the reference back that reading took */

    ngx_http_finalize_request(r, NGX_DONE);

    if (ctx->inspect_status != NGX_AGAIN) {
        ctx->reading = 0;
    }

    return ctx->inspect_status;
}


/* the first part, or all that there is, or, for HTTP/2, all of it later */

static void
ngx_http_egress_inspect_begin(ngx_http_request_t *r)
{
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    ctx->inspect_status = ngx_http_egress_inspect_read(r, ctx);

    if (ctx->inspect_status == NGX_AGAIN) {
        r->read_event_handler = ngx_http_egress_inspect_handler;
        r->write_event_handler = ngx_http_request_empty_handler;
        return;
    }

    if (!ctx->sync) {
        ngx_http_egress_inspect_next(r, ctx);
    }
}


static void
ngx_http_egress_inspect_handler(ngx_http_request_t *r)
{
    ngx_http_egress_ctx_t  *ctx;

    ctx = ngx_http_egress_get_ctx(r);

    ctx->inspect_status = ngx_http_egress_inspect_read(r, ctx);

    if (ctx->inspect_status != NGX_AGAIN) {
        ngx_http_egress_inspect_next(r, ctx);
    }
}


static void
ngx_http_egress_inspect_next(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    r->read_event_handler = ngx_http_block_reading;

    if (ctx->inspect_status != NGX_OK) {
        ngx_http_finalize_request(r, ctx->inspect_status);
        return;
    }

    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}


/* NGX_OK: it is there, or has been refused by its size; or as nginx has it */

static ngx_int_t
ngx_http_egress_inspect_read(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_int_t  rc;

    for ( ;; ) {

        ctx->inspect_reason = ngx_http_egress_inspect_take(r, ctx);

        if (ctx->inspect_reason != NGX_EGRESS_ALLOWED) {
            ctx->read = 1;
            return NGX_OK;
        }

        if (!r->reading_body) {
            return ngx_http_egress_inspect_done(r, ctx);
        }

        /* also lets the peer of an HTTP/2 stream send more */

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            return rc;
        }

        if (rc == NGX_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (rc == NGX_AGAIN && r->request_body->bufs == NULL) {
            return NGX_AGAIN;
        }
    }
}


static ngx_uint_t
ngx_http_egress_inspect_take(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    size_t        size;
    ngx_buf_t    *b;
    ngx_uint_t    reason;
    ngx_chain_t  *cl, *next;

    for (cl = r->request_body->bufs; cl; cl = next) {

        next = cl->next;
        b = cl->buf;

        if (!ngx_buf_in_memory(b) && ngx_buf_size(b)) {
            return NGX_EGRESS_CLASS_UNKNOWN;
        }

        size = b->last - b->pos;

        reason = ngx_http_egress_inspect_room(r, ctx, size);

        if (reason != NGX_EGRESS_ALLOWED) {
            return reason;
        }

        if (size) {
            ctx->inspected->last = ngx_cpymem(ctx->inspected->last, b->pos,
                                              size);
            b->pos = b->last;
        }

        ngx_free_chain(r->pool, cl);

        r->request_body->bufs = next;
    }

    return NGX_EGRESS_ALLOWED;
}


/* room for so many octets more; it grows with what has come, by doubling */

static ngx_uint_t
ngx_http_egress_inspect_room(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, size_t size)
{
    size_t      used, room, max;
    u_char     *p;
    ngx_buf_t  *b;

    b = ctx->inspected;
    max = ctx->req.bound->binding->inspect_max;

    used = b->last - b->pos;
    room = b->end - b->start;

    if (size > max - used) {
        return NGX_EGRESS_BODY_TOO_LARGE;
    }

    if (size <= room - used) {
        return NGX_EGRESS_ALLOWED;
    }

    room = ngx_max(room, NGX_HTTP_EGRESS_INSPECT_SIZE);

    while (room - used < size) {
        room *= 2;
    }

    room = ngx_min(room, max);

    if (r->headers_in.content_length_n > (off_t) used) {
        room = ngx_min(room, (size_t) r->headers_in.content_length_n);
        room = ngx_max(room, used + size);
    }

    if (ctx->budget->size - ctx->budgeted + room > NGX_EGRESS_INSPECT_LIMIT) {
        return NGX_EGRESS_LIMIT_REACHED;
    }

    p = ngx_palloc(r->pool, room);
    if (p == NULL) {
        return NGX_EGRESS_LIMIT_REACHED;
    }

    ctx->budget->size += room - ctx->budgeted;
    ctx->budgeted = room;

    if (b->start) {
        ngx_memcpy(p, b->pos, used);
        ngx_pfree(r->pool, b->start);
    }

    b->start = p;
    b->pos = p;
    b->last = p + used;
    b->end = p + room;

    return NGX_EGRESS_ALLOWED;
}


/* what was judged is what is sent, in one piece and with its length */

static ngx_int_t
ngx_http_egress_inspect_done(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    ctx->read = 1;

    b = ctx->inspected;

    if (b->last == b->pos) {
        return NGX_OK;
    }

    cl = ngx_alloc_chain_link(r->pool);
    if (cl == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cl->buf = b;
    cl->next = NULL;

    r->request_body->bufs = cl;
    r->headers_in.content_length_n = b->last - b->pos;

    return NGX_OK;
}


ngx_uint_t
ngx_http_egress_inspected(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_str_t  body;

    if (ctx->inspect_reason != NGX_EGRESS_ALLOWED) {
        return ctx->inspect_reason;
    }

    ctx->judged = 1;

    if (ngx_http_egress_inspect_said(r, ctx) == NULL) {
        return NGX_EGRESS_CLASS_UNKNOWN;
    }

    body.data = ctx->inspected->pos;
    body.len = ctx->inspected->last - ctx->inspected->pos;

    if (body.data == NULL) {
        ngx_str_set(&body, "");
    }

    switch (ngx_http_egress_inspect_body(r, ctx, &body)) {

    case NGX_OK:
        ctx->req.class = ctx->said->class;
        ngx_http_egress_inspect_repo(ctx);

        return ngx_http_egress_judge(ctx);

    case NGX_ABORT:
        return NGX_EGRESS_BODY_UNSUPPORTED;

    case NGX_ERROR:
        return NGX_EGRESS_MALFORMED_REQUEST;

    default: /* NGX_DECLINED */
        return NGX_EGRESS_CLASS_UNKNOWN;
    }
}


static ngx_int_t
ngx_http_egress_inspect_body(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *body)
{
    u_char             *buf;
    ngx_str_t          *type;
    ngx_egress_rule_t  *rule;

    static ngx_str_t  form = ngx_string("application/x-www-form-urlencoded");

    type = &ctx->req.content_type;

    if (ctx->req.inspector != NGX_EGRESS_INSPECT_OCI
        && ngx_http_egress_media_form(type, body))
    {
        return NGX_DECLINED;
    }

    switch (ctx->req.inspector) {

    case NGX_EGRESS_INSPECT_GRAPHQL:
        return ngx_egress_graphql_body(body, ctx->said);

    case NGX_EGRESS_INSPECT_LFS:
        return ngx_egress_lfs_body(body, ctx->said);

    case NGX_EGRESS_INSPECT_JSON_RPC:
        rule = ctx->req.rule;

        return ngx_egress_json_rpc_body(body, &rule->tools, rule->all_tools,
                                        &ctx->mcp_method, &ctx->mcp_name,
                                        ctx->said);

    default: /* NGX_EGRESS_INSPECT_OCI */

        /* a form has this type, with or without parameters */

        if (type->len < form.len
            || ngx_strncasecmp(type->data, form.data, form.len) != 0
            || (type->len > form.len && type->data[form.len] != ';'
                && type->data[form.len] != ' '))
        {
            return NGX_DECLINED;
        }

        buf = ngx_pnalloc(r->pool, body->len + 1);

        return buf ? ngx_egress_oci_scope(body, buf, ctx->said)
                   : NGX_DECLINED;
    }
}


static ngx_int_t
ngx_http_egress_budget_get(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_egress_budget_t  *budget;

    if (ctx->budget) {

        /* reading failed before it began, and this is another location */

        return NGX_OK;
    }

    ctx->inspected = ngx_calloc_buf(r->pool);
    if (ctx->inspected == NULL) {
        return NGX_ERROR;
    }

    ctx->inspected->temporary = 1;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    budget = ngx_http_egress_budget(&ctx->sandbox, r->connection->log);
    if (budget == NULL) {
        return NGX_ERROR;
    }

    budget->refs++;

    ctx->budget = budget;
    ctx->budgeted = 0;

    cln->handler = ngx_http_egress_budget_cleanup;
    cln->data = ctx;

    return NGX_OK;
}


static ngx_http_egress_budget_t *
ngx_http_egress_budget(ngx_str_t *name, ngx_log_t *log)
{
    uint32_t                   hash;
    ngx_http_egress_budget_t  *budget;

    if (ngx_http_egress_budgets.root == NULL) {
        ngx_rbtree_init(&ngx_http_egress_budgets,
                        &ngx_http_egress_budgets_sentinel,
                        ngx_str_rbtree_insert_value);
    }

    hash = ngx_crc32_long(name->data, name->len);

    budget = (ngx_http_egress_budget_t *)
                 ngx_str_rbtree_lookup(&ngx_http_egress_budgets, name, hash);

    if (budget) {
        return budget;
    }

    budget = ngx_calloc(sizeof(ngx_http_egress_budget_t) + name->len, log);
    if (budget == NULL) {
        return NULL;
    }

    budget->sn.str.len = name->len;
    budget->sn.str.data = (u_char *) budget
                          + sizeof(ngx_http_egress_budget_t);

    ngx_memcpy(budget->sn.str.data, name->data, name->len);

    budget->sn.node.key = hash;

    ngx_rbtree_insert(&ngx_http_egress_budgets, &budget->sn.node);

    return budget;
}


static void
ngx_http_egress_budget_cleanup(void *data)
{
    ngx_http_egress_ctx_t *ctx = data;

    ngx_http_egress_budget_t  *budget;

    budget = ctx->budget;

    budget->size -= ctx->budgeted;

    if (--budget->refs == 0) {
        ngx_rbtree_delete(&ngx_http_egress_budgets, &budget->sn.node);
        ngx_free(budget);
    }

    ctx->budget = NULL;
}
