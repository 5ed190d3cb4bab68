
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


/* those that nothing is open of; of usual files one takes about 1 KiB */
#define NGX_EGRESS_SANDBOX_IDLE     16384

/*
 * A power of two.  The way down a tree of 10,000 is a cache miss at nearly
 * each step: it cost a fortieth of a request.
 */
#define NGX_EGRESS_SANDBOX_BUCKETS  16384


static void ngx_egress_sandbox_place(ngx_egress_sandboxes_t *all,
    ngx_egress_sandbox_t *box);
static void ngx_egress_sandbox_rest(ngx_egress_sandboxes_t *all,
    ngx_egress_sandbox_t *box);
static void ngx_egress_sandbox_remove(ngx_egress_sandboxes_t *all,
    ngx_egress_sandbox_t *box);


ngx_egress_sandbox_t *
ngx_egress_sandbox_lookup(ngx_egress_conf_t *ecf, ngx_str_t *id)
{
    uint32_t               hash;
    ngx_egress_sandbox_t  *box;

    hash = (uint32_t) ngx_egress_hash(ecf->shared->loop_key, id);

    box = ecf->boxes->buckets[hash % NGX_EGRESS_SANDBOX_BUCKETS];

    for ( /* void */ ; box; box = box->next) {

        if (box->hash == hash
            && box->id.len == id->len
            && ngx_memcmp(box->id.data, id->data, id->len) == 0)
        {
            return box;
        }
    }

    return NULL;
}


ngx_egress_sandbox_t *
ngx_egress_sandbox_by_hash(ngx_egress_sandboxes_t *all, uint32_t hash)
{
    ngx_egress_sandbox_t  *box;

    if (all->buckets == NULL) {
        return NULL;
    }

    box = all->buckets[hash % NGX_EGRESS_SANDBOX_BUCKETS];

    while (box && box->hash != hash) {
        box = box->next;
    }

    return box;
}


ngx_egress_sandbox_t *
ngx_egress_sandbox_owner(ngx_egress_conf_t *ecf, ngx_str_t *text)
{
    ngx_str_node_t          *sn;
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    if (all == NULL || all->placeholders.root == all->placeholders.sentinel
        || text->len < NGX_EGRESS_PLACEHOLDER_LEN)
    {
        return NULL;
    }

    sn = ngx_str_rbtree_lookup(&all->placeholders, text,
                               (uint32_t) ngx_egress_hash(ecf->hash_key,
                                                          text));

    return sn ? ((ngx_egress_sandbox_binding_t *) sn)->box : NULL;
}


