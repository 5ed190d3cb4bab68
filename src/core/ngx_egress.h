
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_H_INCLUDED_
#define _NGX_EGRESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <openssl/rand.h>

#include <ngx_egress_compat.h>
#include <ngx_egress_host.h>
#include <ngx_egress_target.h>
#include <ngx_egress_authorization.h>
#include <ngx_egress_git.h>
#include <ngx_egress_client_hello.h>
#include <ngx_egress_connect.h>
#include <ngx_egress_socks5.h>
#include <ngx_egress_address.h>
#include <ngx_egress_redact.h>
#include <ngx_egress_graphql.h>
#include <ngx_egress_body.h>
#include <ngx_egress_oci_scope.h>


/* tells configurations and records of ours, and of this layout, from others */
#define NGX_EGRESS_MAGIC            0x45475237

#define NGX_EGRESS_MODULE_NAME      "ngx_egress_module"

/* contexts inside of "egress", within NGX_ANY_CONF (prototype2 P13) */
#define NGX_EGRESS_CONF             0x02000000
#define NGX_EGRESS_BINDING_CONF     0x04000000
#define NGX_EGRESS_HOST_CONF        0x08000000
#define NGX_EGRESS_ROLE_CONF        0x10000000
#define NGX_EGRESS_CREDENTIAL_CONF  0x20000000
#define NGX_EGRESS_RESTRICT_CONF    0x40000000
#define NGX_EGRESS_NARROW_CONF      0x80000000

#define NGX_EGRESS_SECRET_LEN       16384
#define NGX_EGRESS_PLACEHOLDER_LEN  16
#define NGX_EGRESS_PORT             443
#define NGX_EGRESS_SANDBOX_ID_LEN   64

#define NGX_EGRESS_INJECT_OFF       0
#define NGX_EGRESS_INJECT_SWAP      1
#define NGX_EGRESS_INJECT_ALWAYS    2
#define NGX_EGRESS_INJECT_IF_ABSENT 3
#define NGX_EGRESS_INJECT_STRIP     4

#define NGX_EGRESS_RULE_READ        1
#define NGX_EGRESS_RULE_WRITE       2
#define NGX_EGRESS_RULE_REFUSE      3
#define NGX_EGRESS_RULE_ANONYMOUS   4
#define NGX_EGRESS_RULE_GIT         5
#define NGX_EGRESS_RULE_SLASH       6
#define NGX_EGRESS_RULE_REPO        7
#define NGX_EGRESS_RULE_REPO_FREE   8
#define NGX_EGRESS_RULE_ALLOW       9

/* inspected bodies, of one sandbox in one worker (DESIGN 6.4) */
#define NGX_EGRESS_INSPECT_LIMIT    (16 * 1024 * 1024)

/* in the order of ngx_egress_vias[] */
#define NGX_EGRESS_VIA_DIRECT       0
#define NGX_EGRESS_VIA_BASE_URL     1
#define NGX_EGRESS_VIA_TLS          2
#define NGX_EGRESS_VIA_CONNECT      3
#define NGX_EGRESS_VIA_SOCKS5       4

/* what a role may do with a destination */
#define NGX_EGRESS_DEST_REFUSED     0
#define NGX_EGRESS_DEST_BINDING     1   /* bound, but not for this role */
#define NGX_EGRESS_DEST_BOUND       2   /* handed to the terminator */
#define NGX_EGRESS_DEST_NAME        3   /* resolved, then passed through */
#define NGX_EGRESS_DEST_ADDRESS     4   /* passed through as it is */

/* slots of the table of connections under way, see ngx_egress_loop_enter() */
#define NGX_EGRESS_LOOP_SLOTS       4096
#define NGX_EGRESS_LOOP_MOST        64

/* sandboxes that were seen to be gone, told to other workers */
#define NGX_EGRESS_BANS             1024

#define NGX_EGRESS_GET              0x0001
#define NGX_EGRESS_HEAD             0x0002
#define NGX_EGRESS_OPTIONS          0x0004
#define NGX_EGRESS_POST             0x0008
#define NGX_EGRESS_PUT              0x0010
#define NGX_EGRESS_PATCH            0x0020
#define NGX_EGRESS_DELETE           0x0040
#define NGX_EGRESS_SAFE             0x0007


