
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <yajl/yajl_parse.h>


#define NGX_EGRESS_SANDBOX_SOURCES  64
#define NGX_EGRESS_SANDBOX_TOKEN    32      /* octets of SHA-256 */

#define NGX_EGRESS_SANDBOX_ROLE     0x01
#define NGX_EGRESS_SANDBOX_SHA256   0x02
#define NGX_EGRESS_SANDBOX_CIDRS    0x04
#define NGX_EGRESS_SANDBOX_EXPIRES  0x08


/* one sandbox file, as it is read */

typedef struct {
    ngx_egress_conf_t        *conf;
    ngx_uint_t                seen;         /* NGX_EGRESS_SANDBOX_... */
    ngx_uint_t                field;        /* the key before a value */
    ngx_uint_t                depth;
    ngx_uint_t                array;        /* unsigned  array:1; */
    const char               *error;

    ngx_egress_role_t        *role;
    u_char                    token[NGX_EGRESS_SANDBOX_TOKEN];
    time_t                    expires;
    ngx_cidr_t                cidr[NGX_EGRESS_SANDBOX_SOURCES];
    ngx_array_t               sources;
} ngx_egress_sandbox_t;


static ngx_int_t ngx_egress_sandbox_read(ngx_egress_conf_t *ecf,
    ngx_str_t *id, ngx_egress_sandbox_t *sandbox, ngx_log_t *log);
static ngx_uint_t ngx_egress_sandbox_judge(ngx_egress_sandbox_t *sandbox,
    struct sockaddr *client, ngx_egress_role_t **role);
static ngx_uint_t ngx_egress_sandbox_id(ngx_str_t *id);
static ngx_uint_t ngx_egress_sandbox_source(ngx_egress_sandbox_t *sandbox,
    struct sockaddr *sockaddr);
static ngx_uint_t ngx_egress_sandbox_proved(ngx_egress_sandbox_t *sandbox,
    ngx_str_t *token);

static ngx_int_t ngx_egress_sandbox_parse(ngx_egress_sandbox_t *sandbox,
    u_char *data, size_t len);
static int ngx_egress_sandbox_refuse(ngx_egress_sandbox_t *sandbox,
    const char *why);
static int ngx_egress_sandbox_no(void *ctx);
static int ngx_egress_sandbox_no_boolean(void *ctx, int value);
static int ngx_egress_sandbox_no_number(void *ctx, const char *text,
    size_t len);
static int ngx_egress_sandbox_string(void *ctx, const unsigned char *text,
    size_t len);
static int ngx_egress_sandbox_map(void *ctx);
static int ngx_egress_sandbox_key(void *ctx, const unsigned char *text,
    size_t len);
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


ngx_uint_t
ngx_egress_identify(ngx_egress_conf_t *ecf, ngx_egress_identity_t *identity,
    struct sockaddr *client, ngx_egress_role_t **role, ngx_log_t *log)
{
    ngx_uint_t            reason;
    ngx_egress_sandbox_t  sandbox;

    *role = ecf->unidentified;
    identity->proved = 0;

    if (ecf->sandboxes.len == 0) {

        /* nobody has an identity, and whatever is claimed is of no use */

        return NGX_EGRESS_ALLOWED;
    }

    if (!identity->given && ecf->unidentified) {
        return NGX_EGRESS_ALLOWED;
    }

    *role = NULL;

    if (identity->user.data == NULL) {
        return NGX_EGRESS_PROXY_AUTH_REQUIRED;
    }

    if (ngx_egress_sandbox_read(ecf, &identity->user, &sandbox, log) != NGX_OK
        || !ngx_egress_sandbox_proved(&sandbox, &identity->token))
    {
        reason = NGX_EGRESS_SANDBOX_UNKNOWN;

    } else {
        reason = ngx_egress_sandbox_judge(&sandbox, client, role);
        identity->proved = (reason == NGX_EGRESS_ALLOWED);
    }

    ngx_explicit_memzero(sandbox.token, sizeof(sandbox.token));

    return reason;
}


ngx_uint_t
ngx_egress_vouch(ngx_egress_conf_t *ecf, ngx_str_t *id,
    struct sockaddr *client, ngx_egress_role_t **role, ngx_log_t *log)
{
    ngx_uint_t            reason;
    ngx_egress_sandbox_t  sandbox;

    *role = NULL;

    if (ecf->sandboxes.len == 0
        || ngx_egress_sandbox_read(ecf, id, &sandbox, log) != NGX_OK)
    {
        return NGX_EGRESS_SANDBOX_UNKNOWN;
    }

    reason = ngx_egress_sandbox_judge(&sandbox, client, role);

    ngx_explicit_memzero(sandbox.token, sizeof(sandbox.token));

    return reason;
}


/* what holds however a sandbox was told from others */

static ngx_uint_t
ngx_egress_sandbox_judge(ngx_egress_sandbox_t *sandbox,
    struct sockaddr *client, ngx_egress_role_t **role)
{
    if (!ngx_egress_sandbox_source(sandbox, client)) {
        return NGX_EGRESS_SANDBOX_UNKNOWN;
    }

