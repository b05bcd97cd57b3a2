/* The syscall filter: the table is whole, the program says what the table says, and the kernel does what the
 * program says.
 *
 * Three readings are compared. What the rows mean is worked out here by walking them (expected()), apart from the
 * compiler; what the program answers comes from kr_seccomp_simulate(); what the kernel does is seen in forked
 * children that really install it, beside a child that does not and so shows that the refusal is the filter's.
 * Calls that could harm the machine get arguments it refuses. */
#define _GNU_SOURCE 1
#include "seccomp_rules.h"
#include "check.h"
#include "seccomp-probes.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* libseccomp's, whose header has the same name as ours. */
extern char *seccomp_syscall_resolve_num_arch(uint32_t arch_token, int num);

#define LEN(a) (sizeof(a) / sizeof *(a))
/* CHECK with the values that show which row it was. */
#define CHECK_THAT(cond, ...)                                                                                          \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("FAIL %s: %s:%d: %s: ", __func__, __FILE__, __LINE__, #cond);                                       \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            check_failed_ = 1;                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

typedef unsigned long long args[6];

/* A profile in one program, and in the two that a zygote and its session take: same rows, same answers. */
enum { ONE, TWO, WAYS };
static struct kr_seccomp filters[WAYS][KR_SECCOMP_SESSIONS_][2];

static int compile_all(struct kr_err *err)
{
    int r = 0;

    for (int p = 0; p < KR_SECCOMP_SESSIONS_ && r >= 0; p++) {
        if ((r = kr_seccomp_compile((enum kr_seccomp_profile)p, KR_SECCOMP_WHOLE, &filters[ONE][p][0], err)) >= 0 &&
            (r = kr_seccomp_compile((enum kr_seccomp_profile)p, KR_SECCOMP_COMMON, &filters[TWO][p][0], err)) >= 0)
            r = kr_seccomp_compile((enum kr_seccomp_profile)p, KR_SECCOMP_REST, &filters[TWO][p][1], err);
    }
    return r;
}

static int install(int way, int p)
{
    int r = kr_seccomp_install(&filters[way][p][0], NULL);

    return r < 0 || way == ONE ? r : kr_seccomp_install(&filters[way][p][1], NULL);
}

/* As the kernel does it: the program put on last is run first, and another's answer counts only if it is stricter
 * (seccomp(2)). */
static unsigned answer(int way, int p, unsigned arch, long nr, const unsigned long long *a)
{
    unsigned early = kr_seccomp_simulate(&filters[way][p][0], arch, (int)nr, a), late;

    if (way == ONE)
        return early;
    late = kr_seccomp_simulate(&filters[way][p][1], arch, (int)nr, a);
    return (int)(early & SECCOMP_RET_ACTION_FULL) < (int)(late & SECCOMP_RET_ACTION_FULL) ? early : late;
}

/* --- what the rows mean ---------------------------------------------------- */

static unsigned errno_answer(unsigned error)
{
    return error ? SECCOMP_RET_ERRNO | error : SECCOMP_RET_ALLOW;
}

static int test_holds(const struct kr_sc_test *t, const unsigned long long *a)
{
    uint32_t half = (uint32_t)(t->high ? a[t->arg] >> 32 : a[t->arg]);

    switch (t->op) {
    case KR_SC_EQ:
        return (half & t->mask) == t->value;
    case KR_SC_NE:
        return (half & t->mask) != t->value;
    default:
        return (half & t->value) != 0;
    }
}

static unsigned check_answer(const struct kr_sc_check *c, const unsigned long long *a)
{
    for (size_t i = 0; i < c->count; i++) {
        int all = 1;

        for (size_t k = 0; k < KR_SC_TESTS_MAX && c->rules[i].tests[k].op != KR_SC_END; k++)
            all = all && test_holds(&c->rules[i].tests[k], a);
        if (all)
            return errno_answer(c->rules[i].error);
    }
    return errno_answer(c->otherwise);
}

