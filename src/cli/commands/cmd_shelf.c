/* `krait shelf show|ls|cp|grow|move`: where the sandboxes' files are, for the operator.
 *
 * Called from main.c. An image is mounted in a mount namespace of this process, whether a server has it mounted too or
 * not (shelf.h). Invariants: nothing but `grow` and `move` changes anything, and no image is made but by `move`; names
 * in a sandbox are resolved beneath its folder and through no link, as hostile code made them. */
#include "buf.h"
#include "fd.h"
#include "files.h"
#include "limit.h"
#include "measure.h"
#include "shelf.h"
#include "shelf_copy.h"
#include "shelf_move.h"
#include "shelf_open.h"
#include "store_sandbox.h"
#include "verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define JSON_MAX (64u << 20)

struct shelf_options {
    struct kr_verb_options common;
    const char *to, *size, *user;
};

/* clang-format off */
#define AT(field) offsetof(struct shelf_options, field)
static const struct kr_opt_row option_rows[] = {
    { .name = "to", .type = KR_OPT_TEXT, .offset = AT(to), .value = "KIND", .fallback = "none", .example = "image",
      .help = "move: image or folder." },
    { .name = "size", .type = KR_OPT_TEXT, .offset = AT(size), .value = "SIZE",
      .fallback = "64 GiB, or 80 % of what is free if that is less", .example = "200G",
      .help = "move: the size of the image." },
    { .name = "user", .type = KR_OPT_TEXT, .offset = AT(user), .value = "NAME", .fallback = "all users",
      .example = "alice", .help = "ls, cp: whose sandbox, if several users have one of that name." },
    KR_VERB_ROWS(struct shelf_options),
};
/* clang-format on */

