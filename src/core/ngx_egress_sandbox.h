
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_SANDBOX_H_INCLUDED_
#define _NGX_EGRESS_SANDBOX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* what a client says it is; user.data is NULL where it can't be told */

typedef struct {
    ngx_str_t                 user;
    ngx_str_t                 token;
    ngx_uint_t                given;        /* unsigned  given:1; */
    ngx_uint_t                proved;       /* unsigned  proved:1; the answer */
} ngx_egress_identity_t;


#define NGX_EGRESS_SANDBOX_TOKEN    32      /* octets of SHA-256 */


typedef struct ngx_egress_live_s  ngx_egress_live_t;

/*
 * Closes what a client has open, since "reason".  It may be called again for
 * as long as that has not ended, and must not end it before it returns.
 */
typedef void (*ngx_egress_live_pt)(ngx_egress_live_t *live,
    ngx_uint_t reason);


/* what a sandbox file says of one binding */

typedef struct {
    ngx_str_node_t            sn;           /* its placeholder; may be empty */
    ngx_egress_sandbox_t     *box;
    ngx_egress_binding_t     *binding;
    ngx_array_t              *repos;        /* ngx_egress_repo_t, or NULL */
} ngx_egress_sandbox_binding_t;


/*
 * A sandbox file as it was read, in one worker.  What it says never changes:
 * of a file that has changed another object is made, and this one is over.
 */

struct ngx_egress_sandbox_s {

    /* what each request asks for is together */

    ngx_egress_sandbox_t     *next;         /* of the same bucket */
    uint32_t                  hash;         /* of its id */

    unsigned                  has_token:1;
    unsigned                  has_sources:1;
    unsigned                  fresh:1;      /* just written when it was read */
    unsigned                  plain:1;      /* no link, of one name only */
    unsigned                  told:1;

    ngx_str_t                 id;
    ngx_egress_conf_t        *conf;
    ngx_uint_t                epoch;        /* when it was looked at */
    ngx_msec_t                checked;
    ngx_msec_t                troubled;     /* since when, or 0 */

    ngx_queue_t               queue;        /* idle, used or over */
    ngx_queue_t               lives;        /* ngx_egress_live_t */
    ngx_uint_t                reason;       /* why it is over, or allowed */
    ngx_egress_role_t        *role;
    time_t                    expires;

    ngx_array_t               bindings;     /* ngx_egress_sandbox_binding_t */
    ngx_array_t               sources;      /* ngx_cidr_t */
    u_char                    token[NGX_EGRESS_SANDBOX_TOKEN];

    ngx_pool_t               *pool;
    ngx_str_t                 path;
    ngx_file_info_t           fi;
    u_char                    digest[NGX_EGRESS_SANDBOX_TOKEN];
    ngx_msec_t                ended;        /* since when, once it is over */
};


/* one thing that is open: a connection, a request, a use of a secret */

struct ngx_egress_live_s {
    ngx_queue_t               queue;
    ngx_egress_sandbox_t     *box;
    ngx_egress_secret_t      *secret;
    ngx_egress_sandboxes_t   *all;          /* beside a secret */
    time_t                    ttl;          /* of the secret; 0: none */
    ngx_egress_live_pt        handler;
    void                     *data;
};


/* those of a worker */

struct ngx_egress_sandboxes_s {
    ngx_egress_sandbox_t    **buckets;      /* those that are not over */
    ngx_rbtree_t              placeholders; /* ngx_egress_sandbox_binding_t */
    ngx_rbtree_node_t         placeholders_sentinel;
    ngx_queue_t               idle;         /* longest out of use first */
    ngx_uint_t                nidle;
    ngx_queue_t               used;         /* longest not seen to first */
    ngx_uint_t                nused;
    ngx_queue_t               over;         /* with something open */

