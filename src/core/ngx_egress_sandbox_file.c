
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <yajl/yajl_parse.h>


#define NGX_EGRESS_SANDBOX_SOURCES       64

#define NGX_EGRESS_SANDBOX_ROLE          0x01
#define NGX_EGRESS_SANDBOX_SHA256        0x02
#define NGX_EGRESS_SANDBOX_CIDRS         0x04
#define NGX_EGRESS_SANDBOX_EXPIRES       0x08
#define NGX_EGRESS_SANDBOX_PLACEHOLDERS  0x10
#define NGX_EGRESS_SANDBOX_REPOS         0x20

/* these have an object within, with a field for each binding */
#define NGX_EGRESS_SANDBOX_OBJECTS       0x30


/* one sandbox file, as it is read */

typedef struct {
    ngx_egress_sandbox_t          *box;
    ngx_uint_t                     seen;    /* NGX_EGRESS_SANDBOX_... */
    ngx_uint_t                     field;   /* the key before a value */
    ngx_uint_t                     depth;
    ngx_uint_t                     array;   /* unsigned  array:1; */
    ngx_egress_sandbox_binding_t  *bound;   /* the key within an object */
    const char                    *error;
} ngx_egress_sandbox_file_t;


static int ngx_egress_sandbox_refuse(ngx_egress_sandbox_file_t *file,
    const char *why);
static int ngx_egress_sandbox_no(void *ctx);
static int ngx_egress_sandbox_no_boolean(void *ctx, int value);
static int ngx_egress_sandbox_no_number(void *ctx, const char *text,
    size_t len);
static int ngx_egress_sandbox_string(void *ctx, const unsigned char *text,
    size_t len);
static int ngx_egress_sandbox_source(ngx_egress_sandbox_file_t *file,
    ngx_str_t *value);
static int ngx_egress_sandbox_within(ngx_egress_sandbox_file_t *file,
    ngx_str_t *value);
static int ngx_egress_sandbox_own_placeholder(ngx_egress_sandbox_file_t *file,
    ngx_str_t *value);
static int ngx_egress_sandbox_map(void *ctx);
static int ngx_egress_sandbox_key(void *ctx, const unsigned char *text,
    size_t len);
static int ngx_egress_sandbox_binding(ngx_egress_sandbox_file_t *file,
    ngx_str_t *name);
static int ngx_egress_sandbox_map_end(void *ctx);
static int ngx_egress_sandbox_array(void *ctx);
static int ngx_egress_sandbox_array_end(void *ctx);
static ngx_int_t ngx_egress_sandbox_hex(u_char *dst, ngx_str_t *text);
static time_t ngx_egress_sandbox_time(ngx_str_t *text);


static struct {
    ngx_str_t                 name;
    ngx_uint_t                field;
} ngx_egress_sandbox_fields[] = {
    { ngx_string("role"), NGX_EGRESS_SANDBOX_ROLE },
    { ngx_string("token_sha256"), NGX_EGRESS_SANDBOX_SHA256 },
    { ngx_string("sources"), NGX_EGRESS_SANDBOX_CIDRS },
    { ngx_string("expires"), NGX_EGRESS_SANDBOX_EXPIRES },
    { ngx_string("placeholders"), NGX_EGRESS_SANDBOX_PLACEHOLDERS },
    { ngx_string("repos"), NGX_EGRESS_SANDBOX_REPOS },
    { ngx_null_string, 0 }
};


/* anything else than the fields above, of their types, is an error */

static yajl_callbacks  ngx_egress_sandbox_callbacks = {
    ngx_egress_sandbox_no,
    ngx_egress_sandbox_no_boolean,
    NULL,
    NULL,
    ngx_egress_sandbox_no_number,
    ngx_egress_sandbox_string,
    ngx_egress_sandbox_map,
    ngx_egress_sandbox_key,
    ngx_egress_sandbox_map_end,
    ngx_egress_sandbox_array,
    ngx_egress_sandbox_array_end
};


