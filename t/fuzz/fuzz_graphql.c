
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: a document.  What is a read is read again by a scanner that knows
 * nothing but strings, comments and brackets, and by scanners that end strings
 * and comments where other servers do: none of them may find a definition that
 * the parser has not.
 */


#include "fuzz.h"
#include "ngx_egress_graphql.h"


typedef enum {
    fuzz_graphql_plain = 0,     /* as the specification has it */
    fuzz_graphql_lf,            /* CR ends no comment */
    fuzz_graphql_longest,       /* the last of many quotes end a string */
    fuzz_graphql_backslash,     /* many quotes make the backslash a plain one */
    fuzz_graphql_empty,         /* no block string is empty */
    fuzz_graphql_modes
} fuzz_graphql_mode_e;


/* definitions by what they start with */

typedef struct {
    ngx_uint_t  queries;
    ngx_uint_t  mutations;
    ngx_uint_t  subscriptions;
    ngx_uint_t  fragments;
} fuzz_graphql_count_t;


static ngx_int_t fuzz_graphql_parse(const uint8_t *data, size_t size,
    ngx_egress_graphql_t *g);
static void fuzz_graphql_inside(ngx_str_t *document, ngx_egress_graphql_t *g);
static void fuzz_graphql_around(const uint8_t *data, size_t size,
    ngx_int_t rc, ngx_egress_graphql_t *g);
static ngx_int_t fuzz_graphql_joined(const char *before, const uint8_t *data,
    size_t size, const char *after, ngx_egress_graphql_t *g);
static void fuzz_graphql_prefixes(const uint8_t *data, size_t size);
static void fuzz_graphql_scan(const uint8_t *p, const uint8_t *last,
    ngx_uint_t mode, fuzz_graphql_count_t *count);
static const uint8_t *fuzz_graphql_skip(const uint8_t *p,
    const uint8_t *last, ngx_uint_t mode);
static const uint8_t *fuzz_graphql_block(const uint8_t *p,
    const uint8_t *last, ngx_uint_t mode);
static size_t fuzz_graphql_quotes(const uint8_t *p, const uint8_t *last);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_int_t              rc;
    ngx_uint_t             mode, modes;
    ngx_egress_graphql_t   g;
    fuzz_graphql_count_t   count;

    rc = fuzz_graphql_parse(data, size, &g);

    fuzz_graphql_around(data, size, rc, &g);

    if (rc == NGX_DECLINED) {
        return 0;
    }

    modes = (g.class == NGX_EGRESS_READ) ? fuzz_graphql_modes : 1;

    for (mode = 0; mode < modes; mode++) {

        fuzz_graphql_scan(data, data + size, mode, &count);

        fuzz_require(count.queries == g.nqueries);
        fuzz_require(count.mutations == g.nmutations);
        fuzz_require(count.subscriptions == g.nsubscriptions);
        fuzz_require(count.fragments == g.nfragments);
    }

    if (g.class == NGX_EGRESS_READ) {
        fuzz_graphql_prefixes(data, size);
    }

    return 0;
}


static ngx_int_t
fuzz_graphql_parse(const uint8_t *data, size_t size, ngx_egress_graphql_t *g)
{
    ngx_int_t              rc;
    ngx_str_t              document;
    ngx_egress_graphql_t   again;

    fuzz_copy(&document, data, size);

    memset(g, 0xff, sizeof(ngx_egress_graphql_t));
    memset(&again, 0x55, sizeof(ngx_egress_graphql_t));

    rc = ngx_egress_graphql_parse(document.data, size, g);

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED);
    fuzz_require(ngx_egress_graphql_parse(document.data, size, &again) == rc);
    fuzz_require(memcmp(document.data, data, size) == 0);

    if (rc == NGX_OK) {
        fuzz_require(memcmp(g, &again, sizeof(ngx_egress_graphql_t)) == 0);
        fuzz_graphql_inside(&document, g);
    }

    free(document.data);

    return rc;
}


