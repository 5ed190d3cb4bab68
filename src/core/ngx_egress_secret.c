
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <openssl/sha.h>
#include <sys/mman.h>


static void ngx_egress_secret_look(ngx_egress_secret_t *secret,
    ngx_log_t *log);
static void ngx_egress_secret_touched(ngx_egress_secret_t *secret,
    ngx_file_info_t *fi, ngx_log_t *log);
static void ngx_egress_secret_read(ngx_egress_secret_t *secret,
    ngx_file_info_t *fi, ngx_log_t *log);
static void ngx_egress_secret_unread(ngx_egress_secret_t *secret, ssize_t n,
    ngx_file_info_t *fi, ngx_log_t *log);
static void ngx_egress_secret_trouble(ngx_egress_secret_t *secret,
    ngx_log_t *log);
static void ngx_egress_secret_state(ngx_egress_secret_t *secret,
    ngx_uint_t state, ngx_log_t *log);
static ngx_uint_t ngx_egress_secret_same(ngx_egress_vault_t *vault,
    ngx_file_info_t *fi);
static void ngx_egress_secret_note(ngx_egress_vault_t *vault,
    ngx_file_info_t *fi);
static ngx_int_t ngx_egress_secret_set(ngx_egress_secret_t *secret,
    u_char *data, size_t len, ngx_log_t *log);

static ngx_int_t ngx_egress_secret_load(ngx_conf_t *cf,
    ngx_egress_secret_t *secret);
static ngx_egress_vault_t *ngx_egress_vault_create(ngx_conf_t *cf);
static void ngx_egress_vault_cleanup(void *data);
static ngx_int_t ngx_egress_secret_check_path(ngx_cycle_t *cycle,
    ngx_egress_secret_t *secret, ngx_core_conf_t *ccf);
static ngx_uint_t ngx_egress_secret_searchable(ngx_file_info_t *fi,
    ngx_core_conf_t *ccf);


ngx_int_t
ngx_egress_secret_get(ngx_egress_conf_t *ecf, ngx_egress_secret_t *secret,
    ngx_str_t *sandbox, ngx_str_t *value, ngx_str_t *id, ngx_log_t *log)
{
    ngx_int_t            rc;
    ngx_egress_vault_t  *vault;

    rc = ngx_egress_secret_of(&secret, sandbox, log);

    if (rc != NGX_OK) {
        return rc;
    }

    vault = secret->vault;

    if (vault->state == NGX_EGRESS_VAULT_UNKNOWN
        || (!secret->fixed
            && ngx_current_msec - vault->checked
               >= (vault->troubled ? ngx_min(ecf->secret_check,
                                             NGX_EGRESS_FILE_AGAIN)
                                   : ecf->secret_check)))
    {
        vault->checked = ngx_current_msec;
        ngx_egress_secret_look(secret, log);

        /* a longer value may have needed more room */

        vault = secret->vault;
    }

    switch (vault->state) {

    case NGX_EGRESS_VAULT_VALID:
        break;

    case NGX_EGRESS_VAULT_MISSING:
        return NGX_DECLINED;

    default: /* NGX_EGRESS_VAULT_UNREADABLE, NGX_EGRESS_VAULT_UNKNOWN */
        return NGX_ERROR;
    }

    if (value) {
        value->data = vault->data;
        value->len = vault->len;
    }

    if (id) {
        id->data = vault->id;
        id->len = sizeof(vault->id);
    }

    return NGX_OK;
}


ngx_uint_t
ngx_egress_secret_generation(ngx_egress_secret_t *secret, ngx_str_t *sandbox)
{
    if (ngx_egress_secret_of(&secret, sandbox, ngx_cycle->log) != NGX_OK) {

        /* there is no value, and so none that differs */

        return 0;
    }

    return secret->vault->generation;
}


time_t
ngx_egress_secret_age(ngx_egress_secret_t *secret, ngx_str_t *sandbox)
{
    if (ngx_egress_secret_of(&secret, sandbox, ngx_cycle->log) != NGX_OK) {
        return NGX_MAX_INT_T_VALUE;
    }

    return ngx_time() - secret->vault->mtime;
}


