
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Runs the parsers of src/inspect over a file of test vectors, one JSON object
 * a line, and prints TAP: vectors KIND FILE.jsonl
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_host.h"
#include "ngx_egress_target.h"
#include "ngx_egress_authorization.h"
#include "ngx_egress_git.h"
#include "vectors.h"


typedef ngx_int_t (*ngx_vectors_pt)(ngx_vectors_t *v);


typedef struct {
    char            *name;
    ngx_vectors_pt   run;
} ngx_vectors_kind_t;


static ngx_int_t ngx_vectors_file(FILE *f, ngx_vectors_kind_t *kind);
static ngx_int_t ngx_vectors_line(char *text, ngx_vectors_kind_t *kind,
    ngx_uint_t n);

static ngx_int_t ngx_vectors_host(ngx_vectors_t *v);
static ngx_int_t ngx_vectors_target(ngx_vectors_t *v);
static ngx_int_t ngx_vectors_override(ngx_vectors_t *v);
static ngx_int_t ngx_vectors_authorization(ngx_vectors_t *v);
static char *ngx_vectors_credential(ngx_vectors_t *v, ngx_str_t *value,
    ngx_str_t *out);
static ngx_uint_t ngx_vectors_is_header(char *header, char *name);
static ngx_int_t ngx_vectors_git(ngx_vectors_t *v);
static ngx_uint_t ngx_vectors_is_git(ngx_str_t *path);
static ngx_int_t ngx_vectors_repo(ngx_vectors_t *v, const char *name,
    ngx_str_t *got);
static ngx_uint_t ngx_vectors_ends(ngx_str_t *str, const char *text);


static ngx_vectors_kind_t  ngx_vectors_kinds[] = {
    { "hosts", ngx_vectors_host },
    { "targets", ngx_vectors_target },
    { "overrides", ngx_vectors_override },
    { "authorization", ngx_vectors_authorization },
    { "git", ngx_vectors_git },
    { "lfs", ngx_vectors_git },
    { "clienthello", ngx_vectors_client_hello },
    { "connect", ngx_vectors_connect },
    { "socks5", ngx_vectors_socks5 },
    { "addresses", ngx_vectors_address },
    { "redact", ngx_vectors_redact },
    { "graphql_document", ngx_vectors_graphql_document },
    { "graphql", ngx_vectors_graphql },
    { "jsonrpc", ngx_vectors_json_rpc },
    { "bodies", ngx_vectors_bodies },
    { NULL, NULL }
};


int
main(int argc, char *const *argv)
{
    FILE                *f;
    ngx_int_t            rc;
    ngx_vectors_kind_t  *kind;

    if (argc != 3) {
        ngx_vectors_die("usage: vectors KIND FILE.jsonl");
    }

    for (kind = ngx_vectors_kinds; kind->name; kind++) {
        if (strcmp(kind->name, argv[1]) == 0) {
            break;
        }
    }

    if (kind->name == NULL) {
        ngx_vectors_die("unknown kind of vectors");
    }

    f = fopen(argv[2], "r");
    if (f == NULL) {
        ngx_vectors_die("cannot open the file of vectors");
    }

    rc = ngx_vectors_file(f, kind);

    fclose(f);

    return (rc == NGX_OK) ? 0 : 1;
}


static ngx_int_t
ngx_vectors_file(FILE *f, ngx_vectors_kind_t *kind)
{
    char        *text;
    size_t       size;
    ngx_int_t    rc;
    ngx_uint_t   n;

    n = 0;
    rc = NGX_OK;
    text = NULL;
    size = 0;

    while (getline(&text, &size, f) != -1) {

        if (text[strspn(text, " \r\n")] == '\0') {
            continue;
        }

        if (ngx_vectors_line(text, kind, ++n) != NGX_OK) {
            rc = NGX_ERROR;
        }

        ngx_vectors_free();
    }

    if (ferror(f)) {
        ngx_vectors_die("cannot read the file of vectors");
    }

    free(text);

    printf("1..%lu\n", (unsigned long) n);

    return (n == 0) ? NGX_ERROR : rc;
}


