/* Output as a terminal shows it at the end: what carriage returns and backspaces have written over is gone. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_buf;

/* Is there anything to fold? One pass over the bytes. */
bool kr_fold_needed(const char *text, size_t len);
/* Appends the text with every line in its last state. Lines without a carriage return (but before their end), backspace
 * or erasing sequence are as they were. Valid UTF-8 stays valid. Linear time; memory of a line's characters. 0, or
 * -ENOMEM and -ENOBUFS, after which the text is as far as it came. */
int kr_fold_text(struct kr_buf *out, const char *text, size_t len);
/* Where in the text the line begins that is at byte `at` of what kr_fold_text() makes of it. */
size_t kr_fold_source(const char *text, size_t len, size_t at);
