
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: an octet that tells what is replaced, an octet that tells the length
 * of the secret, then the value of the field.
 */


#include "fuzz.h"
#include "ngx_egress_authorization.h"


#define FUZZ_USER      0x01
#define FUZZ_PASSWORD  0x02
#define FUZZ_AFFIXES   4


static void fuzz_authorization_parse(ngx_str_t *value, ngx_str_t *prefix,
    ngx_str_t *suffix, ngx_uint_t user, ngx_uint_t password,
    ngx_str_t *secret);
static void fuzz_authorization_check(ngx_str_t *value, ngx_str_t *decoded,
    ngx_egress_authorization_t *auth);
static void fuzz_authorization_build(ngx_egress_authorization_t *auth,
    ngx_uint_t user, ngx_uint_t password, ngx_str_t *secret, ngx_str_t *out);
static void fuzz_authorization_basic(ngx_egress_authorization_t *auth,
    ngx_uint_t user, ngx_uint_t password, ngx_str_t *secret, ngx_str_t *out);
static ngx_uint_t fuzz_authorization_control(ngx_str_t *value);


static struct {
    ngx_str_t  prefix;
    ngx_str_t  suffix;
} fuzz_authorization_affixes[FUZZ_AFFIXES] = {
    { ngx_null_string, ngx_null_string },
    { ngx_string("tok="), ngx_string(";v=1") },
    { ngx_string("GenieKey "), ngx_null_string },
    { ngx_string("tok="), ngx_string("=;v=1") }
};


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_str_t    value, secret;
    ngx_uint_t   i, user, password;

    if (size < 2) {
        return 0;
    }

    user = (data[0] & FUZZ_USER) != 0;
    password = (data[0] & FUZZ_PASSWORD) != 0;

    secret.len = data[1];
    secret.data = fuzz_alloc(secret.len);
    memset(secret.data, 's', secret.len);

    fuzz_copy(&value, data + 2, size - 2);

    fuzz_authorization_parse(&value, NULL, NULL, user, password, &secret);

    for (i = 0; i < FUZZ_AFFIXES; i++) {
        fuzz_authorization_parse(&value,
                                 &fuzz_authorization_affixes[i].prefix,
                                 &fuzz_authorization_affixes[i].suffix,
                                 user, password, &secret);
    }

    fuzz_require(value.len == 0
                 || memcmp(value.data, data + 2, value.len) == 0);

    free(value.data);
    free(secret.data);

    return 0;
}


static void
fuzz_authorization_parse(ngx_str_t *value, ngx_str_t *prefix,
    ngx_str_t *suffix, ngx_uint_t user, ngx_uint_t password,
    ngx_str_t *secret)
{
    ngx_int_t                    rc;
    ngx_str_t                    decoded, out;
    ngx_egress_authorization_t   auth;

    decoded.len = value->len;
    decoded.data = fuzz_alloc(decoded.len);

    memset(&auth, 0xff, sizeof(ngx_egress_authorization_t));

    if (prefix) {
        rc = ngx_egress_authorization_parse_affixed(value, prefix, suffix,
                                                    &auth);

    } else {
        rc = ngx_egress_authorization_parse(value, decoded.data, &auth);
    }

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED || rc == NGX_ERROR);
    fuzz_require((rc == NGX_ERROR) == fuzz_authorization_control(value));

    if (rc == NGX_OK) {
        fuzz_authorization_check(value, &decoded, &auth);
        fuzz_authorization_build(&auth, user, password, secret, &out);

        if (auth.form == NGX_EGRESS_AUTH_BASIC) {
            fuzz_authorization_basic(&auth, user, password, secret, &out);
        }

        free(out.data);
    }

    free(decoded.data);
}


static void
fuzz_authorization_check(ngx_str_t *value, ngx_str_t *decoded,
    ngx_egress_authorization_t *auth)
{
    size_t     i;
    ngx_str_t  out;

    switch (auth->form) {

    case NGX_EGRESS_AUTH_NONE:
        fuzz_require(value->len == 0);
        break;

    case NGX_EGRESS_AUTH_PLAIN:
        fuzz_require(auth->token.len);
        fuzz_require(fuzz_inside(&auth->head, value));
        fuzz_require(fuzz_inside(&auth->token, value));
        fuzz_require(fuzz_inside(&auth->tail, value));

        /* the token in its own place leaves the value as it was */

        fuzz_authorization_build(auth, 0, 0, &auth->token, &out);
        fuzz_require(fuzz_eq(&out, value));
        free(out.data);
        break;

    case NGX_EGRESS_AUTH_BASIC:
        fuzz_require(fuzz_inside(&auth->head, value));
        fuzz_require(fuzz_inside(&auth->user, decoded));
        fuzz_require(fuzz_inside(&auth->password, decoded));
        fuzz_require(auth->token.len == 0 && auth->tail.len == 0);

        for (i = 0; i < auth->user.len; i++) {
            fuzz_require(auth->user.data[i] != ':');
        }

        /* nothing replaced: the value with complete padding */

        fuzz_authorization_build(auth, 0, 0, &auth->token, &out);

        fuzz_require(out.len >= value->len && out.len - value->len < 3);
        fuzz_require(memcmp(out.data, value->data, value->len) == 0);

        for (i = value->len; i < out.len; i++) {
            fuzz_require(out.data[i] == '=');
        }

        free(out.data);
        break;

    default:
        __builtin_trap();
    }
}


/* what is announced is what is written; "out" is to be freed */

static void
fuzz_authorization_build(ngx_egress_authorization_t *auth, ngx_uint_t user,
    ngx_uint_t password, ngx_str_t *secret, ngx_str_t *out)
{
    u_char  *end, *scratch;

    out->len = ngx_egress_authorization_len(auth, user, password, secret);
    out->data = fuzz_alloc(out->len);

    scratch = fuzz_alloc(auth->user.len + auth->password.len
                         + 2 * secret->len + 1);

    end = ngx_egress_authorization_build(out->data, auth, user, password,
                                         secret, scratch);

    fuzz_require(end == out->data + out->len);

    free(scratch);
}


/* what was built has the parts that it was built of */

static void
fuzz_authorization_basic(ngx_egress_authorization_t *auth, ngx_uint_t user,
    ngx_uint_t password, ngx_str_t *secret, ngx_str_t *out)
{
    u_char                      *buf;
    ngx_egress_authorization_t   again;

    buf = fuzz_alloc(out->len);

    fuzz_require(ngx_egress_authorization_parse(out, buf, &again) == NGX_OK);
    fuzz_require(again.form == NGX_EGRESS_AUTH_BASIC);
    fuzz_require(fuzz_eq(&again.head, &auth->head));
    fuzz_require(fuzz_eq(&again.user, user ? secret : &auth->user));
    fuzz_require(fuzz_eq(&again.password,
                         password ? secret : &auth->password));

    free(buf);
}


static ngx_uint_t
fuzz_authorization_control(ngx_str_t *value)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < value->len; i++) {
        c = value->data[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return 1;
        }
    }

    return 0;
}