    ngx_connection_t         *watch;        /* inotify, or NULL */
    int                       wd;           /* of the directory, or -1 */
    ngx_uint_t                unwatched;    /* unsigned:1; that was logged */
    ngx_file_info_t           directory;    /* that is watched */
    ngx_msec_t                watched;      /* when it was looked at */
    ngx_uint_t                epoch;        /* another: anything may be new */

    ngx_queue_t               secrets;      /* that requests carry now */
    ngx_uint_t                nsecrets;
    ngx_event_t               timer;
    ngx_atomic_uint_t         nbans;        /* those of the zone seen so far */
    ngx_uint_t                told;         /* unsigned:1; by another worker */
};


/*
 * ngx_egress_sandbox.c: who a client is, DESIGN 6.9.
 */
char *ngx_egress_sandboxes(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Finds the role of a client, by the name and token that it gives.  "client"
 * is its address.  Returns NGX_EGRESS_ALLOWED with *role set, and *box where
 * an identity was proved; or the reason to refuse: proxy_auth_required where
 * it may try again with an identity.
 *
 * *box is there until control goes back to nginx, unless it is joined.
 */
ngx_uint_t ngx_egress_identify(ngx_egress_conf_t *ecf,
    ngx_egress_identity_t *identity, struct sockaddr *client,
    ngx_egress_role_t **role, ngx_egress_sandbox_t **box, ngx_log_t *log);

/*
 * The same for a name that the operator's configuration vouches for, so that
 * it needs no token.  Whatever is wrong with it is a reason to refuse, and
 * never makes a client one without an identity.
 */
ngx_uint_t ngx_egress_vouch(ngx_egress_conf_t *ecf, ngx_str_t *id,
    struct sockaddr *client, ngx_egress_role_t **role,
    ngx_egress_sandbox_t **box, ngx_log_t *log);

/*
 * Looks at the file of a sandbox that was joined, if it is time to: "least"
 * milliseconds after the last time or later, unless something is known to have
 * changed.  Returns NGX_EGRESS_ALLOWED, or why it is over: sandbox_revoked,
 * sandbox_expired.
 */
ngx_uint_t ngx_egress_sandbox_check(ngx_egress_sandbox_t *box,
    ngx_msec_t least, ngx_log_t *log);

/* The same at once, since another worker has said so. */
void ngx_egress_sandbox_look(ngx_egress_sandbox_t *box, ngx_log_t *log);

/* What its file says of a binding, or NULL; "box" may be NULL. */
ngx_egress_sandbox_binding_t *ngx_egress_sandbox_bound(
    ngx_egress_sandbox_t *box, ngx_egress_binding_t *binding);

/*
 * The placeholder that is valid for "box" at a binding, where its file has
 * one; else NULL: those of the configuration are.
 */
ngx_str_t *ngx_egress_sandbox_placeholder(ngx_egress_sandbox_t *box,
    ngx_egress_binding_t *binding);


/*
 * ngx_egress_sandbox_table.c: those that a worker knows.
 */

/* Prepares a worker; NGX_ERROR without memory. */
ngx_int_t ngx_egress_sandbox_init(ngx_cycle_t *cycle,
    ngx_egress_sandboxes_t *all);

/* The sandbox of this id that is not over, or NULL. */
ngx_egress_sandbox_t *ngx_egress_sandbox_lookup(ngx_egress_conf_t *ecf,
    ngx_str_t *id);

/* The same by the hash of its id, as other workers tell it; or NULL. */
ngx_egress_sandbox_t *ngx_egress_sandbox_by_hash(
    ngx_egress_sandboxes_t *all, uint32_t hash);

/* One, of those that are not over, with such a placeholder; or NULL. */
ngx_egress_sandbox_t *ngx_egress_sandbox_owner(ngx_egress_conf_t *ecf,
    ngx_str_t *text);

/*
 * A sandbox that is not in the table yet, in a pool of its own, with copies of
 * "id" and "path"; NULL without memory.
 */
ngx_egress_sandbox_t *ngx_egress_sandbox_create(ngx_egress_conf_t *ecf,
    ngx_str_t *id, ngx_str_t *path);

/* Puts it in, with its placeholders; another one may leave for it. */
void ngx_egress_sandbox_insert(ngx_egress_sandbox_t *box);

/*
 * Takes it out for "reason"; freed by this unless something of it is open.
 * That it was revoked is told to other workers.
 */
void ngx_egress_sandbox_over(ngx_egress_sandbox_t *box, ngx_uint_t reason);

/* Once nothing of it is open any more; it may be freed by this. */
void ngx_egress_sandbox_idle(ngx_egress_sandbox_t *box);

/* Frees one that is not in the table. */
void ngx_egress_sandbox_destroy(ngx_egress_sandbox_t *box);


/*
 * ngx_egress_sandbox_watch.c: where the kernel can tell of changes in the
 * directory, so that not each file has to be looked at all the time.
 */

/* Prepares a worker; without inotify all goes on as if there were none. */
void ngx_egress_watch_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf);

