
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_RULE_H_INCLUDED_
#define _NGX_EGRESS_RULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* a repository of "repos", in lower case */

typedef struct {
    ngx_str_t                 owner;
    ngx_str_t                 name;         /* empty: all of the owner's */
    ngx_str_t                 id;           /* digits, or empty */
} ngx_egress_repo_t;


/* a "host" block: its rules are for these hosts only */

typedef struct {
    ngx_egress_binding_t     *binding;
    ngx_array_t               hosts;        /* ngx_egress_bound_t * */
} ngx_egress_scope_t;


/* "restrict": what a role may do with a binding */

struct ngx_egress_restrict_s {
    ngx_str_t                 name;         /* of the binding */
    ngx_uint_t                access;       /* NGX_EGRESS_READ or _WRITE */
    ngx_array_t               rules;        /* ngx_egress_rule_t, "allow" */
    ngx_array_t               repos;        /* ngx_egress_repo_t */
    ngx_uint_t                repos_all;    /* unsigned  repos_all:1; */
    ngx_array_t               hosts;        /* ngx_egress_narrow_t * */
    ngx_str_t                 text;         /* as written, for the audit */
    ngx_egress_place_t        place;
};


/* a "host" block in it; "scope" first: rules point to it */

typedef struct {
    ngx_egress_scope_t        scope;
    ngx_egress_restrict_t    *restriction;
    ngx_array_t               names;        /* ngx_egress_host_t */
    ngx_egress_place_t        place;
} ngx_egress_narrow_t;


struct ngx_egress_rule_s {
    ngx_uint_t                type;
    ngx_egress_scope_t       *scope;        /* NULL: all hosts */
    ngx_uint_t                methods;      /* bits of the known ones */
    ngx_array_t              *others;       /* ngx_str_t, other methods */
    ngx_str_t                 exact;
    ngx_str_t                 prefix;
#if (NGX_PCRE)
    ngx_regex_t              *regex;
#endif
    ngx_uint_t                segments;     /* of "git" */
    ngx_uint_t                captures;     /* of "repo" */
    ngx_uint_t                inspector;    /* NGX_EGRESS_INSPECT_... */
    ngx_array_t               tools;        /* ngx_str_t, of "json_rpc" */
    ngx_str_t                 text;         /* as written, for the audit */
    ngx_egress_place_t        place;
    unsigned                  any_method:1;
    unsigned                  any_path:1;
    unsigned                  anchored:1;   /* the whole path is given */
    unsigned                  on:1;
    unsigned                  all_tools:1;
    unsigned                  inspector_repos:1;    /* it tells them, too */
};


/* a request as the policy sees it, and what the policy says of it */

typedef struct {
    ngx_str_t                 method;
    ngx_str_t                 content_type;
    ngx_egress_target_t       target;
    ngx_egress_bound_t       *bound;
    ngx_egress_restrict_t    *restriction;  /* of the role, or NULL */
    ngx_array_t              *repos;        /* of the sandbox, or NULL */

    ngx_uint_t                class;
    ngx_egress_rule_t        *rule;
    ngx_str_t                *told;         /* instead of it where it denies */
    ngx_str_t                *allow;        /* and where all is allowed */
    ngx_uint_t                inspector;    /* that has yet to tell the class */
    ngx_egress_git_t          git;
    ngx_str_t                 owner;        /* of the repository, as it was */
    ngx_str_t                 repo;         /* sent; empty: not told */
    unsigned                  is_git:1;
    unsigned                  anonymous:1;
    unsigned                  refused:1;
    unsigned                  report:1;         /* "mode report" */
    unsigned                  credentialed:1;   /* below path_prefix */
} ngx_egress_request_t;


/*
 * ngx_egress_rule.c: what is a read.
 */
