/* The warden's capabilities: the table is sorted and has reasons, and the service unit grants the same. */
#include "warden_caps.h"
#include "check.h"
#include <string.h>

static void rows_are_sorted_and_have_reasons(void)
{
    for (size_t i = 0; i < kr_warden_caps_count; i++) {
        CHECK(i == 0 || strcmp(kr_warden_caps[i - 1].name, kr_warden_caps[i].name) < 0);
        CHECK(strlen(kr_warden_caps[i].why) > 20);
    }
}

/* The words behind CapabilityBoundingSet=, which may be given more than once and is one list then (systemd.exec(5)). */
static size_t unit_grants(char names[][32], size_t max)
{
    static const char key[] = "CapabilityBoundingSet=";
    char line[1024];
    size_t count = 0;
    FILE *f = fopen("deploy/krait.service", "re");

    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, sizeof key - 1) != 0)
            continue;
        for (char *save = NULL, *word = strtok_r(line + sizeof key - 1, " \n", &save); word && count < max;
             word = strtok_r(NULL, " \n", &save))
            snprintf(names[count++], sizeof names[0], "%.31s", word);
    }
    if (f)
        fclose(f);
    return count;
}

static void the_service_unit_grants_the_same(void)
{
    char names[64][32];
    size_t count = unit_grants(names, 64), wanted = 0;

    for (size_t i = 0; i < kr_warden_caps_count; i++) {
        size_t at = 0;

        if (kr_warden_caps[i].nested)
            continue;
        wanted++;
        while (at < count && strcmp(names[at], kr_warden_caps[i].name) != 0)
            at++;
        if (at == count)
            printf("# deploy/krait.service lacks %s\n", kr_warden_caps[i].name);
        CHECK(at < count);
    }
    CHECK(count == wanted);
}

int main(void)
{
    RUN(rows_are_sorted_and_have_reasons);
    RUN(the_service_unit_grants_the_same);
    CHECK_DONE();
}
