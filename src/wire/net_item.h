/* One item of an allow rule, read from its text. Pure. Called by net_rule.c. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Points into the text of the rule. */
struct kr_net_item {
    const char *methods; /* "GET|HEAD"; methods_len 0: all */
    const char *host;    /* without "*." */
    const char *path;    /* without "*"; path_len 0: all */
    size_t methods_len, host_len, path_len;
    uint16_t port;   /* 0: 80 and 443 */
    bool wild;       /* names below host */
    bool plain;      /* requests of plain HTTP alone */
    bool whole_path; /* path is all of it, no beginning */
};

/* Reads the item in text[0..len): host in lower case. 0, or negative with err. */
int kr_net_item_read(const char *text, size_t len, struct kr_net_item *ret_item, struct kr_err *err);
/* Text of an item as it is kept: the host in lower case. In place. */
void kr_net_item_lower(char *text, size_t len);
bool kr_net_item_has_host(const struct kr_net_item *item, const char *host);
bool kr_net_item_has_port(const struct kr_net_item *item, uint16_t port);
bool kr_net_item_has_method(const struct kr_net_item *item, const char *method, size_t len);
bool kr_net_item_has_path(const struct kr_net_item *item, const char *path);
/* Whether `wide` allows what `item` allows at this one port. */
bool kr_net_item_covers(const struct kr_net_item *wide, const struct kr_net_item *item, uint16_t port);
