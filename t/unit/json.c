
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <openssl/evp.h>
#include "json.h"


typedef struct ngx_vectors_chunk_s  ngx_vectors_chunk_t;

struct ngx_vectors_chunk_s {
    ngx_vectors_chunk_t  *next;
    void                 *data;
};


static void ngx_vectors_utf8(const char *text, ngx_str_t *str);
static void ngx_vectors_base64(const char *text, ngx_str_t *str);


static ngx_vectors_chunk_t  *ngx_vectors_chunks;


yajl_val
ngx_vectors_get(yajl_val obj, const char *name)
{
    const char  *path[2];

    path[0] = name;
    path[1] = NULL;

    return yajl_tree_get(obj, path, yajl_t_any);
}


char *
ngx_vectors_string(yajl_val obj, const char *name)
{
    yajl_val  val;

    val = ngx_vectors_get(obj, name);

    return val ? YAJL_GET_STRING(val) : NULL;
}


/* the bytes of a field, as a string or in base64; NGX_DECLINED if absent */

ngx_int_t
ngx_vectors_bytes(yajl_val obj, const char *name, ngx_str_t *str)
{
    char  *text;
    char   b64[64];

    ngx_str_null(str);

    text = ngx_vectors_string(obj, name);

    if (text) {
        ngx_vectors_utf8(text, str);
        return NGX_OK;
    }

    (void) snprintf(b64, sizeof(b64), "%s_b64", name);

    text = ngx_vectors_string(obj, b64);

    if (text == NULL) {
        return NGX_DECLINED;
    }

    ngx_vectors_base64(text, str);

    return NGX_OK;
}


/* each character up to U+00FF is one byte, and U+0100 stands for zero */

static void
ngx_vectors_utf8(const char *text, ngx_str_t *str)
{
    ngx_uint_t     c;
    const u_char  *p;

    str->len = 0;
    str->data = ngx_vectors_alloc(strlen(text));

    for (p = (const u_char *) text; *p; p++) {
        c = *p;

        if (c >= 0x80) {

            if (c < 0xc2 || c > 0xc4 || (p[1] & 0xc0) != 0x80) {
                ngx_vectors_die("a vector has a character above U+00FF");
            }

            c = ((c & 0x1f) << 6) | (p[1] & 0x3f);
            p++;
        }

        if (c > 0x100) {
            ngx_vectors_die("a vector has a character above U+00FF");
        }

        str->data[str->len++] = (u_char) c;
    }

    ngx_vectors_exact(str);
}


static void
ngx_vectors_base64(const char *text, ngx_str_t *str)
{
    int     n;
    size_t  len;

    len = strlen(text);

    str->data = ngx_vectors_alloc(len / 4 * 3);

    n = EVP_DecodeBlock(str->data, (u_char *) text, (int) len);

    if (len % 4 || n < 0) {
        ngx_vectors_die("a vector has bad base64");
    }

    str->len = n;

    while (len && text[len - 1] == '=') {
        len--;
        str->len--;
    }

    ngx_vectors_exact(str);
}


/* the octets of a member in hexadecimal; NGX_DECLINED if absent */

ngx_int_t
ngx_vectors_hex(yajl_val obj, const char *name, ngx_str_t *str)
{
    char          *text;
    unsigned int   c;

    ngx_str_null(str);

    text = ngx_vectors_string(obj, name);

    if (text == NULL) {
        return NGX_DECLINED;
    }

    if (strlen(text) % 2 || text[strspn(text, "0123456789abcdef")]) {
        ngx_vectors_die("a vector has bad hexadecimal");
    }

    str->data = ngx_vectors_alloc(strlen(text) / 2);

    for ( /* void */ ; *text; text += 2) {
        (void) sscanf(text, "%2x", &c);
        str->data[str->len++] = (u_char) c;
    }

    return NGX_OK;
}


/*
 * The strings of yajl_tree end at the first zero byte: "\u0000" in a line
 * becomes "\u0100", which the vectors do not have otherwise.
 */

void
ngx_vectors_zero(char *text)
{
    char  *p;

    for (p = text; *p; p++) {

        if (*p != '\\' || p[1] == '\0') {
            continue;
        }

        p++;

        if (strncmp(p, "u0000", 5) == 0) {
            p[2] = '1';
        }
    }
}


void
ngx_vectors_exact(ngx_str_t *str)
{
    u_char  *p;

    p = ngx_vectors_alloc(str->len);

    if (str->len) {
        ngx_memcpy(p, str->data, str->len);
    }

    str->data = p;
}


void *
ngx_vectors_alloc(size_t size)
{
    ngx_vectors_chunk_t  *chunk;

    chunk = malloc(sizeof(ngx_vectors_chunk_t));

    if (chunk == NULL) {
        ngx_vectors_die("no memory");
    }

    chunk->data = malloc(size);

    if (chunk->data == NULL) {
        ngx_vectors_die("no memory");
    }

    chunk->next = ngx_vectors_chunks;
    ngx_vectors_chunks = chunk;

    return chunk->data;
}


void
ngx_vectors_free(void)
{
    ngx_vectors_chunk_t  *chunk;

    while (ngx_vectors_chunks) {
        chunk = ngx_vectors_chunks;
        ngx_vectors_chunks = chunk->next;

        free(chunk->data);
        free(chunk);
    }
}


void
ngx_vectors_die(const char *text)
{
    fprintf(stderr, "vectors: %s\n", text);
    exit(2);
}
