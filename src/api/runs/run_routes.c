/* Runs: POST /api/v1/runs is our own stream; reading, following, cancelling and answering runs by id.
 *
 * Called through the route table. The rows below are the fields of requests and replies, and the text of the docs. */
#include "run_routes.h"
#include "json.h"
#include "body_read.h"
#include "import_name.h"
#include "reply.h"
#include "run_start.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The table fills the run's specification; the rest becomes a part of it in create(). */
struct run_request {
    struct kr_run_spec spec;
    double timeout;
    bool stream;
};

/* clang-format off */
static const struct kr_api_field run_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct run_request, spec.code), .required = true,
     .help = "Python to run. The value of a last expression is the result.", .example = "print(6 * 7)"},
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct run_request, spec.session), .nullable = true,
     KR_API_LENGTH(1, 128), .aliases = (const char *const[]){"session", NULL},
     .help = "The session whose variables it sees; made if it is not there. Without it: `main`.",
     .example = "analysis"},
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct run_request, spec.sandbox), .nullable = true,
     KR_API_LENGTH(1, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "The sandbox, by id or name. Without it: `default`.", .example = "default"},
    {.name = "fresh", .type = KR_API_BOOL, KR_API_AT(struct run_request, spec.fresh), .def = "false", .nullable = true,
     .help = "A new session of its own that ends with the run.", .example = "true"},
    {.name = "stdin", .type = KR_API_TEXT, KR_API_AT(struct run_request, spec.input), .nullable = true,
     .help = "What input() and sys.stdin read.", .example = "Ada\n"},
    {.name = "interactive", .type = KR_API_BOOL, KR_API_AT(struct run_request, spec.interactive), .def = "false",
     .nullable = true,
     .help = "input() becomes an `input` line, answered by POST /api/v1/runs/{run_id}/input.", .example = "false"},
    {.name = "variables", .type = KR_API_OBJECT, KR_API_AT(struct run_request, spec.variables), .nullable = true,
     .help = "Set as variables before the code runs.", .example = "{\"n\":3}"},
    {.name = "env", .type = KR_API_MAP, KR_API_AT(struct run_request, spec.env), .nullable = true, KR_API_LENGTH(0, 64),
     .help = "Environment variables of this run alone. Values are in no log.", .example = "{\"MODE\":\"test\"}"},
    {.name = "network", .type = KR_API_STRING, KR_API_AT(struct run_request, spec.network), .nullable = true,
     KR_API_LENGTH(1, KR_NET_RULE_ROOM - 1),
     .help = "A network rule for this run, at most the sandbox's own: none, loopback, index, allow:HOST,… or open.",
     .example = "none"},
    {.name = "policy", .type = KR_API_STRING, KR_API_AT(struct run_request, spec.asks.policy), .nullable = true,
     KR_API_LENGTH(1, 32),
     .help = "open; or restricted: judged before it runs and watched while it runs. A run can only narrow what its "
             "sandbox has.",
     .example = "restricted"},
    {.name = "profiles", .type = KR_API_STRINGS, KR_API_AT(struct run_request, spec.asks.profiles), .nullable = true,
     KR_API_LENGTH(0, KR_POLICY_PROFILE_MAX_), .choices = kr_policy_profile_names,
     .help = "Under restricted: what it may import, reach and write. In a session that is there already: its own.",
     .example = "[\"basic\"]"},
    {.name = "allowed_imports", .type = KR_API_STRINGS, KR_API_AT(struct run_request, spec.asks.allowed_imports),
     .nullable = true, KR_API_LENGTH(0, KR_POLICY_IMPORTS_MAX),
     .help = "Modules that it may import, in the place of those of the profiles.", .example = "[\"math\"]"},
    {.name = "timeout", .type = KR_API_NUMBER, KR_API_AT(struct run_request, timeout), .nullable = true,
     KR_API_RANGE(0, 86400), .ceiling = KR_API_CEILING_TIMEOUT,
     .help = "Seconds of wall time; 0 and absent: the sandbox's limit.", .example = "10"},
    {.name = "max_output", .type = KR_API_INT, KR_API_AT(struct run_request, spec.output_cap), .nullable = true,
     KR_API_RANGE(1, 1 << 30), .help = "Bytes of output kept; the rest is cut with a mark.", .example = "100000"},
    {.name = "readable", .type = KR_API_BOOL, KR_API_AT(struct run_request, spec.readable), .def = "false",
     .nullable = true,
     .help = "A model reads it: displays have their text as `text/vnd.krait.readable`, SVG and plotly figures a PNG.",
     .example = "true"},
    {.name = "stream", .type = KR_API_BOOL, KR_API_AT(struct run_request, stream), .def = "true", .nullable = true,
     .help = "false: one JSON object when the run has ended, and leaving cancels it.", .example = "false"},
};
static const struct kr_api_table run_table = KR_API_TABLE("RunRequest", "What to run, and where.", run_fields,
    struct run_request);

