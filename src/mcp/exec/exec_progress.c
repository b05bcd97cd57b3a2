/* What a client hears while its run goes on: progress with the new output, log messages. Called by the files of
 * execution.
 *
 * Invariants: nothing is sent without a token; at most one message in KR_MCP_PROGRESS_MS, each of KR_MCP_NEWS_MAX bytes
 * at most, whole characters; numbers rise. What was left out of a message is in the answer. */
#include "exec_internal.h"
#include "clock.h"
#include "utf8.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

bool kr_mcp_exec_reports(const struct kr_mcp_exec *x)
{
    return kr_mcp_has_token(x->call) && !kr_mcp_is_task(x->call);
}

void kr_mcp_exec_news(struct kr_mcp_exec *x, const char *text, size_t len)
{
    size_t from;

    if (!kr_mcp_exec_reports(x))
        return;
    kr_buf_add(&x->news, text, len);
    if (x->news.len <= KR_MCP_NEWS_MAX)
        return;
    from = x->news.len - KR_MCP_NEWS_MAX; /* the newest is what a person wants to see */
    while (from < x->news.len && ((unsigned char)x->news.data[from] & 0xc0) == 0x80)
        from++;
    kr_buf_drop(&x->news, from);
}

static void send_progress(struct kr_mcp_exec *x, uint64_t now)
{
    char text[128], behind[sizeof x->o.behind];
    double seconds = floor((double)(now - x->begun_ns) / (double)MS) / 1e3;

    if (*kr_box_run_behind_text(x->box, &x->who.caller, x->o.run_id, behind))
        snprintf(text, sizeof text, "%s", behind);
    else
        snprintf(text, sizeof text, "running for %.0f s", seconds);
    x->progress = seconds > x->progress ? seconds : x->progress + 0.001;
    kr_mcp_progress(x->call, x->progress, -1, x->news.len > 0 ? kr_buf_str(&x->news) : text);
    kr_buf_reset(&x->news);
    x->progress_ns = now;
}

uint64_t kr_mcp_exec_report(struct kr_mcp_exec *x, uint64_t now)
{
    uint64_t beat_ms = x->starting ? KR_MCP_START_BEAT_MS : KR_MCP_BEAT_MS, due;

    if (!kr_mcp_exec_reports(x))
        return 0;
    due = x->progress_ns + (x->news.len > 0 ? KR_MCP_PROGRESS_MS : beat_ms) * MS;
    if (now < due)
        return due;
    send_progress(x, now);
    return now + beat_ms * MS;
}

void kr_mcp_exec_log(struct kr_mcp_exec *x, enum kr_mcp_level level, const char *what, const char *text)
{
    json_t *data;

    if (kr_mcp_is_task(x->call))
        return;
    data = json_pack("{s:s, s:s, s:s, s:s?}", "event", what, "run_id", x->o.run_id, "session_id", x->o.session, "text",
                     text);
    kr_mcp_log(x->call, level, "krait.run", data);
}
