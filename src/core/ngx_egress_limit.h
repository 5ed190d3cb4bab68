
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_LIMIT_H_INCLUDED_
#define _NGX_EGRESS_LIMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* pairs of a sandbox and a worker that has connections of it, at most */
#define NGX_EGRESS_COUNTS        32768
#define NGX_EGRESS_COUNT_CHAINS  8192


/* open connections of a sandbox in one worker */

typedef struct {
    uint64_t                  hash;         /* of the sandbox */
    uint32_t                  next;         /* of the chain; 0: none */
    uint16_t                  slot;         /* of the worker */
    uint16_t                  count;
} ngx_egress_count_t;


/* shared by workers, and kept over a reload */

typedef struct {
    u_char                    key[16];
    ngx_pid_t                 pids[NGX_MAX_PROCESSES];
    uint32_t                  used;
    uint32_t                  free;
    uint32_t                  chains[NGX_EGRESS_COUNT_CHAINS];
    ngx_egress_count_t        count[NGX_EGRESS_COUNTS + 1];
} ngx_egress_counts_t;


/*
 * ngx_egress_limit.c: "max_connections", DESIGN 5.3.
 */

/*
 * Counts a connection for its sandbox, or for the role where it has none,
 * until the pool of the connection is destroyed; again for the same sandbox
 * changes nothing, for another one it counts there instead.  Returns
 * NGX_EGRESS_ALLOWED, or limit_reached where it is one too many.
 */
ngx_uint_t ngx_egress_limit_enter(ngx_egress_conf_t *ecf, ngx_pool_t *pool,
    ngx_egress_role_t *role, ngx_str_t *sandbox);

/* In a worker: forgets what one that had its slot before has left there. */
void ngx_egress_limit_init_worker(ngx_egress_conf_t *ecf);


#endif /* _NGX_EGRESS_LIMIT_H_INCLUDED_ */
