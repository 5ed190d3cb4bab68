
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_egress.h>


/* a text in the making */

typedef struct {
    ngx_http_egress_ctx_t    *ctx;
    ngx_egress_identity_t    *identity;
    ngx_array_t               text;         /* u_char */
    ngx_uint_t                pairs;        /* of GIT_CONFIG_KEY_0, ... */
    ngx_uint_t                failed;       /* unsigned  failed:1; */
} ngx_http_egress_env_t;


static ngx_int_t ngx_http_egress_env_start(ngx_http_request_t *r,
    ngx_http_egress_env_t *env);
static ngx_chain_t *ngx_http_egress_env_link(ngx_http_request_t *r,
    ngx_str_t *text);
static void ngx_http_egress_env_head(ngx_http_egress_env_t *env);
static void ngx_http_egress_env_tail(ngx_http_egress_env_t *env);
static void ngx_http_egress_env_proxies(ngx_http_egress_env_t *env);
static void ngx_http_egress_env_no_proxy(ngx_http_egress_env_t *env);
static ngx_uint_t ngx_http_egress_env_ends(ngx_rbtree_t *names,
    ngx_str_t *end);
static void ngx_http_egress_env_java(ngx_http_egress_env_t *env);
static void ngx_http_egress_env_bindings(ngx_http_egress_env_t *env);
static void ngx_http_egress_env_binding(ngx_http_egress_env_t *env,
    ngx_egress_binding_t *binding);
static ngx_str_t *ngx_http_egress_env_placeholder(ngx_http_egress_env_t *env,
    ngx_egress_credential_t *cred);
static ngx_egress_credential_t *ngx_http_egress_env_login(
    ngx_http_egress_env_t *env, ngx_egress_binding_t *binding);
static ngx_uint_t ngx_http_egress_env_is_git(ngx_egress_bound_t *bound);
static void ngx_http_egress_env_helper(ngx_http_egress_env_t *env,
    ngx_egress_bound_t *bound, ngx_str_t *user, ngx_str_t *placeholder);
static void ngx_http_egress_env_git(ngx_http_egress_env_t *env,
    ngx_str_t *key, ngx_str_t *value);
static void ngx_http_egress_env_set(ngx_http_egress_env_t *env,
    const char *name, ngx_str_t *value);
static void ngx_http_egress_env_escape(ngx_http_egress_env_t *env,
    ngx_str_t *value);
static void ngx_http_egress_env_quote(ngx_http_egress_env_t *env,
    ngx_str_t *value);
static void ngx_http_egress_env_puts(ngx_http_egress_env_t *env,
    const char *text);
static void ngx_http_egress_env_put(ngx_http_egress_env_t *env,
    u_char *data, size_t len);


/* where clients look for the CAs that they trust (research: wire.md, A2) */

static const char  *ngx_http_egress_env_trust[] = {
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    NULL
};


static const char  *ngx_http_egress_env_proxy[] = {
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    NULL
};


/*
 * A shell reads all of a group before it runs any of it: of an answer that
 * was cut off nothing happens.
 */

ngx_chain_t *
ngx_http_egress_env(ngx_http_request_t *r, ngx_http_egress_ctx_t *ctx,
    ngx_egress_identity_t *identity)
{
    ngx_str_t               text;
    ngx_chain_t            *head, *bundle, *tail;
    ngx_http_egress_env_t   env;

    ngx_memzero(&env, sizeof(ngx_http_egress_env_t));

    env.ctx = ctx;
    env.identity = identity;

    if (ngx_http_egress_env_start(r, &env) != NGX_OK) {
        return NULL;
    }

    ngx_http_egress_env_head(&env);

    text.data = env.text.elts;
    text.len = env.text.nelts;

    head = ngx_http_egress_env_link(r, &text);
    bundle = ngx_http_egress_env_link(r, &ctx->conf->bundle_pem);

    if (env.failed || ngx_http_egress_env_start(r, &env) != NGX_OK) {
        return NULL;
    }

    ngx_http_egress_env_tail(&env);
    ngx_http_egress_env_proxies(&env);

    ngx_http_egress_env_bindings(&env);

    ngx_http_egress_env_puts(&env,
        "else\n"
        "unset egress_bundle\n"
        "printf '%s\\n' \"can not write CA certificates to "
        "$EGRESS_CA_BUNDLE\" >&2\n"
        "false\n"
        "fi\n"
        "}\n");

    text.data = env.text.elts;
    text.len = env.text.nelts;

    tail = ngx_http_egress_env_link(r, &text);

    if (head == NULL || bundle == NULL || tail == NULL || env.failed) {
        return NULL;
    }

    head->next = bundle;
    bundle->next = tail;

    return head;
}


