
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_git.h"
#include "ngx_egress_oci_scope.h"


#define NGX_EGRESS_OCI_NONE     0
#define NGX_EGRESS_OCI_SCOPE    1
#define NGX_EGRESS_OCI_OFFLINE  2
#define NGX_EGRESS_OCI_ACCESS   3


static ngx_int_t ngx_egress_oci_parameter(u_char *p, u_char *last,
    u_char *buf, ngx_egress_body_t *b);
static ngx_int_t ngx_egress_oci_decode(u_char *p, u_char *last, u_char *buf,
    ngx_str_t *out);
static ngx_int_t ngx_egress_oci_hex(u_char c);
static ngx_int_t ngx_egress_oci_key(u_char *p, size_t len, ngx_str_t *key);
static ngx_uint_t ngx_egress_oci_same(u_char *p, u_char *name, size_t len);
static ngx_int_t ngx_egress_oci_scopes(ngx_str_t *value,
    ngx_egress_body_t *b);
static ngx_int_t ngx_egress_oci_one(u_char *p, u_char *last,
    ngx_egress_body_t *b);
static ngx_uint_t ngx_egress_oci_is_repository(u_char *p, size_t len);
static ngx_int_t ngx_egress_oci_name(u_char *p, u_char *last);
static void ngx_egress_oci_repo(u_char *p, u_char *last,
    ngx_egress_body_t *b);
static void ngx_egress_oci_operation(u_char *p, u_char *last,
    ngx_egress_body_t *b);
static ngx_uint_t ngx_egress_oci_is(ngx_str_t *value, const char *text);


/* in the order of NGX_EGRESS_OCI_... */

static ngx_str_t  ngx_egress_oci_keys[] = {
    ngx_string("scope"),
    ngx_string("offline_token"),
    ngx_string("access_type"),
    ngx_null_string
};


