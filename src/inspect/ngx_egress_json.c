
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_body.h"
#include "ngx_egress_json.h"

#include <yajl/yajl_parse.h>


/* an octet in each of the eight of a word */
#define ngx_egress_json_octets(c)  ((uint64_t) 0x0101010101010101 * (c))


static ngx_int_t ngx_egress_json_scan(ngx_str_t *text);
static u_char *ngx_egress_json_plain(u_char *p, u_char *last);
static u_char *ngx_egress_json_escape(u_char *p, u_char *last);
static ngx_int_t ngx_egress_json_unit(u_char *p, u_char *last);
static void ngx_egress_json_trim(ngx_str_t *text);

static ngx_int_t ngx_egress_json_run(ngx_egress_json_t *json,
    yajl_handle parser, ngx_str_t *text);
static int ngx_egress_json_null(void *ctx);
static int ngx_egress_json_boolean(void *ctx, int value);
static int ngx_egress_json_number(void *ctx, const char *text, size_t len);
static int ngx_egress_json_string(void *ctx, const unsigned char *text,
    size_t len);
static int ngx_egress_json_map(void *ctx);
static int ngx_egress_json_array(void *ctx);
static int ngx_egress_json_open(ngx_egress_json_t *json, ngx_uint_t type);
static int ngx_egress_json_end(void *ctx);
static int ngx_egress_json_key(void *ctx, const unsigned char *text,
    size_t len);
static ngx_uint_t ngx_egress_json_find(ngx_egress_json_t *json,
    u_char *text, size_t len);
static int ngx_egress_json_value(ngx_egress_json_t *json, ngx_uint_t type,
    u_char *text, size_t len);


/*
 * Numbers are taken as text: yajl would refuse those that no integer or double
 * of C can hold, and a server need not.
 */

static yajl_callbacks  ngx_egress_json_callbacks = {
    ngx_egress_json_null,
    ngx_egress_json_boolean,
    NULL,
    NULL,
    ngx_egress_json_number,
    ngx_egress_json_string,
    ngx_egress_json_map,
    ngx_egress_json_key,
    ngx_egress_json_end,
    ngx_egress_json_array,
    ngx_egress_json_end
};


void
ngx_egress_json_init(ngx_egress_json_t *json, ngx_egress_json_field_t *fields,
    ngx_uint_t nfields, ngx_egress_json_pt handler, void *data)
{
    json->fields = fields;
    json->nfields = nfields;
    json->any = NGX_EGRESS_JSON_NOWHERE;
    json->known = 0;
    json->handler = handler;
    json->data = data;
}


ngx_int_t
ngx_egress_json_parse(ngx_egress_json_t *json, ngx_str_t *text)
{
    ngx_int_t    rc, parsed;
    ngx_str_t    sound;
    yajl_handle  parser;

    json->depth = 0;
    json->object[0] = NGX_EGRESS_JSON_NOWHERE;
    json->object[1] = NGX_EGRESS_JSON_ROOT;
    json->object[2] = NGX_EGRESS_JSON_NOWHERE;
    json->field = NGX_EGRESS_JSON_NOWHERE;
    json->seen = 0;
    json->refused = 0;
    json->closed = 0;

    sound = *text;

    rc = ngx_egress_json_scan(&sound);

    if (sound.len == 0) {
        return (rc == NGX_OK) ? NGX_DECLINED : rc;
    }

    parser = yajl_alloc(&ngx_egress_json_callbacks, NULL, json);

    if (parser == NULL) {
        return NGX_DECLINED;
    }

    (void) yajl_config(parser, yajl_dont_validate_strings, 1);

    /* of a text that is refused anyway what comes before is told, too */

    parsed = ngx_egress_json_run(json, parser, &sound);

    yajl_free(parser);

    return (rc == NGX_OK) ? parsed : rc;
}


/*
 * Looks for what yajl does not: it takes several encodings of one character
 * for UTF-8, makes a question mark of half a surrogate pair, and has vertical
 * tabs and form feeds for white space.  Cuts the text where it is not sound,
 * and takes white space off its end.
 *
 * A backslash outside a string ends the parsing, so that up to there each one
 * found here begins an escape.
 */

static ngx_int_t
ngx_egress_json_scan(ngx_str_t *text)
{
    u_char     *p, *last, *stop, *next;
    ngx_int_t   rc;

    rc = NGX_OK;
    p = text->data;
    last = p + text->len;

    if (last - p >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf) {
        text->len = 0;
        return NGX_ABORT;
    }

    while (p < last) {

        p = ngx_egress_json_plain(p, last);

        stop = (last - p > 8) ? p + 8 : last;

        while (p < stop) {

            if (*p >= 0x80) {
                next = ngx_egress_json_utf8(p, last);

                if (next == NULL) {
                    rc = NGX_ABORT;
                    goto done;
                }

                p = next;
                continue;
            }

            if (*p == '\\') {
                next = ngx_egress_json_escape(p, last);

                if (next == NULL) {
                    rc = NGX_DECLINED;
                    goto done;
                }

                p = next;
                continue;
            }

            if (*p < 0x20 && *p != '\t' && *p != LF && *p != CR) {
                rc = NGX_DECLINED;
                goto done;
            }

            p++;
        }
    }

done:

    text->len = p - text->data;

    if (rc == NGX_OK) {
        ngx_egress_json_trim(text);
    }

    return rc;
}