static const struct kr_sc_row *row_of(long nr)
{
    for (size_t i = 0; i < kr_sc_rows_count; i++) {
        if (kr_sc_rows[i].nr == nr)
            return &kr_sc_rows[i];
    }
    return NULL;
}

static unsigned expected(int profile, long nr, const unsigned long long *a)
{
    const struct kr_sc_row *row = row_of(nr);

    if (!row || row->act[profile] == KR_SC_ENOSYS)
        return errno_answer(ENOSYS);
    if (row->act[profile] == KR_SC_ALLOW)
        return SECCOMP_RET_ALLOW;
    if (row->act[profile] == KR_SC_EPERM)
        return errno_answer(EPERM);
    if (row->act[profile] == KR_SC_EOPNOTSUPP)
        return errno_answer(EOPNOTSUPP);
    return check_answer(&kr_sc_checks[row->act[profile] - KR_SC_CHECK_FIRST_], a);
}

/* --- the table ------------------------------------------------------------- */

static void rows_are_sorted_and_have_reasons(void)
{
    unsigned used[128] = {0};

    CHECK(kr_sc_groups_count <= LEN(used));
    for (size_t i = 0; i < kr_sc_rows_count; i++) {
        const struct kr_sc_row *r = &kr_sc_rows[i];

        CHECK_THAT(i == 0 || r[-1].nr < r->nr, "%s", r->name);
        CHECK_THAT(r->group < kr_sc_groups_count, "%s", r->name);
        CHECK_THAT(strlen(r->why[0] ? r->why : kr_sc_groups[r->group].why) > 10, "%s", r->name);
        CHECK_THAT(!strchr(r->why, '|') && !strchr(kr_sc_groups[r->group].why, '|'), "%s", r->name);
        for (size_t p = 0; p < KR_SECCOMP_SESSIONS_; p++)
            CHECK_THAT(r->act[p] < KR_SC_ACT_MAX_, "%s", r->name);
        used[r->group]++;
    }
    for (size_t g = 0; g < kr_sc_groups_count; g++)
        CHECK_THAT(used[g] > 0, "group %s", kr_sc_groups[g].name);
}

static void rows_know_every_syscall_libseccomp_knows(void)
{
    size_t named = 0;

    for (int nr = 0; nr < 2048; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(KR_SC_ARCH, nr);
        const struct kr_sc_row *r = row_of(nr);

        if (!name)
            continue;
        named++;
        CHECK_THAT(r, "%d %s has no row", nr, name);
        CHECK_THAT(strcmp(r->name, name) == 0, "%d is %s, not %s", nr, name, r->name);
        free(name);
    }
    CHECK_THAT(named > 350, "libseccomp named only %zu", named);
}

static void checks_are_well_formed(void)
{
    unsigned used[KR_SC_ACT_MAX_] = {0};

    for (size_t i = 0; i < kr_sc_rows_count; i++) {
        for (int p = 0; p < KR_SECCOMP_MAX_; p++)
            used[kr_sc_act(&kr_sc_rows[i], (enum kr_seccomp_profile)p)]++;
    }
    for (size_t i = 0; i < kr_sc_guest_rows_count; i++)
        used[kr_sc_guest_rows[i].act]++;
    for (unsigned act = KR_SC_CHECK_FIRST_; act < KR_SC_ACT_MAX_; act++) {
        const struct kr_sc_check *c = &kr_sc_checks[act - KR_SC_CHECK_FIRST_];

        CHECK_THAT(used[act] && c->name && c->count > 0, "act %u", act);
        for (size_t i = 0; i < c->count; i++) {
            CHECK_THAT(c->rules[i].label && !strchr(c->rules[i].label, '|'), "%s", c->name);
            CHECK_THAT(c->rules[i].error == 0 || c->rules[i].error == EPERM || c->rules[i].error == EOPNOTSUPP ||
                           c->rules[i].error == ENOPROTOOPT,
                       "%s", c->name);
            CHECK_THAT(c->rules[i].tests[0].op != KR_SC_END, "%s: %s", c->name, c->rules[i].label);
            for (size_t k = 0; k < KR_SC_TESTS_MAX; k++)
                CHECK_THAT(c->rules[i].tests[k].arg < 6, "%s", c->name);
        }
    }
}

