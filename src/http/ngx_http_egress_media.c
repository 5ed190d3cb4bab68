
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


static ngx_uint_t ngx_http_egress_media_json(ngx_str_t *media);
static ngx_uint_t ngx_http_egress_media_is(ngx_str_t *value,
    const char *text);


/*
 * A charset that is told has to be UTF-8 (DESIGN 6.4).  There are servers that
 * take white space around "=", a comma in place of ";", or "charset*": told in
 * any other way than the plain one it is refused, too.
 */

ngx_uint_t
ngx_http_egress_media_charset(ngx_str_t *type)
{
    u_char     *p, *q, *last;
    ngx_str_t   value;

    p = type->data;
    last = p + type->len;

    while (type->len
           && (p = ngx_strlcasestrn(p, last, (u_char *) "charset", 7 - 1)))
    {
        for (q = p; q > type->data && (q[-1] == ' ' || q[-1] == '\t'); q--) {
            /* void */
        }

        p += 7;

        if (q == type->data || q[-1] != ';' || p == last || *p != '=') {
            return 0;
        }

        p++;
        q = (p < last && *p == '"') ? p++ : NULL;

        value.data = p;

        while (p < last && *p != ';' && *p != '"' && *p != ' '
               && *p != '\t')
        {
            p++;
        }

        value.len = p - value.data;

        if (q && (p == last || *p++ != '"')) {
            return 0;
        }

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        if ((p < last && *p != ';')
            || (!ngx_http_egress_media_is(&value, "utf-8")
                && !ngx_http_egress_media_is(&value, "utf8")
                && !ngx_http_egress_media_is(&value, "us-ascii")))
        {
            return 0;
        }
    }

    return 1;
}


ngx_uint_t
ngx_http_egress_media_form(ngx_str_t *type, ngx_str_t *body)
{
    u_char     *p, *last, *end;
    ngx_str_t   media;

    if (type->len) {
        p = type->data;
        last = p + type->len;

        end = ngx_strlchr(p, last, ';');

        media.data = p;
        media.len = (end ? end : last) - p;

        while (media.len && p[media.len - 1] == ' ') {
            media.len--;
        }

        if (ngx_strlcasestrn(p, last, (u_char *) "multipart", 9 - 1)) {
            return 1;
        }

        if (ngx_strlcasestrn(p, last, (u_char *) "urlencoded", 10 - 1)
            == NULL
            && ngx_http_egress_media_json(&media))
        {
            return 0;
        }
    }

    return memchr(body->data, '&', body->len) != NULL
           || memchr(body->data, ';', body->len) != NULL;
}


/* a type that no server has for a form */

static ngx_uint_t
ngx_http_egress_media_json(ngx_str_t *media)
{
    size_t  i;
    u_char  *p, ch;

    if (ngx_http_egress_media_is(media, "application/json")
        || ngx_http_egress_media_is(media, "text/plain"))
    {
        return 1;
    }

    p = media->data;

    if (media->len < sizeof("application/x+json") - 1
        || ngx_strncasecmp(p, (u_char *) "application/", 12) != 0
        || ngx_strncasecmp(p + media->len - 5, (u_char *) "+json", 5) != 0)
    {
        return 0;
    }

    for (i = 12; i < media->len; i++) {
        ch = ngx_tolower(p[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')
            && ch != '.' && ch != '-' && ch != '+')
        {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_http_egress_media_is(ngx_str_t *value, const char *text)
{
    return value->len == ngx_strlen(text)
           && ngx_strncasecmp(value->data, (u_char *) text, value->len) == 0;
}
