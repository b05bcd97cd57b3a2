/* Compiles the rows of seccomp_rules.c into a BPF program, installs it, answers for it in user space and prints
 * the rows. Called by the zygote (compile once, install what is common), the session (install the rest) and `krait dump
 * seccomp`; the CPython extension links it too, so there is no state here beyond what the caller holds.
 *
 * How a program is laid out: the checks on arguments come last, the tree over syscall numbers before them, the
 * test of the machine first. The kernel runs a new filter once for every number it knows, to learn which are
 * always allowed; so the length of the way to an answer is what loading costs, and the tree is balanced by how
 * many numbers a range holds. BPF jumps forward only: the program is built from its end, so that every target has
 * its address before a jump needs it.
 *
 * Invariants: each way ends in a return. Another machine's call kills the process; a number beyond the table, which
 * includes every x32 number (0x40000000 and up, compared unsigned), is ENOSYS. The two parts of a filter together
 * answer every call as the whole does. */
#define _GNU_SOURCE 1
#include "seccomp.h"
#include "fd.h"
#include "seccomp_rules.h"
#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RANGES_MAX 1024
/* The kernel takes no longer program (BPF_MAXINSNS). */
#define INSNS_MAX 4096
#define JUMP_MAX 255
/* Only used to balance: the kernel tries the numbers up to its own last one. */
#define NR_TRIED 480

#define RETURN(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (action)))
#define LOAD(offset) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset)))

/* Numbers from `first` up to the next range's first have one answer. */
struct range {
    unsigned first;
    unsigned weight;
    unsigned act;
};

struct build {
    enum kr_seccomp_profile profile;
    enum kr_seccomp_part part;
    struct sock_filter *insns; /* INSNS_MAX of them; the program is insns[at] to the end */
    unsigned at;
    int full;
    struct range ranges[RANGES_MAX];
    size_t range_count;
    unsigned near[KR_SC_ACT_MAX_]; /* the lowest address where the answer to an act begins; 0: none yet */
};

static uint32_t error_action(unsigned error)
{
    return error ? SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA) : SECCOMP_RET_ALLOW;
}

/* What an unconditional act answers; 0 lets through. */
static const uint16_t act_errors[KR_SC_CHECK_FIRST_] = {
    [KR_SC_EPERM] = EPERM, [KR_SC_ENOSYS] = ENOSYS, [KR_SC_EOPNOTSUPP] = EOPNOTSUPP};

static const struct kr_sc_check *check_of(unsigned act)
{
    return &kr_sc_checks[act - KR_SC_CHECK_FIRST_];
}

/* Puts an instruction in front of the program and returns its address. */
static unsigned put(struct build *b, struct sock_filter insn)
{
    if (b->at == 0) {
        b->full = 1;
        return 0;
    }
    b->insns[--b->at] = insn;
    return b->at;
}

/* An address that a conditional jump put next can reach and that leads to `target`. */
static unsigned reach(struct build *b, unsigned target)
{
    if (target - b->at <= JUMP_MAX - 2)
        return target;
    return put(b, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, target - b->at));
}

/* A conditional jump whose ways lead to the addresses `yes` and `no`. Making room for a long jump moves the other
 * target one further away, which reach() has allowed for. */
static unsigned put_jump(struct build *b, unsigned op, uint32_t value, unsigned yes, unsigned no)
{
    unsigned near_yes = reach(b, yes);
    unsigned near_no = reach(b, no);

    return put(b, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, value, (uint8_t)(near_yes - b->at),
                                               (uint8_t)(near_no - b->at)));
}