static char *dump(size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);

    if (!f || kr_seccomp_dump(f) < 0 || fclose(f) != 0)
        return NULL;
    return text;
}

static void dump_has_every_row_and_is_the_same_twice(void)
{
    size_t len, len2, lines = 0;
    char *one = dump(&len), *two = dump(&len2), line[64];

    CHECK(one && two && len == len2 && memcmp(one, two, len) == 0);
    for (size_t i = 0; i < kr_sc_rows_count; i++) {
        snprintf(line, sizeof line, "\n| %u | `%s` |", kr_sc_rows[i].nr, kr_sc_rows[i].name);
        CHECK_THAT(strstr(one, line), "%s", line);
    }
    for (const char *p = one; (p = strstr(p, "\n| ")); p++)
        lines++;
    CHECK_THAT(lines == kr_sc_rows_count + kr_sc_server_rows_count + kr_sc_egress_rows_count + kr_sc_guest_rows_count +
                            LEN(kr_sc_checks) + 5,
               "%zu lines", lines);
    CHECK(!strchr(one, '?'));
    free(one);
    free(two);
}

/* --- the program, simulated ------------------------------------------------ */

/* Argument values that matter to some check, each also with the other half of the register filled in. */
static size_t interesting(unsigned long long *out, size_t max)
{
    size_t n = 0;

    for (size_t c = 0; c < LEN(kr_sc_checks); c++) {
        for (size_t i = 0; i < kr_sc_checks[c].count; i++) {
            for (size_t k = 0; k < KR_SC_TESTS_MAX; k++) {
                uint32_t v = kr_sc_checks[c].rules[i].tests[k].value;

                for (size_t d = 0; d < 3 && n + 2 <= max; d++) {
                    out[n++] = v + (uint32_t)d - 1;
                    out[n++] = (v + (uint32_t)d - 1) | 0xdead000000000000ull;
                }
            }
        }
    }
    return n;
}

static void compare_with_the_rows(int way)
{
    static unsigned long long pool[8192];
    size_t n = interesting(pool, LEN(pool));
    unsigned seed = 20240607, compared = 0;

    CHECK(n > 200 && n < LEN(pool));
    for (int p = 0; p < KR_SECCOMP_SESSIONS_; p++) {
        for (long nr = -2; nr < 1100; nr++) {
            const struct kr_sc_row *row = row_of(nr);
            size_t rounds = row && row->act[p] >= KR_SC_CHECK_FIRST_ ? 4 * n : 3;

            for (size_t i = 0; i < rounds; i++) {
                args a = {0};

                for (size_t k = 0; i > 0 && k < 6; k++)
                    a[k] = rand_r(&seed) % 3 ? pool[(size_t)rand_r(&seed) % n] : 0;
                CHECK_THAT(answer(way, p, KR_SC_ARCH, nr, a) == expected(p, nr, a),
                           "way %d, profile %d, call %ld (%llx, %llx, %llx, %llx)", way, p, nr, a[0], a[1], a[2], a[3]);
                compared++;
            }
        }
    }
    CHECK(compared > 100000);
}

static void program_answers_as_the_rows_say(void)
{
    compare_with_the_rows(ONE);
}

static void both_parts_answer_as_the_rows_say(void)
{
    compare_with_the_rows(TWO);
}

/* Under the first part alone a zygote can still make a session, whatever the second refuses; and no more than that is
 * left open. */