static void
ngx_egress_secret_look(ngx_egress_secret_t *secret, ngx_log_t *log)
{
    ngx_file_info_t      fi;
    ngx_egress_vault_t  *vault;

    vault = secret->vault;

    /* the path is resolved anew each time: "..data" links move (O-21) */

    if (ngx_file_info(secret->path.data, &fi) == NGX_FILE_ERROR) {

        switch (ngx_egress_file_error(ngx_errno)) {

        case NGX_EGRESS_FILE_GONE:
            ngx_egress_secret_state(secret, NGX_EGRESS_VAULT_MISSING, log);
            return;

        case NGX_EGRESS_FILE_DENIED:
            ngx_egress_secret_state(secret, NGX_EGRESS_VAULT_UNREADABLE,
                                    log);
            return;

        default: /* NGX_EGRESS_FILE_TROUBLE */
            ngx_egress_secret_trouble(secret, log);
            return;
        }
    }

    if (vault->state == NGX_EGRESS_VAULT_VALID && vault->troubled == 0
        && ngx_egress_secret_same(vault, &fi))
    {
        if (vault->ctime == fi.st_ctim.tv_sec
            && vault->ctime_nsec == fi.st_ctim.tv_nsec)
        {
            return;
        }

        ngx_egress_secret_touched(secret, &fi, log);
        return;
    }

    /*
     * what was refused is read again only when it has changed, its mode
     * included
     */

    if (vault->state == NGX_EGRESS_VAULT_UNREADABLE && vault->troubled == 0
        && ngx_egress_secret_same(vault, &fi)
        && vault->ctime == fi.st_ctim.tv_sec
        && vault->ctime_nsec == fi.st_ctim.tv_nsec)
    {
        return;
    }

    ngx_egress_secret_read(secret, &fi, log);
}


/*
 * The mode, the owner or the number of links has changed, or the time of
 * change was put back.  A file that only the master could ever read keeps its
 * value as long as its mode is a good one.
 */

static void
ngx_egress_secret_touched(ngx_egress_secret_t *secret, ngx_file_info_t *fi,
    ngx_log_t *log)
{
    if (ngx_egress_file_check(fi, secret->insecure) == NULL
        && (fi->st_mode & S_IRUSR)
        && access((const char *) secret->path.data, R_OK) == -1
        && ngx_errno == NGX_EACCES)
    {
        ngx_egress_secret_note(secret->vault, fi);
        return;
    }

    ngx_egress_secret_read(secret, fi, log);
}


static void
ngx_egress_secret_read(ngx_egress_secret_t *secret, ngx_file_info_t *fi,
    ngx_log_t *log)
{
    u_char           buf[NGX_EGRESS_SECRET_LEN + 3];
    ssize_t          n;
    ngx_file_info_t  opened;

    ngx_memzero(&opened, sizeof(ngx_file_info_t));

    n = ngx_egress_file_read(log, "secret", &secret->path, buf, sizeof(buf),
                             secret->insecure, 1, &opened);

    if (n <= 0) {
        ngx_egress_secret_unread(secret, n, fi, log);

    } else if (ngx_egress_secret_set(secret, buf, n, log) != NGX_OK) {
        ngx_egress_secret_trouble(secret, log);

    } else {
        ngx_egress_secret_note(secret->vault, &opened);
        secret->vault->troubled = 0;
        ngx_egress_secret_state(secret, NGX_EGRESS_VAULT_VALID, log);
    }

    ngx_explicit_memzero(buf, sizeof(buf));
}


/* "n" is what ngx_egress_file_read() returned */

