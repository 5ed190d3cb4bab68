
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


/* for how long a file has to be as it is, so that nobody is writing it */
#define NGX_EGRESS_FILE_SETTLE  200     /* ms */


static ssize_t ngx_egress_file_whole(ngx_fd_t fd, u_char *buf, size_t size,
    ngx_uint_t insecure, ngx_file_info_t *fi, const char **why);
static ssize_t ngx_egress_file_line(u_char *buf, size_t len,
    const char **why);


ssize_t
ngx_egress_file_read(ngx_log_t *log, const char *who, ngx_str_t *path,
    u_char *buf, size_t size, ngx_uint_t insecure, ngx_uint_t text,
    ngx_file_info_t *fi)
{
    ssize_t      n;
    ngx_fd_t     fd;
    ngx_err_t    err;
    const char  *why;

    /* a FIFO or a device must not block the event loop */

    fd = open((const char *) path->data,
              O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_NOCTTY);

    if (fd == NGX_INVALID_FILE) {
        err = ngx_errno;
        ngx_log_error(NGX_LOG_ERR, log, err, "%s \"%V\": open() failed",
                      who, path);
        return ngx_egress_file_error(err);
    }

    n = ngx_egress_file_whole(fd, buf, size, insecure, fi, &why);

    if (n == NGX_EGRESS_FILE_TROUBLE) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno, "%s \"%V\": %s failed",
                      who, path, why);
    }

    if (n >= 0 && text) {
        n = ngx_egress_file_line(buf, n, &why);
    }

    if (n == NGX_EGRESS_FILE_BAD) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "%s \"%V\" %s", who, path, why);
    }

    if (n < 0) {
        ngx_explicit_memzero(buf, size);
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      ngx_close_file_n " \"%V\" failed", path);
    }

    return n;
}


/* the length, or NGX_EGRESS_FILE_BAD or _TROUBLE and why, or what failed */

static ssize_t
ngx_egress_file_whole(ngx_fd_t fd, u_char *buf, size_t size,
    ngx_uint_t insecure, ngx_file_info_t *fi, const char **why)
{
    size_t           len;
    ssize_t          n;
    ngx_file_info_t  after;

    if (ngx_fd_info(fd, fi) == NGX_FILE_ERROR) {
        *why = "fstat()";
        return NGX_EGRESS_FILE_TROUBLE;
    }

    *why = ngx_egress_file_check(fi, insecure);

    if (*why) {
        return NGX_EGRESS_FILE_BAD;
    }

    if (ngx_file_size(fi) > (off_t) (size - 3)) {
        *why = "is too large";
        return NGX_EGRESS_FILE_BAD;
    }

    for (len = 0; len < size; len += n) {

        n = read(fd, buf + len, size - len);

        if (n == -1) {
            *why = "read()";
            return NGX_EGRESS_FILE_TROUBLE;
        }

        if (n == 0) {
            break;
        }
    }

    if (ngx_fd_info(fd, &after) == NGX_FILE_ERROR
        || ngx_file_size(&after) != (off_t) len
        || after.st_mtim.tv_nsec != fi->st_mtim.tv_nsec
        || after.st_mtim.tv_sec != fi->st_mtim.tv_sec)
    {
        *why = "changed while it was read";
        return NGX_EGRESS_FILE_BAD;
    }

    return len;
}


const char *
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

static ssize_t
ngx_egress_file_line(u_char *buf, size_t len, const char **why)
{
    size_t  i;

    if (len && buf[len - 1] == LF) {
        len--;

        if (len && buf[len - 1] == CR) {
            len--;
        }
    }

    for (i = 0; i < len; i++) {

        if (buf[i] == LF || buf[i] == CR) {
            *why = "has more than one line";
            return NGX_EGRESS_FILE_BAD;
        }

        if (buf[i] == ' ' || buf[i] == '\t') {
            *why = "has white space in it";
            return NGX_EGRESS_FILE_BAD;
        }

        if (buf[i] < 0x20 || buf[i] == 0x7f) {
            *why = "has a control byte in it";
            return NGX_EGRESS_FILE_BAD;
        }
    }

    return len;
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

    return age < 0 || age >= NGX_EGRESS_FILE_SETTLE;
}
