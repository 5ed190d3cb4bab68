
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


/* connections that began so long ago are no part of a loop that grows */
#define NGX_EGRESS_LOOP_TIME  30


static void ngx_egress_destination_bound(ngx_egress_role_t *role,
    ngx_egress_host_t *host, ngx_egress_destination_t *dest);
static ngx_uint_t ngx_egress_destination_name(ngx_egress_role_t *role,
    ngx_egress_host_t *host, in_port_t port);
static ngx_uint_t ngx_egress_destination_cidr(ngx_egress_role_t *role,
    ngx_egress_host_t *host);
static ngx_uint_t ngx_egress_address_local(struct sockaddr *sockaddr,
    ngx_log_t *log);
static ngx_egress_own_t *ngx_egress_own_find(ngx_egress_conf_t *ecf,
    in_port_t port);

static ngx_egress_own_t *ngx_egress_own_add(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf, in_port_t port);
static ngx_int_t ngx_egress_gateway_check(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf, ngx_egress_gateway_t *gateway);
static const char *ngx_egress_gateway_events(ngx_cycle_t *cycle);
static const char *ngx_egress_gateway_listener(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf, ngx_egress_gateway_t *gateway);
static ngx_uint_t ngx_egress_gateway_alone(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf, ngx_egress_gateway_t *gateway);


void
ngx_egress_destination(ngx_egress_role_t *role, ngx_egress_host_t *host,
    ngx_egress_destination_t *dest)
{
    in_port_t  port;

    dest->kind = NGX_EGRESS_DEST_REFUSED;
    dest->name = NULL;
    dest->privates = NULL;
    dest->report = 0;

    if (host->family != AF_UNSPEC) {

        if (ngx_egress_destination_cidr(role, host)) {
            dest->kind = NGX_EGRESS_DEST_ADDRESS;
            dest->privates = &role->privates;

        } else if (role->report) {
            dest->kind = NGX_EGRESS_DEST_ADDRESS;
            dest->report = 1;
        }

        return;
    }

    dest->name = ngx_egress_name_find(role->conf, host->name, host->len);

    if (dest->name) {

        /* a bound name is never passed through, whatever a role says */

        ngx_egress_destination_bound(role, host, dest);
        return;
    }

    port = host->port ? host->port : NGX_EGRESS_PORT;

    if (ngx_egress_destination_name(role, host, port)) {
        dest->kind = NGX_EGRESS_DEST_NAME;
        dest->privates = &role->privates;
        return;
    }

    /* "network all" lifts no range */

    if (role->network && port == NGX_EGRESS_PORT) {
        dest->kind = NGX_EGRESS_DEST_NAME;
        return;
    }

    if (role->report && role->conf->resolver) {
        dest->kind = NGX_EGRESS_DEST_NAME;
        dest->report = 1;
    }
}


static void
ngx_egress_destination_bound(ngx_egress_role_t *role, ngx_egress_host_t *host,
    ngx_egress_destination_t *dest)
{
    ngx_egress_bound_t  *bound;

    for (bound = dest->name->bound; bound; bound = bound->next) {

        if (host->port && bound->port != host->port) {
            continue;
        }

        if (ngx_egress_role_uses(role, bound->binding)) {
            dest->kind = NGX_EGRESS_DEST_BOUND;
            return;
        }

        dest->kind = NGX_EGRESS_DEST_BINDING;
    }
}


