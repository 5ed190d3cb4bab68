
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


/* a file that is mounted by itself, Linux 5.8 */
#if defined(STATX_ATTR_MOUNT_ROOT) && defined(AT_SYMLINK_NOFOLLOW)
#define NGX_EGRESS_MOUNT_ROOT       1
#endif

/* what is open ends within 5 s after its file, even where nobody tells */
#define NGX_EGRESS_SANDBOX_SELDOM   3000    /* ms */


static ngx_uint_t ngx_egress_sandbox_judge(ngx_egress_sandbox_t *box,
    struct sockaddr *client, ngx_egress_role_t **role);
static ngx_uint_t ngx_egress_sandbox_id(ngx_str_t *id);
static ngx_uint_t ngx_egress_sandbox_proved(ngx_egress_sandbox_t *box,
    ngx_str_t *token);
static ngx_uint_t ngx_egress_sandbox_source(ngx_egress_sandbox_t *box,
    struct sockaddr *sockaddr);

static ngx_egress_sandbox_t *ngx_egress_sandbox_find(ngx_egress_conf_t *ecf,
    ngx_str_t *id, ngx_log_t *log);
static ngx_uint_t ngx_egress_sandbox_due(ngx_egress_sandbox_t *box,
    ngx_msec_t least);
static ngx_uint_t ngx_egress_sandbox_expired(ngx_egress_sandbox_t *box);
static ngx_egress_sandbox_t *ngx_egress_sandbox_file(ngx_egress_conf_t *ecf,
    ngx_egress_sandbox_t *box, ngx_str_t *id, ngx_log_t *log);
static ngx_egress_sandbox_t *ngx_egress_sandbox_read(ngx_egress_conf_t *ecf,
    ngx_egress_sandbox_t *box, ngx_str_t *id, ngx_str_t *path,
    ngx_log_t *log);
static ngx_egress_sandbox_t *ngx_egress_sandbox_made(ngx_egress_conf_t *ecf,
    ngx_egress_sandbox_t *box, ngx_egress_sandbox_t *made, ngx_str_t *text,
    ngx_log_t *log);
static ngx_uint_t ngx_egress_sandbox_same(ngx_egress_sandbox_t *box,
    ngx_file_info_t *fi);
static void ngx_egress_sandbox_note(ngx_egress_sandbox_t *box,
    ngx_file_info_t *fi);
static ngx_uint_t ngx_egress_sandbox_plain(ngx_egress_sandbox_t *box);
static ngx_egress_sandbox_t *ngx_egress_sandbox_keep(
    ngx_egress_sandbox_t *box, ngx_log_t *log);
static ngx_egress_sandbox_t *ngx_egress_sandbox_gone(
    ngx_egress_sandbox_t *box, ngx_log_t *log);


ngx_uint_t
ngx_egress_identify(ngx_egress_conf_t *ecf, ngx_egress_identity_t *identity,
    struct sockaddr *client, ngx_egress_role_t **role,
    ngx_egress_sandbox_t **box, ngx_log_t *log)
{
    ngx_uint_t             reason;
    ngx_egress_sandbox_t  *found;

    *role = ecf->unidentified;
    *box = NULL;
    identity->proved = 0;

    if (ecf->sandboxes.len == 0) {

        /* nobody has an identity, and whatever is claimed is of no use */

        return NGX_EGRESS_ALLOWED;
    }

    if (!identity->given && ecf->unidentified) {
        return NGX_EGRESS_ALLOWED;
    }

    *role = NULL;

    if (identity->user.data == NULL) {
        return NGX_EGRESS_PROXY_AUTH_REQUIRED;
    }

    found = ngx_egress_sandbox_find(ecf, &identity->user, log);

    if (found == NULL
        || !ngx_egress_sandbox_proved(found, &identity->token))
    {
        return NGX_EGRESS_SANDBOX_UNKNOWN;
    }

    reason = ngx_egress_sandbox_judge(found, client, role);

    if (reason == NGX_EGRESS_ALLOWED) {
        identity->proved = 1;
        *box = found;
    }

    return reason;
}


