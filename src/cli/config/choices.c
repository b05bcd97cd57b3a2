/* Words that options and settings may be, beside the enums they stand for.
 *
 * Used by the tables of the commands. Invariant: the index of a word is the value of its enum. */
#include "choices.h"
#include "config.h"
#include "log.h"
#include "proto.h"
#include <assert.h>
#include <stddef.h>

const char *const kr_cli_levels[] = {"root", "user", "contained", NULL};
const char *const kr_cli_log_levels[] = {"error", "warn", "info", "debug", NULL};
const char *const kr_cli_preloads[] = {"basic", "data", NULL};
const char *const kr_cli_networks[] = {"none", "loopback", NULL};
const char *const kr_cli_tools[] = {"all", "core", NULL};
const char *const kr_cli_transports[] = {"http", "stdio", NULL};
const char *const kr_cli_shelves[] = {"auto", "image", "folder", NULL}; /* enum kr_shelf_choice */
static_assert(sizeof kr_cli_levels / sizeof *kr_cli_levels == KR_LEVEL_MAX_ + 1, "every level can be asked for");
static_assert(sizeof kr_cli_log_levels / sizeof *kr_cli_log_levels == KR_LOG_MAX_ + 1, "every log level has its word");
static_assert(sizeof kr_cli_preloads / sizeof *kr_cli_preloads == KR_PRELOAD_MAX_ + 1, "every preload has its word");
static_assert(sizeof kr_cli_tools / sizeof *kr_cli_tools == KR_TOOLS_MAX_ + 1, "every choice of tools has its word");
static_assert(sizeof kr_cli_transports / sizeof *kr_cli_transports == KR_TRANSPORT_MAX_ + 1, "so has every transport");
static_assert(sizeof kr_cli_networks / sizeof *kr_cli_networks == KR_NET_EGRESS_MIN_ + 1, "every network has its word");