static ngx_uint_t
ngx_egress_destination_name(ngx_egress_role_t *role, ngx_egress_host_t *host,
    in_port_t port)
{
    in_port_t             *ports;
    ngx_str_t              name;
    ngx_uint_t             i;
    ngx_egress_allowed_t  *allowed;

    name.data = host->name;
    name.len = host->len;

    allowed = (ngx_egress_allowed_t *)
                  ngx_str_rbtree_lookup(&role->hosts, &name,
                                        ngx_crc32_long(name.data, name.len));
    if (allowed == NULL) {
        return 0;
    }

    ports = allowed->ports.elts;

    for (i = 0; i < allowed->ports.nelts; i++) {
        if (ports[i] == port) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_egress_destination_cidr(ngx_egress_role_t *role, ngx_egress_host_t *host)
{
    ngx_uint_t          i;
    ngx_array_t         one;
    ngx_egress_cidr_t  *cidr;

    cidr = role->cidrs.elts;

    for (i = 0; i < role->cidrs.nelts; i++) {

        if (cidr[i].port && cidr[i].port != host->port) {
            continue;
        }

        one.elts = &cidr[i].cidr;
        one.nelts = 1;

        if (ngx_egress_address_in(host->family, host->addr, &one)) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_egress_address_check(ngx_egress_conf_t *ecf, struct sockaddr *sockaddr,
    ngx_array_t *privates, ngx_log_t *log)
{
    u_char            *addr, *inner, buf[4];
    ngx_uint_t         verdict;
    ngx_egress_own_t  *own;

    struct sockaddr_in  sin;

    addr = ngx_egress_sockaddr_octets(sockaddr);

    if (addr == NULL) {
        return NGX_EGRESS_ADDR_NEVER;
    }

    own = ngx_egress_own_find(ecf, ngx_inet_get_port(sockaddr));

    verdict = ngx_egress_address_judge(sockaddr->sa_family, addr, privates,
                                       own ? &own->addrs : NULL);

    if (verdict != NGX_EGRESS_ADDR_OK || own == NULL || !own->wildcard) {
        return verdict;
    }

    if (ngx_egress_address_local(sockaddr, log)) {
        return NGX_EGRESS_ADDR_NEVER;
    }

    inner = (sockaddr->sa_family == AF_INET6)
            ? ngx_egress_address_embedded(addr, buf) : NULL;

    if (inner) {
        ngx_memzero(&sin, sizeof(struct sockaddr_in));

        sin.sin_family = AF_INET;
        ngx_memcpy(&sin.sin_addr, inner, 4);
        ngx_inet_set_port((struct sockaddr *) &sin,
                          ngx_inet_get_port(sockaddr));

        if (ngx_egress_address_local((struct sockaddr *) &sin, log)) {
            return NGX_EGRESS_ADDR_NEVER;
        }
    }

    return verdict;
}


/*
 * With a listener on the wildcard address each address of the machine is one
 * of ours.  Where the kernel would send from the very address that it sends
 * to, that address is local; nothing is sent for a datagram socket.
 */

static ngx_uint_t
ngx_egress_address_local(struct sockaddr *sockaddr, ngx_log_t *log)
{
    u_char           *addr;
    socklen_t         len;
    ngx_uint_t        local;
    ngx_socket_t      s;
    ngx_sockaddr_t    sa;

    addr = ngx_egress_sockaddr_octets(sockaddr);

    /* all of 127.0.0.0/8 is local, but has one source address */

    if (sockaddr->sa_family == AF_INET && addr[0] == 127) {
        return 1;
    }

    s = ngx_socket(sockaddr->sa_family, SOCK_DGRAM, 0);

    if (s == (ngx_socket_t) -1) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_socket_errno,
                      ngx_socket_n " failed");
        return 1;
    }

    local = 0;

    len = (sockaddr->sa_family == AF_INET) ? sizeof(struct sockaddr_in)
#if (NGX_HAVE_INET6)
                                           : sizeof(struct sockaddr_in6);
#else
                                           : sizeof(struct sockaddr);
#endif

    if (connect(s, sockaddr, len) == 0) {
        len = sizeof(ngx_sockaddr_t);

        if (getsockname(s, &sa.sockaddr, &len) == -1
            || ngx_cmp_sockaddr(&sa.sockaddr, len, sockaddr, len, 0) == NGX_OK)
        {
            local = 1;
        }
    }

    if (ngx_close_socket(s) == -1) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_socket_errno,
                      ngx_close_socket_n " failed");
    }

    return local;
}


u_char *
ngx_egress_sockaddr_octets(struct sockaddr *sockaddr)
{
    switch (sockaddr->sa_family) {

    case AF_INET:
        return (u_char *) &((struct sockaddr_in *) sockaddr)->sin_addr;

#if (NGX_HAVE_INET6)
    case AF_INET6:
        return (u_char *) &((struct sockaddr_in6 *) sockaddr)->sin6_addr;
#endif

    default:
        return NULL;
    }
}


static ngx_egress_own_t *
ngx_egress_own_find(ngx_egress_conf_t *ecf, in_port_t port)
{
    ngx_uint_t         i;
    ngx_egress_own_t  *own;

    own = ecf->owns.elts;

    for (i = 0; i < ecf->owns.nelts; i++) {
        if (own[i].port == port) {
            return &own[i];
        }
    }

    return NULL;
}