const struct kr_opt_table kr_shelf_options_table = {
    .command = "shelf",
    .usage = "[show|ls|cp|grow|move] [options] …",
    .about = "Shows where sandboxes' files are kept and what they take, reaches files that lie in an image, makes an "
             "image larger, and moves all sandboxes between an image and a plain folder.",
    .notes = "Example: krait shelf cp default/report.csv /tmp/report.csv\n"
             "`move` needs a stopped server; it can be repeated if it was interrupted. The others do not.",
    .rows = option_rows,
    .count = sizeof option_rows / sizeof option_rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* ---- sandboxes ---- */

struct one {
    char id[KR_STORE_ID_ROOM], name[KR_STORE_NAME_ROOM], user[KR_STORE_NAME_ROOM], folder[KR_STORE_ID_ROOM];
    struct kr_w_shelved usage;
    bool is_whole; /* the figures are */
};

struct all {
    struct kr_store *store;
    struct one *rows;
    size_t count, room;
    char user[KR_STORE_NAME_ROOM]; /* whose are being listed */
    char (*owners)[2][KR_STORE_NAME_ROOM];
    size_t owner_count, owner_room;
    bool no_memory;
};

static void *grow_rows(void *rows, size_t *room, size_t size, bool *failed)
{
    size_t more = *room ? 2 * *room : 32;
    void *grown = reallocarray(rows, more, size);

    if (!grown) {
        *failed = true;
        return rows;
    }
    *room = more;
    return grown;
}

static void on_owner(void *data, const struct kr_store_user *user)
{
    struct all *a = data;

    if (a->owner_count == a->owner_room)
        a->owners = grow_rows(a->owners, &a->owner_room, sizeof *a->owners, &a->no_memory);
    if (a->owner_count == a->owner_room)
        return;
    snprintf(a->owners[a->owner_count][0], KR_STORE_NAME_ROOM, "%s", user->id);
    snprintf(a->owners[a->owner_count++][1], KR_STORE_NAME_ROOM, "%s", user->name);
}

static void on_sandbox(void *data, const struct kr_store_sandbox *s)
{
    struct all *a = data;
    struct one *row;

    if (a->count == a->room)
        a->rows = grow_rows(a->rows, &a->room, sizeof *a->rows, &a->no_memory);
    if (a->count == a->room)
        return;
    row = &a->rows[a->count++];
    *row = (struct one){.is_whole = true};
    snprintf(row->id, sizeof row->id, "%s", s->id);
    snprintf(row->name, sizeof row->name, "%s", s->name);
    snprintf(row->user, sizeof row->user, "%s", a->user);
    snprintf(row->folder, sizeof row->folder, "%s", s->folder);
}

static void free_all(struct all *a)
{
    free(a->rows);
    free(a->owners);
}

static int list_users(struct all *a, struct kr_err *err)
{
    char after[KR_STORE_CURSOR_ROOM] = "";
    int r;

    do {
        struct kr_store_page page = {.after = after, .limit = KR_STORE_PAGE_MAX};

        r = kr_store_users_list(a->store, &page, on_owner, a, err);
        memcpy(after, page.next, sizeof after);
    } while (r >= 0 && after[0]);
    return r;
}

static int list_sandboxes(struct all *a, const char *user, struct kr_err *err)
{
    int r = list_users(a, err);

    for (size_t i = 0; r >= 0 && i < a->owner_count; i++) {
        char after[KR_STORE_CURSOR_ROOM] = "";

        snprintf(a->user, sizeof a->user, "%s", a->owners[i][1]);
        if (user && strcmp(user, a->user) != 0)
            continue;
        do {
            struct kr_store_page page = {.after = after, .limit = KR_STORE_PAGE_MAX};

            r = kr_store_sandboxes_list(a->store, a->owners[i][0], &page, on_sandbox, a, err);
            memcpy(after, page.next, sizeof after);
        } while (r >= 0 && after[0]);
    }
    return a->no_memory ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the list of sandboxes") : r < 0 ? r : 0;
}

/* ---- show ---- */

static void measure_plain(const struct kr_shelf_opened *o, struct one *row)
{
    char path[KR_STORE_ID_ROOM + 8];
    cleanup_fd int fd = -1;
    struct kr_measure_max max = {0};
    struct kr_measure found = {.gap = KR_MEASURE_UNREADABLE};

    snprintf(path, sizeof path, "%s/files", row->folder);
    fd = openat(o->shelf.dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return; /* it was never used */
    row->is_whole = fd >= 0 && kr_measure(fd, &max, &found) >= 0 && found.gap == KR_MEASURE_WHOLE;
    row->usage.bytes = found.bytes;
    row->usage.inodes = found.entries;
}

static void measure(struct kr_shelf_opened *o, struct one *row)
{
    struct kr_w_shelf question = {.op = KR_SHELF_USAGE};
    struct kr_err ignored;

    memcpy(question.name, row->folder, sizeof question.name);
    if (kr_shelf_do(&o->shelf, &question, &row->usage, &ignored) < 0)
        row->usage = (struct kr_w_shelved){.kind = KR_SHELF_IS_FOLDER};
    if (row->usage.kind == KR_SHELF_IS_FOLDER)
        measure_plain(o, row);
}

static const char *const kind_names[] = {
    [KR_SHELF_IS_FOLDER] = "folder", [KR_SHELF_IS_BTRFS] = "btrfs", [KR_SHELF_IS_PROJECT] = "project"};

static const char *show_bytes(uint64_t bytes, char buf[32])
{
    static const struct kr_limit_row row = {.unit = KR_UNIT_BYTES};

    return kr_limit_show(&row, bytes, buf, 32);
}

static void write_figures(struct kr_json *j, const struct kr_w_shelved *u)
{
    kr_json_key_str(j, "kind", kind_names[u->kind]);
    kr_json_key_uint(j, "bytes", u->bytes);
    kr_json_key_uint(j, "limit_bytes", u->max_bytes);
}

static int show_json(const struct kr_shelf_opened *o, const struct kr_w_shelved *whole, const struct all *a,
                     struct kr_err *err)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, JSON_MAX);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    write_figures(&j, whole);
    kr_json_key_str(&j, "path", o->path);
    kr_json_key_bool(&j, "image", o->shelf.image);
    kr_json_key_str(&j, "why", o->plan.why);
    kr_json_key_uint(&j, "size", whole->size);
    kr_json_key_uint(&j, "room", whole->room);
    kr_json_key_uint(&j, "host_free", whole->host_free);
    kr_json_key(&j, "sandboxes");
    kr_json_array(&j);
    for (size_t i = 0; i < a->count; i++) {
        kr_json_object(&j);
        kr_json_key_str(&j, "id", a->rows[i].id);
        kr_json_key_str(&j, "name", a->rows[i].name);
        kr_json_key_str(&j, "user", a->rows[i].user);
        kr_json_key_str(&j, "folder", a->rows[i].folder);
        write_figures(&j, &a->rows[i].usage);
        kr_json_key_bool(&j, "incomplete", !a->rows[i].is_whole);
        kr_json_object_end(&j);
    }
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    return kr_verbs_print(&j, err);
}

