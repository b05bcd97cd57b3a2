/* Between guard.c and guard_headers.c. */
#pragma once
#include <stdbool.h>

struct kr_guard;

/* Whether Access-Control-Allow-Credentials is configured. */
bool kr_guard_has_credentials(const struct kr_guard *g);
