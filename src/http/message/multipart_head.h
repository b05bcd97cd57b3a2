/* The header lines of one part of a multipart body, and the parameters of MIME headers; for multipart.c alone. */
#pragma once
#include <stddef.h>

struct kr_multipart_part;

/* Reads whole lines, each ended by CR LF, of len bytes; writes into them. Fills name, filename and content_type, which
 * point into text. 0, -EINVAL or -E2BIG with the reason in why. */
int kr_multipart_head(char *text, size_t len, struct kr_multipart_part *part, char *why, size_t why_size);
