
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * A small TLS load generator on one thread, for loopback only:
 *
 *   tlsload -a 127.0.0.1:PORT -s HOST -A AUTHORIZATION [-c CONNECTIONS]
 *           [-d SECONDS] [-p PATH] [-b BODY] [-i N] [-k]
 *
 * -b sends a JSON body, by POST.
 * -i sends X-Sandbox: box-00000, and so on up to N of them, in turn.
 * -k opens a new connection, with a full handshake, for each request.
 * Prints one line of name=value figures.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define TLSLOAD_SAMPLES  4000000
#define TLSLOAD_ERRORS   2000


typedef enum {
    tl_connecting = 0,
    tl_handshake,
    tl_write,
    tl_read
} tlsload_state_e;


typedef struct {
    int               fd;
    int               events;
    tlsload_state_e   state;
    SSL              *ssl;
    double            start;
    int               sent;
    int               received;
    int               id;
    char              in[65536];
} tlsload_conn_t;


static double tlsload_now(void);
static void tlsload_arm(tlsload_conn_t *c, int events);
static void tlsload_start(tlsload_conn_t *c);
static void tlsload_stop(tlsload_conn_t *c);
static void tlsload_failed(tlsload_conn_t *c, const char *what);
static int tlsload_wait(tlsload_conn_t *c, int n, const char *what);
static int tlsload_complete(tlsload_conn_t *c);
static void tlsload_done(tlsload_conn_t *c);
static void tlsload_step(tlsload_conn_t *c);
static void tlsload_name(tlsload_conn_t *c);
static int tlsload_compare(const void *one, const void *two);
static void tlsload_options(int argc, char **argv);


static struct sockaddr_in   addr;
static SSL_CTX             *ctx;
static char                 request[4096];
static int                  request_len;
static int                  ep, renew, conns = 32, ids, next_id;
static char                *digits;
static double               seconds = 2;
static const char          *host = "localhost", *auth = "none",
                           *path = "/v1/x", *body;
static double              *samples;
static long                 nsamples, handshakes, errors, bad;
static char                 last[200];


int
main(int argc, char **argv)
{
    int                  i, n;
    double               begin, took;
    tlsload_conn_t      *c;
    struct epoll_event   events[256];

    tlsload_options(argc, argv);

    signal(SIGPIPE, SIG_IGN);

    ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE
                          |SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

    samples = malloc(TLSLOAD_SAMPLES * sizeof(double));
    c = calloc(conns, sizeof(tlsload_conn_t));
    ep = epoll_create1(0);

    request_len = snprintf(request, sizeof(request),
                           "%s %s HTTP/1.1\r\nHost: %s\r\n"
                           "User-Agent: tlsload\r\n"
                           "Accept: application/json\r\n"
                           "Authorization: %s\r\n%s%s",
                           body ? "POST" : "GET", path, host, auth,
                           renew ? "Connection: close\r\n" : "",
                           ids ? "X-Sandbox: box-00000\r\n" : "");

    if (body) {
        request_len += snprintf(request + request_len,
                                sizeof(request) - request_len,
                                "Content-Type: application/json\r\n"
                                "Content-Length: %zu\r\n\r\n%s",
                                strlen(body), body);

    } else {
        request_len += snprintf(request + request_len,
                                sizeof(request) - request_len, "\r\n");
    }

    if (request_len >= (int) sizeof(request)) {
        fprintf(stderr, "tlsload: the request is too long\n");
        exit(2);
    }

    if (ids) {
        digits = strstr(request, "box-") + 4;
    }


    begin = tlsload_now();

    for (i = 0; i < conns; i++) {
        tlsload_start(&c[i]);
    }

    while (tlsload_now() - begin < seconds) {
        n = epoll_wait(ep, events, 256, 100);

        for (i = 0; i < n; i++) {
            tlsload_step(events[i].data.ptr);
        }
    }

    took = tlsload_now() - begin;

    qsort(samples, nsamples, sizeof(double), tlsload_compare);

    printf("requests=%ld rps=%.1f p50_ms=%.3f p99_ms=%.3f handshakes=%ld "
           "bad=%ld errors=%ld%s%s\n",
           nsamples, nsamples / took,
           nsamples ? samples[nsamples / 2] * 1e3 : 0,
           nsamples ? samples[nsamples * 99 / 100] * 1e3 : 0,
           handshakes, bad, errors, *last ? " last=" : "", last);

    return 0;
}


static double
tlsload_now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return ts.tv_sec + ts.tv_nsec / 1e9;
}


static void
tlsload_arm(tlsload_conn_t *c, int events)
{
    struct epoll_event  e;

    if (c->events == events) {
        return;
    }

    e.events = events;
    e.data.ptr = c;

    epoll_ctl(ep, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e);
    c->events = events;
}


static void
tlsload_start(tlsload_conn_t *c)
{
    int  one;

    one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    c->events = 0;
    c->ssl = NULL;
    c->state = tl_connecting;
    c->start = tlsload_now();

    (void) connect(c->fd, (struct sockaddr *) &addr, sizeof(addr));

    tlsload_arm(c, EPOLLOUT);
}


static void
tlsload_stop(tlsload_conn_t *c)
{
    struct linger  linger;

    SSL_free(c->ssl);
    c->ssl = NULL;

    /* a reset leaves no pile of TIME_WAIT */

    linger.l_onoff = 1;
    linger.l_linger = 0;

    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(c->fd);
}


