
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_graphql_token.h"


static u_char *ngx_egress_graphql_digits(u_char *p, u_char *last);
static u_char *ngx_egress_graphql_block(u_char *p, u_char *last,
    ngx_uint_t *unsure);
static u_char *ngx_egress_graphql_escape(u_char *p, u_char *last);
static u_char *ngx_egress_graphql_code_point(u_char *p, u_char *last);
static u_char *ngx_egress_graphql_hex(u_char *p, u_char *last,
    ngx_uint_t digits, uint32_t *code);


u_char  ngx_egress_graphql_octets[256] = {

    0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x41, 0x00, 0x00, 0x41, 0x00, 0x00,  /* tab, LF, CR */
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,

    0x01, 0x08, 0x46, 0x02, 0x09, 0x00, 0x00, 0x00,  /*   ! " # $ % & ' */
    0x0a, 0x0b, 0x00, 0x00, 0x01, 0x05, 0x07, 0x00,  /* ( ) * + , - . / */
    0x25, 0x25, 0x25, 0x25, 0x25, 0x25, 0x25, 0x25,  /* 0 1 2 3 4 5 6 7 */
    0x25, 0x25, 0x0c, 0x00, 0x00, 0x0d, 0x00, 0x00,  /* 8 9 : ; < = > ? */

    0x0e, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24,  /* @ A B C D E F G */
    0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24,  /* H I J K L M N O */
    0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24,  /* P Q R S T U V W */
    0x24, 0x24, 0x24, 0x0f, 0x40, 0x10, 0x00, 0x24,  /* X Y Z [ \ ] ^ _ */

    0x00, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24,  /* ` a b c d e f g */
    0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24,  /* h i j k l m n o */
    0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24, 0x24,  /* p q r s t u v w */
    0x24, 0x24, 0x24, 0x11, 0x00, 0x12, 0x00, 0x00,  /* x y z { | } ~   */

    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,  /* EF of U+FEFF */
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00
};


/*
 * LF or CR ends a comment.  There are servers for which CR alone does not, so
 * what follows it up to the next LF is text for one and comment for another.
 */

u_char *
ngx_egress_graphql_comment(u_char *p, u_char *last, ngx_uint_t *unsure)
{
    for ( /* void */ ; p < last; p++) {

        if (*p > CR) {
            continue;
        }

        if (*p == '\0') {
            return NULL;
        }

        if (*p == LF) {
            break;
        }

        if (*p == CR) {

            if (last - p < 2 || p[1] != LF) {
                *unsure = 1;
            }

            break;
        }
    }

    return p;
}


u_char *
ngx_egress_graphql_number(u_char *p, u_char *last)
{
    if (*p == '-') {
        p++;
    }

    if (p < last && *p == '0') {
        p++;

    } else {
        p = ngx_egress_graphql_digits(p, last);
    }

    if (p && p < last && *p == '.') {
        p = ngx_egress_graphql_digits(p + 1, last);
    }

    if (p && p < last && (*p == 'e' || *p == 'E')) {
        p++;

        if (p < last && (*p == '+' || *p == '-')) {
            p++;
        }

        p = ngx_egress_graphql_digits(p, last);
    }

    /* neither a digit behind a leading zero nor a name may follow at once */

    if (p && p < last
        && (*p == '.'
            || (ngx_egress_graphql_octets[*p] & NGX_EGRESS_GRAPHQL_NAME_CHAR)))
    {
        return NULL;
    }

    return p;
}


static u_char *
ngx_egress_graphql_digits(u_char *p, u_char *last)
{
    u_char  *start;

    for (start = p; p < last && *p >= '0' && *p <= '9'; p++) { /* void */ }

    return (p == start) ? NULL : p;
}


