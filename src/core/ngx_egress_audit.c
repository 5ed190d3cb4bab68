
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>
#include <ngx_egress_plain.h>

#include <yajl/yajl_gen.h>


/* the longest text value in a record, in octets */
#define NGX_EGRESS_AUDIT_VALUE  1024

#define NGX_EGRESS_AUDIT_LINE   16384

/* how each record begins */
#define NGX_EGRESS_AUDIT_TIME   "{\"time\":\"1970-09-28T12:00:00.000Z\""

/*
 * Most of a record is constant: a name is written at once with all that stands
 * around it, and values of ours are not looked at.
 */

#define ngx_egress_audit_constant(ab, name, value)                            \
    ngx_egress_audit_copy(ab, ",\"" name "\":\"",                             \
                          sizeof(",\"" name "\":\"") - 1, value)

#define ngx_egress_audit_string(ab, name, value)                              \
    ngx_egress_audit_text(ab, ",\"" name "\":\"",                             \
                          sizeof(",\"" name "\":\"") - 1, value)

#define ngx_egress_audit_number(ab, name, value)                              \
    ngx_egress_audit_digits(ab, ",\"" name "\":",                             \
                            sizeof(",\"" name "\":") - 1, value)


/* reused for all records of a process: a record is written at once */

typedef struct {
    yajl_gen                  gen;
    size_t                    len;
    ngx_uint_t                truncated;
    time_t                    sec;
    u_char                    time[sizeof(NGX_EGRESS_AUDIT_TIME)];
    u_char                    text[3 * NGX_EGRESS_AUDIT_VALUE];
    u_char                    lf;           /* in front of line[] */
    u_char                    line[NGX_EGRESS_AUDIT_LINE];
} ngx_egress_audit_buf_t;


static ngx_egress_audit_buf_t *ngx_egress_audit_get_buf(void);
static void ngx_egress_audit_decision(ngx_egress_audit_buf_t *ab,
    ngx_egress_audit_t *rec, ngx_uint_t seq);
static void ngx_egress_audit_completion(ngx_egress_audit_buf_t *ab,
    ngx_egress_audit_t *rec);
static void ngx_egress_audit_time(ngx_egress_audit_buf_t *ab);
static void ngx_egress_audit_print(void *ctx, const char *str, size_t len);
static void ngx_egress_audit_copy(ngx_egress_audit_buf_t *ab,
    const char *name, size_t len, ngx_str_t *value);
static void ngx_egress_audit_text(ngx_egress_audit_buf_t *ab,
    const char *name, size_t len, ngx_str_t *value);
static void ngx_egress_audit_digits(ngx_egress_audit_buf_t *ab,
    const char *name, size_t len, uint64_t value);
static size_t ngx_egress_audit_utf8(ngx_egress_audit_buf_t *ab,
    ngx_str_t *value);

static char *ngx_egress_audit_option(ngx_conf_t *cf, ngx_egress_sink_t *sink,
    ngx_str_t *value);
static ngx_int_t ngx_egress_audit_sink(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_str_t *path, ngx_egress_sink_t *sink);


static ngx_egress_audit_buf_t  *ngx_egress_audit_buf;


ngx_int_t
ngx_egress_audit_write(ngx_egress_conf_t *ecf, ngx_egress_audit_t *rec,
    ngx_log_t *log)
{
    ssize_t             n;
    ngx_int_t           rc;
    ngx_str_t           line, out;
    ngx_uint_t          i, seq;
    ngx_atomic_uint_t   torn;
    ngx_egress_sink_t  *sink;

    if (ecf->sinks.nelts == 0) {
        return NGX_OK;
    }

    seq = ngx_atomic_fetch_add(&ecf->shared->seq, 1) + 1;

    if (ngx_egress_audit_render(ecf, rec, seq, &line) != NGX_OK) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "could not make an audit record");
        return NGX_ERROR;
    }

    line.data[line.len++] = LF;

    rc = NGX_OK;
    sink = ecf->sinks.elts;

    for (i = 0; i < ecf->sinks.nelts; i++) {

        out = line;
        torn = (ngx_atomic_uint_t) 1 << (i % 32);

        if (ecf->shared->torn & torn) {

            /* a part of a record is there: this one has a line of its own */

            out.data--;
            out.len++;
        }

        /* the file is open for appending: one write is one whole line */

        n = ngx_write_fd(sink[i].file->fd, out.data, out.len);

        if (n == (ssize_t) out.len) {
            ecf->shared->torn &= ~torn;
            continue;
        }

        if (n > 0) {
            ecf->shared->torn |= torn;
        }

        ngx_log_error(NGX_LOG_ERR, log, n == -1 ? ngx_errno : 0,
                      "audit record was not written to \"%V\"",
                      &sink[i].file->name);

        if (sink[i].deny) {
            rc = NGX_ERROR;
        }
    }

    return rc;
}


