/* What a run's hint says: what its session claims, or what a shell command's last words mean.
 *
 * Called by run_end.c, and by the box for its files. Invariants: a hint is advice, and nothing is decided by it; code
 * can forge its own (its words on stderr, or the claim), and then reads a line of this table or its own words, as in
 * its output. What the caller may choose is named only if the server allows it. */
#include "hint.h"
#include "limit.h"
#include "policy.h"
#include "utf8.h"
#include <stdio.h>
#include <string.h>

#define NO_PACKAGES "packages cannot be installed in this sandbox; `pip list` names those that are there"
#define NO_MODULE "ModuleNotFoundError: No module named '"
#define NO_ROOT "no root: apt, sudo and the like do not work in this sandbox; use what is installed"
#define MODULE_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
#define NEARLY 16u /* less than this part is left */

/* Words that a session may send: hints.py. */
static const char network[] = "network", refused[] = "refused", packages[] = "packages";
static const char policy[] = "policy ";          /* and the module that an import was refused for */
static const char no_packages[] = "no packages"; /* only where none can be installed */

static const struct {
    const char *words, *hint;
    bool always; /* also of a command that went well: its last program may have been `tail` */
} said_rows[] = {
    {"externally-managed-environment", packages, false},
    {"No matching distribution found", no_packages, true},
    {"pip: this sandbox has no network", no_packages, true},    /* programs.c */
    {"ERROR: packages cannot be installed", no_packages, true}, /* pip_command.py */
    {"uv: command not found", packages, false},
    {"conda: command not found", packages, false},
    {"poetry: command not found", packages, false},
    {"sudo: command not found", NO_ROOT, false},
    {"are you root?", NO_ROOT, false},
    {"ould not resolve host", network, false}, /* curl, git */
    {"unable to resolve host", network, false},
    {"ailure in name resolution", network, false},
    {"Name or service not known", network, false},
    {"Network is unreachable", network, false},
    {"Connection refused", refused, false},
    {"Couldn't connect to server", refused, false}, /* curl */
};

static const char *find_said(const struct kr_hint_facts *f)
{
    for (size_t i = 0; f->said && i < sizeof said_rows / sizeof *said_rows; i++)
        if ((f->failed || said_rows[i].always) && strstr(f->said, said_rows[i].words))
            return said_rows[i].hint;
    return NULL;
}

/* The module that a python3 of the command did not find, as its session would have sent it. */
static bool find_module(const struct kr_hint_facts *f, struct kr_import_miss *ret_miss)
{
    const char *at = f->said && f->failed ? strstr(f->said, NO_MODULE) : NULL;
    char text[KR_IMPORT_MODULE_ROOM + 16];

    if (!at || !strchr(at + strlen(NO_MODULE), '\''))
        return false;
    at += strlen(NO_MODULE);
    snprintf(text, sizeof text, "module %.*s - -", (int)strcspn(at, ".'"), at);
    return kr_import_miss_read(text, ret_miss);
}

/* Packages were asked for in a way that does not lead to them. */
static void write_packages(const struct kr_hint_facts *f, char *buf, size_t size)
{
    if (f->installs.call)
        snprintf(buf, size, "packages are installed by %s", f->installs.call);
    else
        snprintf(buf, size, "%s", NO_PACKAGES);
}

static void write_network(const struct kr_hint_facts *f, char *buf, size_t size)
{
    if (f->network >= KR_NET_EGRESS_MIN_)
        snprintf(buf, size,
                 "the only way out is the proxy that HTTP_PROXY names, for HTTP and HTTPS: names are not resolved in "
                 "here, and no other connection leads out");
    else if (f->network != KR_NET_NONE)
        snprintf(buf, size,
                 "no network but 127.0.0.1 of this sandbox's own: nothing outside can be reached, so bring data in as "
                 "files");
    else if (f->offer)
        snprintf(buf, size, "no network: nothing outside can be reached, so bring data in as files; %s", f->offer);
    else
        snprintf(buf, size,
                 "no network, not even 127.0.0.1, and this server's max_network allows none: bring data in as files");
}

static bool is_policy(const char *text)
{
    size_t len = strlen(text), head = sizeof policy - 1;

    return strncmp(text, policy, head) == 0 && len > head && len - head <= KR_POLICY_MODULE_MAX &&
           text[head + strspn(text + head, MODULE_CHARACTERS)] == '\0';
}

/* An import that the policy refused: which profile has the module. */
static void write_policy(const char *module, char *buf, size_t size)
{
    enum kr_policy_profile profile = kr_policy_profile_of(module);

    if (profile == KR_POLICY_BASIC) /* which every policy has */
        snprintf(buf, size,
                 "%.100s is not in the list of modules that may be imported here: allowed_imports or the server's "
                 "policy leaves it out",
                 module);
    else if (profile != KR_POLICY_PROFILE_MAX_)
        snprintf(buf, size, "%.100s is a module of the profile %s: run with that profile, or with a list that has it",
                 module, kr_policy_profiles[profile].name);
    else
        snprintf(buf, size,
                 "no profile has the module %.100s: a list of allowed_imports of the server's has to name it", module);
}

/* A session's own words: one line of them. */
static void write_line(const char *text, char *buf, size_t size)
{
    size_t n = 0;

    while (n < size - 1 && (unsigned char)text[n] >= 0x20 && text[n] != 0x7f)
        n++;
    n = text[n] ? kr_utf8_complete(text, n) : n;
    memcpy(buf, text, n);
    buf[n] = '\0';
}

void kr_hint_write(const struct kr_hint_facts *f, char *buf, size_t size)
{
    const char *text = f->claimed ? f->claimed : find_said(f);
    struct kr_import_miss miss;

    *buf = '\0';
    if (kr_import_miss_read(f->claimed ? f->claimed : "", &miss) || (!text && find_module(f, &miss)))
        return kr_import_advise(&miss, &f->installs, buf, size);
    if (!text)
        return;
    if (is_policy(text))
        write_policy(text + sizeof policy - 1, buf, size);
    else if (strcmp(text, refused) == 0 && f->network != KR_NET_NONE)
        snprintf(buf, size, "nothing listens there: 127.0.0.1 is this sandbox's own, so start the server in it first");
    else if (strcmp(text, network) == 0 || strcmp(text, refused) == 0)
        write_network(f, buf, size);
    else if (strcmp(text, no_packages) == 0 && f->installs.call)
        return; /* pip has said it */
    else if (strcmp(text, no_packages) == 0 || strcmp(text, packages) == 0)
        write_packages(f, buf, size);
    else
        write_line(text, buf, size);
}

bool kr_hint_disk(uint64_t used, uint64_t limit, char *buf, size_t size)
{
    const struct kr_limit_row *row = kr_limit_find("disk");
    double mib = (double)used / (1 << 20);
    char most[32];

    if (limit == 0 || used < limit - limit / NEARLY)
        return false;
    kr_limit_show(row, limit, most, sizeof most);
    if (used > limit)
        snprintf(buf, size,
                 "the files in /workspace add up to %.1f MiB, past its disk limit of %s: delete some, or writes fail "
                 "and runs are ended",
                 mib, most);
    else
        snprintf(buf, size,
                 "/workspace is nearly full: its files add up to %.1f MiB, its disk limit is %s; delete what is not "
                 "needed",
                 mib, most);
    return true;
}