static unsigned put_load(struct build *b, const struct kr_sc_test *t)
{
    size_t offset = offsetof(struct seccomp_data, args) + t->arg * sizeof(uint64_t) + (t->high ? sizeof(uint32_t) : 0);

    if (t->mask != UINT32_MAX)
        put(b, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
    return put(b, LOAD(offset));
}

static size_t test_count(const struct kr_sc_rule *r)
{
    size_t n = 0;

    while (n < KR_SC_TESTS_MAX && r->tests[n].op != KR_SC_END)
        n++;
    return n;
}

/* Does the rule before, if it fails, leave in the accumulator what this one's first test looks at? Only rules of a
 * single test do, for then there is one way to fail. */
static int same_subject(const struct kr_sc_rule *before, const struct kr_sc_rule *r)
{
    const struct kr_sc_test *a = &before->tests[0], *t = &r->tests[0];

    return test_count(before) == 1 && a->arg == t->arg && a->high == t->high && a->mask == t->mask;
}

static unsigned put_test(struct build *b, const struct kr_sc_test *t, unsigned yes, unsigned no)
{
    if (t->op == KR_SC_ANY)
        return put_jump(b, BPF_JSET, t->value, yes, no);
    if (t->op == KR_SC_NE)
        return put_jump(b, BPF_JEQ, t->value, no, yes);
    return put_jump(b, BPF_JEQ, t->value, yes, no);
}

/* Where the answer to `act` begins, near enough for a jump from here: the last one put, or a new one. */
static unsigned leaf(struct build *b, unsigned act)
{
    unsigned near = b->near[act];

    if (near && near - b->at <= JUMP_MAX / 2)
        return near;
    if (act < KR_SC_CHECK_FIRST_)
        near = put(b, RETURN(error_action(act_errors[act])));
    else
        near = put(b, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, near - b->at));
    b->near[act] = near;
    return near;
}

/* One check, from its last rule to its first. Returns where it begins. */
static unsigned put_check(struct build *b, const struct kr_sc_check *c)
{
    unsigned let_through = leaf(b, KR_SC_ALLOW);
    unsigned refused = leaf(b, KR_SC_EPERM);
    unsigned next = c->otherwise ? refused : let_through;

    if (c->otherwise && c->otherwise != EPERM)
        next = put(b, RETURN(error_action(c->otherwise)));
    for (size_t i = c->count; i-- > 0;) {
        const struct kr_sc_rule *r = &c->rules[i];
        unsigned then = r->error ? refused : let_through;

        if (r->error && r->error != EPERM)
            then = put(b, RETURN(error_action(r->error)));
        for (size_t k = test_count(r); k-- > 0;) {
            then = put_test(b, &r->tests[k], then, next);
            if (k > 0 || i == 0 || !same_subject(r - 1, r))
                then = put_load(b, &r->tests[k]);
        }
        next = then;
    }
    return next;
}

/* The first range of the right half of [from, to): the halves weigh as much as each other, as nearly as ranges
 * allow. */
static size_t middle(const struct build *b, size_t from, size_t to)
{
    unsigned total = 0, left = 0;
    size_t m = from;

    for (size_t i = from; i < to; i++)
        total += b->ranges[i].weight;
    while (m + 1 < to && (left + b->ranges[m].weight) * 2 <= total)
        left += b->ranges[m++].weight;
    if (m + 1 < to && (left + b->ranges[m].weight) - total / 2 < total / 2 - left)
        m++;
    return m > from ? m : from + 1;
}

/* The tree over ranges [from, to), to > from. Depth is bounded by the table's length. */
static unsigned put_tree(struct build *b, size_t from, size_t to)
{
    size_t m;
    unsigned right, left;

    if (to - from == 1)
        return leaf(b, b->ranges[from].act);
    m = middle(b, from, to);
    right = put_tree(b, m, to);
    left = put_tree(b, from, m);
    return put_jump(b, BPF_JGE, b->ranges[m].first, right, left);
}

static int add_range(struct build *b, unsigned first, unsigned act)
{
    struct range *last = b->range_count ? &b->ranges[b->range_count - 1] : NULL;

    if (last && last->act == act)
        return 0;
    if (b->range_count == RANGES_MAX)
        return -E2BIG;
    if (last)
        last->weight = first - last->first;
    b->ranges[b->range_count++] = (struct range){first, first < NR_TRIED ? NR_TRIED - first : 1, act};
    return 0;
}

