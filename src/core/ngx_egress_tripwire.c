
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <openssl/hmac.h>


static uint64_t ngx_egress_tripwire_hash(ngx_egress_tripwire_t *tripwire,
    u_char *data, size_t len);


ngx_uint_t
ngx_egress_tripwire_find(ngx_egress_conf_t *ecf, u_char *data, size_t len)
{
    uint64_t                hash;
    ngx_uint_t              i, found;
    ngx_slab_pool_t        *shpool;
    ngx_egress_seen_t      *row;
    ngx_egress_tripwire_t  *tripwire;

    tripwire = &ecf->shared->tripwire;

    if (len < NGX_EGRESS_TRIPWIRE_LEN || !tripwire->lens[len & 0xff]) {
        return 0;
    }

    hash = ngx_egress_tripwire_hash(tripwire, data, len);

    if (hash == 0) {

        /* it can't be told, and might be one */

        return 1;
    }

    row = tripwire->seen[hash % NGX_EGRESS_TRIPWIRE_ROWS];
    found = 0;

    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    for (i = 0; i < NGX_EGRESS_TRIPWIRE_ROW; i++) {
        found |= (row[i].hash == hash);
    }

    ngx_shmtx_unlock(&shpool->mutex);

    return found;
}


/*
 * A value is remembered as soon as it is read, and not when it goes: nobody
 * may be there to see it go.
 */

void
ngx_egress_tripwire_add(ngx_egress_conf_t *ecf, u_char *data, size_t len,
    ngx_log_t *log)
{
    uint64_t                hash;
    ngx_uint_t              i;
    ngx_slab_pool_t        *shpool;
    ngx_egress_seen_t      *row, *seen;
    ngx_egress_tripwire_t  *tripwire;

    if (ecf->shared == NULL || len < NGX_EGRESS_TRIPWIRE_LEN) {

        /* ngx_egress_tripwire_init() will add what is read during a load */

        return;
    }

    tripwire = &ecf->shared->tripwire;

    hash = ngx_egress_tripwire_hash(tripwire, data, len);

    if (hash == 0) {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "HMAC() failed, a secret can't be remembered");
        return;
    }

    row = tripwire->seen[hash % NGX_EGRESS_TRIPWIRE_ROWS];
    seen = &row[0];

    shpool = (ngx_slab_pool_t *) ecf->zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    for (i = 0; i < NGX_EGRESS_TRIPWIRE_ROW; i++) {

        if (row[i].hash == hash) {
            seen = &row[i];
            break;
        }

        if (row[i].seq < seen->seq) {
            seen = &row[i];
        }
    }

    seen->hash = hash;
    seen->seq = ++tripwire->seq;

    tripwire->lens[len & 0xff] = 1;

    ngx_shmtx_unlock(&shpool->mutex);
}


/* never 0, but where there is none; the key never leaves the zone */

static uint64_t
ngx_egress_tripwire_hash(ngx_egress_tripwire_t *tripwire, u_char *data,
    size_t len)
{
    u_char        digest[EVP_MAX_MD_SIZE];
    uint64_t      hash;
    unsigned int  n;

    if (HMAC(EVP_sha256(), tripwire->key, sizeof(tripwire->key), data, len,
             digest, &n)
        == NULL)
    {
        return 0;
    }

    ngx_memcpy(&hash, digest, sizeof(hash));

    return hash ? hash : 1;
}


void
ngx_egress_tripwire_init(ngx_egress_conf_t *ecf, ngx_log_t *log)
{
    ngx_uint_t             i;
    ngx_egress_vault_t    *vault;
    ngx_egress_secret_t  **secrets;

    secrets = ecf->secrets.elts;

    for (i = 0; i < ecf->secrets.nelts; i++) {
        vault = secrets[i]->vault;

        if (vault) {
            ngx_egress_tripwire_add(ecf, vault->data, vault->len, log);
        }
    }
}
