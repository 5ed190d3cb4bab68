
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_SECRET_H_INCLUDED_
#define _NGX_EGRESS_SECRET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_EGRESS_VAULT_VALID        0
#define NGX_EGRESS_VAULT_MISSING      1
#define NGX_EGRESS_VAULT_UNREADABLE   2
#define NGX_EGRESS_VAULT_UNKNOWN      3     /* nobody has looked yet */

/* values of sandboxes that a worker keeps; those with pages of their own */
#define NGX_EGRESS_SHELF_SMALL        10240
#define NGX_EGRESS_SHELF_LARGE        1024

/* a small value lies in a cell of that many octets, with its vault */
#define NGX_EGRESS_CELL               512

/* values that the tripwire remembers: rows of that many, by their hash */
#define NGX_EGRESS_TRIPWIRE_ROWS      2048
#define NGX_EGRESS_TRIPWIRE_ROW       16

/* shorter values are not remembered: clients may well send such a word */
#define NGX_EGRESS_TRIPWIRE_LEN       8


/*
 * The value and what is known of its file, in memory of its own: locked, left
 * out of cores, and wiped before it is given back.  A worker's changes are its
 * own, since the mapping is private.
 */

struct ngx_egress_vault_s {
    size_t                    size;
    ngx_file_uniq_t           uniq;
    dev_t                     dev;
    time_t                    mtime;
    long                      mtime_nsec;
    time_t                    ctime;
    long                      ctime_nsec;
    off_t                     file_size;
    ngx_uint_t                state;
    ngx_msec_t                checked;
    ngx_msec_t                troubled;     /* since when, or 0 */
    size_t                    len;
    ngx_uint_t                generation;
    u_char                    id[8];
    u_char                    data[1];
};


/* of a path with "$egress_sandbox": a file for each sandbox */

typedef struct {
    ngx_str_t                 head;         /* of the path, with its "/" */
    ngx_str_t                 tail;         /* with its "/", or empty */
    ngx_rbtree_t              boxes;        /* those that a worker has read */
    ngx_rbtree_node_t         sentinel;
} ngx_egress_secret_each_t;


struct ngx_egress_secret_s {
    ngx_str_t                 path;
    ngx_egress_vault_t       *vault;        /* NULL: each has its own */
    ngx_egress_secret_each_t *each;         /* NULL: one for all */
    ngx_egress_conf_t        *conf;
    ngx_uint_t                index;        /* among all */
    ngx_egress_place_t        place;
    unsigned                  fixed:1;      /* "static" */
    unsigned                  insecure:1;   /* "insecure_permissions" */

    ngx_queue_t               queue;        /* those that are carried now */
    ngx_queue_t               lives;        /* ngx_egress_live_t */
    ngx_msec_t                looked;
};


/* shared by workers, and kept over a reload */

typedef struct {
    uint64_t                  hash;         /* 0: free */
    uint64_t                  seq;          /* of when it was seen last */
} ngx_egress_seen_t;


typedef struct {
    u_char                    key[16];
    uint64_t                  seq;
    u_char                    lens[256];    /* which there have been, mod 256 */
    ngx_egress_seen_t         seen[NGX_EGRESS_TRIPWIRE_ROWS]
                                  [NGX_EGRESS_TRIPWIRE_ROW];
} ngx_egress_tripwire_t;


/*
 * ngx_egress_secret.c: secret files, DESIGN 6.8.
 */
ngx_egress_secret_t *ngx_egress_secret_add(ngx_conf_t *cf, ngx_str_t *path,
    ngx_uint_t fixed, ngx_uint_t insecure);

/*
 * Looks at the file if it is time to, and gives the value that is "sandbox"'s,
 * which may be empty; "value" points to locked memory that the next look may
 * rewrite: copy at once, or do not keep.  "id" gets the first 8 hex digits of
 * the value's SHA-256.  Either may be NULL.
 *
 * Returns NGX_OK, NGX_DECLINED (there is none, removed or empty: revoked), or
 * NGX_ERROR (it can't be told or read).
 */
ngx_int_t ngx_egress_secret_get(ngx_egress_conf_t *ecf,
    ngx_egress_secret_t *secret, ngx_str_t *sandbox, ngx_str_t *value,
    ngx_str_t *id, ngx_log_t *log);

/*
 * Only grows, for one sandbox, and does so with each new value; one of this
 * process.
 */
ngx_uint_t ngx_egress_secret_generation(ngx_egress_secret_t *secret,
    ngx_str_t *sandbox);

