
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Vectors of what the gateway reads before anything is decided: ClientHello
 * and CONNECT, whole and cut off at every octet, and addresses.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_address.h"
#include "ngx_egress_client_hello.h"
#include "ngx_egress_connect.h"
#include "vectors.h"


/* headers of a record and of a message, and legacy_version before it */
#define NGX_VECTORS_RANDOM  11


static ngx_int_t ngx_vectors_client_hello_prefix(ngx_str_t *in, size_t len,
    u_char *room, u_char *buf, ngx_egress_client_hello_t *hello);
static ngx_uint_t ngx_vectors_client_hello_same(ngx_egress_client_hello_t *a,
    ngx_egress_client_hello_t *b);

static ngx_int_t ngx_vectors_connect_want(ngx_vectors_t *v,
    ngx_egress_connect_t *connect);
static ngx_int_t ngx_vectors_connect_user(ngx_vectors_t *v, yajl_val want,
    ngx_egress_connect_t *connect);
static ngx_uint_t ngx_vectors_connect_has(ngx_vectors_t *v,
    const char *text);
static ngx_int_t ngx_vectors_connect_prefixes(ngx_vectors_t *v, ngx_str_t *in,
    ngx_int_t whole, size_t head);
static ngx_int_t ngx_vectors_connect_others(ngx_vectors_t *v, ngx_str_t *head);
static ngx_int_t ngx_vectors_connect_padded(ngx_str_t *head, size_t len,
    size_t cut);
static ngx_int_t ngx_vectors_connect_fields(ngx_str_t *head, ngx_uint_t n);
static ngx_int_t ngx_vectors_connect_parse(ngx_str_t *in);

static ngx_array_t *ngx_vectors_cidrs(yajl_val list);
static void ngx_vectors_cidr(char *text, ngx_cidr_t *cidr);
static sa_family_t ngx_vectors_inet(char *text, u_char *addr);


ngx_int_t
ngx_vectors_client_hello(ngx_vectors_t *v)
{
    char                       *verdict, *got, *sni;
    size_t                      n;
    u_char                     *room, *buf;
    yajl_val                    want;
    ngx_int_t                   rc, part, before;
    ngx_str_t                   in, name;
    ngx_egress_client_hello_t   hello, again;

    want = ngx_vectors_get(v->line, "want");
    verdict = ngx_vectors_string(want, "verdict");

    if (verdict == NULL || ngx_vectors_hex(v->line, "in_hex", &in) != NGX_OK) {
        ngx_vectors_die("a ClientHello vector lacks a field");
    }

    room = ngx_vectors_alloc(in.len);
    buf = ngx_vectors_alloc(NGX_EGRESS_CLIENT_HELLO_LEN);

    rc = ngx_vectors_client_hello_prefix(&in, in.len, room, buf, &hello);

    got = (rc == NGX_AGAIN) ? "need_more"
          : (rc == NGX_ERROR) ? "malformed"
          : (rc != NGX_OK) ? "another result code"
          : hello.sni ? "ok" : "no_sni";

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, verdict);

    if (strcmp(got, verdict) != 0) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK) {

        /* the random is at one place where the first record has it all */

        if ((in.data[3] << 8) + in.data[4]
            >= 6 + NGX_EGRESS_CLIENT_HELLO_RANDOM
            && memcmp(hello.random, in.data + NGX_VECTORS_RANDOM,
                      NGX_EGRESS_CLIENT_HELLO_RANDOM)
               != 0)
        {
            ngx_vectors_text(v->got, "another random");
            return NGX_ERROR;
        }

        sni = ngx_vectors_string(want, "sni");

        if (hello.sni) {
            name.data = hello.host.name;
            name.len = hello.host.len;
            ngx_vectors_show(v->got, "sni", &name);

            ngx_vectors_text(v->want, sni ? sni : "null");

            if (sni == NULL || strlen(sni) != name.len
                || memcmp(sni, name.data, name.len + 1) != 0)
            {
                return NGX_ERROR;
            }

        } else if (sni) {
            ngx_vectors_text(v->want, sni);
            return NGX_ERROR;
        }

        ngx_vectors_text(v->got, hello.ech ? "ech" : "no ech");
        ngx_vectors_text(v->want, YAJL_IS_TRUE(ngx_vectors_get(want, "ech"))
                                  ? "ech" : "no ech");

        if (strcmp((char *) v->got, (char *) v->want) != 0) {
            return NGX_ERROR;
        }
    }

    /* no prefix may have another answer, nor may an answer be taken back */

    before = NGX_AGAIN;

    for (n = 0; n < in.len; n++) {

        part = ngx_vectors_client_hello_prefix(&in, n, room, buf, &again);

        if ((part != NGX_AGAIN && part != rc)
            || (part == NGX_AGAIN && before != NGX_AGAIN)
            || (part == NGX_OK
                && !ngx_vectors_client_hello_same(&hello, &again)))
        {
            (void) snprintf((char *) v->got, NGX_VECTORS_TEXT,
                            "%ld for the first %lu octets",
                            (long) part, (unsigned long) n);
            (void) snprintf((char *) v->want, NGX_VECTORS_TEXT,
                            "%ld as for all, or need_more before",
                            (long) rc);
            return NGX_ERROR;
        }

        before = part;
    }

    return NGX_OK;
}