static ngx_int_t
ngx_http_egress_env_start(ngx_http_request_t *r, ngx_http_egress_env_t *env)
{
    return ngx_array_init(&env->text, r->pool, 2048, 1);
}


static ngx_chain_t *
ngx_http_egress_env_link(ngx_http_request_t *r, ngx_str_t *text)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    b = ngx_calloc_buf(r->pool);
    cl = ngx_alloc_chain_link(r->pool);

    if (b == NULL || cl == NULL) {
        return NULL;
    }

    /* an empty bundle is a buffer that only marks a place */

    b->memory = (text->len > 0);
    b->sync = (text->len == 0);
    b->pos = text->data;
    b->last = text->data + text->len;

    cl->buf = b;
    cl->next = NULL;

    return cl;
}


/*
 * The bundle is written by what every shell has within, and only where it has
 * changed: another process may be reading it.
 */

static void
ngx_http_egress_env_head(ngx_http_egress_env_t *env)
{
    ngx_http_egress_env_puts(env, "# ");
    ngx_http_egress_env_put(env, env->ctx->conf->name.data,
                            env->ctx->conf->name.len);
    ngx_http_egress_env_puts(env, ": what a sandbox needs, to be read by "
                                  "\"eval\"\n"
                                  "{\n"
                                  "EGRESS_CA_BUNDLE="
                                  "\"${EGRESS_CA_BUNDLE:-"
                                  "$HOME/.egress-ca.pem}\"\n"
                                  "egress_bundle='");
}


static void
ngx_http_egress_env_tail(ngx_http_egress_env_t *env)
{
    ngx_str_t     text;
    const char  **name;

    ngx_http_egress_env_puts(env,
        "'\n"
        "if [ \"$(cat \"$EGRESS_CA_BUNDLE\" 2>/dev/null; printf x)\" = "
        "\"${egress_bundle}x\" ] || "
        "printf '%s' \"$egress_bundle\" >| \"$EGRESS_CA_BUNDLE\"; then\n"
        "unset egress_bundle\n"
        "export EGRESS_CA_BUNDLE\n");

    for (name = ngx_http_egress_env_trust; *name; name++) {
        ngx_http_egress_env_puts(env, "export ");
        ngx_http_egress_env_puts(env, *name);
        ngx_http_egress_env_puts(env, "=\"$EGRESS_CA_BUNDLE\"\n");
    }

    ngx_str_set(&text, "true");
    ngx_http_egress_env_set(env, "UV_NATIVE_TLS", &text);

    ngx_str_set(&text, "1");
    ngx_http_egress_env_set(env, "NODE_USE_ENV_PROXY", &text);

    /* git's first CONNECT has no credentials otherwise */

    ngx_str_set(&text, "basic");
    ngx_http_egress_env_set(env, "GIT_HTTP_PROXY_AUTHMETHOD", &text);
}


/* the address is the operator's, name and token are what the client sent */

static void
ngx_http_egress_env_proxies(ngx_http_egress_env_t *env)
{
    ngx_str_t           scheme, rest;
    const char        **name;
    ngx_egress_conf_t  *ecf;

    ecf = env->ctx->conf;

    if (ecf->self_url.len == 0) {

        /* connections are led to the gateway: there is no proxy to name */

        return;
    }

    scheme.data = ecf->self_url.data;
    scheme.len = sizeof("http://") - 1;

    rest.data = ecf->self_url.data + scheme.len;
    rest.len = ecf->self_url.len - scheme.len;

    for (name = ngx_http_egress_env_proxy; *name; name++) {
        ngx_http_egress_env_puts(env, "export ");
        ngx_http_egress_env_puts(env, *name);
        ngx_http_egress_env_puts(env, "='");
        ngx_http_egress_env_put(env, scheme.data, scheme.len);

        if (env->identity->proved) {
            ngx_http_egress_env_escape(env, &env->identity->user);
            ngx_http_egress_env_puts(env, ":");
            ngx_http_egress_env_escape(env, &env->identity->token);
            ngx_http_egress_env_puts(env, "@");
        }

        ngx_http_egress_env_put(env, rest.data, rest.len);
        ngx_http_egress_env_puts(env, "'\n");
    }

    ngx_http_egress_env_no_proxy(env);
    ngx_http_egress_env_java(env);
}