static ngx_int_t
ngx_vectors_line(char *text, ngx_vectors_kind_t *kind, ngx_uint_t n)
{
    char           *id;
    ngx_int_t       rc;
    ngx_vectors_t   v;
    char            error[NGX_VECTORS_TEXT];

    ngx_memzero(&v, sizeof(ngx_vectors_t));

    ngx_vectors_zero(text);

    v.line = yajl_tree_parse(text, error, sizeof(error));

    if (v.line == NULL) {
        printf("not ok %lu - line %lu: %s\n", (unsigned long) n,
               (unsigned long) n, "no JSON");
        return NGX_ERROR;
    }

    id = ngx_vectors_string(v.line, "id");
    if (id == NULL) {
        ngx_vectors_die("a vector has no id");
    }

    rc = kind->run(&v);

    if (rc != NGX_OK) {
        printf("not ok %lu - %s: got %s, want %s\n", (unsigned long) n, id,
               v.got, v.want);

    } else if (v.skip) {
        printf("ok %lu - %s # SKIP %s\n", (unsigned long) n, id, v.skip);

    } else {
        printf("ok %lu - %s\n", (unsigned long) n, id);
    }

    yajl_tree_free(v.line);

    return rc;
}


static ngx_int_t
ngx_vectors_host(ngx_vectors_t *v)
{
    char               *form, *name;
    yajl_val            want, port;
    ngx_int_t           rc;
    ngx_str_t           in, str;
    ngx_uint_t          type, ok;
    sa_family_t         family;
    ngx_egress_host_t   host;
    u_char              addr[16];

    form = ngx_vectors_string(v->line, "form");
    port = ngx_vectors_get(v->line, "port_default");
    want = ngx_vectors_get(v->line, "want");

    if (form == NULL || !YAJL_IS_INTEGER(port) || want == NULL
        || ngx_vectors_bytes(v->line, "in", &in) != NGX_OK)
    {
        ngx_vectors_die("a host vector lacks a field");
    }

    type = (strcmp(form, "host") == 0) ? NGX_EGRESS_HOST_AUTHORITY
           : (strcmp(form, "connect") == 0) ? NGX_EGRESS_HOST_CONNECT
           : NGX_EGRESS_HOST_NAME;

    ngx_memset(&host, 0xff, sizeof(ngx_egress_host_t));

    rc = ngx_egress_host_parse(&in, type,
                               (in_port_t) YAJL_GET_INTEGER(port), &host);

    ok = YAJL_IS_TRUE(ngx_vectors_get(want, "ok"));

    ngx_vectors_text(v->got, (rc == NGX_OK) ? "ok" : "malformed");
    ngx_vectors_text(v->want, ok ? "ok" : "malformed");

    if (!ok) {
        return (rc == NGX_ERROR) ? NGX_OK : NGX_ERROR;
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    name = ngx_vectors_string(want, "host");
    port = ngx_vectors_get(want, "port");

    if (name == NULL || !YAJL_IS_INTEGER(port)) {
        ngx_vectors_die("a host vector lacks a wanted field");
    }

    str.data = host.name;
    str.len = host.len;
    ngx_vectors_show(v->got, "name", &str);

    str.data = (u_char *) name;
    str.len = strlen(name);
    ngx_vectors_show(v->want, "name", &str);

    family = AF_UNSPEC;

    if (YAJL_IS_TRUE(ngx_vectors_get(want, "ip"))) {

        family = strchr(name, ':') ? AF_INET6 : AF_INET;

        if (inet_pton(family, name, addr) != 1) {
            ngx_vectors_die("a host vector wants no address");
        }

        if (memcmp(addr, host.addr, (family == AF_INET) ? 4 : 16) != 0) {
            return NGX_ERROR;
        }

    } else if (strcmp(name, (char *) host.name) != 0
               || host.len != strlen(name))
    {
        return NGX_ERROR;
    }

    (void) snprintf((char *) v->got, NGX_VECTORS_TEXT, "family %d port %d",
                    host.family, host.port);
    (void) snprintf((char *) v->want, NGX_VECTORS_TEXT, "family %d port %d",
                    family, (int) YAJL_GET_INTEGER(port));

    return (host.family == family && host.port == YAJL_GET_INTEGER(port))
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_vectors_target(ngx_vectors_t *v)
{
    char                 *want, *got;
    u_char               *buf;
    ngx_int_t             rc;
    ngx_str_t             raw;
    ngx_egress_target_t   target;

    want = ngx_vectors_string(v->line, "want");

    if (want == NULL || ngx_vectors_bytes(v->line, "target", &raw) != NGX_OK) {
        ngx_vectors_die("a target vector lacks a field");
    }

    buf = ngx_vectors_alloc(3 * raw.len);

    rc = ngx_egress_target_parse(&raw, buf, &target);

    got = (rc == NGX_OK) ? "ok" : (rc == NGX_DECLINED) ? "403" : "400";

    if (rc == NGX_OK) {

        if (target.encoded_slash
            && !YAJL_IS_TRUE(ngx_vectors_get(v->line, "encoded_slash")))
        {
            got = "403";
        }

        if (ngx_egress_target_overrides(&target.query)) {
            got = "403";
        }
    }

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, want);

    return (strcmp(got, want) == 0) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_vectors_override(ngx_vectors_t *v)
{
    yajl_val    want;
    ngx_str_t   query;
    ngx_uint_t  got;

    want = ngx_vectors_get(v->line, "want");

    if (want == NULL || ngx_vectors_bytes(v->line, "query", &query) != NGX_OK) {
        ngx_vectors_die("an override vector lacks a field");
    }

    got = ngx_egress_target_overrides(&query);

    ngx_vectors_text(v->got, got ? "an override" : "none");
    ngx_vectors_text(v->want, YAJL_IS_TRUE(want) ? "an override" : "none");

    return (got == (ngx_uint_t) (YAJL_IS_TRUE(want) ? 1 : 0))
           ? NGX_OK : NGX_ERROR;
}


/* does what the gateway does with a field that a binding may name */

static ngx_int_t
ngx_vectors_authorization(ngx_vectors_t *v)
{
    char       *header, *name, *got, *result;
    yajl_val    want, rule, values;
    ngx_int_t   rc;
    ngx_str_t   value, out, expected;

    header = ngx_vectors_string(v->line, "header");
    rule = ngx_vectors_get(v->line, "rule");
    values = ngx_vectors_get(v->line, "values");
    want = ngx_vectors_get(v->line, "want");
    result = ngx_vectors_string(want, "result");
    name = rule ? ngx_vectors_string(rule, "name") : "Authorization";

    if (header == NULL || result == NULL || name == NULL) {
        ngx_vectors_die("an authorization vector lacks a field");
    }

    ngx_str_null(&out);

    rc = ngx_vectors_bytes(v->line, "value", &value);

    if (!ngx_vectors_is_header(header, name)) {
        got = "none";
        out = value;

    } else if (values) {

        /* a field that stands twice never gets to the parser */

        got = YAJL_IS_ARRAY(values) && YAJL_GET_ARRAY(values)->len > 1
              ? "malformed" : "no array of values";

    } else if (rc != NGX_OK) {
        got = "none";

    } else {
        got = ngx_vectors_credential(v, &value, &out);
    }

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, result);

    if (strcmp(got, result) != 0) {
        return NGX_ERROR;
    }

    if (ngx_vectors_bytes(want, "out", &expected) != NGX_OK) {
        ngx_str_null(&expected);
    }

    ngx_vectors_show(v->got, got, &out);
    ngx_vectors_show(v->want, result, &expected);

    return ngx_vectors_eq(&out, &expected) ? NGX_OK : NGX_ERROR;
}


static char *
ngx_vectors_credential(ngx_vectors_t *v, ngx_str_t *value, ngx_str_t *out)
{
    size_t                       len;
    u_char                      *buf, *scratch, *end;
    yajl_val                     rule;
    ngx_int_t                    rc;
    ngx_str_t                    placeholder, secret, prefix, suffix;
    ngx_uint_t                   user, password;
    ngx_egress_authorization_t   auth;

    rule = ngx_vectors_get(v->line, "rule");

    if (ngx_vectors_bytes(v->line, "placeholder", &placeholder) != NGX_OK
        || ngx_vectors_bytes(v->line, "secret", &secret) != NGX_OK)
    {
        ngx_vectors_die("an authorization vector lacks a field");
    }

    ngx_str_null(&prefix);
    ngx_str_null(&suffix);

    if (rule) {
        (void) ngx_vectors_bytes(rule, "prefix", &prefix);
        (void) ngx_vectors_bytes(rule, "suffix", &suffix);
    }

    if (prefix.len || suffix.len
        || (rule && !ngx_vectors_is_header(ngx_vectors_string(rule, "name"),
                                           "Authorization")))
    {
        rc = ngx_egress_authorization_parse_affixed(value, &prefix, &suffix,
                                                    &auth);

    } else {
        buf = ngx_vectors_alloc(value->len);
        rc = ngx_egress_authorization_parse(value, buf, &auth);
    }

    if (rc == NGX_ERROR) {
        return "malformed";
    }

    *out = *value;

    if (rc == NGX_DECLINED) {
        return "foreign";
    }

    if (auth.form == NGX_EGRESS_AUTH_NONE) {
        return "none";
    }

    user = 0;
    password = 0;

    if (auth.form == NGX_EGRESS_AUTH_BASIC) {
        user = ngx_vectors_eq(&auth.user, &placeholder);
        password = ngx_vectors_eq(&auth.password, &placeholder);

        if (!user && !password) {
            return "foreign";
        }

    } else if (!ngx_vectors_eq(&auth.token, &placeholder)) {
        return "foreign";
    }

    len = ngx_egress_authorization_len(&auth, user, password, &secret);

    out->data = ngx_vectors_alloc(len);
    scratch = ngx_vectors_alloc(auth.user.len + auth.password.len
                                + 2 * secret.len + 1);

    end = ngx_egress_authorization_build(out->data, &auth, user, password,
                                         &secret, scratch);
    out->len = end - out->data;

    return (out->len == len) ? "swapped" : "another length than announced";
}


static ngx_uint_t
ngx_vectors_is_header(char *header, char *name)
{
    return name != NULL && strcasecmp(header, name) == 0;
}


static ngx_int_t
ngx_vectors_git(ngx_vectors_t *v)
{
    char                 *want, *got, *preset;
    u_char               *buf;
    ngx_int_t             rc;
    ngx_str_t             raw, method, type;
    ngx_uint_t            segments;
    ngx_egress_git_t      git;
    ngx_egress_target_t   target;

    want = ngx_vectors_string(v->line, "want");
    preset = ngx_vectors_string(v->line, "preset");

    if (want == NULL || preset == NULL
        || ngx_vectors_bytes(v->line, "method", &method) != NGX_OK
        || ngx_vectors_bytes(v->line, "target", &raw) != NGX_OK)
    {
        ngx_vectors_die("a git vector lacks a field");
    }

    (void) ngx_vectors_bytes(v->line, "content_type", &type);

    segments = (strcmp(preset, "github") == 0) ? 2 : 0;

    ngx_vectors_text(v->want, want);

    buf = ngx_vectors_alloc(3 * raw.len);

    if (ngx_egress_target_parse(&raw, buf, &target) != NGX_OK
        || ngx_egress_target_overrides(&target.query))
    {
        ngx_vectors_text(v->got, "refuse");
        return (strcmp(want, "refuse") == 0) ? NGX_OK : NGX_ERROR;
    }

    ngx_vectors_exact(&target.canonical);
    ngx_memset(&git, 0xff, sizeof(ngx_egress_git_t));

    rc = ngx_egress_git_classify(&method, &target.canonical, &target.query,
                                 &type, segments, &git);

    if (rc == NGX_DECLINED) {
        v->skip = "decided by rules";
        ngx_vectors_text(v->got, "no git path");
        return ngx_vectors_is_git(&target.canonical) ? NGX_ERROR : NGX_OK;
    }

    if (rc != NGX_OK) {
        ngx_vectors_text(v->got, "another result code");
        return NGX_ERROR;
    }

    if (ngx_vectors_repo(v, "owner", &git.owner) != NGX_OK
        || ngx_vectors_repo(v, "repo", &git.repo) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (git.kind == NGX_EGRESS_GIT_BATCH) {
        ngx_vectors_text(v->got, "a batch");
        ngx_vectors_text(v->want, want);

        if (git.class != NGX_EGRESS_UNKNOWN
            || !ngx_vectors_ends(&target.path, "/info/lfs/objects/batch"))
        {
            return NGX_ERROR;
        }

        /* the same with a method that no body makes a batch of */

        ngx_str_set(&method, "PUT");
        ngx_vectors_text(v->got, "a batch by PUT");

        rc = ngx_egress_git_classify(&method, &target.canonical,
                                     &target.query, &type, segments, &git);

        if (rc != NGX_OK || git.kind != NGX_EGRESS_GIT_LFS
            || git.class != NGX_EGRESS_UNKNOWN)
        {
            return NGX_ERROR;
        }

        return ngx_vectors_batch(v);
    }

    got = (git.class == NGX_EGRESS_READ) ? "read"
          : (git.class == NGX_EGRESS_WRITE) ? "write" : "refuse";

    ngx_vectors_text(v->got, got);
    ngx_vectors_text(v->want, want);

    return (strcmp(got, want) == 0) ? NGX_OK : NGX_ERROR;
}


/*
 * Tells what must not be taken for a web page, so that a classifier that
 * declines everything does not skip everything.
 */

static ngx_uint_t
ngx_vectors_is_git(ngx_str_t *path)
{
    ngx_str_t    str;
    ngx_uint_t   i;

    static const char  *tails[] = {
        "/info/refs", "/HEAD", "/objects/info/packs", "/git-upload-pack",
        "/git-receive-pack", "/git-upload-archive", NULL
    };

    for (i = 0; tails[i]; i++) {
        if (ngx_vectors_ends(path, tails[i])) {
            return 1;
        }
    }

    for (str = *path; str.len; str.len--) {
        if (ngx_vectors_ends(&str, ".git/")
            || ngx_vectors_ends(&str, "/info/lfs/"))
        {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_vectors_repo(ngx_vectors_t *v, const char *name, ngx_str_t *got)
{
    size_t     i;
    ngx_str_t  want, folded;

    if (ngx_vectors_bytes(v->line, name, &want) != NGX_OK) {
        return NGX_OK;
    }

    folded.len = got->len;
    folded.data = ngx_vectors_alloc(got->len);

    for (i = 0; i < got->len; i++) {
        folded.data[i] = ngx_tolower(got->data[i]);
    }

    ngx_vectors_show(v->got, (char *) name, &folded);
    ngx_vectors_show(v->want, (char *) name, &want);

    return ngx_vectors_eq(&folded, &want) ? NGX_OK : NGX_ERROR;
}


ngx_uint_t
ngx_vectors_eq(ngx_str_t *a, ngx_str_t *b)
{
    if (a->len != b->len) {
        return 0;
    }

    return a->len == 0 || memcmp(a->data, b->data, a->len) == 0;
}


static ngx_uint_t
ngx_vectors_ends(ngx_str_t *str, const char *text)
{
    size_t  len;

    len = strlen(text);

    return str->len >= len
           && memcmp(str->data + str->len - len, text, len) == 0;
}


void
ngx_vectors_show(u_char *dst, char *name, ngx_str_t *str)
{
    u_char   c, *last;
    size_t   i;

    last = dst + NGX_VECTORS_TEXT - 8;

    dst += snprintf((char *) dst, NGX_VECTORS_TEXT / 2, "%s \"", name);

    for (i = 0; i < str->len && dst < last; i++) {
        c = str->data[i];

        if (c > 0x1f && c < 0x7f && c != '#' && c != '\\' && c != '"') {
            *dst++ = c;

        } else {
            dst += snprintf((char *) dst, 5, "\\x%02x", c);
        }
    }

    *dst++ = '"';
    *dst = '\0';
}


void
ngx_vectors_text(u_char *dst, const char *text)
{
    (void) snprintf((char *) dst, NGX_VECTORS_TEXT, "%s", text);
}