/* reason codes, DESIGN 6.6; the order is that of ngx_egress_reasons[] */

enum {
    NGX_EGRESS_ALLOWED = 0,
    NGX_EGRESS_WRITE_REFUSED,
    NGX_EGRESS_CLASS_UNKNOWN,
    NGX_EGRESS_METHOD_REFUSED,
    NGX_EGRESS_PATH_REFUSED,
    NGX_EGRESS_RULE_REFUSED,
    NGX_EGRESS_REPO_REFUSED,
    NGX_EGRESS_REPO_UNKNOWN,
    NGX_EGRESS_TOOL_REFUSED,
    NGX_EGRESS_BINDING_REFUSED,
    NGX_EGRESS_SANDBOX_UNKNOWN,
    NGX_EGRESS_SANDBOX_EXPIRED,
    NGX_EGRESS_SANDBOX_REVOKED,
    NGX_EGRESS_UPGRADE_REFUSED,
    NGX_EGRESS_CREDENTIAL_MISSING,
    NGX_EGRESS_CREDENTIAL_EXPIRED,
    NGX_EGRESS_FOREIGN_CREDENTIAL,
    NGX_EGRESS_AUTH_LOOP,
    NGX_EGRESS_HOST_MISMATCH,
    NGX_EGRESS_MALFORMED_REQUEST,
    NGX_EGRESS_BODY_TOO_LARGE,
    NGX_EGRESS_BODY_UNSUPPORTED,
    NGX_EGRESS_PROXY_AUTH_REQUIRED,
    NGX_EGRESS_DESTINATION_REFUSED,
    NGX_EGRESS_PLAIN_HTTP,
    NGX_EGRESS_ADDRESS_REFUSED,
    NGX_EGRESS_LOOP,
    NGX_EGRESS_SECRET_UNREADABLE,
    NGX_EGRESS_AUDIT_UNAVAILABLE,
    NGX_EGRESS_LIMIT_REACHED,
    NGX_EGRESS_DNS_ERROR,
    NGX_EGRESS_DNS_TIMEOUT,
    NGX_EGRESS_CONNECTION_REFUSED,
    NGX_EGRESS_CONNECTION_TIMEOUT,
    NGX_EGRESS_CONNECTION_READ_TIMEOUT,
    NGX_EGRESS_CONNECTION_TERMINATED,
    NGX_EGRESS_TLS_CERTIFICATE_ERROR,
    NGX_EGRESS_TLS_ALERT_RECEIVED,
    NGX_EGRESS_TLS_PROTOCOL_ERROR,
    NGX_EGRESS_HTTP_PROTOCOL_ERROR,
    NGX_EGRESS_HTTP_RESPONSE_INCOMPLETE,
    NGX_EGRESS_HTTP_UPGRADE_FAILED
};


typedef struct ngx_egress_conf_s        ngx_egress_conf_t;
typedef struct ngx_egress_binding_s     ngx_egress_binding_t;
typedef struct ngx_egress_bound_s       ngx_egress_bound_t;
typedef struct ngx_egress_rule_s        ngx_egress_rule_t;
typedef struct ngx_egress_credential_s  ngx_egress_credential_t;
typedef struct ngx_egress_secret_s      ngx_egress_secret_t;
typedef struct ngx_egress_vault_s       ngx_egress_vault_t;
typedef struct ngx_egress_shelves_s     ngx_egress_shelves_t;
typedef struct ngx_egress_audit_s       ngx_egress_audit_t;
typedef struct ngx_egress_role_s        ngx_egress_role_t;
typedef struct ngx_egress_restrict_s    ngx_egress_restrict_t;
typedef struct ngx_egress_sandbox_s     ngx_egress_sandbox_t;
typedef struct ngx_egress_sandboxes_s   ngx_egress_sandboxes_t;
typedef struct ngx_egress_api_s         ngx_egress_api_t;

#include <ngx_egress_credential.h>
#include <ngx_egress_sandbox.h>
#include <ngx_egress_limit.h>
#include <ngx_egress_resolve.h>


