
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * A push-down automaton over the tokens of an executable document: a state
 * tells which tokens may come next, a stack tells what each open bracket is.
 * All of the grammar is checked: of the same tokens no server can make
 * anything else.
 *
 * But servers differ in where comments and block strings end, and what is
 * inside one of them for us may be a definition for them.  A document in which
 * that is possible is "unsure": it is never a read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_egress_graphql.h"
#include "ngx_egress_graphql_token.h"


/* what comes next; the order is that of ngx_egress_graphql_states[] */

typedef enum {
    sw_word = 0,                /* after a name: what it means tells */

    sw_definition,
    sw_described,
    sw_operation,
    sw_operation_name,
    sw_fragment,
    sw_fragment_name,
    sw_condition,
    sw_head,                    /* of a selection set that must follow */
    sw_head_directive,

    sw_first,                   /* in a selection set */
    sw_selection,
    sw_field,                   /* after a name, which may be an alias */
    sw_alias,
    sw_field_name,
    sw_field_tail,
    sw_field_directive,
    sw_spread,
    sw_spread_tail,
    sw_spread_directive,

    sw_directive,

    sw_first_argument,
    sw_argument,
    sw_colon,
    sw_value,
    sw_value_variable,
    sw_list,
    sw_object,

    sw_first_variable,
    sw_variable_described,
    sw_variable,
    sw_variable_name,
    sw_type,
    sw_list_type,               /* after a type, within brackets */
    sw_list_type_end,
    sw_variable_type,
    sw_variable_default,
    sw_variable_tail,
    sw_variable_directive
} ngx_egress_graphql_state_e;


/* what an open bracket is */

typedef enum {
    br_selections = 0,
    br_arguments,
    br_list,
    br_object,
    br_variables,
    br_type
} ngx_egress_graphql_bracket_e;


typedef struct {
    uint32_t   tokens;          /* that may come in this state */
    u_char     name;            /* state after a name, if it has no meaning */
    u_char     directive;       /* state after a directive's name */
    u_char     arguments;       /* state after arguments */
} ngx_egress_graphql_state_t;


typedef struct {
    u_char                      *pos;
    u_char                      *last;
    ngx_egress_graphql_t        *g;

    /* the root field "repository" whose arguments may come, and which came */
    ngx_egress_graphql_repo_t   *repo;
    ngx_egress_graphql_arg_t    *arg;
    ngx_uint_t                   seen;

    /* as it was before the last root field, which may prove an alias */
    ngx_uint_t                   nrepos;
    ngx_uint_t                   unknown;

    ngx_uint_t                   state;
    ngx_uint_t                   after;     /* state after "@name" or "()" */
    ngx_uint_t                   depth;
    ngx_uint_t                   unsure;

    unsigned                     operation:1;   /* else a fragment */
    unsigned                     told:1;        /* the one in "g" */
    unsigned                     constant:1;    /* no variable in a value */

    u_char                       stack[NGX_EGRESS_GRAPHQL_DEPTH];
} ngx_egress_graphql_ctx_t;


static ngx_int_t ngx_egress_graphql_token(ngx_egress_graphql_ctx_t *ctx,
    ngx_uint_t token);
static ngx_int_t ngx_egress_graphql_ignored(ngx_egress_graphql_ctx_t *ctx,
    ngx_uint_t token);
static ngx_int_t ngx_egress_graphql_spread(ngx_egress_graphql_ctx_t *ctx);
static ngx_int_t ngx_egress_graphql_open(ngx_egress_graphql_ctx_t *ctx,
    ngx_uint_t token);
static void ngx_egress_graphql_close(ngx_egress_graphql_ctx_t *ctx);
static ngx_int_t ngx_egress_graphql_dollar(ngx_egress_graphql_ctx_t *ctx);
static void ngx_egress_graphql_colon(ngx_egress_graphql_ctx_t *ctx);
static void ngx_egress_graphql_value(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *text, ngx_uint_t variable);
static ngx_int_t ngx_egress_graphql_name(ngx_egress_graphql_ctx_t *ctx);
static ngx_int_t ngx_egress_graphql_word(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *name, ngx_uint_t state);
static ngx_int_t ngx_egress_graphql_keyword(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *name);
static void ngx_egress_graphql_operation(ngx_egress_graphql_ctx_t *ctx,
    const char *type, ngx_uint_t write);
