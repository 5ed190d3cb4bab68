
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Vectors of SOCKS5: a server as small as can be around the three parsers, in
 * a dialogue with the client of the vector.  Each dialogue is held twice, in
 * the segments of the vector and octet by octet.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <regex.h>
#include "ngx_egress_socks5.h"
#include "vectors.h"


#define NGX_VECTORS_SOCKS5_IN    4096
#define NGX_VECTORS_SOCKS5_OUT   256

#define NGX_VECTORS_NOT_ZERO     "(?!00)"


typedef enum {
    ngx_vectors_methods = 0,
    ngx_vectors_password,
    ngx_vectors_request,
    ngx_vectors_closed
} ngx_vectors_socks5_e;


typedef struct {
    ngx_vectors_socks5_e   state;
    yajl_val               users;
    ngx_uint_t             require_auth;
    ngx_uint_t             octets;      /* fed one by one */
    size_t                 len;
    u_char                 in[NGX_VECTORS_SOCKS5_IN];
    size_t                 hex;
    char                   out[NGX_VECTORS_SOCKS5_OUT];
    char                  *verdict;
    ngx_str_t              user;
    ngx_egress_socks5_t    socks;
} ngx_vectors_socks5_t;


static ngx_int_t ngx_vectors_socks5_dialogue(ngx_vectors_t *v,
    yajl_val dialogue, ngx_vectors_socks5_t *s);
static ngx_int_t ngx_vectors_socks5_answer(ngx_vectors_t *v, char *regex,
    ngx_vectors_socks5_t *s);
static ngx_uint_t ngx_vectors_socks5_match(char *regex, char *text);
static ngx_int_t ngx_vectors_socks5_want(ngx_vectors_t *v,
    ngx_vectors_socks5_t *s);
static void ngx_vectors_socks5_feed(ngx_vectors_socks5_t *s, u_char *p,
    size_t len);
static ngx_int_t ngx_vectors_socks5_step(ngx_vectors_socks5_t *s);
static void ngx_vectors_socks5_method(ngx_vectors_socks5_t *s);
static void ngx_vectors_socks5_user(ngx_vectors_socks5_t *s);
static void ngx_vectors_socks5_error(ngx_vectors_socks5_t *s);
static void ngx_vectors_socks5_say(ngx_vectors_socks5_t *s, u_char a,
    u_char b);
static void ngx_vectors_socks5_reply(ngx_vectors_socks5_t *s, u_char reply);
static void ngx_vectors_socks5_close(ngx_vectors_socks5_t *s, char *verdict);


