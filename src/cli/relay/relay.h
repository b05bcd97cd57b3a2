/* `krait mcp --connect URL`: stdin and stdout on one side, a server's /mcp on the other. */
#pragma once

struct kr_err;

/* Relays until stdin ends or the server cannot be reached. key may be NULL. The exit status, or -errno with err: the
 * URL is none we can use. Blocks. */
int kr_relay_run(const char *url, const char *key, struct kr_err *err);
