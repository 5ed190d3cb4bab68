
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


#define NGX_EGRESS_COUNT_MAX  65535


/* where a connection is counted, on its pool */

typedef struct {
    ngx_egress_conf_t        *conf;
    ngx_egress_role_t        *role;
    ngx_egress_count_t       *count;        /* NULL: nowhere */
    size_t                    len;
    u_char                    sandbox[NGX_EGRESS_SANDBOX_ID_LEN];
} ngx_egress_counted_t;


static ngx_egress_counted_t *ngx_egress_limit_counted(ngx_pool_t *pool);
static ngx_uint_t ngx_egress_limit_same(ngx_egress_counted_t *counted,
    ngx_egress_role_t *role, ngx_str_t *sandbox);
static void ngx_egress_limit_count(ngx_egress_counted_t *counted,
    uint64_t hash, ngx_log_t *log);
static ngx_int_t ngx_egress_limit_hash(ngx_egress_counts_t *counts,
    ngx_egress_role_t *role, ngx_str_t *sandbox, uint64_t *hash);
static ngx_egress_count_t *ngx_egress_limit_take(ngx_egress_counts_t *counts,
    uint64_t hash, ngx_uint_t max);
static ngx_uint_t ngx_egress_limit_sum(ngx_egress_counts_t *counts,
    uint64_t hash, ngx_egress_count_t **own);
static void ngx_egress_limit_bury(ngx_egress_counts_t *counts, uint64_t hash);
static ngx_egress_count_t *ngx_egress_limit_alloc(ngx_egress_counts_t *counts,
    uint64_t hash);
static void ngx_egress_limit_free(ngx_egress_counts_t *counts,
    uint32_t *next);
static void ngx_egress_limit_leave(ngx_egress_counted_t *counted);
static void ngx_egress_limit_cleanup(void *data);


ngx_uint_t
ngx_egress_limit_enter(ngx_egress_conf_t *ecf, ngx_pool_t *pool,
    ngx_egress_role_t *role, ngx_str_t *sandbox)
{
    uint64_t               hash;
    ngx_pool_cleanup_t    *cln;
    ngx_egress_counted_t  *counted;

    if (role->max_connections == 0) {
        return NGX_EGRESS_ALLOWED;
    }

    counted = ngx_egress_limit_counted(pool);

    if (counted && ngx_egress_limit_same(counted, role, sandbox)) {
        return NGX_EGRESS_ALLOWED;
    }

    if (counted == NULL) {

        cln = ngx_pool_cleanup_add(pool, sizeof(ngx_egress_counted_t));
        if (cln == NULL) {
            return NGX_EGRESS_LIMIT_REACHED;
        }

        counted = cln->data;
        counted->count = NULL;

        cln->handler = ngx_egress_limit_cleanup;
    }

    if (sandbox->len > NGX_EGRESS_SANDBOX_ID_LEN
        || ngx_egress_limit_hash(&ecf->shared->counts, role, sandbox, &hash)
           != NGX_OK)
    {
        return NGX_EGRESS_LIMIT_REACHED;
    }

    ngx_egress_limit_leave(counted);

    counted->conf = ecf;
    counted->role = role;
    counted->len = sandbox->len;
    ngx_memcpy(counted->sandbox, sandbox->data, sandbox->len);

    ngx_egress_limit_count(counted, hash, pool->log);

    return counted->count ? NGX_EGRESS_ALLOWED : NGX_EGRESS_LIMIT_REACHED;
}


static ngx_egress_counted_t *
ngx_egress_limit_counted(ngx_pool_t *pool)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_egress_limit_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


/* it is counted already, and for the same client */

static ngx_uint_t
ngx_egress_limit_same(ngx_egress_counted_t *counted, ngx_egress_role_t *role,
    ngx_str_t *sandbox)
{
    if (counted->count == NULL || counted->len != sandbox->len) {
        return 0;
    }

    if (counted->len == 0) {
        return counted->role == role;
    }

    return ngx_memcmp(counted->sandbox, sandbox->data, sandbox->len) == 0;
}


static void
ngx_egress_limit_count(ngx_egress_counted_t *counted, uint64_t hash,
    ngx_log_t *log)
{
    ngx_uint_t            full;
    ngx_slab_pool_t      *shpool;
    ngx_egress_counts_t  *counts;

    counts = &counted->conf->shared->counts;
    shpool = (ngx_slab_pool_t *) counted->conf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    counted->count = ngx_egress_limit_take(counts, hash,
                                           counted->role->max_connections);

    full = (counts->used == NGX_EGRESS_COUNTS && counts->free == 0);

    ngx_shmtx_unlock(&shpool->mutex);

    if (counted->count == NULL && full) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "no room in the zone to count connections of more "
                      "sandboxes");
    }
}


/* nobody can choose names so that they meet */