ngx_int_t
ngx_egress_audit_render(ngx_egress_conf_t *ecf, ngx_egress_audit_t *rec,
    ngx_uint_t seq, ngx_str_t *line)
{
    ngx_egress_audit_buf_t  *ab;

    ab = ngx_egress_audit_get_buf();
    if (ab == NULL) {
        return NGX_ERROR;
    }

    ab->len = 0;
    ab->truncated = 0;

    ngx_egress_audit_time(ab);

    ngx_egress_audit_print(ab, (char *) ab->time, sizeof(ab->time) - 1);

    ngx_egress_audit_decision(ab, rec, seq);

    if (rec->completion) {
        ngx_egress_audit_completion(ab, rec);
    }

    if (ab->truncated) {
        ngx_egress_audit_print(ab, ",\"truncated\":true",
                               sizeof(",\"truncated\":true") - 1);
    }

    ngx_egress_audit_print(ab, "}", 1);

    /* room is left for the line end that the caller puts behind it */

    if (ab->len >= sizeof(ab->line)) {
        return NGX_ERROR;
    }

    line->data = ab->line;
    line->len = ab->len;

    return NGX_OK;
}


static ngx_egress_audit_buf_t *
ngx_egress_audit_get_buf(void)
{
    ngx_egress_audit_buf_t  *ab;

    ab = ngx_egress_audit_buf;

    if (ab == NULL) {
        ab = ngx_calloc(sizeof(ngx_egress_audit_buf_t), ngx_cycle->log);
        if (ab == NULL) {
            return NULL;
        }

        ab->lf = LF;
        ngx_egress_audit_buf = ab;
    }

    if (ab->gen == NULL) {
        ab->gen = yajl_gen_alloc(NULL);
        if (ab->gen == NULL) {
            return NULL;
        }

        yajl_gen_config(ab->gen, yajl_gen_print_callback,
                        ngx_egress_audit_print, ab);
    }

    return ab;
}


static void
ngx_egress_audit_decision(ngx_egress_audit_buf_t *ab, ngx_egress_audit_t *rec,
    ngx_uint_t seq)
{
    ngx_egress_audit_constant(ab, "event", &rec->event);
    ngx_egress_audit_constant(ab, "id", &rec->id);

    if (seq) {
        ngx_egress_audit_number(ab, "seq", seq);
    }

    ngx_egress_audit_string(ab, "sandbox", &rec->sandbox);
    ngx_egress_audit_string(ab, "role", &rec->role);
    ngx_egress_audit_constant(ab, "via", &rec->via);
    ngx_egress_audit_string(ab, "client", &rec->client);
    ngx_egress_audit_string(ab, "host", &rec->host);

    if (rec->port) {
        ngx_egress_audit_number(ab, "port", rec->port);
    }

    ngx_egress_audit_string(ab, "sni", &rec->sni);
    ngx_egress_audit_string(ab, "method", &rec->method);
    ngx_egress_audit_string(ab, "path", &rec->path);
    ngx_egress_audit_string(ab, "binding", &rec->binding);
    ngx_egress_audit_constant(ab, "class", &rec->class);
    ngx_egress_audit_string(ab, "operation", &rec->operation);
    ngx_egress_audit_string(ab, "repo", &rec->repo);
    ngx_egress_audit_constant(ab, "decision", &rec->decision);
    ngx_egress_audit_constant(ab, "reason", &rec->reason);
    ngx_egress_audit_string(ab, "rule", &rec->rule);
    ngx_egress_audit_constant(ab, "credential", &rec->credential);
    ngx_egress_audit_constant(ab, "credential_id", &rec->credential_id);

    if (rec->status) {
        ngx_egress_audit_number(ab, "status", rec->status);
    }
}