/* Has this row one answer in every session of a zygote, and does the zygote itself not need another? */
static int is_common(const struct kr_sc_row *row, enum kr_seccomp_profile profile)
{
    for (size_t i = 0; i < kr_sc_setup_count; i++) {
        if (kr_sc_setup[i] == row->nr)
            return 0;
    }
    return profile == KR_SECCOMP_CONTAINED || row->act[KR_SECCOMP_CELL_NONE] == row->act[KR_SECCOMP_CELL_LOOPBACK];
}

static unsigned act_of_guest(const struct kr_sc_row *row)
{
    for (size_t i = 0; i < kr_sc_guest_rows_count; i++)
        if (kr_sc_guest_rows[i].nr == row->nr)
            return kr_sc_guest_rows[i].act;
    return KR_SC_ALLOW;
}

/* Each row is judged by one of the two parts and let through by the other. */
static unsigned act_of(const struct build *b, const struct kr_sc_row *row)
{
    if (b->part == KR_SECCOMP_GUEST)
        return act_of_guest(row);
    if (b->part == KR_SECCOMP_WHOLE || (b->part == KR_SECCOMP_COMMON) == is_common(row, b->profile))
        return kr_sc_act(row, b->profile);
    return KR_SC_ALLOW;
}

/* Rows become ranges; the common part answers ENOSYS to the numbers between and after them. */
static int collect_ranges(struct build *b)
{
    int is_added = b->part == KR_SECCOMP_REST || b->part == KR_SECCOMP_GUEST;
    unsigned next = 0, unknown = is_added ? KR_SC_ALLOW : KR_SC_ENOSYS;
    int r = 0;

    for (size_t i = 0; i < kr_sc_rows_count && r == 0; i++) {
        const struct kr_sc_row *row = &kr_sc_rows[i];

        if (row->nr < next || kr_sc_act(row, b->profile) >= KR_SC_ACT_MAX_)
            return -EINVAL;
        if (row->nr > next)
            r = add_range(b, next, unknown);
        if (r == 0)
            r = add_range(b, row->nr, act_of(b, row));
        next = row->nr + 1u;
    }
    return r < 0 ? r : add_range(b, next, unknown);
}

static void put_program(struct build *b)
{
    unsigned root, kill;

    for (unsigned act = KR_SC_CHECK_FIRST_; act < KR_SC_ACT_MAX_; act++) {
        for (size_t i = 0; i < b->range_count; i++) {
            if (b->ranges[i].act == act) {
                b->near[act] = put_check(b, check_of(act));
                break;
            }
        }
    }
    root = put_tree(b, 0, b->range_count);
    if (root != b->at)
        put(b, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, root - b->at));
    root = put(b, LOAD(offsetof(struct seccomp_data, nr)));
    kill = put(b, RETURN(SECCOMP_RET_KILL_PROCESS));
    put_jump(b, BPF_JEQ, KR_SC_ARCH, root, kill);
    put(b, LOAD(offsetof(struct seccomp_data, arch)));
}

int kr_seccomp_compile(enum kr_seccomp_profile profile, enum kr_seccomp_part part, struct kr_seccomp *ret,
                       struct kr_err *err)
{
    cleanup_free struct build *b = NULL;
    cleanup_free struct sock_filter *space = NULL;
    size_t count;
    int r;

    if ((unsigned)profile >= KR_SECCOMP_MAX_)
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "syscall filter: no profile %d", (int)profile);
    b = calloc(1, sizeof *b);
    space = calloc(INSNS_MAX, sizeof *space);
    if (!b || !space)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "syscall filter");
    b->profile = profile;
    b->part = part;
    b->insns = space;
    b->at = INSNS_MAX;
    r = collect_ranges(b);
    if (r < 0)
        return kr_err_set(err, KR_ERR_INTERNAL, -r, "syscall filter: the table is not in order");
    put_program(b);
    if (b->full)
        return kr_err_set(err, KR_ERR_INTERNAL, E2BIG, "syscall filter: more than %d instructions", INSNS_MAX);
    count = INSNS_MAX - b->at;
    memmove(space, space + b->at, count * sizeof *space);
    *ret = (struct kr_seccomp){.insns = steal_ptr(&space), .count = (unsigned short)count};
    return 0;
}

