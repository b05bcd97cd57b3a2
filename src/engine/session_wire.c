/* The session's channel: frames in, frames out.
 *
 * Called from the loop when the channel has bytes, by session.c and by run.c. Invariants: a frame is handled only in
 * a state that awaits it, anything else is a violation and the session is killed; a frame of a run that is not the
 * current one is dropped and counted; order is kept: a session waits until its pipes are empty before it sends a
 * display, frames are read before bytes, and before an end is handled the bytes that the pipes hold are read. */
#include "engine_internal.h"
#include "clock.h"
#include "json.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* What one session may have of a turn of the loop; then the others have theirs. */
#define TURN_FRAMES 64u
#define TURN_BYTES (256u << 10)
#define MORE_MS 1u /* not 0: libuv would run the timer again and again in one turn */
/* Of a channel whose session is gone: the largest frame and what the socket holds. A copy of the session may live some
 * milliseconds longer and go on writing. */
#define LAST_BYTES_MAX (2 * KR_FRAME_CHANNEL_MAX)
#define DATA_MARGIN_MAX (16u << 20)

/* Runs in a session that is about to be parked: touches the pages that a first run needs, prints nothing, leaves
 * nothing. */
static const char warm_code[] = "import json, re\n"
                                "async def f(x):\n"
                                "    return x + 1\n"
                                "class C:\n"
                                "    def squares(self):\n"
                                "        return [i * i for i in range(50)]\n"
                                "try:\n"
                                "    raise ValueError('warm')\n"
                                "except ValueError as e:\n"
                                "    text = f'{e!r:>8}'\n"
                                "v = {'squares': C().squares(), 'text': re.sub('a+', 'b', text)}\n"
                                "n = await f(len(json.dumps(v)))\n"
                                "print(end='', flush=True)\n"
                                "n\n";
static const char warm_data[] = "import numpy\nnumpy.arange(8.0).sum()\n";
/* Then this one, as a user's run would go: the pages of that way. */
static const char last_warm_code[] = "print(end='', flush=True)\n";

/* ---- out ---- */

int kr_session_send(struct kr_session *s, uint16_t type, uint32_t id, const struct kr_buf *json)
{
    struct kr_frame head = {.len = (uint32_t)json->len, .type = type, .id = id};
    struct iovec parts[2] = {{&head, sizeof head}, {json->data, json->len}};

    if (!s->channel_out)
        return -EPIPE;
    return kr_outq_addv(s->channel_out, parts, 2);
}

static void fill_rlimits(const struct kr_session *s, uint64_t ret[KR_RLIMIT_MAX_])
{
    const struct kr_limits *l = &s->spec.limits;

    /* A MemoryError comes before the cgroup's kill, which also counts page tables and copies of what was inherited. The
     * session adds what it inherited from its zygote. */
    ret[KR_RLIMIT_DATA] = l->memory;
    if (s->layers & KR_LAYER_CGROUP_MEMORY)
        ret[KR_RLIMIT_DATA] -= l->memory / 16 < DATA_MARGIN_MAX ? l->memory / 16 : DATA_MARGIN_MAX;
    ret[KR_RLIMIT_FSIZE] = l->file_size;
    ret[KR_RLIMIT_NOFILE] = l->open_files;
    /* Where the cgroup counts processes it must refuse first, for RLIMIT_NPROC has no counter to confirm the cause
     * by. */
    ret[KR_RLIMIT_NPROC] = l->processes + (s->layers & KR_LAYER_CGROUP_PIDS ? 16 : 0);
    /* The same for time: our look at the counter comes first, and RLIMIT_CPU (whole seconds, one process, counted in
     * ticks) after it. */
    if (l->cpu_time_ms > 0)
        ret[KR_RLIMIT_CPU] = (l->cpu_time_ms + 999) / 1000 + (s->layers & KR_LAYER_CGROUP_CPU ? 1 : 0);
}