u_char *
ngx_egress_graphql_string(u_char *p, u_char *last, ngx_str_t *text,
    ngx_uint_t *unsure)
{
    u_char      *start;
    ngx_uint_t   plain;

    ngx_str_null(text);

    start = p + 1;

    if (last - p >= 3 && p[1] == '"' && p[2] == '"') {
        return ngx_egress_graphql_block(p + 3, last, unsure);
    }

    plain = 1;

    for (p = start; p < last; p++) {

        if (!(ngx_egress_graphql_octets[*p] & NGX_EGRESS_GRAPHQL_STOP)) {
            continue;
        }

        if (*p == '"') {

            if (plain) {
                text->data = start;
                text->len = p - start;
            }

            return p + 1;
        }

        /* NUL or the end of a line are no part of it */

        if (*p != '\\') {
            return NULL;
        }

        plain = 0;
        p = ngx_egress_graphql_escape(p + 1, last);

        if (p == NULL) {
            return NULL;
        }

        p--;
    }

    return NULL;
}


/*
 * Three quotes end a block string, but not behind a backslash.  There are
 * servers that take the last three where more of them stand together, that
 * take a backslash with what is before it, or an empty string for the start
 * of a longer one: there such a string may end elsewhere.
 */

static u_char *
ngx_egress_graphql_block(u_char *p, u_char *last, ngx_uint_t *unsure)
{
    u_char  *start, *quotes;

    start = p;

    while (p < last) {

        if (!(ngx_egress_graphql_octets[*p] & NGX_EGRESS_GRAPHQL_STOP)) {
            p++;
            continue;
        }

        if (*p != '"' && *p != '\\') {

            if (*p == '\0') {
                return NULL;
            }

            p++;
            continue;
        }

        quotes = (*p == '\\') ? p + 1 : p;

        if (last - quotes < 3 || quotes[0] != '"' || quotes[1] != '"'
            || quotes[2] != '"')
        {
            p++;
            continue;
        }

        if (last - quotes > 3 && quotes[3] == '"') {
            *unsure = 1;
        }

        if (*p == '"') {

            if (p == start) {
                *unsure = 1;
            }

            return quotes + 3;
        }

        if (p > start && (p[-1] == '"' || p[-1] == '\\')) {
            *unsure = 1;
        }

        p = quotes + 3;
    }

    return NULL;
}


static u_char *
ngx_egress_graphql_escape(u_char *p, u_char *last)
{
    if (p == last) {
        return NULL;
    }

    switch (*p) {

    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 1;

    case 'u':
        return ngx_egress_graphql_code_point(p + 1, last);

    default:
        return NULL;
    }
}


/* a scalar value in braces or as four digits, or two halves of a pair */

static u_char *
ngx_egress_graphql_code_point(u_char *p, u_char *last)
{
    u_char    *end;
    uint32_t   code;

    if (p < last && *p == '{') {
        end = ngx_egress_graphql_hex(p + 1, last, 8, &code);

        if (end == p + 1 || end == last || *end != '}'
            || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        {
            return NULL;
        }

        return end + 1;
    }

    end = ngx_egress_graphql_hex(p, last, 4, &code);

    if (end != p + 4 || (code >= 0xdc00 && code <= 0xdfff)) {
        return NULL;
    }

    if (code < 0xd800 || code > 0xdbff) {
        return end;
    }

    if (last - end < 6 || end[0] != '\\' || end[1] != 'u') {
        return NULL;
    }

    p = end + 2;
    end = ngx_egress_graphql_hex(p, last, 4, &code);

    if (end != p + 4 || code < 0xdc00 || code > 0xdfff) {
        return NULL;
    }

    return end;
}


static u_char *
ngx_egress_graphql_hex(u_char *p, u_char *last, ngx_uint_t digits,
    uint32_t *code)
{
    u_char  ch;

    *code = 0;

    for ( /* void */ ; digits && p < last; digits--, p++) {

        ch = *p;

        if (ch >= '0' && ch <= '9') {
            *code = (*code << 4) | (ch - '0');
            continue;
        }

        ch |= 0x20;

        if (ch < 'a' || ch > 'f') {
            break;
        }

        *code = (*code << 4) | (ch - 'a' + 10);
    }

    return p;
}
