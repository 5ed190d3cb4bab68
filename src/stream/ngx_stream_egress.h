
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_STREAM_EGRESS_H_INCLUDED_
#define _NGX_STREAM_EGRESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_egress.h>


/* a name that nobody can write in a configuration (prototype2 P12) */
#define NGX_STREAM_EGRESS_UPSTREAM  "egress pass"

#define NGX_STREAM_EGRESS_TLS       0x0001
#define NGX_STREAM_EGRESS_CONNECT   0x0002
#define NGX_STREAM_EGRESS_SOCKS5    0x0004
#define NGX_STREAM_EGRESS_ALL       0x0007

/*
 * What is looked at without taking it: a ClientHello, in so many records as
 * fit, or a preamble with the start of one.
 */
#define NGX_STREAM_EGRESS_PEEK      32768

/* how a refused client is told, in the order of what it speaks by now */
#define NGX_STREAM_EGRESS_SILENT    0
#define NGX_STREAM_EGRESS_HTTP      1
#define NGX_STREAM_EGRESS_METHOD    2   /* SOCKS5: no acceptable method */
#define NGX_STREAM_EGRESS_PASSWORD  3   /* SOCKS5: password refused */
#define NGX_STREAM_EGRESS_REPLY     4   /* SOCKS5: reply to the request */
#define NGX_STREAM_EGRESS_ALERT     5   /* TLS */


typedef struct {
    ngx_egress_conf_t               *egress;
    ngx_stream_upstream_srv_conf_t  *upstream;
} ngx_stream_egress_main_conf_t;


typedef struct {
    ngx_flag_t                       gateway;
    ngx_addr_t                       addr;      /* of the terminator */
    ngx_addr_t                       self;      /* "self=", or no sockaddr */
    ngx_stream_complex_value_t      *sandbox;   /* who connects */
    ngx_uint_t                       accept;    /* NGX_STREAM_EGRESS_TLS, ... */
    ngx_stream_content_handler_pt    proxy;     /* of the stock module */
    ngx_egress_place_t               place;
} ngx_stream_egress_srv_conf_t;


typedef struct ngx_stream_egress_ctx_s  ngx_stream_egress_ctx_t;

/*
 * One step of the preamble, given all octets that wait in the socket.
 * Returns NGX_AGAIN where more of them are needed, NGX_OK where they are to
 * be looked at again, NGX_DONE where something else goes on with the session
 * or has ended it.
 */
typedef ngx_int_t (*ngx_stream_egress_step_pt)(ngx_stream_egress_ctx_t *ctx,
    u_char *data, size_t len);


struct ngx_stream_egress_ctx_s {
    ngx_stream_session_t            *session;
    ngx_egress_conf_t               *conf;
    ngx_egress_role_t               *role;
    ngx_stream_egress_step_pt        step;

    ngx_uint_t                       via;
    ngx_uint_t                       reason;
    ngx_uint_t                       status;    /* told to the client */
    ngx_uint_t                       tell;      /* NGX_STREAM_EGRESS_... */
    ngx_uint_t                       reply;     /* of SOCKS5 */

    ngx_egress_host_t                host;      /* where it wants to go */
    ngx_egress_destination_t         dest;
    ngx_str_t                        sni;
    ngx_str_t                        sandbox;
    ngx_egress_sandbox_t            *box;       /* the same, or NULL */
    ngx_egress_live_t               *live;      /* a reference to it */

    ngx_resolver_ctx_t              *resolving;
    ngx_uint_t                       unresolved;    /* the reason */
    ngx_egress_addrs_t              *addrs;     /* a reference */
    ngx_uint_t                       current;   /* the next to be tried */

    void                            *loop;      /* of ngx_egress_loop_enter */
    u_char                           id[NGX_EGRESS_ID_LEN];

    unsigned                         decided:1;
    unsigned                         denied:1;
    unsigned                         handover:1;
    unsigned                         self:1;    /* it goes to "self=" */
    unsigned                         resolved:1;
    unsigned                         sync:1;    /* the resolver is called */
};


/*
 * ngx_stream_egress_gateway.c: recognition and reading, DESIGN 4.1 to 4.3.
 */

/* The handler of the PREREAD phase. */
ngx_int_t ngx_stream_egress_preread_handler(ngx_stream_session_t *s);

/* Goes on reading: what waits, and then what comes. */
void ngx_stream_egress_read(ngx_stream_egress_ctx_t *ctx);

/* Takes exactly "len" octets, which have been peeked at, from the socket. */
ngx_int_t ngx_stream_egress_consume(ngx_connection_t *c, size_t len);

