
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * input: length of the secret, from 128 on of two that are halves of it, how
 * the text is split, the secret, and the text: octets, and steps that put
 * spellings, or parts of them, in between
 */


#include "fuzz.h"
#include "ngx_egress_redact.h"


#define FUZZ_REDACT_TEXT   1024
#define FUZZ_REDACT_LEN    48

/* octets of the text that are steps */
#define FUZZ_REDACT_WHOLE  0xff
#define FUZZ_REDACT_START  0xfe
#define FUZZ_REDACT_END    0xfd


/* what ngx_http_egress_redact.c does, buffer by buffer */

typedef struct {
    ngx_egress_redact_t  *redact;
    u_char               *held;
    size_t                nheld;
    ngx_str_t             out;
    ngx_uint_t            found;
    ngx_uint_t            pieces;
} fuzz_redact_stream_t;


static void fuzz_redact_short(ngx_str_t *secret);
static void fuzz_redact_spellings(ngx_egress_redact_t *redact, u_char *mem,
    size_t size);
static void fuzz_redact_text(ngx_egress_redact_t *redact, const uint8_t *data,
    size_t size, ngx_str_t *text);
static ngx_uint_t fuzz_redact_one(ngx_egress_redact_t *redact,
    ngx_str_t *text, ngx_str_t *masked);
static void fuzz_redact_tails(ngx_egress_redact_t *redact, ngx_str_t *text);
static void fuzz_redact_split(ngx_egress_redact_t *redact, ngx_str_t *text,
    ngx_uint_t how, ngx_str_t *once, ngx_uint_t found);
static void fuzz_redact_piece(fuzz_redact_stream_t *s, ngx_str_t *piece,
    ngx_uint_t last);
static void fuzz_redact_joined(fuzz_redact_stream_t *s, ngx_str_t *b,
    ngx_uint_t last);
static void fuzz_redact_out(fuzz_redact_stream_t *s, u_char *data, size_t len);

static size_t fuzz_redact_match(ngx_egress_redact_t *redact, u_char *p,
    size_t len);
static size_t fuzz_redact_tail(ngx_egress_redact_t *redact, u_char *data,
    size_t len);
static ngx_uint_t fuzz_redact_at(ngx_str_t *s, u_char *p, size_t len);
static ngx_uint_t fuzz_redact_overlap(ngx_egress_redact_t *redact,
    ngx_str_t *text);
static void fuzz_redact_gone(ngx_egress_redact_t *redact, ngx_str_t *before,
    ngx_str_t *after);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t                len, room, i;
    u_char               *mem;
    ngx_str_t             secret, secrets[2], text, once;
    ngx_uint_t            how, n, found;
    ngx_egress_redact_t  *redact;

    if (size < 3) {
        return 0;
    }

    len = ngx_min(data[0] % (FUZZ_REDACT_LEN + 1), size - 2);
    how = data[1];
    n = (data[0] & 0x80) ? 2 : 1;

    fuzz_copy(&secret, data + 2, len);

    data += 2 + len;
    size -= 2 + len;

    /* where it has an asterisk, what is masked may look like it */

    for (i = 0; i < len; i++) {
        if (secret.data[i] == '*') {
            secret.data[i] = '+';
        }
    }

    if (len < NGX_EGRESS_REDACT_LEN) {
        fuzz_redact_short(&secret);
        free(secret.data);
        return 0;
    }

    secrets[0].data = secret.data;
    secrets[0].len = len / n;
    secrets[1].data = secret.data + len / n;
    secrets[1].len = len - len / n;

    room = ngx_egress_redact_size(secrets, n);

    mem = fuzz_alloc(room);
    memset(mem, 0xff, room);

    redact = ngx_egress_redact_init(mem, secrets, n);

    if (secrets[n - 1].len < NGX_EGRESS_REDACT_LEN) {
        fuzz_require(redact == NULL);
        free(secret.data);
        free(mem);
        return 0;
    }

    fuzz_require(redact == (void *) mem);
    fuzz_redact_spellings(redact, mem, room);

    /* the value itself is always one of them, but for one that is too short */

    for (i = 0; i < n; i++) {
        fuzz_require(fuzz_redact_match(redact, secrets[i].data,
                                       secrets[i].len)
                     == (secrets[i].len < NGX_EGRESS_REDACT_LEN
                         ? 0 : secrets[i].len));
    }

    free(secret.data);

    fuzz_redact_text(redact, data, size, &text);

    found = fuzz_redact_one(redact, &text, &once);
    fuzz_redact_tails(redact, &text);
    fuzz_redact_split(redact, &text, how, &once, found);

    free(once.data);
    free(text.data);
    free(mem);

    return 0;
}


