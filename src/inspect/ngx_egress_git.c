
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_git.h"


static ngx_int_t ngx_egress_git_split(ngx_str_t *path, ngx_uint_t segments,
    ngx_egress_git_t *git, ngx_str_t *tail);
static ngx_int_t ngx_egress_git_split_any(ngx_str_t *path, ngx_str_t *name,
    ngx_str_t *tail);
static ngx_int_t ngx_egress_git_split_fixed(ngx_str_t *path,
    ngx_uint_t segments, ngx_str_t *name, ngx_str_t *tail);
static ngx_uint_t ngx_egress_git_tail(ngx_str_t *tail);
static u_char *ngx_egress_git_last(ngx_str_t *path, const char *text);
static ngx_uint_t ngx_egress_git_name(ngx_str_t *name, ngx_egress_git_t *git);
static void ngx_egress_git_wire(ngx_str_t *method, ngx_str_t *tail,
    ngx_str_t *query, ngx_str_t *content_type, ngx_egress_git_t *git);
static void ngx_egress_git_discovery(ngx_str_t *query,
    ngx_egress_git_t *git);
static void ngx_egress_git_service(ngx_str_t *method, ngx_str_t *query,
    ngx_str_t *content_type, ngx_uint_t service, ngx_egress_git_t *git);
static ngx_uint_t ngx_egress_git_object(ngx_str_t *tail);
static ngx_uint_t ngx_egress_git_hex(u_char *p, u_char *last);
static void ngx_egress_git_lfs(ngx_str_t *method, ngx_str_t *tail,
    ngx_egress_git_t *git);
static void ngx_egress_git_lfs_lock(ngx_str_t *method, ngx_str_t *tail,
    ngx_egress_git_t *git);
static void ngx_egress_git_lfs_object(ngx_str_t *method, ngx_str_t *tail,
    ngx_egress_git_t *git);
static ngx_uint_t ngx_egress_git_reads(ngx_str_t *method);
static ngx_uint_t ngx_egress_git_eq(ngx_str_t *str, const char *text);
static ngx_uint_t ngx_egress_git_starts(ngx_str_t *str, const char *text);


/* the services of gitprotocol-http, and what each does */

static struct {
    const char  *name;
    const char  *query;
    const char  *type;
    ngx_uint_t   class;
} ngx_egress_git_services[] = {

    { "git-upload-pack",
      "service=git-upload-pack",
      "application/x-git-upload-pack-request",
      NGX_EGRESS_READ },

    { "git-receive-pack",
      "service=git-receive-pack",
      NULL,
      NGX_EGRESS_WRITE },

    { "git-upload-archive",
      "service=git-upload-archive",
      "application/x-git-upload-archive-request",
      NGX_EGRESS_READ },

    { NULL, NULL, NULL, 0 }
};


ngx_int_t
ngx_egress_git_classify(ngx_str_t *method, ngx_str_t *path,
    ngx_str_t *query, ngx_str_t *content_type, ngx_uint_t segments,
    ngx_egress_git_t *git)
{
    ngx_int_t  rc;
    ngx_str_t  tail;

    git->class = NGX_EGRESS_UNKNOWN;
    git->kind = NGX_EGRESS_GIT_WIRE;
    git->operation = NULL;
    git->owner.len = 0;
    git->owner.data = NULL;
    git->repo.len = 0;
    git->repo.data = NULL;

    rc = ngx_egress_git_split(path, segments, git, &tail);

    if (rc != NGX_OK) {

        /* NGX_ERROR: a git path, but not one that can be told for sure */

        return (rc == NGX_ERROR) ? NGX_OK : NGX_DECLINED;
    }

    if (ngx_egress_git_starts(&tail, "info/lfs/")) {
        tail.data += sizeof("info/lfs/") - 1;
        tail.len -= sizeof("info/lfs/") - 1;

        git->kind = NGX_EGRESS_GIT_LFS;

        ngx_egress_git_lfs(method, &tail, git);

        return NGX_OK;
    }

    ngx_egress_git_wire(method, &tail, query, content_type, git);

    return NGX_OK;
}


/*
 * Takes the path apart into the repository's name and the tail behind it.
 * NGX_DECLINED: no git path; NGX_ERROR: one that is not acceptable.
 */

