
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Input: an octet that tells how many segments name a repository, then lines:
 * the method, the request target and, if there is one, the Content-Type.
 */


#include "fuzz.h"
#include "ngx_egress_git.h"
#include "ngx_egress_target.h"


static const uint8_t *fuzz_git_line(ngx_str_t *str, const uint8_t *p,
    const uint8_t *last);
static void fuzz_git_classify(ngx_str_t *method, ngx_str_t *path,
    ngx_str_t *query, ngx_str_t *type, ngx_uint_t segments);
static void fuzz_git_known(ngx_str_t *method, ngx_str_t *path,
    ngx_str_t *query, ngx_uint_t segments, ngx_egress_git_t *git);
static ngx_uint_t fuzz_git_count(ngx_str_t *str, u_char c);
static ngx_uint_t fuzz_git_ends(ngx_str_t *str, const char *text);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char               *buf;
    ngx_str_t             method, raw, type, path, query;
    ngx_uint_t            segments;
    const uint8_t        *p, *last;
    ngx_egress_target_t   target;

    if (size == 0) {
        return 0;
    }

    segments = data[0] % 4;

    last = data + size;

    p = fuzz_git_line(&method, data + 1, last);
    p = fuzz_git_line(&raw, p, last);
    (void) fuzz_git_line(&type, p, last);

    buf = fuzz_alloc(3 * raw.len);

    /* a path that is not canonical never gets to the classifier */

    if (ngx_egress_target_parse(&raw, buf, &target) == NGX_OK) {

        fuzz_copy(&path, target.canonical.data, target.canonical.len);

        ngx_str_null(&query);

        if (target.query.data) {
            fuzz_copy(&query, target.query.data, target.query.len);
        }

        fuzz_git_classify(&method, &path, &query, &type, segments);

        free(query.data);
        free(path.data);
    }

    free(buf);
    free(type.data);
    free(raw.data);
    free(method.data);

    return 0;
}


/* takes a line off the input; one that is not there has no data */

static const uint8_t *
fuzz_git_line(ngx_str_t *str, const uint8_t *p, const uint8_t *last)
{
    const uint8_t  *end;

    ngx_str_null(str);

    if (p == NULL) {
        return NULL;
    }

    end = memchr(p, '\n', last - p);

    fuzz_copy(str, p, (end ? end : last) - p);

    return end ? end + 1 : NULL;
}


static void
fuzz_git_classify(ngx_str_t *method, ngx_str_t *path, ngx_str_t *query,
    ngx_str_t *type, ngx_uint_t segments)
{
    ngx_int_t         rc;
    ngx_egress_git_t  git;

    memset(&git, 0xff, sizeof(ngx_egress_git_t));

    rc = ngx_egress_git_classify(method, path, query, type, segments, &git);

    fuzz_require(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_DECLINED) {
        return;
    }

    fuzz_require(fuzz_inside(&git.owner, path));
    fuzz_require(fuzz_inside(&git.repo, path));
    fuzz_require(fuzz_git_count(&git.repo, '/') == 0);

    fuzz_require(git.kind == NGX_EGRESS_GIT_WIRE
                 || git.kind == NGX_EGRESS_GIT_LFS
                 || git.kind == NGX_EGRESS_GIT_BATCH);

    fuzz_require(git.kind != NGX_EGRESS_GIT_BATCH || fuzz_is(method, "POST"));

    switch (git.class) {

    case NGX_EGRESS_READ:
    case NGX_EGRESS_WRITE:
        fuzz_git_known(method, path, query, segments, &git);
        break;

    case NGX_EGRESS_UNKNOWN:
        break;

    default:
        __builtin_trap();
    }
}


/* what must hold before a request may pass as a read or as a write */

static void
fuzz_git_known(ngx_str_t *method, ngx_str_t *path, ngx_str_t *query,
    ngx_uint_t segments, ngx_egress_git_t *git)
{
    fuzz_require(git->operation != NULL);
    fuzz_require(git->repo.len);
    fuzz_require(git->kind != NGX_EGRESS_GIT_BATCH);

    fuzz_require(fuzz_is(method, "GET") || fuzz_is(method, "HEAD")
                 || fuzz_is(method, "POST") || fuzz_is(method, "PUT"));

    if (segments) {
        fuzz_require((git->owner.len ? fuzz_git_count(&git->owner, '/') + 2
                                     : 1)
                     == segments);
    }

    /* an operation that GET cannot have is never told from its query */

    if (fuzz_is(method, "GET") || fuzz_is(method, "HEAD")) {
        fuzz_require(git->class == NGX_EGRESS_READ
                     || fuzz_is(query, "service=git-receive-pack"));
    }

    if (git->kind != NGX_EGRESS_GIT_WIRE) {
        return;
    }

    fuzz_require(query->data == NULL
                 || (fuzz_git_ends(path, "/info/refs")
                     && (fuzz_is(query, "service=git-upload-pack")
                         || fuzz_is(query, "service=git-receive-pack")
                         || fuzz_is(query, "service=git-upload-archive"))));

    /* pushing is a write, whichever way it is asked for */

    if (fuzz_git_ends(path, "/git-receive-pack")
        || fuzz_is(query, "service=git-receive-pack"))
    {
        fuzz_require(git->class == NGX_EGRESS_WRITE);

    } else {
        fuzz_require(git->class == NGX_EGRESS_READ);
    }
}


static ngx_uint_t
fuzz_git_count(ngx_str_t *str, u_char c)
{
    size_t      i;
    ngx_uint_t  n;

    n = 0;

    for (i = 0; i < str->len; i++) {
        n += (str->data[i] == c);
    }

    return n;
}


static ngx_uint_t
fuzz_git_ends(ngx_str_t *str, const char *text)
{
    size_t  len;

    len = strlen(text);

    return str->len >= len
           && memcmp(str->data + str->len - len, text, len) == 0;
}
