/* What `krait doctor` puts up outside the cells: things a session must not reach, each reached from here first, so
 * that a refusal inside means something.
 *
 * Put up by cmd_doctor.c before the engine is forked, with the caller's rights; told to the probes by doctor_app.c.
 * Invariant: nothing of it outlives the engine: the socket has no file, the shared memory is marked for removal as soon
 * as it is attached, and the warden lets go of both. */
#include "doctor.h"
#include "caps.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PID_TOLD_FROM 100 /* lower numbers may be those of processes in the cell */

/* With these arguments an open call answers EFAULT, EBADF, ESRCH, EINVAL or does nothing. unshare is tried in a
 * child. */
/* clang-format off */
const struct kr_doctor_call kr_doctor_calls[] = {
    {"unshare", SYS_unshare, {CLONE_NEWUSER}, "EPERM"},
    {"setns", SYS_setns, {-1, 0}, "EPERM"},
    {"mount", SYS_mount, {0, 0, 0, 0}, "EPERM"},
    {"ptrace", SYS_ptrace, {2, -1, 0, 0}, "EPERM"},
    {"process_vm_readv", SYS_process_vm_readv, {-1, 0, 0, 0}, "EPERM"},
    {"keyctl", SYS_keyctl, {0xffff, 0, 0, 0}, "EPERM"},
    {"add_key", SYS_add_key, {0, 0, 0, 0}, "EPERM"},
    {"bpf", SYS_bpf, {-1, 0, 0}, "EPERM"},
    {"io_uring_setup", SYS_io_uring_setup, {0, 0}, "EPERM"},
    {"userfaultfd", SYS_userfaultfd, {-1}, "EPERM"},
    {"perf_event_open", SYS_perf_event_open, {0, 0, 0, -1}, "EPERM"},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}, "EPERM"},
    {"clone3", SYS_clone3, {0, 0}, "ENOSYS"},
};
/* clang-format on */
const size_t kr_doctor_calls_count = sizeof kr_doctor_calls / sizeof kr_doctor_calls[0];
_Static_assert(sizeof kr_doctor_calls / sizeof kr_doctor_calls[0] <= KR_DOCTOR_CALLS_MAX, "every call is in the bait");

const char *kr_doctor_word(int error, char *buf, size_t size)
{
    const char *name = error == 0 ? "ok" : strerrorname_np(error);

    if (name)
        snprintf(buf, size, "%s", name);
    else
        snprintf(buf, size, "errno %d", error);
    return buf;
}

/* The result of fn(arg) in a child, 0 to 254; 255 if the child could not tell. */
static int in_child(int (*fn)(const void *arg), const void *arg)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(arg));
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return 255;
    return WEXITSTATUS(status);
}

static int try_call(const void *arg)
{
    const struct kr_doctor_call *c = arg;

    return syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3], 0, 0) < 0 ? errno : 0;
}

/* The same count as the probe's landlock_rooms(). */
static int landlock_rooms(const void *arg)
{
    uint64_t handled = LANDLOCK_ACCESS_FS_EXECUTE;
    struct kr_err err;

    (void)arg;
    if (kr_no_new_privs(&err) < 0) /* without it a domain needs a capability */
        return 0;
    for (int count = 0; count < 32; count++) {
        int fd = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);

        if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
            return count;
        close(fd);
    }
    return 32;
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path + 1, name, strlen(name));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* An abstract name that listens, if we can connect to it. */
static void open_socket(struct kr_doctor_bait *b)
{
    struct sockaddr_un address;
    cleanup_fd int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len;

    b->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(b->abstract, sizeof b->abstract, "krait-doctor-%d", getpid());
    len = abstract_address(b->abstract, &address);
    if (b->socket < 0 || client < 0 || bind(b->socket, (struct sockaddr *)&address, len) < 0 ||
        listen(b->socket, 16) < 0 || connect(client, (struct sockaddr *)&address, len) < 0)
        b->abstract[0] = '\0';
}

