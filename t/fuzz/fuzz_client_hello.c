
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: an octet that tells where the input is cut off, an octet that tells
 * the length of other records, then the octets of a connection.
 */


#include "fuzz.h"
#include "ngx_egress_client_hello.h"


#define FUZZ_RECORD_HEADER  5
#define FUZZ_RECORD_LEN     16384


static ngx_int_t fuzz_client_hello_parse(const uint8_t *data, size_t size,
    ngx_egress_client_hello_t *hello);
static ngx_int_t fuzz_client_hello_records(const uint8_t *data, size_t size,
    ngx_str_t *message);
static void fuzz_client_hello_check(ngx_str_t *message,
    ngx_egress_client_hello_t *hello);
static void fuzz_client_hello_split(ngx_str_t *message, size_t record,
    ngx_int_t rc, ngx_egress_client_hello_t *hello);
static void fuzz_client_hello_same(ngx_egress_client_hello_t *a,
    ngx_egress_client_hello_t *b);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t                      cut, record;
    ngx_int_t                   rc, part, records;
    ngx_str_t                   message;
    ngx_egress_client_hello_t   hello, other;

    if (size < 2) {
        return 0;
    }

    cut = data[0];
    record = data[1] + 1;
    data += 2;
    size -= 2;

    rc = fuzz_client_hello_parse(data, size, &hello);

    /* the octets that are cut off change no answer, they only delay it */

    part = fuzz_client_hello_parse(data, size * cut / 256, &other);

    fuzz_require(part == NGX_AGAIN || part == rc);

    if (part == NGX_OK) {
        fuzz_client_hello_same(&hello, &other);
    }

    message.len = 0;
    message.data = fuzz_alloc(NGX_EGRESS_CLIENT_HELLO_LEN);

    records = fuzz_client_hello_records(data, size, &message);

    if (records == NGX_OK) {

        fuzz_require(rc == NGX_OK || rc == NGX_ERROR);

        if (rc == NGX_OK) {
            fuzz_client_hello_check(&message, &hello);
        }

        /* whatever the records are, the message is the same */

        fuzz_client_hello_split(&message, 1, rc, &hello);
        fuzz_client_hello_split(&message, record, rc, &hello);
        fuzz_client_hello_split(&message, FUZZ_RECORD_LEN, rc, &hello);

    } else {
        fuzz_require(rc == records);
    }

    free(message.data);

    return 0;
}


static ngx_int_t
fuzz_client_hello_parse(const uint8_t *data, size_t size,
    ngx_egress_client_hello_t *hello)
{
    u_char     *buf;
    ngx_int_t   rc;
    ngx_str_t   in;

    fuzz_copy(&in, data, size);
    buf = fuzz_alloc(NGX_EGRESS_CLIENT_HELLO_LEN);

    memset(hello, 0xff, sizeof(ngx_egress_client_hello_t));

    rc = ngx_egress_client_hello_parse(in.data, in.len, buf, hello);

    fuzz_require(rc == NGX_OK || rc == NGX_AGAIN || rc == NGX_ERROR);
    fuzz_require(size == 0 || memcmp(in.data, data, size) == 0);

    free(buf);
    free(in.data);

    return rc;
}


/* the same rules of records once more, an octet at a time */

