
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


/* files of what is open are looked at so often, whatever "secret_check" is */
#define NGX_EGRESS_LIVE_CHECK   1000    /* ms */

/* the work of a worker is cut in pieces */
#define NGX_EGRESS_LIVE_TICK    100     /* ms */
#define NGX_EGRESS_LIVE_TICKS   5       /* until all had their turn */
#define NGX_EGRESS_LIVE_FEW     16

/* how long a refusal has to reach its client */
#define NGX_EGRESS_LIVE_ANSWER  200     /* ms */

/* what did not end when it was told to is told again */
#define NGX_EGRESS_LIVE_AGAIN   1000    /* ms */


static void ngx_egress_live_cleanup(void *data);
static void ngx_egress_live_free(void *data);
static void ngx_egress_live_handler(ngx_event_t *ev);
static void ngx_egress_live_bans(ngx_egress_conf_t *ecf, ngx_log_t *log);
static void ngx_egress_live_used(ngx_egress_conf_t *ecf, ngx_log_t *log);
static void ngx_egress_live_over(ngx_egress_sandboxes_t *all, ngx_log_t *log);
static void ngx_egress_live_secrets(ngx_egress_conf_t *ecf, ngx_log_t *log);
static void ngx_egress_live_secret(ngx_egress_conf_t *ecf,
    ngx_egress_secret_t *secret, ngx_log_t *log);


ngx_egress_live_t *
ngx_egress_live_create(ngx_pool_t *pool, ngx_egress_live_pt handler,
    void *data)
{
    ngx_egress_live_t   *live;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_egress_live_t));
    if (cln == NULL) {
        return NULL;
    }

    live = cln->data;

    ngx_memzero(live, sizeof(ngx_egress_live_t));

    live->handler = handler;
    live->data = data;

    cln->handler = ngx_egress_live_cleanup;

    return live;
}


void
ngx_egress_live_join(ngx_egress_live_t *live, ngx_egress_sandbox_t *box)
{
    ngx_egress_sandboxes_t  *all;

    if (live->box == box) {
        return;
    }

    ngx_egress_live_leave(live);

    all = box->conf->boxes;

    if (ngx_queue_empty(&box->lives) && box->reason == NGX_EGRESS_ALLOWED) {
        ngx_queue_remove(&box->queue);
        ngx_queue_insert_tail(&all->used, &box->queue);

        all->nidle--;
        all->nused++;
    }

    live->box = box;
    ngx_queue_insert_tail(&box->lives, &live->queue);

    ngx_egress_live_timer(all);
}


ngx_int_t
ngx_egress_live_carry(ngx_egress_live_t *live, ngx_egress_conf_t *ecf,
    ngx_egress_secret_t *secret, ngx_str_t *sandbox, time_t ttl)
{
    ngx_egress_sandboxes_t  *all;

    ngx_egress_live_leave(live);

    if (ngx_egress_secret_of(&secret, sandbox, ngx_cycle->log) != NGX_OK) {

        /* left the cache since it was read: nobody could cut this off */

        return NGX_ERROR;
    }

    all = ecf->boxes;

    if (ngx_queue_empty(&secret->lives)) {
        secret->looked = ngx_current_msec;
        ngx_queue_insert_tail(&all->secrets, &secret->queue);
        all->nsecrets++;
    }

    live->secret = secret;
    live->ttl = ttl;
    live->all = all;

    ngx_queue_insert_tail(&secret->lives, &live->queue);

    ngx_egress_live_timer(all);

    return NGX_OK;
}


void
ngx_egress_live_leave(ngx_egress_live_t *live)
{
    ngx_egress_secret_t   *secret;
    ngx_egress_sandbox_t  *box;

    box = live->box;
    secret = live->secret;

    live->box = NULL;
    live->secret = NULL;

    if (box) {
        ngx_queue_remove(&live->queue);

        if (ngx_queue_empty(&box->lives)) {
            ngx_egress_sandbox_idle(box);
        }
    }

    if (secret) {
        ngx_queue_remove(&live->queue);

        if (ngx_queue_empty(&secret->lives)) {
            ngx_queue_remove(&secret->queue);
            live->all->nsecrets--;
        }
    }
}


static void
ngx_egress_live_cleanup(void *data)
{
    ngx_egress_live_leave(data);
}


