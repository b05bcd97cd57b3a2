/* The Accept header of a request. Pure. */
#pragma once

/* How much that type ("text/html") is wanted, in thousandths: 0 if it is not named outright (`*`, `text/` and the like
 * do not count: they are what programs send that do not care) or refused by q=0. `accept` may be NULL. */
unsigned kr_api_accepts(const char *accept, const char *type);
