/* How far a word is from a name: for "did you mean …?". */
#pragma once

#define KR_NEAREST_MAX 64u /* bytes; longer words are far from everything */

/* Letters to change, add or leave out; at most KR_NEAREST_MAX. */
unsigned kr_edit_distance(const char *a, const char *b);
