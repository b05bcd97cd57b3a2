/* What the table of routes needs at its gate. */
#pragma once
#include "http.h"

/* Bytes of a body with code, unless it is configured. */
#define KR_API_CODE_MAX (16u << 20)
/* A row's flag: its bodies may be as large as kr_api_config.max_body, whatever the row says. */
#define KR_API_CONFIGURED_BODY KR_HTTP_APP_FLAG(0)

/* For kr_http_config.gate; `app` is the struct kr_api. Body limits of the configuration, then kr_auth_gate(). */
bool kr_api_gate(void *app, struct kr_http_ex *ex);