/* "room" is as long as "in": reads past the end of the prefix are caught */

static ngx_int_t
ngx_vectors_client_hello_prefix(ngx_str_t *in, size_t len, u_char *room,
    u_char *buf, ngx_egress_client_hello_t *hello)
{
    u_char     *p;
    ngx_int_t   rc;

    p = room + in->len - len;
    memcpy(p, in->data, len);

    ngx_memset(buf, 0xff, NGX_EGRESS_CLIENT_HELLO_LEN);
    ngx_memset(hello, 0xff, sizeof(ngx_egress_client_hello_t));

    rc = ngx_egress_client_hello_parse(p, len, buf, hello);

    if (memcmp(p, in->data, len) != 0) {
        ngx_vectors_die("a ClientHello was changed");
    }

    return rc;
}


static ngx_uint_t
ngx_vectors_client_hello_same(ngx_egress_client_hello_t *a,
    ngx_egress_client_hello_t *b)
{
    if (a->sni != b->sni || a->ech != b->ech
        || memcmp(a->random, b->random, NGX_EGRESS_CLIENT_HELLO_RANDOM) != 0)
    {
        return 0;
    }

    return !a->sni
           || (a->host.len == b->host.len
               && memcmp(a->host.name, b->host.name, a->host.len + 1) == 0);
}


ngx_int_t
ngx_vectors_connect(ngx_vectors_t *v)
{
    char                  *verdict, *got;
    u_char                *buf;
    yajl_val               want;
    ngx_int_t              rc;
    ngx_str_t              in, head;
    ngx_egress_connect_t   connect;

    want = ngx_vectors_get(v->line, "want");
    verdict = ngx_vectors_string(want, "verdict");

    if (verdict == NULL || ngx_vectors_bytes(v->line, "in", &in) != NGX_OK) {
        ngx_vectors_die("a CONNECT vector lacks a field");
    }

    buf = ngx_vectors_alloc(NGX_EGRESS_CONNECT_LEN);

    ngx_memset(&connect, 0xff, sizeof(ngx_egress_connect_t));

    rc = ngx_egress_connect_parse(in.data, in.len, buf, &connect);

    got = (rc == NGX_AGAIN) ? "need_more"
          : (rc == NGX_ERROR) ? "malformed"
          : (rc != NGX_OK) ? "another result code" : "ok";

    if (rc == NGX_OK && connect.user.data == NULL
        && YAJL_IS_TRUE(ngx_vectors_get(v->line, "require_auth")))
    {
        got = "auth_required";
    }

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, verdict);

    if (strcmp(got, verdict) != 0) {
        return NGX_ERROR;
    }

    if (rc != NGX_OK) {
        return ngx_vectors_connect_prefixes(v, &in, rc, 0);
    }

    if (ngx_vectors_connect_want(v, &connect) != NGX_OK) {
        return NGX_ERROR;
    }

    head.data = in.data;
    head.len = connect.len;

    if (ngx_vectors_connect_prefixes(v, &in, rc, head.len) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_vectors_connect_others(v, &head);
}


