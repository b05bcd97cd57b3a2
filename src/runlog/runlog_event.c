/* Events of a run's log as JSON lines.
 *
 * Called by the voices that speak krait's own stream. Invariant: one event is one JSON object on one line, whatever a
 * session has printed. */
#include "buf.h"
#include "json.h"
#include "runlog.h"
#include <errno.h>
#include <string.h>

/* clang-format off */
const char *const kr_event_names[KR_EVENT_MAX_] = {
    [KR_EVENT_QUEUED] = "queued",   [KR_EVENT_STARTED] = "started", [KR_EVENT_STDOUT] = "stdout",
    [KR_EVENT_STDERR] = "stderr",   [KR_EVENT_DISPLAY] = "display", [KR_EVENT_RESULT] = "result",
    [KR_EVENT_ERROR] = "error",     [KR_EVENT_INPUT] = "input",     [KR_EVENT_NOTICE] = "notice",
    [KR_EVENT_CUT] = "cut",         [KR_EVENT_END] = "end",
};
/* clang-format on */

static int add_text(struct kr_buf *out, const struct kr_event *e)
{
    struct kr_json j;

    kr_buf_add_str(out, ",\"text\":");
    kr_json_init(&j, out);
    kr_json_str_n(&j, e->data, e->len);
    return kr_json_done(&j);
}

static int add_whole(struct kr_buf *out, const char *key, const struct kr_event *e)
{
    kr_buf_printf(out, ",\"%s\":", key);
    return e->len ? kr_buf_add(out, e->data, e->len) : kr_buf_add_str(out, "null");
}

/* The members of an object that the server's own writer has made; anything else goes in whole as `data`. */
static int add_members(struct kr_buf *out, const struct kr_event *e)
{
    if (e->len < 2 || e->data[0] != '{' || e->data[e->len - 1] != '}')
        return add_whole(out, "data", e);
    if (e->len == 2)
        return 0;
    kr_buf_add_str(out, ",");
    return kr_buf_add(out, e->data + 1, e->len - 2);
}

int kr_event_json(struct kr_buf *out, const struct kr_event *e)
{
    int r = 0;

    kr_buf_printf(out, "{\"seq\":%llu,\"type\":\"%s\"", (unsigned long long)e->seq, kr_event_names[e->type]);
    if (e->type == KR_EVENT_CUT)
        r = kr_buf_printf(out, ",\"first\":%llu,\"last\":%llu,\"bytes\":%llu", (unsigned long long)e->cut.first,
                          (unsigned long long)e->cut.last, (unsigned long long)e->cut.bytes);
    else if (e->type == KR_EVENT_STDOUT || e->type == KR_EVENT_STDERR)
        r = add_text(out, e);
    else if (e->type == KR_EVENT_ERROR) /* an exception has a type of its own */
        r = add_whole(out, "error", e);
    else
        r = add_members(out, e);
    if (r < 0)
        return r;
    return kr_buf_add_str(out, "}");
}
