
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <openssl/sha.h>
#include <sys/mman.h>


#define NGX_EGRESS_SECRET_VALID       0
#define NGX_EGRESS_SECRET_MISSING     1
#define NGX_EGRESS_SECRET_UNREADABLE  2

#define NGX_EGRESS_SECRET_SETTLE      200       /* ms */


/*
 * The value and what is known of its file, on pages of its own: locked, left
 * out of cores, and wiped before they are given back.  A worker's changes are
 * its own, since the mapping is private.
 */

struct ngx_egress_vault_s {
    size_t           size;
    ngx_file_uniq_t  uniq;
    dev_t            dev;
    time_t           mtime;
    long             mtime_nsec;
    time_t           ctime;
    long             ctime_nsec;
    off_t            file_size;
    ngx_uint_t       state;
    ngx_msec_t       checked;
    ngx_msec_t       troubled;      /* since when, or 0 */
    size_t           len;
    ngx_uint_t       generation;
    u_char           id[8];
    u_char           data[NGX_EGRESS_SECRET_LEN + 1];
};


static void ngx_egress_secret_look(ngx_egress_secret_t *secret,
    ngx_log_t *log);
static void ngx_egress_secret_touched(ngx_egress_secret_t *secret,
    ngx_file_info_t *fi, ngx_log_t *log);
static void ngx_egress_secret_read(ngx_egress_secret_t *secret,
    ngx_file_info_t *fi, ngx_log_t *log);
static void ngx_egress_secret_trouble(ngx_egress_secret_t *secret,
    ngx_log_t *log);
static void ngx_egress_secret_state(ngx_egress_secret_t *secret,
    ngx_uint_t state, ngx_log_t *log);
static ngx_uint_t ngx_egress_secret_same(ngx_egress_vault_t *vault,
    ngx_file_info_t *fi);
static void ngx_egress_secret_note(ngx_egress_vault_t *vault,
    ngx_file_info_t *fi);
static void ngx_egress_secret_set(ngx_egress_vault_t *vault, u_char *data,
    size_t len);

static const char *ngx_egress_file_check(ngx_file_info_t *fi,
    ngx_uint_t insecure);
static const char *ngx_egress_file_line(u_char *buf, size_t *len);

static ngx_egress_vault_t *ngx_egress_vault_create(ngx_conf_t *cf);
static void ngx_egress_vault_cleanup(void *data);
static ngx_int_t ngx_egress_secret_check_path(ngx_cycle_t *cycle,
    ngx_egress_secret_t *secret, ngx_core_conf_t *ccf);
static ngx_uint_t ngx_egress_secret_searchable(ngx_file_info_t *fi,
    ngx_core_conf_t *ccf);