#define ID_PROPS \
    {.name = "run_id", .type = KR_API_STRING, .help = "The run.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"}, \
    {.name = "session_id", .type = KR_API_STRING, .help = "Its session.", .example = "main"}, \
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "Its sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"}
#define END_PROPS \
    {.name = "cause", .type = KR_API_STRING, .help = "How it ended: one of thirteen words.", .example = "ok"}, \
    {.name = "exit_code", .type = KR_API_INT, .help = "As a program's exit status; -1 if it never ran.", \
     .example = "0"}, \
    {.name = "message", .type = KR_API_STRING, .nullable = true, \
     .help = "What a person should know beyond the cause.", .example = "the run took longer than 10 s"}, \
    {.name = "result", .type = KR_API_TEXT, .nullable = true, \
     .help = "repr of the last expression's value, or of the variable `result`.", .example = "42"}, \
    {.name = "error", .type = KR_API_OBJECT, .nullable = true, \
     .help = "The exception: type, message, traceback, line.", \
     .example = "{\"type\":\"ValueError\",\"message\":\"no\",\"traceback\":\"…\",\"line\":1}"}, \
    {.name = "variables", .type = KR_API_STRINGS, .help = "Names that it bound.", .example = "[\"x\"]"}, \
    {.name = "truncated", .type = KR_API_BOOL, .help = "Output was cut.", .example = "false"}, \
    {.name = "limits_hit", .type = KR_API_STRINGS, .help = "Limits that were hit, also when survived.", \
     .example = "[]"}, \
    {.name = "wall_s", .type = KR_API_NUMBER, .help = "Seconds it took.", .example = "0.012"}, \
    {.name = "cpu_s", .type = KR_API_NUMBER, .nullable = true, .help = "Seconds of CPU.", .example = "0.01"}, \
    {.name = "peak_memory_bytes", .type = KR_API_INT, .nullable = true, .help = "Most memory its cell has had.", \
     .example = "31457280"}, \
    {.name = "output_bytes", .type = KR_API_INT, .help = "All it wrote, also what was cut.", .example = "3"}, \
    {.name = "background", .type = KR_API_INT, .nullable = true, \
     .help = "Processes that still run in its session; null where nothing counts them, or it has ended.", \
     .example = "0"}, \
    {.name = "hint", .type = KR_API_TEXT, .nullable = true, .help = "One line on what to do next.", \
     .example = "there is no module pandsa; did you mean pandas?"}, \
    {.name = "session_alive", .type = KR_API_BOOL, .help = "Its variables are still there.", .example = "true"}, \
    {.name = "session_restarted", .type = KR_API_BOOL, \
     .help = "Its session is a new one under an old name: earlier variables are gone.", .example = "false"}, \
    {.name = "session_notice", .type = KR_API_TEXT, .optional = true, \
     .help = "What happened to its session since the run before.", \
     .example = "between two runs: disk limit of 8 MiB reached: the program was killed"}, \
    {.name = "session_frozen", .type = KR_API_BOOL, .optional = true, \
     .help = "Its session had used up `background_cpu` between two runs and was frozen until this one.", \
     .example = "false"}, \
    {.name = "started_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"}, \
    {.name = "ended_at", .type = KR_API_NUMBER, .optional = true, .help = "Unix time.", .example = "1763200000.2"}, \
    {.name = "files", .type = KR_API_ARRAY, .help = "Files it made, changed or deleted: path, change, size.", \
     .example = "[{\"path\":\"a.txt\",\"change\":\"created\",\"size\":2}]"}, \
    {.name = "files_incomplete", .type = KR_API_BOOL, \
     .help = "There may be others, or files among them that were stored from outside while the run began.", \
     .example = "false"}, \
    {.name = "findings", .type = KR_API_ARRAY, .optional = true, \
     .help = "Why the policy refused the code before it ran: id, line, column, end_line, end_column, text, why.", \
     .example = "[{\"id\":\"P101\",\"line\":1,\"column\":8,\"end_line\":1,\"end_column\":10," \
                "\"text\":\"Import 'os' is not allowed\",\"why\":\"the module is not in the list\"}]"}, \
    {.name = "refused", .type = KR_API_ARRAY, .optional = true, \
     .help = "What the policy refused while it ran, also if the code went on: id, line, text.", \
     .example = "[{\"id\":\"P202\",\"line\":3,\"text\":\"Attribute '__class__' is not allowed\"}]"}, \
    {.name = "analysis", .type = KR_API_OBJECT, .optional = true, \
     .help = "Of code that was judged and not run: its figures.", \
     .example = "{\"line_count\":2,\"character_count\":31,\"estimated_complexity\":\"low\"}"}, \
    {.name = "recommendations", .type = KR_API_STRINGS, .optional = true, \
     .help = "Of code that was judged and not run: what its author could do.", .example = "[]"}

