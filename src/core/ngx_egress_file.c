
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


#define NGX_EGRESS_FILE_SETTLE  200     /* ms */


static const char *ngx_egress_file_line(u_char *buf, size_t *len);


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