const char *
ngx_egress_sandbox_parse(ngx_egress_sandbox_t *box, u_char *data, size_t len)
{
    ngx_str_t                  name;
    yajl_handle                parser;
    yajl_status                status;
    ngx_egress_sandbox_file_t  file;

    ngx_memzero(&file, sizeof(ngx_egress_sandbox_file_t));

    file.box = box;

    ngx_str_set(&name, "default");
    box->role = ngx_egress_role_find(box->conf, &name);

    if (ngx_array_init(&box->sources, box->pool, 1, sizeof(ngx_cidr_t))
        != NGX_OK
        || ngx_array_init(&box->bindings, box->pool, 1,
                          sizeof(ngx_egress_sandbox_binding_t))
           != NGX_OK)
    {
        return "can't be parsed without memory";
    }

    parser = yajl_alloc(&ngx_egress_sandbox_callbacks, NULL, &file);

    if (parser == NULL) {
        return "can't be parsed without memory";
    }

    status = yajl_parse(parser, data, len);

    if (status == yajl_status_ok) {
        status = yajl_complete_parse(parser);
    }

    yajl_free(parser);

    if (status != yajl_status_ok) {
        return file.error ? file.error : "is not JSON";
    }

    if (box->role == NULL) {
        return "names no role, and there is no role \"default\"";
    }

    box->has_token = ((file.seen & NGX_EGRESS_SANDBOX_SHA256) != 0);
    box->has_sources = ((file.seen & NGX_EGRESS_SANDBOX_CIDRS) != 0);

    return NULL;
}


static int
ngx_egress_sandbox_refuse(ngx_egress_sandbox_file_t *file, const char *why)
{
    file->error = why;

    return 0;
}


static int
ngx_egress_sandbox_no(void *ctx)
{
    return ngx_egress_sandbox_refuse(ctx, "has a null");
}


static int
ngx_egress_sandbox_no_boolean(void *ctx, int value)
{
    return ngx_egress_sandbox_refuse(ctx, "has a boolean");
}


static int
ngx_egress_sandbox_no_number(void *ctx, const char *text, size_t len)
{
    return ngx_egress_sandbox_refuse(ctx, "has a number");
}


static int
ngx_egress_sandbox_string(void *ctx, const unsigned char *text, size_t len)
{
    ngx_egress_sandbox_file_t *file = ctx;

    ngx_str_t              value;
    ngx_egress_sandbox_t  *box;

    box = file->box;

    value.data = (u_char *) text;
    value.len = len;

    if (file->depth == 2) {
        return ngx_egress_sandbox_within(file, &value);
    }

    if (file->array != (file->field == NGX_EGRESS_SANDBOX_CIDRS)
        || (file->field & NGX_EGRESS_SANDBOX_OBJECTS))
    {
        return ngx_egress_sandbox_refuse(file, "has a value of another type");
    }

    switch (file->field) {

    case NGX_EGRESS_SANDBOX_ROLE:
        box->role = ngx_egress_role_find(box->conf, &value);

        return box->role ? 1 : ngx_egress_sandbox_refuse(file,
                                                     "has an unknown role");

    case NGX_EGRESS_SANDBOX_SHA256:

        if (ngx_egress_sandbox_hex(box->token, &value) != NGX_OK) {
            return ngx_egress_sandbox_refuse(file,
                                             "has an invalid token_sha256");
        }

        return 1;

    case NGX_EGRESS_SANDBOX_EXPIRES:
        box->expires = ngx_egress_sandbox_time(&value);

        if (box->expires <= 0) {
            return ngx_egress_sandbox_refuse(file, "has invalid expires");
        }

        return 1;

    case NGX_EGRESS_SANDBOX_CIDRS:
        return ngx_egress_sandbox_source(file, &value);

    default:
        return ngx_egress_sandbox_refuse(file, "is not an object");
    }
}


static int
ngx_egress_sandbox_source(ngx_egress_sandbox_file_t *file, ngx_str_t *value)
{
    ngx_cidr_t   *cidr;
    ngx_array_t  *sources;

    sources = &file->box->sources;

    cidr = (sources->nelts < NGX_EGRESS_SANDBOX_SOURCES)
           ? ngx_array_push(sources) : NULL;

    if (cidr == NULL || ngx_ptocidr(value, cidr) == NGX_ERROR) {
        return ngx_egress_sandbox_refuse(file, "has invalid sources");
    }

    return 1;
}