static ngx_int_t
ngx_egress_git_split(ngx_str_t *path, ngx_uint_t segments,
    ngx_egress_git_t *git, ngx_str_t *tail)
{
    ngx_int_t  rc;
    ngx_str_t  name;

    if (segments) {
        rc = ngx_egress_git_split_fixed(path, segments, &name, tail);

    } else {
        rc = ngx_egress_git_split_any(path, &name, tail);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_egress_git_name(&name, git) ? NGX_OK : NGX_ERROR;
}


/* any number of segments: the last tail in the path is the one that counts */

static ngx_int_t
ngx_egress_git_split_any(ngx_str_t *path, ngx_str_t *name, ngx_str_t *tail)
{
    u_char      *p;
    ngx_uint_t   i;

    static const char  *tails[] = {
        "/info/refs",
        "/git-upload-pack",
        "/git-receive-pack",
        "/git-upload-archive",
        "/HEAD",
        NULL
    };

    p = ngx_egress_git_last(path, "/info/lfs/");

    /*
     * Clients of Git LFS append ".git" to a name without it.  Any path may
     * end like one of the API: only that tells them apart.
     */

    if (p && (p - path->data < 5 || ngx_strncmp(p - 4, ".git", 4) != 0)) {
        p = NULL;
    }

    if (p == NULL) {

        for (i = 0; tails[i]; i++) {

            p = ngx_egress_git_last(path, tails[i]);

            if (p && p + strlen(tails[i]) == path->data + path->len) {
                break;
            }

            p = NULL;
        }
    }

    if (p == NULL) {
        p = ngx_egress_git_last(path, "/objects/");

        if (p) {
            tail->data = p + 1;
            tail->len = path->data + path->len - tail->data;

            if (!ngx_egress_git_object(tail)) {
                p = NULL;
            }
        }
    }

    if (p == NULL || p == path->data) {
        return NGX_DECLINED;
    }

    name->data = path->data + 1;
    name->len = p - name->data;

    tail->data = p + 1;
    tail->len = path->data + path->len - tail->data;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_git_split_fixed(ngx_str_t *path, ngx_uint_t segments,
    ngx_str_t *name, ngx_str_t *tail)
{
    u_char      *p, *last;
    ngx_uint_t   n;

    p = path->data + 1;
    last = path->data + path->len;

    for (n = 0; p < last; p++) {
        if (*p == '/' && ++n == segments) {
            break;
        }
    }

    if (n == segments && p < last) {

        name->data = path->data + 1;
        name->len = p - name->data;

        tail->data = p + 1;
        tail->len = last - tail->data;

        /* behind "name.git/" there is nothing but git */

        if (ngx_egress_git_tail(tail)
            || (name->len > 4 && ngx_strncmp(p - 4, ".git", 4) == 0))
        {
            return NGX_OK;
        }
    }

    /* a repository named by another number of segments (wire.md T12) */

    if (ngx_egress_git_split_any(path, name, tail) == NGX_OK
        && !ngx_egress_git_eq(tail, "HEAD")
        && !ngx_egress_git_starts(tail, "objects/"))
    {
        return NGX_ERROR;
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_egress_git_tail(ngx_str_t *tail)
{
    return ngx_egress_git_eq(tail, "HEAD")
           || ngx_egress_git_starts(tail, "info/")
           || ngx_egress_git_starts(tail, "objects/")
           || ngx_egress_git_starts(tail, "git-upload-pack")
           || ngx_egress_git_starts(tail, "git-receive-pack")
           || ngx_egress_git_starts(tail, "git-upload-archive");
}


static u_char *
ngx_egress_git_last(ngx_str_t *path, const char *text)
{
    u_char  *p;
    size_t   len;

    len = strlen(text);

    if (path->len < len) {
        return NULL;
    }

    for (p = path->data + path->len - len; p >= path->data; p--) {
        if (*p == '/' && ngx_memcmp(p, text, len) == 0) {
            return p;
        }
    }

    return NULL;
}


/* plain segments, ".git" and ".wiki" stripped once each (wire.md T13) */

static ngx_uint_t
ngx_egress_git_name(ngx_str_t *name, ngx_egress_git_t *git)
{
    u_char  *p, *last, *start, ch;

    start = name->data;
    last = name->data + name->len;

    for (p = name->data; p < last; p++) {

        if (*p == '/') {
            if (p == start) {
                return 0;
            }

            start = p + 1;
            continue;
        }

        ch = ngx_tolower(*p);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')
            && ch != '.' && ch != '_' && ch != '-' && ch != '~'
            && ch != '+')
        {
            return 0;
        }
    }

    if (last - start >= 4 && ngx_strncmp(last - 4, ".git", 4) == 0) {
        last -= 4;
    }

    if (last - start > 5 && ngx_strncmp(last - 5, ".wiki", 5) == 0) {
        last -= 5;
    }

    if (last == start) {
        return 0;
    }

    git->repo.data = start;
    git->repo.len = last - start;

    if (start > name->data) {
        git->owner.data = name->data;
        git->owner.len = start - 1 - name->data;
    }

    return 1;
}


static void
ngx_egress_git_wire(ngx_str_t *method, ngx_str_t *tail, ngx_str_t *query,
    ngx_str_t *content_type, ngx_egress_git_t *git)
{
    ngx_uint_t  i, get;

    get = ngx_egress_git_eq(method, "GET")
          || ngx_egress_git_eq(method, "HEAD");

    if (ngx_egress_git_eq(tail, "info/refs")) {

        git->operation = "git-discovery";

        if (get) {
            ngx_egress_git_discovery(query, git);
        }

        return;
    }

    for (i = 0; ngx_egress_git_services[i].name; i++) {
        if (ngx_egress_git_eq(tail, ngx_egress_git_services[i].name)) {
            ngx_egress_git_service(method, query, content_type, i, git);
            return;
        }
    }

    if (get && query->data == NULL
        && (ngx_egress_git_eq(tail, "HEAD") || ngx_egress_git_object(tail)))
    {
        git->operation = "git-dumb";
        git->class = NGX_EGRESS_READ;
    }
}


/*
 * Servers decode "service" and take the last of several: only the exact
 * octets are what they seem (wire.md T3).
 */

static void
ngx_egress_git_discovery(ngx_str_t *query, ngx_egress_git_t *git)
{
    ngx_uint_t  i;

    if (query->data == NULL) {
        git->operation = "git-dumb";
        git->class = NGX_EGRESS_READ;
        return;
    }

    for (i = 0; ngx_egress_git_services[i].name; i++) {
        if (ngx_egress_git_eq(query, ngx_egress_git_services[i].query)) {
            git->operation = ngx_egress_git_services[i].name;
            git->class = ngx_egress_git_services[i].class;
            return;
        }
    }
}


static void
ngx_egress_git_service(ngx_str_t *method, ngx_str_t *query,
    ngx_str_t *content_type, ngx_uint_t service, ngx_egress_git_t *git)
{
    const char  *type;

    git->operation = ngx_egress_git_services[service].name;

    if (!ngx_egress_git_eq(method, "POST") || query->data) {
        return;
    }

    type = ngx_egress_git_services[service].type;

    if (type
        && (content_type->data == NULL
            || !ngx_egress_git_eq(content_type, type)))
    {
        return;
    }

    git->class = ngx_egress_git_services[service].class;
}


/* the files of the dumb protocol */

static ngx_uint_t
ngx_egress_git_object(ngx_str_t *tail)
{
    u_char  *p, *last;

    p = tail->data;
    last = p + tail->len;

    if (ngx_egress_git_eq(tail, "objects/info/packs")
        || ngx_egress_git_eq(tail, "objects/info/alternates")
        || ngx_egress_git_eq(tail, "objects/info/http-alternates"))
    {
        return 1;
    }

    if (ngx_egress_git_starts(tail, "objects/pack/pack-")) {

        p += sizeof("objects/pack/pack-") - 1;

        if (last - p > 5 && ngx_strncmp(last - 5, ".pack", 5) == 0) {
            return ngx_egress_git_hex(p, last - 5);
        }

        if (last - p > 4 && ngx_strncmp(last - 4, ".idx", 4) == 0) {
            return ngx_egress_git_hex(p, last - 4);
        }

        return 0;
    }

    if (!ngx_egress_git_starts(tail, "objects/")) {
        return 0;
    }

    p += sizeof("objects/") - 1;

    return last - p > 3 && p[2] == '/' && ngx_egress_git_hex(p, p + 2)
           && ngx_egress_git_hex(p + 3, last);
}


static ngx_uint_t
ngx_egress_git_hex(u_char *p, u_char *last)
{
    if (p == last) {
        return 0;
    }

    for ( /* void */ ; p < last; p++) {
        if ((*p < '0' || *p > '9') && (*p < 'a' || *p > 'f')) {
            return 0;
        }
    }

    return 1;
}


/* paths of the Git LFS API, below info/lfs/ (wire.md B4) */

static void
ngx_egress_git_lfs(ngx_str_t *method, ngx_str_t *tail, ngx_egress_git_t *git)
{
    if (ngx_egress_git_eq(tail, "objects/batch")) {
        git->operation = "lfs-batch";

        /* with another method a body must not make a read of it */

        if (ngx_egress_git_eq(method, "POST")) {
            git->kind = NGX_EGRESS_GIT_BATCH;
        }

        return;
    }

    if (ngx_egress_git_starts(tail, "locks")) {
        ngx_egress_git_lfs_lock(method, tail, git);
        return;
    }

    ngx_egress_git_lfs_object(method, tail, git);
}


static void
ngx_egress_git_lfs_lock(ngx_str_t *method, ngx_str_t *tail,
    ngx_egress_git_t *git)
{
    u_char      *p, *last;
    ngx_uint_t   post;

    post = ngx_egress_git_eq(method, "POST");

    if (ngx_egress_git_eq(tail, "locks")) {
        git->operation = "lfs-locks";
        git->class = ngx_egress_git_reads(method) ? NGX_EGRESS_READ
                     : post ? NGX_EGRESS_WRITE : NGX_EGRESS_UNKNOWN;
        return;
    }

    if (ngx_egress_git_eq(tail, "locks/verify")) {
        git->operation = "lfs-locks-verify";
        git->class = post ? NGX_EGRESS_READ : NGX_EGRESS_UNKNOWN;
        return;
    }

    if (!ngx_egress_git_starts(tail, "locks/")) {
        return;
    }

    last = tail->data + tail->len;

    p = memchr(tail->data + 6, '/', tail->len - 6);

    if (p && p > tail->data + 6 && last - p == sizeof("/unlock") - 1
        && ngx_strncmp(p, "/unlock", sizeof("/unlock") - 1) == 0)
    {
        git->operation = "lfs-unlock";
        git->class = post ? NGX_EGRESS_WRITE : NGX_EGRESS_UNKNOWN;
    }
}


static void
ngx_egress_git_lfs_object(ngx_str_t *method, ngx_str_t *tail,
    ngx_egress_git_t *git)
{
    u_char      *p, *last;
    ngx_uint_t   post;

    post = ngx_egress_git_eq(method, "POST");

    if (ngx_egress_git_eq(tail, "objects")
        || ngx_egress_git_eq(tail, "verify"))
    {
        git->operation = "lfs-object";
        git->class = post ? NGX_EGRESS_WRITE : NGX_EGRESS_UNKNOWN;
        return;
    }

    if (!ngx_egress_git_starts(tail, "objects/")) {
        return;
    }

    git->operation = "lfs-object";

    p = tail->data + sizeof("objects/") - 1;
    last = tail->data + tail->len;

    if (post && last - p >= 6
        && ngx_strncmp(last - 6, "verify", 6) == 0
        && (last - p == 6 || last[-7] == '/'))
    {
        git->class = NGX_EGRESS_WRITE;
        return;
    }

    if (last - p == 64 && ngx_egress_git_hex(p, last)) {
        git->class = ngx_egress_git_reads(method) ? NGX_EGRESS_READ
                     : ngx_egress_git_eq(method, "PUT") ? NGX_EGRESS_WRITE
                                                        : NGX_EGRESS_UNKNOWN;
    }
}


static ngx_uint_t
ngx_egress_git_reads(ngx_str_t *method)
{
    return ngx_egress_git_eq(method, "GET")
           || ngx_egress_git_eq(method, "HEAD");
}


static ngx_uint_t
ngx_egress_git_eq(ngx_str_t *str, const char *text)
{
    size_t  len;

    len = strlen(text);

    return str->len == len && ngx_memcmp(str->data, text, len) == 0;
}


static ngx_uint_t
ngx_egress_git_starts(ngx_str_t *str, const char *text)
{
    size_t  len;

    len = strlen(text);

    return str->len >= len && ngx_memcmp(str->data, text, len) == 0;
}