static void the_common_part_lets_through_what_makes_a_session(void)
{
    args none = {0};

    for (int p = 0; p < KR_SECCOMP_SESSIONS_; p++) {
        for (size_t i = 0; i < kr_sc_setup_count; i++)
            CHECK_THAT(kr_seccomp_simulate(&filters[TWO][p][0], KR_SC_ARCH, kr_sc_setup[i], none) == SECCOMP_RET_ALLOW,
                       "profile %d, call %u", p, kr_sc_setup[i]);
        for (size_t i = 0; i < kr_sc_rows_count; i++) {
            const struct kr_sc_row *r = &kr_sc_rows[i];
            int open = p != KR_SECCOMP_CONTAINED && r->act[KR_SECCOMP_CELL_NONE] != r->act[KR_SECCOMP_CELL_LOOPBACK];

            for (size_t k = 0; k < kr_sc_setup_count; k++)
                open = open || kr_sc_setup[k] == r->nr;
            CHECK_THAT(open || kr_seccomp_simulate(&filters[TWO][p][0], KR_SC_ARCH, r->nr, none) ==
                                   expected(p, r->nr, none),
                       "profile %d, %s", p, r->name);
        }
    }
    CHECK(filters[TWO][KR_SECCOMP_CELL_NONE][0].count == filters[TWO][KR_SECCOMP_CELL_LOOPBACK][0].count &&
          memcmp(filters[TWO][KR_SECCOMP_CELL_NONE][0].insns, filters[TWO][KR_SECCOMP_CELL_LOOPBACK][0].insns,
                 filters[TWO][KR_SECCOMP_CELL_NONE][0].count * sizeof(struct sock_filter)) == 0);
}

/* Each value of each rule, alone and with the upper half set, in an argument vector that lets the rule's other
 * tests hold. */
static void every_rule_is_reached(void)
{
    for (size_t i = 0; i < kr_sc_rows_count; i++) {
        for (int p = 0; p < KR_SECCOMP_SESSIONS_; p++) {
            unsigned act = kr_sc_rows[i].act[p];
            const struct kr_sc_check *c = act >= KR_SC_CHECK_FIRST_ ? &kr_sc_checks[act - KR_SC_CHECK_FIRST_] : NULL;

            for (size_t r = 0; c && r < c->count; r++) {
                args a = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};

                for (size_t k = 0; k < KR_SC_TESTS_MAX && c->rules[r].tests[k].op != KR_SC_END; k++) {
                    const struct kr_sc_test *t = &c->rules[r].tests[k];

                    if (t->op != KR_SC_NE)
                        a[t->arg] = t->high ? (a[t->arg] & 0xffffffffu) | (unsigned long long)t->value << 32
                                            : 0xdead000000000000ull | t->value;
                }
                for (int way = 0; way < WAYS; way++)
                    CHECK_THAT(answer(way, p, KR_SC_ARCH, kr_sc_rows[i].nr, a) == expected(p, kr_sc_rows[i].nr, a),
                               "way %d, profile %d, %s, %s", way, p, kr_sc_rows[i].name, c->rules[r].label);
            }
        }
    }
}

static void other_machines_are_killed_and_x32_is_unknown(void)
{
    static const unsigned others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64 & ~__AUDIT_ARCH_64BIT, 0};
    args none = {0};

    for (int n = 0; n < WAYS * KR_SECCOMP_SESSIONS_; n++) {
        int way = n % WAYS, p = n / WAYS;

        for (int nr = -1; nr < 500; nr++) {
            for (size_t i = 0; i < LEN(others); i++)
                CHECK(answer(way, p, others[i], nr, none) == SECCOMP_RET_KILL_PROCESS);
            CHECK(answer(way, p, KR_SC_ARCH, 0x40000000 | nr, none) == errno_answer(ENOSYS));
        }
    }
}

static void programs_are_short(void)
{
    for (int p = 0; p < KR_SECCOMP_SESSIONS_; p++) {
        CHECK_THAT(filters[ONE][p][0].count > 100 && filters[ONE][p][0].count < 600, "profile %d: %u instructions", p,
                   filters[ONE][p][0].count);
        CHECK_THAT(filters[TWO][p][1].count > 10 && filters[TWO][p][1].count < 160, "profile %d, rest: %u instructions",
                   p, filters[TWO][p][1].count);
    }
}

