
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* an idle connection */

typedef struct {
    ngx_queue_t                   queue;    /* of all, or of free items */
    ngx_queue_t                   bound;    /* of this bound host */
    ngx_connection_t             *connection;
    ngx_msec_t                    since;
    ngx_uint_t                    generation;   /* of the secrets */
    size_t                        sandbox_len;  /* whose they are, or 0 */
    u_char                        sandbox[NGX_EGRESS_SANDBOX_ID_LEN];
    ngx_egress_addr_t             addr;
} ngx_http_egress_item_t;


/* what a worker keeps for a bound host */

typedef struct {
    ngx_queue_t                   idle;
    ngx_egress_addrs_t           *addrs;
    time_t                        valid;        /* of addrs */
#if (NGX_HTTP_SSL)
    ngx_ssl_session_t            *session;
#endif
} ngx_http_egress_slot_t;


typedef struct {
    ngx_http_egress_slot_t       *slots;
    ngx_uint_t                    nslots;
    ngx_msec_t                    timeout;
    ngx_queue_t                   idle;     /* latest first */
    ngx_queue_t                   free;
    ngx_event_t                   timer;    /* for the last of idle */
} ngx_http_egress_pool_t;


static ngx_uint_t ngx_http_egress_pool_owned(ngx_egress_bound_t *bound,
    ngx_str_t *sandbox, ngx_http_egress_item_t *item);
static ngx_uint_t ngx_http_egress_pool_silent(ngx_connection_t *c);
static ngx_connection_t *ngx_http_egress_pool_wake(ngx_connection_t *c,
    ngx_log_t *log);
static ngx_http_egress_item_t *ngx_http_egress_pool_item(
    ngx_egress_bound_t *bound);
static void ngx_http_egress_pool_rest(ngx_connection_t *c,
    ngx_http_egress_item_t *item);
static void ngx_http_egress_pool_remove(ngx_http_egress_item_t *item);
static void ngx_http_egress_pool_expire(ngx_event_t *ev);
static void ngx_http_egress_pool_dummy_handler(ngx_event_t *ev);
static void ngx_http_egress_pool_close_handler(ngx_event_t *ev);
static void ngx_http_egress_pool_close(ngx_connection_t *c);
static void ngx_http_egress_pool_cleanup(void *data);


/* one a process: it belongs to the cycle that the worker serves */

static ngx_http_egress_pool_t  *ngx_http_egress_pool;


