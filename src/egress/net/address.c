/* The table of addresses. Called by dial.c for every address before it is connected to.
 *
 * IPv4 is public unless a row says otherwise; IPv6 is public only within 2000::/3 and where no row says otherwise. The
 * rows are those of IANA's registries of special-purpose addresses, the services that clouds answer at fixed addresses,
 * and every form in which an address of IPv6 carries one of IPv4, because a router may take it out again. Invariant:
 * what is judged are the bytes that connect(2) gets, never a spelling. */
#include "address.h"
#include "fd.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct address_row {
    uint8_t bits;
    uint8_t bytes[16];
    enum kr_eg_address_use use;
    const char *what;
};

#define RESERVED KR_EG_ADDRESS_RESERVED
#define NEVER KR_EG_ADDRESS_NEVER

/* The first that matches. */
/* clang-format off */
static const struct address_row rows_v4[] = {
    {8,  {0},                NEVER,    "an unspecified address"},
    {8,  {10},               RESERVED, "a private address"},
    {32, {100, 100, 100, 200}, RESERVED, "a cloud's metadata service"},
    {10, {100, 64},          RESERVED, "an address behind a carrier's NAT"},
    {8,  {127},              RESERVED, "a loopback address"},
    {32, {168, 63, 129, 16}, RESERVED, "a cloud's metadata service"},
    {32, {169, 254, 169, 254}, RESERVED, "a cloud's metadata service"},
    {16, {169, 254},         RESERVED, "a link-local address"},
    {12, {172, 16},          RESERVED, "a private address"},
    {24, {192, 0, 0},        RESERVED, "an address of protocols"},
    {24, {192, 0, 2},        RESERVED, "an address for documentation"},
    {24, {192, 88, 99},      RESERVED, "a 6to4 relay"},
    {16, {192, 168},         RESERVED, "a private address"},
    {15, {198, 18},          RESERVED, "an address for benchmarks"},
    {24, {198, 51, 100},     RESERVED, "an address for documentation"},
    {24, {203, 0, 113},      RESERVED, "an address for documentation"},
    {4,  {224},              NEVER,    "a multicast address"},
    {32, {255, 255, 255, 255}, NEVER,  "the broadcast address"},
    {4,  {240},              NEVER,    "a reserved address"},
};

static const struct address_row rows_v6[] = {
    {128, {0},                                              NEVER,    "an unspecified address"},
    {128, {[15] = 1},                                       RESERVED, "a loopback address"},
    {96,  {[10] = 0xff, 0xff},                              NEVER,    "an IPv4-mapped address"},
    {96,  {0},                                              NEVER,    "an IPv4-compatible address"},
    {96,  {[8] = 0xff, 0xff},                               NEVER,    "an IPv4-translated address"},
    {96,  {0x00, 0x64, 0xff, 0x9b},                         NEVER,    "a NAT64 address"},
    {48,  {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01},             NEVER,    "a local NAT64 address"},
    {64,  {0x01},                                           NEVER,    "a discard address"},
    {32,  {0x20, 0x01},                                     NEVER,    "a Teredo address"},
    {48,  {0x20, 0x01, 0x00, 0x02},                         RESERVED, "an address for benchmarks"},
    {28,  {0x20, 0x01, 0x00, 0x10},                         NEVER,    "an ORCHID address"},
    {28,  {0x20, 0x01, 0x00, 0x20},                         NEVER,    "an ORCHID address"},
    {23,  {0x20, 0x01},                                     RESERVED, "an address of protocols"},
    {32,  {0x20, 0x01, 0x0d, 0xb8},                         RESERVED, "an address for documentation"},
    {16,  {0x20, 0x02},                                     NEVER,    "a 6to4 address"},
    {20,  {0x3f, 0xff},                                     RESERVED, "an address for documentation"},
    {3,   {0x20},                                           KR_EG_ADDRESS_PUBLIC, NULL},
    {128, {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54},      RESERVED, "a cloud's metadata service"},
    {128, {0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54},      RESERVED, "a cloud's metadata service"},
    {7,   {0xfc},                                           RESERVED, "a private address"},
    {10,  {0xfe, 0x80},                                     RESERVED, "a link-local address"},
    {10,  {0xfe, 0xc0},                                     RESERVED, "a site-local address"},
    {8,   {0xff},                                           NEVER,    "a multicast address"},
    {0,   {0},                                              NEVER,    "an address that is not assigned"},
};
/* clang-format on */

static bool row_has(const struct address_row *row, const uint8_t *bytes)
{
    unsigned whole = row->bits / 8, rest = row->bits % 8;

    return memcmp(row->bytes, bytes, whole) == 0 &&
           (rest == 0 || ((row->bytes[whole] ^ bytes[whole]) >> (8 - rest)) == 0);
}

/* An address of IPv4 within an interface identifier (ISATAP, RFC 5214), under any prefix. */
static bool is_isatap(const uint8_t *bytes)
{
    return (bytes[8] & 0xfd) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe;
}