/* attacks.md A1 to A13, by number, apart from the table. */
static void known_attacks_are_refused_everywhere(void)
{
    static const short denied[] = {425, 426, 427, 323, 321, 298, 248, 249, 250, 101, 310, 311, 312, 438, 440, 165,
                                   166, 155, 161, 428, 429, 430, 431, 432, 433, 442, 272, 308, 303, 304, 175, 176,
                                   313, 246, 320, 169, 167, 168, 163, 179, 443, 103, 172, 173, 154, 164, 227, 159,
                                   305, 170, 171, 300, 301, 317, 237, 238, 256, 279, 447, 448, 278, 105, 106, 113,
                                   114, 116, 117, 119, 122, 123, 126, 153, 212, 240, 206, 333};
    args none = {0};

    for (int n = 0; n < WAYS * KR_SECCOMP_SESSIONS_; n++) {
        int way = n % WAYS, p = n / WAYS;

        for (size_t i = 0; i < LEN(denied); i++)
            CHECK_THAT(answer(way, p, KR_SC_ARCH, denied[i], none) == errno_answer(EPERM),
                       "way %d, profile %d, call %d", way, p, denied[i]);
        for (int nr = 449; nr < 600; nr++)
            CHECK_THAT(answer(way, p, KR_SC_ARCH, nr, none) == errno_answer(ENOSYS), "call %d", nr);
        CHECK(answer(way, p, KR_SC_ARCH, 435, none) == errno_answer(ENOSYS));
        CHECK(answer(way, p, KR_SC_ARCH, 437, none) == errno_answer(ENOSYS));
        for (int nr = 444; nr < 447; nr++)
            CHECK(answer(way, p, KR_SC_ARCH, nr, none) == SECCOMP_RET_ALLOW);
    }
}

/* --- the kernel ------------------------------------------------------------ */

/* Without capabilities the kernel's own refusals would pass for the filter's. */
static int is_real_root(void)
{
    char line[256];
    unsigned long long caps = 0;
    FILE *f = fopen("/proc/self/status", "re");

    while (f && fgets(line, sizeof line, f))
        sscanf(line, "CapEff: %llx", &caps);
    if (f)
        fclose(f);
    return caps >> 21 & 1; /* CAP_SYS_ADMIN */
}