/* passes over octets that need no look, eight at a time */

static u_char *
ngx_egress_json_plain(u_char *p, u_char *last)
{
    uint64_t  w, x;

    for ( /* void */ ; last - p >= 8; p += 8) {

        ngx_memcpy(&w, p, 8);

        /* leaves the high bits of controls, backslashes, and non-ASCII */

        x = w ^ ngx_egress_json_octets('\\');

        if ((w | ((w - ngx_egress_json_octets(' ')) & ~w)
             | ((x - ngx_egress_json_octets(1)) & ~x))
            & ngx_egress_json_octets(0x80))
        {
            break;
        }
    }

    return p;
}


u_char *
ngx_egress_json_utf8(u_char *p, u_char *last)
{
    u_char  ch, low, high;
    size_t  n;

    ch = *p++;

    if (ch < 0x80) {
        return p;
    }

    low = 0x80;
    high = 0xbf;

    if (ch < 0xc2) {
        return NULL;

    } else if (ch < 0xe0) {
        n = 1;

    } else if (ch < 0xf0) {
        n = 2;
        low = (ch == 0xe0) ? 0xa0 : 0x80;
        high = (ch == 0xed) ? 0x9f : 0xbf;

    } else if (ch < 0xf5) {
        n = 3;
        low = (ch == 0xf0) ? 0x90 : 0x80;
        high = (ch == 0xf4) ? 0x8f : 0xbf;

    } else {
        return NULL;
    }

    if ((size_t) (last - p) < n || *p < low || *p > high) {
        return NULL;
    }

    while (--n) {
        if ((*++p & 0xc0) != 0x80) {
            return NULL;
        }
    }

    return p + 1;
}


/* behind an escape, a pair of surrogates in one; NULL where one is alone */

static u_char *
ngx_egress_json_escape(u_char *p, u_char *last)
{
    ngx_int_t  unit;

    if (last - p < 2) {
        return last;
    }

    unit = ngx_egress_json_unit(p, last);

    if (unit < 0xd800 || unit > 0xdfff) {
        return p + 2;
    }

    if (unit > 0xdbff) {
        return NULL;
    }

    p += 6;

    unit = ngx_egress_json_unit(p, last);

    return (unit >= 0xdc00 && unit <= 0xdfff) ? p + 6 : NULL;
}


static ngx_int_t
ngx_egress_json_unit(u_char *p, u_char *last)
{
    u_char      ch;
    ngx_int_t   unit;
    ngx_uint_t  i;

    if (last - p < 6 || p[0] != '\\' || p[1] != 'u') {
        return NGX_ERROR;
    }

    unit = 0;

    for (i = 2; i < 6; i++) {

        ch = ngx_tolower(p[i]);

        if (ch >= '0' && ch <= '9') {
            unit = unit * 16 + (ch - '0');

        } else if (ch >= 'a' && ch <= 'f') {
            unit = unit * 16 + (ch - 'a' + 10);

        } else {
            return NGX_ERROR;
        }
    }

    return unit;
}


static void
ngx_egress_json_trim(ngx_str_t *text)
{
    u_char  *p;

    p = text->data + text->len;

    while (text->len
           && (p[-1] == ' ' || p[-1] == '\t' || p[-1] == LF || p[-1] == CR))
    {
        text->len--;
        p--;
    }
}


/*
 * The last octet is given apart: an object that was closed before it has
 * something behind it, and of that yajl would not tell if it is the beginning
 * of a string.
 */

