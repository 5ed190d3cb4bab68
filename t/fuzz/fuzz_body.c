
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: an octet that chooses the inspector, then the body.  That of JSON-RPC
 * follows two lines, which are the fields Mcp-Method and Mcp-Name where they
 * are not empty.
 */


#include "fuzz.h"
#include "ngx_egress_body.h"
#include <yajl/yajl_tree.h>


typedef ngx_int_t (*fuzz_body_pt)(ngx_str_t *body, ngx_egress_body_t *b);


static void fuzz_body(fuzz_body_pt inspect, const uint8_t *data, size_t size);
static void fuzz_body_query(const uint8_t *data, size_t size);
static void fuzz_body_json_rpc(const uint8_t *data, size_t size,
    ngx_uint_t all);
static const uint8_t *fuzz_body_field(ngx_egress_body_field_t *field,
    const uint8_t *p, const uint8_t *last);
static void fuzz_body_told(ngx_int_t rc, ngx_egress_body_t *b);
static yajl_val fuzz_body_tree(ngx_str_t *body);
static yajl_val fuzz_body_member(yajl_val tree, const char *name);
static void fuzz_body_graphql(yajl_val tree, ngx_egress_body_t *b);
static void fuzz_body_lfs(yajl_val tree, ngx_egress_body_t *b);
static void fuzz_body_message(yajl_val tree, ngx_egress_body_field_t *method,
    ngx_egress_body_field_t *name, ngx_uint_t all, ngx_egress_body_t *b);
static ngx_uint_t fuzz_body_read(const char *method);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }

    switch (data[0] % 8) {

    case 0:
        fuzz_body(ngx_egress_graphql_body, data + 1, size - 1);
        break;

    case 1:
        fuzz_body_query(data + 1, size - 1);
        break;

    case 2:
        fuzz_body(ngx_egress_lfs_body, data + 1, size - 1);
        break;

    default:
        fuzz_body_json_rpc(data + 1, size - 1, data[0] % 8 == 4);
    }

    return 0;
}


static void
fuzz_body(fuzz_body_pt inspect, const uint8_t *data, size_t size)
{
    yajl_val           tree;
    ngx_int_t          rc;
    ngx_str_t          body;
    ngx_egress_body_t  b;

    fuzz_copy(&body, data, size);
    memset(&b, 0xff, sizeof(ngx_egress_body_t));

    rc = inspect(&body, &b);

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED || rc == NGX_ABORT);
    fuzz_body_told(rc, &b);

    if (rc == NGX_OK) {
        tree = fuzz_body_tree(&body);

        if (inspect == ngx_egress_lfs_body) {
            fuzz_body_lfs(tree, &b);

        } else {
            fuzz_body_graphql(tree, &b);
        }

        yajl_tree_free(tree);
    }

    free(body.data);
}


/* what is a read in a query string is one in a body, if it names a document */

static void
fuzz_body_query(const uint8_t *data, size_t size)
{
    u_char             *buf;
    size_t              i;
    ngx_int_t           rc;
    ngx_str_t           query;
    ngx_egress_body_t   b;

    fuzz_copy(&query, data, size);
    memset(&b, 0xff, sizeof(ngx_egress_body_t));

    buf = fuzz_alloc(size);

    rc = ngx_egress_graphql_query(&query, buf, &b);

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED);
    fuzz_body_told(rc, &b);

    if (rc == NGX_OK) {
        fuzz_require((b.operation_len == 0) == (size == 0));

        for (i = 0; i < size; i++) {
            fuzz_require(data[i] != ';' && data[i] != '\0');
        }
    }

    free(buf);
    free(query.data);
}