void kr_seccomp_done(struct kr_seccomp *s)
{
    free(s->insns);
    *s = (struct kr_seccomp){0};
}

/* Before: the caller may make any call its credentials allow. After: this thread, and with TSYNC any other of the
 * process, and all they start, for good, only what the profile grants. If it fails nothing is restricted, so the
 * caller must not go on to user code. */
int kr_seccomp_install(const struct kr_seccomp *s, struct kr_err *err)
{
    struct sock_fprog prog = {.len = s->count, .filter = s->insns};
    long r;

    if (!s->insns || s->count == 0)
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "syscall filter: not compiled");
    r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "cannot install the syscall filter");
    /* With TSYNC a positive number is a thread that could not follow; none has been changed then (seccomp(2)). */
    if (r > 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EBUSY, "syscall filter: thread %ld has another one", r);
    return 0;
}

/* The instructions the compiler emits, and no others: anything else is a broken program and kills, as the kernel's
 * checker would. */
static int step(const struct sock_filter *i, const unsigned char *data, uint32_t *a, size_t *pc)
{
    switch (i->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (i->k > sizeof(struct seccomp_data) - sizeof *a || i->k % sizeof *a)
            return -EINVAL;
        memcpy(a, data + i->k, sizeof *a);
        return 0;
    case BPF_ALU | BPF_AND | BPF_K:
        *a &= i->k;
        return 0;
    case BPF_JMP | BPF_JA:
        *pc += i->k;
        return 0;
    case BPF_JMP | BPF_JEQ | BPF_K:
        *pc += *a == i->k ? i->jt : i->jf;
        return 0;
    case BPF_JMP | BPF_JGE | BPF_K:
        *pc += *a >= i->k ? i->jt : i->jf;
        return 0;
    case BPF_JMP | BPF_JSET | BPF_K:
        *pc += *a & i->k ? i->jt : i->jf;
        return 0;
    default:
        return -EINVAL;
    }
}

unsigned kr_seccomp_simulate(const struct kr_seccomp *s, unsigned arch, int nr, const unsigned long long args[6])
{
    struct seccomp_data data = {.nr = nr, .arch = arch};
    uint32_t a = 0;

    for (size_t i = 0; i < 6; i++)
        data.args[i] = args[i];
    for (size_t pc = 0; pc < s->count;) {
        const struct sock_filter *i = &s->insns[pc++];

        if (i->code == (BPF_RET | BPF_K))
            return i->k;
        if (step(i, (const unsigned char *)&data, &a, &pc) < 0)
            break;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

/* --- krait dump seccomp ---------------------------------------------------- */

static const char *const profile_names[KR_SECCOMP_SESSIONS_] = {
    [KR_SECCOMP_CELL_NONE] = "none",
    [KR_SECCOMP_CELL_LOOPBACK] = "loopback",
    [KR_SECCOMP_CONTAINED] = "contained",
};

/* The errors of the table. Not strerrorname_np(): the extension should load under older C libraries too. */
static const char *error_name(unsigned error)
{
    switch (error) {
    case 0:
        return "allow";
    case EPERM:
        return "EPERM";
    case EINVAL:
        return "EINVAL";
    case ENOTTY:
        return "ENOTTY";
    case ENOSYS:
        return "ENOSYS";
    case EOPNOTSUPP:
        return "EOPNOTSUPP";
    case ENOPROTOOPT:
        return "ENOPROTOOPT";
    default:
        return "?";
    }
}

static void print_answer(FILE *out, unsigned act)
{
    if (act < KR_SC_CHECK_FIRST_)
        fprintf(out, " %s |", error_name(act_errors[act]));
    else
        fprintf(out, " *%s* |", check_of(act)->name);
}

/* "command: allow TCGETS, FIONREAD; EPERM TIOCSTI; else ENOTTY" */
static void print_check(FILE *out, const struct kr_sc_check *c)
{
    fprintf(out, "%s:", c->subject);
    for (size_t i = 0; i < c->count; i++) {
        const struct kr_sc_rule *r = &c->rules[i];

        if (i == 0 || r[-1].error != r->error)
            fprintf(out, "%s %s %s", i ? ";" : "", error_name(r->error), r->label);
        else
            fprintf(out, ", %s", r->label);
    }
    fprintf(out, "; else %s", error_name(c->otherwise));
}

static void print_row(FILE *out, const struct kr_sc_row *row)
{
    fprintf(out, "| %u | `%s` |", row->nr, row->name);
    for (size_t p = 0; p < KR_SECCOMP_SESSIONS_; p++)
        print_answer(out, row->act[p]);
    fprintf(out, " %s |\n", row->why[0] ? row->why : kr_sc_groups[row->group].why);
}

static const char *name_of(unsigned nr)
{
    for (size_t i = 0; i < kr_sc_rows_count; i++)
        if (kr_sc_rows[i].nr == nr)
            return kr_sc_rows[i].name;
    return "?";
}

static void print_own_rows(FILE *out, const char *who, const struct kr_sc_server_row *rows, size_t count)
{
    fprintf(out, "| number | call | %s | for |\n|---|---|---|---|\n", who);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "| %u | `%s` |", rows[i].nr, name_of(rows[i].nr));
        print_answer(out, rows[i].act);
        fprintf(out, " %s |\n", rows[i].why);
    }
}