static ngx_int_t
ngx_egress_limit_hash(ngx_egress_counts_t *counts, ngx_egress_role_t *role,
    ngx_str_t *sandbox, uint64_t *hash)
{
    u_char         digest[EVP_MAX_MD_SIZE];
    ngx_str_t     *name;
    unsigned int   n;

    name = sandbox->len ? sandbox : &role->name;

    if (HMAC(EVP_sha256(), counts->key, sizeof(counts->key), name->data,
             name->len, digest, &n)
        == NULL)
    {
        return NGX_ERROR;
    }

    ngx_memcpy(hash, digest, sizeof(uint64_t));

    /* a sandbox may be called after a role */

    *hash = (*hash & ~(uint64_t) 1) | (sandbox->len != 0);

    return NGX_OK;
}


static ngx_egress_count_t *
ngx_egress_limit_take(ngx_egress_counts_t *counts, uint64_t hash,
    ngx_uint_t max)
{
    ngx_egress_count_t  *own;

    if (ngx_egress_limit_sum(counts, hash, &own) >= max) {

        ngx_egress_limit_bury(counts, hash);

        if (ngx_egress_limit_sum(counts, hash, &own) >= max) {
            return NULL;
        }
    }

    if (own == NULL) {
        own = ngx_egress_limit_alloc(counts, hash);
    }

    if (own == NULL || own->count == NGX_EGRESS_COUNT_MAX) {
        return NULL;
    }

    own->count++;

    return own;
}


static ngx_uint_t
ngx_egress_limit_sum(ngx_egress_counts_t *counts, uint64_t hash,
    ngx_egress_count_t **own)
{
    uint32_t             i;
    ngx_uint_t           sum;
    ngx_egress_count_t  *count;

    sum = 0;
    *own = NULL;

    i = counts->chains[hash % NGX_EGRESS_COUNT_CHAINS];

    while (i) {
        count = &counts->count[i];

        if (count->hash == hash) {
            sum += count->count;

            if (count->slot == ngx_process_slot) {
                *own = count;
            }
        }

        i = count->next;
    }

    return sum;
}


/*
 * The slot of a worker that was killed while it was leaving may stay empty
 * for long: whether it is there is asked where it would make a difference.
 */

static void
ngx_egress_limit_bury(ngx_egress_counts_t *counts, uint64_t hash)
{
    uint32_t            *next;
    ngx_egress_count_t  *count;

    next = &counts->chains[hash % NGX_EGRESS_COUNT_CHAINS];

    while (*next) {
        count = &counts->count[*next];

        if (count->hash == hash
            && count->slot != ngx_process_slot
            && kill(counts->pids[count->slot], 0) == -1
            && ngx_errno == NGX_ESRCH)
        {
            ngx_egress_limit_free(counts, next);
            continue;
        }

        next = &count->next;
    }
}


static ngx_egress_count_t *
ngx_egress_limit_alloc(ngx_egress_counts_t *counts, uint64_t hash)
{
    uint32_t             i, *chain;
    ngx_egress_count_t  *count;

    i = counts->free;

    if (i) {
        counts->free = counts->count[i].next;

    } else if (counts->used < NGX_EGRESS_COUNTS) {
        i = ++counts->used;

    } else {
        return NULL;
    }

    chain = &counts->chains[hash % NGX_EGRESS_COUNT_CHAINS];

    count = &counts->count[i];

    count->hash = hash;
    count->slot = (uint16_t) ngx_process_slot;
    count->count = 0;
    count->next = *chain;

    *chain = i;

    return count;
}


static void
ngx_egress_limit_free(ngx_egress_counts_t *counts, uint32_t *next)
{
    uint32_t             i;
    ngx_egress_count_t  *count;

    i = *next;
    count = &counts->count[i];

    *next = count->next;

    count->next = counts->free;
    counts->free = i;
}


static void
ngx_egress_limit_leave(ngx_egress_counted_t *counted)
{
    uint32_t             *next;
    ngx_slab_pool_t      *shpool;
    ngx_egress_count_t   *count;
    ngx_egress_counts_t  *counts;

    count = counted->count;

    if (count == NULL) {
        return;
    }

    counted->count = NULL;

    counts = &counted->conf->shared->counts;
    shpool = (ngx_slab_pool_t *) counted->conf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    if (--count->count == 0) {

        next = &counts->chains[count->hash % NGX_EGRESS_COUNT_CHAINS];

        while (&counts->count[*next] != count) {
            next = &counts->count[*next].next;
        }

        ngx_egress_limit_free(counts, next);
    }

    ngx_shmtx_unlock(&shpool->mutex);
}


/* its address is what tells our place from other cleanups */

static void
ngx_egress_limit_cleanup(void *data)
{
    ngx_egress_limit_leave(data);
}


void
ngx_egress_limit_init_worker(ngx_egress_conf_t *ecf)
{
    uint32_t             *next;
    ngx_uint_t            i;
    ngx_slab_pool_t      *shpool;
    ngx_egress_counts_t  *counts;

    counts = &ecf->shared->counts;
    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    counts->pids[ngx_process_slot] = ngx_pid;

    for (i = 0; i < NGX_EGRESS_COUNT_CHAINS; i++) {

        next = &counts->chains[i];

        while (*next) {

            if (counts->count[*next].slot == ngx_process_slot) {
                ngx_egress_limit_free(counts, next);
                continue;
            }

            next = &counts->count[*next].next;
        }
    }

    ngx_shmtx_unlock(&shpool->mutex);
}