typedef struct {
    ngx_str_t                 code;
    ngx_str_t                 error;        /* RFC 9209, 2.3 */
    ngx_str_t                 detail;       /* a sentence for the client */
    ngx_str_t                 hint;         /* what to do about it */
    ngx_uint_t                status;
} ngx_egress_reason_t;


/* where a directive stands, for errors found after it was read */

typedef struct {
    ngx_str_t                 file;
    ngx_uint_t                line;
} ngx_egress_place_t;


/* a name with a leaf certificate, and what is bound at it */

typedef struct {
    ngx_str_node_t            sn;
    X509                     *cert;
    ngx_egress_bound_t       *bound;
} ngx_egress_name_t;


/* a host and port of one binding */

struct ngx_egress_bound_s {
    ngx_egress_name_t        *name;
    in_port_t                 port;
    ngx_str_t                 authority;    /* the Host field sent upstream */
    ngx_egress_binding_t     *binding;
    ngx_uint_t                index;        /* among all, for workers' state */

    /* by port, then the longest path_prefix first */
    ngx_egress_bound_t       *next;
};


struct ngx_egress_binding_s {

    /* first: directives of a "credential" block stand in a binding, too */
    ngx_egress_credential_t   own;

    ngx_str_t                 name;
    ngx_str_node_t            sn;           /* among others, by its name */
    ngx_egress_conf_t        *conf;
    ngx_array_t               hosts;        /* ngx_egress_bound_t * */
    ngx_array_t               rules;        /* ngx_egress_rule_t */
    ngx_array_t               repo_rules;   /* ngx_egress_rule_t */
    ngx_array_t               repos;        /* ngx_egress_repo_t */
    ngx_uint_t                repos_all;    /* unsigned  repos_all:1; */
    size_t                    inspect_max;
    ngx_array_t               credentials;  /* ngx_egress_credential_t * */
    ngx_array_t               secrets;      /* ngx_egress_secret_t * */
    ngx_uint_t                sandboxed;    /* unsigned  sandboxed:1; */
    ngx_array_t               env;          /* ngx_egress_env_t */
    ngx_str_t                 path_prefix;
    ngx_uint_t                access;       /* NGX_EGRESS_READ or _WRITE */
    ngx_uint_t                index;        /* among all */
    ngx_addr_t               *upstream;
    ngx_flag_t                upstream_ssl;
    ngx_array_t               privates;     /* ngx_cidr_t */
    ngx_array_t               pass_headers; /* ngx_str_t, in lower case */
    ngx_uint_t                pass_all;     /* unsigned  pass_all:1; */
    ngx_flag_t                redact;
    ngx_flag_t                upgrade;
    ngx_uint_t                foreign_refused;  /* unsigned:1 */
    ngx_egress_place_t        place;
};


/* "allow_cidr" */

typedef struct {
    ngx_cidr_t                cidr;
    in_port_t                 port;         /* 0: any */
} ngx_egress_cidr_t;


/* "allow_host": a name and its ports */

typedef struct {
    ngx_str_node_t            sn;
    ngx_array_t               ports;        /* in_port_t */
} ngx_egress_allowed_t;


/* which bindings and destinations a sandbox may use */

struct ngx_egress_role_s {
    ngx_str_t                 name;
    ngx_egress_conf_t        *conf;
    ngx_array_t               use;          /* ngx_str_t, as written */
    u_char                   *uses;         /* by binding index; NULL: all */
    ngx_array_t               restricts;    /* ngx_egress_restrict_t * */
    ngx_egress_restrict_t   **restricted;   /* by binding index, or NULL */
    ngx_uint_t                network;      /* unsigned  network:1; */
    ngx_rbtree_t              hosts;        /* ngx_egress_allowed_t */
    ngx_rbtree_node_t         sentinel;
    ngx_uint_t                nhosts;
    ngx_array_t               cidrs;        /* ngx_egress_cidr_t */
    ngx_array_t               privates;     /* ngx_cidr_t */
    ngx_uint_t                report;       /* unsigned  report:1;  "mode" */
    ngx_int_t                 max_connections;  /* of a sandbox; 0: any */
    ngx_egress_place_t        place;
};