static void show_text(const struct kr_shelf_opened *o, const struct kr_w_shelved *whole, const struct all *a)
{
    char used[32], limit[32];

    if (whole->kind == KR_SHELF_IS_FOLDER)
        printf("%s: a plain folder; limits are counted, not enforced (%s)\n", o->path, o->plan.why);
    else
        printf("%s%s: limits are enforced by %s\n", o->path, o->shelf.image ? KR_SHELF_IMAGE_SUFFIX : "",
               whole->kind == KR_SHELF_IS_BTRFS ? "btrfs" : "project quotas");
    printf("size %s, ", show_bytes(whole->size, used));
    printf("room for %s, ", show_bytes(whole->room, used));
    printf("free on its disk %s\n\n", show_bytes(whole->host_free, used));
    printf("%-26s  %-20s  %-16s  %10s  %10s\n", "ID", "NAME", "USER", "USED", "LIMIT");
    for (size_t i = 0; i < a->count; i++)
        printf("%-26s  %-20s  %-16s  %10s  %10s%s\n", a->rows[i].id, a->rows[i].name, a->rows[i].user,
               show_bytes(a->rows[i].usage.bytes, used),
               a->rows[i].usage.max_bytes ? show_bytes(a->rows[i].usage.max_bytes, limit) : "-",
               a->rows[i].is_whole ? "" : "  (there is more)");
}

static int show(struct kr_verb_call *c, struct kr_err *err)
{
    static const struct kr_w_shelf question = {.op = KR_SHELF_USAGE};
    struct all all = {.store = c->store};
    struct kr_w_shelved whole;
    struct kr_shelf_opened o;
    int r = list_sandboxes(&all, NULL, err);

    if (r >= 0)
        r = kr_shelf_open(c->data, &o, err);
    if (r >= 0) {
        r = kr_shelf_do(&o.shelf, &question, &whole, err);
        for (size_t i = 0; r >= 0 && i < all.count; i++)
            measure(&o, &all.rows[i]);
        if (r >= 0 && ((const struct shelf_options *)c->options)->common.json)
            r = show_json(&o, &whole, &all, err);
        else if (r >= 0)
            show_text(&o, &whole, &all);
        kr_shelf_down(&o.shelf);
    }
    free_all(&all);
    return r;
}

/* ---- grow ---- */

static int parse_size(const char *text, uint64_t *ret, struct kr_err *err)
{
    static const struct kr_limit_row row = {
        .name = "size", .unit = KR_UNIT_BYTES, .min = KR_SHELF_SIZE_MIN, .max = KR_SHELF_SIZE_MAX, .example = "200G"};

    return kr_limit_parse(&row, text, ret, err);
}