static ngx_int_t
ngx_egress_json_run(ngx_egress_json_t *json, yajl_handle parser,
    ngx_str_t *text)
{
    if (yajl_parse(parser, text->data, text->len - 1) != yajl_status_ok
        || json->closed)
    {
        return NGX_DECLINED;
    }

    if (yajl_parse(parser, text->data + text->len - 1, 1) != yajl_status_ok
        || yajl_complete_parse(parser) != yajl_status_ok
        || !json->closed || json->refused)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static int
ngx_egress_json_null(void *ctx)
{
    return ngx_egress_json_value(ctx, NGX_EGRESS_JSON_NULL, NULL, 0);
}


static int
ngx_egress_json_boolean(void *ctx, int value)
{
    return ngx_egress_json_value(ctx, NGX_EGRESS_JSON_BOOLEAN, NULL, 0);
}


static int
ngx_egress_json_number(void *ctx, const char *text, size_t len)
{
    return ngx_egress_json_value(ctx, NGX_EGRESS_JSON_NUMBER,
                                 (u_char *) text, len);
}


static int
ngx_egress_json_string(void *ctx, const unsigned char *text, size_t len)
{
    return ngx_egress_json_value(ctx, NGX_EGRESS_JSON_STRING,
                                 (u_char *) text, len);
}


static int
ngx_egress_json_map(void *ctx)
{
    return ngx_egress_json_open(ctx, NGX_EGRESS_JSON_OBJECT);
}


static int
ngx_egress_json_array(void *ctx)
{
    return ngx_egress_json_open(ctx, NGX_EGRESS_JSON_ARRAY);
}


static int
ngx_egress_json_open(ngx_egress_json_t *json, ngx_uint_t type)
{
    if (json->depth == 0) {
        json->depth = 1;

        return type == NGX_EGRESS_JSON_OBJECT;
    }

    if (json->depth == NGX_EGRESS_BODY_DEPTH) {
        return 0;
    }

    (void) ngx_egress_json_value(json, type, NULL, 0);

    if (json->depth == 1) {
        json->object[2] = (type == NGX_EGRESS_JSON_OBJECT && json->field)
                          ? json->field : NGX_EGRESS_JSON_NOWHERE;
    }

    json->depth++;

    return 1;
}


static int
ngx_egress_json_end(void *ctx)
{
    ngx_egress_json_t *json = ctx;

    json->depth--;

    if (json->depth == 0) {
        json->closed = 1;
    }

    return 1;
}


static int
ngx_egress_json_key(void *ctx, const unsigned char *text, size_t len)
{
    ngx_egress_json_t *json = ctx;

    ngx_uint_t  object;

    if (json->depth > 2) {
        return 1;
    }

    object = json->object[json->depth];

    if (object == NGX_EGRESS_JSON_NOWHERE) {
        return 1;
    }

    json->field = ngx_egress_json_find(json, (u_char *) text, len);

    if (json->field != 0) {
        return 1;
    }

    if (object == NGX_EGRESS_JSON_ROOT && json->known) {
        json->refused = 1;
    }

    if (object != json->any) {
        json->field = NGX_EGRESS_JSON_NOWHERE;
        return 1;
    }

    /* yajl may need its buffer for the value */

    json->key.len = len;
    json->key.data = NULL;

    if (len <= NGX_EGRESS_JSON_KEY) {
        json->key.data = json->buf;
        ngx_memcpy(json->buf, text, len);
    }

    return 1;
}


/* a field that is new; 0 for any other member */

static ngx_uint_t
ngx_egress_json_find(ngx_egress_json_t *json, u_char *text, size_t len)
{
    ngx_str_t   *name;
    ngx_uint_t   i, object;

    object = json->object[json->depth];

    for (i = 0; i < json->nfields; i++) {

        name = &json->fields[i].name;

        if (json->fields[i].object != object
            || !ngx_egress_json_alike(name, text, len))
        {
            continue;
        }

        if (name->len != len || ngx_memcmp(name->data, text, len) != 0
            || (json->seen & ((uint32_t) 1 << i)))
        {
            json->refused = 1;
            return NGX_EGRESS_JSON_NOWHERE;
        }

        json->seen |= (uint32_t) 1 << i;

        return i + 1;
    }

    return 0;
}


ngx_uint_t
ngx_egress_json_alike(ngx_str_t *name, u_char *text, size_t len)
{
    u_char  *p, *last, ch;
    size_t   i;

    p = text;
    last = text + len;

    for (i = 0; i < name->len; i++) {

        if (p == last) {
            return 0;
        }

        ch = ngx_tolower(*p);
        p++;

        if (ch == 0xc5 && p < last && *p == 0xbf) {
            ch = 's';
            p++;

        } else if (ch == 0xc4 && p < last && (*p == 0xb0 || *p == 0xb1)) {
            ch = 'i';
            p++;

        }

        if (ch != ngx_tolower(name->data[i])) {
            return 0;
        }
    }

    return p == last || *p == '\0';
}


static int
ngx_egress_json_value(ngx_egress_json_t *json, ngx_uint_t type, u_char *text,
    size_t len)
{
    ngx_str_t  value;

    if (json->depth > 2) {
        return 1;
    }

    if (json->depth == 0) {

        /* a text that is no object at all */

        return 0;
    }

    if (json->object[json->depth] == NGX_EGRESS_JSON_NOWHERE
        || json->field == NGX_EGRESS_JSON_NOWHERE)
    {
        return 1;
    }

    value.len = len;
    value.data = text;

    if (json->handler(json->data, json->field, &json->key, type, &value)
        != NGX_OK)
    {
        json->refused = 1;
    }

    return 1;
}


void
ngx_egress_json_printable(u_char *dst, size_t *len, size_t size,
    ngx_str_t *text)
{
    u_char  ch;
    size_t  i;

    for (i = 0; i < text->len && *len < size; i++) {
        ch = text->data[i];
        dst[(*len)++] = (ch > 0x1f && ch < 0x7f) ? ch : '?';
    }
}
