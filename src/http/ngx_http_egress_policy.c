
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>

#include <yajl/yajl_gen.h>


static void ngx_http_egress_policy_who(yajl_gen gen,
    ngx_http_egress_ctx_t *ctx);
static void ngx_http_egress_policy_advice(yajl_gen gen);
static void ngx_http_egress_policy_binding(yajl_gen gen,
    ngx_egress_binding_t *binding, ngx_egress_restrict_t *restriction);
static void ngx_http_egress_policy_credentials(yajl_gen gen,
    ngx_egress_binding_t *binding);
static const char *ngx_http_egress_policy_credential(
    ngx_egress_credential_t *cred);
static void ngx_http_egress_policy_hosts(yajl_gen gen, ngx_array_t *hosts);
static void ngx_http_egress_policy_rules(yajl_gen gen,
    ngx_egress_binding_t *binding, ngx_uint_t write);
static const char *ngx_http_egress_policy_meaning(ngx_egress_rule_t *rule,
    ngx_uint_t write);
static void ngx_http_egress_policy_rule(yajl_gen gen, ngx_egress_rule_t *rule,
    const char *meaning);
static void ngx_http_egress_policy_restriction(yajl_gen gen,
    ngx_egress_restrict_t *restriction);
static void ngx_http_egress_policy_repos(yajl_gen gen, const char *name,
    ngx_array_t *repos);
static void ngx_http_egress_policy_allowed(yajl_gen gen,
    ngx_egress_role_t *role);
static void ngx_http_egress_policy_cidrs(yajl_gen gen,
    ngx_egress_role_t *role);
static void ngx_http_egress_policy_host(yajl_gen gen, ngx_str_t *name,
    in_port_t port);
static void ngx_http_egress_policy_key(yajl_gen gen, const char *name);
static void ngx_http_egress_policy_text(yajl_gen gen, const char *text);
static void ngx_http_egress_policy_str(yajl_gen gen, ngx_str_t *text);


/* what holds everywhere, for one who does not know such a gateway */

static const char  *ngx_http_egress_policy_words[] = {
    "All traffic goes through a gateway. It knows the hosts below and "
    "refuses every other one.",

    "Where you need a token, use the placeholder that your environment has "
    "for it. It is no real token: the gateway puts the real one in on the "
    "way, and you never see it. Do not look for it.",

    "Requests that change something are refused wherever access is "
    "\"read\". Prepare such a change, and ask a person to make it.",

    "A refusal has the field Proxy-Status, and a body that tells the reason "
    "and what to do about it. Sending the same request again, or dressed in "
    "another way, does not help.",

    "Only HTTPS goes out. Do not turn the check of certificates off: where "
    "it fails, the bundle of CA certificates was not set.",

    NULL
};


ngx_chain_t *
ngx_http_egress_policy(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx)
{
    size_t                  len;
    yajl_gen                gen;
    ngx_buf_t              *b;
    ngx_uint_t              i;
    ngx_chain_t            *cl;
    const u_char           *buf;
    ngx_egress_binding_t  **bindings;

    gen = yajl_gen_alloc(NULL);
    if (gen == NULL) {
        return NULL;
    }

    yajl_gen_config(gen, yajl_gen_beautify, 1);
    yajl_gen_config(gen, yajl_gen_indent_string, "  ");

    yajl_gen_map_open(gen);

    ngx_http_egress_policy_who(gen, ctx);
    ngx_http_egress_policy_advice(gen);

    ngx_http_egress_policy_key(gen, "bindings");
    yajl_gen_array_open(gen);

    bindings = ctx->conf->bindings.elts;

    for (i = 0; i < ctx->conf->bindings.nelts; i++) {
        if (ngx_egress_role_uses(ctx->role, bindings[i])) {
            ngx_http_egress_policy_binding(gen, bindings[i],
                             ngx_egress_restrict_find(ctx->role, bindings[i]));
        }
    }

    yajl_gen_array_close(gen);

    ngx_http_egress_policy_allowed(gen, ctx->role);
    ngx_http_egress_policy_cidrs(gen, ctx->role);

    yajl_gen_map_close(gen);

    cl = NULL;

    if (yajl_gen_get_buf(gen, &buf, &len) == yajl_gen_status_ok) {

        b = ngx_create_temp_buf(r->pool, len + 1);
        cl = ngx_alloc_chain_link(r->pool);

        if (b == NULL || cl == NULL) {
            yajl_gen_free(gen);
            return NULL;
        }

        b->last = ngx_cpymem(b->last, buf, len);

        cl->buf = b;
        cl->next = NULL;
    }

    yajl_gen_free(gen);

    return cl;
}