static int grow(struct kr_verb_call *c, struct kr_err *err)
{
    struct kr_w_shelf question = {.op = KR_SHELF_GROW};
    struct kr_w_shelved whole;
    struct kr_shelf_opened o;
    char size[32];
    int r = parse_size(c->operands[0], &question.bytes, err);

    if (r >= 0)
        r = kr_shelf_open(c->data, &o, err);
    if (r < 0)
        return r;
    r = kr_shelf_do(&o.shelf, &question, &whole, err);
    kr_shelf_down(&o.shelf);
    if (r >= 0)
        fprintf(stderr, "krait shelf: the size is %s\n", show_bytes(whole.size, size));
    return r;
}

/* ---- ls, cp ---- */

static int find_sandbox(const struct kr_verb_call *c, const char *name, size_t len, char ret_folder[KR_STORE_ID_ROOM],
                        struct kr_err *err)
{
    const struct shelf_options *options = c->options;
    struct all all = {.store = c->store};
    const struct one *found = NULL;
    int r = list_sandboxes(&all, options->user, err), names = 0;

    for (size_t i = 0; r >= 0 && i < all.count; i++) {
        const struct one *row = &all.rows[i];
        bool is_id = strlen(row->id) == len && strncmp(row->id, name, len) == 0;

        if (!is_id && !(strlen(row->name) == len && strncmp(row->name, name, len) == 0))
            continue;
        found = row;
        names = is_id ? 1 : names + 1;
        if (is_id)
            break;
    }
    if (r >= 0 && names == 0)
        r = kr_err_set(err, KR_ERR_NOT_FOUND, 0, "no sandbox has the id or name %.*s", (int)len, name);
    else if (r >= 0 && names > 1)
        r = kr_err_set(err, KR_ERR_CONFLICT, 0, "%d sandboxes have the name %.*s: give the id, or --user", names,
                       (int)len, name);
    else if (r >= 0)
        memcpy(ret_folder, found->folder, KR_STORE_ID_ROOM);
    free_all(&all);
    return r;
}

/* "SANDBOX/PATH": a descriptor of the sandbox's files; *ret_path is the rest. */
static int open_sandbox(const struct kr_verb_call *c, struct kr_shelf_opened *o, const char *address,
                        const char **ret_path, struct kr_err *err)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    size_t len = strcspn(address, "/");
    char folder[KR_STORE_ID_ROOM], files[KR_STORE_ID_ROOM + 8];
    int r = find_sandbox(c, address, len, folder, err), fd;

    if (r >= 0)
        r = kr_shelf_open(c->data, o, err);
    if (r < 0)
        return r;
    snprintf(files, sizeof files, "%s/files", folder);
    fd = (int)syscall(SYS_openat2, o->shelf.dir, files, &how, sizeof how); /* the name is the server's */
    if (fd < 0) {
        r = errno == ENOENT ? kr_err_set(err, KR_ERR_NOT_FOUND, 0, "the sandbox has no files yet")
                            : kr_err_set(err, KR_ERR_SYSTEM, errno, "open the sandbox's folder");
        kr_shelf_down(&o->shelf);
        return r;
    }
    *ret_path = address + len + strspn(address + len, "/");
    return fd;
}

static int list_files(struct kr_verb_call *c, struct kr_err *err)
{
    struct kr_files_list_spec spec = {.limit = 10000};
    struct kr_files_list list;
    char size[32], when[KR_VERBS_TIME_ROOM];
    const char *path = "";
    struct kr_shelf_opened o;
    int r, ws = open_sandbox(c, &o, c->operands[0], &path, err);

    if (ws < 0)
        return ws;
    r = kr_files_list(ws, path, &spec, &list, err);
    for (size_t i = 0; r >= 0 && i < list.count; i++) {
        const struct kr_file_info *f = &list.entries[i].info;

        printf("%-6s  %10s  %s  %s\n", kr_file_type_names[f->type], show_bytes(f->size, size),
               kr_verbs_time((int64_t)(f->mtime_ns / 1000), when), list.entries[i].path);
    }
    if (r >= 0) {
        if (list.more || list.incomplete)
            fprintf(stderr, "krait shelf: there is more\n");
        kr_files_list_done(&list);
    }
    kr_fd_close(ws);
    kr_shelf_down(&o.shelf);
    return r;
}