ngx_int_t
ngx_vectors_socks5(ngx_vectors_t *v)
{
    char                  *verdict;
    yajl_val               want, dialogue;
    ngx_uint_t             i;
    ngx_vectors_socks5_t   s;

    want = ngx_vectors_get(v->line, "want");
    dialogue = ngx_vectors_get(v->line, "dialogue");
    verdict = ngx_vectors_string(want, "verdict");

    if (verdict == NULL || !YAJL_IS_ARRAY(dialogue)) {
        ngx_vectors_die("a SOCKS5 vector lacks a field");
    }

    for (i = 0; i < 2; i++) {

        ngx_memzero(&s, sizeof(ngx_vectors_socks5_t));

        s.users = ngx_vectors_get(v->line, "users");
        s.octets = i;
        s.require_auth = YAJL_IS_TRUE(ngx_vectors_get(v->line,
                                                      "require_auth"));
        s.verdict = "need_more";

        if (!YAJL_IS_OBJECT(s.users)) {
            ngx_vectors_die("a SOCKS5 vector has no users");
        }

        if (ngx_vectors_socks5_dialogue(v, dialogue, &s) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_vectors_text(v->got, s.verdict);
        ngx_vectors_text(v->want, verdict);

        if (strcmp(s.verdict, verdict) != 0) {
            return NGX_ERROR;
        }

        if (strcmp(verdict, "ok") == 0
            && ngx_vectors_socks5_want(v, &s) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_vectors_socks5_dialogue(ngx_vectors_t *v, yajl_val dialogue,
    ngx_vectors_socks5_t *s)
{
    size_t     i, k;
    yajl_val   step;
    ngx_str_t  in;

    for (i = 0; i < YAJL_GET_ARRAY(dialogue)->len; i++) {

        step = YAJL_GET_ARRAY(dialogue)->values[i];

        if (ngx_vectors_hex(step, "client", &in) != NGX_OK) {

            if (ngx_vectors_get(step, "server") == NULL) {
                ngx_vectors_die("a SOCKS5 vector has a step of nobody");
            }

            if (ngx_vectors_socks5_answer(v, ngx_vectors_string(step,
                                                                "server"), s)
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            continue;
        }

        if (!s->octets) {
            ngx_vectors_socks5_feed(s, in.data, in.len);
            continue;
        }

        for (k = 0; k < in.len; k++) {
            ngx_vectors_socks5_feed(s, in.data + k, 1);
        }
    }

    /* nothing is said that the vector does not have */

    ngx_vectors_text(v->got, s->out);
    ngx_vectors_text(v->want, "nothing more");

    return (s->hex == 0) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_vectors_socks5_answer(ngx_vectors_t *v, char *regex,
    ngx_vectors_socks5_t *s)
{
    ngx_uint_t  ok;

    ngx_vectors_text(v->got, s->hex ? s->out : "nothing");

    if (regex == NULL) {
        ngx_vectors_text(v->want, "closed without a word");
        ok = (s->state == ngx_vectors_closed && s->hex == 0);

    } else {
        ngx_vectors_text(v->want, regex);
        ok = ngx_vectors_socks5_match(regex, s->out);
    }

    s->hex = 0;
    s->out[0] = '\0';

    return ok ? NGX_OK : NGX_ERROR;
}


/* a look ahead for two digits other than 00 becomes these two digits */

static ngx_uint_t
ngx_vectors_socks5_match(char *regex, char *text)
{
    int      rc;
    char    *p, *tail;
    regex_t  re;
    char     pattern[NGX_VECTORS_TEXT];

    p = strstr(regex, NGX_VECTORS_NOT_ZERO);

    if (p) {
        tail = p + sizeof(NGX_VECTORS_NOT_ZERO) - 1;

        if (strncmp(tail, "..", 2) == 0) {
            tail += 2;

        } else if (*tail) {
            ngx_vectors_die("a SOCKS5 vector looks ahead in another way");
        }

        (void) snprintf(pattern, sizeof(pattern), "%.*s([^0].|0[^0])%s",
                        (int) (p - regex), regex, tail);

    } else {
        (void) snprintf(pattern, sizeof(pattern), "%s", regex);
    }

    if (regcomp(&re, pattern, REG_EXTENDED|REG_NOSUB) != 0) {
        ngx_vectors_die("a SOCKS5 vector has a bad regular expression");
    }

    rc = regexec(&re, text, 0, NULL, 0);

    regfree(&re);

    return rc == 0;
}


static ngx_int_t
ngx_vectors_socks5_want(ngx_vectors_t *v, ngx_vectors_socks5_t *s)
{
    char               *name;
    yajl_val            want, port;
    ngx_str_t           user;
    sa_family_t         family;
    ngx_egress_host_t  *host;
    u_char              addr[16];

    want = ngx_vectors_get(v->line, "want");
    name = ngx_vectors_string(want, "host");
    port = ngx_vectors_get(want, "port");
    host = &s->socks.host;

    if (name == NULL || !YAJL_IS_INTEGER(port)) {
        ngx_vectors_die("a SOCKS5 vector lacks a wanted field");
    }

    family = AF_UNSPEC;

    if (YAJL_IS_TRUE(ngx_vectors_get(want, "ip"))) {

        family = strchr(name, ':') ? AF_INET6 : AF_INET;

        if (inet_pton(family, name, addr) != 1) {
            ngx_vectors_die("a SOCKS5 vector wants no address");
        }

        if (memcmp(addr, host->addr, (family == AF_INET) ? 4 : 16) != 0) {
            ngx_vectors_text(v->got, "another address");
            ngx_vectors_text(v->want, name);
            return NGX_ERROR;
        }
    }

    /* one spelling of an address is the canonical one: that of the vectors */

    (void) snprintf((char *) v->got, NGX_VECTORS_TEXT, "%s family %d port %d",
                    (char *) host->name, host->family, host->port);
    (void) snprintf((char *) v->want, NGX_VECTORS_TEXT, "%s family %d port %d",
                    name, family, (int) YAJL_GET_INTEGER(port));

    if (strcmp((char *) v->got, (char *) v->want) != 0
        || host->len != strlen(name))
    {
        return NGX_ERROR;
    }

    ngx_vectors_show(v->got, s->user.data ? "user" : "no user", &s->user);

    if (ngx_vectors_bytes(want, "user", &user) != NGX_OK) {
        ngx_vectors_text(v->want, "no user");
        return (s->user.data == NULL) ? NGX_OK : NGX_ERROR;
    }

    ngx_vectors_show(v->want, "user", &user);

    return (s->user.data && ngx_vectors_eq(&s->user, &user))
           ? NGX_OK : NGX_ERROR;
}


static void
ngx_vectors_socks5_feed(ngx_vectors_socks5_t *s, u_char *p, size_t len)
{
    if (s->state == ngx_vectors_closed) {
        return;
    }

    if (len > sizeof(s->in) - s->len) {
        ngx_vectors_die("a SOCKS5 vector is too long");
    }

    ngx_memcpy(s->in + s->len, p, len);
    s->len += len;

    while (s->state != ngx_vectors_closed
           && ngx_vectors_socks5_step(s) == NGX_OK)
    {
        /* void */
    }
}


static ngx_int_t
ngx_vectors_socks5_step(ngx_vectors_socks5_t *s)
{
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   in;

    in.data = s->in;
    in.len = s->len;
    ngx_vectors_exact(&in);

    p = in.data;

    ngx_memset(&s->socks, 0xff, sizeof(ngx_egress_socks5_t));

    switch (s->state) {

    case ngx_vectors_methods:
        rc = ngx_egress_socks5_methods(p, in.len, &s->socks);
        break;

    case ngx_vectors_password:
        rc = ngx_egress_socks5_password(p, in.len, &s->socks);
        break;

    default:
        rc = ngx_egress_socks5_request(p, in.len, &s->socks);
        break;
    }

    if (memcmp(p, s->in, in.len) != 0) {
        ngx_vectors_die("a SOCKS5 message was changed");
    }

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc != NGX_OK) {
        ngx_vectors_socks5_error(s);
        return NGX_OK;
    }

    /* a message that came octet by octet ends with the last of them */

    if (s->socks.len > s->len || (s->octets && s->socks.len != s->len)) {
        ngx_vectors_socks5_close(s, "another length of a message");
        return NGX_OK;
    }

    switch (s->state) {

    case ngx_vectors_methods:
        ngx_vectors_socks5_method(s);
        break;

    case ngx_vectors_password:
        ngx_vectors_socks5_user(s);
        break;

    default:
        ngx_vectors_socks5_reply(s, NGX_EGRESS_SOCKS5_SUCCEEDED);
        ngx_vectors_socks5_close(s, "ok");
        break;
    }

    s->len -= s->socks.len;
    ngx_memmove(s->in, s->in + s->socks.len, s->len);

    return NGX_OK;
}


static void
ngx_vectors_socks5_method(ngx_vectors_socks5_t *s)
{
    if (s->socks.password && YAJL_GET_OBJECT(s->users)->len) {
        ngx_vectors_socks5_say(s, NGX_EGRESS_SOCKS5_VERSION,
                               NGX_EGRESS_SOCKS5_PASSWORD);
        s->state = ngx_vectors_password;

    } else if (s->socks.none && !s->require_auth) {
        ngx_vectors_socks5_say(s, NGX_EGRESS_SOCKS5_VERSION,
                               NGX_EGRESS_SOCKS5_NONE);
        s->state = ngx_vectors_request;

    } else {
        ngx_vectors_socks5_say(s, NGX_EGRESS_SOCKS5_VERSION,
                               NGX_EGRESS_SOCKS5_NO_METHOD);
        ngx_vectors_socks5_close(s, "refused");
    }
}


static void
ngx_vectors_socks5_user(ngx_vectors_socks5_t *s)
{
    char       *token;
    size_t      i;
    ngx_str_t   name, value;

    for (i = 0; i < YAJL_GET_OBJECT(s->users)->len; i++) {

        name.data = (u_char *) YAJL_GET_OBJECT(s->users)->keys[i];
        name.len = strlen((char *) name.data);

        token = YAJL_GET_STRING(YAJL_GET_OBJECT(s->users)->values[i]);

        if (token == NULL) {
            ngx_vectors_die("a SOCKS5 vector has a user without a token");
        }

        value.data = (u_char *) token;
        value.len = strlen(token);

        if (ngx_vectors_eq(&name, &s->socks.user)
            && ngx_vectors_eq(&value, &s->socks.token))
        {
            s->user = name;
            s->state = ngx_vectors_request;
            ngx_vectors_socks5_say(s, NGX_EGRESS_SOCKS5_AUTH_VERSION, 0);
            return;
        }
    }

    ngx_vectors_socks5_say(s, NGX_EGRESS_SOCKS5_AUTH_VERSION, 1);
    ngx_vectors_socks5_close(s, "refused");
}


static void
ngx_vectors_socks5_error(ngx_vectors_socks5_t *s)
{
    switch (s->socks.reply) {

    case 0:
        ngx_vectors_socks5_close(s, "malformed");
        break;

    case NGX_EGRESS_SOCKS5_NO_COMMAND:
    case NGX_EGRESS_SOCKS5_NO_ADDRESS:
        ngx_vectors_socks5_reply(s, (u_char) s->socks.reply);
        ngx_vectors_socks5_close(s, "refused");
        break;

    case NGX_EGRESS_SOCKS5_FAILURE:
        ngx_vectors_socks5_reply(s, (u_char) s->socks.reply);
        ngx_vectors_socks5_close(s, "malformed");
        break;

    default:
        ngx_vectors_socks5_close(s, "another reply");
    }
}


static void
ngx_vectors_socks5_say(ngx_vectors_socks5_t *s, u_char a, u_char b)
{
    if (s->hex + sizeof("ffff") > sizeof(s->out)) {
        ngx_vectors_die("the SOCKS5 server says too much");
    }

    s->hex += snprintf(s->out + s->hex, sizeof("ffff"), "%02x%02x", a, b);
}


/* the address that is bound is of no use to clients: 0.0.0.0:0 */

static void
ngx_vectors_socks5_reply(ngx_vectors_socks5_t *s, u_char reply)
{
    ngx_vectors_socks5_say(s, NGX_EGRESS_SOCKS5_VERSION, reply);
    ngx_vectors_socks5_say(s, 0, 1);
    ngx_vectors_socks5_say(s, 0, 0);
    ngx_vectors_socks5_say(s, 0, 0);
    ngx_vectors_socks5_say(s, 0, 0);
}


static void
ngx_vectors_socks5_close(ngx_vectors_socks5_t *s, char *verdict)
{
    s->state = ngx_vectors_closed;
    s->verdict = verdict;
}
