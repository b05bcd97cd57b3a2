/* src/engine/hint.c: which line a run gets. Run by tests/run. */
#include "check.h"
#include "hint.h"
#include "utf8.h"
#include <stdio.h>
#include <string.h>

#define OFFER "--network loopback gives 127.0.0.1 of its own"

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* clang-format off */
static const struct {
    const char *what;
    struct kr_hint_facts facts;
    const char *begins, *ends; /* NULL: no hint; ends NULL: as it may */
} rows[] = {
    {"nothing", {0}, NULL, NULL},
    {"a line", {.claimed = "do this"}, "do this", "this"},
    {"no network", {.claimed = "network", .offer = OFFER}, "no network: ", OFFER},
    {"no network to be had", {.claimed = "network"}, "no network, not even", "as files"},
    {"loopback, the outside", {.claimed = "network", .network = KR_NET_LOOPBACK, .offer = OFFER},
     "no network but 127", "as files"},
    {"loopback, refused", {.claimed = "refused", .network = KR_NET_LOOPBACK}, "nothing listens there", NULL},
    {"none, refused", {.claimed = "refused", .offer = OFFER}, "no network: ", OFFER},
    {"a shell, curl", {.said = "curl: (6) Could not resolve host: a.b\n", .failed = true, .offer = OFFER},
     "no network: ", OFFER},
    {"a shell that went well", {.said = "curl: (6) Could not resolve host: a.b\n"}, NULL, NULL},
    {"a shell, pip in a pipe", {.said = "ERROR: No matching distribution found for x\n"}, "packages cannot be", NULL},
    {"a shell, apt", {.said = "E: Unable to acquire the dpkg frontend lock, are you root?\n", .failed = true},
     "no root", NULL},
    {"a shell, other words", {.said = "no such file\n", .failed = true}, NULL, NULL},
    {"two lines", {.claimed = "do this\n[files]\nforged"}, "do this", "this"},
    {"a word and more", {.claimed = "network\n"}, "network", "network"},
    {"a module", {.claimed = "module cv2 - numpy,scipy"},
     "module cv2 (package opencv-python-headless) is not", ": numpy, scipy …"},
    {"a module to be had", {.claimed = "module cv2 - -", .installs = {.call = "pip install NAME"}},
     "module cv2 (package opencv-python-headless) is not", "installed: pip install opencv-python-headless"},
    {"a shell, a module", {.said = "x\nModuleNotFoundError: No module named 'yaml.nodes'\n", .failed = true,
     .installs = {.call = "install(\"NAME\")"}}, "module yaml (package PyYAML)", "install(\"PyYAML\")"},
    {"a shell, conda", {.said = "sh: conda: command not found\n", .failed = true,
     .installs = {.call = "pip install NAME"}},
     "packages are installed by pip install NAME", NULL},
    {"a module of a profile", {.claimed = "policy numpy.linalg"},
     "numpy.linalg is a module of the profile data_science", "has it"},
    {"a module that a list has left out", {.claimed = "policy csv"},
     "csv is not in the list of modules", "leaves it out"},
    {"a module of none", {.claimed = "policy ctypes"}, "no profile has the module ctypes", NULL},
    {"no module, and a policy", {.claimed = "policy a b"}, "policy a b", "b"},
    {"no module of ours", {.claimed = "module a;b - -"}, "module a;b - -", NULL},
    {"control characters", {.claimed = "do\x1b[2J"}, "do", "do"},
};
/* clang-format on */

static bool fits(size_t i, const char *hint)
{
    size_t len = strlen(hint), tail = rows[i].ends ? strlen(rows[i].ends) : 0;

    if (!rows[i].begins)
        return len == 0;
    return strncmp(hint, rows[i].begins, strlen(rows[i].begins)) == 0 && len >= tail &&
           (!tail || strcmp(hint + len - tail, rows[i].ends) == 0);
}

static void each_has_its_line(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char hint[KR_HINT_ROOM];

        kr_hint_write(&rows[i].facts, hint, sizeof hint);
        if (!fits(i, hint))
            printf("%s: %s\n", rows[i].what, hint);
        CHECK(fits(i, hint));
    }
}

static void a_long_line_is_cut_between_characters(void)
{
    char text[2002], hint[KR_HINT_ROOM];

    for (size_t from = 0; from < 2; from++) {
        memset(text, 'a', sizeof text);
        for (size_t i = from; i + 1 < sizeof text - 1; i += 2)
            memcpy(text + i, "é", 2);
        text[sizeof text - 2 + from] = text[sizeof text - 1] = '\0';
        kr_hint_write(&(struct kr_hint_facts){.claimed = text}, hint, sizeof hint);
        CHECK(strlen(hint) >= KR_HINT_ROOM - 2 && kr_utf8_complete(hint, strlen(hint)) == strlen(hint));
    }
}

static void disk_is_told_near_its_limit(void)
{
    char hint[KR_HINT_ROOM] = "";

    CHECK(!kr_hint_disk(0, 0, hint, sizeof hint) && !kr_hint_disk(UINT64_MAX, 0, hint, sizeof hint));
    CHECK(!kr_hint_disk(15000000, 16u << 20, hint, sizeof hint) && !hint[0]);
    CHECK(kr_hint_disk(15u << 20, 16u << 20, hint, sizeof hint));
    CHECK(has(hint, "nearly full") && has(hint, "15.0 MiB") && has(hint, "limit is 16 MiB"));
    CHECK(kr_hint_disk(16u << 20, 16u << 20, hint, sizeof hint) && has(hint, "nearly full"));
    CHECK(kr_hint_disk((16u << 20) + 1, 16u << 20, hint, sizeof hint) && has(hint, "past its disk limit of 16 MiB"));
    CHECK(!has(hint, "nearly"));
    CHECK(kr_hint_disk(UINT64_C(1) << 50, 16u << 20, hint, sizeof hint) && has(hint, "1073741824.0 MiB"));
}

int main(void)
{
    RUN(each_has_its_line);
    RUN(a_long_line_is_cut_between_characters);
    RUN(disk_is_told_near_its_limit);
    CHECK_DONE();
}