static ngx_int_t
ngx_vectors_connect_want(ngx_vectors_t *v, ngx_egress_connect_t *connect)
{
    char         *name;
    yajl_val      want, port, consumed;
    ngx_str_t     host;
    sa_family_t   family;
    u_char        addr[16];

    want = ngx_vectors_get(v->line, "want");
    name = ngx_vectors_string(want, "host");
    port = ngx_vectors_get(want, "port");
    consumed = ngx_vectors_get(want, "consumed");

    if (name == NULL || !YAJL_IS_INTEGER(port) || !YAJL_IS_INTEGER(consumed)) {
        ngx_vectors_die("a CONNECT vector lacks a wanted field");
    }

    host.data = connect->host.name;
    host.len = connect->host.len;
    ngx_vectors_show(v->got, "host", &host);

    host.data = (u_char *) name;
    host.len = strlen(name);
    ngx_vectors_show(v->want, "host", &host);

    family = AF_UNSPEC;

    if (YAJL_IS_TRUE(ngx_vectors_get(want, "ip"))) {

        family = ngx_vectors_inet(name, addr);

        if (memcmp(addr, connect->host.addr, (family == AF_INET) ? 4 : 16)
            != 0)
        {
            return NGX_ERROR;
        }

    } else if (connect->host.len != host.len
               || strcmp(name, (char *) connect->host.name) != 0)
    {
        return NGX_ERROR;
    }

    (void) snprintf((char *) v->got, NGX_VECTORS_TEXT,
                    "family %d port %d, %lu octets", connect->host.family,
                    connect->host.port, (unsigned long) connect->len);
    (void) snprintf((char *) v->want, NGX_VECTORS_TEXT,
                    "family %d port %d, %lu octets", family,
                    (int) YAJL_GET_INTEGER(port),
                    (unsigned long) YAJL_GET_INTEGER(consumed));

    if (strcmp((char *) v->got, (char *) v->want) != 0) {
        return NGX_ERROR;
    }

    return ngx_vectors_connect_user(v, want, connect);
}


static ngx_int_t
ngx_vectors_connect_user(ngx_vectors_t *v, yajl_val want,
    ngx_egress_connect_t *connect)
{
    ngx_str_t  user, token;

    ngx_vectors_text(v->got, "no user");
    ngx_vectors_text(v->want, "no user");

    if (connect->user.data) {
        ngx_vectors_show(v->got, "user", &connect->user);
    }

    if (connect->authorization
        != ngx_vectors_connect_has(v, "\nproxy-authorization:"))
    {
        ngx_vectors_text(v->want, "authorization set where it is there");
        return NGX_ERROR;
    }

    if (ngx_vectors_bytes(want, "user", &user) != NGX_OK) {
        return (connect->user.data == NULL && connect->token.data == NULL)
               ? NGX_OK : NGX_ERROR;
    }

    ngx_vectors_show(v->want, "user", &user);

    if (connect->user.data == NULL || !connect->authorization
        || !ngx_vectors_eq(&connect->user, &user))
    {
        return NGX_ERROR;
    }

    if (ngx_vectors_bytes(want, "token", &token) != NGX_OK) {
        ngx_vectors_die("a CONNECT vector has a user without a token");
    }

    ngx_vectors_show(v->got, "token", &connect->token);
    ngx_vectors_show(v->want, "token", &token);

    return ngx_vectors_eq(&connect->token, &token) ? NGX_OK : NGX_ERROR;
}


/* whether the head of the vector has a text, in any case */

static ngx_uint_t
ngx_vectors_connect_has(ngx_vectors_t *v, const char *text)
{
    size_t      i, len, head;
    yajl_val    want;
    ngx_str_t   in;

    want = ngx_vectors_get(v->line, "want");
    len = strlen(text);

    (void) ngx_vectors_bytes(v->line, "in", &in);

    head = (size_t) YAJL_GET_INTEGER(ngx_vectors_get(want, "consumed"));

    for (i = 0; i + len <= head && i + len <= in.len; i++) {
        if (strncasecmp((char *) in.data + i, text, len) == 0) {
            return 1;
        }
    }

    return 0;
}


/* "head" is the length of a head that is fine */