/* Sends a short answer on a socket that nothing was written to lately. */
ngx_int_t ngx_stream_egress_send(ngx_connection_t *c, u_char *data,
    size_t len);

/* The step that waits for a ClientHello, and decides by its name. */
ngx_int_t ngx_stream_egress_hello(ngx_stream_egress_ctx_t *ctx, u_char *data,
    size_t len);

/*
 * A request to the gateway itself goes to the listener of "self=".  Returns
 * NGX_DONE, or NGX_ERROR.
 */
ngx_int_t ngx_stream_egress_origin(ngx_stream_egress_ctx_t *ctx);

/*
 * Finds out who the client is: by what it gives in "identity", which points
 * to octets that the caller wipes, or by "egress_sandbox".  Returns a reason,
 * NGX_EGRESS_ALLOWED with ctx->role and ctx->sandbox set.
 */
ngx_uint_t ngx_stream_egress_identify(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_identity_t *identity);

/*
 * Judges the host that a client has asked for, before it is answered.
 * Returns NGX_OK where the answer may be given, NGX_AGAIN where the name is
 * being resolved, after which the step runs again; NGX_DONE after a refusal.
 */
ngx_int_t ngx_stream_egress_judge(ngx_stream_egress_ctx_t *ctx);

/* What comes after the answer to a CONNECT or SOCKS5 request. */
ngx_int_t ngx_stream_egress_answered(ngx_stream_egress_ctx_t *ctx);


/*
 * ngx_stream_egress_connect.c, ngx_stream_egress_socks5.c: the dialogues.
 */
ngx_int_t ngx_stream_egress_connect(ngx_stream_egress_ctx_t *ctx,
    u_char *data, size_t len);
ngx_int_t ngx_stream_egress_socks5(ngx_stream_egress_ctx_t *ctx,
    u_char *data, size_t len);


/*
 * ngx_stream_egress_resolve.c: names to addresses, all of them checked.
 */

/*
 * Resolves ctx->host.  Returns NGX_OK where it has been done at once,
 * NGX_AGAIN where ngx_stream_egress_read() will be called, NGX_DONE after a
 * refusal.
 */
ngx_int_t ngx_stream_egress_resolve(ngx_stream_egress_ctx_t *ctx);

/* Takes an IP literal for the only address; the same returns. */
ngx_int_t ngx_stream_egress_literal(ngx_stream_egress_ctx_t *ctx);

/* Gives up what a session still holds; the handler of a pool cleanup. */
void ngx_stream_egress_cleanup(void *data);


/*
 * ngx_stream_egress_refusal.c: what a refused client is told, DESIGN 6.6.
 */

/* Tells the client, writes the record, and closes; returns NGX_DONE. */
ngx_int_t ngx_stream_egress_refuse(ngx_stream_egress_ctx_t *ctx,
    ngx_uint_t reason);

/*
 * The same for a CONNECT without credentials, but the connection stays: the
 * client may send another one.  Returns NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_stream_egress_challenge(ngx_stream_egress_ctx_t *ctx);


/*
 * ngx_stream_egress_pass.c: hand-over and pass-through.
 */

/* The content handler of a gateway. */
void ngx_stream_egress_handler(ngx_stream_session_t *s);

/* The directives, and the checks once all is merged (DESIGN 5.5, 6.10). */
char *ngx_stream_egress_gateway(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_stream_egress_sandbox(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_stream_egress_gateway_check(ngx_conf_t *cf);


/*
 * ngx_stream_egress_peer.c: the addresses that we chose.
 */
ngx_int_t ngx_stream_egress_init_upstream(ngx_conf_t *cf,
    ngx_stream_upstream_srv_conf_t *uscf);


/*
 * ngx_stream_egress_live.c: what is closed when a sandbox is gone.
 */

/* The connection is one of ctx->box from now on; NGX_ERROR without memory. */
ngx_int_t ngx_stream_egress_live(ngx_stream_egress_ctx_t *ctx);


/*
 * ngx_stream_egress_log.c: records of connections, DESIGN 6.11.
 */
void ngx_stream_egress_record(ngx_stream_egress_ctx_t *ctx,
    ngx_egress_audit_t *rec);

/* The line of a connection that is refused or passed through. */
void ngx_stream_egress_log_connection(ngx_stream_egress_ctx_t *ctx);

/* The handler of the log phase: how a pass-through ended. */
ngx_int_t ngx_stream_egress_log_handler(ngx_stream_session_t *s);


/*
 * ngx_stream_egress_variables.c
 */
ngx_int_t ngx_stream_egress_add_variables(ngx_conf_t *cf);


extern ngx_module_t  ngx_stream_egress_module;


#endif /* _NGX_STREAM_EGRESS_H_INCLUDED_ */
