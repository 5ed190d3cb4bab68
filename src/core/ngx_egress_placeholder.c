
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <openssl/core_names.h>


#define NGX_EGRESS_PLACEHOLDER_FEW  4


static ngx_int_t ngx_egress_placeholder_overlap(ngx_conf_t *cf,
    ngx_egress_credential_t *first, ngx_egress_credential_t *second);
static int ngx_libc_cdecl ngx_egress_placeholder_cmp(const void *one,
    const void *two);


/* one a process: a MAC context costs far more to make than to use */

static EVP_MAC_CTX  *ngx_egress_siphash;


ngx_egress_placeholder_t *
ngx_egress_placeholder_find(ngx_egress_conf_t *ecf, ngx_array_t *placeholders,
    ngx_str_t *text)
{
    uint64_t                   hash;
    ngx_uint_t                 i, left, right, middle;
    ngx_egress_placeholder_t  *ph, *found;

    if (placeholders->nelts == 0 || text->len < NGX_EGRESS_PLACEHOLDER_LEN) {
        return NULL;
    }

    ph = placeholders->elts;

    if (placeholders->nelts <= NGX_EGRESS_PLACEHOLDER_FEW) {

        /* each in constant time: the hash would cost more than it saves */

        found = NULL;

        for (i = 0; i < placeholders->nelts; i++) {
            if (ph[i].text.len == text->len
                && CRYPTO_memcmp(ph[i].text.data, text->data, text->len) == 0)
            {
                found = &ph[i];
            }
        }

        return found;
    }

    hash = ngx_egress_hash(ecf->hash_key, text);

    left = 0;
    right = placeholders->nelts;

    while (left < right) {
        middle = (left + right) / 2;

        if (ph[middle].hash < hash) {
            left = middle + 1;

        } else {
            right = middle;
        }
    }

    for (i = left; i < placeholders->nelts && ph[i].hash == hash; i++) {
        if (ph[i].text.len == text->len
            && CRYPTO_memcmp(ph[i].text.data, text->data, text->len) == 0)
        {
            return &ph[i];
        }
    }

    return NULL;
}


/* SipHash with a random key: an attacker can't aim at it */

uint64_t
ngx_egress_hash(u_char *key, ngx_str_t *text)
{
    size_t      len;
    EVP_MAC    *mac;
    uint64_t    hash;
    OSSL_PARAM  params[2];

    hash = 0;
    len = sizeof(hash);

    if (ngx_egress_siphash == NULL) {
        mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);

        if (mac) {
            ngx_egress_siphash = EVP_MAC_CTX_new(mac);
            EVP_MAC_free(mac);
        }

        if (ngx_egress_siphash == NULL) {
            return 0;
        }

        params[0] = OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &len);
        params[1] = OSSL_PARAM_construct_end();

        (void) EVP_MAC_CTX_set_params(ngx_egress_siphash, params);
    }

    /* on failure all hash to 0, and the comparison alone decides */

    if (EVP_MAC_init(ngx_egress_siphash, key, NGX_EGRESS_HASH_KEY, NULL) != 1
        || EVP_MAC_update(ngx_egress_siphash, text->data, text->len) != 1
        || EVP_MAC_final(ngx_egress_siphash, (u_char *) &hash, &len,
                         sizeof(hash))
           != 1)
    {
        return 0;
    }

    return hash;
}


const char *
ngx_egress_placeholder_valid(ngx_str_t *text)
{
    size_t  i;

    if (text->len < NGX_EGRESS_PLACEHOLDER_LEN) {
        return "has a placeholder that is too short";
    }

    for (i = 0; i < text->len; i++) {
        if (text->data[i] <= 0x20 || text->data[i] >= 0x7f) {
            return "has a placeholder with a character that a credential "
                   "can't hold";
        }
    }

    return NULL;
}


ngx_uint_t
ngx_egress_placeholder_taken(ngx_egress_binding_t *binding, ngx_str_t *text)
{
    ngx_str_t                 *part, *whole;
    ngx_uint_t                 i, j;
    ngx_egress_placeholder_t  *ph;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {

        ph = creds[i]->placeholders.elts;

        for (j = 0; j < creds[i]->placeholders.nelts; j++) {

            part = (text->len < ph[j].text.len) ? text : &ph[j].text;
            whole = (text->len < ph[j].text.len) ? &ph[j].text : text;

            if (memmem(whole->data, whole->len, part->data, part->len)) {
                return 1;
            }
        }
    }

    return 0;
}


static int ngx_libc_cdecl
ngx_egress_placeholder_cmp(const void *one, const void *two)
{
    const ngx_egress_placeholder_t  *first = one;
    const ngx_egress_placeholder_t  *second = two;

    return (first->hash > second->hash) - (first->hash < second->hash);
}


char *
ngx_egress_placeholder_add(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_array_t *placeholders, ngx_str_t *text)
{
    ngx_uint_t                 i;
    ngx_egress_placeholder_t  *ph;

    if (text->len < NGX_EGRESS_PLACEHOLDER_LEN) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "placeholder of %uz characters is too short, "
                           "at least %d are needed",
                           text->len, NGX_EGRESS_PLACEHOLDER_LEN);
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < text->len; i++) {
        if (text->data[i] <= 0x20 || text->data[i] >= 0x7f) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "placeholder \"%V\" has a character that "
                               "a credential can't hold", text);
            return NGX_CONF_ERROR;
        }
    }

    ph = ngx_array_push(placeholders);
    if (ph == NULL) {
        return NGX_CONF_ERROR;
    }

    ph->text.len = text->len;
    ph->text.data = ngx_pstrdup(cf->pool, text);
    if (ph->text.data == NULL) {
        return NGX_CONF_ERROR;
    }

    ph->hash = ngx_egress_hash(ecf->hash_key, &ph->text);

    return NGX_CONF_OK;
}


ngx_int_t
ngx_egress_placeholder_init(ngx_conf_t *cf, ngx_egress_binding_t *binding)
{
    ngx_uint_t                 i, j;
    ngx_egress_credential_t  **creds;

    creds = binding->credentials.elts;

    for (i = 0; i < binding->credentials.nelts; i++) {
        for (j = 0; j < binding->credentials.nelts; j++) {
            if (ngx_egress_placeholder_overlap(cf, creds[i], creds[j])
                != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    for (i = 0; i < binding->credentials.nelts; i++) {
        ngx_qsort(creds[i]->placeholders.elts, creds[i]->placeholders.nelts,
                  sizeof(ngx_egress_placeholder_t),
                  ngx_egress_placeholder_cmp);
    }

    return NGX_OK;
}


/* whether one of the first credential is a part of another of the second */

static ngx_int_t
ngx_egress_placeholder_overlap(ngx_conf_t *cf, ngx_egress_credential_t *first,
    ngx_egress_credential_t *second)
{
    ngx_uint_t                 i, j;
    ngx_egress_placeholder_t  *part, *whole;

    part = first->placeholders.elts;
    whole = second->placeholders.elts;

    for (i = 0; i < first->placeholders.nelts; i++) {
        for (j = 0; j < second->placeholders.nelts; j++) {

            if (&part[i] == &whole[j] || part[i].text.len > whole[j].text.len
                || memmem(whole[j].text.data, whole[j].text.len,
                          part[i].text.data, part[i].text.len)
                   == NULL)
            {
                continue;
            }

            ngx_egress_place_error(cf, &first->binding->place,
                                   "placeholder \"%V\" is a part of "
                                   "placeholder \"%V\" in binding \"%V\"",
                                   &part[i].text, &whole[j].text,
                                   &first->binding->name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