static enum kr_eg_address_use find_row(const struct address_row *rows, size_t count, const uint8_t *bytes,
                                       const char **ret_what)
{
    for (size_t i = 0; i < count; i++)
        if (row_has(&rows[i], bytes)) {
            *ret_what = rows[i].what;
            return rows[i].use;
        }
    *ret_what = NULL;
    return KR_EG_ADDRESS_PUBLIC;
}

enum kr_eg_address_use kr_eg_address_use(const struct sockaddr *address, const char **ret_what)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

    if (address->sa_family == AF_INET)
        return find_row(rows_v4, sizeof rows_v4 / sizeof *rows_v4, (const uint8_t *)&v4->sin_addr, ret_what);
    *ret_what = "an address that is not assigned";
    if (address->sa_family != AF_INET6)
        return KR_EG_ADDRESS_NEVER;
    if (is_isatap(v6->sin6_addr.s6_addr)) {
        *ret_what = "an ISATAP address";
        return KR_EG_ADDRESS_NEVER;
    }
    return find_row(rows_v6, sizeof rows_v6 / sizeof *rows_v6, v6->sin6_addr.s6_addr, ret_what);
}

/* ---- spelling ---- */

/* Would a reader of URLs take it for an address of IPv4? Its last part is a number, decimal or hexadecimal. */
static bool ends_in_number(const char *host)
{
    const char *part = strrchr(host, '.');

    part = part ? part + 1 : host;
    if (part[0] == '0' && (part[1] | 32) == 'x')
        return part[2 + strspn(part + 2, "0123456789abcdefABCDEF")] == '\0';
    return *part && part[strspn(part, "0123456789")] == '\0';
}

/* Labels of letters, digits, '-' and '_' with one dot between them. */
static bool is_host_name(const char *host)
{
    for (const char *p = host; *p; p++) {
        bool in_label = (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') || *p == '-' || *p == '_';

        if (!in_label && (*p != '.' || p == host || p[1] == '.' || p[1] == '\0'))
            return false;
    }
    return *host != '\0';
}

enum kr_eg_host_kind kr_eg_host_read(const char *host, struct sockaddr_storage *ret_address)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    char text[INET6_ADDRSTRLEN];

    if (strchr(host, ':')) {
        v6->sin6_family = AF_INET6;
        if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
            return KR_EG_HOST_BAD;
    } else if (ends_in_number(host)) {
        v4->sin_family = AF_INET;
        /* Compared as text, too: some versions of inet_pton(3) let leading zeros pass. */
        if (inet_pton(AF_INET, host, &v4->sin_addr) != 1 ||
            strcmp(kr_eg_address_text((struct sockaddr *)v4, text, sizeof text), host) != 0)
            return KR_EG_HOST_BAD;
    } else {
        return is_host_name(host) ? KR_EG_HOST_NAME : KR_EG_HOST_BAD;
    }
    *ret_address = address;
    return KR_EG_HOST_LITERAL;
}

const char *kr_eg_address_text(const struct sockaddr *address, char *buf, size_t size)
{
    const void *bytes = address->sa_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)address)->sin_addr;

    if (!inet_ntop(address->sa_family, bytes, buf, (socklen_t)size))
        snprintf(buf, size, "?");
    return buf;
}

void kr_eg_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

/* ---- this machine ---- */

/* Connecting a socket of UDP sends nothing, but makes the kernel choose a route. To an address of its own it chooses
 * that address as the source, too, or one of the loopback interface. */
static bool kernel_has(const struct sockaddr *address, socklen_t len)
{
    cleanup_fd int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } to = {.room = {0}}, from = {.room = {0}};
    socklen_t from_len = sizeof from;

    if (fd < 0)
        return errno != EAFNOSUPPORT;
    memcpy(&to, address, len);
    kr_eg_address_set_port(&to.room, 9);
    if (connect(fd, &to.any, len) < 0)
        return errno != ENETUNREACH && errno != EHOSTUNREACH && errno != EADDRNOTAVAIL;
    if (getsockname(fd, &from.any, &from_len) < 0)
        return true;
    if (address->sa_family == AF_INET)
        return from.v4.sin_addr.s_addr == to.v4.sin_addr.s_addr ||
               ntohl(from.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_ARE_ADDR_EQUAL(&from.v6.sin6_addr, &to.v6.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&from.v6.sin6_addr);
}

bool kr_eg_address_is_own(const struct sockaddr *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    struct sockaddr_in inner = {.sin_family = AF_INET};

    if (address->sa_family == AF_INET)
        return kernel_has(address, sizeof inner);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) || IN6_IS_ADDR_V4COMPAT(&v6->sin6_addr)) {
        memcpy(&inner.sin_addr, v6->sin6_addr.s6_addr + 12, 4);
        return kernel_has((struct sockaddr *)&inner, sizeof inner);
    }
    return kernel_has(address, sizeof *v6);
}