static void
ngx_egress_audit_completion(ngx_egress_audit_buf_t *ab,
    ngx_egress_audit_t *rec)
{
    if (rec->upstream_status) {
        ngx_egress_audit_number(ab, "upstream_status", rec->upstream_status);
    }

    ngx_egress_audit_string(ab, "upstream_addr", &rec->upstream_addr);
    ngx_egress_audit_number(ab, "bytes_in", rec->bytes_in);
    ngx_egress_audit_number(ab, "bytes_out", rec->bytes_out);
    ngx_egress_audit_number(ab, "duration_ms", rec->duration);

    if (rec->redactions) {
        ngx_egress_audit_number(ab, "redactions", rec->redactions);
    }
}


static void
ngx_egress_audit_time(ngx_egress_audit_buf_t *ab)
{
    u_char      *p;
    ngx_tm_t     tm;
    ngx_uint_t   ms;
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    if (ab->sec != tp->sec) {
        ab->sec = tp->sec;

        ngx_gmtime(tp->sec, &tm);

        ngx_sprintf(ab->time,
                    "{\"time\":\"%4d-%02d-%02dT%02d:%02d:%02d.000Z\"",
                    tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                    tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec);
    }

    ms = tp->msec;
    p = ab->time + sizeof("{\"time\":\"1970-09-28T12:00:00.") - 1;

    *p++ = (u_char) ('0' + ms / 100);
    *p++ = (u_char) ('0' + ms / 10 % 10);
    *p = (u_char) ('0' + ms % 10);
}


static void
ngx_egress_audit_print(void *ctx, const char *str, size_t len)
{
    ngx_egress_audit_buf_t *ab = ctx;

    if (len > sizeof(ab->line) - ab->len) {
        ab->len = sizeof(ab->line);
        return;
    }

    ngx_memcpy(ab->line + ab->len, str, len);
    ab->len += len;
}


static void
ngx_egress_audit_copy(ngx_egress_audit_buf_t *ab, const char *name,
    size_t len, ngx_str_t *value)
{
    u_char  *p;

    if (value->len == 0) {
        return;
    }

    if (len + value->len + 1 > sizeof(ab->line) - ab->len) {
        ab->len = sizeof(ab->line);
        return;
    }

    p = ngx_cpymem(ab->line + ab->len, name, len);
    p = ngx_cpymem(p, value->data, value->len);
    *p++ = '"';

    ab->len = p - ab->line;
}


/* plain text is most of it; whatever else there is goes through yajl */

static void
ngx_egress_audit_text(ngx_egress_audit_buf_t *ab, const char *name,
    size_t len, ngx_str_t *value)
{
    if (value->len == 0) {
        return;
    }

    if (value->len > NGX_EGRESS_AUDIT_VALUE
        || !ngx_egress_plain(value->data, value->len, 0x20, '"', '\\', '"'))
    {
        /* the quotes are yajl's own */

        ngx_egress_audit_print(ab, name, len - 1);

        len = ngx_egress_audit_utf8(ab, value);

        yajl_gen_reset(ab->gen, NULL);
        yajl_gen_string(ab->gen, ab->text, len);

        return;
    }

    ngx_egress_audit_copy(ab, name, len, value);
}


static void
ngx_egress_audit_digits(ngx_egress_audit_buf_t *ab, const char *name,
    size_t len, uint64_t value)
{
    u_char  buf[NGX_INT64_LEN], *p;

    p = buf + sizeof(buf);

    do {
        *--p = (u_char) ('0' + value % 10);
        value /= 10;
    } while (value);

    ngx_egress_audit_print(ab, name, len);
    ngx_egress_audit_print(ab, (char *) p, buf + sizeof(buf) - p);
}


/*
 * Copies a value that a client may have made: cut where it is too long, each
 * octet that is no part of valid UTF-8 (RFC 3629) replaced by U+FFFD.
 */