static void write_rlimits(struct kr_json *j, const uint64_t values[KR_RLIMIT_MAX_])
{
    static const char *const names[KR_RLIMIT_MAX_] = {"data", "fsize", "nofile", "nproc", "cpu"};

    kr_json_key(j, "rlimits");
    kr_json_object(j);
    for (size_t i = 0; i < KR_RLIMIT_MAX_; i++)
        if (values[i] > 0)
            kr_json_key_uint(j, names[i], values[i]);
    kr_json_object_end(j);
}

static void session_write_env(struct kr_json *j, const char *const *env, size_t count)
{
    kr_json_key(j, "env");
    kr_json_object(j);
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(env[i], '=');
        char key[256];

        if (!equals || equals == env[i] || (size_t)(equals - env[i]) >= sizeof key)
            continue; /* refused where it was given */
        memcpy(key, env[i], (size_t)(equals - env[i]));
        key[equals - env[i]] = '\0';
        kr_json_key_str(j, key, equals + 1);
    }
    kr_json_object_end(j);
}

/* Level contained mounts nothing: the session gets the path of the folder of the host that is its /workspace. */
static void write_folder(struct kr_json *j, const struct kr_session *s)
{
    char path[4096];
    int kind = s->engine->info.level == KR_LEVEL_CONTAINED ? kr_session_host_folder(s, path, sizeof path) : -1;

    if (kind >= 0)
        kr_json_key_str(j, "host_workspace", path);
    kr_json_key_bool(j, "read_only", kind > 0 || s->spec.read_only);
}

/* Needs no JSON: the struct of S_START has it all. */
static bool is_plain(const struct kr_session *s)
{
    return !s->spec.script && !s->spec.read_only && !s->spec.env_count && s->spec.limits.cpu_milli <= 1000 &&
           s->engine->info.level != KR_LEVEL_CONTAINED;
}

static void write_special(struct kr_json *j, const struct kr_session *s, const struct kr_s_start *start)
{
    kr_json_object(j);
    kr_json_key_str(j, "mode", s->spec.script ? "script" : "session");
    kr_json_key_str(j, "cwd", "/workspace");
    write_folder(j, s);
    session_write_env(j, s->spec.env, s->spec.env_count);
    kr_json_key_uint(j, "cpus", (s->spec.limits.cpu_milli + 999) / 1000);
    kr_json_key_bool(j, "landlock", start->landlock);
    kr_json_key_bool(j, "venv", start->venv);
    write_rlimits(j, start->rlimits);
    kr_json_object_end(j);
}

int kr_session_send_start(struct kr_session *s, struct kr_err *err)
{
    struct kr_s_start start = {.landlock = s->engine->info.landlock_abi > 0, .venv = s->spec.venv};
    cleanup_buf struct kr_buf buf;
    struct kr_json j;
    int r;

    fill_rlimits(s, start.rlimits);
    kr_buf_init(&buf, 1u << 20);
    r = kr_buf_add(&buf, &start, sizeof start);
    if (r >= 0 && !is_plain(s)) {
        kr_json_init(&j, &buf);
        write_special(&j, s, &start);
        r = kr_json_done(&j);
    }
    if (r < 0)
        return kr_err_set(err, KR_ERR_INVALID, -r, "the environment is too large");
    r = kr_session_send(s, KR_S_START, 0, &buf);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "S_START") : 0;
}

static int send_warm(struct kr_session *s, bool last)
{
    cleanup_buf struct kr_buf buf, code;
    struct kr_json j;
    int r;

    kr_buf_init(&buf, 1u << 16);
    kr_buf_init(&code, 1u << 16);
    kr_buf_add_str(&code, last ? last_warm_code : warm_code);
    if (!last && s->engine->zygotes[s->spec.zygote].preload == KR_PRELOAD_DATA)
        kr_buf_add_str(&code, warm_data);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "code", kr_buf_str(&code));
    kr_json_key_str(&j, "name", "<warm>");
    kr_json_key_bool(&j, "warm", !last);
    kr_json_key_null(&j, "stdin");
    kr_json_key_null(&j, "script");
    kr_json_object_end(&j);
    r = kr_json_done(&j);
    s->warm_id = ++s->last_run;
    s->warm_last = last;
    return r < 0 ? r : kr_session_send(s, KR_S_RUN, s->warm_id, &buf);
}

