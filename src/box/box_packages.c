/* What programs in the cell of a run or a terminal ask for: packages. The way between the engine and whoever installs.
 *
 * Called by the engine (a frame has come), by box_run_events.c and box_terminals.c (it ends). Invariants: a run or
 * terminal asks in the name of the caller that started it, and for its own sandbox; at most PACKAGES_OPEN of its asks
 * are under way; each is answered, and at its end the callee hears that no answer is wanted any more. */
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

void kr_box_packages_ask(struct kr_box *b, const struct kr_box_asker *by, unsigned *open, struct kr_run *of_engine,
                         uint32_t number, const json_t *ask)
{
    if (!b->calls.on_packages || !kr_session_has_venv(kr_run_session(of_engine)))
        return refuse_packages(
            of_engine, number,
            "{\"end\":true,\"ok\":false,\"error\":\"packages cannot be installed in this sandbox\"}");
    if (is_withdrawn(ask)) {
        b->calls.on_packages(b->data, by, number, ask);
        return;
    }
    if (*open >= PACKAGES_OPEN)
        return refuse_packages(of_engine, number,
                               "{\"end\":true,\"ok\":false,\"error\":\"too many installs from here are under way\"}");
    ++*open;
    b->calls.on_packages(b->data, by, number, ask);
}

void kr_box_packages_over(struct kr_box *b, const struct kr_box_asker *by, unsigned *open)
{
    if (*open > 0 && b->calls.on_packages)
        b->calls.on_packages(b->data, by, 0, NULL);
    *open = 0;
}

int kr_box_packaged(struct kr_box *b, const char *id, uint32_t number, const char *json, size_t len, bool is_last)
{
    struct kr_box_run *r = kr_box_run_by_id(b, id);
    unsigned *open = r ? &r->packages : NULL;
    struct kr_run *run = r ? r->run : kr_box_terminal_program(b, id, &open);

    if (!run)
        return -ESRCH;
    if (is_last && *open > 0)
        --*open;
    return kr_run_packaged(run, number, json, len, is_last);
}

/* ---- runs ---- */

static struct kr_box_asker run_as_asker(const struct kr_box_run *r)
{
    return (struct kr_box_asker){.id = r->id,
                                 .sandbox = r->sandbox,
                                 .who = {.user = r->user->id,
                                         .rights = r->rights,
                                         .address = r->address,
                                         .request = r->request,
                                         .profile = r->profile}};
}

void kr_box_run_on_packages(void *run, struct kr_run *of_engine, uint32_t number, const json_t *ask)
{
    struct kr_box_run *r = run;
    struct kr_box_asker by = run_as_asker(r);

    kr_box_packages_ask(r->box, &by, &r->packages, of_engine, number, ask);
}

void kr_box_run_packages_over(struct kr_box_run *r)
{
    struct kr_box_asker by = run_as_asker(r);

    kr_box_packages_over(r->box, &by, &r->packages);
}
