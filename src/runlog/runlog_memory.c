/* The memory of logs: what is counted, and what goes when there is too much.
 *
 * Called by the other files of the log. Invariant: what is counted stays below memory_max but for RL_RESERVE bytes
 * of each log, ENDs and one reader's block; of one log, what is not yet on disk stays below run_memory_max but for
 * its newest event. Order of what goes: what is on disk too (idle logs, blocks of readers, events), then whole ended
 * logs that no disk takes, oldest first, then the middle of the largest log, with a CUT instead. An END never goes. */
#include "runlog_internal.h"
#include <stdlib.h>
#include <string.h>

#define MALLOC_COST 16u /* of each block, beyond what was asked for */

size_t rl_size(const struct rl_event *e)
{
    return sizeof *e + e->cap + MALLOC_COST;
}

void rl_account(struct kr_runlog *log, size_t more, size_t less)
{
    log->memory += more - less;
    log->logs->memory += more - less;
}

size_t rl_index_of(const struct kr_runlog *log, uint64_t seq)
{
    size_t low = 0, high = log->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (rl_at(log, middle)->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool rl_reserve(struct kr_runlog *log)
{
    size_t room;
    void *grown;

    if (log->first + log->count + 2 <= log->room)
        return true;
    if (log->first > 0) {
        memmove(log->events, log->events + log->first, log->count * sizeof(struct rl_event *));
        log->first = 0;
        if (log->count + 2 <= log->room / 2)
            return true;
    }
    room = log->room ? log->room * 2 : 8;
    grown = reallocarray(log->events, room, sizeof(struct rl_event *));
    if (!grown)
        return log->count + 2 <= log->room;
    log->events = grown;
    log->room = room;
    return true;
}

void rl_drop_cached(struct kr_runlog *log, size_t keep)
{
    if (log->packed) /* a reader could not get it back; it is small */
        return;
    while (log->count > 0 && rl_at(log, 0)->seq <= log->written_seq && log->memory - log->unwritten > keep) {
        struct rl_event *e = rl_at(log, 0);

        log->logs->cached -= rl_size(e);
        rl_account(log, 0, rl_size(e));
        free(e);
        log->first++;
        log->count--;
    }
}

/* ---- cutting ---- */

/* The events from..to - 1 become one CUT. */
static void replace_by_cut(struct kr_runlog *log, size_t from, size_t to)
{
    struct rl_event *cut = log->spare_cut, **at = log->events + log->first;
    const struct rl_event *a = at[from], *b = at[to - 1];

    *cut = (struct rl_event){.seq = b->seq,
                             .first = a->first,
                             .offset = a->offset,
                             .bytes = b->offset + b->bytes - a->offset,
                             .time_ms = b->time_ms,
                             .type = KR_EVENT_CUT};
    for (size_t i = from; i < to; i++) {
        log->unwritten -= rl_size(at[i]);
        rl_account(log, 0, rl_size(at[i]));
        free(at[i]);
    }
    at[from] = cut;
    memmove(at + from + 1, at + to, (log->count - to) * sizeof(struct rl_event *));
    log->count -= to - from - 1;
    rl_account(log, rl_size(cut), 0);
    log->unwritten += rl_size(cut);
    log->spare_cut = calloc(1, sizeof *log->spare_cut); /* what was just freed will do */
    log->truncated = true;
    log->logs->cuts++;
}

/* Where the hole is or is to be: behind the head. The head that is in the file needs no room here. */
static size_t hole_of(const struct kr_runlog *log, size_t low, size_t high, size_t head)
{
    size_t i, sum = 0;

    for (i = high; i > low; i--)
        if (rl_at(log, i - 1)->type == KR_EVENT_CUT)
            return i - 1;
    if (log->file_len > 0)
        return low;
    for (i = low; i < high && sum < head; i++)
        sum += rl_size(rl_at(log, i));
    return i;
}

/* Frees about `need` bytes from the middle of what is neither written nor being written. Returns how many it were. */
static size_t cut_middle(struct kr_runlog *log, size_t need)
{
    size_t low = rl_index_of(log, log->pinned_seq + 1), high = log->count, before = log->memory;
    size_t head = log->unwritten < log->logs->config.run_memory_max ? log->unwritten : log->logs->config.run_memory_max;
    size_t from, to, freed = 0;

    if (high > low && rl_at(log, high - 1)->type == KR_EVENT_END)
        high--;
    if (!log->spare_cut || low >= high)
        return 0;
    from = to = hole_of(log, low, high, head / 4);
    while (to < high && (freed < need || to == from))
        freed += rl_size(rl_at(log, to++));
    while (from > low && freed < need)
        freed += rl_size(rl_at(log, --from));
    if (from == to || (to - from == 1 && rl_at(log, from)->type == KR_EVENT_CUT))
        return 0;
    replace_by_cut(log, from, to);
    return before > log->memory ? before - log->memory : 0;
}

void rl_lose(struct kr_runlog *log, size_t len)
{
    struct rl_event *last = log->count ? rl_at(log, log->count - 1) : NULL;

    log->truncated = true;
    log->logs->cuts++;
    if (last && last->type == KR_EVENT_CUT && last->seq > log->pinned_seq) {
        last->seq = ++log->last_seq;
        last->bytes = log->bytes + len - last->offset;
    } else if (log->spare_cut && rl_reserve(log)) {
        last = log->spare_cut;
        log->spare_cut = calloc(1, sizeof *last);
        log->last_seq++;
        *last = (struct rl_event){.seq = log->last_seq,
                                  .first = log->last_seq,
                                  .offset = log->bytes,
                                  .bytes = len,
                                  .time_ms = rl_now_ms(),
                                  .type = KR_EVENT_CUT};
        log->events[log->first + log->count++] = last;
        rl_account(log, rl_size(last), 0);
        log->unwritten += rl_size(last);
    }
    log->bytes += len; /* without a number if there is memory for nothing at all; the next CUT counts it */
}

/* ---- the shared budget ---- */

static bool is_over(const struct kr_runlogs *l, size_t need, size_t max)
{
    return l->memory + need > max;
}

/* Everything that is on disk too, as far as is needed; `spare` keeps its own. */
static void drop_copies(struct kr_runlogs *l, const struct kr_runlog *spare, size_t need)
{
    struct kr_runlog_reader *r;
    struct kr_runlog *log;

    while (is_over(l, need, l->soft_max) && (log = TAILQ_FIRST(&l->idle_written)))
        rl_log_free(log);
    if (l->cached == 0 && l->blocks == 0)
        return;
    for (log = TAILQ_FIRST(&l->logs); log; log = TAILQ_NEXT(log, link)) {
        if (!is_over(l, need, l->soft_max))
            return;
        for (r = TAILQ_FIRST(&log->readers); r; r = TAILQ_NEXT(r, link))
            rl_drop_block(r);
        if (log != spare)
            rl_drop_cached(log, 0);
    }
}

void rl_ease(struct kr_runlogs *l)
{
    if (is_over(l, 0, l->soft_max))
        drop_copies(l, NULL, 0);
}

/* The oldest ended log without a reference and of which nothing is on disk or on its way there: it can go whole. One of
 * which a part is there is only cut, for without its END it would be taken for lost. */
static struct kr_runlog *expendable(const struct kr_runlogs *l)
{
    struct kr_runlog *log;

    if (!TAILQ_EMPTY(&l->idle_memory))
        return TAILQ_FIRST(&l->idle_memory);
    for (log = TAILQ_FIRST(&l->idle_unwritten); log; log = TAILQ_NEXT(log, idle_link))
        if (!log->writing && log->file_len == 0)
            return log;
    return NULL;
}

static struct kr_runlog *largest(const struct kr_runlogs *l)
{
    struct kr_runlog *log, *found = NULL;

    for (log = TAILQ_FIRST(&l->logs); log; log = TAILQ_NEXT(log, link))
        if (!log->stuck && log->unwritten > RL_RESERVE && (!found || log->unwritten > found->unwritten))
            found = log;
    return found;
}

/* Below the hard limit, by losing something. */
static bool cut_others(struct kr_runlogs *l, const struct kr_runlog *mine, size_t need)
{
    struct kr_runlog *log;

    while (is_over(l, need, l->config.memory_max) && (log = expendable(l))) {
        l->cuts++;
        rl_log_free(log);
    }
    while (is_over(l, need, l->config.memory_max)) {
        log = largest(l);
        if (!log)
            return mine->unwritten + need <= RL_RESERVE;
        log->stuck = cut_middle(log, log->unwritten / 2) == 0;
    }
    return true;
}

bool rl_make_room(struct kr_runlog *log, size_t need)
{
    struct kr_runlogs *l = log->logs;
    size_t max = l->config.run_memory_max, counted = need + MALLOC_COST;
    size_t part = counted < max / 2 ? counted : max / 2;

    if (is_over(l, counted, l->soft_max))
        drop_copies(l, log, counted);
    if (log->unwritten + part > max)
        cut_middle(log, log->unwritten + part - max > max / 8 ? log->unwritten + part - max : max / 8);
    return !is_over(l, counted, l->config.memory_max) || cut_others(l, log, counted);
}