static const struct kr_api_prop outcome_props[] = {
    {.name = "stdout", .type = KR_API_TEXT, .help = "What it wrote to stdout.", .example = "42\n"},
    {.name = "stderr", .type = KR_API_TEXT, .help = "What it wrote to stderr.", .example = ""},
    {.name = "displays", .type = KR_API_ARRAY, .help = "Figures, tables: {data: {type: content}, metadata}.",
     .example = "[]"},
    {.name = "log_cut", .type = KR_API_BOOL, .help = "The middle of the log is missing.", .example = "false"},
    ID_PROPS, END_PROPS,
};
const struct kr_api_schema kr_api_run_outcome_schema = KR_API_SCHEMA("RunOutcome", "A run that has ended, whole.",
    outcome_props);

static const char *const line_types[] = {"queued", "started", "stdout", "stderr", "display", "result", "error", "input",
    "notice", "cut", "end", NULL};
static const struct kr_api_prop line_props[] = {
    {.name = "seq", .type = KR_API_INT, .help = "1, 2, 3 …: say the next one to go on from there.", .example = "2"},
    {.name = "type", .type = KR_API_ENUM, .choices = line_types, .help = "What it is.", .example = "stdout"},
    {.name = "text", .type = KR_API_TEXT, .optional = true, .help = "Of stdout, stderr and result.", .example = "42\n"},
    {.name = "behind", .type = KR_API_STRING, .optional = true,
     .help = "Of queued: the run that its session executes.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "behind_asks", .type = KR_API_BOOL, .optional = true,
     .help = "Of queued: that run waits for a line of input.", .example = "false"},
};
const struct kr_api_schema kr_api_run_line_schema = {.name = "RunLine",
    .help = "One line of a run's log; `end` is the last.",
    .props = line_props, .count = sizeof line_props / sizeof *line_props, .open = true};

