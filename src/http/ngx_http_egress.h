
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_HTTP_EGRESS_H_INCLUDED_
#define _NGX_HTTP_EGRESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_egress.h>


/* a name that nobody can write in a configuration (prototype2 P12) */
#define NGX_HTTP_EGRESS_UPSTREAM       "egress pass"

#define NGX_HTTP_EGRESS_TERMINATE_OFF      0
#define NGX_HTTP_EGRESS_TERMINATE_ON       1
#define NGX_HTTP_EGRESS_TERMINATE_GATEWAY  2

/* what becomes of a bound field, NGX_HTTP_EGRESS_PASS being the default */
#define NGX_HTTP_EGRESS_PASS           0
#define NGX_HTTP_EGRESS_REMOVE         1
#define NGX_HTTP_EGRESS_SWAP           2
#define NGX_HTTP_EGRESS_SET            3

/* of several credentials the highest of these is told */
#define NGX_HTTP_EGRESS_CRED_NONE      0
#define NGX_HTTP_EGRESS_CRED_STRIPPED  1
#define NGX_HTTP_EGRESS_CRED_FOREIGN   2
#define NGX_HTTP_EGRESS_CRED_SET       3
#define NGX_HTTP_EGRESS_CRED_SWAPPED   4
#define NGX_HTTP_EGRESS_CRED_MISSING   5


typedef struct {
    ngx_egress_conf_t             *egress;
    void                         **http;        /* loc_conf of "http" */
    ngx_http_upstream_srv_conf_t  *upstream;
    ngx_array_t                    variables;   /* ngx_int_t, guarded ones */
    ngx_uint_t                     self;        /* unsigned  self:1; */
    ngx_hash_t                     names;       /* ngx_http_egress_name_t */
    uint32_t                       lengths[32]; /* bits, by first letter */
} ngx_http_egress_main_conf_t;


typedef struct {
    ngx_uint_t                     terminate;
    ngx_flag_t                     pass;        /* in any location */
    ngx_flag_t                     self;        /* the same */
    ngx_egress_place_t             place;
} ngx_http_egress_srv_conf_t;


typedef struct {
    ngx_flag_t                     pass;
    ngx_egress_binding_t          *binding;     /* of base-URL mode */
    ngx_str_t                      prefix;
    ngx_flag_t                     exact;
    ngx_http_complex_value_t      *sandbox;     /* who asks */
    ngx_egress_place_t             sandbox_place;
    ngx_egress_place_t             place;
    ngx_http_handler_pt            handler;
    ngx_uint_t                     nheaders;    /* our proxy_set_header */
    ngx_uint_t                     chosen;      /* by the operator, bits */
} ngx_http_egress_loc_conf_t;


/* one bound field of a request */

typedef struct {
    ngx_table_elt_t               *header;      /* the first, or NULL */
    ngx_uint_t                     count;
    ngx_uint_t                     action;
    ngx_egress_header_t           *bound;
    ngx_egress_authorization_t     auth;
    unsigned                       user:1;      /* the placeholder is there */
    unsigned                       password:1;
    unsigned                       basic:1;     /* of SET */
} ngx_http_egress_field_t;


/* memory that has held a secret */

typedef struct {
    u_char                        *data;
    size_t                         len;
} ngx_http_egress_copy_t;


typedef struct ngx_http_egress_inflate_s  ngx_http_egress_inflate_t;
typedef struct ngx_http_egress_budget_s   ngx_http_egress_budget_t;


/*
 * The spellings of one value of each secret of a binding, on locked pages:
 * shared by requests that carry them, and wiped with the last of them.
 */

typedef struct {
    ngx_uint_t                     refs;
    ngx_uint_t                     generation;
    ngx_uint_t                     of;          /* a secret, or a binding */
    size_t                         sandbox_len;
    u_char                         sandbox[NGX_EGRESS_SANDBOX_ID_LEN];
    ngx_egress_redact_t           *redact;
    size_t                         size;
} ngx_http_egress_spellings_t;


