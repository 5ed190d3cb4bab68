
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_egress.h>

#if (NGX_LINUX)
#include <sys/inotify.h>
#include <sys/vfs.h>
#endif


#if (NGX_LINUX)

/* a new name is of no sandbox that is known */
#define NGX_EGRESS_WATCH_EVENTS  (IN_MODIFY|IN_CLOSE_WRITE|IN_ATTRIB           \
                                  |IN_DELETE|IN_MOVED_FROM|IN_MOVED_TO         \
                                  |IN_DELETE_SELF|IN_MOVE_SELF|IN_ONLYDIR)

#define NGX_EGRESS_WATCH_BUFFER  16384

/* a directory that can't be watched may be one that can, later */
#define NGX_EGRESS_WATCH_AGAIN   1000   /* ms */


static void ngx_egress_watch_handler(ngx_event_t *ev);
static void ngx_egress_watch_wait(ngx_event_t *ev, ngx_err_t err);
static void ngx_egress_watch_event(ngx_egress_conf_t *ecf,
    struct inotify_event *event, ngx_log_t *log);
static void ngx_egress_watch_file(ngx_egress_conf_t *ecf, const char *name);
static void ngx_egress_watch_again(ngx_egress_conf_t *ecf, ngx_log_t *log);
static ngx_uint_t ngx_egress_watch_same(ngx_egress_conf_t *ecf);
static void ngx_egress_watch_add(ngx_egress_conf_t *ecf, ngx_log_t *log);
static ngx_uint_t ngx_egress_watch_told(ngx_str_t *path);

#endif


void
ngx_egress_watch_check(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
#if (NGX_LINUX)

    ngx_msec_t               interval;
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    interval = ecf->secret_check;

    /* with "secret_check 0" each file is looked at anyway */

    if (all->wd == -1 || interval == 0) {
        interval = ngx_max(interval, NGX_EGRESS_WATCH_AGAIN);
    }

    if (all->watch == NULL || ngx_current_msec - all->watched < interval) {
        return;
    }

    all->watched = ngx_current_msec;

    if (all->wd == -1 || !ngx_egress_watch_same(ecf)) {
        ngx_egress_watch_again(ecf, log);
    }

#endif
}


#if (NGX_LINUX)

static void
ngx_egress_watch_handler(ngx_event_t *ev)
{
    char                   *p;
    ssize_t                 n;
    ngx_connection_t       *c;
    struct inotify_event   *event;

    static union {
        struct inotify_event  event;
        char                  buf[NGX_EGRESS_WATCH_BUFFER];
    } events;

    c = ev->data;

    n = read(c->fd, events.buf, NGX_EGRESS_WATCH_BUFFER);

    if (n == -1) {
        ngx_egress_watch_wait(ev, ngx_errno);
        return;
    }

    for (p = events.buf;
         n >= (ssize_t) sizeof(struct inotify_event);
         p += sizeof(struct inotify_event) + event->len)
    {
        event = (struct inotify_event *) p;
        n -= sizeof(struct inotify_event) + event->len;

        ngx_egress_watch_event(c->data, event, ev->log);
    }

    /* there may be more; clients have their turn in between */

    ngx_post_event(ev, &ngx_posted_next_events);
}


static void
ngx_egress_watch_wait(ngx_event_t *ev, ngx_err_t err)
{
    if (err == NGX_EINTR) {
        ngx_post_event(ev, &ngx_posted_next_events);
        return;
    }

    if (err != NGX_EAGAIN) {
        ngx_log_error(NGX_LOG_ALERT, ev->log, err, "read() of inotify failed");
    }

    ev->ready = 0;

    if (ngx_handle_read_event(ev, 0) != NGX_OK) {
        ngx_log_error(NGX_LOG_ALERT, ev->log, 0,
                      "inotify can't be waited for");
    }
}


static void
ngx_egress_watch_event(ngx_egress_conf_t *ecf, struct inotify_event *event,
    ngx_log_t *log)
{
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    if (event->mask & IN_Q_OVERFLOW) {

        /* nobody knows what was lost */

        all->epoch++;
        return;
    }

    if (event->wd != all->wd) {
        return;
    }

    if (event->mask & (IN_IGNORED|IN_DELETE_SELF|IN_MOVE_SELF|IN_UNMOUNT)) {
        ngx_egress_watch_again(ecf, log);
        return;
    }

    if (event->len == 0) {

        /* the directory's own mode or owner */

        all->epoch++;
        return;
    }

    ngx_egress_watch_file(ecf, event->name);
}


/*
 * A file that is replaced may be gone for a moment, so that it is not looked at
 * within this call: the timer does, a few times a second, or the next request.
 */

