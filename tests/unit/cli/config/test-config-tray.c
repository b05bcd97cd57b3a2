/* Files of settings that cross from one process to another, and what a new reading of them may change. */
#include "check.h"
#include "config_rows.h"
#include "config_tray.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int load_from(struct kr_config_tray *tray, struct kr_config **ret, struct kr_err *err)
{
    static char name[] = "krait", flag[] = "--config", path[] = "/nowhere/krait.toml";
    static char *argv[] = {name, flag, path, NULL};
    struct kr_config_how how = {.argc = 3, .argv = argv, .tray = tray};

    return kr_config_load(&how, ret, err);
}

static void fill(struct kr_config_tray *tray, const char *text)
{
    static char path[] = "/nowhere/krait.toml";
    struct kr_config_kept kept = {.name = path, .text = (char *)text, .len = strlen(text)};

    CHECK(kr_config_keep(tray, &kept) == 0);
}

static void a_tray_crosses(void)
{
    cleanup_config_tray struct kr_config_tray in = {0}, out = {0};
    cleanup_config struct kr_config *config = NULL;
    cleanup_fd int fd = memfd_create("test", MFD_CLOEXEC);
    struct kr_config_kept none = {.name = (char[]){".env"}, .result = 0, .why = "it is a symbolic link"};
    struct kr_err err;

    fill(&in, "[limits]\ntimeout = \"7s\"\n");
    CHECK(kr_config_keep(&in, &none) == 0);
    CHECK(kr_config_tray_write(&in, fd) == 0 && kr_config_tray_read(fd, &out) == 0);
    CHECK(out.is_full && out.count == 2 && out.uid == geteuid());
    CHECK(strcmp(kr_config_find_kept(&out, ".env")->why, "it is a symbolic link") == 0);
    CHECK(load_from(&out, &config, &err) == 0 && config->profile.limits.timeout_ms == 7000);
}

static void what_was_not_kept_is_missing(void)
{
    cleanup_config_tray struct kr_config_tray tray = {.is_full = 1};
    struct kr_config *config = NULL;
    struct kr_err err;

    CHECK(load_from(&tray, &config, &err) == -ENOENT && !config);
    CHECK(strstr(err.msg, "/nowhere/krait.toml"));
}

/* Every length up to the whole is refused and leaks nothing; so are numbers that no tray has. */
static void a_damaged_tray_is_refused(void)
{
    cleanup_config_tray struct kr_config_tray in = {0}, out = {0};
    cleanup_fd int fd = memfd_create("test", MFD_CLOEXEC);
    const uint32_t much = UINT32_MAX;
    off_t size;

    fill(&in, "[limits]\n");
    CHECK(kr_config_tray_write(&in, fd) == 0);
    size = lseek(fd, 0, SEEK_END);
    for (off_t cut = size - 1; cut >= 0; cut--) {
        CHECK(ftruncate(fd, cut) == 0);
        CHECK(kr_config_tray_read(fd, &out) == -EBADMSG && out.count == 0);
    }
    for (off_t at = 0; at < 20; at += 4) { /* magic and count; lengths of a name and a text behind the uid */
        CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 && kr_config_tray_write(&in, fd) == 0);
        CHECK(pwrite(fd, &much, sizeof much, at) == (ssize_t)sizeof much);
        CHECK((kr_config_tray_read(fd, &out) == -EBADMSG) == (at != 8)); /* a uid may be any number */
        kr_config_tray_done(&out);
    }
}

static void a_tray_has_its_bound(void)
{
    cleanup_config_tray struct kr_config_tray tray = {0};
    struct kr_config_kept kept = {.name = (char[]){"x"}};

    for (unsigned i = 0; i < KR_CONFIG_KEPT_MAX; i++)
        fill(&tray, "");
    CHECK(kr_config_keep(&tray, &kept) == -ENOSPC);
    CHECK(kr_config_keep(NULL, &kept) == 0);
}

/* ---- for another user ---- */

#define READER 12345u /* a user that this machine does not have */