/* what the policy says of a destination */

typedef struct {
    ngx_uint_t                kind;         /* NGX_EGRESS_DEST_... */
    ngx_egress_name_t        *name;         /* of BOUND and BINDING */
    ngx_array_t              *privates;     /* ngx_cidr_t, or NULL */
    ngx_uint_t                report;       /* unsigned  report:1;  "mode" */
} ngx_egress_destination_t;


/* an address that we listen on; by port */

typedef struct {
    in_port_t                 port;
    ngx_uint_t                wildcard;     /* unsigned  wildcard:1; */
    ngx_array_t               addrs;        /* ngx_cidr_t, of full length */
} ngx_egress_own_t;


/* a listener of the "http" block, as gateways need to know it */

typedef struct {
    struct sockaddr          *sockaddr;
    socklen_t                 socklen;
    unsigned                  terminates:1;
    unsigned                  proxy_protocol:1;
    unsigned                  ssl:1;
    unsigned                  self:1;       /* has an "egress_self" */
} ngx_egress_listener_t;


/* where an "egress_gateway" leads, checked once all blocks are known */

typedef struct {
    ngx_addr_t                addr;
    ngx_egress_place_t        place;
    ngx_uint_t                self;         /* unsigned  self:1;  "self=" */
} ngx_egress_gateway_t;


#include <ngx_egress_rule.h>
#include <ngx_egress_secret.h>


typedef struct {
    ngx_open_file_t          *file;
    ngx_flag_t                deny;         /* on_error=deny */
} ngx_egress_sink_t;


/* shared by workers, and kept over a reload */

typedef struct {
    uint64_t                  hash;
    time_t                    sec;          /* of the last one that came */
    ngx_uint_t                count;
} ngx_egress_loop_t;


typedef struct {
    ngx_atomic_t              seq;
    ngx_atomic_t              torn;         /* sinks with half a record */
    ngx_atomic_t              nbans;
    u_char                    loop_key[16];
    uint32_t                  bans[NGX_EGRESS_BANS];    /* hashes of names */
    ngx_egress_loop_t         loops[NGX_EGRESS_LOOP_SLOTS];
    ngx_egress_counts_t       counts;
    ngx_egress_tripwire_t     tripwire;
} ngx_egress_shared_t;


struct ngx_egress_conf_s {
    ngx_uint_t                magic;
    ngx_egress_api_t         *api;
    ngx_uint_t                parsed;       /* unsigned  parsed:1; */

    ngx_str_t                 name;
    ngx_str_t                 ca_cert;
    ngx_str_t                 ca_key;
    time_t                    leaf_validity;
    ngx_str_t                 trusted_certificate;
    ngx_msec_t                secret_check;
    ngx_resolver_t           *resolver;
    ngx_msec_t                resolver_timeout;
    ngx_uint_t                keepalive;    /* idle upstream connections */
    ngx_msec_t                keepalive_idle;
    size_t                    zone_size;
    ngx_shm_zone_t           *zone;
    ngx_egress_shared_t      *shared;

    ngx_array_t               sinks;        /* ngx_egress_sink_t */
    ngx_flag_t                audit_off;

    ngx_array_t               bindings;     /* ngx_egress_binding_t * */
    ngx_array_t               secrets;      /* ngx_egress_secret_t * */
    ngx_egress_shelves_t     *shelves;      /* a worker's; NULL: not needed */
    ngx_array_t               fields;       /* ngx_egress_field_t * */
    ngx_uint_t                nbound;

    ngx_array_t               roles;        /* ngx_egress_role_t * */
    ngx_uint_t                report;       /* unsigned  report:1;  "mode" */
    ngx_str_t                 sandboxes;    /* the directory, or empty */
    ngx_egress_sandboxes_t   *boxes;        /* of this worker */
    ngx_str_t                 unidentified_role;
    ngx_egress_role_t        *unidentified; /* NULL: they are refused */
    ngx_str_t                 self_url;     /* with its port, without "/" */
    ngx_str_t                 self_host;
    in_port_t                 self_port;
    ngx_str_t                 ca_pem;       /* see ngx_egress_self_init() */
    ngx_str_t                 bundle_pem;
    ngx_array_t               listeners;    /* ngx_egress_listener_t */
    ngx_array_t               gateways;     /* ngx_egress_gateway_t */
    ngx_array_t               owns;         /* ngx_egress_own_t */