void
ngx_egress_sever(ngx_connection_t *c, ngx_uint_t reset)
{
    struct linger  linger;

    if (reset) {
        linger.l_onoff = 1;
        linger.l_linger = 0;

        if (setsockopt(c->fd, SOL_SOCKET, SO_LINGER,
                       (const void *) &linger, sizeof(struct linger)) == -1)
        {
            ngx_log_error(NGX_LOG_ALERT, c->log, ngx_socket_errno,
                          "setsockopt(SO_LINGER) failed");
        }
    }

#if (NGX_SSL)

    if (c->ssl) {

        /* an answer that was cut off must not look like a whole one */

        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;
    }

#endif

    /* for handlers that do not know of c->close: there is nothing to read */

    (void) shutdown(c->fd, SHUT_RDWR);

    ngx_egress_end(c);
}


void
ngx_egress_end(ngx_connection_t *c)
{
    /* as at the end of worker_shutdown_timeout, but not within this call */

    c->close = 1;
    c->error = 1;

    ngx_post_event(c->read, &ngx_posted_events);
}


void
ngx_egress_live_timer(ngx_egress_sandboxes_t *all)
{
    if (!all->timer.timer_set) {
        ngx_add_timer(&all->timer, NGX_EGRESS_LIVE_TICK);
    }
}


static void
ngx_egress_live_handler(ngx_event_t *ev)
{
    ngx_egress_conf_t       *ecf;
    ngx_egress_sandboxes_t  *all;

    ecf = ev->data;
    all = ecf->boxes;

    ngx_egress_live_bans(ecf, ev->log);
    ngx_egress_live_used(ecf, ev->log);
    ngx_egress_live_over(all, ev->log);
    ngx_egress_live_secrets(ecf, ev->log);

    if (all->nused || all->nsecrets || !ngx_queue_empty(&all->over)) {
        ngx_egress_live_timer(all);
    }
}


/* of these another worker knows already: their turn is now */

static void
ngx_egress_live_bans(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    ngx_uint_t               i, n, last;
    ngx_slab_pool_t         *shpool;
    ngx_egress_sandbox_t    *box;
    ngx_egress_sandboxes_t  *all;

    static uint32_t  bans[NGX_EGRESS_BANS];

    all = ecf->boxes;

    if (ecf->shared->nbans == all->nbans) {
        return;
    }

    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    last = ecf->shared->nbans;
    n = ngx_min(last - all->nbans, NGX_EGRESS_BANS);

    for (i = 0; i < n; i++) {
        bans[i] = ecf->shared->bans[(last - n + i) % NGX_EGRESS_BANS];
    }

    ngx_shmtx_unlock(&shpool->mutex);

    all->nbans = last;
    all->told = 1;

    for (i = 0; i < n; i++) {
        box = ngx_egress_sandbox_by_hash(all, bans[i]);

        if (box) {
            ngx_egress_sandbox_look(box, log);
        }
    }

    all->told = 0;
}


void
ngx_egress_ban(ngx_egress_conf_t *ecf, uint32_t hash)
{
    ngx_slab_pool_t  *shpool;

    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    ecf->shared->bans[ecf->shared->nbans % NGX_EGRESS_BANS] = hash;
    ecf->shared->nbans++;

    ngx_shmtx_unlock(&shpool->mutex);
}


static void
ngx_egress_live_used(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    ngx_uint_t               n, looks;
    ngx_queue_t             *q;
    ngx_egress_sandbox_t    *box;
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    ngx_egress_watch_check(ecf, log);

    looks = all->nused / NGX_EGRESS_LIVE_TICKS + NGX_EGRESS_LIVE_FEW;

    for (n = looks; n && !ngx_queue_empty(&all->used); n--) {

        q = ngx_queue_head(&all->used);
        box = ngx_queue_data(q, ngx_egress_sandbox_t, queue);

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&all->used, q);

        (void) ngx_egress_sandbox_check(box, NGX_EGRESS_LIVE_CHECK, log);
    }
}


static void
ngx_egress_live_over(ngx_egress_sandboxes_t *all, ngx_log_t *log)
{
    ngx_uint_t             n;
    ngx_queue_t           *q, *lq;
    ngx_egress_live_t     *live;
    ngx_egress_sandbox_t  *box;

    for (q = ngx_queue_head(&all->over);
         q != ngx_queue_sentinel(&all->over);
         q = ngx_queue_next(q))
    {
        box = ngx_queue_data(q, ngx_egress_sandbox_t, queue);

        if (ngx_current_msec - box->ended
            < (box->told ? NGX_EGRESS_LIVE_AGAIN : NGX_EGRESS_LIVE_ANSWER))
        {
            continue;
        }

        n = 0;

        for (lq = ngx_queue_head(&box->lives);
             lq != ngx_queue_sentinel(&box->lives);
             lq = ngx_queue_next(lq))
        {
            live = ngx_queue_data(lq, ngx_egress_live_t, queue);
            live->handler(live, box->reason);
            n++;
        }

        if (!box->told) {
            ngx_log_error(NGX_LOG_NOTICE, log, 0,
                          "sandbox \"%V\" %s: %ui connections and requests "
                          "closed", &box->id,
                          box->reason == NGX_EGRESS_SANDBOX_EXPIRED
                          ? "has expired" : "was removed or changed", n);
        }

        box->told = 1;
        box->ended = ngx_current_msec;
    }
}