static void
ngx_http_egress_policy_who(yajl_gen gen, ngx_http_egress_ctx_t *ctx)
{
    ngx_http_egress_policy_key(gen, "gateway");
    ngx_http_egress_policy_str(gen, &ctx->conf->name);

    if (ctx->sandbox.len) {
        ngx_http_egress_policy_key(gen, "sandbox");
        ngx_http_egress_policy_str(gen, &ctx->sandbox);
    }

    ngx_http_egress_policy_key(gen, "role");
    ngx_http_egress_policy_str(gen, &ctx->role->name);

    if (ctx->conf->self_url.len) {
        ngx_http_egress_policy_key(gen, "proxy");
        ngx_http_egress_policy_str(gen, &ctx->conf->self_url);
    }
}


static void
ngx_http_egress_policy_advice(yajl_gen gen)
{
    const char  **words;

    ngx_http_egress_policy_key(gen, "how_it_works");
    yajl_gen_array_open(gen);

    for (words = ngx_http_egress_policy_words; *words; words++) {
        ngx_http_egress_policy_text(gen, *words);
    }

    yajl_gen_array_close(gen);
}


static void
ngx_http_egress_policy_binding(yajl_gen gen, ngx_egress_binding_t *binding,
    ngx_egress_restrict_t *restriction)
{
    ngx_uint_t  write;

    write = (binding->access == NGX_EGRESS_WRITE
             && (restriction == NULL
                 || restriction->access != NGX_EGRESS_READ));

    yajl_gen_map_open(gen);

    ngx_http_egress_policy_key(gen, "name");
    ngx_http_egress_policy_str(gen, &binding->name);

    ngx_http_egress_policy_key(gen, "hosts");
    ngx_http_egress_policy_hosts(gen, &binding->hosts);

    ngx_http_egress_policy_key(gen, "access");
    ngx_http_egress_policy_text(gen, write ? "write" : "read");

    ngx_http_egress_policy_key(gen, "you_may");
    ngx_http_egress_policy_text(gen, write
        ? "read and change things, except for what a rule refuses"
        : "read, and change nothing");

    ngx_http_egress_policy_credentials(gen, binding);

    if (binding->path_prefix.len > 1) {
        ngx_http_egress_policy_key(gen, "credential_only_below");
        ngx_http_egress_policy_str(gen, &binding->path_prefix);
    }

    ngx_http_egress_policy_key(gen, "websocket");
    yajl_gen_bool(gen, binding->upgrade != 0);

    ngx_http_egress_policy_repos(gen, "repositories", &binding->repos);
    ngx_http_egress_policy_rules(gen, binding, write);

    if (restriction) {
        ngx_http_egress_policy_restriction(gen, restriction);
    }

    yajl_gen_map_close(gen);
}


/* where a credential stands, what to send, and which variables have it */

static void
ngx_http_egress_policy_credentials(yajl_gen gen,
    ngx_egress_binding_t *binding)
{
    ngx_uint_t                 i, j;
    ngx_egress_env_t          *var;
    ngx_egress_header_t       *header;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;
    var = binding->env.elts;

    ngx_http_egress_policy_key(gen, "credentials");
    yajl_gen_array_open(gen);

    for (i = 0; i < binding->credentials.nelts; i++) {

        yajl_gen_map_open(gen);

        ngx_http_egress_policy_key(gen, "headers");
        yajl_gen_array_open(gen);

        header = creds[i]->headers.elts;

        for (j = 0; j < creds[i]->headers.nelts; j++) {
            ngx_http_egress_policy_str(gen, &header[j].field->name);
        }

        yajl_gen_array_close(gen);

        ngx_http_egress_policy_key(gen, "what_to_do");
        ngx_http_egress_policy_text(gen,
                               ngx_http_egress_policy_credential(creds[i]));

        ngx_http_egress_policy_key(gen, "environment");
        yajl_gen_array_open(gen);

        for (j = 0; j < binding->env.nelts; j++) {
            if (var[j].credential == creds[i] && var[j].text.data == NULL) {
                ngx_http_egress_policy_str(gen, &var[j].name);
            }
        }

        yajl_gen_array_close(gen);

        yajl_gen_map_close(gen);
    }

    yajl_gen_array_close(gen);
}


static const char *
ngx_http_egress_policy_credential(ngx_egress_credential_t *cred)
{
    if (cred->secret == NULL && cred->inject != NGX_EGRESS_INJECT_STRIP) {
        return "the gateway has none here: what you send is passed on";
    }

    switch (cred->inject) {

    case NGX_EGRESS_INJECT_SWAP:
        return "send the placeholder as the token, the gateway replaces it";

    case NGX_EGRESS_INJECT_IF_ABSENT:
        return "send the placeholder as the token, or none: the gateway puts "
               "the real one in";

    case NGX_EGRESS_INJECT_ALWAYS:
        return "send none, the gateway puts one in";

    case NGX_EGRESS_INJECT_STRIP:
        return "none is passed on";

    default: /* NGX_EGRESS_INJECT_OFF */
        return "what you send is passed on";
    }
}