static void
fuzz_redact_short(ngx_str_t *secret)
{
    u_char  *mem;

    mem = fuzz_alloc(ngx_egress_redact_size(secret, 1));

    fuzz_require(ngx_egress_redact_init(mem, secret, 1) == NULL);

    free(mem);
}


static void
fuzz_redact_spellings(ngx_egress_redact_t *redact, u_char *mem, size_t size)
{
    size_t      min, max;
    ngx_str_t   room, *s;
    ngx_uint_t  i, k;

    room.data = mem;
    room.len = size;

    fuzz_require(redact->n > 0 && redact->n <= 2 * NGX_EGRESS_REDACT_SPELLINGS);

    s = redact->spelling;
    min = s[0].len;
    max = s[0].len;

    for (i = 0; i < redact->n; i++) {
        fuzz_require(fuzz_inside(&s[i], &room));
        fuzz_require(s[i].len >= NGX_EGRESS_REDACT_LEN);
        fuzz_require(redact->first[s[i].data[0]]);

        min = ngx_min(min, s[i].len);
        max = ngx_max(max, s[i].len);

        for (k = 0; k < i; k++) {
            fuzz_require(!fuzz_eq(&s[k], &s[i]));
        }
    }

    fuzz_require(redact->min == min && redact->max == max);
}


static void
fuzz_redact_text(ngx_egress_redact_t *redact, const uint8_t *data, size_t size,
    ngx_str_t *text)
{
    size_t      i, n;
    u_char     *buf, *p;
    ngx_str_t  *s;

    buf = fuzz_alloc(FUZZ_REDACT_TEXT);
    p = buf;

    for (i = 0; i < size; i++) {

        if (data[i] < FUZZ_REDACT_END || i + 2 >= size) {

            if (p == buf + FUZZ_REDACT_TEXT) {
                break;
            }

            *p++ = data[i];
            continue;
        }

        s = &redact->spelling[data[i + 1] % redact->n];
        n = (data[i] == FUZZ_REDACT_WHOLE) ? s->len : data[i + 2] % s->len;

        if (n > (size_t) (buf + FUZZ_REDACT_TEXT - p)) {
            break;
        }

        memcpy(p, data[i] == FUZZ_REDACT_END ? s->data + s->len - n : s->data,
               n);
        p += n;

        i += (data[i] == FUZZ_REDACT_WHOLE) ? 1 : 2;
    }

    fuzz_copy(text, buf, p - buf);
    free(buf);
}


/* the leftmost, and of those the longest */

static ngx_uint_t
fuzz_redact_one(ngx_egress_redact_t *redact, ngx_str_t *text,
    ngx_str_t *masked)
{
    size_t      i, n;
    ngx_str_t   naive;
    ngx_uint_t  found, count;

    fuzz_copy(masked, text->data, text->len);
    fuzz_copy(&naive, text->data, text->len);

    found = ngx_egress_redact_scan(redact, masked->data, masked->len);
    count = 0;

    for (i = 0; i < naive.len; /* void */ ) {

        n = fuzz_redact_match(redact, naive.data + i, naive.len - i);

        if (n == 0) {
            i++;
            continue;
        }

        memset(naive.data + i, '*', n);
        i += n;
        count++;
    }

    fuzz_require(found == count);
    fuzz_require(fuzz_eq(masked, &naive));
    fuzz_redact_gone(redact, text, masked);

    /* nothing is left for a second time */

    fuzz_require(ngx_egress_redact_scan(redact, masked->data, masked->len)
                 == 0);
    fuzz_require(fuzz_eq(masked, &naive));

    free(naive.data);

    return found;
}