ngx_uint_t
ngx_egress_vouch(ngx_egress_conf_t *ecf, ngx_str_t *id,
    struct sockaddr *client, ngx_egress_role_t **role,
    ngx_egress_sandbox_t **box, ngx_log_t *log)
{
    ngx_uint_t             reason;
    ngx_egress_sandbox_t  *found;

    *role = NULL;
    *box = NULL;

    found = ecf->sandboxes.len ? ngx_egress_sandbox_find(ecf, id, log) : NULL;

    if (found == NULL) {
        return NGX_EGRESS_SANDBOX_UNKNOWN;
    }

    reason = ngx_egress_sandbox_judge(found, client, role);

    if (reason == NGX_EGRESS_ALLOWED) {
        *box = found;
    }

    return reason;
}


/* what holds however a sandbox was told from others */

static ngx_uint_t
ngx_egress_sandbox_judge(ngx_egress_sandbox_t *box, struct sockaddr *client,
    ngx_egress_role_t **role)
{
    if (!ngx_egress_sandbox_source(box, client)) {
        return NGX_EGRESS_SANDBOX_UNKNOWN;
    }

    if (ngx_egress_sandbox_expired(box)) {
        return NGX_EGRESS_SANDBOX_EXPIRED;
    }

    *role = box->role;

    return NGX_EGRESS_ALLOWED;
}


static ngx_uint_t
ngx_egress_sandbox_id(ngx_str_t *id)
{
    u_char  ch;
    size_t  i;

    if (id->len == 0 || id->len > NGX_EGRESS_SANDBOX_ID_LEN) {
        return 0;
    }

    for (i = 0; i < id->len; i++) {
        ch = id->data[i];

        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
            || (ch >= '0' && ch <= '9') || ch == '_'
            || (i && (ch == '.' || ch == '-')))
        {
            continue;
        }

        return 0;
    }

    return 1;
}


/* the hash is of a value with enough randomness: one round of it is enough */

static ngx_uint_t
ngx_egress_sandbox_proved(ngx_egress_sandbox_t *box, ngx_str_t *token)
{
    int           equal;
    u_char        digest[EVP_MAX_MD_SIZE];
    unsigned int  n;

    if (!box->has_token
        || EVP_Digest(token->data, token->len, digest, &n, EVP_sha256(), NULL)
           != 1)
    {
        return 0;
    }

    equal = (CRYPTO_memcmp(digest, box->token, sizeof(box->token)) == 0);

    ngx_explicit_memzero(digest, sizeof(digest));

    return equal;
}


static ngx_uint_t
ngx_egress_sandbox_source(ngx_egress_sandbox_t *box,
    struct sockaddr *sockaddr)
{
    u_char  *addr;

    if (!box->has_sources) {
        return 1;
    }

    addr = ngx_egress_sockaddr_octets(sockaddr);

    return addr && ngx_egress_address_in(sockaddr->sa_family, addr,
                                         &box->sources);
}


/*
 * Looked up by the name that was claimed, never by scanning (DESIGN 6.9).
 * Only files that are there, and good, are kept: names of a client's choice
 * cost no memory.
 */

static ngx_egress_sandbox_t *
ngx_egress_sandbox_find(ngx_egress_conf_t *ecf, ngx_str_t *id, ngx_log_t *log)
{
    ngx_egress_sandbox_t  *box;

    if (!ngx_egress_sandbox_id(id) || ecf->boxes == NULL) {
        return NULL;
    }

    ngx_egress_watch_check(ecf, log);

    box = ngx_egress_sandbox_lookup(ecf, id);

    if (box && !ngx_egress_sandbox_due(box, 0)) {
        return box;
    }

    return ngx_egress_sandbox_file(ecf, box, id, log);
}


/*
 * Even where the kernel tells, the file is looked at, though not so often:
 * what is mounted over it, or written through a mapping, is told to nobody.
 */