/*
 * The gateway's own pages are not to be asked for through itself.  Clients
 * take a name there for all names below it, too, so that one that a host of
 * the role ends in can't be listed.
 */

static void
ngx_http_egress_env_no_proxy(ngx_http_egress_env_t *env)
{
    u_char             *p;
    size_t              len;
    ngx_str_t           value, *host;
    ngx_uint_t          i;
    ngx_egress_conf_t  *ecf;

    ecf = env->ctx->conf;
    host = &ecf->self_host;

    if (ngx_http_egress_env_ends(&ecf->names, host)
        || ngx_http_egress_env_ends(&env->ctx->role->hosts, host))
    {
        host = NULL;
    }

    len = sizeof("localhost,127.0.0.1,::1,") + (host ? host->len : 0);

    p = ngx_pnalloc(env->text.pool, len);
    if (p == NULL) {
        env->failed = 1;
        return;
    }

    value.data = p;

    p = ngx_cpymem(p, "localhost,127.0.0.1,::1",
                   sizeof("localhost,127.0.0.1,::1") - 1);

    if (host) {
        *p++ = ',';

        /* without the brackets that an address has in a URL */

        for (i = 0; i < host->len; i++) {
            if (host->data[i] != '[' && host->data[i] != ']') {
                *p++ = host->data[i];
            }
        }
    }

    value.len = p - value.data;

    ngx_http_egress_env_set(env, "no_proxy", &value);
    ngx_http_egress_env_set(env, "NO_PROXY", &value);
}


/* "names" are nodes that begin with ngx_str_node_t */