static void
fuzz_redact_tails(ngx_egress_redact_t *redact, ngx_str_t *text)
{
    size_t     i, step;
    ngx_str_t  part;

    step = text->len / 4 + 1;

    for (i = 0; i <= text->len; i += step) {
        fuzz_copy(&part, text->data, text->len - i);

        fuzz_require(ngx_egress_redact_tail(redact, part.data, part.len)
                     == fuzz_redact_tail(redact, part.data, part.len));

        free(part.data);
    }
}


static void
fuzz_redact_split(ngx_egress_redact_t *redact, ngx_str_t *text, ngx_uint_t how,
    ngx_str_t *once, ngx_uint_t found)
{
    size_t                 i, n, most;
    uint32_t               random;
    ngx_str_t              piece;
    fuzz_redact_stream_t   s;

    s.redact = redact;
    s.held = fuzz_alloc(2 * redact->max);
    s.nheld = 0;
    s.found = 0;
    s.pieces = 0;
    s.out.data = fuzz_alloc(text->len);
    s.out.len = 0;

    /* pieces of one octet, of equal or of different lengths, or only one */

    most = (how & 0x3f) ? (how & 0x3f) : text->len + 1;
    random = how;

    for (i = 0; i < text->len; i += n) {

        random = random * 1103515245 + 12345;
        n = (how & 0x40) ? most : 1 + (random >> 16) % most;
        n = ngx_min(n, text->len - i);

        fuzz_copy(&piece, text->data + i, n);
        fuzz_redact_piece(&s, &piece, (how & 0x80) && i + n == text->len);
        free(piece.data);
    }

    /* the end may come alone, too */

    fuzz_redact_out(&s, s.held, s.nheld);
    free(s.held);

    fuzz_require(s.out.len == text->len);
    fuzz_redact_gone(redact, text, &s.out);

    if (!fuzz_redact_overlap(redact, text)) {
        fuzz_require(fuzz_eq(&s.out, once));
        fuzz_require(s.found == found);
    }

    free(s.out.data);
}


static void
fuzz_redact_piece(fuzz_redact_stream_t *s, ngx_str_t *piece, ngx_uint_t last)
{
    size_t      n, len;
    u_char     *all;
    ngx_str_t   b;

    b = *piece;

    if (s->nheld) {
        fuzz_redact_joined(s, &b, last);
    }

    s->found += ngx_egress_redact_scan(s->redact, b.data, b.len);

    n = (s->nheld || last) ? 0
        : ngx_egress_redact_tail(s->redact, b.data, b.len);

    if (n) {
        memcpy(s->held, b.data + b.len - n, n);
        s->nheld = n;
        b.len -= n;
    }

    fuzz_redact_out(s, b.data, b.len);

    /*
     * what waits is what may be the start of one, and no more than that; not
     * after each of very many pieces
     */

    if (s->pieces++ > 16 && s->pieces % 16) {
        return;
    }

    n = ngx_min(s->out.len, s->redact->max);
    len = n + s->nheld;
    all = fuzz_alloc(len);

    if (n) {
        memcpy(all, s->out.data + s->out.len - n, n);
    }

    if (s->nheld) {
        memcpy(all + n, s->held, s->nheld);
    }

    fuzz_require(s->nheld
                 == (last ? 0 : fuzz_redact_tail(s->redact, all, len)));

    free(all);
}