/*
 * The table is shared by workers, since a connection may come back to another
 * one.  Two names that meet in a slot take it from each other: a loop brings
 * its own back faster than others can.
 */

void *
ngx_egress_loop_enter(ngx_egress_conf_t *ecf, u_char *random, size_t len)
{
    u_char               digest[EVP_MAX_MD_SIZE];
    time_t               now;
    uint64_t             hash;
    unsigned int         n;
    ngx_slab_pool_t     *shpool;
    ngx_egress_loop_t   *loop;

    static ngx_egress_loop_t  none;

    if (HMAC(EVP_sha256(), ecf->shared->loop_key,
             sizeof(ecf->shared->loop_key), random, len, digest, &n)
        == NULL)
    {
        return &none;
    }

    ngx_memcpy(&hash, digest, sizeof(hash));

    now = ngx_time();
    loop = &ecf->shared->loops[hash % NGX_EGRESS_LOOP_SLOTS];

    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    if (loop->hash != hash || now - loop->sec > NGX_EGRESS_LOOP_TIME) {
        loop->hash = hash;
        loop->count = 0;
    }

    loop->sec = now;

    if (loop->count >= NGX_EGRESS_LOOP_MOST) {
        loop = NULL;

    } else {
        loop->count++;
    }

    ngx_shmtx_unlock(&shpool->mutex);

    return loop;
}


void
ngx_egress_loop_leave(ngx_egress_conf_t *ecf, void *place)
{
    ngx_slab_pool_t    *shpool;
    ngx_egress_loop_t  *loop;

    loop = place;
    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    if (loop->count) {
        loop->count--;
    }

    ngx_shmtx_unlock(&shpool->mutex);
}


ngx_int_t
ngx_egress_destination_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    u_char            *addr;
    ngx_uint_t         i;
    ngx_cidr_t        *cidr;
    ngx_listening_t   *ls;
    ngx_egress_own_t  *own;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        addr = ngx_egress_sockaddr_octets(ls[i].sockaddr);

        if (addr == NULL || ls[i].type != SOCK_STREAM) {
            continue;
        }

        own = ngx_egress_own_add(cycle, ecf,
                                 ngx_inet_get_port(ls[i].sockaddr));
        if (own == NULL) {
            return NGX_ERROR;
        }

        if (ngx_inet_wildcard(ls[i].sockaddr)) {
            own->wildcard = 1;
            continue;
        }

        cidr = ngx_array_push(&own->addrs);
        if (cidr == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(cidr, sizeof(ngx_cidr_t));

        cidr->family = ls[i].sockaddr->sa_family;

        if (cidr->family == AF_INET) {
            ngx_memcpy(&cidr->u.in.addr, addr, 4);
            ngx_memset(&cidr->u.in.mask, 0xff, 4);

#if (NGX_HAVE_INET6)
        } else {
            ngx_memcpy(&cidr->u.in6.addr, addr, 16);
            ngx_memset(&cidr->u.in6.mask, 0xff, 16);
#endif
        }
    }

    return NGX_OK;
}


static ngx_egress_own_t *
ngx_egress_own_add(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf, in_port_t port)
{
    ngx_egress_own_t  *own;

    own = ngx_egress_own_find(ecf, port);

    if (own) {
        return own;
    }

    own = ngx_array_push(&ecf->owns);
    if (own == NULL) {
        return NULL;
    }

    own->port = port;
    own->wildcard = 0;

    if (ngx_array_init(&own->addrs, cycle->pool, 1, sizeof(ngx_cidr_t))
        != NGX_OK)
    {
        return NULL;
    }

    return own;
}