ngx_int_t
ngx_http_egress_pool_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    ngx_uint_t               i;
    ngx_pool_cleanup_t      *cln;
    ngx_http_egress_item_t  *items;
    ngx_http_egress_pool_t  *pool;

    cln = ngx_pool_cleanup_add(cycle->pool, sizeof(ngx_http_egress_pool_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    pool = cln->data;

    ngx_queue_init(&pool->idle);
    ngx_queue_init(&pool->free);

    ngx_memzero(&pool->timer, sizeof(ngx_event_t));

    pool->timer.handler = ngx_http_egress_pool_expire;
    pool->timer.data = pool;
    pool->timer.log = cycle->log;
    pool->timer.cancelable = 1;

    items = ngx_pcalloc(cycle->pool, ecf->keepalive
                                     * sizeof(ngx_http_egress_item_t));
    if (items == NULL) {
        return NGX_ERROR;
    }

    pool->timeout = ecf->keepalive_idle;

    for (i = 0; i < ecf->keepalive; i++) {
        ngx_queue_insert_tail(&pool->free, &items[i].queue);
    }

    pool->nslots = ecf->nbound;
    pool->slots = ngx_pcalloc(cycle->pool, pool->nslots
                                           * sizeof(ngx_http_egress_slot_t));
    if (pool->slots == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < pool->nslots; i++) {
        ngx_queue_init(&pool->slots[i].idle);
    }

    cln->handler = ngx_http_egress_pool_cleanup;

    ngx_http_egress_pool = pool;

    return NGX_OK;
}


ngx_connection_t *
ngx_http_egress_pool_get(ngx_egress_bound_t *bound, ngx_str_t *sandbox,
    ngx_msec_t age, ngx_egress_addr_t *addr, ngx_log_t *log)
{
    ngx_uint_t               generation;
    ngx_queue_t             *queue, *q, *next;
    ngx_http_egress_item_t  *item;

    queue = &ngx_http_egress_pool->slots[bound->index].idle;

    if (ngx_queue_empty(queue)) {
        return NULL;
    }

    generation = ngx_egress_generation(bound->binding, sandbox);

    for (q = ngx_queue_head(queue);
         q != ngx_queue_sentinel(queue);
         q = next)
    {
        next = ngx_queue_next(q);

        item = ngx_queue_data(q, ngx_http_egress_item_t, bound);

        if (age && ngx_current_msec - item->since > age) {

            /* the others are idle for longer still */

            return NULL;
        }

        if (!ngx_http_egress_pool_owned(bound, sandbox, item)) {
            continue;
        }

        ngx_http_egress_pool_remove(item);

        /*
         * With another secret nothing of the last one's session may stay; the
         * system call is worth it where nothing may be repeated.
         */

        if (item->generation != generation
            || (age && !ngx_http_egress_pool_silent(item->connection)))
        {
            ngx_http_egress_pool_close(item->connection);
            continue;
        }

        if (bound->binding->upstream == NULL) {
            *addr = item->addr;
            addr->name.data = addr->text;
        }

        return ngx_http_egress_pool_wake(item->connection, log);
    }

    return NULL;
}


/* tells that nothing has come: no octet that nobody asked for, and no close */

static ngx_uint_t
ngx_http_egress_pool_silent(ngx_connection_t *c)
{
    char  buf[1];

    return recv(c->fd, buf, 1, MSG_PEEK) == -1
           && ngx_socket_errno == NGX_EAGAIN;
}


static ngx_connection_t *
ngx_http_egress_pool_wake(ngx_connection_t *c, ngx_log_t *log)
{
    c->idle = 0;
    c->sent = 0;
    c->data = NULL;
    c->log = log;
    c->read->log = log;
    c->write->log = log;
    c->pool->log = log;

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    return c;
}


/* what has carried a sandbox's own secret is of no use to any other */

static ngx_uint_t
ngx_http_egress_pool_owned(ngx_egress_bound_t *bound, ngx_str_t *sandbox,
    ngx_http_egress_item_t *item)
{
    return !bound->binding->sandboxed
           || (item->sandbox_len == sandbox->len
               && (sandbox->len == 0
                   || ngx_memcmp(item->sandbox, sandbox->data, sandbox->len)
                      == 0));
}


ngx_int_t
ngx_http_egress_pool_put(ngx_egress_bound_t *bound, ngx_str_t *sandbox,
    ngx_connection_t *c, ngx_peer_connection_t *pc, ngx_uint_t generation)
{
    ngx_http_egress_item_t  *item;

    if (sandbox->len > NGX_EGRESS_SANDBOX_ID_LEN
        || ngx_handle_read_event(c->read, 0) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    item = ngx_http_egress_pool_item(bound);
    if (item == NULL) {
        return NGX_DECLINED;
    }

    item->connection = c;
    item->since = ngx_current_msec;

    if (bound->binding->upstream == NULL) {
        ngx_memcpy(&item->addr.sockaddr, pc->sockaddr, pc->socklen);
        ngx_memcpy(item->addr.text, pc->name->data, pc->name->len);

        item->addr.socklen = pc->socklen;
        item->addr.name.len = pc->name->len;
    }

    item->generation = generation ? generation
                                  : ngx_egress_generation(bound->binding,
                                                          sandbox);

    item->sandbox_len = bound->binding->sandboxed ? sandbox->len : 0;

    if (item->sandbox_len) {
        ngx_memcpy(item->sandbox, sandbox->data, sandbox->len);
    }

    ngx_http_egress_pool_rest(c, item);

    if (c->read->ready) {
        ngx_http_egress_pool_close_handler(c->read);
    }

    return NGX_OK;
}


/* a free one, or that which is idle for longest; NULL: there is none at all */

static ngx_http_egress_item_t *
ngx_http_egress_pool_item(ngx_egress_bound_t *bound)
{
    ngx_queue_t             *q;
    ngx_http_egress_item_t  *item;

    if (ngx_queue_empty(&ngx_http_egress_pool->free)) {

        if (ngx_queue_empty(&ngx_http_egress_pool->idle)) {

            /* "upstream_keepalive 0" */

            return NULL;
        }

        q = ngx_queue_last(&ngx_http_egress_pool->idle);
        item = ngx_queue_data(q, ngx_http_egress_item_t, queue);

        ngx_http_egress_pool_remove(item);
        ngx_http_egress_pool_close(item->connection);
    }

    q = ngx_queue_head(&ngx_http_egress_pool->free);
    ngx_queue_remove(q);

    item = ngx_queue_data(q, ngx_http_egress_item_t, queue);

    ngx_queue_insert_head(&ngx_http_egress_pool->idle, &item->queue);
    ngx_queue_insert_head(&ngx_http_egress_pool->slots[bound->index].idle,
                          &item->bound);

    return item;
}


static void
ngx_http_egress_pool_rest(ngx_connection_t *c, ngx_http_egress_item_t *item)
{
    c->read->delayed = 0;

    /* a timer of the connection's own may stay where it is the later one */

    if (c->read->timer_set
        && (ngx_msec_int_t) (c->read->timer.key - item->since
                             - ngx_http_egress_pool->timeout)
           < 0)
    {
        ngx_del_timer(c->read);
    }

    if (!ngx_http_egress_pool->timer.timer_set) {
        ngx_add_timer(&ngx_http_egress_pool->timer,
                      ngx_http_egress_pool->timeout);
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    c->write->handler = ngx_http_egress_pool_dummy_handler;
    c->read->handler = ngx_http_egress_pool_close_handler;

    c->data = item;
    c->idle = 1;
    c->log = ngx_cycle->log;
    c->read->log = ngx_cycle->log;
    c->write->log = ngx_cycle->log;
    c->pool->log = ngx_cycle->log;
}


ngx_egress_addrs_t *
ngx_http_egress_pool_addrs(ngx_egress_bound_t *bound)
{
    ngx_http_egress_slot_t  *slot;

    slot = &ngx_http_egress_pool->slots[bound->index];

    if (slot->addrs == NULL || slot->valid < ngx_time()) {
        return NULL;
    }

    slot->addrs->refs++;

    return slot->addrs;
}


void
ngx_http_egress_pool_save_addrs(ngx_egress_bound_t *bound,
    ngx_egress_addrs_t *addrs, time_t valid)
{
    ngx_http_egress_slot_t  *slot;

    slot = &ngx_http_egress_pool->slots[bound->index];

    ngx_egress_addrs_free(slot->addrs);

    addrs->refs++;

    slot->addrs = addrs;
    slot->valid = valid;
}


static void
ngx_http_egress_pool_remove(ngx_http_egress_item_t *item)
{
    ngx_queue_remove(&item->queue);
    ngx_queue_remove(&item->bound);

    ngx_queue_insert_head(&ngx_http_egress_pool->free, &item->queue);
}


/* one timer for all that are idle: they come and go with each request */

static void
ngx_http_egress_pool_expire(ngx_event_t *ev)
{
    ngx_queue_t             *q;
    ngx_msec_int_t           left;
    ngx_http_egress_item_t  *item;
    ngx_http_egress_pool_t  *pool;

    pool = ev->data;

    while (!ngx_queue_empty(&pool->idle)) {

        q = ngx_queue_last(&pool->idle);
        item = ngx_queue_data(q, ngx_http_egress_item_t, queue);

        left = (ngx_msec_int_t) (item->since + pool->timeout
                                 - ngx_current_msec);

        if (left > 0) {
            ngx_add_timer(ev, (ngx_msec_t) left);
            return;
        }

        ngx_http_egress_pool_remove(item);
        ngx_http_egress_pool_close(item->connection);
    }
}


static void
ngx_http_egress_pool_dummy_handler(ngx_event_t *ev)
{
    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, ev->log, 0,
                   "egress pool dummy handler");
}


/* closed by the peer, timed out, closed for a reload, or bytes unasked for */

static void
ngx_http_egress_pool_close_handler(ngx_event_t *ev)
{
    ngx_connection_t  *c;

    c = ev->data;

    if (!c->close && !c->read->timedout && ngx_http_egress_pool_silent(c)) {

        ev->ready = 0;

        if (ngx_handle_read_event(c->read, 0) == NGX_OK) {
            return;
        }
    }

    ngx_http_egress_pool_remove(c->data);
    ngx_http_egress_pool_close(c);
}


static void
ngx_http_egress_pool_close(ngx_connection_t *c)
{
#if (NGX_HTTP_SSL)

    if (c->ssl) {
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;

        if (ngx_ssl_shutdown(c) == NGX_AGAIN) {
            c->ssl->handler = ngx_http_egress_pool_close;
            return;
        }
    }

#endif

    ngx_destroy_pool(c->pool);
    ngx_close_connection(c);
}


static void
ngx_http_egress_pool_cleanup(void *data)
{
    ngx_http_egress_pool_t *pool = data;

    ngx_uint_t  i;

    for (i = 0; i < pool->nslots; i++) {

        ngx_egress_addrs_free(pool->slots[i].addrs);
        pool->slots[i].addrs = NULL;

#if (NGX_HTTP_SSL)
        if (pool->slots[i].session) {
            ngx_ssl_free_session(pool->slots[i].session);
        }
#endif
    }

    if (pool->timer.timer_set) {
        ngx_del_timer(&pool->timer);
    }

    if (ngx_http_egress_pool == pool) {
        ngx_http_egress_pool = NULL;
    }
}


#if (NGX_HTTP_SSL)

ngx_ssl_session_t *
ngx_http_egress_pool_session(ngx_egress_bound_t *bound)
{
    return ngx_http_egress_pool->slots[bound->index].session;
}


void
ngx_http_egress_pool_save_session(ngx_egress_bound_t *bound,
    ngx_ssl_session_t *session)
{
    ngx_http_egress_slot_t  *slot;

    slot = &ngx_http_egress_pool->slots[bound->index];

    if (slot->session) {
        ngx_ssl_free_session(slot->session);
    }

    slot->session = session;
}

#endif
