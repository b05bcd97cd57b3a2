/* src/security: which events follow from the end of a run, and from a connection. Run by tests/run. */
#include "check.h"
#include "run.h"
#include "security.h"
#include "../store/store-common.h"
#include <uv.h>

static uv_loop_t loop;
static struct kr_security *security;
static char seen[8192]; /* a line for each event: kind rule line count text */

static void on_event(void *data, const struct kr_security_event *e, bool is_told)
{
    size_t len = strlen(seen);

    (void)data, (void)is_told;
    snprintf(seen + len, sizeof seen - len, "%s %s %u %llu %s\n", kr_security_kinds[e->kind], e->rule, e->line,
             (unsigned long long)e->count, e->text);
}

/* What is noted of an end like this; `error`, `findings`, `refused`: JSON or NULL. */
static bool gives(struct kr_run_end end, const char *error, const char *findings, const char *refused,
                  const char *events)
{
    struct kr_claim_end claim = {.error = error ? json_loads(error, 0, NULL) : NULL,
                                 .findings = findings ? json_loads(findings, 0, NULL) : NULL,
                                 .refused = refused ? json_loads(refused, 0, NULL) : NULL,
                                 .raised = error && strstr(error, "raised")};

    seen[0] = '\0';
    end.claim = &claim;
    kr_security_note_run(security, alice, "", "a-run", &end);
    kr_claim_end_done(&claim);
    if (strcmp(seen, events) == 0)
        return true;
    printf("  it gives:\n%s", seen);
    return false;
}

static struct kr_run_end end_by(enum kr_cause cause, unsigned hits, const char *message)
{
    struct kr_run_end end = {.verdict = {.cause = cause, .hits = hits}};

    snprintf(end.message, sizeof end.message, "%s", message);
    return end;
}

static void test_ends_without_a_refusal(void)
{
    CHECK(gives(end_by(KR_CAUSE_OK, 0, ""), NULL, NULL, NULL, ""));
    CHECK(gives(end_by(KR_CAUSE_EXCEPTION, 0, ""), "{\"type\":\"ZeroDivisionError\",\"errno\":0}", NULL, NULL, ""));
    CHECK(gives(end_by(KR_CAUSE_EXCEPTION, 0, ""), "{\"type\":\"OSError\",\"errno\":2}", NULL, NULL, ""));
    CHECK(gives(end_by(KR_CAUSE_EXCEPTION, 0, ""), "{\"type\":\"PermissionError\",\"errno\":13,\"raised\":1}", NULL,
                NULL, ""));
    CHECK(gives(end_by(KR_CAUSE_CANCELLED, 0, "cancelled"), NULL, NULL, NULL, ""));
    /* judged and not meant to run: a finding is an answer */
    CHECK(gives(end_by(KR_CAUSE_OK, 0, ""), NULL, "[{\"id\":\"P101\",\"line\":1,\"text\":\"x\"}]", NULL, ""));
}

static void test_the_kernel_and_limits(void)
{
    struct kr_run_end killed = end_by(KR_CAUSE_DENIED, 0, "the filter ended it");

    killed.verdict.by_kill = true;
    CHECK(gives(killed, NULL, NULL, NULL, "syscall seccomp 0 1 the filter ended it\n"));
    CHECK(gives(end_by(KR_CAUSE_EXCEPTION, 0, ""),
                "{\"type\":\"PermissionError\",\"errno\":13,\"line\":4,\"message\":\"no\"}", NULL, NULL,
                "permission EACCES 4 1 no\n"));
    CHECK(gives(end_by(KR_CAUSE_EXCEPTION, 0, ""), "{\"type\":\"OSError\",\"errno\":30,\"line\":-4}", NULL, NULL,
                "permission EROFS 0 1 \n"));
    CHECK(gives(end_by(KR_CAUSE_MEMORY_LIMIT, KR_HIT_MEMORY, "memory limit reached"), "{\"line\":3}", NULL, NULL,
                "limit memory 3 1 memory limit reached\n"));
    CHECK(gives(end_by(KR_CAUSE_OK, KR_HIT_OUTPUT | KR_HIT_PROCESSES, "1 process was ended"), NULL, NULL, NULL,
                "limit processes 0 1 the processes limit was hit\nlimit output 0 1 the output limit was hit\n"));
}

static void test_the_policy(void)
{
    char many[8192] = "[", *at = many + 1;

    CHECK(gives(end_by(KR_CAUSE_DENIED, 0, ""), NULL,
                "[{\"id\":\"P101\",\"line\":1,\"text\":\"Import 'os' is not allowed\"},{\"id\":\"P102\",\"line\":7}]",
                NULL, "policy P101 1 1 Import 'os' is not allowed\npolicy P102 7 1 \n"));
    CHECK(gives(end_by(KR_CAUSE_OK, 0, ""), NULL, NULL, "[{\"id\":\"P202\",\"line\":3,\"text\":\"no\"}]",
                "policy P202 3 1 no\n"));
    for (int i = 0; i < 100; i++)
        at += sprintf(at, "%s{\"id\":\"P101\",\"line\":1,\"text\":\"x\"}", i ? "," : "");
    sprintf(at, "]");
    seen[0] = '\0';
    (void)gives(end_by(KR_CAUSE_DENIED, 0, ""), NULL, many, NULL, seen);
    CHECK(strstr(seen, "policy more 0 68 more refusals of this run\n"));
}

static bool connection_gives(const char *row, const char *events)
{
    json_t *object = json_loads(row, 0, NULL);

    seen[0] = '\0';
    kr_security_note_connection(security, object);
    json_decref(object);
    return strcmp(seen, events) == 0;
}

static void test_connections(void)
{
    CHECK(connection_gives("{\"verdict\":\"denied\",\"host\":\"a.example\",\"port\":80,\"why\":\"no\",\"user\":\"u\"}",
                           "egress denied 0 1 a.example:80: no\n"));
    CHECK(connection_gives("{\"verdict\":\"limit\",\"host\":\"a\",\"port\":1,\"why\":\"full\",\"user\":\"u\"}",
                           "egress limit 0 1 a:1: full\n"));
    CHECK(connection_gives("{\"verdict\":\"ok\",\"host\":\"a\",\"port\":1,\"user\":\"u\"}", ""));
    CHECK(connection_gives("{\"verdict\":\"failed\",\"host\":\"a\",\"port\":1,\"user\":\"u\"}", ""));
}

int main(void)
{
    static const struct kr_security_calls calls = {.on_event = on_event};

    store = must_open(fresh_dir());
    if (uv_loop_init(&loop) < 0 || add_user("alice", alice) < 0 ||
        kr_security_new(&loop, store, 1000, &calls, NULL, &security) < 0)
        return 1;
    RUN(test_ends_without_a_refusal);
    RUN(test_the_kernel_and_limits);
    RUN(test_the_policy);
    RUN(test_connections);
    kr_security_free(security);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    kr_store_close(store);
    remove_top();
    CHECK_DONE();
}
