/* `krait doctor`: what holds a session on this machine, found by trying it in real cells; and what is missing, what
 * that costs, how to get it.
 *
 * Called from main.c. The process as started becomes the warden, as for every command with cells; the engine
 * (doctor_app.c) fills a report in shared memory, which is printed here when every cell is gone. Invariants: a
 * report is printed whatever fails; the exit status is 0 only if the native tier holds as a whole; the folders that
 * are made, one for trials and one in the data directory, are removed again. */
#include "commands.h"
#include "exit_status.h"
#include "config.h"
#include "doctor.h"
#include "fd.h"
#include "log.h"
#include "verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIDTH_MIN 72
#define WIDTH_MAX 132
#define WIDTH_ELSE 110 /* where there is no terminal */

struct doctor_options {
    struct kr_cli_common common;
    bool json, no_color;
    const char *data, *shelf;
};

/* clang-format off */
#define AT(field) offsetof(struct doctor_options, field)
static const struct kr_opt_row rows[] = {
    { .name = "json", .type = KR_OPT_FLAG, .offset = AT(json), .example = "--json",
      .help = "Print one JSON object: ok, level, and layers with name, state, detail, lost and fix." },
    { .name = "no-color", .type = KR_OPT_FLAG, .offset = AT(no_color), .example = "--no-color",
      .help = "No colours on a terminal either; NO_COLOR in the environment means the same." },
    { .name = "data", .type = KR_OPT_TEXT, .offset = AT(data), .value = "DIR",
      .fallback = "KRAIT_DATA; /var/lib/krait as root, else ~/.local/state/krait", .example = "/srv/krait",
      .help = "The data folder of `krait serve`: the row about sandboxes' disks is about this one." },
    { .name = "shelf", .type = KR_OPT_TEXT, .offset = AT(shelf), .value = "KIND", .fallback = "KRAIT_SHELF; auto",
      .example = "folder", .help = "The setting `shelf` of `krait serve`: auto, image or folder." },
    KR_CLI_COMMON_ROWS(struct doctor_options),
};
/* clang-format on */