/* of "placeholders" or "repos": what is said for one binding */

static int
ngx_egress_sandbox_within(ngx_egress_sandbox_file_t *file, ngx_str_t *value)
{
    ngx_str_t           text;
    ngx_egress_repo_t  *repo;

    if (file->array != (file->field == NGX_EGRESS_SANDBOX_REPOS)) {
        return ngx_egress_sandbox_refuse(file, "has a value of another type");
    }

    text.len = value->len;
    text.data = ngx_pnalloc(file->box->pool, value->len + 1);

    if (text.data == NULL) {
        return ngx_egress_sandbox_refuse(file,
                                         "can't be parsed without memory");
    }

    ngx_memcpy(text.data, value->data, value->len);

    if (file->field == NGX_EGRESS_SANDBOX_PLACEHOLDERS) {
        return ngx_egress_sandbox_own_placeholder(file, &text);
    }

    repo = ngx_array_push(file->bound->repos);

    if (repo == NULL || ngx_egress_repo_parse(repo, &text) != NGX_OK) {
        return ngx_egress_sandbox_refuse(file, "has an invalid repository");
    }

    return 1;
}


static int
ngx_egress_sandbox_own_placeholder(ngx_egress_sandbox_file_t *file,
    ngx_str_t *value)
{
    const char  *why;

    why = ngx_egress_placeholder_valid(value);

    if (why == NULL
        && ngx_egress_placeholder_taken(file->bound->binding, value))
    {
        why = "has a placeholder that overlaps with one of the configuration";
    }

    if (why) {
        return ngx_egress_sandbox_refuse(file, why);
    }

    file->bound->sn.str = *value;

    return 1;
}


static int
ngx_egress_sandbox_map(void *ctx)
{
    ngx_egress_sandbox_file_t *file = ctx;

    if (file->depth == 1 && !file->array
        && (file->field & NGX_EGRESS_SANDBOX_OBJECTS))
    {
        file->depth = 2;
        return 1;
    }

    if (file->depth) {
        return ngx_egress_sandbox_refuse(file, "has an object where none may "
                                         "be");
    }

    file->depth = 1;

    return 1;
}


static int
ngx_egress_sandbox_key(void *ctx, const unsigned char *text, size_t len)
{
    ngx_egress_sandbox_file_t *file = ctx;

    ngx_str_t   name;
    ngx_uint_t  i;

    if (file->depth == 2) {
        name.data = (u_char *) text;
        name.len = len;

        return ngx_egress_sandbox_binding(file, &name);
    }

    for (i = 0; ngx_egress_sandbox_fields[i].name.len; i++) {
        if (ngx_egress_sandbox_fields[i].name.len == len
            && ngx_memcmp(ngx_egress_sandbox_fields[i].name.data, text, len)
               == 0)
        {
            break;
        }
    }

    file->field = ngx_egress_sandbox_fields[i].field;

    if (file->field == 0) {
        return ngx_egress_sandbox_refuse(file, "has an unknown field");
    }

    if (file->seen & file->field) {
        return ngx_egress_sandbox_refuse(file, "has a field twice");
    }

    file->seen |= file->field;

    return 1;
}