static void
tlsload_failed(tlsload_conn_t *c, const char *what)
{
    snprintf(last, sizeof(last), "%s: %s", what,
             ERR_peek_last_error()
             ? ERR_reason_error_string(ERR_peek_last_error())
             : strerror(errno));

    ERR_clear_error();

    if (++errors > TLSLOAD_ERRORS) {
        fprintf(stderr, "too many errors: %s\n", last);
        exit(1);
    }

    tlsload_stop(c);
    tlsload_start(c);
}


static int
tlsload_wait(tlsload_conn_t *c, int n, const char *what)
{
    switch (SSL_get_error(c->ssl, n)) {

    case SSL_ERROR_WANT_READ:
        tlsload_arm(c, EPOLLIN);
        return 0;

    case SSL_ERROR_WANT_WRITE:
        tlsload_arm(c, EPOLLOUT);
        return 0;

    default:
        tlsload_failed(c, what);
        return -1;
    }
}


static int
tlsload_complete(tlsload_conn_t *c)
{
    char  *end, *length;

    c->in[c->received] = '\0';

    end = strstr(c->in, "\r\n\r\n");

    if (end == NULL) {
        return 0;
    }

    length = strcasestr(c->in, "\r\ncontent-length:");

    if (length && length < end) {
        return c->received >= end + 4 - c->in + atol(length + 17);
    }

    return c->received >= 5
           && memcmp(c->in + c->received - 5, "0\r\n\r\n", 5) == 0;
}


static void
tlsload_done(tlsload_conn_t *c)
{
    if (strncmp(c->in + 9, "200", 3) != 0) {
        bad++;
        snprintf(last, sizeof(last), "%.60s", c->in);
    }

    if (nsamples < TLSLOAD_SAMPLES) {
        samples[nsamples++] = tlsload_now() - c->start;
    }

    if (renew || strcasestr(c->in, "\r\nconnection: close")) {
        tlsload_stop(c);
        tlsload_start(c);
        return;
    }

    c->start = tlsload_now();
    c->sent = 0;
    c->received = 0;
    c->state = tl_write;
}


static void
tlsload_step(tlsload_conn_t *c)
{
    int        n, error;
    socklen_t  len;

    if (c->state == tl_connecting) {

        error = 0;
        len = sizeof(error);
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);

        if (error) {
            errno = error;
            tlsload_failed(c, "connect");
            return;
        }

        c->ssl = SSL_new(ctx);
        SSL_set_fd(c->ssl, c->fd);
        SSL_set_tlsext_host_name(c->ssl, host);
        SSL_set_connect_state(c->ssl);
        c->state = tl_handshake;
    }

    if (c->state == tl_handshake) {

        n = SSL_do_handshake(c->ssl);

        if (n != 1) {
            tlsload_wait(c, n, "handshake");
            return;
        }

        handshakes++;

        if (!renew) {
            c->start = tlsload_now();
        }

        c->sent = 0;
        c->received = 0;
        c->state = tl_write;
    }

    for ( ;; ) {

        if (c->state == tl_write) {

            if (ids) {
                tlsload_name(c);
            }

            n = SSL_write(c->ssl, request + c->sent, request_len - c->sent);

            if (n <= 0) {
                tlsload_wait(c, n, "write");
                return;
            }

            c->sent += n;

            if (c->sent < request_len) {
                continue;
            }

            c->state = tl_read;
            tlsload_arm(c, EPOLLIN);
        }

        n = SSL_read(c->ssl, c->in + c->received,
                     (int) sizeof(c->in) - 1 - c->received);

        if (n <= 0) {
            tlsload_wait(c, n, "read");
            return;
        }

        c->received += n;

        if (tlsload_complete(c)) {
            tlsload_done(c);

            if (c->state != tl_write) {
                return;
            }
        }
    }
}


/* whose request it is; what goes on with a write has to be the same */

static void
tlsload_name(tlsload_conn_t *c)
{
    int  i, n;

    if (c->sent == 0) {
        c->id = next_id;
        next_id = (next_id + 1) % ids;
    }

    for (i = 4, n = c->id; i >= 0; i--) {
        digits[i] = '0' + n % 10;
        n /= 10;
    }
}


static int
tlsload_compare(const void *one, const void *two)
{
    double  a, b;

    a = *(const double *) one;
    b = *(const double *) two;

    return (a > b) - (a < b);
}


static void
tlsload_options(int argc, char **argv)
{
    int    o;
    char  *port;

    while ((o = getopt(argc, argv, "a:c:d:s:A:p:b:i:k")) != -1) {

        switch (o) {

        case 'a':
            port = strchr(optarg, ':');

            if (port) {
                *port++ = '\0';
                addr.sin_family = AF_INET;
                addr.sin_port = htons(atoi(port));
                inet_pton(AF_INET, optarg, &addr.sin_addr);
            }

            break;

        case 'c':
            conns = atoi(optarg);
            break;

        case 'd':
            seconds = atof(optarg);
            break;

        case 's':
            host = optarg;
            break;

        case 'A':
            auth = optarg;
            break;

        case 'p':
            path = optarg;
            break;

        case 'b':
            body = optarg;
            break;

        case 'i':
            ids = atoi(optarg);
            break;

        case 'k':
            renew = 1;
            break;

        default:
            exit(2);
        }
    }

    if ((ntohl(addr.sin_addr.s_addr) >> 24) != 127) {
        fprintf(stderr, "tlsload: loopback addresses only\n");
        exit(2);
    }
}