typedef struct ngx_http_egress_ctx_s  ngx_http_egress_ctx_t;


/*
 * The state of a request, kept by a cleanup of the main request's pool: it
 * outlives internal redirects, which clear module contexts (P10).  Its memory
 * is a worker's own and used again, since with it a pool would need a block
 * more.
 */

struct ngx_http_egress_ctx_s {
    ngx_http_egress_ctx_t         *next;        /* among the spare ones */
    ngx_http_request_t            *request;
    ngx_egress_conf_t             *conf;
    ngx_egress_record_t           *record;
    ngx_egress_role_t             *role;
    ngx_str_t                      sandbox;     /* empty: none */
    ngx_egress_sandbox_t          *box;         /* the same, or NULL */
    ngx_egress_live_t             *live;        /* a reference to it */
    ngx_egress_request_t           req;
    ngx_uint_t                     reason;
    ngx_uint_t                     would;       /* the same, "mode report" */
    ngx_uint_t                     via;
    ngx_uint_t                     credential;
    ngx_str_t                      host;
    ngx_uint_t                     port;
    ngx_str_t                      path;
    u_char                         id[NGX_EGRESS_ID_LEN];
    u_char                         credential_id[8];

    ngx_http_egress_field_t       *fields;      /* by field index */
    ngx_array_t                    copies;      /* ngx_http_egress_copy_t */
    ngx_array_t                    kept;        /* the same, of the answer */
    size_t                         request_size;
    ngx_uint_t                     content_types;

    ngx_list_t                     headers;     /* the client's, saved */
    ngx_str_t                      unparsed_uri;
    ngx_uint_t                     log_level;

    ngx_str_t                      body;        /* of a refusal */

    ngx_egress_body_t             *said;        /* by an inspected body */
    ngx_buf_t                     *inspected;   /* that body, as it grows */
    ngx_uint_t                     inspect_reason;
    ngx_int_t                      inspect_status;
    ngx_http_egress_budget_t      *budget;      /* of the sandbox */
    size_t                         budgeted;    /* octets of it that are ours */
    ngx_str_t                      content_encoding;
    ngx_uint_t                     content_encodings;
    ngx_egress_body_field_t        mcp_method;
    ngx_egress_body_field_t        mcp_name;

    ngx_resolver_ctx_t            *resolving;
    ngx_egress_addrs_t            *addrs;       /* a reference */
    ngx_uint_t                     resolve_reason;

    ngx_str_t                      upgrade;     /* what the client asks for */
    ngx_table_elt_t               *accept_encoding;
    ngx_table_elt_t               *websocket_key;
    ngx_uint_t                     nupgrades;

    ngx_http_egress_spellings_t   *spellings;   /* a reference */
    ngx_egress_redact_t           *redact;      /* within it */
    ngx_uint_t                     generation;  /* of secrets sent, or 0 */
    u_char                        *held;
    size_t                         nheld;
    ngx_chain_t                   *free;
    ngx_chain_t                   *busy;
    ngx_uint_t                     redactions;
    ngx_http_egress_inflate_t     *inflate;
    ngx_uint_t                     interims;
    ngx_uint_t                     http_version;    /* of the client */

    ngx_int_t                    (*process_header)(ngx_http_request_t *r);
    ngx_int_t                    (*reinit_request)(ngx_http_request_t *r);
    void                         (*finalize_request)(ngx_http_request_t *r,
                                                     ngx_int_t rc);

    unsigned                       decided:1;
    unsigned                       denied:1;
    unsigned                       audited:1;
    unsigned                       injected:1;
    unsigned                       closed:1;
    unsigned                       has_credential_id:1;
    unsigned                       headers_saved:1;
    unsigned                       uri_saved:1;
    unsigned                       log_masked:1;
    unsigned                       replace:1;   /* the body, by ours */
    unsigned                       replaced:1;
    unsigned                       connection_tokens:1;
    unsigned                       connection_upgrade:1;
    unsigned                       remove_headers:1;
    unsigned                       loop:1;
    unsigned                       method_overridden:1;
    unsigned                       waiting:1;   /* for the resolver */
    unsigned                       resolved:1;
    unsigned                       sync:1;      /* the resolver is called */
    unsigned                       reading:1;   /* a body, to inspect it */
    unsigned                       read:1;      /* all of it is there */
    unsigned                       judged:1;    /* it has been inspected */
    unsigned                       redacting:1; /* the body */
    unsigned                       upgrade_failed:1;
    unsigned                       foreign:1;
    unsigned                       not_http:1;
    unsigned                       not_tls:1;
    unsigned                       websocket:1; /* version 13 */
    unsigned                       cut:1;       /* ended by us, at any point */