const struct kr_opt_table kr_doctor_options_table = {
    .command = "doctor",
    .usage = "[options]",
    .about = "Tries every layer that holds a session, in real cells, and says what is missing, what is lost without it "
             "and how to get it. "
             "Exits with 0 only if the native tier holds as a whole, else with 1.",
    .notes = "States: ok; degraded, something weaker holds instead; missing; failed, a probe got through.\n"
             "Example: krait doctor --json | jq '.layers[] | select(.state != \"ok\")'",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* ---- a folder for the trials ---- */

struct ground {
    char top[200], folder[220], file[220]; /* "" if there is none */
    char data[4096], shelf_top[4096 + 24], shelf[4096 + 32];
    struct kr_doctor_place place;
};

/* Where the server's sandboxes are, or will be. A setting that cannot be is an error only if it was given here. */
static int find_place(const struct doctor_options *o, struct ground *g, struct kr_err *err)
{
    cleanup_config struct kr_config *config = NULL;
    int r = kr_verbs_config(o->data, o->shelf ? o->shelf : getenv("KRAIT_SHELF"), &config, err);

    *g = (struct ground){0};
    g->place.folder = g->shelf;
    if (r < 0)
        return o->data || o->shelf ? r : 0;
    snprintf(g->data, sizeof g->data, "%s", config->data);
    g->place = (struct kr_doctor_place){
        .data = g->data, .is_there = access(g->data, F_OK) == 0, .choice = config->shelf, .folder = g->shelf};
    return 0;
}

/* In the data directory if we may write there: another filesystem would give another answer. */
static void make_shelf_ground(struct ground *g)
{
    snprintf(g->shelf_top, sizeof g->shelf_top, "%s/krait-doctor-XXXXXX", g->data);
    g->place.is_elsewhere = !g->place.is_there || !mkdtemp(g->shelf_top);
    if (g->place.is_elsewhere)
        snprintf(g->shelf_top, sizeof g->shelf_top, "%s", g->top);
    snprintf(g->shelf, sizeof g->shelf, "%s/shelf", g->shelf_top);
    if (mkdir(g->shelf, 0700) < 0)
        g->shelf[0] = '\0';
}

static void make_ground(struct ground *g)
{
    const char *tmp = getenv("TMPDIR");
    int fd;

    snprintf(g->top, sizeof g->top, "%.160s/krait-doctor-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (!mkdtemp(g->top)) {
        g->top[0] = '\0';
        return;
    }
    snprintf(g->folder, sizeof g->folder, "%s/folder", g->top);
    snprintf(g->file, sizeof g->file, "%s/file", g->top);
    make_shelf_ground(g);
    if (mkdir(g->folder, 0700) < 0)
        g->folder[0] = '\0';
    fd = open(g->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || kr_fd_write_all(fd, "bait\n", 5) < 0)
        g->file[0] = '\0';
    kr_fd_close(fd);
}

static void remove_names(const char *top, const char *const *names)
{
    char path[4096 + 64];

    for (size_t i = 0; names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", top, names[i]);
        if (remove(path) < 0 && errno != ENOENT)
            fprintf(stderr, "krait doctor: %s stays: %s\n", path, strerror(errno));
    }
    (void)rmdir(top);
}

static void remove_ground(const struct ground *g)
{
    static const char *const shelf[] = {"shelf.image", "shelf", NULL};
    static const char *const rest[] = {"folder/word", "folder/much", "folder", "file", NULL};

    if (!g->top[0])
        return;
    remove_names(g->shelf_top, shelf);
    remove_names(g->top, rest);
}

/* ---- launching ---- */

/* In the engine: the folder as it may see it. */
static void take_folder_view(void *arg, size_t index, int dir)
{
    struct kr_doctor_app *app = arg;

    (void)index; /* there is one */
    app->view = dir;
}

/* In the warden: the bait stands as long as the engine does. */
static void forget_bait(void *arg)
{
    kr_doctor_bait_close(&((struct kr_doctor_app *)arg)->bait);
}

static int launch(const struct doctor_options *o, struct kr_doctor_app *app, struct kr_err *err)
{
    struct kr_warden_config config;
    cleanup_free char *real = NULL;
    int r = kr_cli_common_apply(&o->common, &config, err);

    if (r >= 0 && app->folder)
        r = kr_cli_add_workspace(&config, app->folder, false, &real, err);
    if (r < 0)
        return r;
    kr_cli_add_zygote(&o->common, &config, KR_PRELOAD_BASIC);
    if (!app->folder)
        kr_cli_add_zygote(&o->common, &config, KR_PRELOAD_DATA);
    config.stock = 0;
    config.engine_apart = 1;
    config.on_engine_folder = take_folder_view;
    config.on_engine_forked = forget_bait;
    kr_doctor_bait_open(&app->bait, app->file, app->home);
    r = kr_warden_launch(&config, kr_doctor_app_main, app, err);
    kr_doctor_bait_close(&app->bait); /* where no engine was forked */
    return r;
}

static volatile pid_t apart_child;
static volatile sig_atomic_t stop_signal;

/* Between the launches; during one, warden and engine see to signals themselves. */
static void on_stop_signal(int signo)
{
    stop_signal = signo;
    if (apart_child > 0)
        kill(apart_child, SIGTERM);
}

static void watch_doctor_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = on_stop_signal};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

static void await_apart_child(void)
{
    while (apart_child > 0 && waitpid(apart_child, NULL, 0) < 0 && errno == EINTR)
        ;
    apart_child = 0;
}

/* Host folders are tried in a process of their own: launching changes the namespaces of the process that does it,
 * and a folder that cannot be used must not cost the rest. */
static void examine_folder(const struct doctor_options *o, const struct ground *g, struct kr_doctor_report *report)
{
    struct kr_doctor_app app = {.report = report, .stop = &stop_signal, .folder = g->folder, .view = -1};
    struct kr_err err = {0};

    if (!g->folder[0]) {
        kr_doctor_set(report, KR_DOC_FOLDER, KR_DOCTOR_MISSING, "not tried: no folder could be made in TMPDIR or /tmp");
        return;
    }
    apart_child = fork();
    if (apart_child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == 0 && launch(o, &app, &err) < 0)
            kr_doctor_set(report, KR_DOC_FOLDER, KR_DOCTOR_MISSING, "%s", err.msg);
        _exit(0);
    }
    await_apart_child();
}

static void examine_shelf(const struct ground *g, struct kr_doctor_report *report)
{
    if (!g->shelf[0]) {
        kr_doctor_set(report, KR_DOC_SHELF, KR_DOCTOR_MISSING, "not tried: no folder could be made in TMPDIR or /tmp");
        return;
    }
    apart_child = fork();
    if (apart_child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == 0)
            kr_doctor_shelf(&g->place, report);
        _exit(0);
    }
    await_apart_child();
}

