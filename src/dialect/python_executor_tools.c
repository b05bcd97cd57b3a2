/* The tools of document 003 (python-executor): answers that are one text for people. Called through THE table of tools.
 *
 * execute_python is a fresh process in the sandbox `default`: files are kept, variables are not. A timeout out of
 * range is brought into it, which a second block says. */
#include "api.h"
#include "dialect_results.h"
#include "err.h"
#include "dialect_tools.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MAX 300
#define TEXT_SHOWN (KR_MCP_TEXT_MAX / 2)
#define CUT_MARK "\n[output was cut here]\n"

struct executor_args {
    struct kr_text code;
    int64_t timeout;
    uint8_t timeout_given;
};

/* clang-format off */
static const struct kr_api_field executor_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct executor_args, code), .required = true,
     .help = "Python to run.", .example = "print('Hello, World!')"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct executor_args, timeout),
     KR_API_GIVEN(struct executor_args, timeout_given), .nullable = true, .help = "Seconds, 1 to 300; without it: 60.",
     .example = "60"},
};
static const struct kr_api_table executor_table = KR_API_TABLE("PythonExecutorInput", "What to run.", executor_fields,
    struct executor_args);
/* clang-format on */

/* ---- execute_python ---- */

struct asked {
    int64_t asked, given; /* seconds */
};

static bool is_blank(const struct kr_buf *text)
{
    return !text->len || strspn(text->data, " \t\r\n\v\f") == text->len;
}

static void add_capped(struct kr_buf *out, const struct kr_buf *text)
{
    json_t *shown = kr_compat_text(text, SIZE_MAX, TEXT_SHOWN, false, CUT_MARK);

    kr_buf_add(out, json_string_value(shown), json_string_length(shown));
    json_decref(shown);
}

/* stdout, then stderr behind its mark, a line end between; or that there was nothing. */
static void write_output(struct kr_buf *out, const struct kr_mcp_outcome *o, const struct kr_buf *err)
{
    if (o->out.len)
        add_capped(out, &o->out);
    if (!is_blank(err)) {
        kr_buf_add_str(out, out->len ? "\n[STDERR]:\n" : "[STDERR]:\n");
        add_capped(out, err);
    }
}

static void write_all(struct kr_buf *out, const struct kr_mcp_outcome *o, const struct asked *a)
{
    cleanup_buf struct kr_buf err = {0};
    bool ours = o->cause != KR_CAUSE_OK && o->cause != KR_CAUSE_EXCEPTION && o->cause != KR_CAUSE_EXIT;
    json_t *reason;

    kr_buf_init(&err, 4 * KR_MCP_OUTPUT_MAX);
    if (!ours) {
        kr_compat_stderr(&err, o);
        write_output(out, o, &err);
        if (!out->len)
            kr_buf_add_str(out, "Code executed successfully (no output).");
        return;
    }
    if (o->cause == KR_CAUSE_TIMEOUT) {
        kr_buf_printf(out, "Error: Execution timed out after %" PRId64 " seconds", a->given);
    } else {
        reason = kr_compat_error(o);
        kr_buf_printf(out, "Error: %s", json_string_value(reason));
        json_decref(reason);
    }
    if (o->out.len || !is_blank(&o->err)) {
        struct kr_buf before;

        kr_buf_init(&before, 4 * KR_MCP_OUTPUT_MAX);
        write_output(&before, o, &o->err);
        kr_buf_add_str(out, "\n\nOutput until then:\n");
        kr_buf_add(out, kr_buf_str(&before), before.len);
        kr_buf_done(&before);
    }
}

static void render_executor(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    const struct asked *a = data;
    cleanup_buf struct kr_buf text = {0}, note = {0};

    kr_buf_init(&text, 8 * KR_MCP_OUTPUT_MAX);
    kr_buf_init(&note, 256);
    write_all(&text, o, a);
    if (a->asked != a->given)
        kr_buf_printf(&note, "[timeout: %" PRId64 " s was asked for, %" PRId64 " s was given; 1 to %d are allowed]",
                      a->asked, a->given, TIMEOUT_MAX);
    kr_compat_answer_text(c, kr_buf_str(&text), text.len, note.len ? kr_buf_str(&note) : NULL);
}