ngx_int_t
ngx_egress_secret_get(ngx_egress_conf_t *ecf, ngx_egress_secret_t *secret,
    ngx_str_t *value, ngx_str_t *id, ngx_log_t *log)
{
    ngx_egress_vault_t  *vault;

    vault = secret->vault;

    if (!secret->fixed
        && ngx_current_msec - vault->checked
           >= (vault->troubled ? ngx_min(ecf->secret_check,
                                         NGX_EGRESS_FILE_AGAIN)
                               : ecf->secret_check))
    {
        vault->checked = ngx_current_msec;
        ngx_egress_secret_look(secret, log);
    }

    switch (vault->state) {

    case NGX_EGRESS_SECRET_VALID:
        break;

    case NGX_EGRESS_SECRET_MISSING:
        return NGX_DECLINED;

    default: /* NGX_EGRESS_SECRET_UNREADABLE */
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
ngx_egress_secret_generation(ngx_egress_secret_t *secret)
{
    return secret->vault->generation;
}


time_t
ngx_egress_secret_age(ngx_egress_secret_t *secret)
{
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
            ngx_egress_secret_state(secret, NGX_EGRESS_SECRET_MISSING, log);
            return;

        case NGX_EGRESS_FILE_DENIED:
            ngx_egress_secret_state(secret, NGX_EGRESS_SECRET_UNREADABLE,
                                    log);
            return;

        default: /* NGX_EGRESS_FILE_TROUBLE */
            ngx_egress_secret_trouble(secret, log);
            return;
        }
    }

    if (vault->state == NGX_EGRESS_SECRET_VALID && vault->troubled == 0
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

    if (vault->state == NGX_EGRESS_SECRET_UNREADABLE && vault->troubled == 0
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
    u_char               buf[NGX_EGRESS_SECRET_LEN + 3];
    ssize_t              n;
    ngx_file_info_t      opened;
    ngx_egress_vault_t  *vault;

    vault = secret->vault;

    ngx_memzero(&opened, sizeof(ngx_file_info_t));

    n = ngx_egress_file_read(log, "secret", &secret->path, buf, sizeof(buf),
                             secret->insecure, 1, &opened);

    if (n > 0) {
        ngx_egress_secret_set(vault, buf, n);
        ngx_egress_secret_note(vault, &opened);
        vault->troubled = 0;
        ngx_egress_secret_state(secret, NGX_EGRESS_SECRET_VALID, log);
        goto done;
    }

    switch (n) {

    case NGX_EGRESS_FILE_GONE:
        vault->troubled = 0;
        ngx_egress_secret_state(secret, NGX_EGRESS_SECRET_MISSING, log);
        break;

    case NGX_EGRESS_FILE_TROUBLE:
        ngx_egress_secret_trouble(secret, log);
        break;

    case NGX_EGRESS_FILE_DENIED:
        vault->troubled = 0;
        ngx_egress_secret_state(secret, NGX_EGRESS_SECRET_UNREADABLE, log);
        ngx_egress_secret_note(vault, fi);
        break;

    default: /* empty, or NGX_EGRESS_FILE_BAD */

        /* somebody may be just writing it: truncate, then write */

        if (!ngx_egress_file_settled(fi)) {
            if (vault->troubled == 0) {
                vault->troubled = ngx_current_msec ? ngx_current_msec : 1;
            }

            break;
        }

        vault->troubled = 0;
        ngx_egress_secret_state(secret, n == 0 ? NGX_EGRESS_SECRET_MISSING
                                               : NGX_EGRESS_SECRET_UNREADABLE,
                                log);
        ngx_egress_secret_note(vault, fi);
    }

done:

    ngx_explicit_memzero(buf, sizeof(buf));
}


ngx_uint_t
ngx_egress_file_settled(ngx_file_info_t *fi)
{
    int64_t          age;
    struct timespec  now;

    if (clock_gettime(CLOCK_REALTIME, &now) == -1) {
        return 1;
    }

    age = (int64_t) (now.tv_sec - fi->st_mtim.tv_sec) * 1000
          + (now.tv_nsec - fi->st_mtim.tv_nsec) / 1000000;

    /* a time stamp in the future tells nothing */

    return age < 0 || age >= NGX_EGRESS_SECRET_SETTLE;
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
        ngx_egress_secret_state(secret, NGX_EGRESS_SECRET_UNREADABLE, log);
    }
}


static void
ngx_egress_secret_state(ngx_egress_secret_t *secret, ngx_uint_t state,
    ngx_log_t *log)
{
    ngx_egress_vault_t  *vault;

    vault = secret->vault;

    if (state != NGX_EGRESS_SECRET_VALID) {
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

    case NGX_EGRESS_SECRET_VALID:
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "secret \"%V\" is there again", &secret->path);
        break;

    case NGX_EGRESS_SECRET_MISSING:
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "secret \"%V\" has been removed", &secret->path);
        break;

    default: /* NGX_EGRESS_SECRET_UNREADABLE */
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


static void
ngx_egress_secret_set(ngx_egress_vault_t *vault, u_char *data, size_t len)
{
    u_char  digest[SHA256_DIGEST_LENGTH];

    /* pages that were never used are not touched: there may be many secrets */

    ngx_explicit_memzero(vault->data, vault->len);

    ngx_memcpy(vault->data, data, len);
    vault->len = len;
    vault->generation++;

    SHA256(data, len, digest);
    ngx_hex_dump(vault->id, digest, sizeof(vault->id) / 2);
}


ssize_t
ngx_egress_file_read(ngx_log_t *log, const char *who, ngx_str_t *path,
    u_char *buf, size_t size, ngx_uint_t insecure, ngx_uint_t text,
    ngx_file_info_t *fi)
{
    size_t           len;
    ssize_t          n;
    ngx_fd_t         fd;
    ngx_err_t        err;
    const char      *why;
    ngx_file_info_t  after;

    /* a FIFO or a device must not block the event loop */

    fd = open((const char *) path->data,
              O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_NOCTTY);

    if (fd == NGX_INVALID_FILE) {
        err = ngx_errno;
        ngx_log_error(NGX_LOG_ERR, log, err, "%s \"%V\": open() failed",
                      who, path);
        return ngx_egress_file_error(err);
    }

    if (ngx_fd_info(fd, fi) == NGX_FILE_ERROR) {
        n = NGX_EGRESS_FILE_TROUBLE;
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "%s \"%V\": fstat() failed", who, path);
        goto done;
    }

    n = NGX_EGRESS_FILE_BAD;

    why = ngx_egress_file_check(fi, insecure);

    if (why == NULL && ngx_file_size(fi) > (off_t) (size - 3)) {
        why = "is too large";
    }

    if (why) {
        goto bad;
    }

    for (len = 0; len < size; len += n) {

        n = read(fd, buf + len, size - len);

        if (n == -1) {
            n = NGX_EGRESS_FILE_TROUBLE;
            ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                          "%s \"%V\": read() failed", who, path);
            goto done;
        }

        if (n == 0) {
            break;
        }
    }

    n = NGX_EGRESS_FILE_BAD;

    if (ngx_fd_info(fd, &after) == NGX_FILE_ERROR
        || ngx_file_size(&after) != (off_t) len
        || after.st_mtim.tv_nsec != fi->st_mtim.tv_nsec
        || after.st_mtim.tv_sec != fi->st_mtim.tv_sec)
    {
        why = "changed while it was read";
        goto bad;
    }

    if (text) {
        why = ngx_egress_file_line(buf, &len);
    }

    if (why == NULL) {
        n = len;
        goto done;
    }