    ngx_rbtree_t              binding_names;  /* ngx_egress_binding_t */
    ngx_rbtree_node_t         binding_sentinel;

    ngx_rbtree_t              names;        /* ngx_egress_name_t */
    ngx_rbtree_node_t         sentinel;

    STACK_OF(X509)           *chain;        /* sent after a leaf, or NULL */
    EVP_PKEY                 *leaf_key;
    u_char                    hash_key[16]; /* of placeholder look-ups */
};


/*
 * What is known of a connection, on the connection's pool: made by a gateway
 * before it hands a connection over, or by a terminator.
 */

typedef struct {
    ngx_uint_t                magic;
    ngx_uint_t                via;
    ngx_egress_name_t        *name;
    in_port_t                 port;         /* 0: not told by the client */
    ngx_egress_role_t        *role;
    ngx_egress_sandbox_t     *box;          /* that the gateway has found */
    ngx_egress_live_t        *live;         /* of what "egress_sandbox" said */
    unsigned                  several:1;    /* it said more than one name */

    uint32_t                  unauthorized; /* the request of the last 401 */
    ngx_uint_t                nunauthorized;
} ngx_egress_record_t;


/* one audit record; empty strings are left out, DESIGN 6.11 */

struct ngx_egress_audit_s {
    ngx_str_t                 event;
    ngx_str_t                 id;
    ngx_str_t                 sandbox;
    ngx_str_t                 role;
    ngx_str_t                 via;
    ngx_str_t                 client;
    ngx_str_t                 host;
    ngx_uint_t                port;
    ngx_str_t                 sni;
    ngx_str_t                 method;
    ngx_str_t                 path;
    ngx_str_t                 binding;
    ngx_str_t                 class;
    ngx_str_t                 operation;
    ngx_str_t                 repo;
    ngx_str_t                 decision;
    ngx_str_t                 reason;
    ngx_str_t                 rule;
    ngx_str_t                 credential;
    ngx_str_t                 credential_id;
    ngx_str_t                 upstream_addr;
    ngx_uint_t                status;
    ngx_uint_t                upstream_status;
    off_t                     bytes_in;
    off_t                     bytes_out;
    ngx_msec_t                duration;
    ngx_uint_t                redactions;
    unsigned                  completion:1;
};


/*
 * What the stream module calls: it is another .so file, which may be loaded
 * first, and so shares no symbol with this one (prototype2 P13).
 */

struct ngx_egress_api_s {
    ngx_egress_reason_t      *reasons;
    ngx_str_t                *vias;