static ngx_uint_t
ngx_egress_sandbox_due(ngx_egress_sandbox_t *box, ngx_msec_t least)
{
    ngx_msec_t               interval;
    ngx_egress_sandboxes_t  *all;

    all = box->conf->boxes;

    if (box->epoch != all->epoch) {
        return 1;
    }

    interval = box->conf->secret_check;

    if (box->troubled) {
        interval = ngx_min(interval, NGX_EGRESS_FILE_AGAIN);

    } else if (all->wd != -1 && box->plain && !box->fresh
               && interval < NGX_EGRESS_SANDBOX_SELDOM)
    {
        interval = ngx_min(interval * 4, NGX_EGRESS_SANDBOX_SELDOM);
    }

    return ngx_current_msec - box->checked >= ngx_max(interval, least);
}


ngx_uint_t
ngx_egress_sandbox_check(ngx_egress_sandbox_t *box, ngx_msec_t least,
    ngx_log_t *log)
{
    if (box->reason == NGX_EGRESS_ALLOWED
        && ngx_egress_sandbox_due(box, least))
    {
        ngx_egress_sandbox_look(box, log);

    } else if (box->reason == NGX_EGRESS_ALLOWED
               && ngx_egress_sandbox_expired(box))
    {
        ngx_egress_sandbox_over(box, NGX_EGRESS_SANDBOX_EXPIRED);
    }

    return box->reason;
}


void
ngx_egress_sandbox_look(ngx_egress_sandbox_t *box, ngx_log_t *log)
{
    /* of another one that came of it, or none, nothing is left to be told */

    if (ngx_egress_sandbox_file(box->conf, box, &box->id, log) == box
        && ngx_egress_sandbox_expired(box))
    {
        ngx_egress_sandbox_over(box, NGX_EGRESS_SANDBOX_EXPIRED);
    }
}


static ngx_uint_t
ngx_egress_sandbox_expired(ngx_egress_sandbox_t *box)
{
    return box->expires && box->expires <= ngx_time();
}


/*
 * Looks at the file.  "box" is what is known of it by now, or NULL; returns
 * what holds from now on, the same or another one, or NULL.
 */

static ngx_egress_sandbox_t *
ngx_egress_sandbox_file(ngx_egress_conf_t *ecf, ngx_egress_sandbox_t *box,
    ngx_str_t *id, ngx_log_t *log)
{
    u_char           *p, name[NGX_MAX_PATH];
    ngx_err_t         err;
    ngx_str_t         path;
    ngx_file_info_t   fi;

    if (ecf->sandboxes.len + id->len + sizeof("/.json") > NGX_MAX_PATH) {
        return NULL;
    }

    if (box) {
        path = box->path;
        box->checked = ngx_current_msec;
        box->epoch = ecf->boxes->epoch;

    } else {
        p = ngx_sprintf(name, "%V/%V.json%Z", &ecf->sandboxes, id);

        path.data = name;
        path.len = p - name - 1;
    }

    if (ngx_file_info(path.data, &fi) == NGX_FILE_ERROR) {

        err = ngx_errno;

        if (ngx_egress_file_error(err) == NGX_EGRESS_FILE_GONE) {

            /* no line in the error log for each guess of a client */

            return ngx_egress_sandbox_gone(box, log);
        }

        ngx_log_error(NGX_LOG_ERR, log, err, "sandbox \"%V\": "
                      ngx_file_info_n " failed", &path);

        return (ngx_egress_file_error(err) == NGX_EGRESS_FILE_TROUBLE)
               ? ngx_egress_sandbox_keep(box, log)
               : ngx_egress_sandbox_gone(box, log);
    }

    if (box && !box->troubled && !box->fresh
        && ngx_egress_sandbox_same(box, &fi))
    {
        return box;
    }

    return ngx_egress_sandbox_read(ecf, box, id, &path, log);
}