/* Reads a file of the current folder, or one that is named, for another user. The error of a refusal is looked at. */
static int read_for_reader(const char *name, bool here)
{
    cleanup_config_tray struct kr_config_tray tray = {.reader_uid = READER, .reader_gid = READER};
    cleanup_free char *text = NULL;
    char why[192];
    struct kr_err err = {0};
    size_t len = 0;
    int r = here ? kr_config_read_here(&tray, name, 100, &text, &len, why, sizeof why, &err)
                 : kr_config_read_named(&tray, name, 100, &text, &len, &err);

    return r == -EPERM && !strstr(err.msg, "is not read again") ? -EBADMSG : r;
}

static void what_another_user_can_choose_is_not_read_for_it(void)
{
    char folder[] = "/tmp/krait-tray-XXXXXX";
    cleanup_fd int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;

    if (geteuid() != 0)
        return; /* the user of the server is another one for root alone */
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    fd = open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && symlink("file", "link") == 0 && symlink("loop", "loop") == 0 && mkdir("inner", 0755) == 0);
    CHECK(symlink("../link", "inner/far") == 0);
    CHECK(read_for_reader("file", true) == 1 && read_for_reader("missing", true) == 0);
    CHECK(read_for_reader("file", false) == 0 && read_for_reader("inner/far", false) == 0);
    CHECK(read_for_reader("loop", false) == -ELOOP && read_for_reader("missing", false) == -ENOENT);
    CHECK(read_for_reader("inner", false) == -EINVAL && read_for_reader("file/x", false) == -ENOTDIR);

    CHECK(lchown("link", READER, READER) == 0 && read_for_reader("inner/far", false) == -EPERM);
    CHECK(read_for_reader("file", false) == 0);
    CHECK(chown("file", 0, READER) == 0 && chmod("file", 0660) == 0 && read_for_reader("file", false) == -EPERM);
    CHECK(chmod("file", 0640) == 0 && read_for_reader("file", false) == 0);
    CHECK(chown(".", READER, READER) == 0 && read_for_reader("file", false) == -EPERM);
    CHECK(read_for_reader("file", true) == -EPERM && read_for_reader("missing", true) == 0);
    CHECK(unlink("inner/far") == 0 && rmdir("inner") == 0 && unlink("loop") == 0 && unlink("link") == 0);
    CHECK(unlink("file") == 0 && rmdir(folder) == 0 && fchdir(back) == 0);
}

/* ---- changes ---- */

static struct kr_config *with(const char *text)
{
    cleanup_config_tray struct kr_config_tray tray = {0};
    struct kr_config *config = NULL;
    struct kr_err err;

    fill(&tray, text);
    tray.is_full = 1;
    return load_from(&tray, &config, &err) == 0 ? config : NULL;
}

/* config_reload.c moves values without memory of their own, secrets and lists of words. */
static void rows_that_change_can_be_moved(void)
{
    size_t count, reloads = 0;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        reloads += rows[i].reload;
        CHECK(!rows[i].reload || rows[i].type == KR_SET_SECRET || rows[i].type == KR_SET_CHOICE ||
              rows[i].type == KR_SET_BOOL || rows[i].type == KR_SET_RULE || rows[i].type == KR_SET_WORDS ||
              kr_config_is_number(&rows[i]));
    }
    CHECK(reloads > 30);
}

static void a_limit_moves_with_its_ceiling_or_not_at_all(void)
{
    cleanup_config struct kr_config *c = with("[limits]\nmax_memory = \"2G\"\n");
    cleanup_config struct kr_config *from = with("[limits]\nmemory = \"512M\"\nmax_memory = \"8G\"\noutput = \"1M\"\n");
    cleanup_config struct kr_config *lower = with("[limits]\nmemory = \"512M\"\nmax_memory = \"1G\"\n");
    struct kr_limits most = c->profiles[0].ceilings;
    struct kr_config_changes changes;

    kr_config_reload(c, from, &most, &changes);
    CHECK(strcmp(changes.changed, "limits.output") == 0);
    CHECK(strcmp(changes.waiting, "limits.memory limits.max_memory") == 0);
    CHECK(c->profiles[KR_DIALECT_KRAIT].limits.memory == UINT64_C(1) << 30 && c->profile.limits.output == 1u << 20);
    kr_config_reload(c, lower, &most, &changes);
    CHECK(strcmp(changes.changed, "limits.memory limits.output limits.max_memory") == 0 && !changes.waiting[0]);
    CHECK(c->profiles[KR_DIALECT_KRAIT].ceilings.memory == UINT64_C(1) << 30);
    CHECK(c->profiles[KR_DIALECT_KRAIT].limits.memory == UINT64_C(512) << 20);
}

