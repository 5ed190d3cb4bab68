
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <sys/mman.h>


/* the secret of one sandbox, as a worker knows it */

typedef struct {
    ngx_egress_secret_t       secret;       /* first */
    ngx_str_node_t            sn;           /* the sandbox, among "boxes" */
    ngx_rbtree_t             *boxes;
    ngx_queue_t               queue;        /* latest first */
    ngx_uint_t                large;        /* unsigned  large:1; */
    u_char                    text[1];      /* the sandbox, and the path */
} ngx_egress_secret_box_t;


typedef struct {
    ngx_queue_t               queue;        /* ngx_egress_secret_box_t */
    ngx_uint_t                n;
    ngx_uint_t                max;
} ngx_egress_shelf_t;


struct ngx_egress_shelves_s {
    ngx_egress_shelf_t        shelf[2];     /* small and large values */
    u_char                   *cells;        /* locked memory of small ones */
    ngx_uint_t                fresh;        /* the first one never used */
    void                     *free;         /* a list, by their first octets */
    ngx_uint_t                generation;
};


static ngx_uint_t ngx_egress_secret_segment(ngx_str_t *sandbox);
static ngx_egress_secret_box_t *ngx_egress_secret_box(
    ngx_egress_secret_t *secret, ngx_str_t *sandbox, uint32_t hash);
static ngx_int_t ngx_egress_shelf_trim(ngx_egress_shelves_t *shelves,
    ngx_uint_t large);
static void ngx_egress_secret_box_free(ngx_egress_shelves_t *shelves,
    ngx_egress_secret_box_t *box);
static ngx_egress_vault_t *ngx_egress_cell_alloc(
    ngx_egress_shelves_t *shelves);
static void ngx_egress_cell_free(ngx_egress_shelves_t *shelves,
    ngx_egress_vault_t *vault);
static void ngx_egress_shelves_cleanup(void *data);

static ngx_int_t ngx_egress_secret_directory(ngx_conf_t *cf,
    ngx_egress_secret_t *secret, ngx_str_t *head);
static size_t ngx_egress_secret_variable(u_char *p, u_char *last);


ngx_int_t
ngx_egress_secret_of(ngx_egress_secret_t **secret, ngx_str_t *sandbox,
    ngx_log_t *log)
{
    uint32_t                   hash;
    ngx_str_node_t            *sn;
    ngx_egress_shelf_t        *shelf;
    ngx_egress_shelves_t      *shelves;
    ngx_egress_secret_box_t   *box;
    ngx_egress_secret_each_t  *each;

    each = (*secret)->each;

    if (each == NULL) {
        return NGX_OK;
    }

    if (!ngx_egress_secret_segment(sandbox)) {
        return NGX_DECLINED;
    }

    shelves = (*secret)->conf->shelves;

    if (shelves == NULL) {
        return NGX_ERROR;
    }

    hash = ngx_crc32_short(sandbox->data, sandbox->len);

    sn = ngx_str_rbtree_lookup(&each->boxes, sandbox, hash);

    if (sn) {
        box = (ngx_egress_secret_box_t *)
                       ((u_char *) sn - offsetof(ngx_egress_secret_box_t, sn));

        shelf = &shelves->shelf[box->large];

        if (ngx_queue_head(&shelf->queue) != &box->queue) {
            ngx_queue_remove(&box->queue);
            ngx_queue_insert_head(&shelf->queue, &box->queue);
        }

    } else {
        box = ngx_egress_secret_box(*secret, sandbox, hash);

        if (box == NULL) {
            ngx_log_error(NGX_LOG_ERR, log, 0,
                          "no room for the secret of sandbox \"%V\"",
                          sandbox);
            return NGX_ERROR;
        }
    }

    *secret = &box->secret;

    return NGX_OK;
}


/*
 * Names of sandboxes are made of safe characters only.  Looked at once more,
 * where one becomes a part of a path: nothing may lead out of the directory.
 */

static ngx_uint_t
ngx_egress_secret_segment(ngx_str_t *sandbox)
{
    size_t  i;

    if (sandbox == NULL || sandbox->len == 0
        || sandbox->len > NGX_EGRESS_SANDBOX_ID_LEN || sandbox->data[0] == '.')
    {
        return 0;
    }

    for (i = 0; i < sandbox->len; i++) {
        if (sandbox->data[i] == '/' || sandbox->data[i] <= 0x20
            || sandbox->data[i] >= 0x7f)
        {
            return 0;
        }
    }

    return 1;
}