static void print_own(FILE *out)
{
    fprintf(out,
            "\n## What the server may ask of the kernel\n\n"
            "krait's own unprivileged process: the server, and the engine of `krait run` and `krait doctor`. Every "
            "other call\nis EPERM to it, or ENOSYS where it is that above.\n\n");
    print_own_rows(out, "server", kr_sc_server_rows, kr_sc_server_rows_count);
    fprintf(out, "\n## What the egress process may ask of the kernel\n\n"
                 "The process that connects to the outside for cells and for the server. Every other call is refused "
                 "as above.\n\n");
    print_own_rows(out, "egress", kr_sc_egress_rows, kr_sc_egress_rows_count);
    fprintf(out, "\n## What a zygote with packages of a template may ask of the kernel\n\n"
                 "Of the calls with which it makes sessions, and of those on which the kinds of cell differ; of all "
                 "else what a\nsession may. setns, setgroups, setresgid, setresuid, capset, setsid and pidfd_open are "
                 "let through.\n\n");
    print_own_rows(out, "guest", kr_sc_guest_rows, kr_sc_guest_rows_count);
}

int kr_seccomp_dump(FILE *out)
{
    fprintf(
        out,
        "# What a session may ask of the kernel\n\n"
        "Printed by `krait dump seccomp` from the table the filter is compiled from (" KR_SC_ARCH_NAME ").\n"
        "`none` and `loopback` are cells with that network rule, `contained` is the level without namespaces. A word\n"
        "in italics is a condition on the arguments, listed below the table. A call by another machine's table ends\n"
        "the process; a number that is not listed is ENOSYS.\n\n"
        "| number | call |");
    for (size_t p = 0; p < KR_SECCOMP_SESSIONS_; p++)
        fprintf(out, " %s |", profile_names[p]);
    fprintf(out, " why |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < kr_sc_rows_count; i++)
        print_row(out, &kr_sc_rows[i]);
    print_own(out);
    fprintf(out, "\n## Conditions\n\nRules are tried in order and the first that fits decides.\n\n| name | on which "
                 "argument, and what follows |\n|---|---|\n");
    for (unsigned act = KR_SC_CHECK_FIRST_; act < KR_SC_ACT_MAX_; act++) {
        fprintf(out, "| %s | ", check_of(act)->name);
        print_check(out, check_of(act));
        fprintf(out, " |\n");
    }
    return ferror(out) ? -EIO : 0;
}
