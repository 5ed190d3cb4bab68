
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>


#define NGX_EGRESS_PEM_LEN     65536
#define NGX_EGRESS_CN_LEN      64
#define NGX_EGRESS_BACKDATE    (48 * 60 * 60)
#define NGX_EGRESS_EXPIRY      (30 * 24 * 60 * 60)
#define NGX_EGRESS_EXTENSIONS  5


/* what all leaves of a load have in common, made once */

typedef struct {
    X509            *cert;
    EVP_PKEY        *key;
    X509_PUBKEY     *leaf_key;
    X509_EXTENSION  *ext[NGX_EGRESS_EXTENSIONS];
    time_t           not_after;
} ngx_egress_ca_t;


static ngx_int_t ngx_egress_ca_cert(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca);
static ngx_int_t ngx_egress_ca_key(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca);
static ngx_int_t ngx_egress_ca_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca);
static ngx_int_t ngx_egress_ca_extensions(ngx_conf_t *cf,
    ngx_egress_conf_t *ecf, ngx_egress_ca_t *ca);
static ngx_int_t ngx_egress_ca_leaves(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca);
static X509 *ngx_egress_ca_leaf(ngx_egress_ca_t *ca, ngx_str_t *host);
static ngx_int_t ngx_egress_ca_leaf_key(X509 *leaf, ngx_egress_ca_t *ca);
static ngx_int_t ngx_egress_ca_leaf_name(X509 *leaf, ngx_str_t *host);
static ngx_int_t ngx_egress_ca_leaf_san(X509 *leaf, ngx_str_t *host);
static int ngx_egress_ca_no_password(char *buf, int size, int rwflag,
    void *userdata);
static void ngx_egress_ca_cleanup(void *data);


ngx_int_t
ngx_egress_ca_mint(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    ngx_int_t            rc;
    ngx_uint_t           i;
    ngx_egress_ca_t      ca;
    ngx_pool_cleanup_t  *cln;

    if (ecf->ca_cert.data == NULL) {
        return NGX_OK;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_egress_ca_cleanup;
    cln->data = ecf;

    ngx_memzero(&ca, sizeof(ngx_egress_ca_t));

    rc = ngx_egress_ca_cert(cf, ecf, &ca);

    if (rc == NGX_OK) {
        rc = ngx_egress_ca_key(cf, ecf, &ca);
    }

    if (rc == NGX_OK) {
        rc = ngx_egress_ca_check(cf, ecf, &ca);
    }

    if (rc == NGX_OK) {
        rc = ngx_egress_ca_extensions(cf, ecf, &ca);
    }

    if (rc == NGX_OK) {
        rc = ngx_egress_ca_leaves(cf, ecf, &ca);
    }

    /* OpenSSL wipes the private numbers of a key that it frees */

    EVP_PKEY_free(ca.key);
    X509_PUBKEY_free(ca.leaf_key);
    X509_free(ca.cert);

    for (i = 0; i < NGX_EGRESS_EXTENSIONS; i++) {
        X509_EXTENSION_free(ca.ext[i]);
    }

    return rc;
}


static ngx_int_t
ngx_egress_ca_cert(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca)
{
    BIO   *bio;
    X509  *cert;

    bio = BIO_new_file((char *) ecf->ca_cert.data, "r");
    if (bio == NULL) {
        ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                      "CA certificate \"%V\": BIO_new_file() failed",
                      &ecf->ca_cert);
        return NGX_ERROR;
    }

    ca->cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    if (ca->cert == NULL) {
        ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                      "CA certificate \"%V\": PEM_read_bio_X509() failed",
                      &ecf->ca_cert);
        BIO_free(bio);
        return NGX_ERROR;
    }

    /* an intermediate is sent with each leaf, and so is what follows it */

    ecf->chain = sk_X509_new_null();
    if (ecf->chain == NULL) {
        BIO_free(bio);
        return NGX_ERROR;
    }

    cert = NULL;

    if (X509_check_issued(ca->cert, ca->cert) != X509_V_OK) {
        X509_up_ref(ca->cert);
        cert = ca->cert;
    }

    for ( ;; ) {

        if (cert && !sk_X509_push(ecf->chain, cert)) {
            X509_free(cert);
            BIO_free(bio);
            return NGX_ERROR;
        }

        cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

        if (cert == NULL) {
            ERR_clear_error();
            break;
        }
    }

    BIO_free(bio);

    return NGX_OK;
}


/*
 * The key is read into a buffer of ours and never through stdio, which frees
 * its buffers without wiping them (prototype2 P13).
 */

static ngx_int_t
ngx_egress_ca_key(ngx_conf_t *cf, ngx_egress_conf_t *ecf, ngx_egress_ca_t *ca)
{
    BIO              *bio;
    u_char            buf[NGX_EGRESS_PEM_LEN];
    ssize_t           n;
    ngx_file_info_t   fi;

    n = ngx_egress_file_read(cf->log, "CA key", &ecf->ca_key, buf,
                             sizeof(buf), 0, 0, &fi);

    if (n <= 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "could not read the CA key \"%V\"", &ecf->ca_key);
        return NGX_ERROR;
    }

    bio = BIO_new_mem_buf(buf, n);

    if (bio) {
        ca->key = PEM_read_bio_PrivateKey(bio, NULL,
                                          ngx_egress_ca_no_password, NULL);
        BIO_free(bio);
    }

    ngx_explicit_memzero(buf, sizeof(buf));

    if (ca->key == NULL) {
        ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                      "CA key \"%V\": PEM_read_bio_PrivateKey() failed",
                      &ecf->ca_key);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* nobody is there to type one */

