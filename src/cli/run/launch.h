/* What the commands that need cells have in common: their options, the warden's configuration, the loop. */
#pragma once
#include "cell_options.h"
#include "choices.h"
#include "landlock.h"
#include "options.h"
#include "warden.h"

/* The rows of these options in the table of a command whose struct has them at `common`. */
/* clang-format off */
#define KR_CLI_COMMON_ROWS(of_)                                                                                       \
    { .name = "python", .type = KR_OPT_TEXT, .offset = offsetof(of_, common.python), .value = "PATH",                 \
      .fallback = "/usr/bin/python3", .example = "/usr/bin/python3.11", .help = "The interpreter." },                  \
    { .name = "level", .type = KR_OPT_CHOICE, .offset = offsetof(of_, common.level), .value = "LEVEL",                \
      .choices = kr_cli_levels, .fallback = "the best this machine gives", .example = "user",                          \
      .help = "Insist on a level: root, user or contained. What it cannot give is refused, never left out." },         \
    { .name = "allow-contained", .type = KR_OPT_FLAG, .offset = offsetof(of_, common.allow_contained),                \
      .example = "--allow-contained",                                                                                  \
      .help = "Allow the level `contained` where no namespace can be made: Landlock, seccomp and rlimits only." },     \
    { .name = "log-level", .type = KR_OPT_CHOICE, .offset = offsetof(of_, common.log_level), .value = "LEVEL",        \
      .choices = kr_cli_log_levels, .fallback = "warn", .example = "debug",                                            \
      .help = "Lines on stderr about krait itself: error, warn, info or debug." },                                     \
    { .name = "verbose", .letter = 'v', .type = KR_OPT_FLAG, .offset = offsetof(of_, common.verbose),                 \
      .example = "-v", .help = "The same as --log-level info." }
/* clang-format on */

void kr_cli_common_default(struct kr_cli_common *c);
/* Sets the log level and fills the warden's configuration; the zygotes are the caller's to add. 0 or -errno with a
 * line for a person. */
int kr_cli_common_apply(const struct kr_cli_common *c, struct kr_warden_config *ret, struct kr_err *err);
/* Adds a zygote of this preload. */
void kr_cli_add_zygote(const struct kr_cli_common *c, struct kr_warden_config *config, enum kr_preload preload);
/* Adds a host folder; *ret_path (to be freed) is its real path. 0 or -errno. */
int kr_cli_add_workspace(struct kr_warden_config *config, const char *path, bool read_only, char **ret_path,
                         struct kr_err *err);
/* Takes from the engine what it does not need: files beyond these paths, and system calls beyond the server's rows. For
 * the calling thread and those it starts, so before there is another. 0 or -errno. */
int kr_cli_confine(const struct kr_landlock_path *paths, size_t count, struct kr_err *err);
/* The same for an engine that has no data of its own: what every user may read of the system, and one folder to count,
 * by descriptor (-1: none) or path (NULL: none); and a cache to write to, NULL: none. */
int kr_cli_confine_engine(int folder, const char *path, const char *cache, struct kr_err *err);
/* The path by which this process reaches a folder that it holds open. */
void kr_cli_folder_path(int folder, char *buf, size_t size);
/* What an engine process does first: signals as the loop wants them, its name in log lines. */
void kr_cli_engine_begin(void);