static int
ngx_egress_sandbox_binding(ngx_egress_sandbox_file_t *file, ngx_str_t *name)
{
    ngx_uint_t                     i;
    ngx_egress_binding_t          *binding;
    ngx_egress_sandbox_binding_t  *bound;

    binding = ngx_egress_binding_find(file->box->conf, name);

    if (binding == NULL) {
        return ngx_egress_sandbox_refuse(file, "has an unknown binding");
    }

    bound = file->box->bindings.elts;

    for (i = 0; i < file->box->bindings.nelts; i++) {
        if (bound[i].binding == binding) {
            break;
        }
    }

    if (i == file->box->bindings.nelts) {

        bound = ngx_array_push(&file->box->bindings);

        if (bound == NULL) {
            return ngx_egress_sandbox_refuse(file, "can't be parsed without "
                                             "memory");
        }

        ngx_memzero(bound, sizeof(ngx_egress_sandbox_binding_t));

        bound->box = file->box;
        bound->binding = binding;

    } else {
        bound += i;
    }

    file->bound = bound;

    if (file->field == NGX_EGRESS_SANDBOX_PLACEHOLDERS) {
        return bound->sn.str.data == NULL
               ? 1 : ngx_egress_sandbox_refuse(file, "has a binding twice");
    }

    if (bound->repos) {
        return ngx_egress_sandbox_refuse(file, "has a binding twice");
    }

    /* an empty list is one, too: no repository at all */

    bound->repos = ngx_array_create(file->box->pool, 2,
                                    sizeof(ngx_egress_repo_t));

    return bound->repos ? 1 : ngx_egress_sandbox_refuse(file, "can't be "
                                                  "parsed without memory");
}


static int
ngx_egress_sandbox_map_end(void *ctx)
{
    ngx_egress_sandbox_file_t *file = ctx;

    file->depth--;

    return 1;
}


static int
ngx_egress_sandbox_array(void *ctx)
{
    ngx_egress_sandbox_file_t *file = ctx;

    if (file->array
        || !((file->depth == 1 && file->field == NGX_EGRESS_SANDBOX_CIDRS)
             || (file->depth == 2
                 && file->field == NGX_EGRESS_SANDBOX_REPOS)))
    {
        return ngx_egress_sandbox_refuse(file, "has an array where none may "
                                         "be");
    }

    file->array = 1;

    return 1;
}


static int
ngx_egress_sandbox_array_end(void *ctx)
{
    ngx_egress_sandbox_file_t *file = ctx;

    file->array = 0;

    return 1;
}


static ngx_int_t
ngx_egress_sandbox_hex(u_char *dst, ngx_str_t *text)
{
    size_t     i;
    ngx_int_t  n;

    if (text->len != 2 * NGX_EGRESS_SANDBOX_TOKEN) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_EGRESS_SANDBOX_TOKEN; i++) {
        n = ngx_hextoi(text->data + 2 * i, 2);

        if (n == NGX_ERROR) {
            return NGX_ERROR;
        }

        dst[i] = (u_char) n;
    }

    return NGX_OK;
}


/* RFC 3339, 5.6; seconds since the epoch, or -1 */

static time_t
ngx_egress_sandbox_time(ngx_str_t *text)
{
    int          hours, minutes, n;
    char         buf[40], sign[2];
    time_t       t;
    struct tm    tm;

    if (text->len < sizeof("1970-01-01T00:00:00Z") - 1
        || text->len >= sizeof(buf)
        || ngx_strlchr(text->data, text->data + text->len, '\0'))
    {
        return -1;
    }

    ngx_memcpy(buf, text->data, text->len);
    buf[text->len] = '\0';

    ngx_memzero(&tm, sizeof(struct tm));
    n = 0;

    if (sscanf(buf, "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%2d%n", &tm.tm_year,
               &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
               &n)
        != 6
        || n != sizeof("1970-01-01T00:00:00") - 1
        || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1
        || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59
        || tm.tm_sec > 60)
    {
        return -1;
    }

    if (buf[n] == '.') {
        n++;
        n += strspn(buf + n, "0123456789");
    }

    hours = 0;
    minutes = 0;
    sign[0] = '+';

    if (ngx_strcasecmp((u_char *) buf + n, (u_char *) "z") != 0
        && (strlen(buf + n) != sizeof("+00:00") - 1
            || sscanf(buf + n, "%1[+-]%2d:%2d", sign, &hours, &minutes)
               != 3
            || hours > 23 || minutes > 59))
    {
        return -1;
    }

    tm.tm_year -= 1900;
    tm.tm_mon--;

    t = timegm(&tm);

    if (t == (time_t) -1) {
        return -1;
    }

    n = hours * 3600 + minutes * 60;

    return (sign[0] == '-') ? t + n : t - n;
}
