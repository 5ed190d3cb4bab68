
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_client_hello.h"


#define NGX_EGRESS_TLS_HANDSHAKE      0x16
#define NGX_EGRESS_TLS_CLIENT_HELLO   1
#define NGX_EGRESS_TLS_RECORD_HEADER  5
#define NGX_EGRESS_TLS_RECORD_LEN     16384   /* RFC 8446, 5.1 */
#define NGX_EGRESS_TLS_HEADER         4       /* of a handshake message */
#define NGX_EGRESS_TLS_SESSION_ID     32

#define NGX_EGRESS_TLS_SERVER_NAME    0
#define NGX_EGRESS_TLS_HOST_NAME      0
#define NGX_EGRESS_TLS_ECH            0xfe0d


static ngx_int_t ngx_egress_client_hello_records(u_char *data, size_t len,
    u_char *buf, ngx_str_t *message);
static ngx_int_t ngx_egress_client_hello_record(u_char *p, u_char *last,
    size_t *size);
static size_t ngx_egress_client_hello_len(u_char *header);
static ngx_int_t ngx_egress_client_hello_message(ngx_str_t *message,
    ngx_egress_client_hello_t *hello);
static ngx_int_t ngx_egress_client_hello_extensions(ngx_str_t *block,
    ngx_egress_client_hello_t *hello);
static ngx_int_t ngx_egress_client_hello_server_name(ngx_str_t *list,
    ngx_egress_client_hello_t *hello);
static ngx_int_t ngx_egress_client_hello_vector(ngx_str_t *from, size_t octets,
    ngx_str_t *to);


ngx_int_t
ngx_egress_client_hello_parse(u_char *data, size_t len, u_char *buf,
    ngx_egress_client_hello_t *hello)
{
    ngx_int_t  rc;
    ngx_str_t  message;

    hello->sni = 0;
    hello->ech = 0;

    rc = ngx_egress_client_hello_records(data, len, buf, &message);

    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_egress_client_hello_message(&message, hello);
}


/*
 * Finds the message within its records.  One record is the usual case: the
 * message is then left where it stands.
 */

static ngx_int_t
ngx_egress_client_hello_records(u_char *data, size_t len, u_char *buf,
    ngx_str_t *message)
{
    size_t      n, size, got, need;
    u_char     *p, *last, *body, *head, header[NGX_EGRESS_TLS_HEADER];
    ngx_int_t   rc;

    p = data;
    last = data + len;
    got = 0;
    need = 0;
    head = header;

    while (p < last) {

        rc = ngx_egress_client_hello_record(p, last, &size);

        if (rc != NGX_OK) {
            return rc;
        }

        body = p + NGX_EGRESS_TLS_RECORD_HEADER;
        n = ngx_min(size, (size_t) (last - body));

        /* the header of the message may be split as well */

        while (got < NGX_EGRESS_TLS_HEADER && n) {
            header[got++] = *body++;
            n--;
            size--;
        }

        if (got && head[0] != NGX_EGRESS_TLS_CLIENT_HELLO) {
            return NGX_ERROR;
        }

        if (got < NGX_EGRESS_TLS_HEADER) {
            p = body;
            continue;
        }

        if (need == 0) {
            need = ngx_egress_client_hello_len(head);

            if (need == 0) {
                return NGX_ERROR;
            }
        }

        /* a message that goes on behind this one in its record is refused */

        if (size > need - got) {
            return NGX_ERROR;
        }

        if (got == NGX_EGRESS_TLS_HEADER && n == need - got) {
            message->data = body;
            message->len = n;
            return NGX_OK;
        }

        ngx_memcpy(buf + got - NGX_EGRESS_TLS_HEADER, body, n);

        got += n;
        p = body + n;

        if (got == need) {
            message->data = buf;
            message->len = need - NGX_EGRESS_TLS_HEADER;
            return NGX_OK;
        }
    }

    return NGX_AGAIN;
}


/* the header of a record; what is wrong with it is told as soon as it shows */

