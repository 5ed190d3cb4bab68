
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_JSON_H_INCLUDED_
#define _NGX_EGRESS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* types of values */
#define NGX_EGRESS_JSON_NULL      0
#define NGX_EGRESS_JSON_BOOLEAN   1
#define NGX_EGRESS_JSON_NUMBER    2
#define NGX_EGRESS_JSON_STRING    3
#define NGX_EGRESS_JSON_OBJECT    4
#define NGX_EGRESS_JSON_ARRAY     5

/* the outermost object; fields count from 1 */
#define NGX_EGRESS_JSON_ROOT      0
#define NGX_EGRESS_JSON_NOWHERE   ((ngx_uint_t) -1)

/* the longest key of a member that is no field */
#define NGX_EGRESS_JSON_KEY       128


/*
 * A member that decides: of the outermost object, or of a field that is an
 * object and stands in the outermost one.
 */

typedef struct {
    ngx_str_t                        name;
    ngx_uint_t                       object;    /* whose member it is */
} ngx_egress_json_field_t;


/*
 * Gets the value of a field, or, as field 0, of another member of the object
 * "any".  "key" is set for the latter and has no data where it is too long;
 * "text" is the decoded string or the number as it stands, and is gone when
 * the handler returns.  Anything but NGX_OK refuses the text, but the rest of
 * it is read.
 */
typedef ngx_int_t (*ngx_egress_json_pt)(void *data, ngx_uint_t field,
    ngx_str_t *key, ngx_uint_t type, ngx_str_t *text);


typedef struct {
    ngx_egress_json_field_t         *fields;    /* at most 32 */
    ngx_uint_t                       nfields;
    ngx_uint_t                       any;       /* see ngx_egress_json_pt */

    /* a member of the outermost object that is no field refuses the text */

    ngx_uint_t                       known;

    ngx_egress_json_pt               handler;
    void                            *data;

    /* what follows is set by ngx_egress_json_parse() */

    ngx_uint_t                       depth;
    ngx_uint_t                       object[3]; /* by depth, where told */
    ngx_uint_t                       field;
    uint32_t                         seen;
    ngx_str_t                        key;
    u_char                           buf[NGX_EGRESS_JSON_KEY];
    unsigned                         refused:1;
    unsigned                         closed:1;
} ngx_egress_json_t;


/*
 * Sets what ngx_egress_json_parse() is to tell: the fields alone, and of a
 * text that may have any others.  Who wants more sets "any" or "known" after
 * this.
 */
void ngx_egress_json_init(ngx_egress_json_t *json,
    ngx_egress_json_field_t *fields, ngx_uint_t nfields,
    ngx_egress_json_pt handler, void *data);

/*
 * Reads one strict JSON object, see ngx_egress_body.h for what that is, and
 * gives the handler what it asked for, in order.  A field that stands twice,
 * or is spelt in another case, refuses the text.
 *
 * Returns NGX_OK, NGX_DECLINED where the text is refused, or NGX_ABORT where
 * it is not UTF-8.
 */
ngx_int_t ngx_egress_json_parse(ngx_egress_json_t *json, ngx_str_t *text);

/* Behind the UTF-8 character (RFC 3629) at p, or NULL where there is none. */
u_char *ngx_egress_json_utf8(u_char *p, u_char *last);

/*
 * Tells a key that some server may take for the name: in any case, with a
 * letter beyond ASCII that has an ASCII one for its other case (U+0130, U+0131,
 * U+017F; no name has the "k" of U+212A), or with a zero behind it, which ends
 * the strings of C.
 */
ngx_uint_t ngx_egress_json_alike(ngx_str_t *name, u_char *text, size_t len);

/*
 * Appends text to the "len" octets at dst, as much of it as "size" leaves room
 * for and in printable ASCII: "?" stands for any other octet.
 */
void ngx_egress_json_printable(u_char *dst, size_t *len, size_t size,
    ngx_str_t *text);


#endif /* _NGX_EGRESS_JSON_H_INCLUDED_ */