ngx_int_t
ngx_egress_destination_check(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    ngx_uint_t             i;
    ngx_core_conf_t       *ccf;
    ngx_egress_role_t    **roles;
    ngx_egress_gateway_t  *gateways;

    if (ecf->gateways.nelts == 0) {
        return NGX_OK;
    }

    gateways = ecf->gateways.elts;

    for (i = 0; i < ecf->gateways.nelts; i++) {
        if (ngx_egress_gateway_check(cycle, ecf, &gateways[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    roles = ecf->roles.elts;

    for (i = 0; i < ecf->roles.nelts; i++) {

        if (ecf->resolver == NULL && (roles[i]->nhosts || roles[i]->network)) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                          "no \"resolver\" in the \"egress\" block to resolve "
                          "the hosts that role \"%V\" allows in %V:%ui",
                          &roles[i]->name, &roles[i]->place.file,
                          roles[i]->place.line);
            return NGX_ERROR;
        }
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (ccf->shutdown_timeout == 0) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "\"egress_gateway\" without \"worker_shutdown_timeout\""
                      ": after a reload open connections keep the old "
                      "configuration for as long as clients like in %V:%ui",
                      &gateways[0].place.file, gateways[0].place.line);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_gateway_check(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf,
    ngx_egress_gateway_t *gateway)
{
    const char  *what;

    what = ngx_egress_gateway_events(cycle);

    if (what == NULL) {
        what = ngx_egress_gateway_listener(cycle, ecf, gateway);
    }

    if (what == NULL) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                  "\"egress_gateway %s%V\" %s in %V:%ui",
                  gateway->self ? "... self=" : "", &gateway->addr.name,
                  what, &gateway->place.file, gateway->place.line);

    return NGX_ERROR;
}


/*
 * The hand-over needs what was peeked at to stay in the socket; methods that
 * tell of the same octets again and again would spin (prototype P2).
 */

static const char *
ngx_egress_gateway_events(ngx_cycle_t *cycle)
{
    void              ***events;
    ngx_event_conf_t    *evcf;

    events = (void ***) ngx_get_conf(cycle->conf_ctx, ngx_events_module);

    if (events == NULL || *events == NULL) {
        return NULL;
    }

    evcf = (*events)[ngx_event_core_module.ctx_index];

    if (ngx_strcmp(evcf->name, "epoll") != 0
        && ngx_strcmp(evcf->name, "kqueue") != 0)
    {
        return "needs the epoll or kqueue event method";
    }

    return NULL;
}


/* what is wrong with where the gateway leads to, or NULL */

static const char *
ngx_egress_gateway_listener(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf,
    ngx_egress_gateway_t *gateway)
{
    ngx_uint_t              i;
    ngx_egress_listener_t  *listener;

    listener = ecf->listeners.elts;

    for (i = 0; i < ecf->listeners.nelts; i++) {

        if (ngx_cmp_sockaddr(listener[i].sockaddr, listener[i].socklen,
                             gateway->addr.sockaddr, gateway->addr.socklen, 1)
            == NGX_OK)
        {
            break;
        }
    }

    if (i == ecf->listeners.nelts) {
        return "is no listener of the \"http\" block";
    }

    if (!gateway->self && !listener[i].terminates) {
        return "leads to a listener without \"egress_terminate\"";
    }

    if (gateway->self && listener[i].ssl) {
        return "leads to a listener with \"ssl\"";
    }

    if (gateway->self && !listener[i].self) {
        return "leads to a listener without \"egress_self\"";
    }

    if (listener[i].proxy_protocol) {
        return "leads to a listener with \"proxy_protocol\"";
    }

    if (!ngx_egress_gateway_alone(cycle, ecf, gateway)) {
        return "leads to a port that is listened on at the wildcard address "
               "and at others too";
    }

    return NULL;
}


/*
 * nginx binds the wildcard address alone, and finds the server by the address
 * that a connection came to: which for one that is handed over is another.
 */

static ngx_uint_t
ngx_egress_gateway_alone(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf,
    ngx_egress_gateway_t *gateway)
{
    ngx_uint_t              i, exact, port;
    ngx_listening_t        *ls;
    ngx_egress_listener_t  *listener;

    exact = 0;
    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {
        if (ls[i].type == SOCK_STREAM
            && ngx_cmp_sockaddr(ls[i].sockaddr, ls[i].socklen,
                                gateway->addr.sockaddr,
                                gateway->addr.socklen, 1)
               == NGX_OK)
        {
            exact = 1;
        }
    }

    if (!exact || ngx_egress_sockaddr_octets(gateway->addr.sockaddr) == NULL
        || !ngx_inet_wildcard(gateway->addr.sockaddr))
    {
        return exact;
    }

    port = 0;
    listener = ecf->listeners.elts;

    for (i = 0; i < ecf->listeners.nelts; i++) {
        if (listener[i].sockaddr->sa_family
            == gateway->addr.sockaddr->sa_family
            && ngx_inet_get_port(listener[i].sockaddr)
               == ngx_inet_get_port(gateway->addr.sockaddr))
        {
            port++;
        }
    }

    return port == 1;
}