static void
fuzz_body_json_rpc(const uint8_t *data, size_t size, ngx_uint_t all)
{
    yajl_val                  tree;
    ngx_int_t                 rc;
    ngx_str_t                 body, tool;
    ngx_array_t               tools;
    const uint8_t            *p, *last;
    ngx_egress_body_t         b;
    ngx_egress_body_field_t   method, name;

    last = data + size;

    p = fuzz_body_field(&method, data, last);
    p = fuzz_body_field(&name, p, last);

    fuzz_copy(&body, p, last - p);

    ngx_str_set(&tool, "get_file");

    memset(&tools, 0, sizeof(ngx_array_t));
    tools.elts = &tool;
    tools.nelts = 1;

    memset(&b, 0xff, sizeof(ngx_egress_body_t));

    rc = ngx_egress_json_rpc_body(&body, &tools, all, &method, &name, &b);

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED || rc == NGX_ABORT
                 || rc == NGX_ERROR);
    fuzz_body_told(rc, &b);

    if (rc == NGX_OK) {
        tree = fuzz_body_tree(&body);
        fuzz_body_message(tree, &method, &name, all, &b);
        yajl_tree_free(tree);
    }

    fuzz_require(rc != NGX_ERROR || method.value.data || name.value.data);

    free(method.value.data);
    free(name.value.data);
    free(body.data);
}


static const uint8_t *
fuzz_body_field(ngx_egress_body_field_t *field, const uint8_t *p,
    const uint8_t *last)
{
    const uint8_t  *end;

    memset(field, 0, sizeof(ngx_egress_body_field_t));

    end = memchr(p, '\n', last - p);

    if (end == NULL) {
        return p;
    }

    if (end != p) {
        fuzz_copy(&field->value, p, end - p);
        field->count = 1;
    }

    return end + 1;
}


/* what holds whatever the body was */

static void
fuzz_body_told(ngx_int_t rc, ngx_egress_body_t *b)
{
    char                     error[64];
    char                     id[NGX_EGRESS_BODY_ID + 1];
    size_t                   i;
    yajl_val                 val;
    ngx_egress_body_repo_t  *repo;

    if (rc == NGX_OK) {
        fuzz_require(b->class == NGX_EGRESS_READ
                     || b->class == NGX_EGRESS_WRITE);
        fuzz_require(!b->tool_refused || b->class == NGX_EGRESS_WRITE);

    } else {
        fuzz_require(b->class == NGX_EGRESS_UNKNOWN && !b->tool_refused);
    }

    fuzz_require(b->operation_len <= NGX_EGRESS_BODY_OPERATION);

    for (i = 0; i < b->operation_len; i++) {
        fuzz_require(b->operation[i] >= ' ' && b->operation[i] <= '~');
    }

    /* an id is a value of JSON by itself */

    fuzz_require(b->id_len <= NGX_EGRESS_BODY_ID);

    if (b->id_len) {
        memcpy(id, b->id, b->id_len);
        id[b->id_len] = '\0';

        fuzz_require(strlen(id) == b->id_len);

        val = yajl_tree_parse(id, error, sizeof(error));

        fuzz_require(YAJL_IS_NUMBER(val) || YAJL_IS_STRING(val));

        yajl_tree_free(val);
    }

    fuzz_require(b->nrepos <= NGX_EGRESS_GRAPHQL_REPOS);

    for (i = 0; i < b->nrepos; i++) {
        repo = &b->repos[i];

        fuzz_require(repo->owner_len <= NGX_EGRESS_GRAPHQL_NAME);
        fuzz_require(repo->name_len <= NGX_EGRESS_GRAPHQL_NAME);
        fuzz_require((repo->owner_len == 0) == (repo->name_len == 0));
    }
}


/* yajl's own tree, which takes the octets up to the first zero */

static yajl_val
fuzz_body_tree(ngx_str_t *body)
{
    char      *text;
    yajl_val   tree;
    char       error[64];

    text = fuzz_alloc(body->len + 1);
    memcpy(text, body->data, body->len);
    text[body->len] = '\0';

    fuzz_require(strlen(text) == body->len);

    /* UTF-8 is checked again by yajl, and so is what stands behind */

    tree = yajl_tree_parse(text, error, sizeof(error));

    fuzz_require(YAJL_IS_OBJECT(tree));

    free(text);

    return tree;
}


/* the one member of a name in any case; NULL where there is none */