    ngx_uint_t              (*identify)(ngx_egress_conf_t *ecf,
                                        ngx_egress_identity_t *identity,
                                        struct sockaddr *client,
                                        ngx_egress_role_t **role,
                                        ngx_egress_sandbox_t **box,
                                        ngx_log_t *log);
    ngx_uint_t              (*vouch)(ngx_egress_conf_t *ecf, ngx_str_t *id,
                                     struct sockaddr *client,
                                     ngx_egress_role_t **role,
                                     ngx_egress_sandbox_t **box,
                                     ngx_log_t *log);
    ngx_int_t               (*vouch_check)(ngx_conf_t *cf,
                                           ngx_egress_conf_t *ecf);
    ngx_command_t *         (*command_find)(ngx_module_t *module,
                                            const char *name);
    char *                  (*command_run)(ngx_conf_t *cf,
                                           ngx_module_t *module, void *conf,
                                           const char **words);
    ngx_egress_live_t *     (*live_create)(ngx_pool_t *pool,
                                           ngx_egress_live_pt handler,
                                           void *data);
    void                    (*live_join)(ngx_egress_live_t *live,
                                         ngx_egress_sandbox_t *box);
    void                    (*sever)(ngx_connection_t *c, ngx_uint_t reset);
    void                    (*destination)(ngx_egress_role_t *role,
                                           ngx_egress_host_t *host,
                                           ngx_egress_destination_t *dest);
    ngx_uint_t              (*address_check)(ngx_egress_conf_t *ecf,
                                             struct sockaddr *sockaddr,
                                             ngx_array_t *privates,
                                             ngx_log_t *log);
    ngx_uint_t              (*resolved)(ngx_egress_conf_t *ecf,
                                        ngx_resolver_ctx_t *rctx,
                                        in_port_t port, ngx_array_t *privates,
                                        ngx_uint_t level, ngx_log_t *log,
                                        ngx_egress_addrs_t **addrs);
    ngx_egress_addrs_t *    (*addrs_single)(struct sockaddr *sockaddr,
                                            socklen_t socklen,
                                            ngx_log_t *log);
    ngx_int_t               (*addrs_next)(ngx_egress_conf_t *ecf,
                                          ngx_egress_addrs_t *addrs,
                                          ngx_uint_t *current,
                                          ngx_array_t *privates,
                                          ngx_peer_connection_t *pc);
    void                    (*addrs_free)(ngx_egress_addrs_t *addrs);
    void *                  (*loop_enter)(ngx_egress_conf_t *ecf,
                                          u_char *random, size_t len);
    void                    (*loop_leave)(ngx_egress_conf_t *ecf,
                                          void *place);

    ngx_uint_t              (*limit_enter)(ngx_egress_conf_t *ecf,
                                           ngx_pool_t *pool,
                                           ngx_egress_role_t *role,
                                           ngx_str_t *sandbox);

    ngx_egress_record_t *   (*record_add)(ngx_pool_t *pool);

    ngx_int_t               (*audit_write)(ngx_egress_conf_t *ecf,
                                           ngx_egress_audit_t *rec,
                                           ngx_log_t *log);
    ngx_int_t               (*audit_render)(ngx_egress_conf_t *ecf,
                                            ngx_egress_audit_t *rec,
                                            ngx_uint_t seq, ngx_str_t *line);
    void                    (*audit_id)(u_char *id);

    ngx_int_t               (*client_hello)(u_char *data, size_t len,
                                            u_char *buf,
                                            ngx_egress_client_hello_t *hello);
    ngx_int_t               (*connect)(u_char *data, size_t len, u_char *buf,
                                       ngx_egress_connect_t *connect);
    ngx_int_t               (*socks5_methods)(u_char *data, size_t len,
                                              ngx_egress_socks5_t *socks);
    ngx_int_t               (*socks5_password)(u_char *data, size_t len,
                                               ngx_egress_socks5_t *socks);
    ngx_int_t               (*socks5_request)(u_char *data, size_t len,
                                              ngx_egress_socks5_t *socks);
};


static ngx_inline ngx_egress_conf_t *ngx_egress_get_conf(ngx_cycle_t *cycle);
static ngx_inline void ngx_egress_place(ngx_conf_t *cf,
    ngx_egress_place_t *place);


/*
 * The configuration of the "egress" block of a cycle, found by the name of
 * the core module, since other .so files may not share its symbols (P13).
 * Returns NULL where the module is not loaded or of another build.
 */

static ngx_inline ngx_egress_conf_t *
ngx_egress_get_conf(ngx_cycle_t *cycle)
{
    ngx_uint_t          i;
    ngx_module_t       *module;
    ngx_egress_conf_t  *ecf;

    for (i = 0; cycle->modules[i]; i++) {
        module = cycle->modules[i];

        if (module->type == NGX_CORE_MODULE
            && ngx_strcmp(module->name, NGX_EGRESS_MODULE_NAME) == 0)
        {
            ecf = (ngx_egress_conf_t *) cycle->conf_ctx[module->index];

            return (ecf && ecf->magic == NGX_EGRESS_MAGIC) ? ecf : NULL;
        }
    }

    return NULL;
}


/* Notes where the directive that is read now stands; keeps no pointer to cf. */