static void a_list_that_may_change_does(void)
{
    cleanup_config struct kr_config *c = with("[packages]\nblocked = [\"a\", \"b\"]\n");
    cleanup_config struct kr_config *from = with("[packages]\nblocked = [\"c\"]\n");
    struct kr_limits most = c->profiles[0].ceilings;
    struct kr_config_changes changes;

    kr_config_reload(c, from, &most, &changes);
    CHECK(strcmp(changes.changed, "packages.blocked") == 0 && !changes.waiting[0]);
    CHECK(c->blocked_packages.count == 1 && strcmp(c->blocked_packages.items[0], "c") == 0);
    CHECK(from->blocked_packages.count == 2); /* each list has one owner still */
}

static void lists_and_mounts_wait_for_a_restart(void)
{
    cleanup_config struct kr_config *c = with("[sandboxes]\nmounts = [\"a=/a\"]\n");
    cleanup_config struct kr_config *same = with("[sandboxes]\nmounts = [\"a=/a\"]\n");
    cleanup_config struct kr_config *from =
        with("[server]\nport = 1\nuser = \"x\"\n[sandboxes]\nmounts = [\"a=/b\"]\n[http]\nallowed_hosts = [\"h\"]\n");
    struct kr_limits most = c->profiles[0].ceilings;
    struct kr_config_changes changes;

    kr_config_reload(c, same, &most, &changes);
    CHECK(!changes.changed[0] && !changes.waiting[0]);
    kr_config_reload(c, from, &most, &changes);
    CHECK(!changes.changed[0]);
    CHECK(strcmp(changes.waiting, "server.port server.user http.allowed_hosts sandboxes.mounts") == 0);
    CHECK(c->port == 8642 && strcmp(c->mounts.items[0].path, "/a") == 0);
}

/* What was printed, with single blanks, without the marks of comments. */
static char *printed_by(void (*print)(FILE *out))
{
    char *text = NULL, *to;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    print(out);
    fclose(out);
    to = text;
    for (char *from = text; *from; from++) {
        bool is_mark = *from == '#' && (from == text || from[-1] == '\n');

        if (!strchr(" \n", *from) && !is_mark)
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    *to = '\0';
    return text;
}

static bool has_all(const char *printed, const char *text)
{
    return !text || strstr(printed, text);
}

static void no_text_is_cut(void)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);
    char *help = printed_by(kr_config_help), *page = printed_by(kr_config_dump), range[96], high[32];
    char *example = printed_by(kr_config_env_example);

    for (size_t i = 0; i < count; i++) {
        const struct kr_config_row *row = &rows[i];
        bool is_shown = row->section != NULL;

        CHECK(has_all(help, row->help) && has_all(page, row->help) && (!is_shown || has_all(example, row->help)));
        CHECK(has_all(help, row->fallback_text) && has_all(page, row->fallback_text));
        CHECK(has_all(page, row->zero) && (!is_shown || has_all(example, row->zero)));
        kr_config_range(row, range, sizeof range);
        CHECK(strlen(range) < sizeof range - 1 && has_all(range, row->zero));
        if (kr_config_is_number(row))
            CHECK(has_all(range, kr_config_show_number(row, row->max, high, sizeof high)));
    }
    free(help);
    free(page);
    free(example);
}

int main(void)
{
    RUN(no_text_is_cut);
    RUN(a_tray_crosses);
    RUN(what_was_not_kept_is_missing);
    RUN(a_damaged_tray_is_refused);
    RUN(a_tray_has_its_bound);
    RUN(what_another_user_can_choose_is_not_read_for_it);
    RUN(rows_that_change_can_be_moved);
    RUN(a_limit_moves_with_its_ceiling_or_not_at_all);
    RUN(a_list_that_may_change_does);
    RUN(lists_and_mounts_wait_for_a_restart);
    CHECK_DONE();
}