static void
fuzz_redact_joined(fuzz_redact_stream_t *s, ngx_str_t *b, ngx_uint_t last)
{
    size_t  n, k, tail;

    k = ngx_min(b->len, s->redact->max - 1);

    fuzz_require(s->nheld + k <= 2 * s->redact->max);

    memcpy(s->held + s->nheld, b->data, k);

    n = s->nheld + k;

    s->found += ngx_egress_redact_scan(s->redact, s->held, n);

    memcpy(b->data, s->held + s->nheld, k);

    tail = 0;

    if (k == b->len && !last) {
        tail = ngx_egress_redact_tail(s->redact, s->held, n);
    }

    if (tail <= k) {
        fuzz_redact_out(s, s->held, s->nheld);
        s->nheld = 0;
        return;
    }

    fuzz_redact_out(s, s->held, n - tail);
    memmove(s->held, s->held + n - tail, tail);
    s->nheld = tail;

    b->data += b->len;
    b->len = 0;
}


static void
fuzz_redact_out(fuzz_redact_stream_t *s, u_char *data, size_t len)
{
    if (len) {
        memcpy(s->out.data + s->out.len, data, len);
        s->out.len += len;
    }
}


/* the length of the longest spelling that begins here, or 0 */

static size_t
fuzz_redact_match(ngx_egress_redact_t *redact, u_char *p, size_t len)
{
    size_t      longest;
    ngx_str_t  *s;
    ngx_uint_t  i;

    longest = 0;

    for (i = 0; i < redact->n; i++) {
        s = &redact->spelling[i];

        if (fuzz_redact_at(s, p, len)) {
            longest = ngx_max(longest, s->len);
        }
    }

    return longest;
}


static ngx_uint_t
fuzz_redact_at(ngx_str_t *s, u_char *p, size_t len)
{
    return s->len <= len && p[0] == s->data[0]
           && memcmp(s->data, p, s->len) == 0;
}


/* the longest end of the text that is the start, but no more, of a spelling */

static size_t
fuzz_redact_tail(ngx_egress_redact_t *redact, u_char *data, size_t len)
{
    size_t      n, longest;
    ngx_str_t  *s;
    ngx_uint_t  i;

    longest = 0;

    for (i = 0; i < redact->n; i++) {
        s = &redact->spelling[i];

        for (n = 1; n < s->len && n <= len; n++) {
            if (data[len - n] == s->data[0]
                && memcmp(data + len - n, s->data, n) == 0)
            {
                longest = ngx_max(longest, n);
            }
        }
    }

    return longest;
}


/* whether two spellings in the text have an octet in common */

static ngx_uint_t
fuzz_redact_overlap(ngx_egress_redact_t *redact, ngx_str_t *text)
{
    size_t      i, end;
    ngx_str_t  *s;
    ngx_uint_t  k;

    end = 0;

    for (i = 0; i < text->len; i++) {
        for (k = 0; k < redact->n; k++) {
            s = &redact->spelling[k];

            if (!fuzz_redact_at(s, text->data + i, text->len - i)) {
                continue;
            }

            if (i < end) {
                return 1;
            }

            end = i + s->len;
        }
    }

    return 0;
}


/* no spelling is left, and nothing else has changed */

static void
fuzz_redact_gone(ngx_egress_redact_t *redact, ngx_str_t *before,
    ngx_str_t *after)
{
    size_t      i, k, end;
    ngx_str_t  *s;
    u_char     *covered;

    covered = fuzz_alloc(before->len + 1);
    memset(covered, 0, before->len + 1);

    for (i = 0; i < before->len; i++) {

        fuzz_require(fuzz_redact_match(redact, after->data + i,
                                       after->len - i)
                     == 0);

        end = i;

        for (k = 0; k < redact->n; k++) {
            s = &redact->spelling[k];

            if (fuzz_redact_at(s, before->data + i, before->len - i)) {
                end = ngx_max(end, i + s->len);
            }
        }

        memset(covered + i, 1, end - i);
    }

    for (i = 0; i < before->len; i++) {
        fuzz_require(after->data[i] == before->data[i]
                     || (after->data[i] == '*' && covered[i]));
    }

    free(covered);
}
