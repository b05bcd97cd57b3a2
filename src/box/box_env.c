/* Sessions' environments: /venv of a cell is the folder `env` of its sandbox, whatever its workspace is.
 *
 * Called by box_sessions.c before a session is asked for. Invariants: the environment is complete before a cell sees it
 * (package_env.h); a session whose environment cannot be made begins without one, and the log says so; one whose
 * environment has a module that zygotes have imported already is forked from a zygote that has not, so that the module
 * it imports is that of its environment.
 *
 * Templates whose packages are preloaded (docs/design/preload.md): which folder each zygote for templates imports from,
 * and which sessions come from it. `krait serve` begins it when it is ready; a timer looks. Invariants: such a zygote
 * imports from a template's own folder, which is never written to; a session comes from it only if its sandbox has the
 * very packages of that folder (the facts of both environments are the same, byte for byte); one that is absent,
 * starting or failed holds nothing up. */
#include "box_internal.h"
#include "fd.h"
#include "log.h"
#include "package_env.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRELOAD_LOOK_MS 2000u
#define FACTS_MAX (8 << 20)

int kr_box_sandbox_home(struct kr_box *b, const struct kr_sandbox *s, struct kr_err *err)
{
    int fd = openat(b->shelf, s->row.folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "open the folder of a sandbox") : fd;
}

/* Is there one? Most sessions are not a sandbox's first. An empty file is what a power failure has left. */
static bool has_env(const struct kr_box *b, const char *folder)
{
    static const char *const files[] = {"current/krait.json", "pyvenv.cfg"};
    char path[KR_STORE_ID_ROOM + 32];
    struct stat st;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/env/%s", folder, files[i]);
        if (fstatat(b->shelf, path, &st, 0) < 0 || st.st_size == 0)
            return false;
    }
    return true;
}