static void ngx_egress_graphql_root(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *name);
static void ngx_egress_graphql_argument(ngx_egress_graphql_ctx_t *ctx,
    ngx_str_t *name);
static ngx_int_t ngx_egress_graphql_text(ngx_egress_graphql_ctx_t *ctx);
static ngx_uint_t ngx_egress_graphql_is(ngx_str_t *str, const char *text);


#define tk(name)  (1u << tk_##name)

/* what a value starts with, and what a selection may be followed by */
#define TK_VALUE  (tk(name) | tk(number) | tk(string) | tk(dollar)            \
                   | tk(lbracket) | tk(lbrace))
#define TK_NEXT   (tk(name) | tk(spread) | tk(rbrace))


static ngx_egress_graphql_state_t  ngx_egress_graphql_states[] = {

    /* sw_word */
    { 0, 0, 0, 0 },

    /* sw_definition */
    { tk(string) | tk(name) | tk(lbrace), 0, 0, 0 },
    /* sw_described */
    { tk(name), 0, 0, 0 },
    /* sw_operation */
    { tk(name) | tk(lparen) | tk(at) | tk(lbrace), 0, sw_head_directive, 0 },
    /* sw_operation_name */
    { tk(lparen) | tk(at) | tk(lbrace), 0, sw_head_directive, 0 },
    /* sw_fragment */
    { tk(name), 0, 0, 0 },
    /* sw_fragment_name */
    { tk(name), 0, 0, 0 },
    /* sw_condition */
    { tk(name), sw_head, 0, 0 },
    /* sw_head */
    { tk(at) | tk(lbrace), 0, sw_head_directive, 0 },
    /* sw_head_directive */
    { tk(lparen) | tk(at) | tk(lbrace), 0, sw_head_directive, sw_head },

    /* sw_first */
    { tk(name) | tk(spread), sw_field, 0, 0 },
    /* sw_selection */
    { TK_NEXT, sw_field, 0, 0 },
    /* sw_field */
    { tk(colon) | tk(lparen) | tk(at) | tk(lbrace) | TK_NEXT,
      sw_field, sw_field_directive, sw_field_tail },
    /* sw_alias */
    { tk(name), sw_field_name, 0, 0 },
    /* sw_field_name */
    { tk(lparen) | tk(at) | tk(lbrace) | TK_NEXT,
      sw_field, sw_field_directive, sw_field_tail },
    /* sw_field_tail */
    { tk(at) | tk(lbrace) | TK_NEXT, sw_field, sw_field_directive, 0 },
    /* sw_field_directive */
    { tk(lparen) | tk(at) | tk(lbrace) | TK_NEXT,
      sw_field, sw_field_directive, sw_field_tail },
    /* sw_spread */
    { tk(name) | tk(at) | tk(lbrace), 0, sw_head_directive, 0 },
    /* sw_spread_tail */
    { tk(at) | TK_NEXT, sw_field, sw_spread_directive, 0 },
    /* sw_spread_directive */
    { tk(lparen) | tk(at) | TK_NEXT,
      sw_field, sw_spread_directive, sw_spread_tail },

    /* sw_directive */
    { tk(name), 0, 0, 0 },

    /* sw_first_argument */
    { tk(name), sw_colon, 0, 0 },
    /* sw_argument */
    { tk(name) | tk(rparen), sw_colon, 0, 0 },
    /* sw_colon */
    { tk(colon), 0, 0, 0 },
    /* sw_value */
    { TK_VALUE, 0, 0, 0 },
    /* sw_value_variable */
    { tk(name), 0, 0, 0 },
    /* sw_list */
    { TK_VALUE | tk(rbracket), 0, 0, 0 },
    /* sw_object */
    { tk(name) | tk(rbrace), sw_colon, 0, 0 },

    /* sw_first_variable */
    { tk(dollar) | tk(string), 0, 0, 0 },
    /* sw_variable_described */
    { tk(dollar), 0, 0, 0 },
    /* sw_variable */
    { tk(name), sw_variable_name, 0, 0 },
    /* sw_variable_name */
    { tk(colon), 0, 0, 0 },
    /* sw_type */
    { tk(name) | tk(lbracket), 0, 0, 0 },
    /* sw_list_type */
    { tk(bang) | tk(rbracket), 0, 0, 0 },
    /* sw_list_type_end */
    { tk(rbracket), 0, 0, 0 },
    /* sw_variable_type */
    { tk(bang) | tk(equals) | tk(at) | tk(dollar) | tk(string) | tk(rparen),
      0, sw_variable_directive, 0 },
    /* sw_variable_default */
    { tk(equals) | tk(at) | tk(dollar) | tk(string) | tk(rparen),
      0, sw_variable_directive, 0 },
    /* sw_variable_tail */
    { tk(at) | tk(dollar) | tk(string) | tk(rparen),
      0, sw_variable_directive, 0 },
    /* sw_variable_directive */
    { tk(lparen) | tk(at) | tk(dollar) | tk(string) | tk(rparen),
      0, sw_variable_directive, sw_variable_tail }
};