bad:

    ngx_log_error(NGX_LOG_ERR, log, 0, "%s \"%V\" %s", who, path, why);

done:

    if (n < 0) {
        ngx_explicit_memzero(buf, size);
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      ngx_close_file_n " \"%V\" failed", path);
    }

    return n;
}


static const char *
ngx_egress_file_check(ngx_file_info_t *fi, ngx_uint_t insecure)
{
    if (!ngx_is_file(fi)) {
        return "is not a regular file";
    }

    if (insecure) {
        return NULL;
    }

    if (fi->st_mode & S_IWGRP) {
        return "is writable by its group";
    }

    if (fi->st_mode & S_IRWXO) {
        return "is accessible to others";
    }

    return NULL;
}


/* one line: a line end within a header field would make two of it (O-20) */

static const char *
ngx_egress_file_line(u_char *buf, size_t *len)
{
    size_t  i, n;

    n = *len;

    if (n && buf[n - 1] == LF) {
        n--;

        if (n && buf[n - 1] == CR) {
            n--;
        }
    }

    for (i = 0; i < n; i++) {

        if (buf[i] == LF || buf[i] == CR) {
            return "has more than one line";
        }

        if (buf[i] == ' ' || buf[i] == '\t') {
            return "has white space in it";
        }

        if (buf[i] < 0x20 || buf[i] == 0x7f) {
            return "has a control byte in it";
        }
    }

    *len = n;

    return NULL;
}