/* Runs every probe in a child under a profile, or unfiltered for profile -1. 0, or the child's failure. */
static int run_probes(int way, int profile, int *results)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            _exit(2);
        if (profile >= 0 && install(way, profile) < 0)
            _exit(3);
        for (size_t i = 0; i < LEN(probes); i++) {
            const long *a = probes[i].a;

            errno = 0;
            results[i] = syscall(probes[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 ? errno : 0;
        }
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

static int *shared(void)
{
    return mmap(NULL, LEN(probes) * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Can this machine show that the refusal is not the kernel's own? */
static const char *no_control(const struct probe *p, int got, int root)
{
    if (p->want.root && !root)
        return "needs CAP_SYS_ADMIN";
    if (got == ENOSYS && p->want.filtered[KR_SECCOMP_CELL_NONE] != ENOSYS)
        return "is not in this kernel";
    if (got == ENOSYS && p->nr >= 0x40000000)
        return "is not in this kernel";
    return NULL;
}

static void unfiltered_calls_show_that_the_refusals_are_ours(void)
{
    int *got = shared(), root = is_real_root(), status = run_probes(ONE, -1, got);
    size_t shown = 0;

    CHECK_THAT(status == 0, "status %x", (unsigned)status);
    for (size_t i = 0; i < LEN(probes); i++) {
        const struct probe *p = &probes[i];
        const char *why = no_control(p, got[i], root);

        if (why) {
            printf("# no control: %s %s\n", p->name, why);
            continue;
        }
        shown++;
        if (p->plain != ANY_ERROR)
            CHECK_THAT(got[i] == p->plain, "%s: %s", p->name, strerror(got[i]));
        else
            CHECK_THAT(got[i] != EPERM && got[i] != ENOSYS, "%s: %s", p->name, strerror(got[i]));
    }
    CHECK_THAT(shown >= (root ? 110 : 95), "only %zu of %zu", shown, LEN(probes));
}

static void check_way(int way, int profile)
{
    int *got = shared(), status = run_probes(way, profile, got);

    CHECK_THAT(status == 0, "way %d, profile %d: status %x", way, profile, (unsigned)status);
    for (size_t i = 0; i < LEN(probes); i++) {
        int want = probes[i].want.filtered[profile];

        if (want != ANY_ERROR)
            CHECK_THAT(got[i] == want, "way %d, profile %d, %s: %s", way, profile, probes[i].name, strerror(got[i]));
        else
            CHECK_THAT(got[i] != EPERM, "way %d, profile %d, %s", way, profile, probes[i].name);
    }
}

static void check_profile(int profile)
{
    check_way(ONE, profile);
    check_way(TWO, profile);
}

static void kernel_obeys_the_cell_without_network(void)
{
    check_profile(KR_SECCOMP_CELL_NONE);
}

static void kernel_obeys_the_cell_with_loopback(void)
{
    check_profile(KR_SECCOMP_CELL_LOOPBACK);
}

static void kernel_obeys_contained(void)
{
    check_profile(KR_SECCOMP_CONTAINED);
}

/* Runs fn in a child, filtered or not, and gives its wait status. */
static int in_child(int profile, int (*fn)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (profile >= 0 && install(TWO, profile) < 0)
            _exit(99);
        _exit(fn());
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    return status;
}

static int call_by_the_32_bit_table(void)
{
    int r;

    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(20)
                     : "memory", "r8", "r9", "r10", "r11"); /* getpid there, writev here */
    return r > 0 ? 7 : 8;
}

static void the_32_bit_table_kills(void)
{
    int control = in_child(-1, call_by_the_32_bit_table);

    if (!WIFEXITED(control) || WEXITSTATUS(control) != 7)
        printf("# no control: this kernel has no 32-bit calls\n");
    for (int p = 0; p < KR_SECCOMP_SESSIONS_; p++) {
        int status = in_child(p, call_by_the_32_bit_table);

        CHECK_THAT(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || !WIFEXITED(control)), "status %x",
                   (unsigned)status);
    }
}

/* Bound by the parent under a name the kernel chose. */
static int bystander = -1;

/* A datagram pair reaches other sockets by name, without socket() or connect(): why contained sessions get none. */
static int send_from_a_pair(void)
{
    struct sockaddr_un to;
    socklen_t len = sizeof to;
    int pair[2];

    if (getsockname(bystander, (struct sockaddr *)&to, &len) < 0)
        return 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
        return errno == EPERM ? 2 : 3;
    return sendto(pair[0], "x", 1, 0, (struct sockaddr *)&to, len) == 1 ? 0 : 4;
}

static int talk_over_a_pair(void)
{
    char c = 0;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return 1;
    return write(pair[0], "x", 1) == 1 && read(pair[1], &c, 1) == 1 && c == 'x' ? 0 : 2;
}

static void contained_pairs_stay_connected(void)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int status;

    bystander = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(bystander >= 0 && bind(bystander, (struct sockaddr *)&any, sizeof any.sun_family) == 0);
    status = in_child(-1, send_from_a_pair);
    CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "unfiltered: status %x", (unsigned)status);
    status = in_child(KR_SECCOMP_CONTAINED, send_from_a_pair);
    CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 2, "contained: status %x", (unsigned)status);
    status = in_child(KR_SECCOMP_CONTAINED, talk_over_a_pair);
    CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "contained, stream: status %x", (unsigned)status);
    close(bystander);
}

static void *call_once_told(void *go)
{
    char c;

    if (read(*(int *)go, &c, 1) != 1)
        return (void *)1;
    return syscall(SYS_setns, -1, 0) < 0 && errno == EPERM ? NULL : (void *)2;
}

/* A thread that was there before the filter, or its last part, is under it too. */
static void threads_follow_in(int way)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int go[2];
        pthread_t other;
        void *r = (void *)3;

        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (way == TWO && kr_seccomp_install(&filters[way][KR_SECCOMP_CELL_NONE][0], NULL) < 0)
            _exit(12);
        if (pipe(go) < 0 || pthread_create(&other, NULL, call_once_told, &go[0]) != 0)
            _exit(10);
        if (kr_seccomp_install(&filters[way][KR_SECCOMP_CELL_NONE][way == TWO], NULL) < 0 || write(go[1], "x", 1) != 1)
            _exit(11);
        pthread_join(other, &r);
        _exit((int)(long)r);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_THAT(status == 0, "status %x", (unsigned)status);
}