static void
ngx_egress_secret_unread(ngx_egress_secret_t *secret, ssize_t n,
    ngx_file_info_t *fi, ngx_log_t *log)
{
    ngx_egress_vault_t  *vault;

    vault = secret->vault;

    switch (n) {

    case NGX_EGRESS_FILE_GONE:
        vault->troubled = 0;
        ngx_egress_secret_state(secret, NGX_EGRESS_VAULT_MISSING, log);
        break;

    case NGX_EGRESS_FILE_TROUBLE:
        ngx_egress_secret_trouble(secret, log);
        break;

    case NGX_EGRESS_FILE_DENIED:
        vault->troubled = 0;
        ngx_egress_secret_state(secret, NGX_EGRESS_VAULT_UNREADABLE, log);
        ngx_egress_secret_note(vault, fi);
        break;

    default: /* empty, or NGX_EGRESS_FILE_BAD */

        /* somebody may be just writing it: truncate, then write */

        if (!ngx_egress_file_settled(fi)) {
            if (vault->troubled == 0) {
                vault->troubled = ngx_current_msec ? ngx_current_msec : 1;
            }

            if (vault->state == NGX_EGRESS_VAULT_UNKNOWN && n == 0) {
                vault->state = NGX_EGRESS_VAULT_MISSING;
            }

            break;
        }

        vault->troubled = 0;
        ngx_egress_secret_state(secret, n == 0 ? NGX_EGRESS_VAULT_MISSING
                                               : NGX_EGRESS_VAULT_UNREADABLE,
                                log);
        ngx_egress_secret_note(vault, fi);
    }
}


/* EIO, EMFILE: the last value holds for a while, then nothing does */

static void
ngx_egress_secret_trouble(ngx_egress_secret_t *secret, ngx_log_t *log)
{
    ngx_egress_vault_t  *vault;

    vault = secret->vault;

    if (vault->troubled == 0) {
        vault->troubled = ngx_current_msec ? ngx_current_msec : 1;
        return;
    }

    if (ngx_current_msec - vault->troubled >= NGX_EGRESS_FILE_GRACE) {
        ngx_egress_secret_state(secret, NGX_EGRESS_VAULT_UNREADABLE, log);
    }
}


static void
ngx_egress_secret_state(ngx_egress_secret_t *secret, ngx_uint_t state,
    ngx_log_t *log)
{
    ngx_uint_t           known;
    ngx_egress_vault_t  *vault;

    vault = secret->vault;
    known = (vault->state != NGX_EGRESS_VAULT_UNKNOWN);

    if (state != NGX_EGRESS_VAULT_VALID) {

        /* as a former one, it is to be remembered for as long as can be */

        ngx_egress_tripwire_add(secret->conf, vault->data, vault->len, log);

        ngx_explicit_memzero(vault->data, vault->len);
        vault->len = 0;

        /* without the value, even the same file is to be read again */
        vault->uniq = 0;
        vault->file_size = -1;
    }

    if (vault->state == state) {
        return;
    }

    vault->state = state;

    switch (state) {

    case NGX_EGRESS_VAULT_VALID:
        if (known) {
            ngx_log_error(NGX_LOG_NOTICE, log, 0,
                          "secret \"%V\" is there again", &secret->path);
        }

        break;

    case NGX_EGRESS_VAULT_MISSING:
        if (known) {
            ngx_log_error(NGX_LOG_NOTICE, log, 0,
                          "secret \"%V\" has been removed", &secret->path);
        }

        break;

    default: /* NGX_EGRESS_VAULT_UNREADABLE */
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "secret \"%V\" can't be read", &secret->path);
    }
}


static ngx_uint_t
ngx_egress_secret_same(ngx_egress_vault_t *vault, ngx_file_info_t *fi)
{
    return vault->uniq == ngx_file_uniq(fi)
           && vault->dev == fi->st_dev
           && vault->mtime == fi->st_mtim.tv_sec
           && vault->mtime_nsec == fi->st_mtim.tv_nsec
           && vault->file_size == ngx_file_size(fi);
}


static void
ngx_egress_secret_note(ngx_egress_vault_t *vault, ngx_file_info_t *fi)
{
    vault->uniq = ngx_file_uniq(fi);
    vault->dev = fi->st_dev;
    vault->mtime = fi->st_mtim.tv_sec;
    vault->mtime_nsec = fi->st_mtim.tv_nsec;
    vault->ctime = fi->st_ctim.tv_sec;
    vault->ctime_nsec = fi->st_ctim.tv_nsec;
    vault->file_size = ngx_file_size(fi);
}