/* ---- in: the way to readiness ---- */

static int on_session_ready(struct kr_session *s, const unsigned char *payload, size_t len, struct kr_err *err)
{
    int r;

    if (s->state != KR_SESSION_OPENING)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the session sent an unexpected S_READY");
    r = kr_claim_ready(payload, len, &s->claim, err);
    if (r < 0)
        return r;
    if (!s->claim.seccomp || !s->claim.no_new_privs)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the session is not confined: %s is missing",
                          s->claim.seccomp ? "no_new_privs" : "seccomp");
    kr_session_set_state(s, KR_SESSION_READY);
    if (s->pool) {
        r = send_warm(s, false);
        return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "send the warm-up snippet") : 0;
    }
    /* Only now: the init stays open to the session's setns() until it has attached the workspace. */
    return kr_session_start(s, err);
}

static int on_session_started(struct kr_session *s, const unsigned char *payload, size_t len, struct kr_err *err)
{
    int r;

    if (s->state != KR_SESSION_STARTING || s->confined)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the session sent an unexpected S_STARTED");
    r = kr_claim_started(payload, len, &s->claim, err);
    if (r < 0)
        return r;
    if (s->engine->info.landlock_abi > 0 && s->claim.landlock_abi <= 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the session is not confined: Landlock is missing");
    s->confined = true;
    kr_session_started(s);
    return 0;
}

static int on_session_failed(struct kr_session *s, const unsigned char *payload, struct kr_err *err)
{
    struct kr_err failed;

    if (s->run && s->run->terminal) { /* its program could not be started */
        memcpy(err, payload, sizeof *err);
        kr_err_from_wire(err);
        return -EPROTO;
    }
    if (s->state >= KR_SESSION_IDLE)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the session sent an unexpected S_FAILED");
    memcpy(&failed, payload, sizeof failed); /* frames lie unaligned */
    kr_err_from_wire(&failed);
    kr_session_open_failed(s, &failed);
    return 0;
}

/* The end of a terminal's program. What it wrote is in the pipe by now. */
static int on_program_exited(struct kr_session *s, const unsigned char *payload)
{
    struct kr_s_exited end;

    memcpy(&end, payload, sizeof end);
    if (s->state < KR_SESSION_ENDING)
        kr_session_drain(s);
    kr_run_on_exited(s->run, end.status);
    return 0;
}

/* The end of its warm-up: its counters are the baseline of the first run. An open may wait for it already. */
static int end_warm_up(struct kr_session *s, const struct kr_usage *usage, struct kr_err *err)
{
    if (usage)
        s->usage = *usage;
    if (!s->pool)
        return kr_session_start(s, err);
    kr_session_set_state(s, KR_SESSION_PARKED);
    kr_pool_made(s->pool, s, NULL);
    return 0;
}

static void on_parked_usage(void *data, const struct kr_usage *usage)
{
    struct kr_session *s = data;
    struct kr_err err;

    if (end_warm_up(s, usage, &err) < 0)
        kr_session_open_failed(s, &err);
}

static int on_warm_end(struct kr_session *s, const unsigned char *payload, size_t len, struct kr_err *err)
{
    struct kr_claim_end claim;
    struct kr_usage usage;
    int r = kr_claim_end(payload, len, &claim, err);

    if (r < 0)
        return r;
    if (claim.claim != KR_CLAIM_OK)
        r = kr_err_set(err, KR_ERR_INTERNAL, 0, "the warm-up snippet failed: %.120s",
                       json_string_value(json_object_get(claim.error, "message")));
    kr_claim_end_done(&claim);
    if (r < 0 || s->ask.id)
        return r;
    if (!s->warm_last && s->pool) {
        r = send_warm(s, true);
        return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "send the warm-up snippet") : 0;
    }
    if (!s->pool && kr_session_usage(s, &usage) >= 0)
        return end_warm_up(s, &usage, err);
    r = kr_held_ask_usage(s->held, &s->ask, on_parked_usage, s);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "ask for counters") : 0;
}