static void
ngx_egress_live_secrets(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    ngx_uint_t               n;
    ngx_msec_t               interval;
    ngx_queue_t             *q;
    ngx_egress_secret_t     *secret;
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    interval = ngx_max(ecf->secret_check, NGX_EGRESS_LIVE_CHECK);

    n = all->nsecrets / NGX_EGRESS_LIVE_TICKS + NGX_EGRESS_LIVE_FEW;

    for ( /* void */ ; n && !ngx_queue_empty(&all->secrets); n--) {

        q = ngx_queue_head(&all->secrets);
        secret = ngx_queue_data(q, ngx_egress_secret_t, queue);

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&all->secrets, q);

        if (ngx_current_msec - secret->looked >= interval) {
            secret->looked = ngx_current_msec;
            ngx_egress_live_secret(ecf, secret, log);
        }
    }
}


/* a new value is none of this: what has begun goes on with the former one */

static void
ngx_egress_live_secret(ngx_egress_conf_t *ecf, ngx_egress_secret_t *secret,
    ngx_log_t *log)
{
    ngx_int_t           rc;
    ngx_uint_t          n, reason;
    ngx_queue_t        *q;
    ngx_egress_live_t  *live;

    n = 0;

    rc = ngx_egress_secret_get(ecf, secret, NULL, NULL, NULL, log);

    for (q = ngx_queue_head(&secret->lives);
         q != ngx_queue_sentinel(&secret->lives);
         q = ngx_queue_next(q))
    {
        live = ngx_queue_data(q, ngx_egress_live_t, queue);

        if (rc == NGX_OK) {

            if (live->ttl == 0
                || ngx_egress_secret_age(secret, NULL) <= live->ttl)
            {
                continue;
            }

            reason = NGX_EGRESS_CREDENTIAL_EXPIRED;

        } else {
            reason = (rc == NGX_DECLINED) ? NGX_EGRESS_CREDENTIAL_MISSING
                                          : NGX_EGRESS_SECRET_UNREADABLE;
        }

        live->handler(live, reason);
        n++;
    }

    if (n) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "secret \"%V\" may not be used any more: %ui requests "
                      "closed", &secret->path, n);
    }
}


ngx_int_t
ngx_egress_live_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    ngx_pool_cleanup_t      *cln;
    ngx_egress_sandboxes_t  *all;

    cln = ngx_pool_cleanup_add(cycle->pool, sizeof(ngx_egress_sandboxes_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_egress_live_free;

    all = cln->data;

    ngx_memzero(all, sizeof(ngx_egress_sandboxes_t));

    ngx_rbtree_init(&all->placeholders, &all->placeholders_sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_queue_init(&all->idle);
    ngx_queue_init(&all->used);
    ngx_queue_init(&all->over);
    ngx_queue_init(&all->secrets);

    all->nbans = ecf->shared->nbans;

    /* it keeps no worker alive that has nothing open */

    all->timer.handler = ngx_egress_live_handler;
    all->timer.data = ecf;
    all->timer.log = cycle->log;
    all->timer.cancelable = 1;

    ecf->boxes = all;

    if (ecf->sandboxes.len) {

        if (ngx_egress_sandbox_init(cycle, all) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_egress_watch_init(cycle, ecf);
    }

    return NGX_OK;
}


/* with "master_process off" a reload is within this process */

static void
ngx_egress_live_free(void *data)
{
    ngx_egress_sandboxes_t *all = data;

    ngx_queue_t           *q;
    ngx_egress_sandbox_t  *box;

    if (all->timer.timer_set) {
        ngx_del_timer(&all->timer);
    }

    while (!ngx_queue_empty(&all->idle)) {
        q = ngx_queue_head(&all->idle);
        box = ngx_queue_data(q, ngx_egress_sandbox_t, queue);

        ngx_queue_remove(q);
        ngx_destroy_pool(box->pool);
    }
}