static ngx_int_t
ngx_egress_secret_set(ngx_egress_secret_t *secret, u_char *data, size_t len,
    ngx_log_t *log)
{
    u_char               digest[SHA256_DIGEST_LENGTH];
    ngx_egress_vault_t  *vault;

    if (ngx_egress_secret_room(secret, len, log) != NGX_OK) {
        return NGX_ERROR;
    }

    vault = secret->vault;

    ngx_egress_tripwire_add(secret->conf, vault->data, vault->len, log);
    ngx_egress_tripwire_add(secret->conf, data, len, log);

    /* pages that were never used are not touched: there may be many secrets */

    ngx_explicit_memzero(vault->data, vault->len);

    ngx_memcpy(vault->data, data, len);
    vault->len = len;
    vault->generation = ngx_egress_secret_next(secret);

    SHA256(data, len, digest);
    ngx_hex_dump(vault->id, digest, sizeof(vault->id) / 2);

    return NGX_OK;
}


ngx_egress_secret_t *
ngx_egress_secret_add(ngx_conf_t *cf, ngx_str_t *path, ngx_uint_t fixed,
    ngx_uint_t insecure)
{
    ngx_int_t             rc;
    ngx_egress_conf_t    *ecf;
    ngx_egress_secret_t  *secret, **secrets;

    ecf = ngx_egress_get_conf(cf->cycle);

    secret = ngx_pcalloc(cf->pool, sizeof(ngx_egress_secret_t));
    if (secret == NULL) {
        return NULL;
    }

    secret->path = *path;
    secret->conf = ecf;
    secret->fixed = fixed;
    secret->insecure = insecure;
    secret->index = ecf->secrets.nelts;

    ngx_queue_init(&secret->lives);

    if (ngx_conf_full_name(cf->cycle, &secret->path, 1) != NGX_OK) {
        return NULL;
    }

    ngx_egress_place(cf, &secret->place);

    rc = ngx_egress_secret_each(cf, secret);

    if (rc == NGX_DECLINED) {
        rc = ngx_egress_secret_load(cf, secret);
    }

    if (rc != NGX_OK) {
        return NULL;
    }

    secrets = ngx_array_push(&ecf->secrets);
    if (secrets == NULL) {
        return NULL;
    }

    *secrets = secret;

    return secret;
}


static ngx_int_t
ngx_egress_secret_load(ngx_conf_t *cf, ngx_egress_secret_t *secret)
{
    u_char           buf[NGX_EGRESS_SECRET_LEN + 3];
    ssize_t          n;
    ngx_file_info_t  fi;

    secret->vault = ngx_egress_vault_create(cf);
    if (secret->vault == NULL) {
        return NGX_ERROR;
    }

    n = ngx_egress_file_read(cf->log, "secret", &secret->path, buf,
                             sizeof(buf), secret->insecure, 1, &fi);

    if (n > 0) {
        (void) ngx_egress_secret_set(secret, buf, n, cf->log);
    }

    ngx_explicit_memzero(buf, sizeof(buf));

    if (n == 0 || n == NGX_EGRESS_FILE_GONE) {

        /* an operator who cut access off must still be able to reload */

        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "secret \"%V\" is %s", &secret->path,
                           n == 0 ? "empty" : "not there");

        secret->vault->state = NGX_EGRESS_VAULT_MISSING;

    } else if (n < 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "could not read the secret \"%V\"", &secret->path);
        return NGX_ERROR;
    }

    if (n >= 0) {
        ngx_egress_secret_note(secret->vault, &fi);
    }

    return NGX_OK;
}


static ngx_egress_vault_t *
ngx_egress_vault_create(ngx_conf_t *cf)
{
    ngx_pool_cleanup_t  *cln;
    ngx_egress_vault_t  *vault;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    vault = ngx_egress_vault_alloc(NGX_EGRESS_SECRET_LEN, cf->log);
    if (vault == NULL) {
        return NULL;
    }

    cln->handler = ngx_egress_vault_cleanup;
    cln->data = vault;

    return vault;
}