    if (sandbox->expires && sandbox->expires <= ngx_time()) {
        return NGX_EGRESS_SANDBOX_EXPIRED;
    }

    *role = sandbox->role;

    return NGX_EGRESS_ALLOWED;
}


/* looked up by the name that was claimed, never by scanning (DESIGN 6.9) */

static ngx_int_t
ngx_egress_sandbox_read(ngx_egress_conf_t *ecf, ngx_str_t *id,
    ngx_egress_sandbox_t *sandbox, ngx_log_t *log)
{
    u_char           *p, name[NGX_MAX_PATH], text[NGX_EGRESS_SECRET_LEN];
    ssize_t           n;
    ngx_str_t         path;
    ngx_int_t         rc;
    ngx_file_info_t   fi;

    ngx_memzero(sandbox, sizeof(ngx_egress_sandbox_t));

    sandbox->conf = ecf;
    sandbox->sources.elts = sandbox->cidr;

    ngx_str_set(&path, "default");
    sandbox->role = ngx_egress_role_find(ecf, &path);

    if (!ngx_egress_sandbox_id(id)
        || ecf->sandboxes.len + id->len + sizeof("/.json") > NGX_MAX_PATH)
    {
        return NGX_ERROR;
    }

    p = ngx_sprintf(name, "%V/%V.json%Z", &ecf->sandboxes, id);

    path.data = name;
    path.len = p - name - 1;

    if (access((char *) name, F_OK) == -1 && ngx_errno == NGX_ENOENT) {

        /* no line in the error log for each guess of a client */

        return NGX_ERROR;
    }

    n = ngx_egress_file_read(log, "sandbox", &path, text, sizeof(text), 0, 0,
                             &fi);
    if (n < 0) {
        return NGX_ERROR;
    }

    rc = ngx_egress_sandbox_parse(sandbox, text, n);

    ngx_explicit_memzero(text, n);

    if (rc != NGX_OK) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "sandbox \"%V\" %s", &path,
                      sandbox->error);
    }

    return rc;
}


static ngx_uint_t
ngx_egress_sandbox_id(ngx_str_t *id)
{
    u_char  ch;
    size_t  i;

    if (id->len == 0 || id->len > NGX_EGRESS_SANDBOX_ID_LEN) {
        return 0;
    }

    for (i = 0; i < id->len; i++) {
        ch = id->data[i];

        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
            || (ch >= '0' && ch <= '9') || ch == '_'
            || (i && (ch == '.' || ch == '-')))
        {
            continue;
        }

        return 0;
    }

    return 1;
}


/* the hash is of a value with enough randomness: one round of it is enough */

static ngx_uint_t
ngx_egress_sandbox_proved(ngx_egress_sandbox_t *sandbox, ngx_str_t *token)
{
    int           equal;
    u_char        digest[EVP_MAX_MD_SIZE];
    unsigned int  n;

    if (!(sandbox->seen & NGX_EGRESS_SANDBOX_SHA256)
        || EVP_Digest(token->data, token->len, digest, &n, EVP_sha256(), NULL)
           != 1)
    {
        return 0;
    }

    equal = (CRYPTO_memcmp(digest, sandbox->token, sizeof(sandbox->token))
             == 0);

    ngx_explicit_memzero(digest, sizeof(digest));

    return equal;
}


static ngx_uint_t
ngx_egress_sandbox_source(ngx_egress_sandbox_t *sandbox,
    struct sockaddr *sockaddr)
{
    u_char  *addr;

    if (!(sandbox->seen & NGX_EGRESS_SANDBOX_CIDRS)) {
        return 1;
    }

    addr = ngx_egress_sockaddr_octets(sockaddr);

    return addr && ngx_egress_address_in(sockaddr->sa_family, addr,
                                         &sandbox->sources);
}


static ngx_int_t
ngx_egress_sandbox_parse(ngx_egress_sandbox_t *sandbox, u_char *data,
    size_t len)
{
    yajl_handle  parser;
    yajl_status  status;

    parser = yajl_alloc(&ngx_egress_sandbox_callbacks, NULL, sandbox);

    if (parser == NULL) {
        sandbox->error = "can't be parsed without memory";
        return NGX_ERROR;
    }

    status = yajl_parse(parser, data, len);

    if (status == yajl_status_ok) {
        status = yajl_complete_parse(parser);
    }

    yajl_free(parser);

    if (status != yajl_status_ok) {

        if (sandbox->error == NULL) {
            sandbox->error = "is not JSON";
        }

        return NGX_ERROR;
    }

    if (sandbox->role == NULL) {
        sandbox->error = "names no role, and there is no role \"default\"";
        return NGX_ERROR;
    }

    return NGX_OK;
}