/* the state after a value, by the bracket around it */

static u_char  ngx_egress_graphql_after[] = {
    0,
    sw_argument,
    sw_list,
    sw_object,
    sw_variable_tail,
    0
};


ngx_int_t
ngx_egress_graphql_parse(u_char *data, size_t len, ngx_egress_graphql_t *g)
{
    ngx_uint_t                 token;
    ngx_egress_graphql_ctx_t   ctx;

    ngx_memzero(g, sizeof(ngx_egress_graphql_t));
    ngx_memzero(&ctx, offsetof(ngx_egress_graphql_ctx_t, stack));

    ctx.pos = data;
    ctx.last = data + len;
    ctx.g = g;
    ctx.state = sw_definition;

    while (ctx.pos < ctx.last) {

        token = ngx_egress_graphql_octets[*ctx.pos] & NGX_EGRESS_GRAPHQL_TOKEN;

        if (token == tk_space) {
            ctx.pos++;
            continue;
        }

        if (ngx_egress_graphql_token(&ctx, token) != NGX_OK) {
            return NGX_DECLINED;
        }
    }

    if (ctx.state != sw_definition) {
        return NGX_DECLINED;
    }

    if (g->nmutations || g->nsubscriptions) {
        g->class = NGX_EGRESS_WRITE;

        if (ctx.unsure) {
            g->root_unknown = 1;
        }

        return NGX_OK;
    }

    if (g->nqueries == 0 || ctx.unsure) {
        return NGX_DECLINED;
    }

    g->class = NGX_EGRESS_READ;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_graphql_token(ngx_egress_graphql_ctx_t *ctx, ngx_uint_t token)
{
    ngx_egress_graphql_state_t  *state;

    if (token == tk_comment || token == tk_bom) {
        return ngx_egress_graphql_ignored(ctx, token);
    }

    state = &ngx_egress_graphql_states[ctx->state];

    if (!(state->tokens & (1u << token))) {
        return NGX_DECLINED;
    }

    switch (token) {

    case tk_name:
        return ngx_egress_graphql_name(ctx);

    case tk_number:
        ctx->pos = ngx_egress_graphql_number(ctx->pos, ctx->last);
        ngx_egress_graphql_value(ctx, NULL, 0);

        return ctx->pos ? NGX_OK : NGX_DECLINED;

    case tk_string:
        return ngx_egress_graphql_text(ctx);

    case tk_spread:
        return ngx_egress_graphql_spread(ctx);

    case tk_dollar:
        return ngx_egress_graphql_dollar(ctx);

    case tk_lparen:
    case tk_lbracket:
    case tk_lbrace:
        return ngx_egress_graphql_open(ctx, token);

    case tk_rparen:
    case tk_rbracket:
    case tk_rbrace:
        ngx_egress_graphql_close(ctx);
        break;

    case tk_colon:
        ngx_egress_graphql_colon(ctx);
        break;

    case tk_at:
        ctx->after = state->directive;
        ctx->state = sw_directive;
        break;

    case tk_equals:
        ctx->state = sw_value;
        break;

    default: /* tk_bang */
        ctx->state = (ctx->state == sw_list_type) ? sw_list_type_end
                                                  : sw_variable_default;
    }

    ctx->pos++;

    return NGX_OK;
}


/* may stand anywhere */

static ngx_int_t
ngx_egress_graphql_ignored(ngx_egress_graphql_ctx_t *ctx, ngx_uint_t token)
{
    u_char  *p;

    p = ctx->pos;

    if (token == tk_comment) {
        ctx->pos = ngx_egress_graphql_comment(p, ctx->last, &ctx->unsure);

        return ctx->pos ? NGX_OK : NGX_DECLINED;
    }

    /* tk_bom, so far told by its first octet alone */

    if (ctx->last - p < 3 || p[1] != 0xbb || p[2] != 0xbf) {
        return NGX_DECLINED;
    }

    ctx->pos += 3;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_graphql_spread(ngx_egress_graphql_ctx_t *ctx)
{
    if (ctx->last - ctx->pos < 3 || ctx->pos[1] != '.' || ctx->pos[2] != '.') {
        return NGX_DECLINED;
    }

    if (ctx->depth == 1 && ctx->operation) {
        ctx->g->root_unknown = 1;
    }

    ctx->pos += 3;
    ctx->state = sw_spread;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_graphql_open(ngx_egress_graphql_ctx_t *ctx, ngx_uint_t token)
{
    u_char      bracket;
    ngx_uint_t  state;

    if (ctx->depth == NGX_EGRESS_GRAPHQL_DEPTH) {
        return NGX_DECLINED;
    }

    state = ctx->state;

    if (state == sw_value || state == sw_list) {
        ctx->arg = NULL;

        bracket = (token == tk_lbracket) ? br_list : br_object;
        ctx->state = (token == tk_lbracket) ? sw_list : sw_object;

    } else if (token == tk_lbrace) {

        if (state == sw_definition) {
            ngx_egress_graphql_operation(ctx, "query", 0);
            ctx->g->nqueries++;
        }

        ctx->repo = NULL;

        bracket = br_selections;
        ctx->state = sw_first;

    } else if (token == tk_lbracket) {
        bracket = br_type;

    } else if (state == sw_operation || state == sw_operation_name) {
        ctx->constant = 1;

        bracket = br_variables;
        ctx->state = sw_first_variable;

    } else {

        /* those of a directive are not the field's */

        if (state != sw_field && state != sw_field_name) {
            ctx->repo = NULL;
        }

        ctx->after = ngx_egress_graphql_states[state].arguments;

        bracket = br_arguments;
        ctx->state = sw_first_argument;
    }

    ctx->stack[ctx->depth++] = bracket;
    ctx->pos++;

    return NGX_OK;
}


/* no state that allows the token has a bracket of another kind open */

static void
ngx_egress_graphql_close(ngx_egress_graphql_ctx_t *ctx)
{
    ngx_uint_t  bracket, outer;

    bracket = ctx->stack[--ctx->depth];
    outer = ctx->depth ? ctx->stack[ctx->depth - 1] : br_selections;

    switch (bracket) {

    case br_selections:
        ctx->state = ctx->depth ? sw_selection : sw_definition;
        break;

    case br_arguments:
        ctx->state = ctx->after;
        break;

    case br_variables:
        ctx->constant = 0;
        ctx->state = sw_head;
        break;

    case br_type:
        ctx->state = (outer == br_type) ? sw_list_type : sw_variable_type;
        break;

    default: /* br_list, br_object */
        ctx->state = ngx_egress_graphql_after[outer];
    }
}


static ngx_int_t
ngx_egress_graphql_dollar(ngx_egress_graphql_ctx_t *ctx)
{
    if (ctx->state == sw_value || ctx->state == sw_list) {

        if (ctx->constant) {
            return NGX_DECLINED;
        }

        ctx->state = sw_value_variable;

    } else {
        ctx->state = sw_variable;
    }

    ctx->pos++;

    return NGX_OK;
}


static void
ngx_egress_graphql_colon(ngx_egress_graphql_ctx_t *ctx)
{
    switch (ctx->state) {

    case sw_field:

        /* the name before it was an alias, and no field */

        if (ctx->depth == 1 && ctx->operation) {
            ctx->g->nrepos = ctx->nrepos;
            ctx->g->root_unknown = ctx->unknown;
        }

        ctx->state = sw_alias;
        break;

    case sw_variable_name:
        ctx->state = sw_type;
        break;

    default: /* sw_colon */
        ctx->state = sw_value;
    }
}


/* a value that can't be told has no text */

static void
ngx_egress_graphql_value(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *text,
    ngx_uint_t variable)
{
    if (ctx->arg) {

        if (text && text->len <= NGX_EGRESS_GRAPHQL_NAME) {
            ctx->arg->text = *text;
            ctx->arg->variable = variable;
        }

        ctx->arg = NULL;
    }

    ctx->state = ngx_egress_graphql_after[ctx->stack[ctx->depth - 1]];
}


static ngx_int_t
ngx_egress_graphql_name(ngx_egress_graphql_ctx_t *ctx)
{
    u_char      *p;
    ngx_str_t    name;
    ngx_uint_t   state;

    p = ctx->pos + 1;

    while (p < ctx->last
           && (ngx_egress_graphql_octets[*p] & NGX_EGRESS_GRAPHQL_NAME_CHAR))
    {
        p++;
    }

    name.data = ctx->pos;
    name.len = p - ctx->pos;

    ctx->pos = p;

    state = ctx->state;
    ctx->state = ngx_egress_graphql_states[state].name;

    switch (ctx->state) {

    case sw_field:
    case sw_field_name:
        if (ctx->depth == 1 && ctx->operation) {
            ngx_egress_graphql_root(ctx, &name);
        }

        return NGX_OK;

    case sw_colon:
        if (ctx->repo && state != sw_object) {
            ngx_egress_graphql_argument(ctx, &name);
        }

        return NGX_OK;

    case sw_word:
        return ngx_egress_graphql_word(ctx, &name, state);

    default:
        return NGX_OK;
    }
}


/* a name that means something where it stands */

static ngx_int_t
ngx_egress_graphql_word(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *name,
    ngx_uint_t state)
{
    ngx_uint_t  on;

    switch (state) {

    case sw_value:
    case sw_list:
        ngx_egress_graphql_value(ctx, NULL, 0);
        return NGX_OK;

    case sw_value_variable:
        ngx_egress_graphql_value(ctx, name, 1);
        return NGX_OK;

    case sw_directive:
        ctx->state = ctx->after;
        return NGX_OK;

    case sw_type:
        ctx->state = (ctx->stack[ctx->depth - 1] == br_type)
                     ? sw_list_type : sw_variable_type;
        return NGX_OK;

    case sw_definition:
    case sw_described:
        return ngx_egress_graphql_keyword(ctx, name);

    case sw_operation:

        if (ctx->told) {
            ctx->g->name.data = name->data;
            ctx->g->name.len = ngx_min(name->len, NGX_EGRESS_GRAPHQL_OP);
        }

        ctx->state = sw_operation_name;
        return NGX_OK;
    }

    on = ngx_egress_graphql_is(name, "on");

    switch (state) {

    case sw_spread:
        ctx->state = on ? sw_condition : sw_spread_tail;
        return NGX_OK;

    case sw_fragment:
        ctx->state = sw_fragment_name;
        return on ? NGX_DECLINED : NGX_OK;

    default: /* sw_fragment_name */
        ctx->state = sw_condition;
        return on ? NGX_OK : NGX_DECLINED;
    }
}


static ngx_int_t
ngx_egress_graphql_keyword(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *name)
{
    ngx_egress_graphql_t  *g;

    g = ctx->g;

    if (ngx_egress_graphql_is(name, "fragment")) {
        g->nfragments++;
        ctx->operation = 0;
        ctx->state = sw_fragment;
        return NGX_OK;
    }

    ctx->state = sw_operation;

    if (ngx_egress_graphql_is(name, "query")) {
        ngx_egress_graphql_operation(ctx, "query", 0);
        g->nqueries++;
        return NGX_OK;
    }

    if (ngx_egress_graphql_is(name, "mutation")) {
        ngx_egress_graphql_operation(ctx, "mutation", 1);
        g->nmutations++;
        return NGX_OK;
    }

    if (ngx_egress_graphql_is(name, "subscription")) {
        ngx_egress_graphql_operation(ctx, "subscription", 1);
        g->nsubscriptions++;
        return NGX_OK;
    }

    return NGX_DECLINED;
}


/* to be called before the operation is counted */

static void
ngx_egress_graphql_operation(ngx_egress_graphql_ctx_t *ctx, const char *type,
    ngx_uint_t write)
{
    ngx_egress_graphql_t  *g;

    g = ctx->g;

    ctx->operation = 1;
    ctx->told = (g->type.len == 0
                 || (write && g->nmutations + g->nsubscriptions == 0));

    if (ctx->told) {
        g->type.data = (u_char *) type;
        g->type.len = strlen(type);
        ngx_str_null(&g->name);
    }
}


static void
ngx_egress_graphql_root(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *name)
{
    ngx_uint_t             i;
    ngx_egress_graphql_t  *g;

    static ngx_str_t  known[] = {
        ngx_string("viewer"),
        ngx_string("rateLimit"),
        ngx_string("meta"),
        ngx_string("__schema"),
        ngx_string("__type"),
        ngx_string("__typename"),
        ngx_null_string
    };

    g = ctx->g;

    ctx->repo = NULL;
    ctx->nrepos = g->nrepos;
    ctx->unknown = g->root_unknown;

    if (ngx_egress_graphql_is(name, "repository")
        && g->nrepos < NGX_EGRESS_GRAPHQL_REPOS)
    {
        ctx->repo = &g->repos[g->nrepos++];
        ctx->seen = 0;

        return;
    }

    for (i = 0; known[i].len; i++) {
        if (name->len == known[i].len
            && ngx_memcmp(name->data, known[i].data, name->len) == 0)
        {
            return;
        }
    }

    g->root_unknown = 1;
}


/* of two arguments of one name a server may take either */

static void
ngx_egress_graphql_argument(ngx_egress_graphql_ctx_t *ctx, ngx_str_t *name)
{
    ngx_uint_t                 bit;
    ngx_egress_graphql_arg_t  *arg;

    if (ngx_egress_graphql_is(name, "owner")) {
        arg = &ctx->repo->owner;
        bit = 1;

    } else if (ngx_egress_graphql_is(name, "name")) {
        arg = &ctx->repo->name;
        bit = 2;

    } else {
        return;
    }

    if (ctx->seen & bit) {
        ngx_str_null(&arg->text);
        arg->variable = 0;
        return;
    }

    ctx->seen |= bit;
    ctx->arg = arg;
}


static ngx_int_t
ngx_egress_graphql_text(ngx_egress_graphql_ctx_t *ctx)
{
    u_char     *p;
    ngx_str_t   text;

    p = ngx_egress_graphql_string(ctx->pos, ctx->last, &text, &ctx->unsure);

    if (p == NULL) {
        return NGX_DECLINED;
    }

    ctx->pos = p;

    switch (ctx->state) {

    case sw_value:
    case sw_list:
        ngx_egress_graphql_value(ctx, text.data ? &text : NULL, 0);
        break;

    case sw_definition:
        ctx->state = sw_described;
        break;

    default:
        ctx->state = sw_variable_described;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_egress_graphql_is(ngx_str_t *str, const char *text)
{
    size_t  len;

    len = strlen(text);

    return str->len == len && ngx_memcmp(str->data, text, len) == 0;
}
