/* krait-engine: the engine driven by lines of JSON (docs/design/engine.md), for the suites that test cells and sessions
 * without a server.
 *
 * Theory: the same two processes as `krait run`. This file turns options into the warden's configuration and launches
 * it; engine_app.c and engine_ops.c are the engine's side. */
#include "engine_app.h"
#include "exit_status.h"
#include "fd.h"
#include "launch.h"
#include "stand_in.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct engine_options {
    struct kr_cli_common common;
    const char *preload, *workspace, *shelf, *packages;
    bool read_only, egress;
    uint64_t pool, rotate, stock, max_cells, user_memory;
};

/* clang-format off */
#define AT(field) offsetof(struct engine_options, field)
static const struct kr_opt_row rows[] = {
    { .name = "preload", .type = KR_OPT_TEXT, .offset = AT(preload), .value = "LIST", .fallback = "basic",
      .example = "basic,data",
      .help = "Zygotes to start." },
    { .name = "pool", .type = KR_OPT_NUMBER, .offset = AT(pool), .value = "N", .max = 1000, .fallback = "0",
      .example = "2",
      .help = "Sessions kept parked per zygote." },
    { .name = "workspace", .type = KR_OPT_TEXT, .offset = AT(workspace), .value = "DIR", .example = ".",
      .help = "The folder that \"workspace\":0 means." },
    { .name = "read-only", .type = KR_OPT_FLAG, .offset = AT(read_only), .example = "--read-only",
      .help = "That folder cannot be changed from inside." },
    { .name = "shelf", .type = KR_OPT_TEXT, .offset = AT(shelf), .value = "DIR", .example = "/tmp/shelf",
      .help = "The folder of sandboxes' folders, one of which \"venv\" names." },
    { .name = "packages", .type = KR_OPT_TEXT, .offset = AT(packages), .value = "DIR", .example = "/tmp/store",
      .help = "The store of unpacked wheels that cells see at /krait/packages." },
    { .name = "egress", .type = KR_OPT_FLAG, .offset = AT(egress), .example = "--egress",
      .help = "A stand-in for the egress process, which answers every connection by itself." },
    { .name = "rotate", .type = KR_OPT_NUMBER, .offset = AT(rotate), .value = "N", .max = UINT32_MAX,
      .fallback = "the warden's own",
      .example = "1000", .help = "Forks before a zygote is replaced; 0 is never." },
    { .name = "stock", .type = KR_OPT_NUMBER, .offset = AT(stock), .value = "N", .max = 1000,
      .fallback = "the warden's own", .example = "4",
      .help = "Ready cells kept per zygote." },
    { .name = "max-cells", .type = KR_OPT_NUMBER, .offset = AT(max_cells), .value = "N", .min = 1, .max = 100000,
      .fallback = "the warden's own", .example = "500", .help = "Live cells at most." },
    { .name = "user-memory", .type = KR_OPT_NUMBER, .offset = AT(user_memory), .value = "N", .max = UINT64_C(1) << 50,
      .fallback = "no groups of users", .example = "268435456",
      .help = "Bytes that the sessions of one \"owner\" may have together." },
    KR_CLI_COMMON_ROWS(struct engine_options),
};
/* clang-format on */

static const struct kr_opt_table options_table = {
    .command = "engine",
    .usage = "[options]",
    .about = "Reads one JSON request a line on stdin and writes one event a line on stdout: open, run, interrupt, "
             "reply, close, info. "
             "For tests and measurements; not a stable interface.",
    .notes = "Example: echo '{\"id\":1,\"op\":\"info\"}' | build/tests/krait-engine",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

#define UNSET UINT64_MAX

/* "basic,data" */
static int add_zygotes(const struct engine_options *o, struct kr_warden_config *config, struct kr_engine_config *engine,
                       struct kr_err *err)
{
    const char *p = o->preload;

    while (*p) {
        size_t len = strcspn(p, ",");
        int found = -1;

        for (int i = 0; kr_cli_preloads[i]; i++)
            if (strlen(kr_cli_preloads[i]) == len && strncmp(kr_cli_preloads[i], p, len) == 0)
                found = i;
        if (found < 0)
            return kr_err_set(err, KR_ERR_INVALID, 0,
                              "--preload: \"%.40s\" is not a list of basic and data; for example basic,data",
                              o->preload);
        if (config->zygote_count == KR_ZYGOTES_MAX || engine->zygote_count == KR_ENGINE_ZYGOTES_MAX)
            return kr_err_set(err, KR_ERR_INVALID, 0, "--preload: %d zygotes at most", KR_ZYGOTES_MAX);
        kr_cli_add_zygote(&o->common, config, (enum kr_preload)found);
        engine->preloads[engine->zygote_count++] = (enum kr_preload)found;
        p += len;
        p += *p == ',';
    }
    return 0;
}

static int prepare(const struct engine_options *o, struct kr_warden_config *config, struct kr_engine_config *engine,
                   char **ret_path, struct kr_err *err)
{
    int r = kr_cli_common_apply(&o->common, config, err);

    if (r >= 0)
        r = add_zygotes(o, config, engine, err);
    if (r >= 0 && o->workspace)
        r = kr_cli_add_workspace(config, o->workspace, o->read_only, ret_path, err);
    if (r < 0)
        return r;
    if (*ret_path) {
        engine->workspaces[0].path = *ret_path;
        engine->workspaces[0].read_only = o->read_only;
        engine->workspace_count = 1;
    }
    engine->pool_size = (uint32_t)o->pool;
    engine->egress = o->egress;
    engine->shelf = o->shelf;
    config->shelf = (struct kr_shelf_config){.path = o->shelf, .choice = KR_SHELF_FOLDER};
    config->packages = o->packages;
    config->egress = o->egress ? kr_stand_in_main : NULL;
    if (o->rotate != UNSET) {
        config->rotate_after = (uint32_t)o->rotate;
        config->rotate_rest_ms = 0; /* exactly then */
    }
    if (o->stock != UNSET)
        config->stock = (uint32_t)o->stock;
    if (o->user_memory != UNSET) {
        config->user_groups = 1;
        config->user_memory = o->user_memory;
    }
    if (o->max_cells != UNSET)
        config->max_cells = (uint32_t)o->max_cells;
    return 0;
}

int main(int argc, char **argv)
{
    struct engine_options options = {
        .preload = "basic", .rotate = UNSET, .stock = UNSET, .max_cells = UNSET, .user_memory = UNSET};
    struct kr_engine_app app = {.outlet = -1};
    struct kr_warden_config config;
    cleanup_free char *path = NULL;
    struct kr_err err;
    int operand, r;

    kr_cli_common_default(&options.common);
    r = kr_opt_parse(&options_table, argc, argv, &options, &operand, &err);
    if (r == KR_OPT_HELP) {
        kr_opt_help(&options_table, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (r >= 0 && operand < argc)
        r = kr_err_set(&err, KR_ERR_INVALID, 0, "\"%.60s\" is too much; only options may be given", argv[operand]);
    if (r >= 0)
        r = prepare(&options, &config, &app.config, &path, &err);
    if (r >= 0)
        r = kr_warden_launch(&config, kr_engine_app_main, &app, &err);
    if (r >= 0)
        return r;
    fprintf(stderr, "krait-engine: %s\n", err.msg);
    return kr_err_row((enum kr_err_kind)err.kind)->exit_status;
}
