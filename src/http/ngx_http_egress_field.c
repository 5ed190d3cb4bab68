
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_int_t ngx_http_egress_field_pass(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field);
static ngx_int_t ngx_http_egress_field_join(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_table_elt_t *first);
static ngx_uint_t ngx_http_egress_field_same(ngx_table_elt_t *h,
    ngx_table_elt_t *first);
static ngx_uint_t ngx_http_egress_field_own(ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field);
static ngx_int_t ngx_http_egress_field_secret(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field);
static ngx_int_t ngx_http_egress_field_swap(ngx_http_request_t *r,
    ngx_str_t *value, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field, ngx_str_t *secret);
static ngx_int_t ngx_http_egress_field_set(ngx_http_request_t *r,
    ngx_str_t *value, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field, ngx_str_t *secret);
static ngx_int_t ngx_http_egress_field_basic(ngx_http_request_t *r,
    ngx_str_t *value, ngx_http_egress_ctx_t *ctx, ngx_str_t *user,
    ngx_str_t *secret);
static void ngx_http_egress_forget(ngx_http_request_t *r);


ngx_int_t
ngx_http_egress_field_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_upstream_t          *u;
    ngx_http_egress_ctx_t        *ctx;
    ngx_http_egress_field_t      *field;
    ngx_http_egress_main_conf_t  *emcf;

    v->valid = 0;
    v->no_cacheable = 1;
    v->not_found = 1;
    v->len = 0;
    v->data = (u_char *) "";

    /*
     * An internal redirect clears the module's context; u->cleanup is set
     * once the request is built, and cleared again at the end, when "closed"
     * is set.
     */

    ctx = ngx_http_get_module_ctx(r, ngx_http_egress_module);
    u = r->upstream;

    if (ctx == NULL || u == NULL || u->create_request == NULL
        || u->cleanup != NULL || ctx->closed || ctx->denied
        || !ctx->audited)
    {
        return NGX_OK;
    }

    /* and only for the next hop that is ours */

    emcf = ngx_http_get_module_main_conf(r, ngx_http_egress_module);

    if (u->resolved || u->conf->upstream != emcf->upstream
        || !u->conf->ssl_verify)
    {
        return NGX_OK;
    }

    if (!ctx->injected) {
        ngx_http_egress_guard(r, ctx);
    }

    field = &ctx->fields[data];

    switch (field->action) {

    case NGX_HTTP_EGRESS_REMOVE:
        return NGX_OK;

    case NGX_HTTP_EGRESS_SWAP:
    case NGX_HTTP_EGRESS_SET:
        return ngx_http_egress_field_secret(r, v, ctx, field);

    default: /* NGX_HTTP_EGRESS_PASS */
        return ngx_http_egress_field_pass(r, v, ctx, field);
    }
}


static ngx_int_t
ngx_http_egress_field_pass(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field)
{
    ngx_table_elt_t  *first;

    first = field->header;

    if (first == NULL
        || (!ngx_http_egress_field_own(ctx, field)
            && !ngx_http_egress_header_passed(ctx->req.bound->binding,
                                              first)))
    {
        return NGX_OK;
    }

    v->valid = 1;
    v->not_found = 0;
    v->len = first->value.len;
    v->data = first->value.data;

    return field->count == 1 ? NGX_OK
                             : ngx_http_egress_field_join(r, v, first);
}


/* several lines are one list (RFC 9110, 5.3) */