static ngx_egress_sandbox_t *
ngx_egress_sandbox_read(ngx_egress_conf_t *ecf, ngx_egress_sandbox_t *box,
    ngx_str_t *id, ngx_str_t *path, ngx_log_t *log)
{
    u_char                 data[NGX_EGRESS_SECRET_LEN + 3];
    u_char                 digest[EVP_MAX_MD_SIZE];
    ssize_t                n;
    ngx_str_t              text;
    unsigned int           len;
    ngx_file_info_t        fi;
    ngx_egress_sandbox_t  *made;

    ngx_memzero(&fi, sizeof(ngx_file_info_t));

    n = ngx_egress_file_read(log, "sandbox", path, data, sizeof(data), 0, 0,
                             &fi);

    if (n == NGX_EGRESS_FILE_TROUBLE
        || (n == NGX_EGRESS_FILE_BAD && !ngx_egress_file_settled(&fi)))
    {
        return ngx_egress_sandbox_keep(box, log);
    }

    if (n < 0) {
        return ngx_egress_sandbox_gone(box, log);
    }

    text.data = data;
    text.len = n;

    made = NULL;

    if (EVP_Digest(data, n, digest, &len, EVP_sha256(), NULL) != 1) {
        box = ngx_egress_sandbox_keep(box, log);
        goto done;
    }

    if (box && ngx_memcmp(box->digest, digest, sizeof(box->digest)) == 0) {

        /* written once more, with the same words */

        ngx_egress_sandbox_note(box, &fi);
        goto done;
    }

    made = ngx_egress_sandbox_create(ecf, id, path);

    if (made == NULL) {
        box = ngx_egress_sandbox_keep(box, log);
        goto done;
    }

    ngx_memcpy(made->digest, digest, sizeof(made->digest));
    ngx_egress_sandbox_note(made, &fi);

    box = ngx_egress_sandbox_made(ecf, box, made, &text, log);

done:

    ngx_explicit_memzero(data, n);

    return box;
}


/* another file than the one that was known, or the first one */

static ngx_egress_sandbox_t *
ngx_egress_sandbox_made(ngx_egress_conf_t *ecf, ngx_egress_sandbox_t *box,
    ngx_egress_sandbox_t *made, ngx_str_t *text, ngx_log_t *log)
{
    const char  *why;

    why = ngx_egress_sandbox_parse(made, text->data, text->len);

    if (why == NULL) {

        if (box) {
            ngx_egress_sandbox_over(box, NGX_EGRESS_SANDBOX_REVOKED);
        }

        ngx_egress_sandbox_insert(made);

        return made;
    }

    /* somebody may be just writing it: truncate, then write */

    if (box && !ngx_egress_file_settled(&made->fi)) {
        ngx_egress_sandbox_destroy(made);
        return ngx_egress_sandbox_keep(box, log);
    }

    ngx_log_error(NGX_LOG_ERR, log, 0, "sandbox \"%V\" %s", &made->path, why);

    ngx_egress_sandbox_destroy(made);

    return ngx_egress_sandbox_gone(box, log);
}


static ngx_uint_t
ngx_egress_sandbox_same(ngx_egress_sandbox_t *box, ngx_file_info_t *fi)
{
    ngx_file_info_t *known = &box->fi;

    return ngx_file_uniq(known) == ngx_file_uniq(fi)
           && known->st_dev == fi->st_dev
           && known->st_mtim.tv_sec == fi->st_mtim.tv_sec
           && known->st_mtim.tv_nsec == fi->st_mtim.tv_nsec
           && known->st_ctim.tv_sec == fi->st_ctim.tv_sec
           && known->st_ctim.tv_nsec == fi->st_ctim.tv_nsec
           && ngx_file_size(known) == ngx_file_size(fi);
}


/*
 * A file that was written a moment ago may be written again within one tick of
 * the clock that stamps it: it is then read once more.
 */

static void
ngx_egress_sandbox_note(ngx_egress_sandbox_t *box, ngx_file_info_t *fi)
{
    box->fi = *fi;
    box->fresh = !ngx_egress_file_settled(fi);
    box->plain = ngx_egress_sandbox_plain(box);
    box->checked = ngx_current_msec;
    box->epoch = box->conf->boxes->epoch;
    box->troubled = 0;
}


/* what is written by another name, or elsewhere, is not told of this one */

