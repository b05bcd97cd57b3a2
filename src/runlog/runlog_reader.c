/* Readers of logs: a cursor, and a block of the file while they catch up.
 *
 * Called by the voices, on the loop thread. Invariant: a reader is shown each number once or within a CUT, in order;
 * it is called only from the loop, with nothing of ours on the stack that its closing could pull away. */
#include "runlog_internal.h"
#include "work.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct load_job {
    struct kr_work work;
    struct kr_runlog_reader *reader;
    struct kr_runlogs *logs;
    int dirfd, result;
    char name[RL_NAME_MAX];
    struct rl_index from;
    uint64_t end, want;
    struct rl_block block;
};

/* ---- calling readers ---- */

void rl_call_soon(struct kr_runlog_reader *r)
{
    struct kr_runlogs *l = r->log->logs;

    if (r->is_due || r->closed)
        return;
    r->is_due = true;
    r->hungry = false;
    r->due_in = &l->due;
    TAILQ_INSERT_TAIL(&l->due, r, due_link);
    rl_wake(l);
}

void rl_call_hungry(struct kr_runlog *log)
{
    struct kr_runlog_reader *r;

    for (r = TAILQ_FIRST(&log->readers); r; r = TAILQ_NEXT(r, link))
        if (r->on_now && !log->ended)
            r->on_now(r->data, r);
        else if (r->hungry || r->on_now)
            rl_call_soon(r);
}

void rl_call_all(struct kr_runlog *log)
{
    struct kr_runlog_reader *r;

    for (r = TAILQ_FIRST(&log->readers); r; r = TAILQ_NEXT(r, link))
        rl_call_soon(r);
}

static void not_due(struct kr_runlog_reader *r)
{
    if (!r->is_due)
        return;
    TAILQ_REMOVE(r->due_in, r, due_link);
    r->is_due = false;
}

/* Readers that become due meanwhile have their turn in the loop's next round, so that one reader cannot hold the
 * loop. */
void rl_call_due(struct kr_runlogs *l)
{
    struct kr_runlog_reader *r;

    for (r = TAILQ_FIRST(&l->due); r; r = TAILQ_NEXT(r, due_link))
        r->due_in = &l->calling;
    TAILQ_CONCAT(&l->calling, &l->due, due_link);
    while ((r = TAILQ_FIRST(&l->calling))) {
        not_due(r);
        r->on_more(r->data, r);
    }
    rl_flush_check(l);
    if (TAILQ_EMPTY(&l->due) && !l->closed) {
        l->awake = false;
        uv_check_stop(&l->check);
        uv_idle_stop(&l->spin);
    }
}

/* ---- blocks of the file ---- */

void rl_drop_block(struct kr_runlog_reader *r)
{
    struct kr_runlogs *l = r->log->logs;

    if (!r->block.data)
        return;
    free(r->block.data);
    l->memory -= r->block.len;
    l->blocks -= r->block.len;
    r->block = (struct rl_block){.data = NULL};
    r->shown_size = 0;
}

static void free_reader(struct kr_runlog_reader *r)
{
    struct kr_runlog *log = r->log;

    rl_drop_block(r);
    free(r);
    kr_runlog_unref(log);
}

static void run_load(void *data)
{
    struct load_job *job = data;

    job->result = rl_file_load(job->dirfd, job->name, &job->from, job->end, job->want, &job->block);
}

static void start_load(struct kr_runlog_reader *r);

static void start_next_load(struct kr_runlogs *l)
{
    struct kr_runlog_reader *r = TAILQ_FIRST(&l->loads_waiting);

    if (!r || l->loads >= RL_LOADS_MAX)
        return;
    TAILQ_REMOVE(&l->loads_waiting, r, load_link);
    r->load_waits = false;
    start_load(r);
}

static void take_block(struct kr_runlog_reader *r, int error, const struct rl_block *block)
{
    struct kr_runlogs *l = r->log->logs;

    if (error < 0) {
        r->failed = error;
    } else {
        rl_ease(l); /* before it counts, so that it is not its own victim */
        r->block = *block;
        l->memory += block->len;
        l->blocks += block->len;
    }
    rl_call_soon(r);
}

static void on_load_done(void *data)
{
    struct load_job *job = data;
    struct kr_runlog_reader *r = job->reader;
    struct kr_runlogs *l = job->logs;
    int error = job->result;

    l->jobs--;
    l->loads--;
    r->loading = false;
    if (r->closed && error == 0)
        free(job->block.data);
    if (l->closed) {
        free(r); /* its log is gone already */
        rl_maybe_free(l);
    } else {
        if (r->closed)
            free_reader(r);
        else
            take_block(r, error, &job->block);
        start_next_load(l);
    }
    free(job);
}

/* The last entry of the index from which the number can be reached. */
static struct rl_index index_for(const struct kr_runlog *log, uint64_t want)
{
    size_t low = 0, high = log->index_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (log->index[middle].seq <= want)
            low = middle;
        else
            high = middle;
    }
    return log->index_count ? log->index[low] : (struct rl_index){.at = RL_FILE_START};
}

static int queue_load(struct kr_runlog_reader *r)
{
    static const struct kr_work_calls calls = {.run = run_load, .done = on_load_done};
    struct kr_runlog *log = r->log;
    struct load_job *job = calloc(1, sizeof *job);

    if (!job)
        return -ENOMEM;
    job->reader = r;
    job->logs = log->logs;
    job->dirfd = log->logs->config.dirfd;
    job->want = r->want;
    job->end = log->file_len;
    job->from = index_for(log, r->want);
    memcpy(job->name, log->name, sizeof job->name);
    kr_work_start(log->logs->loop, &job->work, &calls, job);
    return 0;
}

