/* Certificates of the server's own authority.
 *
 * Called by the server, once, for the authority (kr_eg_ca_make), and by eg_hooks.c for tunnels whose TLS ends here.
 * Invariants: the authority's certificate can sign those of hosts and nothing else, and no authority below it; a
 * certificate is for one host, and good for some days; at most CERTIFICATES_MAX of them are kept. All of them have one
 * key, which lives as long as the process. */
#include "eg_ca.h"
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CERTIFICATES_MAX 64u
#define HOUR 3600L
#define DAY (24 * HOUR)
#define CA_LASTS (3650 * DAY)
#define LEAF_LASTS (7 * DAY)
#define LEAF_USED (6 * DAY) /* then another one is made */
#define AUTHORITY "krait's own authority"

struct certificate {
    char host[256];
    X509 *x509;
    time_t made;
    uint64_t used;
};

struct kr_eg_ca {
    X509 *x509;
    EVP_PKEY *key, *leaf_key;
    SSL_CTX *context;
    struct certificate kept[CERTIFICATES_MAX];
    uint64_t uses;
};

/* ---- making certificates ---- */

static int add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509_EXTENSION *e;
    X509V3_CTX context;
    int ok;

    X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ok = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static int set_serial(X509 *x)
{
    unsigned char bytes[16];
    BIGNUM *n;
    int ok;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return 0;
    bytes[0] &= 0x7f;
    bytes[0] |= 0x40;
    n = BN_bin2bn(bytes, sizeof bytes, NULL);
    ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return ok;
}

/* What both kinds have. NULL if out of memory. */
static X509 *begin_certificate(EVP_PKEY *key, const char *name, long lasts)
{
    X509 *x = X509_new();
    X509_NAME *subject = x ? X509_get_subject_name(x) : NULL;

    if (x && X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
        X509_gmtime_adj(X509_getm_notBefore(x), -DAY) && X509_gmtime_adj(X509_getm_notAfter(x), lasts) &&
        X509_set_pubkey(x, key) == 1 &&
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) == 1)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_authority(EVP_PKEY *key)
{
    X509 *x = begin_certificate(key, AUTHORITY, CA_LASTS);

    if (x && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
        add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(x, x, NID_key_usage, "critical,keyCertSign") &&
        add_extension(x, x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_leaf(const struct kr_eg_ca *ca, const char *host)
{
    unsigned char address[16];
    bool is_address = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    char names[300];
    /* A common name has room for 64 characters; clients read the other names. */
    X509 *x = begin_certificate(ca->leaf_key, strlen(host) <= 64 ? host : "krait", LEAF_LASTS);

    snprintf(names, sizeof names, "%s:%s", is_address ? "IP" : "DNS", host);
    if (x && X509_set_issuer_name(x, X509_get_subject_name(ca->x509)) == 1 &&
        add_extension(x, ca->x509, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(x, ca->x509, NID_key_usage, "critical,digitalSignature") &&
        add_extension(x, ca->x509, NID_ext_key_usage, "serverAuth") &&
        add_extension(x, ca->x509, NID_subject_key_identifier, "hash") &&
        add_extension(x, ca->x509, NID_authority_key_identifier, "keyid:always") &&
        add_extension(x, ca->x509, NID_subject_alt_name, names) && X509_sign(x, ca->key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

int kr_eg_ca_make(char **ret_pem)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = key ? make_authority(key) : NULL;
    BIO *out = x ? BIO_new(BIO_s_mem()) : NULL;
    char *bytes = NULL;
    long len = 0;
    int r = -ENOMEM;

    if (out && PEM_write_bio_X509(out, x) == 1 && PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1 &&
        (len = BIO_get_mem_data(out, &bytes)) > 0 && (*ret_pem = strndup(bytes, (size_t)len)))
        r = 0;
    if (len > 0)
        OPENSSL_cleanse(bytes, (size_t)len);
    BIO_free(out);
    X509_free(x);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return r;
}

/* ---- the authority in the process ---- */

static int read_authority(const char *pem, struct kr_eg_ca *ca)
{
    BIO *in = BIO_new_mem_buf(pem, -1);

    if (!in)
        return -ENOMEM;
    ca->x509 = PEM_read_bio_X509(in, NULL, NULL, NULL);
    ca->key = ca->x509 ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
    BIO_free(in);
    return ca->key && X509_check_private_key(ca->x509, ca->key) == 1 ? 0 : -EINVAL;
}

int kr_eg_ca_new(const char *pem, struct kr_eg_ca **ret_ca)
{
    struct kr_eg_ca *ca = calloc(1, sizeof *ca);
    int r = ca ? read_authority(pem, ca) : -ENOMEM;

    if (r == 0) {
        ca->leaf_key = EVP_EC_gen("P-256");
        ca->context = kr_eg_tls_server_context();
        r = ca->leaf_key && ca->context ? 0 : -ENOMEM;
    }
    ERR_clear_error();
    if (r < 0)
        kr_eg_ca_free(ca);
    else
        *ret_ca = ca;
    return r;
}

void kr_eg_ca_free(struct kr_eg_ca *ca)
{
    if (!ca)
        return;
    for (size_t i = 0; i < CERTIFICATES_MAX; i++)
        X509_free(ca->kept[i].x509);
    X509_free(ca->x509);
    EVP_PKEY_free(ca->key);
    EVP_PKEY_free(ca->leaf_key);
    SSL_CTX_free(ca->context);
    free(ca);
}

/* That of the host; or the place of the one that was not used for the longest time. */
static struct certificate *place_of(struct kr_eg_ca *ca, const char *host)
{
    struct certificate *oldest = &ca->kept[0];

    for (size_t i = 0; i < CERTIFICATES_MAX; i++) {
        if (ca->kept[i].x509 && strcmp(ca->kept[i].host, host) == 0)
            return &ca->kept[i];
        if (ca->kept[i].used < oldest->used)
            oldest = &ca->kept[i];
    }
    return oldest;
}

int kr_eg_ca_vouch(struct kr_eg_ca *ca, const char *host, struct kr_eg_tls_server *ret_server)
{
    struct certificate *c = place_of(ca, host);
    time_t now = time(NULL);

    if (!c->x509 || strcmp(c->host, host) != 0 || now < c->made || now - c->made > LEAF_USED) {
        X509_free(c->x509);
        *c = (struct certificate){.made = now, .x509 = make_leaf(ca, host)};
        snprintf(c->host, sizeof c->host, "%s", host);
        ERR_clear_error();
    }
    if (!c->x509)
        return -ENOMEM;
    c->used = ++ca->uses;
    *ret_server = (struct kr_eg_tls_server){.context = ca->context, .certificate = c->x509, .key = ca->leaf_key};
    return 0;
}