static void
ngx_egress_watch_file(ngx_egress_conf_t *ecf, const char *name)
{
    ngx_str_t              id;
    ngx_egress_sandbox_t  *box;

    id.data = (u_char *) name;
    id.len = ngx_strlen(name);

    if (id.len < sizeof(".json")
        || ngx_strcmp(name + id.len - (sizeof(".json") - 1), ".json") != 0)
    {
        return;
    }

    id.len -= sizeof(".json") - 1;

    box = ngx_egress_sandbox_lookup(ecf, &id);

    if (box) {
        box->epoch = ecf->boxes->epoch - 1;
    }
}


/* from here on, whatever was known counts as not looked at */

static void
ngx_egress_watch_again(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    int                      wd;
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    wd = all->wd;

    if (wd != -1) {
        (void) inotify_rm_watch(all->watch->fd, wd);
        all->wd = -1;
    }

    ngx_egress_watch_add(ecf, log);

    if (all->wd != wd) {
        all->epoch++;
    }
}


/* a change of any folder above makes the path one of another directory */

static ngx_uint_t
ngx_egress_watch_same(ngx_egress_conf_t *ecf)
{
    ngx_file_info_t   fi;
    ngx_file_info_t  *known;

    known = &ecf->boxes->directory;

    return ngx_file_info(ecf->sandboxes.data, &fi) != NGX_FILE_ERROR
           && ngx_file_uniq(&fi) == ngx_file_uniq(known)
           && fi.st_dev == known->st_dev;
}


static void
ngx_egress_watch_add(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    if (!ngx_egress_watch_told(&ecf->sandboxes)
        || ngx_file_info(ecf->sandboxes.data, &all->directory)
           == NGX_FILE_ERROR)
    {
        return;
    }

    all->wd = inotify_add_watch(all->watch->fd,
                                (const char *) ecf->sandboxes.data,
                                NGX_EGRESS_WATCH_EVENTS);

    if (all->wd == -1) {

        if (!all->unwatched) {
            ngx_log_error(NGX_LOG_NOTICE, log, ngx_errno,
                          "inotify_add_watch(\"%V\") failed",
                          &ecf->sandboxes);
        }

        all->unwatched = 1;
        return;
    }

    all->unwatched = 0;

    if (!ngx_egress_watch_same(ecf)) {

        /* exchanged just now: which one is watched is not known */

        (void) inotify_rm_watch(all->watch->fd, all->wd);
        all->wd = -1;
    }
}


/*
 * A file system that others than this kernel write to does not tell what they
 * do: network, FUSE, the shared folders of virtual machines.
 */

static ngx_uint_t
ngx_egress_watch_told(ngx_str_t *path)
{
    ngx_uint_t     i;
    struct statfs  fs;

    static uint32_t  types[] = {
        0xef53,         /* ext2, ext3, ext4 */
        0x58465342,     /* xfs */
        0x9123683e,     /* btrfs */
        0xf2f52010,     /* f2fs */
        0x2fc12fc1,     /* zfs */
        0x01021994,     /* tmpfs */
        0x794c7630,     /* overlayfs */
        0
    };

    if (statfs((const char *) path->data, &fs) == -1) {
        return 0;
    }

    for (i = 0; types[i]; i++) {
        if ((uint32_t) fs.f_type == types[i]) {
            return 1;
        }
    }

    return 0;
}

#endif


void
ngx_egress_watch_init(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    ngx_egress_sandboxes_t  *all;

    all = ecf->boxes;

    all->wd = -1;
    all->epoch = 1;

#if (NGX_LINUX)
    {
    int                fd;
    ngx_connection_t  *c;

    if (ngx_process != NGX_PROCESS_WORKER) {

        /* a cycle of "master_process off" is kept while this is open */

        return;
    }

    fd = inotify_init1(IN_NONBLOCK|IN_CLOEXEC);

    if (fd == -1) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, ngx_errno,
                      "inotify_init1() failed, files of sandboxes are looked "
                      "at instead");
        return;
    }

    c = ngx_get_connection(fd, cycle->log);

    if (c == NULL) {
        (void) close(fd);
        return;
    }

    c->data = ecf;
    c->read->log = cycle->log;
    c->write->log = cycle->log;
    c->read->handler = ngx_egress_watch_handler;

    /* nobody's connection, as that to the master: not to be closed */

    c->read->channel = 1;
    c->write->channel = 1;

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_free_connection(c);
        (void) close(fd);
        return;
    }

    all->watch = c;
    all->watched = ngx_current_msec;

    ngx_egress_watch_add(ecf, cycle->log);

    if (all->wd == -1) {
        ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                      "changes of sandboxes are looked for");

    } else {
        ngx_log_error(NGX_LOG_INFO, cycle->log, 0,
                      "changes of sandboxes are told by the kernel");
    }
    }
#endif
}