/* ---- in: the current run ---- */

static int on_run_frame(struct kr_session *s, const struct kr_frame *f, const unsigned char *payload,
                        struct kr_err *err)
{
    struct kr_claim_end claim;
    json_t *ask;
    bool password;
    char *prompt;
    const char *json;
    size_t len;
    char *made;
    int r;

    switch (f->type) {
    case KR_S_DISPLAY:
        if (!kr_run_takes_display(s->run, f->len))
            return 0;
        r = kr_claim_display((const char *)payload, f->len, &json, &len, &made, err);
        if (r < 0)
            return r;
        kr_run_on_display(s->run, json, len, f->len);
        free(made);
        return 0;
    case KR_S_INPUT:
        r = kr_claim_input(payload, f->len, &prompt, &password, err);
        if (r < 0)
            return r;
        r = kr_run_on_input(s->run, prompt, password, err);
        free(prompt);
        return r;
    case KR_S_PACKAGES:
        r = kr_claim_packages(payload, f->len, &ask, err);
        if (r < 0)
            return r;
        r = kr_run_on_packages(s->run, f->id, ask, err);
        json_decref(ask);
        return r;
    default:
        r = kr_claim_end(payload, f->len, &claim, err);
        if (r < 0)
            return r;
        if (s->state < KR_SESSION_ENDING)
            kr_session_drain(s);
        kr_run_on_end(s->run, &claim);
        return 0;
    }
}

static void drop_stale(struct kr_session *s, const struct kr_frame *f)
{
    s->stale_frames++;
    kr_log(KR_LOG_DEBUG, "frame of another run dropped", "session=%u type=%s id=%u", s->number,
           kr_frame_types[f->type].name, f->id);
}

/* 0, or -errno with err: the session is to be killed for it. */
static int handle_frame(struct kr_session *s, const struct kr_frame *f, const unsigned char *payload,
                        struct kr_err *err)
{
    switch (f->type) {
    case KR_S_READY:
        return on_session_ready(s, payload, f->len, err);
    case KR_S_STARTED:
        return on_session_started(s, payload, f->len, err);
    case KR_S_FAILED:
        return on_session_failed(s, payload, err);
    case KR_S_PACKAGES: /* its number is its own: it is of the run that is on */
        if (f->id > 0 && s->run && s->run->state != KR_RUN_ENDED)
            return on_run_frame(s, f, payload, err);
        drop_stale(s, f);
        return 0;
    case KR_S_DISPLAY:
    case KR_S_INPUT:
    case KR_S_END:
        if (s->run && f->id == s->run->id && s->run->state != KR_RUN_ENDED)
            return on_run_frame(s, f, payload, err);
        if (s->state == KR_SESSION_READY && f->type == KR_S_END && f->id == s->warm_id)
            return on_warm_end(s, payload, f->len, err);
        drop_stale(s, f);
        return 0;
    case KR_S_EXITED:
        if (s->run && f->id == s->run->id && s->run->terminal && s->run->state != KR_RUN_ENDED)
            return on_program_exited(s, payload);
        drop_stale(s, f);
        return 0;
    default:
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO,
                          "the session sent a frame of type %u, which sessions do not send", f->type);
    }
}

/* ---- reading ---- */

/* What is left of a session's share of this turn. */
struct share {
    size_t frames, handled, read; /* frames, bytes of frames, bytes */
};