ngx_int_t
ngx_egress_file_error(ngx_err_t err)
{
    switch (err) {

    case NGX_ENOENT:
    case NGX_ENOTDIR:
    case NGX_ELOOP:
    case NGX_ENAMETOOLONG:
        return NGX_EGRESS_FILE_GONE;

    case NGX_EACCES:
    case NGX_EPERM:
        return NGX_EGRESS_FILE_DENIED;

    case ENXIO:
        return NGX_EGRESS_FILE_BAD;

    default:
        return NGX_EGRESS_FILE_TROUBLE;
    }
}


ngx_egress_secret_t *
ngx_egress_secret_add(ngx_conf_t *cf, ngx_str_t *path, ngx_uint_t fixed,
    ngx_uint_t insecure)
{
    u_char                buf[NGX_EGRESS_SECRET_LEN + 3];
    ssize_t               n;
    ngx_file_info_t       fi;
    ngx_egress_conf_t    *ecf;
    ngx_egress_secret_t  *secret, **secrets;

    ecf = ngx_egress_get_conf(cf->cycle);

    secret = ngx_pcalloc(cf->pool, sizeof(ngx_egress_secret_t));
    if (secret == NULL) {
        return NULL;
    }

    secret->path = *path;
    secret->fixed = fixed;
    secret->insecure = insecure;
    secret->index = ecf->secrets.nelts;

    ngx_queue_init(&secret->lives);

    if (ngx_conf_full_name(cf->cycle, &secret->path, 1) != NGX_OK) {
        return NULL;
    }

    ngx_egress_place(cf, &secret->place);

    secret->vault = ngx_egress_vault_create(cf);
    if (secret->vault == NULL) {
        return NULL;
    }

    n = ngx_egress_file_read(cf->log, "secret", &secret->path, buf,
                             sizeof(buf), insecure, 1, &fi);

    if (n > 0) {
        ngx_egress_secret_set(secret->vault, buf, n);
    }

    ngx_explicit_memzero(buf, sizeof(buf));

    if (n == 0 || n == NGX_EGRESS_FILE_GONE) {

        /* an operator who cut access off must still be able to reload */

        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "secret \"%V\" is %s", &secret->path,
                           n == 0 ? "empty" : "not there");

        secret->vault->state = NGX_EGRESS_SECRET_MISSING;

    } else if (n < 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "could not read the secret \"%V\"", &secret->path);
        return NULL;
    }

    if (n >= 0) {
        ngx_egress_secret_note(secret->vault, &fi);
    }

    secrets = ngx_array_push(&ecf->secrets);
    if (secrets == NULL) {
        return NULL;
    }

    *secrets = secret;

    return secret;
}


static ngx_egress_vault_t *
ngx_egress_vault_create(ngx_conf_t *cf)
{
    size_t               size;
    ngx_pool_cleanup_t  *cln;
    ngx_egress_vault_t  *vault;

    size = ngx_align(sizeof(ngx_egress_vault_t), ngx_pagesize);

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    vault = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANON,
                 -1, 0);

    if (vault == MAP_FAILED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno, "mmap() failed");
        return NULL;
    }

    cln->handler = ngx_egress_vault_cleanup;
    cln->data = vault;

    vault->size = size;

    if (madvise(vault, size, MADV_DONTDUMP) == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "madvise(MADV_DONTDUMP) failed");
        return NULL;
    }

    /* where there is a limit on locked memory, do as much as it allows */

    (void) mlock2(vault, size, MLOCK_ONFAULT);

    return vault;
}


static void
ngx_egress_vault_cleanup(void *data)
{
    ngx_egress_vault_t *vault = data;

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
    ngx_file_info_t   fi;

    path = ngx_pnalloc(cycle->pool, secret->path.len + 1);
    if (path == NULL) {
        return NGX_ERROR;
    }

    ngx_cpystrn(path, secret->path.data, secret->path.len + 1);

    for (p = path + secret->path.len; p > path; p--) {

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
