/* The process's end of the engine's socket: cells, rules and fetches come in, rows and ends of fetches go out.
 *
 * Called from the loop. Invariants: what the engine says is done in the order in which it was said; a frame that makes
 * no sense ends the process, which the warden starts anew and the engine tells everything again; the process never
 * outlives its engine. */
#include "egress_parts.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "loop.h"
#include "proto.h"
#include <errno.h>
#include <string.h>

#define FRAMES_PER_TURN 64

void kr_eg_end(struct kr_eg *eg, int status)
{
    if (eg->ending)
        return;
    eg->ending = true;
    eg->status = status;
    uv_stop(&eg->loop);
}

static void handle_setup(struct kr_eg *eg, const json_t *setup)
{
    if (kr_eg_hooks.on_setup)
        kr_eg_hooks.on_setup(eg, setup);
}

static void refuse_fetch(struct kr_eg *eg, uint32_t id)
{
    static const char end[] = "{\"error\":\"failed\",\"why\":\"this build fetches nothing\"}";

    (void)kr_eg_send(eg, KR_E_FETCHED, id, end, sizeof end - 1);
}

static void handle_fetch(struct kr_eg *eg, uint32_t id, const json_t *ask, int *file)
{
    if (kr_eg_hooks.on_fetch)
        kr_eg_hooks.on_fetch(eg, id, ask, steal_fd(file));
    else
        refuse_fetch(eg, id);
}

static int handle_json(struct kr_eg *eg, const struct kr_frame *f, const json_t *json, int *fd, struct kr_err *err)
{
    switch (f->type) {
    case KR_E_SETUP:
        handle_setup(eg, json);
        return 0;
    case KR_E_CELL:
        return kr_eg_cell_add(eg, json, steal_fd(fd), err);
    case KR_E_RULE:
        return kr_eg_cell_change(eg, json, err);
    case KR_E_FETCH:
        handle_fetch(eg, f->id, json, fd);
        return 0;
    default:
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the engine sent a frame that is not for this process");
    }
}

static int handle_frame(struct kr_eg *eg, const struct kr_frame *f, const char *payload, int *fd, struct kr_err *err)
{
    json_t *json;
    int r;

    if (f->type == KR_E_DROP) {
        kr_eg_cell_drop(eg, ((const struct kr_e_cell *)(const void *)payload)->cell);
        return 0;
    }
    if (f->type == KR_E_CANCEL) {
        if (kr_eg_hooks.on_cancel)
            kr_eg_hooks.on_cancel(eg, f->id);
        return 0;
    }
    json = json_loadb(payload, f->len, JSON_REJECT_DUPLICATES, NULL);
    r = json_is_object(json) ? handle_json(eg, f, json, fd, err)
                             : kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the engine sent a frame that is no object");
    json_decref(json);
    return r;
}

static void on_control_readable(void *data)
{
    struct kr_eg *eg = data;
    union {
        char bytes[KR_FRAME_EGRESS_MAX];
        uint64_t align;
    } buf;
    struct kr_err err;

    for (int i = 0; i < FRAMES_PER_TURN && !eg->ending; i++) {
        cleanup_fd int fd = -1;
        struct kr_frame f;
        int r = kr_frame_recv_few(kr_watch_fd(eg->control), &f, buf.bytes, sizeof buf.bytes, &fd, 1, 0, &err);

        if (r == -ETIMEDOUT)
            break;
        if (r == -ENODATA) { /* the engine has ended */
            kr_eg_end(eg, 0);
            break;
        }
        if (r == 0)
            r = handle_frame(eg, &f, buf.bytes, &fd, &err);
        if (r < 0) {
            kr_log_with(KR_LOG_ERROR, "engine not understood", KR_F_STR("error", err.msg));
            kr_eg_end(eg, 1);
        }
    }
    explicit_bzero(buf.bytes, sizeof buf.bytes); /* credentials and secrets pass here */
}

static void on_control_writable(void *data)
{
    kr_eg_rows_flush(data);
}

int kr_eg_control_open(struct kr_eg *eg, int fd)
{
    static const struct kr_watch_calls calls = {on_control_readable, on_control_writable};
    int r = kr_watch_new(&eg->loop, fd, &calls, eg, &eg->control);

    if (r < 0)
        return r;
    kr_watch_want_read(eg->control, true);
    return 0;
}

void kr_eg_control_close(struct kr_eg *eg)
{
    kr_watch_close(eg->control);
    eg->control = NULL;
}