static int
ngx_egress_ca_no_password(char *buf, int size, int rwflag, void *userdata)
{
    return 0;
}


static ngx_int_t
ngx_egress_ca_check(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca)
{
    int            day, sec;
    time_t         left;
    const char    *why;
    unsigned long  usage;

    why = NULL;
    usage = X509_get_key_usage(ca->cert);

    if (X509_check_private_key(ca->cert, ca->key) != 1) {
        ERR_clear_error();
        why = "does not match its key";

    } else if (X509_check_ca(ca->cert) != 1) {
        why = "is not a CA certificate";

    } else if (usage == UINT32_MAX || !(usage & KU_KEY_CERT_SIGN)) {
        why = "has no keyCertSign in its key usage";

    } else if (X509_get0_subject_key_id(ca->cert) == NULL) {
        why = "has no subject key identifier";

    } else if (X509_cmp_current_time(X509_get0_notAfter(ca->cert)) <= 0) {
        why = "has expired";

    } else if (X509_cmp_current_time(X509_get0_notBefore(ca->cert)) >= 0) {
        why = "is not valid yet";

    } else if (EVP_PKEY_get_base_id(ca->key) != EVP_PKEY_EC
               && EVP_PKEY_get_base_id(ca->key) != EVP_PKEY_RSA)
    {
        why = "has neither an EC nor an RSA key";

    } else if (!ASN1_TIME_diff(&day, &sec, NULL,
                               X509_get0_notAfter(ca->cert)))
    {
        why = "has an unreadable end of validity";
    }

    if (why) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "CA certificate \"%V\" %s", &ecf->ca_cert, why);
        return NGX_ERROR;
    }

    left = (time_t) day * 24 * 60 * 60 + sec;

    if (left > ecf->leaf_validity) {
        left = ecf->leaf_validity;
    }

    if (left < NGX_EGRESS_EXPIRY) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "leaf certificates of CA \"%V\" expire "
                           "in %T hours", &ecf->ca_cert, left / 3600);
    }

    ca->not_after = ngx_time() + left;

    return NGX_OK;
}


static ngx_int_t
ngx_egress_ca_extensions(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca)
{
    X509        *model;
    X509V3_CTX   ctx;
    ngx_uint_t   i;

    static struct {
        int          nid;
        const char  *value;
    } extensions[NGX_EGRESS_EXTENSIONS] = {
        { NID_basic_constraints, "critical,CA:FALSE" },
        { NID_key_usage, "critical,digitalSignature" },
        { NID_ext_key_usage, "serverAuth" },
        { NID_subject_key_identifier, "hash" },
        { NID_authority_key_identifier, "keyid:always" }
    };

    ecf->leaf_key = EVP_EC_gen("P-256");
    model = X509_new();

    if (ecf->leaf_key == NULL || model == NULL
        || !X509_set_pubkey(model, ecf->leaf_key)
        || !X509_PUBKEY_set(&ca->leaf_key, ecf->leaf_key))
    {
        goto failed;
    }

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, ca->cert, model, NULL, NULL, 0);

    for (i = 0; i < NGX_EGRESS_EXTENSIONS; i++) {
        ca->ext[i] = X509V3_EXT_conf_nid(NULL, &ctx, extensions[i].nid,
                                         extensions[i].value);
        if (ca->ext[i] == NULL) {
            goto failed;
        }
    }

    X509_free(model);

    return NGX_OK;

failed:

    X509_free(model);

    ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                  "could not prepare leaf certificates");

    return NGX_ERROR;
}