static int
ngx_egress_sandbox_refuse(ngx_egress_sandbox_t *sandbox, const char *why)
{
    sandbox->error = why;

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
    ngx_egress_sandbox_t *sandbox = ctx;

    ngx_str_t  value;

    value.data = (u_char *) text;
    value.len = len;

    if (sandbox->array != (sandbox->field == NGX_EGRESS_SANDBOX_CIDRS)) {
        return ngx_egress_sandbox_refuse(sandbox, "has a value of another "
                                         "type");
    }

    switch (sandbox->field) {

    case NGX_EGRESS_SANDBOX_ROLE:
        sandbox->role = ngx_egress_role_find(sandbox->conf, &value);

        if (sandbox->role == NULL) {
            return ngx_egress_sandbox_refuse(sandbox, "has an unknown role");
        }

        return 1;

    case NGX_EGRESS_SANDBOX_SHA256:

        if (ngx_egress_sandbox_hex(sandbox->token, &value) != NGX_OK) {
            return ngx_egress_sandbox_refuse(sandbox,
                                             "has an invalid token_sha256");
        }

        return 1;

    case NGX_EGRESS_SANDBOX_EXPIRES:
        sandbox->expires = ngx_egress_sandbox_time(&value);

        if (sandbox->expires <= 0) {
            return ngx_egress_sandbox_refuse(sandbox, "has invalid expires");
        }

        return 1;

    case NGX_EGRESS_SANDBOX_CIDRS:

        if (sandbox->sources.nelts == NGX_EGRESS_SANDBOX_SOURCES
            || ngx_ptocidr(&value, &sandbox->cidr[sandbox->sources.nelts])
               == NGX_ERROR)
        {
            return ngx_egress_sandbox_refuse(sandbox, "has invalid sources");
        }

        sandbox->sources.nelts++;

        return 1;

    default:
        return ngx_egress_sandbox_refuse(sandbox, "is not an object");
    }
}


static int
ngx_egress_sandbox_map(void *ctx)
{
    ngx_egress_sandbox_t *sandbox = ctx;

    if (sandbox->depth++) {
        return ngx_egress_sandbox_refuse(sandbox, "has an object within");
    }

    return 1;
}


static int
ngx_egress_sandbox_key(void *ctx, const unsigned char *text, size_t len)
{
    ngx_egress_sandbox_t *sandbox = ctx;

    ngx_uint_t  i;

    for (i = 0; ngx_egress_sandbox_fields[i].name.len; i++) {
        if (ngx_egress_sandbox_fields[i].name.len == len
            && ngx_memcmp(ngx_egress_sandbox_fields[i].name.data, text, len)
               == 0)
        {
            break;
        }
    }

    sandbox->field = ngx_egress_sandbox_fields[i].field;

    if (sandbox->field == 0) {
        return ngx_egress_sandbox_refuse(sandbox, "has an unknown field");
    }

    if (sandbox->seen & sandbox->field) {
        return ngx_egress_sandbox_refuse(sandbox, "has a field twice");
    }

    sandbox->seen |= sandbox->field;

    return 1;
}


static int
ngx_egress_sandbox_map_end(void *ctx)
{
    return 1;
}


static int
ngx_egress_sandbox_array(void *ctx)
{
    ngx_egress_sandbox_t *sandbox = ctx;

    if (sandbox->array || sandbox->field != NGX_EGRESS_SANDBOX_CIDRS) {
        return ngx_egress_sandbox_refuse(sandbox, "has an array where none "
                                         "may be");
    }

    sandbox->array = 1;

    return 1;
}


static int
ngx_egress_sandbox_array_end(void *ctx)
{
    ngx_egress_sandbox_t *sandbox = ctx;

    sandbox->array = 0;

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


char *
ngx_egress_sandboxes(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ngx_str_t        *value;
    ngx_file_info_t   fi;

    if (ecf->sandboxes.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->sandboxes = value[1];

    if (ngx_conf_full_name(cf->cycle, &ecf->sandboxes, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_file_info(ecf->sandboxes.data, &fi) == NGX_FILE_ERROR
        || !ngx_is_dir(&fi))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "sandboxes \"%V\" is not a directory",
                           &ecf->sandboxes);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_egress_vouch_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    u_char      *p, *last;
    ngx_str_t   *value;
    ngx_uint_t   i;

    static ngx_str_t  unsafe[] = {
        ngx_string("http_"),
        ngx_string("arg_"),
        ngx_string("cookie_"),
        ngx_null_string
    };

    if (ecf == NULL || ecf->sandboxes.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_sandbox\" needs \"sandboxes\" in an "
                           "\"egress\" block before this one");
        return NGX_ERROR;
    }

    value = cf->args->elts;
    last = value[1].data + value[1].len;

    for (p = value[1].data; p < last; p++) {

        if (*p != '$') {
            continue;
        }

        if (p + 1 < last && p[1] == '{') {
            p++;
        }

        for (i = 0; unsafe[i].len; i++) {
            if ((size_t) (last - p - 1) >= unsafe[i].len
                && ngx_strncasecmp(p + 1, unsafe[i].data, unsafe[i].len) == 0)
            {
                ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                                   "\"egress_sandbox %V\": any client can "
                                   "write what it likes there, and so be any "
                                   "sandbox", &value[1]);
                return NGX_OK;
            }
        }
    }

    return NGX_OK;
}