static ngx_uint_t
ngx_egress_sandbox_plain(ngx_egress_sandbox_t *box)
{
    ngx_file_info_t  fi;

#if (NGX_EGRESS_MOUNT_ROOT)
    struct statx     stx;

    if (statx(AT_FDCWD, (const char *) box->path.data, AT_SYMLINK_NOFOLLOW, 0,
              &stx)
        == -1
        || (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
    {
        return 0;
    }
#endif

    return ngx_link_info(box->path.data, &fi) != NGX_FILE_ERROR
           && ngx_file_uniq(&fi) == ngx_file_uniq(&box->fi)
           && fi.st_dev == box->fi.st_dev
           && fi.st_dev == box->conf->boxes->directory.st_dev
           && fi.st_nlink == 1;
}


/* what can't be read holds as it was, for a while */

static ngx_egress_sandbox_t *
ngx_egress_sandbox_keep(ngx_egress_sandbox_t *box, ngx_log_t *log)
{
    if (box == NULL) {
        return NULL;
    }

    if (box->troubled == 0) {
        box->troubled = ngx_current_msec ? ngx_current_msec : 1;
        return box;
    }

    if (ngx_current_msec - box->troubled < NGX_EGRESS_FILE_GRACE) {
        return box;
    }

    ngx_log_error(NGX_LOG_ERR, log, 0, "sandbox \"%V\" can't be read",
                  &box->path);

    return ngx_egress_sandbox_gone(box, log);
}


static ngx_egress_sandbox_t *
ngx_egress_sandbox_gone(ngx_egress_sandbox_t *box, ngx_log_t *log)
{
    if (box) {
        ngx_egress_sandbox_over(box, NGX_EGRESS_SANDBOX_REVOKED);
    }

    return NULL;
}


ngx_egress_sandbox_binding_t *
ngx_egress_sandbox_bound(ngx_egress_sandbox_t *box,
    ngx_egress_binding_t *binding)
{
    ngx_uint_t                     i;
    ngx_egress_sandbox_binding_t  *bound;

    if (box == NULL) {
        return NULL;
    }

    bound = box->bindings.elts;

    for (i = 0; i < box->bindings.nelts; i++) {
        if (bound[i].binding == binding) {
            return &bound[i];
        }
    }

    return NULL;
}


ngx_str_t *
ngx_egress_sandbox_placeholder(ngx_egress_sandbox_t *box,
    ngx_egress_binding_t *binding)
{
    ngx_egress_sandbox_binding_t  *bound;

    bound = ngx_egress_sandbox_bound(box, binding);

    return (bound && bound->sn.str.len) ? &bound->sn.str : NULL;
}


char *
ngx_egress_sandboxes(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    ngx_str_t        *value;
    ngx_file_info_t   fi;

    if (ecf->sandboxes.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->sandboxes = value[1];

    if (ngx_conf_full_name(cf->cycle, &ecf->sandboxes, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_file_info(ecf->sandboxes.data, &fi) == NGX_FILE_ERROR
        || !ngx_is_dir(&fi))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "sandboxes \"%V\" is not a directory",
                           &ecf->sandboxes);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_egress_vouch_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    u_char      *p, *last;
    ngx_str_t   *value;
    ngx_uint_t   i;

    static ngx_str_t  unsafe[] = {
        ngx_string("http_"),
        ngx_string("arg_"),
        ngx_string("cookie_"),
        ngx_null_string
    };

    if (ecf == NULL || ecf->sandboxes.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"egress_sandbox\" needs \"sandboxes\" in an "
                           "\"egress\" block before this one");
        return NGX_ERROR;
    }

    value = cf->args->elts;
    last = value[1].data + value[1].len;

    for (p = value[1].data; p < last; p++) {

        if (*p != '$') {
            continue;
        }

        if (p + 1 < last && p[1] == '{') {
            p++;
        }

        for (i = 0; unsafe[i].len; i++) {
            if ((size_t) (last - p - 1) >= unsafe[i].len
                && ngx_strncasecmp(p + 1, unsafe[i].data, unsafe[i].len) == 0)
            {
                ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                                   "\"egress_sandbox %V\": any client can "
                                   "write what it likes there, and so be any "
                                   "sandbox", &value[1]);
                return NGX_OK;
            }
        }
    }

    return NGX_OK;
}
