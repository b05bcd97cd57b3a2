/* The documents' answers about packages, made of results of jobs as src/install/install.h has them. */
#include "check.h"
#include "package_shapes.h"

#define GOOD                                                                                                           \
    "{\"op\":\"install\",\"ok\":true,\"sandbox\":\"s\",\"installed\":[{\"name\":\"Requests\",\"version\":\"2.31.0\","  \
    "\"was\":null,\"requested\":true,\"sha256\":\"00\",\"file\":\"f\",\"index\":\"i\"},{\"name\":\"urllib3\","         \
    "\"version\":\"2.0.7\",\"was\":\"1.26\",\"requested\":false}],\"removed\":[],\"satisfied\":[],\"notes\":[],"       \
    "\"restart\":false,\"downloaded\":10,\"cached\":0,\"seconds\":1.25,\"output\":\"Collecting requests\\n\","         \
    "\"asked\":[\"requests\"]}"
#define SATISFIED                                                                                                      \
    "{\"op\":\"install\",\"ok\":true,\"installed\":[],\"satisfied\":[{\"name\":\"requests\",\"version\":\"2.30\"}],"   \
    "\"seconds\":0.5,\"output\":\"\"}"
#define BAD                                                                                                            \
    "{\"op\":\"install\",\"ok\":false,\"kind\":\"not_found\",\"error\":\"No matching distribution found for x\","      \
    "\"names\":[\"x\"],\"seconds\":0.5,\"output\":\"ERROR: none\\n\"}"
#define BROKEN_BUILD                                                                                                   \
    "{\"op\":\"install\",\"ok\":false,\"kind\":\"build\",\"error\":\"x cannot be built\",\"seconds\":2,"               \
    "\"output\":\"error: gcc\\n\"}"

static const struct kr_store_job ended = {.started = 1763200000000000, .ended = 1763200002500000, .cause = "ok"};
static const struct kr_store_job running = {.started = 1763200000000000, .text = "downloading"};
static const struct kr_store_job lost = {
    .started = 1763200000000000, .ended = 1763200002500000, .cause = "lost", .message = "the server ended"};

static json_t *result_of(const char *text)
{
    return json_loads(text, 0, NULL);
}

/* Is it that value? Takes it. */
static bool is_value(json_t *value, const char *text)
{
    json_t *want = json_loads(text, 0, NULL);
    bool same = want && json_equal(value, want);

    if (!same) {
        char *got = json_dumps(value, JSON_COMPACT);

        printf("# got %s\n", got);
        free(got);
    }
    json_decref(want);
    json_decref(value);
    return same;
}

static void document_002_has_four_fields(void)
{
    json_t *good = result_of(GOOD), *satisfied = result_of(SATISFIED), *bad = result_of(BAD);

    CHECK(is_value(kr_service_install_value("requests", &ended, good, false),
                   "{\"success\":true,\"message\":\"Successfully installed Requests-2.31.0 urllib3-2.0.7\","
                   "\"installed_version\":\"2.31.0\",\"installation_time\":1.25}"));
    CHECK(is_value(kr_service_install_value("requests", &ended, satisfied, false),
                   "{\"success\":true,\"message\":\"Requirement already satisfied: requests 2.30\","
                   "\"installed_version\":\"2.30\",\"installation_time\":0.5}"));
    CHECK(is_value(kr_service_install_value("x", &ended, bad, true),
                   "{\"success\":false,\"message\":\"No matching distribution found for x\",\"installed_version\":null,"
                   "\"installation_time\":0.5,\"output\":\"ERROR: none\\n\","
                   "\"error\":\"No matching distribution found for x\"}"));
    CHECK(is_value(kr_service_install_value("x", &lost, NULL, false),
                   "{\"success\":false,\"message\":\"the server ended\",\"installed_version\":null,"
                   "\"installation_time\":0.0}"));
    CHECK(is_value(kr_service_refused_value("Package os is blocked for security reasons"),
                   "{\"success\":false,\"message\":\"Package os is blocked for security reasons\","
                   "\"installed_version\":null,\"installation_time\":0.0}"));
    json_decref(good);
    json_decref(satisfied);
    json_decref(bad);
}