    /* not cleared at the start */

    ngx_http_egress_copy_t         some_copies[4];
    ngx_http_egress_copy_t         some_kept[2];
    ngx_egress_addr_t              addr;        /* of a pooled connection */
};


/* what a client's header field is to us; the value of the "names" hash */

typedef struct {
    ngx_uint_t                     kind;
    ngx_egress_field_t            *field;
} ngx_http_egress_name_t;

#define NGX_HTTP_EGRESS_NAME_REMOVE      1
#define NGX_HTTP_EGRESS_NAME_OVERRIDE    2
#define NGX_HTTP_EGRESS_NAME_CONNECTION  3
#define NGX_HTTP_EGRESS_NAME_VIA         4
#define NGX_HTTP_EGRESS_NAME_FIELD       5
#define NGX_HTTP_EGRESS_NAME_OURS        6
#define NGX_HTTP_EGRESS_NAME_TYPE        7
#define NGX_HTTP_EGRESS_NAME_UPGRADE     8
#define NGX_HTTP_EGRESS_NAME_ENCODING    9
#define NGX_HTTP_EGRESS_NAME_KEY         10
#define NGX_HTTP_EGRESS_NAME_VERSION     11
#define NGX_HTTP_EGRESS_NAME_CODING      12
#define NGX_HTTP_EGRESS_NAME_MCP_METHOD  13
#define NGX_HTTP_EGRESS_NAME_MCP_NAME    14


/*
 * ngx_http_egress_decision.c
 */

/* The handler of the PRECONTENT phase: one decision for each request. */
ngx_int_t ngx_http_egress_handler(ngx_http_request_t *r);

/* The state of a request, or NULL; found after internal redirects too. */
ngx_http_egress_ctx_t *ngx_http_egress_get_ctx(ngx_http_request_t *r);

/* The same, made where there is none; NULL only without memory. */
ngx_http_egress_ctx_t *ngx_http_egress_create_ctx(ngx_http_request_t *r);

/* Puts back what was replaced in the request; a cleanup handler, too. */
void ngx_http_egress_restore(void *data);

/* The client's connection, which for HTTP/2 is not r->connection. */
ngx_connection_t *ngx_http_egress_connection(ngx_http_request_t *r);


/*
 * ngx_http_egress_target.c: where a request goes.
 */

/*
 * The handshake, the authority and the binding must name the same host
 * (DESIGN 1, 6.1); in base-URL mode the location names the binding.  Sets
 * ctx->req.bound; returns a reason.
 */