static void
fuzz_graphql_inside(ngx_str_t *document, ngx_egress_graphql_t *g)
{
    ngx_uint_t                 i, k, writes;
    ngx_egress_graphql_arg_t  *arg;

    writes = g->nmutations + g->nsubscriptions;

    fuzz_require(g->class == (writes ? NGX_EGRESS_WRITE : NGX_EGRESS_READ));
    fuzz_require(g->nqueries + writes > 0);

    fuzz_require(fuzz_is(&g->type, "query") ? writes == 0
                 : fuzz_is(&g->type, "mutation") ? g->nmutations > 0
                 : fuzz_is(&g->type, "subscription") && g->nsubscriptions > 0);

    fuzz_require(fuzz_inside(&g->name, document));
    fuzz_require(g->name.len <= NGX_EGRESS_GRAPHQL_OP);

    fuzz_require(g->nrepos <= NGX_EGRESS_GRAPHQL_REPOS);

    for (i = 0; i < g->nrepos; i++) {

        for (k = 0; k < 2; k++) {
            arg = k ? &g->repos[i].name : &g->repos[i].owner;

            if (arg->text.data == NULL) {
                fuzz_require(arg->text.len == 0 && !arg->variable);
                continue;
            }

            fuzz_require(arg->text.len <= NGX_EGRESS_GRAPHQL_NAME);
            fuzz_require(fuzz_inside(&arg->text, document));
            fuzz_require(memchr(arg->text.data, '\\', arg->text.len) == NULL);
            fuzz_require(memchr(arg->text.data, '"', arg->text.len) == NULL);

            /* the quotes, or the dollar or what is between it and the name */

            fuzz_require(arg->variable ? arg->text.len != 0
                                       : arg->text.data[-1] == '"');
        }
    }
}


/* what is put before or behind a document, and what it may change */

static void
fuzz_graphql_around(const uint8_t *data, size_t size, ngx_int_t rc,
    ngx_egress_graphql_t *g)
{
    ngx_egress_graphql_t  other;

    fuzz_require(fuzz_graphql_joined("", data, size, " ,\n\t", &other) == rc);
    fuzz_require(rc != NGX_OK || other.class == g->class);

    fuzz_require(fuzz_graphql_joined(" #\"\n\xef\xbb\xbf,", data, size, "",
                                     &other)
                 == rc);
    fuzz_require(rc != NGX_OK
                 || (other.class == g->class
                     && other.nrepos == g->nrepos
                     && other.root_unknown == g->root_unknown));

    if (rc != NGX_OK) {
        return;
    }

    fuzz_require(fuzz_graphql_joined("", data, size, "\nmutation{a}", &other)
                 == NGX_OK);
    fuzz_require(other.class == NGX_EGRESS_WRITE);
    fuzz_require(other.nmutations == g->nmutations + 1);

    fuzz_require(fuzz_graphql_joined("subscription{a}", data, size, "", &other)
                 == NGX_OK);
    fuzz_require(other.class == NGX_EGRESS_WRITE);

    fuzz_require(fuzz_graphql_joined("", data, size, "\n{a}", &other)
                 == NGX_OK);
    fuzz_require(other.class == g->class);

    fuzz_require(fuzz_graphql_joined("", data, size, "\n}", &other)
                 == NGX_DECLINED);
    fuzz_require(fuzz_graphql_joined("", data, size, "\n{", &other)
                 == NGX_DECLINED);
    fuzz_require(fuzz_graphql_joined("{a ", data, size, "", &other)
                 == NGX_DECLINED);
    fuzz_require(fuzz_graphql_joined("", data, size, "\ntype T{a:Int}", &other)
                 == NGX_DECLINED);
}


static ngx_int_t
fuzz_graphql_joined(const char *before, const uint8_t *data, size_t size,
    const char *after, ngx_egress_graphql_t *g)
{
    size_t      head, tail;
    uint8_t    *buf;
    ngx_int_t   rc;

    head = strlen(before);
    tail = strlen(after);

    buf = fuzz_alloc(head + size + tail + 1);

    memcpy(buf, before, head);

    if (size) {
        memcpy(buf + head, data, size);
    }

    memcpy(buf + head + size, after, tail);

    rc = fuzz_graphql_parse(buf, head + size + tail, g);

    free(buf);

    return rc;
}


