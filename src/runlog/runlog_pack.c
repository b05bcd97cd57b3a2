/* Small logs as bytes, which the caller keeps: a file for each would cost more than the run.
 *
 * Called by the domain, which keeps them with the row of the run. Invariants: a packed log is in memory whole as
 * long as it has a reference, and is no larger than what the budget leaves every log (RL_RESERVE); no file of it
 * exists. The bytes are the records of a log's file (runlog_file.c) without its head. */
#include "buf.h"
#include "runlog_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Ended just now, with nothing of it in a file or on its way there. */
static bool can_pack(const struct kr_runlog *log)
{
    return log->ended && !log->memory_only && log->logs->config.dirfd >= 0 && !log->writing && log->file_len == 0 &&
           log->pinned_seq == 0 && log->memory <= RL_RESERVE;
}

int rl_pack(struct kr_runlog *log, struct kr_buf *ret)
{
    if (!can_pack(log) || rl_file_pack(ret, log->events + log->first, log->count) < 0)
        return 0;
    rl_forget_write(log);
    log->packed = true;
    log->written_seq = log->pinned_seq = log->last_seq;
    log->logs->cached += log->unwritten;
    log->unwritten = 0;
    return 1;
}

static int add_record(struct kr_runlog *log, const struct rl_record *rec)
{
    struct rl_event *e;

    if (rec->first != log->last_seq + 1 || log->ended)
        return -EBADMSG;
    e = rl_reserve(log) ? malloc(sizeof *e + rec->len) : NULL;
    if (!e)
        return -ENOMEM;
    *e = (struct rl_event){.seq = rec->seq,
                           .first = rec->first,
                           .offset = log->bytes,
                           .bytes = rec->bytes,
                           .time_ms = rec->time_ms,
                           .len = (uint32_t)rec->len,
                           .cap = (uint32_t)rec->len,
                           .type = rec->type,
                           .cause = rec->cause};
    memcpy(e->data, rec->data, rec->len);
    log->events[log->first + log->count++] = e;
    rl_account(log, rl_size(e), 0);
    log->logs->cached += rl_size(e);
    log->last_seq = rec->seq;
    log->bytes += rec->bytes;
    log->truncated |= rec->type == KR_EVENT_CUT;
    log->ended = rec->type == KR_EVENT_END;
    log->cause = rec->cause;
    log->ended_ms = rec->time_ms;
    return 0;
}

static int unpack(struct kr_runlog *log, const char *bytes, size_t len)
{
    struct rl_record rec;
    int r = 0;

    for (size_t at = 0; at < len && r == 0; at += rec.size) {
        r = rl_record_read(bytes + at, len - at, true, &rec);
        if (r != 1)
            return -EBADMSG;
        r = add_record(log, &rec);
    }
    return r < 0 ? r : log->ended ? 0 : -EBADMSG;
}

int kr_runlog_open_packed(struct kr_runlogs *l, const char *id, const void *bytes, size_t len,
                          struct kr_runlog **ret_log)
{
    struct kr_runlog *log;
    int r = rl_open(l, id, &log);

    if (r < 0)
        return r;
    if (r > 0) {
        *ret_log = log;
        return 0;
    }
    log->packed = true;
    r = unpack(log, bytes, len);
    if (r < 0) {
        rl_log_free(log);
        return r;
    }
    log->written_seq = log->pinned_seq = log->seen_seq = log->last_seq;
    *ret_log = log;
    return 0;
}