static ngx_int_t
ngx_egress_ca_leaves(ngx_conf_t *cf, ngx_egress_conf_t *ecf,
    ngx_egress_ca_t *ca)
{
    ngx_rbtree_node_t  *node;
    ngx_egress_name_t  *name;

    if (ecf->names.root == ecf->names.sentinel) {
        return NGX_OK;
    }

    for (node = ngx_rbtree_min(ecf->names.root, ecf->names.sentinel);
         node;
         node = ngx_rbtree_next(&ecf->names, node))
    {
        name = (ngx_egress_name_t *) node;

        name->cert = ngx_egress_ca_leaf(ca, &name->sn.str);

        if (name->cert == NULL) {
            ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                          "could not mint a certificate for \"%V\"",
                          &name->sn.str);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static X509 *
ngx_egress_ca_leaf(ngx_egress_ca_t *ca, ngx_str_t *host)
{
    X509        *leaf, *decoded;
    BIGNUM      *bn;
    u_char       serial[16];
    ngx_uint_t   i;

    bn = NULL;

    leaf = X509_new();
    if (leaf == NULL) {
        return NULL;
    }

    /* positive and not starting with a zero octet (RFC 5280, 4.1.2.2) */

    if (RAND_bytes(serial, sizeof(serial)) != 1) {
        goto failed;
    }

    serial[0] = (serial[0] & 0x7f) | 0x40;

    bn = BN_bin2bn(serial, sizeof(serial), NULL);

    if (bn == NULL
        || BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(leaf)) == NULL
        || !X509_set_version(leaf, 2)
        || !X509_set_issuer_name(leaf, X509_get_subject_name(ca->cert))
        || ngx_egress_ca_leaf_key(leaf, ca) != NGX_OK
        || ASN1_TIME_set(X509_getm_notBefore(leaf),
                         ngx_time() - NGX_EGRESS_BACKDATE)
           == NULL
        || ASN1_TIME_set(X509_getm_notAfter(leaf), ca->not_after) == NULL
        || ngx_egress_ca_leaf_name(leaf, host) != NGX_OK
        || ngx_egress_ca_leaf_san(leaf, host) != NGX_OK)
    {
        goto failed;
    }

    for (i = 0; i < NGX_EGRESS_EXTENSIONS; i++) {
        if (!X509_add_ext(leaf, ca->ext[i], -1)) {
            goto failed;
        }
    }

    if (X509_sign(leaf, ca->key, EVP_sha256()) == 0) {
        goto failed;
    }

    /* one that was decoded keeps its encoding: no handshake makes it anew */

    decoded = X509_dup(leaf);

    BN_free(bn);
    X509_free(leaf);

    return decoded;

failed:

    BN_free(bn);
    X509_free(leaf);

    return NULL;
}


/* X509_set_pubkey() would encode one key for each leaf: half of its time */

static ngx_int_t
ngx_egress_ca_leaf_key(X509 *leaf, ngx_egress_ca_t *ca)
{
    int                   type, len;
    u_char               *copy;
    X509_ALGOR           *algor;
    ASN1_OBJECT          *name, *curve;
    const void           *value;
    const unsigned char  *key;

    if (!X509_PUBKEY_get0_param(&name, &key, &len, &algor, ca->leaf_key)) {
        return NGX_ERROR;
    }

    X509_ALGOR_get0(NULL, &type, &value, algor);

    if (type != V_ASN1_OBJECT) {
        return NGX_ERROR;
    }

    name = OBJ_dup(name);
    curve = OBJ_dup(value);
    copy = OPENSSL_memdup(key, len);

    if (name == NULL || curve == NULL || copy == NULL
        || !X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(leaf), name,
                                   V_ASN1_OBJECT, curve, copy, len))
    {
        ASN1_OBJECT_free(name);
        ASN1_OBJECT_free(curve);
        OPENSSL_free(copy);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* a CN is at most 64 characters (RFC 5280, A.1): longer names have the SAN */

static ngx_int_t
ngx_egress_ca_leaf_name(X509 *leaf, ngx_str_t *host)
{
    if (host->len > NGX_EGRESS_CN_LEN) {
        return NGX_OK;
    }

    if (!X509_NAME_add_entry_by_NID(X509_get_subject_name(leaf),
                                    NID_commonName, MBSTRING_ASC,
                                    host->data, (int) host->len, -1, 0))
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_egress_ca_leaf_san(X509 *leaf, ngx_str_t *host)
{
    ngx_int_t        rc;
    GENERAL_NAME    *name;
    GENERAL_NAMES   *names;
    ASN1_IA5STRING  *ia5;

    rc = NGX_ERROR;

    names = sk_GENERAL_NAME_new_null();
    name = GENERAL_NAME_new();
    ia5 = ASN1_IA5STRING_new();

    if (names == NULL || name == NULL || ia5 == NULL
        || !ASN1_STRING_set(ia5, host->data, (int) host->len))
    {
        ASN1_IA5STRING_free(ia5);
        GENERAL_NAME_free(name);
        goto done;
    }

    GENERAL_NAME_set0_value(name, GEN_DNS, ia5);

    if (!sk_GENERAL_NAME_push(names, name)) {
        GENERAL_NAME_free(name);
        goto done;
    }

    /* critical where the subject is empty (RFC 5280, 4.2.1.6) */

    if (X509_add1_ext_i2d(leaf, NID_subject_alt_name, names,
                          host->len > NGX_EGRESS_CN_LEN, X509V3_ADD_DEFAULT)
        == 1)
    {
        rc = NGX_OK;
    }

done:

    GENERAL_NAMES_free(names);

    return rc;
}


static void
ngx_egress_ca_cleanup(void *data)
{
    ngx_egress_conf_t *ecf = data;

    ngx_rbtree_node_t  *node;
    ngx_egress_name_t  *name;

    sk_X509_pop_free(ecf->chain, X509_free);
    EVP_PKEY_free(ecf->leaf_key);

    if (ecf->names.root == ecf->names.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(ecf->names.root, ecf->names.sentinel);
         node;
         node = ngx_rbtree_next(&ecf->names, node))
    {
        name = (ngx_egress_name_t *) node;

        X509_free(name->cert);
        name->cert = NULL;
    }
}