/* a read holds no write that what comes behind it takes back */

static void
fuzz_graphql_prefixes(const uint8_t *data, size_t size)
{
    size_t                 cut, step;
    ngx_egress_graphql_t   g;

    step = size / 64 + 1;

    for (cut = 0; cut < size; cut += step) {
        if (fuzz_graphql_parse(data, cut, &g) == NGX_OK) {
            fuzz_require(g.class == NGX_EGRESS_READ);
        }
    }
}


static void
fuzz_graphql_scan(const uint8_t *p, const uint8_t *last, ngx_uint_t mode,
    fuzz_graphql_count_t *count)
{
    ngx_str_t       word;
    ngx_uint_t      depth, start;
    const uint8_t  *end;

    memset(count, 0, sizeof(fuzz_graphql_count_t));

    depth = 0;
    start = 1;

    while (p < last) {

        if (*p == '"' || *p == '#') {
            p = fuzz_graphql_skip(p, last, mode);
            continue;
        }

        if (strchr("{([", *p) && *p) {

            if (start && *p == '{') {
                count->queries++;
            }

            depth++;
            start = 0;

        } else if (strchr("})]", *p) && *p) {

            fuzz_require(depth > 0);

            depth--;
            start = (depth == 0 && *p == '}');

        } else if (ngx_tolower(*p) >= 'a' && ngx_tolower(*p) <= 'z'
                   && start)
        {
            for (end = p; end < last; end++) {
                if (ngx_tolower(*end) < 'a' || ngx_tolower(*end) > 'z') {
                    break;
                }
            }

            word.data = (u_char *) p;
            word.len = end - p;

            count->queries += fuzz_is(&word, "query");
            count->mutations += fuzz_is(&word, "mutation");
            count->subscriptions += fuzz_is(&word, "subscription");
            count->fragments += fuzz_is(&word, "fragment");

            start = 0;
            p = end;
            continue;
        }

        p++;
    }

    fuzz_require(depth == 0);
}


static const uint8_t *
fuzz_graphql_skip(const uint8_t *p, const uint8_t *last, ngx_uint_t mode)
{
    if (*p == '#') {
        while (p < last && *p != '\n'
               && (*p != '\r' || mode == fuzz_graphql_lf))
        {
            p++;
        }

        return p;
    }

    if (fuzz_graphql_quotes(p, last) >= 3) {
        return fuzz_graphql_block(p + 3, last, mode);
    }

    for (p++; p < last && *p != '"'; p++) {
        p += (*p == '\\');
    }

    return p + 1;
}


static const uint8_t *
fuzz_graphql_block(const uint8_t *p, const uint8_t *last, ngx_uint_t mode)
{
    size_t          n;
    const uint8_t  *start;

    start = p;

    while (p < last) {

        if (*p == '\\') {
            n = fuzz_graphql_quotes(p + 1, last);

            if (n == 3 || (n > 3 && mode != fuzz_graphql_backslash)) {
                p += 3;
            }

            p++;
            continue;
        }

        n = fuzz_graphql_quotes(p, last);

        if (n >= 3 && (p > start || mode != fuzz_graphql_empty)) {

            if (mode == fuzz_graphql_longest
                || mode == fuzz_graphql_backslash)
            {
                return p + ngx_min(n, 5);
            }

            return p + 3;
        }

        p += n ? n : 1;

        /* a quote takes the octet that follows it, a backslash too */

        if (n && mode == fuzz_graphql_longest) {
            p++;
        }
    }

    return p;
}


static size_t
fuzz_graphql_quotes(const uint8_t *p, const uint8_t *last)
{
    const uint8_t  *start;

    for (start = p; p < last && *p == '"'; p++) { /* void */ }

    return p - start;
}