ngx_egress_vault_t *
ngx_egress_vault_alloc(size_t len, ngx_log_t *log)
{
    size_t               size;
    ngx_egress_vault_t  *vault;

    size = ngx_align(offsetof(ngx_egress_vault_t, data) + len + 1,
                     ngx_pagesize);

    vault = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANON,
                 -1, 0);

    if (vault == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "mmap() of %uz bytes failed", size);
        return NULL;
    }

    vault->size = size;

    if (madvise(vault, size, MADV_DONTDUMP) == -1) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "madvise(MADV_DONTDUMP) failed");
        ngx_egress_vault_free(vault);
        return NULL;
    }

    /* where there is a limit on locked memory, do as much as it allows */

    (void) mlock2(vault, size, MLOCK_ONFAULT);

    return vault;
}


static void
ngx_egress_vault_cleanup(void *data)
{
    ngx_egress_vault_free(data);
}


void
ngx_egress_vault_free(ngx_egress_vault_t *vault)
{
    size_t  size;

    size = vault->size;

    ngx_explicit_memzero(vault->data, vault->len);

    (void) munmap(vault, size);
}


void
ngx_egress_secret_init_worker(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    ngx_uint_t             i;
    ngx_egress_secret_t  **secrets;

    secrets = ecf->secrets.elts;

    for (i = 0; i < ecf->secrets.nelts; i++) {

        if (secrets[i]->vault == NULL) {
            continue;
        }

        if (mlock2(secrets[i]->vault, secrets[i]->vault->size, MLOCK_ONFAULT)
            == -1)
        {
            ngx_log_error(NGX_LOG_NOTICE, log, ngx_errno,
                          "mlock() failed, secrets may be swapped out; "
                          "raise the limit on locked memory");
            break;
        }
    }
}


ngx_int_t
ngx_egress_secret_check_paths(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    ngx_uint_t             i;
    ngx_core_conf_t       *ccf;
    ngx_egress_secret_t  **secrets;

    /* workers that stay who we are can do what we can */

    if (geteuid() != 0) {
        return NGX_OK;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (ccf->user == 0) {
        return NGX_OK;
    }

    secrets = ecf->secrets.elts;

    for (i = 0; i < ecf->secrets.nelts; i++) {
        if (secrets[i]->fixed) {
            continue;
        }

        if (ngx_egress_secret_check_path(cycle, secrets[i], ccf) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * A worker that may not search a directory can't tell a removed secret from
 * one that it does not see.
 */

static ngx_int_t
ngx_egress_secret_check_path(ngx_cycle_t *cycle, ngx_egress_secret_t *secret,
    ngx_core_conf_t *ccf)
{
    u_char           *p, *path;
    ngx_str_t        *name;
    ngx_file_info_t   fi;

    /* of a secret for each sandbox, what is above the name of the sandbox */

    name = secret->each ? &secret->each->head : &secret->path;

    path = ngx_pnalloc(cycle->pool, name->len + 1);
    if (path == NULL) {
        return NGX_ERROR;
    }

    ngx_cpystrn(path, name->data, name->len + 1);

    for (p = path + name->len; p > path; p--) {

        if (*p != '/') {
            continue;
        }

        *p = '\0';

        if (ngx_file_info(path, &fi) == NGX_FILE_ERROR
            || ngx_egress_secret_searchable(&fi, ccf))
        {
            continue;
        }

        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "directory \"%s\" of secret \"%V\" may not be searched "
                      "by user \"%s\": allow it, or use \"static\" in %V:%ui",
                      path, &secret->path, ccf->username,
                      &secret->place.file, secret->place.line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_egress_secret_searchable(ngx_file_info_t *fi, ngx_core_conf_t *ccf)
{
    int     i, n;
    gid_t   groups[64];

    if (fi->st_uid == ccf->user) {
        return (fi->st_mode & S_IXUSR) != 0;
    }

    if (fi->st_gid == ccf->group) {
        return (fi->st_mode & S_IXGRP) != 0;
    }

    n = sizeof(groups) / sizeof(gid_t);

    if (ccf->username
        && getgrouplist(ccf->username, ccf->group, groups, &n) != -1)
    {
        for (i = 0; i < n; i++) {
            if (fi->st_gid == groups[i]) {
                return (fi->st_mode & S_IXGRP) != 0;
            }
        }
    }

    return (fi->st_mode & S_IXOTH) != 0;
}