ngx_uint_t ngx_http_egress_host(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * Once the host is known: the target, by which its binding is chosen.  Sets
 * ctx->req.target; returns a reason.
 */
ngx_uint_t ngx_http_egress_target(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


/*
 * ngx_http_egress_inspect.c: bodies that tell what a request does, DESIGN 6.4.
 */

/*
 * Finishes the class of a request whose rule has an inspector, where no body
 * is needed for it: by its method and its query.
 */
ngx_int_t ngx_http_egress_inspect_query(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * Reads the body of a request that has an inspector, and has it inspected.
 * Returns NGX_OK where ctx->inspect_reason tells what came of it; NGX_AGAIN
 * where phases are run again once the body is there; NGX_ERROR, or a status of
 * nginx's own.
 */
ngx_int_t ngx_http_egress_inspect(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* After NGX_AGAIN, once the body is there: the reason, or allowed. */
ngx_uint_t ngx_http_egress_inspected(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


/*
 * ngx_http_egress_media.c: what Content-Type tells of a body to be inspected.
 */

/* Tells whether the charset is UTF-8 for any server, or not told at all. */
ngx_uint_t ngx_http_egress_media_charset(ngx_str_t *type);

/*
 * Tells a body in which some server could find a form: in a string of JSON an
 * ampersand is a letter, for a server that goes by the type it begins the next
 * parameter.  Without a type it is a form for some, too.
 */
ngx_uint_t ngx_http_egress_media_form(ngx_str_t *type, ngx_str_t *body);


/*
 * ngx_http_egress_identity.c: who asks, DESIGN 6.9.
 */

/*
 * Finds out for this one request whose it is: what a gateway has learned
 * comes first, then "egress_sandbox".  Sets ctx->role, ctx->sandbox, ctx->box.
 * Returns NGX_EGRESS_ALLOWED; proxy_auth_required where there is no identity
 * and one is needed; or why an identity is refused.
 */
ngx_uint_t ngx_http_egress_identify(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * The same, and before all else by Basic credentials in Authorization or
 * Proxy-Authorization.  "identity" then has them where they were proved, for
 * the caller to wipe; they are of the request's pool.
 */
ngx_uint_t ngx_http_egress_identify_basic(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_identity_t *identity);

/*
 * Tells whether a text that the client sent is a placeholder of "cred" that is
 * valid for its sandbox.
 */
ngx_uint_t ngx_http_egress_swappable(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred,
    ngx_str_t *text);

char *ngx_http_egress_sandbox(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* Once all is merged: a name in a certificate that nobody has verified. */
char *ngx_http_egress_sandbox_check(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *conf);


/*
 * ngx_http_egress_role.c: what a role says of a request, DESIGN 5.3.
 */

/* Counts the connection for "max_connections"; ctx->role is known. */
ngx_uint_t ngx_http_egress_limit(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Once the binding is known: what the class and the scope depend on. */
void ngx_http_egress_role_set(ngx_http_egress_ctx_t *ctx);

/* Tells whether the role may use the binding, and this of it; a reason. */
ngx_uint_t ngx_http_egress_role(ngx_http_egress_ctx_t *ctx);

/*
 * Judges the class and the repositories, as far as they are known: once by the
 * header, and where a body has a say, once more when that was inspected.
 */
ngx_uint_t ngx_http_egress_judge(ngx_http_egress_ctx_t *ctx);

/*
 * Under "mode report" makes NGX_EGRESS_ALLOWED of a reason that is only told
 * then, and notes the first one in ctx->would; any other is returned as it is.
 */
ngx_uint_t ngx_http_egress_report(ngx_http_egress_ctx_t *ctx,
    ngx_uint_t reason);


/*
 * ngx_http_egress_live.c: what is closed when access is cut off, DESIGN 6.9.
 */

/*
 * The request, and its connection if "connection" is set, belong to ctx->box
 * from now on.  Returns NGX_EGRESS_ALLOWED, or limit_reached without memory.
 */
ngx_uint_t ngx_http_egress_live(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t connection);

/* The request carries the secret of a credential from now on. */
ngx_int_t ngx_http_egress_live_secret(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_credential_t *cred);

/* Looks once more whether the sandbox and the secrets may still be used. */
ngx_uint_t ngx_http_egress_still(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * ngx_http_egress_self.c, ngx_http_egress_env.c, ngx_http_egress_policy.c:
 * what a sandbox may ask about itself, DESIGN 6.15.
 */
char *ngx_http_egress_self(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * Makes the text of "/env" as a chain of buffers of r->pool; "identity" is
 * what the client gave, where it was proved.  NULL without memory.
 */
ngx_chain_t *ngx_http_egress_env(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_identity_t *identity);

/* The same for "/policy.json". */
ngx_chain_t *ngx_http_egress_policy(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


/*
 * Header fields of a request or an answer, which nginx keeps in parts.  They
 * are walked over by
 *
 *     for (h = ngx_http_egress_first(&walk, list);
 *          h;
 *          h = ngx_http_egress_next(&walk))
 */

typedef struct {
    ngx_list_part_t               *part;
    ngx_table_elt_t               *next;
    ngx_table_elt_t               *last;        /* behind those of the part */
} ngx_http_egress_walk_t;


static ngx_inline ngx_table_elt_t *ngx_http_egress_next(
    ngx_http_egress_walk_t *walk);
static ngx_inline ngx_table_elt_t *ngx_http_egress_first(
    ngx_http_egress_walk_t *walk, ngx_list_t *list);


/* The next field, or NULL; none may have been added since the first one. */

static ngx_inline ngx_table_elt_t *
ngx_http_egress_next(ngx_http_egress_walk_t *walk)
{
    while (walk->next == walk->last) {

        if (walk->part->next == NULL) {
            return NULL;
        }

        walk->part = walk->part->next;
        walk->next = walk->part->elts;
        walk->last = walk->next + walk->part->nelts;
    }

    return walk->next++;
}


/* Begins a walk: the first field, or NULL. */

static ngx_inline ngx_table_elt_t *
ngx_http_egress_first(ngx_http_egress_walk_t *walk, ngx_list_t *list)
{
    walk->part = &list->part;
    walk->next = list->part.elts;
    walk->last = walk->next + list->part.nelts;

    return ngx_http_egress_next(walk);
}


/*
 * ngx_http_egress_header.c: the client's header fields, DESIGN 6.7.
 */

/* Looks all fields over once; fills in fields[] and the flags of "ctx". */
ngx_int_t ngx_http_egress_scan_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Puts a list without the fields that never go upstream in place. */
ngx_int_t ngx_http_egress_filter_headers(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Tells whether "pass_headers" of a binding lets a client's field through. */
ngx_uint_t ngx_http_egress_header_passed(ngx_egress_binding_t *binding,
    ngx_table_elt_t *h);

/*
 * Takes the next member of a comma-separated list (RFC 9110, 5.6.1) off the
 * front of *pos.  Returns 0 where there is none.
 */
ngx_uint_t ngx_http_egress_token(u_char **pos, u_char *last,
    ngx_str_t *token);

/* Builds the hash of names; at the end of configuration. */
ngx_int_t ngx_http_egress_init_names(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf);


/*
 * ngx_http_egress_credential.c: from placeholder to secret.
 */

/*
 * Decides what becomes of the bound fields.  Returns a reason code,
 * NGX_EGRESS_ALLOWED where the request may go on.
 */
ngx_uint_t ngx_http_egress_credential(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * ngx_http_egress_tripwire.c: tells whether a client sent the value of a
 * secret, or one that it had, in a field that may carry a credential; logs it.
 */
ngx_uint_t ngx_http_egress_tripwire(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Looks once more whether the secrets that were decided on may be used. */
ngx_uint_t ngx_http_egress_credential_state(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * ngx_http_egress_field.c: bound fields of the upstream request, and copies of
 * secrets.
 */

/*
 * The value of a bound field while the upstream request is built, and nothing
 * at any other time (prototype P6, design 3).
 */
ngx_int_t ngx_http_egress_field_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);

/* Notes the buffer of the upstream request, to be wiped with the copies. */
ngx_int_t ngx_http_egress_note_request(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * Memory of the request that is noted among the copies of secrets, and wiped
 * with them; NULL where there is none.
 */
u_char *ngx_http_egress_alloc(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, size_t len);

/* The same for what an answer needs until it has been sent. */
u_char *ngx_http_egress_keep(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, size_t len);

/* Wipes all copies of secrets that the request made. */
void ngx_http_egress_wipe(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx);

/*
 * Wipes the first "size" octets of plain text that stayed in the buffer of an
 * upstream connection.
 */
void ngx_http_egress_wipe_connection(ngx_connection_t *c, size_t size);


/*
 * ngx_http_egress_guard.c: between the stock proxy module and its upstream.
 */

/*
 * Wraps the handlers of the upstream request that is being built, which has
 * asked for the first field: headers of answers are parsed in silence, and at
 * the end copies are wiped.
 */
void ngx_http_egress_guard(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


/*
 * ngx_http_egress_pass.c: the stock proxy module, set up safely.
 */
char *ngx_http_egress_pass(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Once all is merged: nothing beside egress_pass may undo what it set. */
char *ngx_http_egress_pass_check(ngx_conf_t *cf,
    ngx_http_egress_loc_conf_t *prev, ngx_http_egress_loc_conf_t *conf);


/*
 * ngx_http_egress_peer.c: our own peer selection.
 */
ngx_int_t ngx_http_egress_init_upstream(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *uscf);


/*
 * ngx_http_egress_pool.c: idle upstream connections of a worker, by bound
 * host: host, port, TLS name, binding, scheme and fixed address in one.
 */

/* Prepares the pool of a worker; all memory is of the cycle. */
ngx_int_t ngx_http_egress_pool_init(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf);

/*
 * Takes an idle connection to "bound"; its logs are set to "log".  Where the
 * binding has secrets of sandboxes, it is one that "sandbox" used.  With "age"
 * it is at most so many ms idle, and looked at once more for a close that
 * nobody has read; 0 is for requests that may be repeated.  "addr" gets its
 * address, unless the binding has a fixed one.  Returns NULL where there is
 * none.
 */
ngx_connection_t *ngx_http_egress_pool_get(ngx_egress_bound_t *bound,
    ngx_str_t *sandbox, ngx_msec_t age, ngx_egress_addr_t *addr,
    ngx_log_t *log);

/*
 * Takes over a connection that is idle now; "generation" is that of the secrets
 * when they were sent on it, or 0.  Returns NGX_OK, or NGX_DECLINED where it
 * can't be kept: it then stays the caller's.
 */
ngx_int_t ngx_http_egress_pool_put(ngx_egress_bound_t *bound,
    ngx_str_t *sandbox, ngx_connection_t *c, ngx_peer_connection_t *pc,
    ngx_uint_t generation);

#if (NGX_HTTP_SSL)

/* The last TLS session with "bound", or NULL; owned by the pool. */
ngx_ssl_session_t *ngx_http_egress_pool_session(ngx_egress_bound_t *bound);

/* Replaces it; takes over the reference.  NULL drops it. */
void ngx_http_egress_pool_save_session(ngx_egress_bound_t *bound,
    ngx_ssl_session_t *session);

#endif


/* The addresses of a bound host, a reference for the caller, or NULL. */
ngx_egress_addrs_t *ngx_http_egress_pool_addrs(
    ngx_egress_bound_t *bound);

/* Keeps addresses, with a reference of its own, until "valid" is over. */
void ngx_http_egress_pool_save_addrs(ngx_egress_bound_t *bound,
    ngx_egress_addrs_t *addrs, time_t valid);


/*
 * ngx_http_egress_resolve.c: from a bound host to addresses, each of them
 * checked (DESIGN 6.13).
 */

/*
 * Finds addresses for ctx->req.bound.  Returns NGX_OK where ctx->addrs is set,
 * or not needed; NGX_AGAIN where phases are run again once the answer is there;
 * NGX_DECLINED with ctx->resolve_reason set; NGX_ERROR.
 */
ngx_int_t ngx_http_egress_resolve(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* After NGX_AGAIN: the request waits, and notices a client that leaves. */
void ngx_http_egress_resolve_wait(ngx_http_request_t *r);


/*
 * ngx_http_egress_response.c: what comes back, DESIGN 4.8, 6.3, 6.7.
 */

/* Takes fields out of the answer that are not for the client. */
void ngx_http_egress_clean_response(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Tells whether this request was answered 401 too often on its connection. */
ngx_uint_t ngx_http_egress_auth_loop(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Tells whether a 101 answers the WebSocket handshake (RFC 6455, 4.1). */
ngx_uint_t ngx_http_egress_switched(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* Counts equal 401s in a row, by connection. */
void ngx_http_egress_note_status(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);


/*
 * ngx_http_egress_spellings.c: what is looked for in an answer.
 */

/* Prepares the tables of a worker; all memory of them is locked. */
ngx_int_t ngx_http_egress_redact_init(ngx_cycle_t *cycle,
    ngx_egress_conf_t *ecf);

/*
 * Takes a reference to the spellings of the binding's secrets, with "value" for
 * the one that is being sent, or NULL where none is; it is given back with the
 * request.  Returns NGX_OK, also for secrets that are too short to be looked
 * for; NGX_DECLINED where one has changed since the reference was taken, and
 * this value must not be sent; or NGX_ERROR.
 */
ngx_int_t ngx_http_egress_redact_note(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_secret_t *secret,
    ngx_str_t *value);


/*
 * ngx_http_egress_redact.c: no answer gives a secret back, DESIGN 6.7.
 */

/*
 * Masks the fields of an answer and decides about its body: ctx->redacting is
 * set where it goes through ngx_http_egress_redact_body().  Returns NGX_OK, or
 * NGX_DECLINED where the answer must not be passed on.
 */
ngx_int_t ngx_http_egress_redact_header(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/*
 * Masks a part of the body.  What may be the start of a secret is held until
 * more comes.  "out" gets a chain of the same length in octets over all calls;
 * buffers are changed in place.
 */
ngx_int_t ngx_http_egress_redact_body(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out);


/*
 * ngx_http_egress_inflate.c: encoded answers, to be looked at.
 */

/*
 * Prepares an answer with this Content-Encoding to be passed on as identity.
 * Returns NGX_OK, or NGX_DECLINED where the encoding is none that we know.
 */
ngx_int_t ngx_http_egress_inflate_init(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_str_t *encoding);

/* Takes a part of the body; its buffers are consumed as they are needed. */
ngx_int_t ngx_http_egress_inflate_add(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_chain_t *in);

/*
 * Makes the next piece of plain text.  "out" gets NULL where there is nothing
 * to read, or the client has not taken what was made before.
 */
ngx_int_t ngx_http_egress_inflate(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_chain_t **out);

/* The size of a buffer of the body filter. */
size_t ngx_http_egress_inflate_size(ngx_http_egress_ctx_t *ctx);


/*
 * ngx_http_egress_terminate.c: TLS for bound hosts.
 */
char *ngx_http_egress_terminate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_egress_terminate_init(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf);


/*
 * ngx_http_egress_refusal.c: what a refused client sees, DESIGN 6.6.
 */
ngx_int_t ngx_http_egress_filter_init(ngx_conf_t *cf);

/*
 * Marks the request as refused for "reason", writes the audit line, and
 * returns the status, for a phase handler to return.
 */
ngx_int_t ngx_http_egress_refuse(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_uint_t reason);


/*
 * ngx_http_egress_log.c: audit records of requests, DESIGN 6.11.
 */

/* Fills in a record from what is known so far. */
ngx_int_t ngx_http_egress_record(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec);

/* The same with what is known at the end: sizes, times, the upstream. */
ngx_int_t ngx_http_egress_completion(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx, ngx_egress_audit_t *rec);

/* Writes the decision line.  NGX_ERROR: no record, no request. */
ngx_int_t ngx_http_egress_log_decision(ngx_http_request_t *r,
    ngx_http_egress_ctx_t *ctx);

/* The handler of the log phase. */
ngx_int_t ngx_http_egress_log_handler(ngx_http_request_t *r);


/*
 * ngx_http_egress_variables.c
 */
ngx_int_t ngx_http_egress_add_variables(ngx_conf_t *cf);

/* One guarded variable for each field that a binding names. */
ngx_int_t ngx_http_egress_add_field_variables(ngx_conf_t *cf,
    ngx_http_egress_main_conf_t *emcf);

extern ngx_str_t  ngx_http_egress_credentials[];


extern ngx_module_t  ngx_http_egress_module;


#endif /* _NGX_HTTP_EGRESS_H_INCLUDED_ */