static void run_executor(struct kr_mcp_call *c, const void *args)
{
    const struct executor_args *a = args;
    struct asked *asked = calloc(1, sizeof *asked);
    int64_t own = (int64_t)(kr_compat_timeout(c, KR_DIALECT_PYTHON_EXECUTOR) / 1000);
    struct kr_mcp_run_spec spec = {
        .spec = {.sandbox = KR_STORE_DEFAULT, .fresh = true, .code = a->code},
        .render = render_executor,
        .free_data = free,
        .data = asked,
        .ask_client = true,
    };

    if (!asked) {
        kr_mcp_tool_refuse(c, "Error: out of memory");
        return;
    }
    asked->asked = a->timeout_given == KR_API_VALUE ? a->timeout : own;
    asked->given = asked->asked < 1 ? 1 : asked->asked > TIMEOUT_MAX ? TIMEOUT_MAX : asked->asked;
    spec.spec.timeout_ms = (uint64_t)asked->given * 1000;
    kr_mcp_run(c, &spec);
}

/* ---- reset_sandbox ---- */

static void run_reset(struct kr_mcp_call *c, const void *args)
{
    static const char good[] = "Sandbox environment has been reset successfully.";
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box *box = kr_mcp_api(c)->box;
    cleanup_buf struct kr_buf text = {0};
    struct kr_err err;

    (void)args;
    kr_buf_init(&text, 512);
    if (kr_box_sandbox_find(box, kr_mcp_caller(c), NULL, &s, &err) < 0 ||
        kr_box_sandbox_reset(box, kr_mcp_caller(c), s.row.id, &err) < 0)
        kr_buf_printf(&text, "Error: %s", kr_compat_reason(&err));
    else
        kr_buf_add_str(&text, good);
    kr_compat_answer_text(c, kr_buf_str(&text), text.len, NULL);
}

/* ---- get_sandbox_info ---- */

#define PROBE_MS 20000u

/* Prints one object, in a process of its own. */
static const char probe[] = "import json, sys\n"
                            "print(json.dumps({'version': sys.version.split()[0], 'prefix': sys.prefix}))\n";

/* What the probe printed, or NULL: it failed, or code in the sandbox's files made it print something else. */
static json_t *probed(const struct kr_mcp_outcome *o)
{
    json_t *found =
        o->cause == KR_CAUSE_OK ? json_loadb(kr_buf_str(&o->out), o->out.len, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

    if (json_is_string(json_object_get(found, "version")) && json_is_string(json_object_get(found, "prefix")))
        return found;
    json_decref(found);
    return NULL;
}

static void render_info(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *found = probed(o);
    cleanup_buf struct kr_buf text = {0};

    (void)data;
    kr_buf_init(&text, 4096);
    kr_buf_printf(&text,
                  "Sandbox Environment Info:\n- Python Version: Python %.64s\n- Environment Path: %.256s\n- Status: %s",
                  found ? json_string_value(json_object_get(found, "version")) : "(not known)",
                  found ? json_string_value(json_object_get(found, "prefix")) : "(not known)",
                  found ? "Initialized" : "Not initialized (code does not run in it)");
    json_decref(found);
    kr_compat_answer_text(c, kr_buf_str(&text), text.len, NULL);
}

static void run_info(struct kr_mcp_call *c, const void *args)
{
    struct kr_mcp_run_spec spec = {
        .spec = {.sandbox = KR_STORE_DEFAULT,
                 .fresh = true,
                 .code = {probe, sizeof probe - 1},
                 .own_code = true,
                 .input = {"", 0},
                 .timeout_ms = PROBE_MS},
        .render = render_info,
    };

    (void)args;
    kr_mcp_run(c, &spec);
}

const struct kr_mcp_tool kr_tool_python_executor_execute = {
    .name = "execute_python",
    .title = "Execute Python code",
    .description =
        "Runs Python in a fresh process: variables are not kept, files are. Answers with what it printed; what went to "
        "stderr, tracebacks among it, follows behind [STDERR]:. 60 seconds unless asked otherwise, 300 at most.",
    .dialects = KR_IN_PYTHON_EXECUTOR,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &executor_table,
    .run = run_executor,
};
const struct kr_mcp_tool kr_tool_python_executor_info = {
    .name = "get_sandbox_info",
    .title = "Tell about the sandbox",
    .description = "Tells the sandbox's Python version, where its environment is, and its status.",
    .dialects = KR_IN_PYTHON_EXECUTOR,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .run = run_info,
};
const struct kr_mcp_tool kr_tool_python_executor_reset = {
    .name = "reset_sandbox",
    .title = "Reset the sandbox",
    .description = "Empties the sandbox: its files, its sessions and its packages are gone.",
    .dialects = KR_IN_PYTHON_EXECUTOR,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .run = run_reset,
};
