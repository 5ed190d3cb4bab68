
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_CREDENTIAL_H_INCLUDED_
#define _NGX_EGRESS_CREDENTIAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_EGRESS_CREDENTIALS      16      /* of one binding */


/* a header field that may carry a credential; fields are shared by name */

typedef struct {
    ngx_str_t                 name;
    ngx_str_t                 lowcase;
    ngx_uint_t                index;
} ngx_egress_field_t;


typedef struct {
    ngx_egress_field_t       *field;
    ngx_egress_credential_t  *credential;
    ngx_str_t                 prefix;
    ngx_str_t                 suffix;
    unsigned                  affixed:1;
    unsigned                  authorization:1;
} ngx_egress_header_t;


typedef struct {
    ngx_str_t                 text;
    uint64_t                  hash;
} ngx_egress_placeholder_t;


struct ngx_egress_credential_s {
    ngx_str_t                 name;
    ngx_egress_binding_t     *binding;
    ngx_egress_secret_t      *secret;
    ngx_array_t               placeholders; /* ngx_egress_placeholder_t */
    ngx_str_t                 placeholder;  /* the first one as written */
    ngx_array_t               headers;      /* ngx_egress_header_t */
    ngx_uint_t                inject;
    ngx_str_t                 basic_user;
    ngx_flag_t                basic_everywhere;
    time_t                    ttl;          /* 0: none */
};


/* an environment variable of sandboxes */

typedef struct {
    ngx_str_t                 name;
    ngx_str_t                 text;         /* data is NULL: the placeholder */
    ngx_egress_credential_t  *credential;
} ngx_egress_env_t;


/*
 * ngx_egress_credential.c: what a binding puts in place of a placeholder.
 * "conf" is a credential, or a binding, which begins with its own one.
 */
char *ngx_egress_credential_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_egress_secret(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_placeholder(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_header(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_basic_user(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Changes with the value of any secret of a binding, for one sandbox; of this
 * process, and 0 where there is none.  Sandboxes with secrets of their own may
 * have the same number.
 */
ngx_uint_t ngx_egress_generation(ngx_egress_binding_t *binding,
    ngx_str_t *sandbox);

/* Prepares a credential, or a binding's own one, for its directives. */
ngx_int_t ngx_egress_credential_init(ngx_conf_t *cf,
    ngx_egress_credential_t *cred, ngx_egress_binding_t *binding,
    ngx_str_t *name);

/*
 * Once a binding is read: whether its own credential counts, what was left
 * out, what does not go together, and the list of secrets.
 */
ngx_int_t ngx_egress_credentials_done(ngx_conf_t *cf,
    ngx_egress_binding_t *binding);

/* Once the "egress" block is read: whether placeholders may be missing. */
ngx_int_t ngx_egress_credentials_check(ngx_conf_t *cf,
    ngx_egress_binding_t *binding);


/*
 * ngx_egress_env.c: what sandboxes find in their environment.
 */
char *ngx_egress_env(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Refuses a variable that stands for a placeholder which is not there. */
ngx_int_t ngx_egress_env_check(ngx_conf_t *cf, ngx_egress_binding_t *binding);


/*
 * ngx_egress_placeholder.c
 */

/* Adds a placeholder; the text is copied to cf->pool. */
char *ngx_egress_placeholder_add(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_array_t *placeholders, ngx_str_t *text);

/* What is wrong with one of a sandbox file, or NULL. */
const char *ngx_egress_placeholder_valid(ngx_str_t *text);

/* Tells whether it is a part of one of the configuration, or has one. */
ngx_uint_t ngx_egress_placeholder_taken(ngx_egress_binding_t *binding,
    ngx_str_t *text);

/* A keyed hash; the key has NGX_EGRESS_HASH_KEY octets. */
#define NGX_EGRESS_HASH_KEY  16
uint64_t ngx_egress_hash(u_char *key, ngx_str_t *text);

/* Sorts by hash for look-ups; refuses overlaps within one binding. */
ngx_int_t ngx_egress_placeholder_init(ngx_conf_t *cf,
    ngx_egress_binding_t *binding);

/*
 * Finds a placeholder by keyed hash, then compares in constant time
 * (DESIGN 6.3).  Returns NULL where "text" is none of them.
 */
ngx_egress_placeholder_t *ngx_egress_placeholder_find(ngx_egress_conf_t *ecf,
    ngx_array_t *placeholders, ngx_str_t *text);


#endif /* _NGX_EGRESS_CREDENTIAL_H_INCLUDED_ */