static ngx_inline void
ngx_egress_place(ngx_conf_t *cf, ngx_egress_place_t *place)
{
    if (cf->conf_file) {
        place->file = cf->conf_file->file.name;
        place->line = cf->conf_file->line;
    }
}


/*
 * ngx_egress_binding.c: the "binding" block.  Handlers of its directives are
 * in the command table of ngx_egress_module.c.
 */
char *ngx_egress_binding_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_host_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_hosts(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_path_prefix(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_upstream(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_pass_headers(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_binding_private(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* The binding of that name among those read so far, or NULL. */
ngx_egress_binding_t *ngx_egress_binding_find(ngx_egress_conf_t *ecf,
    ngx_str_t *name);

/* Refuses what can't be the name of a binding or a credential. */
char *ngx_egress_binding_name(ngx_conf_t *cf, const char *what,
    ngx_str_t *name);

/*
 * Runs the parser over a block whose directives get "object" as their conf
 * and are those with the context bit "type".
 */
char *ngx_egress_conf_block(ngx_conf_t *cf, void *object, ngx_uint_t type);

/* ngx_conf_log_error() for a place that was passed before. */
void ngx_egress_place_error(ngx_conf_t *cf, ngx_egress_place_t *place,
    const char *fmt, ...);


/*
 * ngx_egress_command.c: directives of stock modules.
 */

/* The directive of that name in the table of a module, or NULL. */
ngx_command_t *ngx_egress_command_find(ngx_module_t *module,
    const char *name);

/*
 * Runs a directive of a stock module as if the operator had written it in
 * place of ours, which is being read: "words", up to a NULL, are its name and
 * parameters, "conf" is what its handler gets.  Returns NGX_CONF_OK, or
 * NGX_CONF_ERROR with all said.
 */
char *ngx_egress_command_run(ngx_conf_t *cf, ngx_module_t *module, void *conf,
    const char **words);


/*
 * ngx_egress_policy.c: who is bound where.
 */

/*
 * Takes a host of a "hosts" or "host" directive into a binding; a host that
 * the binding has already is returned again.  Returns NULL after an error.
 */
ngx_egress_bound_t *ngx_egress_policy_add(ngx_conf_t *cf,
    ngx_egress_binding_t *binding, ngx_str_t *value);

/* Makes the hosts of a complete binding known; refuses one bound already. */
ngx_int_t ngx_egress_policy_link(ngx_conf_t *cf,
    ngx_egress_binding_t *binding);

/* Checks over all bindings once the block has been read (DESIGN 6.10). */
ngx_int_t ngx_egress_policy_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf);

/* The bound name, canonical as ngx_egress_host_parse() leaves it, or NULL. */
ngx_egress_name_t *ngx_egress_name_find(ngx_egress_conf_t *ecf, u_char *name,
    size_t len);

/* The binding with the longest path_prefix at a name and port, or NULL. */
ngx_egress_bound_t *ngx_egress_bound_find(ngx_egress_name_t *name,
    in_port_t port);

/*
 * Among the bindings of the same host and port the one for this path; sets
 * *credentialed where its path_prefix holds the path.
 */
ngx_egress_bound_t *ngx_egress_bound_match(ngx_egress_bound_t *bound,
    ngx_str_t *path, ngx_uint_t *credentialed);


/*
 * ngx_egress_role.c: the "role" block, DESIGN 5.3.
 */
char *ngx_egress_role_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_allow_host(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_allow_cidr(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_egress_allow_private(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* Adds ranges of a directive to an array of ngx_cidr_t. */
char *ngx_egress_add_privates(ngx_conf_t *cf, ngx_array_t *privates);

/* Once all bindings are known: what each role uses, and a role "default". */
ngx_int_t ngx_egress_role_init(ngx_conf_t *cf, ngx_egress_conf_t *ecf);

/* The role of that name, or NULL. */
ngx_egress_role_t *ngx_egress_role_find(ngx_egress_conf_t *ecf,
    ngx_str_t *name);

/* Tells whether a role may use a binding. */
ngx_uint_t ngx_egress_role_uses(ngx_egress_role_t *role,
    ngx_egress_binding_t *binding);


/*
 * ngx_egress_destination.c: where connections may go, DESIGN 6.13.
 */

/*
 * Judges a destination by its name, before anything is resolved.  "host" is
 * canonical; its port 0 means a client that did not tell one (bare TLS): bound
 * names are then found at any port, others are taken to be at 443.
 */
void ngx_egress_destination(ngx_egress_role_t *role, ngx_egress_host_t *host,
    ngx_egress_destination_t *dest);

/*
 * Judges an address and port that is about to be connected to, and looks for
 * listeners of our own; "privates" are ranges that are lifted, or NULL.
 * Returns one of NGX_EGRESS_ADDR_...
 */
ngx_uint_t ngx_egress_address_check(ngx_egress_conf_t *ecf,
    struct sockaddr *sockaddr, ngx_array_t *privates, ngx_log_t *log);

/* The octets of an IPv4 or IPv6 address, or NULL. */
u_char *ngx_egress_sockaddr_octets(struct sockaddr *sockaddr);

/* Takes down what this cycle listens on; once the listeners are known. */
ngx_int_t ngx_egress_destination_init(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf);

/* Checks gateways against listeners, once all blocks have been read. */
ngx_int_t ngx_egress_destination_check(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf);

/*
 * A connection that is passed through and comes back to us, over whatever
 * other hosts, brings the same ClientHello.  Counts those that are under way
 * with this "random"; returns NULL where there are too many, else a
 * place for ngx_egress_loop_leave() at the end of the connection.
 */
void *ngx_egress_loop_enter(ngx_egress_conf_t *ecf, u_char *random,
    size_t len);
void ngx_egress_loop_leave(ngx_egress_conf_t *ecf, void *place);


/*
 * ngx_egress_record.c: the record of a connection.
 */

/* The record on a connection's pool, or NULL. */
ngx_egress_record_t *ngx_egress_record_get(ngx_pool_t *pool);

/* The same, made where there is none; NULL only without memory. */
ngx_egress_record_t *ngx_egress_record_add(ngx_pool_t *pool);

extern ngx_egress_api_t  ngx_egress_api;


/*
 * ngx_egress_ca.c: the local CA and leaf certificates, DESIGN 6.14.  Mints a
 * leaf for each bound name; the CA key is gone when it returns.
 */
ngx_int_t ngx_egress_ca_mint(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


/*
 * ngx_egress_audit.c: DESIGN 6.11.
 */
char *ngx_egress_audit_log(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_egress_audit_default(ngx_conf_t *cf, ngx_egress_conf_t *ecf);

/*
 * Writes a record to all sinks with one write() each.  Returns NGX_OK, or
 * NGX_ERROR where a sink with on_error=deny did not take it whole.
 */
ngx_int_t ngx_egress_audit_write(ngx_egress_conf_t *ecf,
    ngx_egress_audit_t *rec, ngx_log_t *log);

/* Renders a record without a line end; valid until the next call. */
ngx_int_t ngx_egress_audit_render(ngx_egress_conf_t *ecf,
    ngx_egress_audit_t *rec, ngx_uint_t seq, ngx_str_t *line);

/* A new request id of NGX_EGRESS_ID_LEN hex digits, unique over workers. */
#define NGX_EGRESS_ID_LEN  32
void ngx_egress_audit_id(u_char *id);


/*
 * ngx_egress_zone.c: what workers share.
 */
ngx_int_t ngx_egress_zone_add(ngx_conf_t *cf, ngx_egress_conf_t *ecf);


/*
 * ngx_egress_reason.c
 */
extern ngx_egress_reason_t  ngx_egress_reasons[];
extern ngx_str_t  ngx_egress_class_names[];     /* by NGX_EGRESS_READ, ... */
extern ngx_str_t  ngx_egress_vias[];            /* by NGX_EGRESS_VIA_... */


/*
 * ngx_egress_directives.c: the table of them, and the small ones.
 */
extern ngx_command_t  ngx_egress_commands[];

/* The "egress" block; ngx_egress_module.c. */
char *ngx_egress_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


extern ngx_module_t  ngx_egress_module;


#endif /* _NGX_EGRESS_H_INCLUDED_ */