/* Looks whether the path still leads to the directory that is watched. */
void ngx_egress_watch_check(ngx_egress_conf_t *ecf, ngx_log_t *log);


/*
 * ngx_egress_sandbox_file.c: fills in "box" by the text of its file.  Returns
 * NULL, or what is wrong with it.
 */
const char *ngx_egress_sandbox_parse(ngx_egress_sandbox_t *box, u_char *data,
    size_t len);


/*
 * ngx_egress_live.c: what is open, and has to be closed when the sandbox or
 * the secret behind it is gone (DESIGN 6.9).
 */

/* Prepares a worker. */
ngx_int_t ngx_egress_live_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf);

/* A thing that ends with "pool", not joined yet; NULL without memory. */
ngx_egress_live_t *ngx_egress_live_create(ngx_pool_t *pool,
    ngx_egress_live_pt handler, void *data);

/* Makes it one of a sandbox, and of no other; a reference to "box". */
void ngx_egress_live_join(ngx_egress_live_t *live, ngx_egress_sandbox_t *box);

/*
 * Makes it one that carries a secret, that of "sandbox" where each has its own,
 * no older than "ttl" unless that is 0.  NGX_ERROR where the secret is not
 * known any more: it must not be sent.
 */
ngx_int_t ngx_egress_live_carry(ngx_egress_live_t *live,
    ngx_egress_conf_t *ecf, ngx_egress_secret_t *secret, ngx_str_t *sandbox,
    time_t ttl);

/* Makes it nobody's. */
void ngx_egress_live_leave(ngx_egress_live_t *live);

/*
 * Ends a connection as nginx ends those of a worker that has to go: its own
 * handler is told, soon.  With "reset" nothing that waits to be sent is sent.
 */
void ngx_egress_sever(ngx_connection_t *c, ngx_uint_t reset);

/* The same without its socket, for a stream of HTTP/2, which has none. */
void ngx_egress_end(ngx_connection_t *c);

/* Starts the timer of a worker that has something to look after. */
void ngx_egress_live_timer(ngx_egress_sandboxes_t *all);

/* Tells other workers of a sandbox that is gone, by the hash of its name. */
void ngx_egress_ban(ngx_egress_conf_t *ecf, uint32_t hash);


/*
 * Finds out whether the text of an "egress_sandbox" is made of what a client
 * writes as it likes, and warns (DESIGN 6.10).  NGX_ERROR where there are no
 * "sandboxes" to look names up in.
 */
ngx_int_t ngx_egress_vouch_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


/*
 * ngx_egress_self.c: what sandboxes are told, DESIGN 6.15.
 */
char *ngx_egress_self_url(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Reads the certificates that sandboxes are to trust: ecf->ca_pem is our CA,
 * ecf->bundle_pem the system's bundle, "trusted_certificate" and our CA.
 */
ngx_int_t ngx_egress_self_init(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


#endif /* _NGX_EGRESS_SANDBOX_H_INCLUDED_ */