static ngx_egress_secret_box_t *
ngx_egress_secret_box(ngx_egress_secret_t *secret, ngx_str_t *sandbox,
    uint32_t hash)
{
    u_char                    *p;
    size_t                     len;
    ngx_egress_shelves_t      *shelves;
    ngx_egress_secret_box_t   *box;
    ngx_egress_secret_each_t  *each;

    each = secret->each;
    shelves = secret->conf->shelves;

    if (ngx_egress_shelf_trim(shelves, 0) != NGX_OK) {
        return NULL;
    }

    len = each->head.len + sandbox->len + each->tail.len;

    box = ngx_alloc(sizeof(ngx_egress_secret_box_t) + sandbox->len + len + 1,
                    ngx_cycle->log);
    if (box == NULL) {
        return NULL;
    }

    ngx_memzero(box, sizeof(ngx_egress_secret_box_t));

    p = ngx_cpymem(box->text, sandbox->data, sandbox->len);

    box->sn.str.data = box->text;
    box->sn.str.len = sandbox->len;
    box->sn.node.key = hash;
    box->boxes = &each->boxes;

    box->secret.path.data = p;
    box->secret.path.len = len;

    p = ngx_cpymem(p, each->head.data, each->head.len);
    p = ngx_cpymem(p, sandbox->data, sandbox->len);
    p = ngx_cpymem(p, each->tail.data, each->tail.len);
    *p = '\0';

    box->secret.conf = secret->conf;
    box->secret.index = secret->index;
    box->secret.place = secret->place;
    box->secret.insecure = secret->insecure;

    ngx_queue_init(&box->secret.lives);

    box->secret.vault = ngx_egress_cell_alloc(shelves);

    box->secret.vault->state = NGX_EGRESS_VAULT_UNKNOWN;
    box->secret.vault->generation = ++shelves->generation;

    ngx_rbtree_insert(&each->boxes, &box->sn.node);

    ngx_queue_insert_head(&shelves->shelf[0].queue, &box->queue);
    shelves->shelf[0].n++;

    return box;
}


/*
 * Makes room for one more: of those that no request carries now, what nobody
 * has used for longest goes.
 */

static ngx_int_t
ngx_egress_shelf_trim(ngx_egress_shelves_t *shelves, ngx_uint_t large)
{
    ngx_queue_t              *q;
    ngx_egress_shelf_t       *shelf;
    ngx_egress_secret_box_t  *box;

    shelf = &shelves->shelf[large];

    if (shelf->n < shelf->max) {
        return NGX_OK;
    }

    for (q = ngx_queue_last(&shelf->queue);
         q != ngx_queue_sentinel(&shelf->queue);
         q = ngx_queue_prev(q))
    {
        box = ngx_queue_data(q, ngx_egress_secret_box_t, queue);

        if (ngx_queue_empty(&box->secret.lives)) {
            ngx_egress_secret_box_free(shelves, box);
            return NGX_OK;
        }
    }

    return NGX_ERROR;
}


static void
ngx_egress_secret_box_free(ngx_egress_shelves_t *shelves,
    ngx_egress_secret_box_t *box)
{
    ngx_queue_remove(&box->queue);
    shelves->shelf[box->large].n--;

    ngx_rbtree_delete(box->boxes, &box->sn.node);

    if (box->large) {
        ngx_egress_vault_free(box->secret.vault);

    } else {
        ngx_egress_cell_free(shelves, box->secret.vault);
    }

    ngx_free(box);
}


/* there are as many cells as the shelf may have boxes: one is always free */

static ngx_egress_vault_t *
ngx_egress_cell_alloc(ngx_egress_shelves_t *shelves)
{
    ngx_egress_vault_t  *vault;

    if (shelves->free) {
        vault = shelves->free;
        shelves->free = *(void **) vault;

    } else {
        vault = (ngx_egress_vault_t *) (shelves->cells
                                        + shelves->fresh * NGX_EGRESS_CELL);
        shelves->fresh++;
    }

    ngx_memzero(vault, offsetof(ngx_egress_vault_t, data));

    vault->size = NGX_EGRESS_CELL;

    return vault;
}