ngx_egress_sandbox_t *
ngx_egress_sandbox_create(ngx_egress_conf_t *ecf, ngx_str_t *id,
    ngx_str_t *path)
{
    u_char                *p;
    ngx_pool_t            *pool;
    ngx_egress_sandbox_t  *box;

    /* it outlives the connection whose log is at hand */

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    box = ngx_pcalloc(pool, sizeof(ngx_egress_sandbox_t));
    p = ngx_pnalloc(pool, id->len + path->len + 1);

    if (box == NULL || p == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    box->pool = pool;
    box->conf = ecf;

    box->id.data = p;
    box->id.len = id->len;

    p = ngx_cpymem(p, id->data, id->len);

    box->path.data = p;
    box->path.len = path->len;

    p = ngx_cpymem(p, path->data, path->len);
    *p = '\0';

    ngx_queue_init(&box->lives);

    return box;
}


void
ngx_egress_sandbox_insert(ngx_egress_sandbox_t *box)
{
    ngx_uint_t                     i;
    ngx_egress_conf_t             *ecf;
    ngx_egress_sandboxes_t        *all;
    ngx_egress_sandbox_binding_t  *bound;

    ecf = box->conf;
    all = ecf->boxes;

    ngx_egress_sandbox_place(all, box);

    bound = box->bindings.elts;

    for (i = 0; i < box->bindings.nelts; i++) {

        if (bound[i].sn.str.len == 0) {
            continue;
        }

        bound[i].sn.node.key = (uint32_t) ngx_egress_hash(ecf->hash_key,
                                                          &bound[i].sn.str);

        ngx_rbtree_insert(&all->placeholders, &bound[i].sn.node);
    }

    ngx_egress_sandbox_rest(all, box);
}


static void
ngx_egress_sandbox_place(ngx_egress_sandboxes_t *all,
    ngx_egress_sandbox_t *box)
{
    ngx_egress_sandbox_t  **bucket;

    box->hash = (uint32_t) ngx_egress_hash(box->conf->shared->loop_key,
                                           &box->id);

    bucket = &all->buckets[box->hash % NGX_EGRESS_SANDBOX_BUCKETS];

    box->next = *bucket;
    *bucket = box;
}


/* the last one in use is the last one to be dropped */

static void
ngx_egress_sandbox_rest(ngx_egress_sandboxes_t *all, ngx_egress_sandbox_t *box)
{
    ngx_queue_t           *q;
    ngx_egress_sandbox_t  *oldest;

    ngx_queue_insert_tail(&all->idle, &box->queue);

    if (++all->nidle > NGX_EGRESS_SANDBOX_IDLE) {
        q = ngx_queue_head(&all->idle);
        oldest = ngx_queue_data(q, ngx_egress_sandbox_t, queue);

        ngx_egress_sandbox_over(oldest, NGX_EGRESS_SANDBOX_UNKNOWN);
    }
}


/*
 * It counts no more from now on.  What is open is closed by the timer: the
 * request that has found it out is still to be answered.
 */

void
ngx_egress_sandbox_over(ngx_egress_sandbox_t *box, ngx_uint_t reason)
{
    ngx_uint_t                     i;
    ngx_egress_sandboxes_t        *all;
    ngx_egress_sandbox_binding_t  *bound;

    all = box->conf->boxes;

    ngx_egress_sandbox_remove(all, box);

    bound = box->bindings.elts;

    for (i = 0; i < box->bindings.nelts; i++) {
        if (bound[i].sn.str.len) {
            ngx_rbtree_delete(&all->placeholders, &bound[i].sn.node);
        }
    }

    ngx_queue_remove(&box->queue);

    if (reason == NGX_EGRESS_SANDBOX_REVOKED && !all->told) {
        ngx_egress_ban(box->conf, box->hash);
    }

    if (ngx_queue_empty(&box->lives)) {
        all->nidle--;
        ngx_egress_sandbox_destroy(box);
        return;
    }

    all->nused--;

    box->reason = reason;
    box->ended = ngx_current_msec;

    ngx_queue_insert_tail(&all->over, &box->queue);

    ngx_egress_live_timer(all);
}


static void
ngx_egress_sandbox_remove(ngx_egress_sandboxes_t *all,
    ngx_egress_sandbox_t *box)
{
    ngx_egress_sandbox_t  **p;

    p = &all->buckets[box->hash % NGX_EGRESS_SANDBOX_BUCKETS];

    while (*p != box) {
        p = &(*p)->next;
    }

    *p = box->next;
}


void
ngx_egress_sandbox_idle(ngx_egress_sandbox_t *box)
{
    ngx_egress_sandboxes_t  *all;

    all = box->conf->boxes;

    ngx_queue_remove(&box->queue);

    if (box->reason != NGX_EGRESS_ALLOWED) {
        ngx_egress_sandbox_destroy(box);
        return;
    }

    all->nused--;

    ngx_egress_sandbox_rest(all, box);
}


void
ngx_egress_sandbox_destroy(ngx_egress_sandbox_t *box)
{
    ngx_explicit_memzero(box->token, sizeof(box->token));

    ngx_destroy_pool(box->pool);
}


ngx_int_t
ngx_egress_sandbox_init(ngx_cycle_t *cycle, ngx_egress_sandboxes_t *all)
{
    all->buckets = ngx_pcalloc(cycle->pool, NGX_EGRESS_SANDBOX_BUCKETS
                                            * sizeof(ngx_egress_sandbox_t *));

    return all->buckets ? NGX_OK : NGX_ERROR;
}
