
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_GRAPHQL_TOKEN_H_INCLUDED_
#define _NGX_EGRESS_GRAPHQL_TOKEN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* in the table of octets: the token that an octet begins, and flags */
#define NGX_EGRESS_GRAPHQL_TOKEN      0x1f
#define NGX_EGRESS_GRAPHQL_NAME_CHAR  0x20
#define NGX_EGRESS_GRAPHQL_STOP       0x40  /* is looked at in a string */


typedef enum {
    tk_invalid = 0,
    tk_space,
    tk_comment,
    tk_bom,
    tk_name,
    tk_number,
    tk_string,
    tk_spread,
    tk_bang,
    tk_dollar,
    tk_lparen,
    tk_rparen,
    tk_colon,
    tk_equals,
    tk_at,
    tk_lbracket,
    tk_rbracket,
    tk_lbrace,
    tk_rbrace
} ngx_egress_graphql_token_e;


extern u_char  ngx_egress_graphql_octets[256];


/*
 * Each of these takes the start of a token and tells where the token ends, or
 * NULL where it is none.  "unsure" is set where there are servers for which
 * it ends elsewhere, and left alone otherwise.
 */

u_char *ngx_egress_graphql_comment(u_char *p, u_char *last,
    ngx_uint_t *unsure);

u_char *ngx_egress_graphql_number(u_char *p, u_char *last);

/*
 * A string of either kind; "text" is what it says if nothing in it has to be
 * unescaped or stripped, else it has no data.
 */
u_char *ngx_egress_graphql_string(u_char *p, u_char *last, ngx_str_t *text,
    ngx_uint_t *unsure);


#endif /* _NGX_EGRESS_GRAPHQL_TOKEN_H_INCLUDED_ */