static ngx_int_t
fuzz_client_hello_records(const uint8_t *data, size_t size,
    ngx_str_t *message)
{
    u_char      c;
    size_t      i, left, need;
    ngx_uint_t  state;

    state = 0;
    left = 0;
    need = NGX_EGRESS_CLIENT_HELLO_LEN;

    for (i = 0; i < size; i++) {
        c = data[i];

        switch (state++) {

        case 0:
            if (c != 0x16) {
                return NGX_ERROR;
            }
            continue;

        case 1:
            if (c != 3) {
                return NGX_ERROR;
            }
            continue;

        case 2:
            if (c > 4) {
                return NGX_ERROR;
            }
            continue;

        case 3:
            left = c << 8;
            continue;

        case 4:
            left += c;

            if (left == 0 || left > FUZZ_RECORD_LEN) {
                return NGX_ERROR;
            }

            if (message->len >= 4 && left > need - message->len) {
                return NGX_ERROR;
            }
            continue;

        default:
            break;
        }

        message->data[message->len++] = c;
        left--;

        if (message->len == 1 && c != 1) {
            return NGX_ERROR;
        }

        if (message->len == 4) {
            need = 4 + (message->data[1] << 16) + (message->data[2] << 8)
                   + message->data[3];

            if (need == 4 || need > NGX_EGRESS_CLIENT_HELLO_LEN
                || left > need - 4)
            {
                return NGX_ERROR;
            }
        }

        if (message->len == need) {
            return NGX_OK;
        }

        state = left ? 5 : 0;
    }

    return NGX_AGAIN;
}


static void
fuzz_client_hello_check(ngx_str_t *message, ngx_egress_client_hello_t *hello)
{
    size_t              i;
    ngx_str_t           name;
    ngx_egress_host_t   again;

    /* behind the header of the message and legacy_version */

    fuzz_require(message->len >= 6 + NGX_EGRESS_CLIENT_HELLO_RANDOM);
    fuzz_require(memcmp(hello->random, message->data + 6,
                        NGX_EGRESS_CLIENT_HELLO_RANDOM)
                 == 0);

    if (!hello->sni) {
        return;
    }

    fuzz_require(hello->host.family == AF_UNSPEC);

    fuzz_copy(&name, hello->host.name, hello->host.len);

    fuzz_require(ngx_egress_host_parse(&name, NGX_EGRESS_HOST_NAME, 0, &again)
                 == NGX_OK);
    fuzz_require(again.len == name.len
                 && memcmp(again.name, name.data, name.len) == 0);

    /* it is a name that the message has */

    for (i = 0; i + name.len <= message->len; i++) {
        if (strncasecmp((char *) message->data + i, (char *) name.data,
                        name.len)
            == 0)
        {
            break;
        }
    }

    fuzz_require(i + name.len <= message->len);

    free(name.data);
}


static void
fuzz_client_hello_split(ngx_str_t *message, size_t record, ngx_int_t rc,
    ngx_egress_client_hello_t *hello)
{
    u_char                     *p;
    size_t                      i, n;
    ngx_str_t                   in;
    ngx_egress_client_hello_t   other;

    n = message->len / record + 1;

    in.data = fuzz_alloc(message->len + n * FUZZ_RECORD_HEADER);
    p = in.data;

    for (i = 0; i < message->len; i += n) {
        n = ngx_min(record, message->len - i);

        *p++ = 0x16;
        *p++ = 3;
        *p++ = 1;
        *p++ = (u_char) (n >> 8);
        *p++ = (u_char) n;

        memcpy(p, message->data + i, n);
        p += n;
    }

    in.len = p - in.data;

    fuzz_require(fuzz_client_hello_parse(in.data, in.len, &other) == rc);

    if (rc == NGX_OK) {
        fuzz_client_hello_same(hello, &other);
    }

    /* without its last octet it is not complete */

    fuzz_require(fuzz_client_hello_parse(in.data, in.len - 1, &other)
                 == NGX_AGAIN);

    free(in.data);
}


static void
fuzz_client_hello_same(ngx_egress_client_hello_t *a,
    ngx_egress_client_hello_t *b)
{
    fuzz_require(a->sni == b->sni && a->ech == b->ech);
    fuzz_require(memcmp(a->random, b->random, NGX_EGRESS_CLIENT_HELLO_RANDOM)
                 == 0);

    if (a->sni) {
        fuzz_require(a->host.len == b->host.len);
        fuzz_require(memcmp(a->host.name, b->host.name, a->host.len + 1) == 0);
    }
}