/* Seconds since the file was modified, as it was when it was looked at. */
time_t ngx_egress_secret_age(ngx_egress_secret_t *secret, ngx_str_t *sandbox);

/* Checks that workers can look secrets up; after the whole file was read. */
ngx_int_t ngx_egress_secret_check_paths(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf);

/* In a worker: locks the memory of secrets, which fork() does not inherit. */
void ngx_egress_secret_init_worker(ngx_egress_conf_t *ecf, ngx_log_t *log);

/* Locked memory for a value of "len" octets, or NULL; "log" tells why. */
ngx_egress_vault_t *ngx_egress_vault_alloc(size_t len, ngx_log_t *log);

/* Wipes the value and gives the memory back. */
void ngx_egress_vault_free(ngx_egress_vault_t *vault);


/*
 * ngx_egress_secret_sandbox.c: one secret a sandbox, DESIGN 5.2.
 */

/*
 * Finds "$egress_sandbox" in the path of a secret, and sets secret->each.
 * Returns NGX_DECLINED where there is no variable in it.
 */
ngx_int_t ngx_egress_secret_each(ngx_conf_t *cf, ngx_egress_secret_t *secret);

/*
 * Sets *secret to that of the sandbox, made where a worker has none yet; one
 * that is for all stays as it is.  Returns NGX_DECLINED without a sandbox, and
 * NGX_ERROR without memory.
 */
ngx_int_t ngx_egress_secret_of(ngx_egress_secret_t **secret,
    ngx_str_t *sandbox, ngx_log_t *log);

/*
 * Makes room for a value of "len" octets in secret->vault, which may be another
 * one afterwards; what is known of the file stays.
 */
ngx_int_t ngx_egress_secret_room(ngx_egress_secret_t *secret, size_t len,
    ngx_log_t *log);

/* The generation of another value of this secret. */
ngx_uint_t ngx_egress_secret_next(ngx_egress_secret_t *secret);

/* Once the block was read: warns where no client can have such a secret. */
void ngx_egress_secret_each_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf);

/* In a worker: memory for the secrets of sandboxes, if there are any. */
ngx_int_t ngx_egress_secret_shelves(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf);


/*
 * ngx_egress_tripwire.c: values that secrets have or had, DESIGN 6.8.
 */

/* Remembers a value, by its keyed hash; forgets one of long ago for it. */
void ngx_egress_tripwire_add(ngx_egress_conf_t *ecf, u_char *data, size_t len,
    ngx_log_t *log);

/* Tells whether a text is, or was, the value of a secret. */
ngx_uint_t ngx_egress_tripwire_find(ngx_egress_conf_t *ecf, u_char *data,
    size_t len);

/* Remembers what was read at load, once the zone is there. */
void ngx_egress_tripwire_init(ngx_egress_conf_t *ecf, ngx_log_t *log);


/*
 * ngx_egress_file.c: small files of the operator's, DESIGN 6.8.
 */

/*
 * Reads a small file of one line by the rules of 6.8 into "buf" of "size"
 * octets; "fi" gets what the open descriptor was.  "who" is for messages:
 * "secret", "placeholder", "CA key".
 *
 * Returns the length, 0 where it is empty, or a negative code of those below;
 * the reason was logged then.
 */
#define NGX_EGRESS_FILE_GONE      -1
#define NGX_EGRESS_FILE_BAD       -2      /* content or permissions */
#define NGX_EGRESS_FILE_DENIED    -3      /* not readable by this process */
#define NGX_EGRESS_FILE_TROUBLE   -4      /* EIO, EMFILE and the like */

ssize_t ngx_egress_file_read(ngx_log_t *log, const char *who, ngx_str_t *path,
    u_char *buf, size_t size, ngx_uint_t insecure, ngx_uint_t text,
    ngx_file_info_t *fi);

/* What is wrong with the kind of a file or its mode, or NULL. */
const char *ngx_egress_file_check(ngx_file_info_t *fi, ngx_uint_t insecure);

/* Which of the codes above an error of stat() or open() stands for. */
ngx_int_t ngx_egress_file_error(ngx_err_t err);

/* Tells whether a file has been as it is for long enough to count. */
ngx_uint_t ngx_egress_file_settled(ngx_file_info_t *fi);

/* for how long the last value holds where a file can't be read (EIO), in ms */
#define NGX_EGRESS_FILE_GRACE     10000

/* how soon a file in trouble, or in the making, is looked at again */
#define NGX_EGRESS_FILE_AGAIN     50


#endif /* _NGX_EGRESS_SECRET_H_INCLUDED_ */