/* One read: 1 bytes came, 0 none now, -ENODATA end of file, -errno. */
static int read_some(struct kr_session *s, struct share *share)
{
    size_t room;
    void *at = kr_frame_reader_room(&s->reader, &room);
    ssize_t n;

    if (!at)
        return -ENOMEM;
    if (room > share->read)
        room = share->read;
    do
        n = read(kr_watch_fd(s->channel), at, room); /* read(2), not recvmsg(2): attached descriptors are dropped */
    while (n < 0 && errno == EINTR);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return -ENODATA;
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    share->read -= (size_t)n;
    kr_frame_reader_fed(&s->reader, (size_t)n);
    return 1;
}

/* Handles the whole frames that are there. 0 none is left, 1 the share is used up, -errno with err. */
static int take_frames(struct kr_session *s, struct share *share, struct kr_err *err)
{
    const unsigned char *payload;
    struct kr_frame f;
    int r;

    while (share->frames > 0 && share->handled > 0) {
        r = kr_frame_reader_next(&s->reader, &f, &payload, err);
        if (r <= 0)
            return r;
        share->frames--;
        share->handled -= f.len < share->handled ? f.len : share->handled;
        r = handle_frame(s, &f, payload, err);
        if (r < 0)
            return r;
        if (s->state == KR_SESSION_KILLED)
            return 0;
    }
    return 1;
}

/* The session closed its end of the channel: it is dying, and on_ended comes; or it lives on, and is killed for it. */
static void hang_up(struct kr_session *s)
{
    kr_watch_want_read(s->channel, false);
    s->hung_up_ns = kr_clock_ns();
    kr_session_arm_tick(s);
}

/* The next turn goes on with what the reader holds: the socket may have nothing more to wake us. */
static int come_back(struct kr_session *s, struct kr_err *err)
{
    int r = s->more ? 0 : kr_timer_new(s->engine->loop, kr_session_on_channel, s, &s->more);

    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "read the channel");
    kr_timer_arm(s->more, MORE_MS);
    return 0;
}

/* One step of a turn: 1 go on, 0 the turn is over and nothing is left, 2 it is over and something is, -errno. */
static int read_step(struct kr_session *s, struct share *share, struct kr_err *err)
{
    int r = take_frames(s, share, err);

    if (r > 0)
        r = come_back(s, err);
    else if (r == 0 && s->state < KR_SESSION_KILLED && share->read > 0) {
        r = read_some(s, share);
        if (r == -ENODATA)
            hang_up(s);
        else if (r < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "read the channel");
        return r > 0;
    }
    return r < 0 ? r : 2;
}

bool kr_session_read_channel(struct kr_session *s)
{
    struct share share = {.frames = TURN_FRAMES, .handled = TURN_BYTES, .read = TURN_BYTES};
    struct kr_err err;
    int r = 1;

    if (!s->channel || s->hung_up_ns)
        return true;
    s->reading = true;
    while (r == 1 && s->state < KR_SESSION_KILLED)
        r = read_step(s, &share, &err);
    s->reading = false;
    if (r < 0)
        kr_session_violation(s, &err);
    kr_session_next_run(s);
    if (s->state >= KR_SESSION_KILLED && s->channel)
        kr_watch_want_read(s->channel, false); /* what is left is read when ENDED comes */
    return r != 2 || s->state >= KR_SESSION_KILLED;
}

void kr_session_on_channel(void *session)
{
    kr_session_read_channel(session);
}

void kr_session_last_frames(struct kr_session *s)
{
    struct share share = {.frames = SIZE_MAX, .handled = SIZE_MAX, .read = LAST_BYTES_MAX};
    struct kr_err err;

    if (!s->channel || !s->run)
        return;
    while (s->run->state != KR_RUN_ENDED && take_frames(s, &share, &err) >= 0 && s->run->state != KR_RUN_ENDED &&
           share.read > 0)
        if (read_some(s, &share) <= 0)
            break;
}