/* Shared memory that every user may read. Marked for removal at once: it stays while it is attached (shmctl(2)). */
static void open_shm(struct kr_doctor_bait *b)
{
    struct shmid_ds info;

    b->shm = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0666);
    if (b->shm < 0)
        return;
    b->shm_at = shmat(b->shm, NULL, 0);
    if (shmctl(b->shm, IPC_RMID, NULL) < 0 || b->shm_at == (void *)-1 || shmctl(b->shm, IPC_STAT, &info) < 0)
        b->shm = -1;
}

/* A shared lock, which is in the way of no program but one that wants it alone. Is it in the way of a session? */
static int hold_lock(const char *path)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    cleanup_fd int again = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || again < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || flock(again, LOCK_EX | LOCK_NB) == 0)
        return -1;
    return steal_fd(&fd);
}

void kr_doctor_bait_open(struct kr_doctor_bait *b, const char *file, const char *home)
{
    char text[8];

    *b = (struct kr_doctor_bait){.socket = -1, .shm = -1, .lock_usr = -1, .lock_null = -1, .shm_at = (void *)-1};
    if (file && kr_fd_read_file_at(AT_FDCWD, file, text, sizeof text) >= 0)
        b->file = file;
    if (home && home[0] == '/' && strncmp(home, "/usr/", 5) != 0 && access(home, F_OK) == 0) /* every cell has /usr */
        b->home = home;
    open_socket(b);
    open_shm(b);
    b->lock_usr = hold_lock("/usr");
    b->lock_null = hold_lock("/dev/null");
    b->landlock_rooms = in_child(landlock_rooms, NULL);
    for (size_t i = 0; i < kr_doctor_calls_count; i++)
        kr_doctor_word(in_child(try_call, &kr_doctor_calls[i]), b->calls[i], sizeof b->calls[i]);
}

void kr_doctor_bait_close(struct kr_doctor_bait *b)
{
    b->socket = kr_fd_close(b->socket);
    b->lock_usr = kr_fd_close(b->lock_usr);
    b->lock_null = kr_fd_close(b->lock_null);
    if (b->shm_at != (void *)-1)
        shmdt(b->shm_at);
    b->shm_at = (void *)-1;
}

static json_t *text_or_null(const char *text)
{
    return text && text[0] ? json_string(text) : json_null();
}

static json_t *tell_home(const char *home)
{
    struct stat st;

    if (!home || stat(home, &st) < 0)
        return json_null();
    return json_pack("[s, I, I]", home, (json_int_t)st.st_dev, (json_int_t)st.st_ino);
}

static json_t *tell_namespaces(void)
{
    static const char *const names[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
    json_t *all = json_object();

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64], link[64];
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        n = readlink(path, link, sizeof link - 1);
        if (n > 0)
            json_object_set_new(all, names[i], json_stringn(link, (size_t)n));
    }
    return all;
}

void kr_doctor_bait_tell(const struct kr_doctor_bait *b, json_t *params)
{
    json_t *calls = json_array();

    for (size_t i = 0; i < kr_doctor_calls_count; i++) {
        const struct kr_doctor_call *c = &kr_doctor_calls[i];

        json_array_append_new(calls,
                              json_pack("[s, I, [I, I, I, I]]", c->name, (json_int_t)c->number, (json_int_t)c->args[0],
                                        (json_int_t)c->args[1], (json_int_t)c->args[2], (json_int_t)c->args[3]));
    }
    json_object_set_new(params, "calls", calls);
    json_object_set_new(params, "namespaces", tell_namespaces());
    json_object_set_new(params, "landlock",
                        json_pack("[i, i]", SYS_landlock_create_ruleset, SYS_landlock_restrict_self));
    json_object_set_new(params, "file", text_or_null(b->file));
    json_object_set_new(params, "home", tell_home(b->home));
    json_object_set_new(params, "abstract", text_or_null(b->abstract));
    json_object_set_new(params, "shm", b->shm >= 0 ? json_integer(b->shm) : json_null());
    json_object_set_new(params, "lock_usr", json_boolean(b->lock_usr >= 0));
    json_object_set_new(params, "lock_null", json_boolean(b->lock_null >= 0));
    json_object_set_new(params, "pid", getpid() >= PID_TOLD_FROM ? json_integer(getpid()) : json_null());
}
