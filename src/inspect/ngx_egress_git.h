
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_GIT_H_INCLUDED_
#define _NGX_EGRESS_GIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* what a request does upstream (DESIGN 2) */
#define NGX_EGRESS_READ       1
#define NGX_EGRESS_WRITE      2
#define NGX_EGRESS_UNKNOWN    3

/* what a git path is, for the body of a refusal */
#define NGX_EGRESS_GIT_WIRE   1     /* smart and dumb HTTP */
#define NGX_EGRESS_GIT_LFS    2
#define NGX_EGRESS_GIT_BATCH  3     /* LFS batch: its body tells the class */


typedef struct {
    ngx_uint_t   class;
    ngx_uint_t   kind;
    ngx_str_t    owner;         /* all segments before the last */
    ngx_str_t    repo;          /* last one, without ".git" and ".wiki" */
    const char  *operation;     /* "git-upload-pack", "lfs-locks", ... */
} ngx_egress_git_t;


/*
 * Classes a request by the git smart and dumb HTTP protocols (gitprotocol-http)
 * and the Git LFS API paths, as wire.md B3 and B4 have them.
 *
 * "method" is the method as it was sent; "path" the canonical path; "query"
 * the raw query, without data if there was no "?"; "content_type" the raw
 * field value, without data if absent; "segments" how many path segments name
 * the repository, 0 for one or more.
 *
 * Returns NGX_OK with "git" filled in (owner and repo point into "path", not
 * case-folded), or NGX_DECLINED for what is no git path.
 */
ngx_int_t ngx_egress_git_classify(ngx_str_t *method, ngx_str_t *path,
    ngx_str_t *query, ngx_str_t *content_type, ngx_uint_t segments,
    ngx_egress_git_t *git);


#endif /* _NGX_EGRESS_GIT_H_INCLUDED_ */