static ngx_int_t
ngx_vectors_connect_prefixes(ngx_vectors_t *v, ngx_str_t *in,
    ngx_int_t whole, size_t head)
{
    size_t      n;
    ngx_str_t   part;
    ngx_int_t   rc, before;

    before = NGX_AGAIN;

    for (n = 0; n < in->len; n++) {

        part.data = in->data;
        part.len = n;

        rc = ngx_vectors_connect_parse(&part);

        if ((rc != NGX_AGAIN && rc != whole)
            || (rc == NGX_AGAIN && before != NGX_AGAIN)
            || (whole == NGX_OK && (rc == NGX_OK) != (n >= head)))
        {
            (void) snprintf((char *) v->got, NGX_VECTORS_TEXT,
                            "%ld for the first %lu octets",
                            (long) rc, (unsigned long) n);
            (void) snprintf((char *) v->want, NGX_VECTORS_TEXT,
                            "%ld as for all, or need_more before",
                            (long) whole);
            return NGX_ERROR;
        }

        before = rc;
    }

    return NGX_OK;
}


/* what a head that is fine has to become to be refused, and the limits */

static ngx_int_t
ngx_vectors_connect_others(ngx_vectors_t *v, ngx_str_t *head)
{
    size_t     len;
    ngx_str_t  other;

    other = *head;
    ngx_vectors_exact(&other);

    memcpy(other.data, "OPTIONS", sizeof("OPTIONS") - 1);

    ngx_vectors_text(v->got, "another answer to OPTIONS");
    ngx_vectors_text(v->want, "declined");

    if (ngx_vectors_connect_parse(&other) != NGX_DECLINED) {
        return NGX_ERROR;
    }

    ngx_vectors_text(v->got, "another limit of the head's length");
    ngx_vectors_text(v->want, "16384 octets");

    len = NGX_EGRESS_CONNECT_LEN;

    if (ngx_vectors_connect_padded(head, len, len) != NGX_OK
        || ngx_vectors_connect_padded(head, len + 1, len - 1) != NGX_AGAIN
        || ngx_vectors_connect_padded(head, len + 1, len) != NGX_ERROR
        || ngx_vectors_connect_padded(head, len + 1, len + 1) != NGX_ERROR)
    {
        return NGX_ERROR;
    }

    ngx_vectors_text(v->got, "another limit of the number of fields");
    ngx_vectors_text(v->want, "100 fields");

    if (ngx_vectors_connect_fields(head, NGX_EGRESS_CONNECT_FIELDS) != NGX_OK
        || ngx_vectors_connect_fields(head, NGX_EGRESS_CONNECT_FIELDS + 1)
           != NGX_ERROR)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* one more field makes the head "len" octets long; "cut" of them have come */

static ngx_int_t
ngx_vectors_connect_padded(ngx_str_t *head, size_t len, size_t cut)
{
    u_char     *p;
    ngx_str_t   in;

    in.len = len;
    in.data = ngx_vectors_alloc(len);

    ngx_memset(in.data, 'a', len);
    p = ngx_cpymem(in.data, head->data, head->len - 2);
    memcpy(p, "X:", sizeof("X:") - 1);
    memcpy(in.data + len - 4, "\r\n\r\n", sizeof("\r\n\r\n") - 1);

    in.len = cut;

    return ngx_vectors_connect_parse(&in);
}


/* more fields make them "n" */

static ngx_int_t
ngx_vectors_connect_fields(ngx_str_t *head, ngx_uint_t n)
{
    size_t      i;
    u_char     *p;
    ngx_str_t   in;
    ngx_uint_t  lines;

    lines = 0;

    for (i = 0; i < head->len; i++) {
        lines += (head->data[i] == LF);
    }

    /* the request line and the empty one are no fields */

    n -= ngx_min(n, lines - 2);

    in.data = ngx_vectors_alloc(head->len + n * (sizeof("X:\r\n") - 1));

    p = ngx_cpymem(in.data, head->data, head->len - 2);

    while (n--) {
        p = ngx_cpymem(p, "X:\r\n", sizeof("X:\r\n") - 1);
    }

    p = ngx_cpymem(p, "\r\n", 2);
    in.len = p - in.data;

    return ngx_vectors_connect_parse(&in);
}


static ngx_int_t
ngx_vectors_connect_parse(ngx_str_t *in)
{
    u_char                *buf, *p;
    ngx_int_t              rc;
    ngx_egress_connect_t   connect;

    buf = malloc(NGX_EGRESS_CONNECT_LEN);
    p = malloc(in->len);

    if (buf == NULL || p == NULL) {
        ngx_vectors_die("no memory");
    }

    memcpy(p, in->data, in->len);
    ngx_memset(&connect, 0xff, sizeof(ngx_egress_connect_t));

    rc = ngx_egress_connect_parse(p, in->len, buf, &connect);

    if (memcmp(p, in->data, in->len) != 0) {
        ngx_vectors_die("a CONNECT was changed");
    }

    free(p);
    free(buf);

    return rc;
}


ngx_int_t
ngx_vectors_address(ngx_vectors_t *v)
{
    char         *text, *want;
    u_char       *addr;
    ngx_uint_t    rc;
    ngx_array_t  *allowed, *own;
    sa_family_t   family;

    static const char  *names[] = { "ok", "refused", "never" };

    text = ngx_vectors_string(v->line, "addr");
    want = ngx_vectors_string(v->line, "want");

    if (text == NULL || want == NULL) {
        ngx_vectors_die("an address vector lacks a field");
    }

    addr = ngx_vectors_alloc(strchr(text, ':') ? 16 : 4);
    family = ngx_vectors_inet(text, addr);

    allowed = ngx_vectors_cidrs(ngx_vectors_get(v->line, "allow_private"));
    own = ngx_vectors_cidrs(ngx_vectors_get(v->line, "own"));

    rc = ngx_egress_address_judge(family, addr, allowed, own);

    ngx_vectors_text(v->got, (rc <= NGX_EGRESS_ADDR_NEVER)
                             ? names[rc] : "another verdict");
    ngx_vectors_text(v->want, want);

    return (strcmp((char *) v->got, want) == 0) ? NGX_OK : NGX_ERROR;
}


static ngx_array_t *
ngx_vectors_cidrs(yajl_val list)
{
    char         *text;
    size_t        i, n;
    ngx_cidr_t   *cidrs;
    ngx_array_t  *array;

    if (list == NULL) {
        return NULL;
    }

    if (!YAJL_IS_ARRAY(list)) {
        ngx_vectors_die("an address vector has no list of ranges");
    }

    n = YAJL_GET_ARRAY(list)->len;

    cidrs = ngx_vectors_alloc(n * sizeof(ngx_cidr_t));
    array = ngx_vectors_alloc(sizeof(ngx_array_t));

    for (i = 0; i < n; i++) {
        text = YAJL_GET_STRING(YAJL_GET_ARRAY(list)->values[i]);

        if (text == NULL) {
            ngx_vectors_die("an address vector has a range that is no text");
        }

        ngx_vectors_cidr(text, &cidrs[i]);
    }

    array->elts = cidrs;
    array->nelts = n;
    array->size = sizeof(ngx_cidr_t);
    array->nalloc = n;
    array->pool = NULL;

    return array;
}


static void
ngx_vectors_cidr(char *text, ngx_cidr_t *cidr)
{
    char        *slash;
    ngx_uint_t   i, bits;
    u_char       addr[16], mask[16];

    slash = strchr(text, '/');

    if (slash) {
        *slash++ = '\0';
    }

    ngx_memzero(cidr, sizeof(ngx_cidr_t));
    ngx_memzero(mask, sizeof(mask));

    cidr->family = ngx_vectors_inet(text, addr);

    bits = (cidr->family == AF_INET) ? 32 : 128;

    if (slash) {
        bits = ngx_min(bits, (ngx_uint_t) atoi(slash));
    }

    for (i = 0; i < bits; i++) {
        mask[i / 8] |= 0x80 >> i % 8;
    }

    if (cidr->family == AF_INET) {
        memcpy(&cidr->u.in.addr, addr, 4);
        memcpy(&cidr->u.in.mask, mask, 4);

    } else {
        memcpy(&cidr->u.in6.addr, addr, 16);
        memcpy(&cidr->u.in6.mask, mask, 16);
    }
}


static sa_family_t
ngx_vectors_inet(char *text, u_char *addr)
{
    sa_family_t  family;

    family = strchr(text, ':') ? AF_INET6 : AF_INET;

    if (inet_pton(family, text, addr) != 1) {
        ngx_vectors_die("a vector has an address that is none");
    }

    return family;
}