static bool is_text(const char *asked, const struct kr_store_job *row, const char *result, bool timed_out,
                    const char *want)
{
    json_t *value = result ? result_of(result) : NULL;
    struct kr_buf text;
    bool same;

    kr_buf_init(&text, 1u << 16);
    kr_executor_install_text(&text, asked, row, value, timed_out);
    same = strcmp(kr_buf_str(&text), want) == 0;
    if (!same)
        printf("# got %s\n", kr_buf_str(&text));
    kr_buf_done(&text);
    json_decref(value);
    return same;
}

static void document_003_has_texts(void)
{
    CHECK(is_text("requests>=2.28.0", &ended, GOOD, false,
                  "Successfully installed: requests>=2.28.0\n\nCollecting requests\n"));
    CHECK(is_text("x", &ended, BAD, false, "Installation failed:\nNo matching distribution found for x"));
    CHECK(is_text("x", &ended, BROKEN_BUILD, false, "Installation failed:\nx cannot be built\nerror: gcc\n"));
    CHECK(is_text("x", &lost, NULL, false, "Installation failed:\nthe server ended"));
    CHECK(is_text("x", &running, NULL, true, "Package installation timed out after 5 minutes"));
}

static void document_004_tells_how_it_stands(void)
{
    json_t *good = result_of(GOOD), *bad = result_of(BAD);
    struct kr_install_status status = {.version = "", .job = "", .text = "", .ended_us = 1763200002500000};

    CHECK(is_value(kr_mcp_sandbox_install_value("requests", &ended, good, false),
                   "{\"status\":\"success\",\"message\":\"Successfully installed requests\",\"complete\":true,"
                   "\"success\":true,\"end_time\":\"2025-11-15T09:46:42.500000Z\"}"));
    CHECK(is_value(kr_mcp_sandbox_install_value("x", &ended, bad, false),
                   "{\"status\":\"failed\",\"message\":\"Failed to install x: No matching distribution found for x\","
                   "\"stderr\":\"No matching distribution found for x\",\"complete\":true,\"success\":false,"
                   "\"end_time\":\"2025-11-15T09:46:42.500000Z\"}"));
    CHECK(is_value(kr_mcp_sandbox_install_value("x", &running, NULL, false),
                   "{\"success\":null,\"status\":\"installing\",\"message\":\"Installation of x in progress. Use "
                   "check_package_installation_status to monitor progress.\"}"));
    CHECK(is_value(kr_mcp_sandbox_install_value("x", &running, NULL, true),
                   "{\"success\":null,\"status\":\"installing\","
                   "\"message\":\"Package x installation already in progress\"}"));
    CHECK(is_value(kr_mcp_sandbox_progress_value("x", &running, NULL, 1763200006000000),
                   "{\"status\":\"installing\",\"start_time\":\"2025-11-15T09:46:40.000000Z\","
                   "\"message\":\"Installing x: downloading\",\"complete\":false,\"success\":null,"
                   "\"elapsed_seconds\":6.0}"));
    CHECK(is_value(kr_mcp_sandbox_status_value("x", &status),
                   "{\"status\":\"not_found\",\"message\":\"No installation record found for x\",\"complete\":true,"
                   "\"success\":false}"));
    status.state = KR_INSTALL_INSTALLED;
    CHECK(is_value(kr_mcp_sandbox_status_value("x", &status),
                   "{\"status\":\"success\",\"message\":\"Package x is already installed\",\"complete\":true,"
                   "\"success\":true}"));
    status.state = KR_INSTALL_FAILED;
    status.text = "no network";
    CHECK(is_value(kr_mcp_sandbox_status_value("x", &status),
                   "{\"status\":\"failed\",\"message\":\"Failed to install x: no network\",\"stderr\":\"no network\","
                   "\"complete\":true,\"success\":false,\"end_time\":\"2025-11-15T09:46:42.500000Z\"}"));
    json_decref(good);
    json_decref(bad);
}

int main(void)
{
    RUN(document_002_has_four_fields);
    RUN(document_003_has_texts);
    RUN(document_004_tells_how_it_stands);
    CHECK_DONE();
}