static ngx_uint_t
ngx_http_egress_env_ends(ngx_rbtree_t *names, ngx_str_t *end)
{
    ngx_str_t          *name;
    ngx_rbtree_node_t  *node;

    if (names->root == names->sentinel) {
        return 0;
    }

    for (node = ngx_rbtree_min(names->root, names->sentinel);
         node;
         node = ngx_rbtree_next(names, node))
    {
        name = &((ngx_str_node_t *) node)->str;

        if (name->len >= end->len
            && ngx_memcmp(name->data + name->len - end->len, end->data,
                          end->len)
               == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Java looks at no variable but its own */

static void
ngx_http_egress_env_java(ngx_http_egress_env_t *env)
{
    u_char             *p;
    ngx_str_t           value;
    ngx_egress_conf_t  *ecf;

    ecf = env->ctx->conf;

    p = ngx_pnalloc(env->text.pool,
                    sizeof("-Dhttps.proxyHost= -Dhttps.proxyPort=65535 "
                           "-Djdk.http.auth.tunneling.disabledSchemes=")
                    + ecf->self_host.len);
    if (p == NULL) {
        env->failed = 1;
        return;
    }

    value.data = p;
    value.len = ngx_sprintf(p, "-Dhttps.proxyHost=%V -Dhttps.proxyPort=%ui "
                               "-Djdk.http.auth.tunneling.disabledSchemes=",
                            &ecf->self_host, (ngx_uint_t) ecf->self_port)
                - p;

    ngx_http_egress_env_set(env, "JAVA_TOOL_OPTIONS", &value);
}


static void
ngx_http_egress_env_bindings(ngx_http_egress_env_t *env)
{
    ngx_str_t               text;
    ngx_uint_t              i;
    ngx_egress_conf_t      *ecf;
    ngx_egress_binding_t  **bindings;

    u_char  count[NGX_INT_T_LEN];

    ecf = env->ctx->conf;
    bindings = ecf->bindings.elts;

    for (i = 0; i < ecf->bindings.nelts; i++) {
        if (ngx_egress_role_uses(env->ctx->role, bindings[i])) {
            ngx_http_egress_env_binding(env, bindings[i]);
        }
    }

    if (env->pairs) {
        text.data = count;
        text.len = ngx_sprintf(count, "%ui", env->pairs) - count;

        ngx_http_egress_env_set(env, "GIT_CONFIG_COUNT", &text);
    }
}


static void
ngx_http_egress_env_binding(ngx_http_egress_env_t *env,
    ngx_egress_binding_t *binding)
{
    ngx_str_t                 *text, user;
    ngx_uint_t                 i;
    ngx_egress_env_t          *var;
    ngx_egress_bound_t       **bounds;
    ngx_egress_credential_t   *cred;

    var = binding->env.elts;

    for (i = 0; i < binding->env.nelts; i++) {
        text = var[i].text.data ? &var[i].text
                                : ngx_http_egress_env_placeholder(env,
                                                       var[i].credential);
        if (text == NULL) {
            continue;
        }

        ngx_http_egress_env_puts(env, "export ");
        ngx_http_egress_env_put(env, var[i].name.data, var[i].name.len);
        ngx_http_egress_env_puts(env, "=");
        ngx_http_egress_env_quote(env, text);
        ngx_http_egress_env_puts(env, "\n");
    }

    cred = ngx_http_egress_env_login(env, binding);

    if (cred == NULL) {
        return;
    }

    user = cred->basic_user;

    if (user.len == 0) {

        /* the placeholder is the password: any name does */

        ngx_str_set(&user, "x-access-token");
    }

    bounds = binding->hosts.elts;

    for (i = 0; i < binding->hosts.nelts; i++) {
        if (ngx_http_egress_env_is_git(bounds[i])) {
            ngx_http_egress_env_helper(env, bounds[i], &user,
                                       ngx_http_egress_env_placeholder(env,
                                                                   cred));
        }
    }
}


/* the sandbox's own, or the first one of the configuration, or NULL */

static ngx_str_t *
ngx_http_egress_env_placeholder(ngx_http_egress_env_t *env,
    ngx_egress_credential_t *cred)
{
    ngx_str_t  *own;

    own = ngx_egress_sandbox_placeholder(env->ctx->box, cred->binding);

    if (own) {
        return own;
    }

    return cred->placeholder.len ? &cred->placeholder : NULL;
}


/* what git can ask for: it has no other field than Authorization */

static ngx_egress_credential_t *
ngx_http_egress_env_login(ngx_http_egress_env_t *env,
    ngx_egress_binding_t *binding)
{
    ngx_uint_t                 i, j;
    ngx_egress_header_t       *header;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {

        if (ngx_http_egress_env_placeholder(env, creds[i]) == NULL
            || (creds[i]->inject != NGX_EGRESS_INJECT_SWAP
                && creds[i]->inject != NGX_EGRESS_INJECT_IF_ABSENT))
        {
            continue;
        }

        header = creds[i]->headers.elts;

        for (j = 0; j < creds[i]->headers.nelts; j++) {
            if (header[j].authorization && !header[j].affixed) {
                return creds[i];
            }
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_http_egress_env_is_git(ngx_egress_bound_t *bound)
{
    ngx_uint_t            i, j;
    ngx_egress_rule_t    *rule;
    ngx_egress_bound_t  **bounds;

    rule = bound->binding->rules.elts;

    for (i = 0; i < bound->binding->rules.nelts; i++) {

        if (rule[i].type != NGX_EGRESS_RULE_GIT) {
            continue;
        }

        if (rule[i].scope == NULL) {
            return 1;
        }

        bounds = rule[i].scope->hosts.elts;

        for (j = 0; j < rule[i].scope->hosts.nelts; j++) {
            if (bounds[j] == bound) {
                return 1;
            }
        }
    }

    return 0;
}


/*
 * An empty helper first: what an image has set up for this host would answer
 * before ours.  git runs the other one by "sh", so that it is quoted once
 * more within.
 */

static void
ngx_http_egress_env_helper(ngx_http_egress_env_t *env,
    ngx_egress_bound_t *bound, ngx_str_t *user, ngx_str_t *placeholder)
{
    u_char                 *p;
    ngx_str_t               key, value;
    ngx_http_egress_env_t   helper;

    p = ngx_pnalloc(env->text.pool, sizeof("credential.https://.helper")
                                    + bound->authority.len);
    if (p == NULL) {
        env->failed = 1;
        return;
    }

    key.data = p;
    key.len = ngx_sprintf(p, "credential.https://%V.helper",
                          &bound->authority)
              - p;

    ngx_str_null(&value);

    ngx_http_egress_env_git(env, &key, &value);

    helper = *env;

    if (ngx_array_init(&helper.text, env->text.pool, 256, 1) != NGX_OK) {
        env->failed = 1;
        return;
    }

    ngx_http_egress_env_puts(&helper,
                             "!f() { test \"$1\" = get && "
                             "printf 'username=%s\\npassword=%s\\n' ");
    ngx_http_egress_env_quote(&helper, user);
    ngx_http_egress_env_puts(&helper, " ");
    ngx_http_egress_env_quote(&helper, placeholder);
    ngx_http_egress_env_puts(&helper, "; }; f");

    env->failed |= helper.failed;

    value.data = helper.text.elts;
    value.len = helper.text.nelts;

    ngx_http_egress_env_git(env, &key, &value);
}


static void
ngx_http_egress_env_git(ngx_http_egress_env_t *env, ngx_str_t *key,
    ngx_str_t *value)
{
    u_char  name[sizeof("GIT_CONFIG_VALUE_") + NGX_INT_T_LEN];

    ngx_sprintf(name, "GIT_CONFIG_KEY_%ui%Z", env->pairs);
    ngx_http_egress_env_set(env, (char *) name, key);

    ngx_sprintf(name, "GIT_CONFIG_VALUE_%ui%Z", env->pairs);
    ngx_http_egress_env_set(env, (char *) name, value);

    env->pairs++;
}


static void
ngx_http_egress_env_set(ngx_http_egress_env_t *env, const char *name,
    ngx_str_t *value)
{
    ngx_http_egress_env_puts(env, "export ");
    ngx_http_egress_env_puts(env, name);
    ngx_http_egress_env_puts(env, "=");
    ngx_http_egress_env_quote(env, value);
    ngx_http_egress_env_puts(env, "\n");
}


/* RFC 3986, 3.2.1: what is no unreserved character is written as %XX */

static void
ngx_http_egress_env_escape(ngx_http_egress_env_t *env, ngx_str_t *value)
{
    u_char   ch, escaped[3];
    size_t   i;

    static u_char  hex[] = "0123456789ABCDEF";

    for (i = 0; i < value->len; i++) {
        ch = value->data[i];

        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
            || (ch >= '0' && ch <= '9')
            || ch == '-' || ch == '.' || ch == '_' || ch == '~')
        {
            ngx_http_egress_env_put(env, &ch, 1);
            continue;
        }

        escaped[0] = '%';
        escaped[1] = hex[ch >> 4];
        escaped[2] = hex[ch & 0xf];

        ngx_http_egress_env_put(env, escaped, 3);
    }
}


/* between single quotes nothing has a meaning but a single quote */

static void
ngx_http_egress_env_quote(ngx_http_egress_env_t *env, ngx_str_t *value)
{
    size_t  i;

    ngx_http_egress_env_puts(env, "'");

    for (i = 0; i < value->len; i++) {

        if (value->data[i] == '\'') {
            ngx_http_egress_env_puts(env, "'\\''");

        } else {
            ngx_http_egress_env_put(env, &value->data[i], 1);
        }
    }

    ngx_http_egress_env_puts(env, "'");
}


static void
ngx_http_egress_env_puts(ngx_http_egress_env_t *env, const char *text)
{
    ngx_http_egress_env_put(env, (u_char *) text, ngx_strlen(text));
}


static void
ngx_http_egress_env_put(ngx_http_egress_env_t *env, u_char *data, size_t len)
{
    u_char  *p;

    if (len == 0) {
        return;
    }

    p = ngx_array_push_n(&env->text, len);

    if (p == NULL) {
        env->failed = 1;
        return;
    }

    ngx_memcpy(p, data, len);
}