static yajl_val
fuzz_body_member(yajl_val tree, const char *name)
{
    size_t    i;
    yajl_val  found;

    found = NULL;

    for (i = 0; i < YAJL_GET_OBJECT(tree)->len; i++) {

        if (strcasecmp(YAJL_GET_OBJECT(tree)->keys[i], name) != 0) {
            continue;
        }

        fuzz_require(found == NULL);
        fuzz_require(strcmp(YAJL_GET_OBJECT(tree)->keys[i], name) == 0);

        found = YAJL_GET_OBJECT(tree)->values[i];
    }

    return found;
}


static void
fuzz_body_graphql(yajl_val tree, ngx_egress_body_t *b)
{
    char                  *text;
    yajl_val               query, val;
    ngx_egress_graphql_t   g;

    query = fuzz_body_member(tree, "query");

    fuzz_require(YAJL_IS_STRING(query));

    text = YAJL_GET_STRING(query);

    /* by the document, wherever it stood */

    fuzz_require(ngx_egress_graphql_parse((u_char *) text, strlen(text), &g)
                 == NGX_OK);
    fuzz_require(g.class == b->class && g.nrepos == b->nrepos);
    fuzz_require(b->root_unknown == g.root_unknown);

    val = fuzz_body_member(tree, "operationName");
    fuzz_require(val == NULL || YAJL_IS_STRING(val) || YAJL_IS_NULL(val));

    val = fuzz_body_member(tree, "variables");
    fuzz_require(val == NULL || YAJL_IS_OBJECT(val) || YAJL_IS_NULL(val));
}


static void
fuzz_body_lfs(yajl_val tree, ngx_egress_body_t *b)
{
    yajl_val  val;

    val = fuzz_body_member(tree, "operation");

    fuzz_require(YAJL_IS_STRING(val));
    fuzz_require(strcmp(YAJL_GET_STRING(val), (b->class == NGX_EGRESS_READ)
                                              ? "download" : "upload")
                 == 0);
}


static void
fuzz_body_message(yajl_val tree, ngx_egress_body_field_t *method,
    ngx_egress_body_field_t *name, ngx_uint_t all, ngx_egress_body_t *b)
{
    char        *text;
    yajl_val     val, params;
    ngx_uint_t   listed;

    val = fuzz_body_member(tree, "jsonrpc");

    fuzz_require(YAJL_IS_STRING(val));
    fuzz_require(strcmp(YAJL_GET_STRING(val), "2.0") == 0);

    (void) fuzz_body_member(tree, "id");

    val = fuzz_body_member(tree, "method");

    if (val == NULL) {
        fuzz_require((fuzz_body_member(tree, "result") == NULL)
                     != (fuzz_body_member(tree, "error") == NULL));
        fuzz_require(b->class == NGX_EGRESS_READ);
        fuzz_require(method->value.data == NULL && name->value.data == NULL);
        return;
    }

    fuzz_require(YAJL_IS_STRING(val));

    text = YAJL_GET_STRING(val);

    fuzz_require(method->value.data == NULL || fuzz_is(&method->value, text)
                 || strncmp((char *) method->value.data, "=?base64?", 9) == 0);

    if (strcmp(text, "tools/call") != 0) {
        fuzz_require(b->class == NGX_EGRESS_READ && fuzz_body_read(text));
        return;
    }

    params = fuzz_body_member(tree, "params");
    fuzz_require(YAJL_IS_OBJECT(params));

    val = fuzz_body_member(params, "name");
    fuzz_require(YAJL_IS_STRING(val));

    text = YAJL_GET_STRING(val);

    listed = (strcmp(text, "get_file") == 0);

    /* the tree's strings may end at a zero before what was compared did */

    fuzz_require(!b->tool_refused || !all);
    fuzz_require(b->tool_refused || listed || all);
}


static ngx_uint_t
fuzz_body_read(const char *method)
{
    ngx_uint_t  i;

    static const char  *reads[] = {
        "initialize", "ping", "tools/list", "resources/list",
        "resources/read", "resources/templates/list", "prompts/list",
        "prompts/get", "completion/complete", "logging/setLevel", NULL
    };

    for (i = 0; reads[i]; i++) {
        if (strcmp(reads[i], method) == 0) {
            return 1;
        }
    }

    return strncmp(method, "notifications/", 14) == 0 && method[14];
}
