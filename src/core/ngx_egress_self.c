
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>

#include <openssl/pem.h>


static ngx_int_t ngx_egress_self_certificates(ngx_conf_t *cf, BIO *out,
    const char *path, ngx_uint_t level);
static ngx_int_t ngx_egress_self_pem(ngx_conf_t *cf, BIO *out, ngx_str_t *pem);


/* where systems have their bundle, the first that is there counts */

static const char  *ngx_egress_self_bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    NULL
};


char *
ngx_egress_self_url(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_egress_conf_t  *ecf = conf;

    u_char             *p;
    ngx_str_t          *value, authority;
    ngx_egress_host_t   host;

    if (ecf->self_url.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    authority.data = value[1].data + sizeof("http://") - 1;
    authority.len = value[1].len - (sizeof("http://") - 1);

    if (value[1].len < sizeof("http://")
        || ngx_strncasecmp(value[1].data, (u_char *) "http://",
                           sizeof("http://") - 1)
           != 0)
    {
        goto invalid;
    }

    if (authority.data[authority.len - 1] == '/') {
        authority.len--;
    }

    if (ngx_egress_host_parse(&authority, NGX_EGRESS_HOST_AUTHORITY, 80, &host)
        != NGX_OK)
    {
        goto invalid;
    }

    /* some clients take a port of their own for one that is not written */

    p = ngx_pnalloc(cf->pool, sizeof("http://[]:65535") + host.len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    ecf->self_url.data = p;
    p = ngx_cpymem(p, "http://", sizeof("http://") - 1);

    ecf->self_host.data = p;

    if (host.family == AF_INET6 && host.name[0] != '[') {
        p = ngx_sprintf(p, "[%*s]", host.len, host.name);

    } else {
        p = ngx_cpymem(p, host.name, host.len);
    }

    ecf->self_host.len = p - ecf->self_host.data;
    ecf->self_port = host.port;

    p = ngx_sprintf(p, ":%ui", (ngx_uint_t) host.port);

    ecf->self_url.len = p - ecf->self_url.data;

    return NGX_CONF_OK;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid url \"%V\": \"http://host:port\" is needed, "
                       "as sandboxes reach the gateway", &value[1]);

    return NGX_CONF_ERROR;
}


ngx_int_t
ngx_egress_self_init(ngx_conf_t *cf, ngx_egress_conf_t *ecf)
{
    BIO              *ca, *bundle;
    ngx_int_t         rc;
    ngx_uint_t        i;
    const char       *system;
    ngx_file_info_t   fi;

    if (ecf->bundle_pem.data) {
        return NGX_OK;
    }

    system = NULL;

    for (i = 0; ngx_egress_self_bundles[i]; i++) {
        if (ngx_file_info((u_char *) ngx_egress_self_bundles[i], &fi)
            != NGX_FILE_ERROR)
        {
            system = ngx_egress_self_bundles[i];
            break;
        }
    }

    ca = BIO_new(BIO_s_mem());
    bundle = BIO_new(BIO_s_mem());

    rc = (ca && bundle) ? NGX_OK : NGX_ERROR;

    if (rc == NGX_OK && system) {
        rc = ngx_egress_self_certificates(cf, bundle, system, NGX_LOG_WARN);
    }

    /* hosts that are passed through may have what upstreams have */

    if (rc == NGX_OK && ecf->trusted_certificate.len
        && (system == NULL
            || ngx_strcmp(ecf->trusted_certificate.data, system) != 0))
    {
        rc = ngx_egress_self_certificates(cf, bundle,
                                    (char *) ecf->trusted_certificate.data,
                                    NGX_LOG_EMERG);
    }

    if (rc == NGX_OK && ecf->ca_cert.len) {
        rc = ngx_egress_self_certificates(cf, bundle,
                                          (char *) ecf->ca_cert.data,
                                          NGX_LOG_EMERG);
    }

    if (rc == NGX_OK && ecf->ca_cert.len) {
        rc = ngx_egress_self_certificates(cf, ca, (char *) ecf->ca_cert.data,
                                          NGX_LOG_EMERG);
    }

    if (rc == NGX_OK) {
        rc = ngx_egress_self_pem(cf, ca, &ecf->ca_pem);
    }

    if (rc == NGX_OK) {
        rc = ngx_egress_self_pem(cf, bundle, &ecf->bundle_pem);
    }

    BIO_free(ca);
    BIO_free(bundle);

    return rc;
}


/*
 * Certificates are read and written anew: whatever else stands in a file, a
 * key for one, is not for sandboxes, and what comes out is plain base64.
 */

static ngx_int_t
ngx_egress_self_certificates(ngx_conf_t *cf, BIO *out, const char *path,
    ngx_uint_t level)
{
    BIO            *in;
    int             ok;
    X509           *cert;
    ngx_uint_t      n;
    unsigned long   err;

    in = BIO_new_file(path, "r");
    if (in == NULL) {
        ngx_ssl_error(level, cf->log, 0,
                      "certificates \"%s\": BIO_new_file() failed", path);
        return (level == NGX_LOG_EMERG) ? NGX_ERROR : NGX_OK;
    }

    ok = 1;

    for (n = 0; ok; n++) {

        cert = PEM_read_bio_X509(in, NULL, NULL, NULL);

        if (cert == NULL) {
            break;
        }

        ok = PEM_write_bio_X509(out, cert);

        X509_free(cert);
    }

    BIO_free(in);

    err = ERR_peek_last_error();

    if (ok && n && ERR_GET_LIB(err) == ERR_LIB_PEM
        && ERR_GET_REASON(err) == PEM_R_NO_START_LINE)
    {
        /* the end of the file */

        ERR_clear_error();
        return NGX_OK;
    }

    ngx_ssl_error(level, cf->log, 0,
                  "certificates \"%s\" could not be read for \"egress_self\"",
                  path);

    return (level == NGX_LOG_EMERG) ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_egress_self_pem(ngx_conf_t *cf, BIO *out, ngx_str_t *pem)
{
    long   len;
    char  *data;

    len = BIO_get_mem_data(out, &data);

    pem->data = ngx_pnalloc(cf->pool, len + 1);
    if (pem->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(pem->data, data, len);
    pem->len = len;

    return NGX_OK;
}
