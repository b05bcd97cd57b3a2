/* What a dialect's document fixes about settings. One row each, in the words of the configuration. */
#pragma once
#include "dialect.h"
#include <stddef.h>

/* A setting that a dialect's document fixes otherwise than krait does. */
struct kr_dialect_default {
    enum kr_dialect dialect;
    const char *flag;  /* of the setting */
    const char *value; /* as in a file */
};
extern const struct kr_dialect_default kr_dialect_defaults[];
extern const size_t kr_dialect_defaults_count;

/* What the dialect says of this setting, or NULL: then krait's own default holds. */
const char *kr_dialect_default(enum kr_dialect dialect, const char *flag);