/* All that is to be found out. reports[1] is the folder's. */
static void examine(const struct doctor_options *o, const struct ground *g, struct kr_doctor_report *reports)
{
    struct kr_doctor_report *report = &reports[0];
    struct kr_doctor_app app = {.report = report,
                                .stop = &stop_signal,
                                .file = g->file[0] ? g->file : NULL,
                                .home = getenv("HOME"),
                                .view = -1};
    struct kr_err err = {0};
    int r;

    report->level = reports[1].level = -1;
    examine_folder(o, g, &reports[1]);
    if (!stop_signal)
        examine_shelf(g, report);
    report->stopped_by = stop_signal ? stop_signal : reports[1].stopped_by;
    if (report->stopped_by)
        return;
    r = launch(o, &app, &err);
    if (stop_signal)
        report->stopped_by = stop_signal; /* what it cut short is not a finding */
    else if (r < 0)
        snprintf(report->error, sizeof report->error, "%s", err.msg);
    else if (!report->finished && !report->stopped_by && !report->error[0])
        snprintf(report->error, sizeof report->error, "the engine ended with status %d", r);
    if (report->level >= 0 && reports[1].findings[KR_DOC_FOLDER].detail[0])
        report->findings[KR_DOC_FOLDER] = reports[1].findings[KR_DOC_FOLDER];
    if (report->level < 0 && !report->stopped_by)
        kr_doctor_host(report);
}

/* ---- printing ---- */

static bool wants_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);

        if (value && value[0])
            return strcasestr(value, "UTF-8") || strcasestr(value, "utf8");
    }
    return false;
}

static struct kr_doctor_look look_of(const struct doctor_options *o)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize size = {0};
    bool terminal = isatty(1);
    struct kr_doctor_look look = {.utf8 = wants_utf8(), .width = WIDTH_ELSE};

    look.colour = terminal && !o->no_color && !(no && no[0]) && term && strcmp(term, "dumb") != 0;
    if (terminal && ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        look.width = size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col > WIDTH_MAX ? WIDTH_MAX : size.ws_col;
    return look;
}

static int print_report(const struct doctor_options *o, const struct kr_doctor_report *report)
{
    struct kr_doctor_look look = look_of(o);

    if (o->json && kr_doctor_json(report, stdout) < 0)
        return KR_EXIT_OURS;
    if (!o->json)
        kr_doctor_show(report, &look, stdout);
    if (fflush(stdout) != 0)
        return KR_EXIT_OURS;
    if (report->stopped_by)
        return 128 + report->stopped_by;
    return kr_doctor_holds(report) ? 0 : 1;
}

/* A line that says what takes so long, and is gone when it is over. */
static void say_waiting(const struct doctor_options *o, bool on)
{
    if (!o->json && isatty(1) && isatty(2))
        fputs(on ? "trying every layer in real cells, a few seconds … " : "\r\033[K", stderr);
}

int kr_cmd_doctor(int argc, char **argv)
{
    struct doctor_options options = {0};
    struct kr_doctor_report *reports;
    struct kr_warden_config unused;
    struct ground ground;
    struct kr_err err;
    int operand, r;

    kr_cli_common_default(&options.common);
    options.common.log_level = KR_LOG_ERROR; /* what goes wrong is in the report */
    r = kr_opt_parse(&kr_doctor_options_table, argc, argv, &options, &operand, &err);
    if (r == KR_OPT_HELP) {
        kr_opt_help(&kr_doctor_options_table, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (r >= 0 && operand < argc)
        r = kr_err_set(&err, KR_ERR_INVALID, 0, "\"%.60s\" is too much; only options may be given", argv[operand]);
    if (r >= 0)
        r = kr_cli_common_apply(&options.common, &unused, &err);
    if (r >= 0)
        r = find_place(&options, &ground, &err);
    if (r < 0)
        return kr_cli_fail("doctor", &err);
    reports = mmap(NULL, 2 * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reports == MAP_FAILED) {
        kr_err_set(&err, KR_ERR_SYSTEM, errno, "memory for the report");
        return kr_cli_fail("doctor", &err);
    }
    watch_doctor_signals();
    say_waiting(&options, true);
    make_ground(&ground);
    examine(&options, &ground, reports);
    remove_ground(&ground);
    say_waiting(&options, false);
    return print_report(&options, &reports[0]);
}