static int copy_files(struct kr_verb_call *c, struct kr_err *err)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    const char *path = "", *to = c->operands[1];
    struct kr_shelf_opened o;
    struct stat st;
    int r = 0, ws, fd = -1;

    if (lstat(to, &st) == 0)
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "%.150s is there already", to);
    ws = open_sandbox(c, &o, c->operands[0], &path, err);
    if (ws < 0)
        return ws;
    r = kr_shelf_hold(o.shelf.dir, err);
    fd = r < 0 ? -1 : (int)syscall(SYS_openat2, ws, *path ? path : ".", &how, sizeof how);
    if (r >= 0 && (fd < 0 || fstat(fd, &st) < 0))
        r = kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_DENIED, errno, "%.100s in the sandbox", path);
    else if (r >= 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        r = kr_err_set(err, KR_ERR_INVALID, 0, "%.100s is neither a file nor a folder", path);
    if (r >= 0)
        r = kr_shelf_copy(fd, to, err);
    kr_fd_close(fd);
    kr_fd_close(ws);
    kr_shelf_down(&o.shelf);
    return r;
}

/* ---- move ---- */

static int move(struct kr_verb_call *c, struct kr_err *err)
{
    const struct shelf_options *options = c->options;
    bool to_image = options->to && strcmp(options->to, "image") == 0;
    uint64_t size = 0;
    int r = options->size ? parse_size(options->size, &size, err) : 0;

    if (r < 0)
        return r;
    if (to_image)
        r = kr_shelf_to_image(c->data, size, err);
    else if (options->to && strcmp(options->to, "folder") == 0)
        r = kr_shelf_to_folder(c->data, err);
    else
        r = kr_err_set(err, KR_ERR_INVALID, 0, "--to: say image or folder");
    if (r >= 0)
        fprintf(stderr, "krait shelf: the sandboxes are in the %s %s/sandboxes%s\n", to_image ? "image" : "folder",
                c->data, to_image ? KR_SHELF_IMAGE_SUFFIX : "");
    return r;
}

int kr_cmd_shelf(int argc, char **argv)
{
    static const struct kr_verb rows[] = {
        {.name = "show",
         .flags = "",
         .run = show,
         .help = "What the shelf is, what it holds, what each sandbox takes."},
        {.name = "ls",
         .operands = "SANDBOX[/PATH]",
         .least = 1,
         .most = 1,
         .flags = "user",
         .run = list_files,
         .help = "Lists a folder of a sandbox."},
        {.name = "cp",
         .operands = "SANDBOX[/PATH] TARGET",
         .least = 2,
         .most = 2,
         .flags = "user",
         .run = copy_files,
         .help = "Copies a file or folder out of a sandbox to TARGET, which must not be there."},
        {.name = "grow",
         .operands = "SIZE",
         .least = 1,
         .most = 1,
         .flags = "",
         .run = grow,
         .help = "Makes the image larger, also while a server runs."},
        {.name = "move",
         .flags = "to size",
         .run = move,
         .help = "Moves all sandboxes: --to image, --to folder. No krait may have the data folder meanwhile."},
    };
    static const struct kr_verbs verbs = {&kr_shelf_options_table, rows, sizeof rows / sizeof rows[0]};
    char *with_show[64] = {argv[0], (char *)"show"};
    struct shelf_options options = {0};

    if (argc > 1 && (argv[1][0] != '-' || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return kr_verbs_main(&verbs, argc, argv, &options);
    if (argc > 60)
        argc = 60;
    for (int i = 1; i < argc; i++)
        with_show[i + 1] = argv[i];
    return kr_verbs_main(&verbs, argc + 1, with_show, &options);
}
