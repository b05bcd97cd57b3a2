/* Reading a password: from a terminal without echo, twice; else one line of stdin. */
#pragma once
#include "err.h"
#include "password.h"
#include <stddef.h>

/* 0 and the password, NUL terminated (the caller wipes it); or -EINVAL (empty, too long, not the same twice), -EINTR,
 * -errno. */
int kr_secret_read(const char *what, char ret_text[KR_PASSWORD_MAX + 1], size_t *ret_len, struct kr_err *err);