static void start_load(struct kr_runlog_reader *r)
{
    struct kr_runlogs *l = r->log->logs;
    int e;

    r->loading = true;
    if (l->loads >= RL_LOADS_MAX) {
        r->load_waits = true;
        TAILQ_INSERT_TAIL(&l->loads_waiting, r, load_link);
        return;
    }
    e = queue_load(r);
    if (e < 0) {
        r->loading = false;
        r->failed = e;
        rl_call_soon(r);
        return;
    }
    l->loads++;
    l->jobs++;
}

/* ---- the cursor ---- */

int kr_runlog_read(struct kr_runlog *log, uint64_t from, kr_runlog_more_fn *on_more, void *data,
                   struct kr_runlog_reader **ret_reader)
{
    struct kr_runlog_reader *r = calloc(1, sizeof *r);

    if (!r)
        return -ENOMEM;
    r->log = kr_runlog_ref(log);
    r->on_more = on_more;
    r->data = data;
    r->want = from ? from : 1;
    r->offset_known = r->want == 1;
    if (from == KR_RUNLOG_FROM_NOW && !log->scanning)
        r->want = log->last_seq + 1;
    TAILQ_INSERT_TAIL(&log->readers, r, link);
    if (!log->scanning)
        rl_call_soon(r);
    *ret_reader = r;
    return 0;
}

void kr_runlog_come_back(struct kr_runlog_reader *r)
{
    rl_call_soon(r);
}

void kr_runlog_eager(struct kr_runlog_reader *r, kr_runlog_more_fn *on_now)
{
    r->on_now = on_now;
}

/* Shows an event of `bytes` at `offset`; a CUT without what was read before it was cut. */
static int fill_shown(struct kr_runlog_reader *r, uint64_t first, uint64_t offset, uint64_t bytes, struct kr_event *e)
{
    uint64_t end = offset + bytes;

    if (e->type == KR_EVENT_CUT) {
        bool clip = r->offset_known && r->want > first;

        e->cut.first = clip ? r->want : first;
        e->cut.last = e->seq;
        e->cut.bytes = clip ? end - r->offset : bytes;
    }
    r->shown_seq = e->seq;
    r->shown_offset = end;
    return 1;
}

static int show_record(struct kr_runlog_reader *r, struct kr_event *ret)
{
    struct rl_block *b = &r->block;
    struct rl_record rec;

    if (rl_record_read(b->data + b->pos, b->len - b->pos, false, &rec) != 1) {
        r->failed = -EBADMSG; /* cannot be: the thread pool has looked at each */
        return r->failed;
    }
    *ret = (struct kr_event){
        .seq = rec.seq, .time_ms = rec.time_ms, .type = rec.type, .data = rec.data, .len = rec.len, .cause = rec.cause};
    r->shown_size = rec.size;
    return fill_shown(r, rec.first, b->offset, rec.bytes, ret);
}

static int show_event(struct kr_runlog_reader *r, const struct rl_event *e, struct kr_event *ret)
{
    *ret = (struct kr_event){
        .seq = e->seq, .time_ms = e->time_ms, .type = e->type, .data = e->data, .len = e->len, .cause = e->cause};
    if (r->log->seen_seq < e->seq)
        r->log->seen_seq = e->seq;
    return fill_shown(r, e->first, e->offset, e->bytes, ret);
}

int kr_runlog_peek(struct kr_runlog_reader *r, struct kr_event *ret_event)
{
    struct kr_runlog *log = r->log;
    size_t i;

    r->shown_seq = 0;
    r->shown_size = 0;
    if (r->failed || log->failed)
        return r->failed ? r->failed : log->failed;
    if (log->scanning || r->loading)
        return 0;
    if (r->want == KR_RUNLOG_FROM_NOW)
        r->want = log->last_seq + 1;
    if (r->block.data)
        return show_record(r, ret_event);
    if (r->want > log->last_seq) {
        r->hungry = true;
        return 0;
    }
    i = rl_index_of(log, r->want);
    if (i < log->count && rl_at(log, i)->first <= r->want)
        return show_event(r, rl_at(log, i), ret_event);
    start_load(r);
    return r->failed;
}

void kr_runlog_take(struct kr_runlog_reader *r)
{
    struct rl_block *b = &r->block;

    if (!r->shown_seq)
        return;
    r->want = r->shown_seq + 1;
    r->offset = r->shown_offset;
    r->offset_known = true;
    r->shown_seq = 0;
    if (!b->data)
        return;
    b->pos += r->shown_size;
    b->offset = r->shown_offset;
    if (b->pos >= b->len)
        rl_drop_block(r);
}

bool kr_runlog_done(const struct kr_runlog_reader *r)
{
    return r->log->ended && r->want > r->log->last_seq;
}

uint64_t kr_runlog_next_seq(const struct kr_runlog_reader *r)
{
    return r->want;
}

void kr_runlog_reader_close(struct kr_runlog_reader *r)
{
    if (!r)
        return;
    not_due(r);
    r->closed = true;
    TAILQ_REMOVE(&r->log->readers, r, link);
    if (r->load_waits) {
        TAILQ_REMOVE(&r->log->logs->loads_waiting, r, load_link);
        r->loading = false;
    }
    if (!r->loading)
        free_reader(r); /* else the job does, when it is done */
}