char *ngx_egress_rule(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_git(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_encoded_slash(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Fills in the class of a request by the rules of its binding, in the order
 * of the file, then by method (DESIGN 5.2, 6.4).  method, content_type, target,
 * bound, restriction and report are set by the caller.  Under "report" a rule
 * that refuses is noted, and what follows it tells the class.
 */
void ngx_egress_classify(ngx_egress_request_t *req);

/*
 * The reason to refuse a request of this class, or NGX_EGRESS_ALLOWED; "body"
 * is what an inspector said, or NULL.
 */
ngx_uint_t ngx_egress_class_reason(ngx_egress_request_t *req,
    ngx_egress_body_t *body);

/* Tells whether "%2F" may stand in the path of this request (DESIGN 5.2). */
ngx_uint_t ngx_egress_encoded_slash_allowed(ngx_egress_request_t *req);

/* The bit of a known method, or 0; methods have a case (RFC 9110, 9.1). */
ngx_uint_t ngx_egress_method(ngx_str_t *method);

/*
 * Tells whether "prefix" holds "path" at a segment boundary: the next octet
 * is the end or "/", or the prefix ends in "/".
 */
ngx_uint_t ngx_egress_prefix_match(ngx_str_t *prefix, ngx_str_t *path,
    ngx_uint_t caseless);


/*
 * A rule of ngx_egress_rule() and its parts, for directives of other files.
 * "rules" is the array that takes it; conf is a binding or a "host" block.
 */
ngx_egress_rule_t *ngx_egress_rule_add(ngx_conf_t *cf, void *conf,
    ngx_array_t *rules);
char *ngx_egress_rule_methods(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value);
ngx_egress_binding_t *ngx_egress_rule_binding(ngx_conf_t *cf, void *conf);

/*
 * "= /exact", "/prefix" or "~ regex", on the canonical path; n words are left
 * in the directive, and *used gets how many of them the pattern took.
 */
char *ngx_egress_rule_pattern(ngx_conf_t *cf, ngx_egress_rule_t *rule,
    ngx_str_t *value, ngx_uint_t n, ngx_uint_t caseless, ngx_uint_t *used);

/* The directive that is read now, in the operator's own words. */
char *ngx_egress_rule_text(ngx_conf_t *cf, ngx_str_t *text);

/* Tell whether a rule is for this host, this method and this path. */
ngx_uint_t ngx_egress_rule_applies(ngx_egress_rule_t *rule,
    ngx_egress_request_t *req);
ngx_uint_t ngx_egress_rule_method(ngx_egress_rule_t *rule, ngx_str_t *method,
    ngx_uint_t bit);
ngx_uint_t ngx_egress_rule_path(ngx_egress_rule_t *rule, ngx_str_t *path,
    ngx_uint_t caseless);


/*
 * ngx_egress_restrict.c: what a role may do with a binding, DESIGN 5.3.
 */
char *ngx_egress_restrict_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_egress_restrict_host(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_restrict_allow(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* Once all bindings are known: finds those that a role restricts. */
ngx_int_t ngx_egress_restrict_link(ngx_conf_t *cf, ngx_egress_role_t *role);

/* What a role has to say of a binding beside that it may use it, or NULL. */
ngx_egress_restrict_t *ngx_egress_restrict_find(ngx_egress_role_t *role,
    ngx_egress_binding_t *binding);

/*
 * Looks for an "allow" of the role that matches, where there are any; it is
 * noted in req->allow.  Returns a reason code.
 */
ngx_uint_t ngx_egress_restrict_check(ngx_egress_request_t *req);


/*
 * ngx_egress_repo.c: which repositories, DESIGN 6.5.
 */
char *ngx_egress_repos(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_repo(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * "owner/name", "owner/name#id" or "owner/" with a star, in memory that stays
 * and is changed to lower case.
 */
ngx_int_t ngx_egress_repo_parse(ngx_egress_repo_t *repo, ngx_str_t *value);

/*
 * Under lists of repositories, of the binding, the role and the sandbox, each
 * of which must have it: checks the one that the request names by its path,
 * noted in req->owner and req->repo in any case.  Returns a reason code.
 */
ngx_uint_t ngx_egress_repo_check(ngx_egress_request_t *req);

/*
 * The same by the repositories that a body or a query tells, the roots of a
 * GraphQL query for one (wire.md B6); what tells of none passes.
 */
ngx_uint_t ngx_egress_repo_check_body(ngx_egress_request_t *req,
    ngx_egress_body_t *body);


#endif /* _NGX_EGRESS_RULE_H_INCLUDED_ */