static size_t
ngx_egress_audit_utf8(ngx_egress_audit_buf_t *ab, ngx_str_t *value)
{
    u_char    *p, *last, *dst, *start;
    uint32_t   ch;

    p = value->data;
    last = p + value->len;

    if (value->len > NGX_EGRESS_AUDIT_VALUE) {
        last = p + NGX_EGRESS_AUDIT_VALUE;
        ab->truncated = 1;
    }

    dst = ab->text;

    while (p < last) {

        if (*p < 0x80) {
            *dst++ = *p++;
            continue;
        }

        start = p;

        ch = ngx_utf8_decode(&p, last - p);

        if (ch <= 0x10ffff && (ch < 0xd800 || ch > 0xdfff)) {
            dst = ngx_cpymem(dst, start, p - start);
            continue;
        }

        p = start + 1;
        dst = ngx_cpymem(dst, "\xef\xbf\xbd", 3);
    }

    return dst - ab->text;
}


void
ngx_egress_audit_id(u_char *id)
{
    static u_char    text[NGX_EGRESS_ID_LEN];
    static ngx_pid_t pid;

    u_char  octets[NGX_EGRESS_ID_LEN / 2], *p;

    /* a worker that was forked must not go on where the master was */

    if (pid != ngx_pid) {
        ngx_memzero(octets, sizeof(octets));

        if (RAND_bytes(octets, 8) != 1) {
            ngx_memcpy(octets, &ngx_pid, sizeof(ngx_pid));
        }

        ngx_hex_dump(text, octets, sizeof(octets));

        pid = ngx_pid;
    }

    /* the second half of it counts, in hexadecimal */

    for (p = text + NGX_EGRESS_ID_LEN - 1; *p == 'f'; p--) {
        *p = '0';
    }

    *p = (*p == '9') ? 'a' : *p + 1;

    ngx_memcpy(id, text, NGX_EGRESS_ID_LEN);
}


char *
ngx_egress_audit_log(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    char               *rv;
    ngx_str_t          *value;
    ngx_uint_t          i;
    ngx_egress_sink_t   sink;

    value = cf->args->elts;

    if (ecf->audit_off
        || (ecf->sinks.nelts && ngx_strcmp(value[1].data, "off") == 0))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"audit_log off\" beside another \"audit_log\"");
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {

        if (cf->args->nelts > 2) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[2]);
            return NGX_CONF_ERROR;
        }

        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "no audit log: nothing will tell what was done "
                           "with the secrets");
        ecf->audit_off = 1;

        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value[1].data, "syslog:", 7) == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid audit log \"%V\": a file is needed",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&sink, sizeof(ngx_egress_sink_t));

    sink.deny = 1;

    for (i = 2; i < cf->args->nelts; i++) {
        rv = ngx_egress_audit_option(cf, &sink, &value[i]);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    if (ngx_egress_audit_sink(cf, ecf, &value[1], &sink) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_egress_audit_option(ngx_conf_t *cf, ngx_egress_sink_t *sink,
    ngx_str_t *value)
{
    if (ngx_strcmp(value->data, "format=native") == 0) {
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value->data, "on_error=deny") == 0) {
        sink->deny = 1;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value->data, "on_error=continue") == 0) {
        sink->deny = 0;
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"", value);

    return NGX_CONF_ERROR;
}


static ngx_int_t
ngx_egress_audit_sink(ngx_conf_t *cf, ngx_egress_conf_t *ecf, ngx_str_t *path,
    ngx_egress_sink_t *sink)
{
    ngx_egress_sink_t  *new;

    /* opened, and reopened on USR1, by nginx with its other logs */

    sink->file = ngx_conf_open_file(cf->cycle, path);
    if (sink->file == NULL) {
        return NGX_ERROR;
    }

    new = ngx_array_push(&ecf->sinks);
    if (new == NULL) {
        return NGX_ERROR;
    }

    *new = *sink;

    return NGX_OK;
}


ngx_int_t
ngx_egress_audit_default(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    ngx_str_t          path;
    ngx_egress_sink_t  sink;

    if (ecf->audit_off || ecf->sinks.nelts) {
        return NGX_OK;
    }

    ngx_memzero(&sink, sizeof(ngx_egress_sink_t));
    sink.deny = 1;

    ngx_str_set(&path, "logs/egress.json");

    return ngx_egress_audit_sink(cf, ecf, &path, &sink);
}