ngx_int_t
ngx_egress_oci_scope(ngx_str_t *query, u_char *buf, ngx_egress_body_t *b)
{
    u_char  *p, *last, *next;

    ngx_memzero(b, sizeof(ngx_egress_body_t));

    b->class = NGX_EGRESS_READ;

    b->operation_len = sizeof("token") - 1;
    ngx_memcpy(b->operation, "token", sizeof("token") - 1);

    if (query->len == 0) {
        return NGX_OK;
    }

    last = query->data + query->len;

    for (p = query->data; p <= last; p = next + 1) {

        /* some servers end a parameter at ";" */

        for (next = p; next < last && *next != '&'; next++) {
            if (*next == ';') {
                return NGX_DECLINED;
            }
        }

        if (ngx_egress_oci_parameter(p, next, buf, b) != NGX_OK) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_oci_parameter(u_char *p, u_char *last, u_char *buf,
    ngx_egress_body_t *b)
{
    u_char     *eq;
    ngx_int_t   key;
    ngx_str_t   name, value;

    for (eq = p; eq < last && *eq != '='; eq++) { /* void */ }

    if (ngx_egress_oci_decode(p, eq, buf, &name) != NGX_OK) {
        return NGX_DECLINED;
    }

    key = ngx_egress_oci_key(p, eq - p, &name);

    if (key == NGX_DECLINED) {
        return NGX_DECLINED;
    }

    if (ngx_egress_oci_decode(eq < last ? eq + 1 : last, last, buf, &value)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    switch (key) {

    case NGX_EGRESS_OCI_SCOPE:
        return ngx_egress_oci_scopes(&value, b);

    case NGX_EGRESS_OCI_OFFLINE:

        if (value.len && !ngx_egress_oci_is(&value, "false")) {
            b->class = NGX_EGRESS_WRITE;
        }

        return NGX_OK;

    case NGX_EGRESS_OCI_ACCESS:

        if (value.len && !ngx_egress_oci_is(&value, "online")) {
            b->class = NGX_EGRESS_WRITE;
        }

        return NGX_OK;

    default: /* NGX_EGRESS_OCI_NONE */
        return NGX_OK;
    }
}


/* a form as WHATWG has it: "+" is a space */

static ngx_int_t
ngx_egress_oci_decode(u_char *p, u_char *last, u_char *buf, ngx_str_t *out)
{
    ngx_int_t  high, low;

    out->data = buf;

    for ( /* void */ ; p < last; p++) {

        if (*p == '+') {
            *buf++ = ' ';
            continue;
        }

        if (*p != '%') {
            *buf++ = *p;
            continue;
        }

        if (last - p < 3) {
            return NGX_DECLINED;
        }

        high = ngx_egress_oci_hex(p[1]);
        low = ngx_egress_oci_hex(p[2]);

        if (high == NGX_ERROR || low == NGX_ERROR) {
            return NGX_DECLINED;
        }

        *buf++ = (u_char) (high * 16 + low);
        p += 2;
    }

    out->len = buf - out->data;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_oci_hex(u_char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    c |= 0x20;

    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }

    return NGX_ERROR;
}


/*
 * Which of the decisive keys it is.  One that only some servers would take for
 * it can't be told: in another case, encoded, with spaces, or as an element of
 * an array.
 */

static ngx_int_t
ngx_egress_oci_key(u_char *p, size_t len, ngx_str_t *key)
{
    size_t       i, n;
    ngx_str_t   *name;
    ngx_uint_t   k;

    /* what stands before and behind a name of letters and "_" */

    for (i = 0; i < key->len; i++) {
        if (key->data[i] > ' ') {
            break;
        }
    }

    for (k = 0; ngx_egress_oci_keys[k].len; k++) {
        name = &ngx_egress_oci_keys[k];
        n = name->len;

        if (key->len - i < n
            || !ngx_egress_oci_same(key->data + i, name->data, n))
        {
            continue;
        }

        if (len == n && ngx_memcmp(p, name->data, n) == 0) {
            return k + 1;
        }

        if (key->len - i == n || key->data[i + n] <= ' '
            || key->data[i + n] == '[' || key->data[i + n] == '.')
        {
            return NGX_DECLINED;
        }
    }

    return NGX_EGRESS_OCI_NONE;
}


/* in any case; the name is in small letters */

static ngx_uint_t
ngx_egress_oci_same(u_char *p, u_char *name, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (ngx_tolower(p[i]) != name[i]) {
            return 0;
        }
    }

    return 1;
}


/* one scope, or several with spaces between them */

static ngx_int_t
ngx_egress_oci_scopes(ngx_str_t *value, ngx_egress_body_t *b)
{
    u_char  *p, *last, *next;

    last = value->data + value->len;

    for (p = value->data; p < last; p = next + 1) {

        for (next = p; next < last && *next != ' '; next++) {
            if (*next < 0x21 || *next > 0x7e) {
                return NGX_DECLINED;
            }
        }

        if (next == p) {
            continue;
        }

        if (b->operation_len == sizeof("token") - 1) {
            ngx_egress_oci_operation(p, next, b);
        }

        if (ngx_egress_oci_one(p, next, b) != NGX_OK) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/* "repository:name:pull"; in the name there may be a port */

static ngx_int_t
ngx_egress_oci_one(u_char *p, u_char *last, ngx_egress_body_t *b)
{
    u_char  *name, *actions;

    for (name = p; name < last && *name != ':'; name++) { /* void */ }

    for (actions = last - 1; actions > name && *actions != ':'; actions--) {
        /* void */
    }

    if (actions <= name) {
        return NGX_DECLINED;
    }

    if (last - actions != sizeof(":pull") - 1
        || ngx_memcmp(actions, ":pull", sizeof(":pull") - 1) != 0
        || !ngx_egress_oci_is_repository(p, name - p))
    {
        b->class = NGX_EGRESS_WRITE;
        return NGX_OK;
    }

    name++;

    if (ngx_egress_oci_name(name, actions) != NGX_OK) {
        return NGX_DECLINED;
    }

    ngx_egress_oci_repo(name, actions, b);

    return NGX_OK;
}


/* with a class, "repository(plugin)", it is the same repository */

static ngx_uint_t
ngx_egress_oci_is_repository(u_char *p, size_t len)
{
    size_t  i;

    i = sizeof("repository") - 1;

    if (len < i || ngx_memcmp(p, "repository", i) != 0) {
        return 0;
    }

    if (len == i) {
        return 1;
    }

    if (len < i + 3 || p[i] != '(' || p[len - 1] != ')') {
        return 0;
    }

    for (i++; i < len - 1; i++) {
        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= '0' && p[i] <= '9'))) {
            return 0;
        }
    }

    return 1;
}


/*
 * A colon is that of a port, in front of the first "/": to a server that ends
 * the name at the first colon what follows would be actions.
 */

static ngx_int_t
ngx_egress_oci_name(u_char *p, u_char *last)
{
    u_char      c;
    ngx_uint_t  port, digits, slash;

    if (p == last) {
        return NGX_DECLINED;
    }

    port = 0;
    digits = 0;
    slash = 0;

    for ( /* void */ ; p < last; p++) {

        c = *p;

        if (c == ':') {

            if (port || slash) {
                return NGX_DECLINED;
            }

            port = 1;
            continue;
        }

        if (port && !slash) {

            if (c >= '0' && c <= '9') {
                digits = 1;

            } else if (c != '/' || !digits) {
                return NGX_DECLINED;
            }
        }

        if (c == '/') {
            slash = 1;
            continue;
        }

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
              || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
        {
            return NGX_DECLINED;
        }
    }

    return (port && !slash) ? NGX_DECLINED : NGX_OK;
}


static void
ngx_egress_oci_repo(u_char *p, u_char *last, ngx_egress_body_t *b)
{
    u_char                  *slash;
    size_t                   owner, name;
    ngx_egress_body_repo_t  *repo;

    for (slash = last - 1; slash > p && *slash != '/'; slash--) { /* void */ }

    owner = slash - p;
    name = last - slash - (*slash == '/');

    if (b->nrepos == NGX_EGRESS_GRAPHQL_REPOS
        || owner > NGX_EGRESS_GRAPHQL_NAME || name > NGX_EGRESS_GRAPHQL_NAME)
    {
        b->root_unknown = 1;
        return;
    }

    repo = &b->repos[b->nrepos++];

    repo->owner_len = owner;
    repo->name_len = name;

    ngx_memcpy(repo->owner, p, owner);
    ngx_memcpy(repo->name, last - name, name);
}


static void
ngx_egress_oci_operation(u_char *p, u_char *last, ngx_egress_body_t *b)
{
    size_t  len;

    b->operation[b->operation_len++] = ' ';

    len = ngx_min((size_t) (last - p),
                  NGX_EGRESS_BODY_OPERATION - b->operation_len);

    ngx_memcpy(b->operation + b->operation_len, p, len);

    b->operation_len += len;
}


static ngx_uint_t
ngx_egress_oci_is(ngx_str_t *value, const char *text)
{
    return value->len == ngx_strlen(text)
           && ngx_memcmp(value->data, text, value->len) == 0;
}