static ngx_int_t
ngx_http_egress_field_join(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_table_elt_t *first)
{
    size_t                   len;
    u_char                  *p;
    ngx_table_elt_t         *h;
    ngx_http_egress_walk_t   walk;

    len = 0;

    for (h = ngx_http_egress_first(&walk, &r->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (ngx_http_egress_field_same(h, first)) {
            len += h->value.len + 2;
        }
    }

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;

    for (h = ngx_http_egress_first(&walk, &r->headers_in.headers);
         h;
         h = ngx_http_egress_next(&walk))
    {
        if (!ngx_http_egress_field_same(h, first)) {
            continue;
        }

        if (p != v->data) {
            *p++ = ',';
            *p++ = ' ';
        }

        p = ngx_cpymem(p, h->value.data, h->value.len);
    }

    v->len = p - v->data;

    return NGX_OK;
}


static ngx_uint_t
ngx_http_egress_field_same(ngx_table_elt_t *h, ngx_table_elt_t *first)
{
    return h->hash == first->hash && h->key.len == first->key.len
           && ngx_strncmp(h->lowcase_key, first->lowcase_key, h->key.len)
              == 0;
}


/* for this binding a credential, not a field that only others name */

static ngx_uint_t
ngx_http_egress_field_own(ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field)
{
    ngx_uint_t                 i, j;
    ngx_egress_header_t       *header;
    ngx_egress_binding_t      *binding;
    ngx_egress_credential_t  **creds;

    binding = ctx->req.bound->binding;
    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {

        header = creds[i]->headers.elts;

        for (j = 0; j < creds[i]->headers.nelts; j++) {
            if (&ctx->fields[header[j].field->index] == field) {
                return creds[i]->inject != NGX_EGRESS_INJECT_OFF;
            }
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_egress_field_secret(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_http_egress_ctx_t *ctx,
    ngx_http_egress_field_t *field)
{
    ngx_int_t                 rc;
    ngx_str_t                 secret, value;
    ngx_egress_binding_t     *binding;
    ngx_egress_credential_t  *cred;

    binding = ctx->req.bound->binding;
    cred = field->bound->credential;

    /* gone between the decision and now: nothing is set, 401 comes back */

    if (ngx_egress_secret_get(ctx->conf, cred->secret, &ctx->sandbox, &secret,
                              NULL, r->connection->log)
        != NGX_OK)
    {
        return NGX_OK;
    }

    if (binding->redact) {
        rc = ngx_http_egress_redact_note(r, ctx, cred->secret, &secret);

        if (rc != NGX_OK) {
            return rc == NGX_DECLINED ? NGX_OK : NGX_ERROR;
        }
    }

    if (ngx_http_egress_live_secret(r, ctx, cred) != NGX_OK) {
        return NGX_ERROR;
    }

    /* one that changes from here on is not what this connection knows */

    if (ctx->generation == 0) {
        ctx->generation = ngx_egress_generation(binding, &ctx->sandbox);
    }

    rc = (field->action == NGX_HTTP_EGRESS_SET)
         ? ngx_http_egress_field_set(r, &value, ctx, field, &secret)
         : ngx_http_egress_field_swap(r, &value, ctx, field, &secret);

    if (rc != NGX_OK) {
        return rc;
    }

    v->valid = 1;
    v->not_found = 0;
    v->len = value.len;
    v->data = value.data;

    return NGX_OK;
}


/* what the client sent, with the secret where placeholders are */

static ngx_int_t
ngx_http_egress_field_swap(ngx_http_request_t *r, ngx_str_t *value,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_field_t *field,
    ngx_str_t *secret)
{
    size_t                       len;
    u_char                      *p, *scratch;
    ngx_egress_authorization_t  *auth;

    auth = &field->auth;

    len = ngx_egress_authorization_len(auth, field->user, field->password,
                                       secret);

    p = ngx_http_egress_alloc(r, ctx, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    scratch = NULL;

    if (auth->form == NGX_EGRESS_AUTH_BASIC) {

        /* the pair, before it is encoded */

        scratch = ngx_http_egress_alloc(r, ctx, auth->user.len
                                                + auth->password.len
                                                + 2 * secret->len + 1);
        if (scratch == NULL) {
            return NGX_ERROR;
        }
    }

    value->data = p;
    value->len = ngx_egress_authorization_build(p, auth, field->user,
                                                field->password, secret,
                                                scratch)
                 - p;

    return NGX_OK;
}


/* prefix + secret + suffix, "Bearer " + secret, or Basic */

static ngx_int_t
ngx_http_egress_field_set(ngx_http_request_t *r, ngx_str_t *value,
    ngx_http_egress_ctx_t *ctx, ngx_http_egress_field_t *field,
    ngx_str_t *secret)
{
    u_char               *p;
    ngx_str_t             prefix;
    ngx_egress_header_t  *header;

    header = field->bound;

    if (field->basic) {
        return ngx_http_egress_field_basic(r, value, ctx,
                                           &header->credential->basic_user,
                                           secret);
    }

    prefix = header->prefix;

    if (header->authorization && !header->affixed) {
        ngx_str_set(&prefix, "Bearer ");
    }

    value->len = prefix.len + secret->len + header->suffix.len;

    value->data = ngx_http_egress_alloc(r, ctx, value->len);
    if (value->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(value->data, prefix.data, prefix.len);
    p = ngx_cpymem(p, secret->data, secret->len);
    ngx_memcpy(p, header->suffix.data, header->suffix.len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_egress_field_basic(ngx_http_request_t *r, ngx_str_t *value,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *user, ngx_str_t *secret)
{
    size_t      len;
    u_char     *p;
    ngx_str_t   pair, encoded;

    pair.len = user->len + 1 + secret->len;

    pair.data = ngx_http_egress_alloc(r, ctx, pair.len);
    if (pair.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(pair.data, user->data, user->len);
    *p++ = ':';
    ngx_memcpy(p, secret->data, secret->len);

    len = sizeof("Basic ") - 1 + ngx_base64_encoded_length(pair.len);

    value->data = ngx_http_egress_alloc(r, ctx, len);
    if (value->data == NULL) {
        return NGX_ERROR;
    }

    encoded.data = ngx_cpymem(value->data, "Basic ", sizeof("Basic ") - 1);

    ngx_encode_base64(&encoded, &pair);

    value->len = encoded.data + encoded.len - value->data;

    return NGX_OK;
}


/*
 * The header of the upstream request, as nginx has built it.  Noted before it
 * is sent: the links of a chain that is sent unbuffered are used again.
 */

ngx_int_t
ngx_http_egress_note_request(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx)
{
    ngx_buf_t               *b;
    ngx_http_egress_copy_t  *copy;

    ngx_http_egress_forget(r);

    if (r->upstream->request_bufs == NULL) {
        return NGX_ERROR;
    }

    copy = ngx_array_push(&ctx->copies);
    if (copy == NULL) {
        return NGX_ERROR;
    }

    b = r->upstream->request_bufs->buf;

    copy->data = b->start;
    copy->len = b->end - b->start;

    ctx->request_size = copy->len;

    return NGX_OK;
}


/* noted before it is used, so that it is wiped whatever happens */

u_char *
ngx_http_egress_keep(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    size_t len)
{
    ngx_http_egress_copy_t  *copy;

    copy = ngx_array_push(&ctx->kept);
    if (copy == NULL) {
        return NULL;
    }

    copy->len = 0;
    copy->data = ngx_palloc(r->main->pool, len);

    if (copy->data) {
        copy->len = len;
    }

    return copy->data;
}


u_char *
ngx_http_egress_alloc(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    size_t len)
{
    ngx_http_egress_copy_t  *copy;

    copy = ngx_array_push(&ctx->copies);
    if (copy == NULL) {
        return NULL;
    }

    copy->len = 0;
    copy->data = ngx_pnalloc(r->main->pool, len + 1);

    if (copy->data) {
        copy->len = len + 1;
    }

    return copy->data;
}


void
ngx_http_egress_wipe(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    ngx_uint_t               i;
    ngx_http_upstream_t     *u;
    ngx_http_egress_copy_t  *copy;

    copy = ctx->copies.elts;

    for (i = 0; i < ctx->copies.nelts; i++) {
        if (copy[i].len) {
            ngx_explicit_memzero(copy[i].data, copy[i].len);
        }
    }

    ctx->copies.nelts = 0;

    if (r == NULL || !ctx->injected || ctx->closed) {
        return;
    }

    ctx->closed = 1;

    ngx_http_egress_forget(r);

    u = r->upstream;

    if (u == NULL) {
        return;
    }

    /* error messages show it, and it points into the request's buffer */
    u->uri = r->unparsed_uri;
}


/* the values are cached by index: nothing else must find them there */

static void
ngx_http_egress_forget(ngx_http_request_t *r)
{
    ngx_int_t                    *index;
    ngx_uint_t                    i;
    ngx_http_egress_main_conf_t  *emcf;

    emcf = ngx_http_get_module_main_conf(r, ngx_http_egress_module);

    index = emcf->variables.elts;

    for (i = 0; i < emcf->variables.nelts; i++) {
        r->variables[index[i]].valid = 0;
        r->variables[index[i]].not_found = 1;
        r->variables[index[i]].len = 0;
        r->variables[index[i]].data = NULL;
    }
}


/*
 * The buffer is empty when a request begins, so that the header is in its
 * first octets, whatever followed it.
 */

void
ngx_http_egress_wipe_connection(ngx_connection_t *c, size_t size)
{
#if (NGX_SSL)
    ngx_buf_t  *b;

    if (c->ssl == NULL || c->ssl->buf == NULL || c->ssl->buf->start == NULL) {
        return;
    }

    b = c->ssl->buf;

    ngx_explicit_memzero(b->start, ngx_min(size, (size_t) (b->end - b->start)));

    b->pos = b->start;
    b->last = b->start;
#endif
}