static void
ngx_egress_cell_free(ngx_egress_shelves_t *shelves, ngx_egress_vault_t *vault)
{
    ngx_explicit_memzero(vault, NGX_EGRESS_CELL);

    *(void **) vault = shelves->free;
    shelves->free = vault;
}


ngx_int_t
ngx_egress_secret_room(ngx_egress_secret_t *secret, size_t len,
    ngx_log_t *log)
{
    ngx_egress_vault_t       *vault, *old;
    ngx_egress_shelves_t     *shelves;
    ngx_egress_secret_box_t  *box;

    old = secret->vault;

    if (len < old->size - offsetof(ngx_egress_vault_t, data)) {
        return NGX_OK;
    }

    /* a secret for all has room for the longest of them */

    box = (ngx_egress_secret_box_t *) secret;
    shelves = secret->conf->shelves;

    vault = ngx_egress_vault_alloc(len, log);
    if (vault == NULL) {
        return NGX_ERROR;
    }

    /* the old value is still to be remembered as a former one */

    ngx_memcpy((u_char *) vault + sizeof(size_t),
               (u_char *) old + sizeof(size_t),
               offsetof(ngx_egress_vault_t, data) + old->len
               - sizeof(size_t));

    if (box->large) {
        ngx_egress_vault_free(old);

    } else {
        ngx_queue_remove(&box->queue);
        shelves->shelf[0].n--;

        ngx_egress_cell_free(shelves, old);

        /* pages of its own: one over the bound, where all are in use */

        (void) ngx_egress_shelf_trim(shelves, 1);

        ngx_queue_insert_head(&shelves->shelf[1].queue, &box->queue);
        shelves->shelf[1].n++;

        box->large = 1;
    }

    secret->vault = vault;

    return NGX_OK;
}


/*
 * Numbers of sandboxes' values come from one counter, so that those of one
 * sandbox grow even where it was forgotten in between.
 */

ngx_uint_t
ngx_egress_secret_next(ngx_egress_secret_t *secret)
{
    ngx_egress_shelves_t  *shelves;

    shelves = secret->conf->shelves;

    if (shelves == NULL) {
        return secret->vault->generation + 1;
    }

    return ++shelves->generation;
}


ngx_int_t
ngx_egress_secret_shelves(ngx_cycle_t *cycle, ngx_egress_conf_t *ecf)
{
    size_t                  size;
    ngx_uint_t              i;
    ngx_pool_cleanup_t     *cln;
    ngx_egress_secret_t   **secrets;
    ngx_egress_shelves_t   *shelves;

    secrets = ecf->secrets.elts;

    for (i = 0; i < ecf->secrets.nelts && !secrets[i]->each; i++) {
        /* void */
    }

    if (i == ecf->secrets.nelts) {
        return NGX_OK;
    }

    cln = ngx_pool_cleanup_add(cycle->pool, sizeof(ngx_egress_shelves_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    shelves = cln->data;

    ngx_memzero(shelves, sizeof(ngx_egress_shelves_t));

    ngx_queue_init(&shelves->shelf[0].queue);
    ngx_queue_init(&shelves->shelf[1].queue);

    shelves->shelf[0].max = NGX_EGRESS_SHELF_SMALL;
    shelves->shelf[1].max = NGX_EGRESS_SHELF_LARGE;

    /* pages that no value is on are never touched */

    size = NGX_EGRESS_SHELF_SMALL * NGX_EGRESS_CELL;

    shelves->cells = mmap(NULL, size, PROT_READ|PROT_WRITE,
                          MAP_PRIVATE|MAP_ANON, -1, 0);

    if (shelves->cells == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "mmap() of %uz bytes failed", size);
        return NGX_ERROR;
    }

    cln->handler = ngx_egress_shelves_cleanup;

    if (madvise(shelves->cells, size, MADV_DONTDUMP) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "madvise(MADV_DONTDUMP) failed");
        return NGX_ERROR;
    }

    if (mlock2(shelves->cells, size, MLOCK_ONFAULT) == -1) {
        ngx_log_error(NGX_LOG_NOTICE, cycle->log, ngx_errno,
                      "mlock() failed, secrets of sandboxes may be swapped "
                      "out; raise the limit on locked memory");
    }

    ecf->shelves = shelves;

    return NGX_OK;
}