static ngx_int_t
ngx_egress_client_hello_record(u_char *p, u_char *last, size_t *size)
{
    if (p[0] != NGX_EGRESS_TLS_HANDSHAKE
        || (last - p > 1 && p[1] != 3)
        || (last - p > 2 && p[2] > 4))
    {
        return NGX_ERROR;
    }

    if (last - p < NGX_EGRESS_TLS_RECORD_HEADER) {
        return NGX_AGAIN;
    }

    *size = (p[3] << 8) + p[4];

    if (*size == 0 || *size > NGX_EGRESS_TLS_RECORD_LEN) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* of the message with its header; 0 where there can't be such a one */

static size_t
ngx_egress_client_hello_len(u_char *header)
{
    size_t  len;

    len = ((size_t) header[1] << 16) + (header[2] << 8) + header[3];

    if (len == 0 || len > NGX_EGRESS_CLIENT_HELLO_LEN - NGX_EGRESS_TLS_HEADER)
    {
        return 0;
    }

    return NGX_EGRESS_TLS_HEADER + len;
}


static ngx_int_t
ngx_egress_client_hello_message(ngx_str_t *message,
    ngx_egress_client_hello_t *hello)
{
    ngx_str_t  rest, part;

    rest = *message;

    /* legacy_version and random */

    if (rest.len < 2 + NGX_EGRESS_CLIENT_HELLO_RANDOM || rest.data[0] != 3) {
        return NGX_ERROR;
    }

    ngx_memcpy(hello->random, rest.data + 2, NGX_EGRESS_CLIENT_HELLO_RANDOM);

    rest.data += 2 + NGX_EGRESS_CLIENT_HELLO_RANDOM;
    rest.len -= 2 + NGX_EGRESS_CLIENT_HELLO_RANDOM;

    if (ngx_egress_client_hello_vector(&rest, 1, &part) != NGX_OK
        || part.len > NGX_EGRESS_TLS_SESSION_ID)
    {
        return NGX_ERROR;
    }

    /* cipher_suites, two octets each */

    if (ngx_egress_client_hello_vector(&rest, 2, &part) != NGX_OK
        || part.len == 0 || part.len % 2)
    {
        return NGX_ERROR;
    }

    /* legacy_compression_methods */

    if (ngx_egress_client_hello_vector(&rest, 1, &part) != NGX_OK
        || part.len == 0)
    {
        return NGX_ERROR;
    }

    if (rest.len == 0) {

        /* no extensions at all: RFC 5246, 7.4.1.2 */

        return NGX_OK;
    }

    if (ngx_egress_client_hello_vector(&rest, 2, &part) != NGX_OK
        || rest.len != 0)
    {
        return NGX_ERROR;
    }

    return ngx_egress_client_hello_extensions(&part, hello);
}


static ngx_int_t
ngx_egress_client_hello_extensions(ngx_str_t *block,
    ngx_egress_client_hello_t *hello)
{
    ngx_str_t   rest, data;
    ngx_uint_t  type;

    rest = *block;

    while (rest.len) {

        if (rest.len < 4) {
            return NGX_ERROR;
        }

        type = (rest.data[0] << 8) + rest.data[1];

        rest.data += 2;
        rest.len -= 2;

        if (ngx_egress_client_hello_vector(&rest, 2, &data) != NGX_OK) {
            return NGX_ERROR;
        }

        if (type == NGX_EGRESS_TLS_ECH) {
            hello->ech = 1;
            continue;
        }

        if (type != NGX_EGRESS_TLS_SERVER_NAME) {
            continue;
        }

        /* a second one would be for stacks to choose from */

        if (hello->sni
            || ngx_egress_client_hello_server_name(&data, hello) != NGX_OK)
        {
            return NGX_ERROR;
        }

        hello->sni = 1;
    }

    return NGX_OK;
}


/* exactly one name, of the one type there is (RFC 6066, 3) */

static ngx_int_t
ngx_egress_client_hello_server_name(ngx_str_t *list,
    ngx_egress_client_hello_t *hello)
{
    ngx_str_t  rest, names, name;

    rest = *list;

    if (ngx_egress_client_hello_vector(&rest, 2, &names) != NGX_OK
        || rest.len != 0 || names.len == 0
        || names.data[0] != NGX_EGRESS_TLS_HOST_NAME)
    {
        return NGX_ERROR;
    }

    names.data++;
    names.len--;

    if (ngx_egress_client_hello_vector(&names, 2, &name) != NGX_OK
        || names.len != 0)
    {
        return NGX_ERROR;
    }

    /* literal addresses are not permitted there */

    if (ngx_egress_host_parse(&name, NGX_EGRESS_HOST_NAME, 0, &hello->host)
        != NGX_OK
        || hello->host.family != AF_UNSPEC)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* takes a vector with a length of "octets" octets off the front of "from" */

static ngx_int_t
ngx_egress_client_hello_vector(ngx_str_t *from, size_t octets, ngx_str_t *to)
{
    size_t  len;

    if (from->len < octets) {
        return NGX_ERROR;
    }

    len = from->data[0];

    if (octets == 2) {
        len = (len << 8) + from->data[1];
    }

    if (len > from->len - octets) {
        return NGX_ERROR;
    }

    to->data = from->data + octets;
    to->len = len;

    from->data += octets + len;
    from->len -= octets + len;

    return NGX_OK;
}