static void threads_follow(void)
{
    threads_follow_in(ONE);
    threads_follow_in(TWO);
}

/* Each call is judged by one part and let through by the other, so that which of two refusals the kernel takes is never
 * the question. */
static void no_call_is_refused_by_both_parts(void)
{
    static const args tried[] = {{0}, {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}, {1, 1, 1, 1, 1, 1}};

    for (int p = 0; p < KR_SECCOMP_SESSIONS_; p++)
        for (long nr = 0; nr < 1024; nr++)
            for (size_t i = 0; i < 2 * LEN(tried); i++) {
                int x32 = i >= LEN(tried) ? 0x40000000 : 0, refusals = 0;

                for (int part = 0; part < 2; part++)
                    refusals += kr_seccomp_simulate(&filters[TWO][p][part], KR_SC_ARCH, (int)nr | x32,
                                                    tried[i % LEN(tried)]) != SECCOMP_RET_ALLOW;
                CHECK_THAT(refusals < 2, "profile %d, call %ld, x32 %d", p, nr, x32 != 0);
            }
}

static int refuse_everywhere(unsigned nr, unsigned error)
{
    struct sock_filter insns[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct kr_seccomp one = {.insns = insns, .count = LEN(insns)};

    return kr_seccomp_install(&one, NULL);
}

/* What answer() takes for granted, asked of the kernel. */
static int is_later_error(void)
{
    if (refuse_everywhere(SYS_getppid, EXDEV) < 0 || refuse_everywhere(SYS_getppid, ELOOP) < 0)
        return 98;
    return syscall(SYS_getppid) < 0 && errno == ELOOP ? 0 : 1;
}

static void of_two_refusals_the_later_filter_s_counts(void)
{
    CHECK(in_child(-1, is_later_error) == 0);
}

static void failures_are_told(void)
{
    struct kr_seccomp none = {0};
    struct kr_err err = {0};

    CHECK(kr_seccomp_install(&none, &err) == -EINVAL && err.kind == KR_ERR_INTERNAL);
    CHECK(kr_seccomp_compile(KR_SECCOMP_MAX_, KR_SECCOMP_WHOLE, &none, &err) == -EINVAL && !none.insns);
}

int main(void)
{
    struct kr_err err = {0};

    RUN(rows_are_sorted_and_have_reasons);
    RUN(rows_know_every_syscall_libseccomp_knows);
    RUN(checks_are_well_formed);
    RUN(dump_has_every_row_and_is_the_same_twice);
    if (compile_all(&err) < 0) {
        printf("FAIL compile: %s\n", err.msg);
        return 1;
    }
    RUN(programs_are_short);
    RUN(program_answers_as_the_rows_say);
    RUN(both_parts_answer_as_the_rows_say);
    RUN(the_common_part_lets_through_what_makes_a_session);
    RUN(every_rule_is_reached);
    RUN(other_machines_are_killed_and_x32_is_unknown);
    RUN(known_attacks_are_refused_everywhere);
    RUN(unfiltered_calls_show_that_the_refusals_are_ours);
    RUN(kernel_obeys_the_cell_without_network);
    RUN(kernel_obeys_the_cell_with_loopback);
    RUN(kernel_obeys_contained);
    RUN(the_32_bit_table_kills);
    RUN(contained_pairs_stay_connected);
    RUN(threads_follow);
    RUN(no_call_is_refused_by_both_parts);
    RUN(of_two_refusals_the_later_filter_s_counts);
    RUN(failures_are_told);
    for (int n = 0; n < WAYS * KR_SECCOMP_SESSIONS_ * 2; n++)
        kr_seccomp_done(&filters[n / 2 % WAYS][n / 2 / WAYS][n % 2]);
    CHECK_DONE();
}