static void
ngx_egress_shelves_cleanup(void *data)
{
    ngx_egress_shelves_t *shelves = data;

    ngx_uint_t    i;
    ngx_queue_t  *q;

    for (i = 0; i < 2; i++) {
        while (!ngx_queue_empty(&shelves->shelf[i].queue)) {
            q = ngx_queue_head(&shelves->shelf[i].queue);

            ngx_egress_secret_box_free(shelves,
                                       ngx_queue_data(q,
                                                      ngx_egress_secret_box_t,
                                                      queue));
        }
    }

    (void) munmap(shelves->cells, NGX_EGRESS_SHELF_SMALL * NGX_EGRESS_CELL);
}


ngx_int_t
ngx_egress_secret_each(ngx_conf_t *cf, ngx_egress_secret_t *secret)
{
    size_t                     n;
    u_char                    *p, *last;
    ngx_egress_secret_each_t  *each;

    p = secret->path.data;
    last = p + secret->path.len;

    p = ngx_strlchr(p, last, '$');

    if (p == NULL) {
        return NGX_DECLINED;
    }

    n = ngx_egress_secret_variable(p, last);

    if (n == 0 || p[-1] != '/' || (p + n < last && p[n] != '/')
        || ngx_strlchr(p + n, last, '$'))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "only \"$egress_sandbox\" may stand in the path of "
                           "a secret, once and as one whole segment, not as "
                           "in \"%V\"", &secret->path);
        return NGX_ERROR;
    }

    if (secret->fixed) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"static\" beside \"$egress_sandbox\": a secret "
                           "of a sandbox is not read at load");
        return NGX_ERROR;
    }

    each = ngx_palloc(cf->pool, sizeof(ngx_egress_secret_each_t));
    if (each == NULL) {
        return NGX_ERROR;
    }

    each->head.data = secret->path.data;
    each->head.len = p - secret->path.data;
    each->tail.data = p + n;
    each->tail.len = last - each->tail.data;

    ngx_rbtree_init(&each->boxes, &each->sentinel,
                    ngx_str_rbtree_insert_value);

    if (ngx_egress_secret_directory(cf, secret, &each->head) != NGX_OK) {
        return NGX_ERROR;
    }

    secret->each = each;

    return NGX_OK;
}


/* that of a sandbox may come later, but where they all are is there */

static ngx_int_t
ngx_egress_secret_directory(ngx_conf_t *cf, ngx_egress_secret_t *secret,
    ngx_str_t *head)
{
    ngx_err_t        err;
    ngx_str_t        directory;
    ngx_file_info_t  fi;

    directory.len = head->len;
    directory.data = ngx_pnalloc(cf->pool, directory.len + 1);
    if (directory.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_cpystrn(directory.data, head->data, directory.len + 1);

    err = 0;

    if (ngx_file_info(directory.data, &fi) == NGX_FILE_ERROR
        || access((char *) directory.data, X_OK) == -1)
    {
        err = ngx_errno;
    }

    if (err || !ngx_is_dir(&fi)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                           "\"%V\" of the secret \"%V\" is not a directory "
                           "that can be searched", &directory, &secret->path);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_egress_secret_each_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    ngx_uint_t             i;
    ngx_egress_secret_t  **secrets;

    if (ecf->sandboxes.len) {
        return;
    }

    secrets = ecf->secrets.elts;

    for (i = 0; i < ecf->secrets.nelts; i++) {
        if (secrets[i]->each) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "secret \"%V\" without \"sandboxes\": nobody "
                               "is a sandbox, and so nobody has it",
                               &secrets[i]->path);
        }
    }
}


/* the length of "$egress_sandbox" or "${egress_sandbox}" at "p", or 0 */

static size_t
ngx_egress_secret_variable(u_char *p, u_char *last)
{
    ngx_uint_t  i;

    static ngx_str_t  names[] = {
        ngx_string("$egress_sandbox"),
        ngx_string("${egress_sandbox}")
    };

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((size_t) (last - p) >= names[i].len
            && ngx_strncmp(p, names[i].data, names[i].len) == 0)
        {
            return names[i].len;
        }
    }

    return 0;
}