static const struct kr_api_header run_headers[] = {
    {"X-Run-Id", "The run's id.", "01hv5k8m2nq7r9t3w6x8y0z2a4"}, {"X-Session-Id", "Its session.", "main"}, {0}};
static const struct kr_api_response create_responses[] = {
    {200, "The run's log, line by line as it happens; or (`stream` false) its outcome.", "application/x-ndjson",
     &kr_api_run_line_schema,
     "{\"seq\":2,\"type\":\"stdout\",\"text\":\"42\\n\"}", run_headers},
    {200, "The same as server-sent events, by Accept.", "text/event-stream", &kr_api_run_line_schema,
     "{\"seq\":2,\"type\":\"stdout\",\"text\":\"42\\n\"}", NULL},
    {200, "Its outcome.", "application/json", &kr_api_run_outcome_schema, NULL, NULL},
    {0}};
const struct kr_api_doc kr_api_runs_create_doc = {
    .id = "create_run", .tag = "runs", .summary = "Run code",
    .description = "Runs Python in a session of a sandbox and streams what happens. Always closed by an `end` line "
      "that names its cause. "
                   "A stream that is cut can be picked up again with GET /api/v1/runs/{run_id}/events?from=N for 60 "
                   "seconds while it runs, and as long as its log is kept afterwards.",
    .voice = KR_API_KRAIT, .needs = KR_RIGHT_RUN, .body = &run_table,
    .body_example = "{\"code\":\"print(6 * 7)\",\"stream\":false}", .responses = create_responses};
/* clang-format on */

/* ---- create ---- */

#define HOW_STREAM 1u

void kr_api_write_outcome(struct kr_buf *buf, const struct kr_outcome *o, bool with_output)
{
    struct kr_json j;

    kr_json_init(&j, buf);
    kr_json_object(&j);
    kr_json_key(&j, "stdout");
    kr_json_str_n(&j, kr_buf_str(&o->out), with_output ? o->out.len : 0);
    kr_json_key(&j, "stderr");
    kr_json_str_n(&j, kr_buf_str(&o->err), with_output ? o->err.len : 0);
    kr_json_key_bool(&j, "log_cut", o->cut || !with_output);
    kr_buf_add_str(buf, ",\"displays\":[");
    kr_buf_add(buf, kr_buf_str(&o->displays), with_output ? o->displays.len : 0);
    kr_buf_add_str(buf, "]");
    if (o->end.len > 2) { /* the members of the end's object, and its brace */
        kr_buf_add_str(buf, ",");
        kr_buf_add(buf, o->end.data + 1, o->end.len - 1);
    } else {
        kr_buf_add_str(buf, "}");
    }
}

static void on_admitted(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id,
                        unsigned how)
{
    if (how & HOW_STREAM)
        kr_api_follow(api, ex, log, run_id, 0, kr_api_form_of(ex, false));
    else
        kr_api_collect(api, ex, log, run_id, false, kr_api_write_outcome);
}

static void create_run(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct kr_api *api = app;
    struct run_request *q = request;
    struct kr_api_who who;

    (void)in;
    q->spec.interactive &= !q->spec.input.text;
    q->spec.timeout_ms = (uint64_t)(q->timeout * 1000 + 0.999); /* 0 alone is 0 */
    q->spec.leave_cancels = !q->stream;
    q->spec.install_call = q->spec.sandbox
                               ? "POST /api/v1/sandboxes/{sandbox_id}/packages {\"packages\":[\"" KR_IMPORT_NAME "\"]}"
                               : "POST /api/v1/sandboxes/default/packages {\"packages\":[\"" KR_IMPORT_NAME "\"]}";
    if (kr_api_caller(api, ex, &who))
        kr_api_start(api, ex, &who, &q->spec, on_admitted, q->stream ? HOW_STREAM : 0);
}

void kr_api_runs_create(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &run_table, create_run);
}