static int make_env(const struct kr_box *b, const char *folder, struct kr_err *err)
{
    cleanup_fd int fd = openat(b->shelf, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the folder of a sandbox");
    return kr_package_env_ensure(fd, b->config.python, err);
}

/* Modules that the zygote "data" has imported before it forks (src/kernel/python/preload.py), and their packages.
 * tests/integration/packages_preload.py compares them with what a session has. */
static const struct {
    const char *module, *package;
} preloaded[] = {
    {"PIL", "pillow"},
    {"cycler", "cycler"},
    {"dateutil", "python-dateutil"},
    {"kiwisolver", "kiwisolver"},
    {"matplotlib", "matplotlib"},
    {"mpl_toolkits", "matplotlib"},
    {"numpy", "numpy"},
    {"packaging", "packaging"},
    {"pandas", "pandas"},
    {"pkg_resources", "setuptools"},
    {"pyparsing", "pyparsing"},
    {"pytz", "pytz"},
    {"scipy", "scipy"},
    {"six", "six"},
};

bool kr_box_preloads(const char *package)
{
    for (size_t i = 0; i < sizeof preloaded / sizeof *preloaded; i++)
        if (strcmp(preloaded[i].package, package) == 0)
            return true;
    return false;
}

/* Has the environment one of them? */
static bool shadows(const struct kr_box *b, const char *folder)
{
    char path[KR_STORE_ID_ROOM + 64], file[32];
    unsigned major = 0, minor = 0;
    cleanup_fd int site = -1;
    struct stat st;

    sscanf(b->config.python->version, "%u.%u", &major, &minor);
    snprintf(path, sizeof path, "%s/env/current/lib/python%u.%u/site-packages", folder, major, minor);
    site = openat(b->shelf, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; site >= 0 && i < sizeof preloaded / sizeof *preloaded; i++) {
        snprintf(file, sizeof file, "%s.py", preloaded[i].module);
        if (fstatat(site, preloaded[i].module, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
            fstatat(site, file, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    }
    return false;
}

/* The file is another one with each start of the server whose certificates have changed; it is whole or not there. */
static int show_authority(const struct kr_box *b, const char *folder, struct kr_err *err)
{
    const char *bundle = b->config.ca_bundle;
    cleanup_free char *have = NULL;
    char path[KR_STORE_ID_ROOM + 8];
    cleanup_fd int env = -1, fd = -1;
    size_t len = bundle ? strlen(bundle) : 0;
    ssize_t n;

    if (!bundle)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "there is none"), -ENOENT;
    snprintf(path, sizeof path, "%s/env", folder);
    env = openat(b->shelf, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    have = malloc(len + 2);
    if (env < 0 || !have)
        return kr_err_set(err, KR_ERR_SYSTEM, env < 0 ? errno : ENOMEM, "open an environment");
    n = kr_fd_read_file_at(env, KR_BOX_CA_FILE, have, len + 2);
    if (n == (ssize_t)len && memcmp(have, bundle, len) == 0)
        return 0;
    fd = openat(env, KR_BOX_CA_FILE ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchmod(fd, 0644) < 0 || kr_fd_write_all(fd, bundle, len) < 0 ||
        renameat(env, KR_BOX_CA_FILE ".new", env, KR_BOX_CA_FILE) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "write certificates into an environment");
    return 0;
}

/* ---- templates whose packages are preloaded ---- */

static uint32_t zygote_of(const struct kr_box *b, size_t i)
{
    return (uint32_t)(kr_engine_zygote_count(b->engine) + i);
}

/* The facts of the environment in a folder of the shelf: what is installed, from which wheels, by their hashes. `size`:
 * only if they are as large; 0: whatever they are. NULL if there are none. */
static char *read_facts(const struct kr_box *b, const char *folder, size_t size, size_t *ret_size)
{
    char path[KR_STORE_ID_ROOM + 32];
    cleanup_free char *text = NULL;
    cleanup_fd int fd = -1;
    struct stat st;

    snprintf(path, sizeof path, "%s/env/current/krait.json", folder);
    fd = openat(b->shelf, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > FACTS_MAX ||
        (size && (size_t)st.st_size != size))
        return NULL;
    text = malloc((size_t)st.st_size + 1);
    if (!text || kr_fd_read_all(fd, text, (size_t)st.st_size) < 0)
        return NULL;
    text[st.st_size] = '\0';
    *ret_size = (size_t)st.st_size;
    return steal_ptr(&text);
}

static void drop_preload(struct kr_box *b, size_t i)
{
    struct kr_box_preload_slot *slot = &b->preloads[i];

    if (slot->folder[0])
        kr_engine_preload(b->engine, zygote_of(b, i), "");
    slot->folder[0] = '\0';
    free(slot->facts);
    slot->facts = NULL;
}

static void be_without(struct kr_box *b, size_t i, const char *why)
{
    struct kr_box_preload_slot *slot = &b->preloads[i];

    drop_preload(b, i);
    if (slot->why && strcmp(slot->why, why) == 0)
        return;
    slot->why = why;
    kr_log(KR_LOG_WARN, "template not preloaded", "template=%s why=\"%s\"", b->config.preload_templates[i], why);
}

static void look_at_template(struct kr_box *b, size_t i)
{
    struct kr_box_preload_slot *slot = &b->preloads[i];
    cleanup_template struct kr_store_template t = {0};
    cleanup_free char *facts = NULL;
    struct kr_err err;
    size_t size = 0;

    if (kr_store_template_get(b->config.store, KR_STORE_ROOT, b->config.preload_templates[i], &t, &err) < 0) {
        if (err.code == ENOENT) /* else the store is busy: as it was */
            be_without(b, i, "there is no shared template of that name");
        return;
    }
    if (!t.shared) {
        be_without(b, i, "the template of that name is not shared");
        return;
    }
    if (strcmp(slot->folder, t.folder) == 0)
        return;
    facts = read_facts(b, t.folder, 0, &size);
    if (!facts || strstr(facts, "\"items\":[]")) {
        be_without(b, i, "the template of that name has no packages");
        return;
    }
    drop_preload(b, i);
    slot->facts = steal_ptr(&facts);
    slot->size = size;
    slot->why = NULL;
    snprintf(slot->folder, sizeof slot->folder, "%s", t.folder);
    kr_log(KR_LOG_INFO, "preloading a template", "template=%s", b->config.preload_templates[i]);
    kr_engine_preload(b->engine, zygote_of(b, i), slot->folder);
}

static void on_preload_look(void *data)
{
    struct kr_box *b = data;

    if (b->stopping)
        return;
    for (size_t i = 0; i < b->config.preload_count; i++)
        look_at_template(b, i);
    kr_timer_arm(b->preloader, PRELOAD_LOOK_MS);
}

int kr_box_preloads_begin(struct kr_box *b)
{
    if (b->config.preload_count == 0 || b->preloader)
        return 0;
    return kr_timer_new(b->loop, on_preload_look, b, &b->preloader) < 0 ? -ENOMEM : (kr_timer_arm(b->preloader, 0), 0);
}

void kr_box_preloads_close(struct kr_box *b)
{
    kr_timer_close(b->preloader);
    b->preloader = NULL;
    for (size_t i = 0; i < KR_ENGINE_ZYGOTES_MAX; i++) {
        free(b->preloads[i].facts);
        b->preloads[i].facts = NULL;
    }
}

static void choose_preloaded(const struct kr_box *b, const char *folder, struct kr_session_spec *spec)
{
    for (size_t i = 0; i < b->config.preload_count; i++) {
        const struct kr_box_preload_slot *slot = &b->preloads[i];
        struct kr_engine_zygote z = kr_engine_zygote(b->engine, zygote_of(b, i));
        cleanup_free char *facts = NULL;
        size_t size;

        if (!slot->facts || z.state != KR_ZYG_READY || !(facts = read_facts(b, folder, slot->size, &size)) ||
            memcmp(facts, slot->facts, size) != 0)
            continue;
        spec->otherwise = spec->zygote;
        spec->zygote = zygote_of(b, i);
        spec->epoch = z.epoch;
        return;
    }
}

size_t kr_box_preload_count(const struct kr_box *b)
{
    return b->config.preload_count;
}

void kr_box_preload_get(const struct kr_box *b, size_t i, struct kr_box_preload *ret)
{
    const struct kr_box_preload_slot *slot = &b->preloads[i];
    struct kr_engine_zygote z = kr_engine_zygote(b->engine, zygote_of(b, i));

    *ret = (struct kr_box_preload){.template = b->config.preload_templates[i], .state = "absent", .why = slot->why};
    if (!slot->folder[0])
        return;
    ret->state = kr_zygote_state_names[z.state];
    if (z.state == KR_ZYG_FAILED)
        ret->why = z.err->msg;
}

/* ---- a session ---- */

/* spec->folder is the workspace, if it is one of the shelf: the same sandbox's then. */
static int show_env(const struct kr_box *b, const char *folder, struct kr_session_spec *spec, struct kr_err *err)
{
    int r = has_env(b, folder) ? 0 : make_env(b, folder, err);

    if (r < 0)
        return r;
    spec->venv = true;
    if (kr_engine_zygote(b->engine, spec->zygote).preload != KR_PRELOAD_BASIC && shadows(b, folder))
        spec->zygote = kr_box_zygote_of(b, KR_PRELOAD_BASIC);
    choose_preloaded(b, folder, spec);
    if (!spec->folder[0])
        snprintf(spec->folder, sizeof spec->folder, "%s", folder);
    return 0;
}

void kr_box_env_show(const struct kr_box *b, const struct kr_box_session *session, struct kr_session_spec *spec)
{
    struct kr_err err;

    if (!b->config.python || !session->home[0])
        return;
    if (show_env(b, session->home, spec, &err) < 0) {
        kr_log(KR_LOG_WARN, "session without its sandbox's packages", "session=%s sandbox=%s error=\"%s\"",
               session->name, session->sandbox, err.msg);
        return;
    }
    if (session->secrets_tls && show_authority(b, session->home, &err) < 0)
        kr_log(KR_LOG_ERROR, "session without the server's certificate authority", "session=%s sandbox=%s error=\"%s\"",
               session->name, session->sandbox, err.msg);
}

int kr_box_sandbox_env(const struct kr_box *b, const struct kr_sandbox *s, struct kr_session_spec *spec,
                       struct kr_err *err)
{
    return show_env(b, s->row.folder, spec, err);
}