static void
ngx_http_egress_policy_hosts(yajl_gen gen, ngx_array_t *hosts)
{
    ngx_uint_t            i;
    ngx_egress_bound_t  **bounds;

    bounds = hosts->elts;

    yajl_gen_array_open(gen);

    for (i = 0; i < hosts->nelts; i++) {
        ngx_http_egress_policy_host(gen, &bounds[i]->name->sn.str,
                                    bounds[i]->port);
    }

    yajl_gen_array_close(gen);
}


static void
ngx_http_egress_policy_rules(yajl_gen gen, ngx_egress_binding_t *binding,
    ngx_uint_t write)
{
    ngx_uint_t          i;
    const char         *meaning;
    ngx_egress_rule_t  *rule;

    rule = binding->rules.elts;

    ngx_http_egress_policy_key(gen, "rules");
    yajl_gen_array_open(gen);

    for (i = 0; i < binding->rules.nelts; i++) {

        meaning = ngx_http_egress_policy_meaning(&rule[i], write);

        if (meaning == NULL || rule[i].text.len == 0) {
            continue;
        }

        ngx_http_egress_policy_rule(gen, &rule[i], meaning);
    }

    yajl_gen_array_close(gen);

    ngx_http_egress_policy_key(gen, "rules_in_words");
    ngx_http_egress_policy_text(gen,
        "The first rule that fits decides: by method, then \"= path\" is "
        "exactly this path, \"/path\" is it and what is below, \"~ regex\" "
        "is matched against the path. Where none fits, GET, HEAD and OPTIONS "
        "are reads, POST, PUT, PATCH and DELETE are writes.");
}


static const char *
ngx_http_egress_policy_meaning(ngx_egress_rule_t *rule, ngx_uint_t write)
{
    switch (rule->type) {

    case NGX_EGRESS_RULE_READ:
        return "this is a read, and allowed";

    case NGX_EGRESS_RULE_ANONYMOUS:
        return "this is a read, and allowed; no credential is passed on";

    case NGX_EGRESS_RULE_WRITE:
        return write ? "this is a write, and allowed"
                     : "this is a write, and refused";

    case NGX_EGRESS_RULE_REFUSE:
        return "this is always refused";

    case NGX_EGRESS_RULE_GIT:
        return write ? "git: clone, fetch and push work"
                     : "git: clone and fetch work, push is refused";

    default: /* NGX_EGRESS_RULE_SLASH */
        return NULL;
    }
}


static void
ngx_http_egress_policy_rule(yajl_gen gen, ngx_egress_rule_t *rule,
    const char *meaning)
{
    yajl_gen_map_open(gen);

    ngx_http_egress_policy_key(gen, "rule");
    ngx_http_egress_policy_str(gen, &rule->text);

    if (rule->scope) {
        ngx_http_egress_policy_key(gen, "hosts");
        ngx_http_egress_policy_hosts(gen, &rule->scope->hosts);
    }

    ngx_http_egress_policy_key(gen, "meaning");
    ngx_http_egress_policy_text(gen, meaning);

    yajl_gen_map_close(gen);
}


/* what is left of it for this role */

static void
ngx_http_egress_policy_restriction(yajl_gen gen,
    ngx_egress_restrict_t *restriction)
{
    ngx_uint_t          i;
    ngx_egress_rule_t  *rule;

    ngx_http_egress_policy_repos(gen, "repositories_for_you",
                                 &restriction->repos);

    if (restriction->rules.nelts == 0) {
        return;
    }

    rule = restriction->rules.elts;

    ngx_http_egress_policy_key(gen, "only");
    yajl_gen_array_open(gen);

    for (i = 0; i < restriction->rules.nelts; i++) {
        ngx_http_egress_policy_rule(gen, &rule[i],
                                    "allowed for you, if the rules above "
                                    "allow it");
    }

    yajl_gen_array_close(gen);

    ngx_http_egress_policy_key(gen, "only_in_words");
    ngx_http_egress_policy_text(gen,
        "One of these has to fit as well, and letters have to be in the same "
        "case. All else at these hosts is refused.");
}


