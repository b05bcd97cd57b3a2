/* What programs in the cell of a run ask for: packages. The way between the engine's run and whoever installs.
 *
 * Called by the engine (a frame has come) and by box_run_events.c (the run ends). Invariants: a run asks in the name of
 * the caller that started it, and for its own sandbox; at most PACKAGES_OPEN of its asks are under way; each is
 * answered, and at the end of the run the callee hears that no answer is wanted any more. */
#include "box_internal.h"
#include <errno.h>
#include <string.h>

#define PACKAGES_OPEN 8u

static void refuse_packages(struct kr_run *run, uint32_t number, const char *json)
{
    (void)kr_run_packaged(run, number, json, strlen(json), true);
}

/* What is withdrawn counts no more, and has no answer. */
static bool is_withdrawn(const json_t *ask)
{
    const char *op = json_string_value(json_object_get(ask, "op"));

    return op && strcmp(op, "cancel") == 0;
}

void kr_box_on_packages(void *run, struct kr_run *of_engine, uint32_t number, const json_t *ask)
{
    struct kr_box_run *r = run;
    struct kr_box *b = r->box;

    if (!b->calls.on_packages || !kr_session_has_venv(kr_run_session(of_engine)))
        return refuse_packages(
            of_engine, number,
            "{\"end\":true,\"ok\":false,\"error\":\"packages cannot be installed in this sandbox\"}");
    if (is_withdrawn(ask)) {
        b->calls.on_packages(b->data, r, number, ask);
        return;
    }
    if (r->packages >= PACKAGES_OPEN)
        return refuse_packages(of_engine, number,
                               "{\"end\":true,\"ok\":false,\"error\":\"too many installs of this run are under way\"}");
    r->packages++;
    b->calls.on_packages(b->data, r, number, ask);
}

void kr_box_packages_over(struct kr_box_run *r)
{
    if (r->packages > 0 && r->box->calls.on_packages)
        r->box->calls.on_packages(r->box->data, r, 0, NULL);
    r->packages = 0;
}

int kr_box_run_packaged(struct kr_box *b, const char *id, uint32_t number, const char *json, size_t len, bool is_last)
{
    struct kr_box_run *r = kr_box_run_by_id(b, id);

    if (!r || !r->run)
        return -ESRCH;
    if (is_last && r->packages > 0)
        r->packages--;
    return kr_run_packaged(r->run, number, json, len, is_last);
}

struct kr_caller kr_box_run_caller(const struct kr_box_run *r)
{
    return (struct kr_caller){
        .user = r->user->id, .rights = r->rights, .address = r->address, .request = r->request, .profile = r->profile};
}