static void
ngx_http_egress_policy_repos(yajl_gen gen, const char *name,
    ngx_array_t *repos)
{
    u_char             *p, text[1024];
    ngx_str_t           full;
    ngx_uint_t          i;
    ngx_egress_repo_t  *repo;

    if (repos->nelts == 0) {
        return;
    }

    repo = repos->elts;

    ngx_http_egress_policy_key(gen, name);
    yajl_gen_array_open(gen);

    for (i = 0; i < repos->nelts; i++) {

        p = ngx_slprintf(text, text + sizeof(text), "%V/%V%s", &repo[i].owner,
                         &repo[i].name, repo[i].name.len ? "" : "*");

        full.data = text;
        full.len = p - text;

        ngx_http_egress_policy_str(gen, &full);
    }

    yajl_gen_array_close(gen);
}


static void
ngx_http_egress_policy_allowed(yajl_gen gen, ngx_egress_role_t *role)
{
    in_port_t             *ports;
    ngx_uint_t             i;
    ngx_rbtree_node_t     *node;
    ngx_egress_allowed_t  *allowed;

    ngx_http_egress_policy_key(gen, "allowed_hosts");
    yajl_gen_array_open(gen);

    if (role->hosts.root != role->hosts.sentinel) {

        for (node = ngx_rbtree_min(role->hosts.root, role->hosts.sentinel);
             node;
             node = ngx_rbtree_next(&role->hosts, node))
        {
            allowed = (ngx_egress_allowed_t *) node;
            ports = allowed->ports.elts;

            for (i = 0; i < allowed->ports.nelts; i++) {
                ngx_http_egress_policy_host(gen, &allowed->sn.str, ports[i]);
            }
        }
    }

    yajl_gen_array_close(gen);

    ngx_http_egress_policy_key(gen, "allowed_hosts_in_words");
    ngx_http_egress_policy_text(gen, role->network
        ? "You may reach any host by HTTPS at port 443, and those listed. "
          "Hosts without a binding get no credential from the gateway."
        : "You may reach these by HTTPS, without a credential of the "
          "gateway, and no host but these and those of the bindings.");
}


static void
ngx_http_egress_policy_cidrs(yajl_gen gen, ngx_egress_role_t *role)
{
    u_char             *p, text[NGX_SOCKADDR_STRLEN + sizeof("/128 port ")];
    size_t              len;
    ngx_uint_t          i, bits;
    ngx_egress_cidr_t  *cidrs;

    if (role->cidrs.nelts == 0) {
        return;
    }

    cidrs = role->cidrs.elts;

    ngx_http_egress_policy_key(gen, "allowed_addresses");
    yajl_gen_array_open(gen);

    for (i = 0; i < role->cidrs.nelts; i++) {

        p = (u_char *) &cidrs[i].cidr.u.in.mask;
        len = sizeof(cidrs[i].cidr.u.in.mask);

#if (NGX_HAVE_INET6)
        if (cidrs[i].cidr.family == AF_INET6) {
            p = cidrs[i].cidr.u.in6.mask.s6_addr;
            len = 16;
        }
#endif

        for (bits = 0; bits < len * 8; bits++) {
            if (!(p[bits / 8] & (0x80 >> bits % 8))) {
                break;
            }
        }

        p = text + ngx_inet_ntop(cidrs[i].cidr.family, &cidrs[i].cidr.u,
                                 text, NGX_SOCKADDR_STRLEN);

        p = ngx_sprintf(p, "/%ui", bits);

        if (cidrs[i].port) {
            p = ngx_sprintf(p, " port %ui", (ngx_uint_t) cidrs[i].port);
        }

        yajl_gen_string(gen, text, p - text);
    }

    yajl_gen_array_close(gen);
}


static void
ngx_http_egress_policy_host(yajl_gen gen, ngx_str_t *name, in_port_t port)
{
    u_char  *p, text[NGX_EGRESS_HOST_LEN + sizeof(":65535")];

    p = ngx_sprintf(text, "%V", name);

    if (port != NGX_EGRESS_PORT) {
        p = ngx_sprintf(p, ":%ui", (ngx_uint_t) port);
    }

    yajl_gen_string(gen, text, p - text);
}


static void
ngx_http_egress_policy_key(yajl_gen gen, const char *name)
{
    ngx_http_egress_policy_text(gen, name);
}


static void
ngx_http_egress_policy_text(yajl_gen gen, const char *text)
{
    yajl_gen_string(gen, (const u_char *) text, ngx_strlen(text));
}


/* a regex may hold any octets, JSON may not (RFC 8259, 8.1) */

static void
ngx_http_egress_policy_str(yajl_gen gen, ngx_str_t *text)
{
    size_t   n;
    u_char  *p, *last;

    p = text->data;
    last = p + text->len;

    while (p < last) {

        if (*p < 0x80) {
            p++;
            continue;
        }

        n = last - p;

        if (ngx_utf8_decode(&p, n) > 0x10ffff) {
            ngx_http_egress_policy_text(gen, "(is no UTF-8)");
            return;
        }
    }

    yajl_gen_string(gen, text->data, text->len);
}
