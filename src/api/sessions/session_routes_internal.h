/* What the files of sessions share: the structs that the tables of requests fill, and finding a session. */
#pragma once
#include "api.h"
#include "field.h"

#define KR_API_WORKSPACE "/workspace" /* as code in a session sees it */

struct kr_api_session_file {
    const char *url, *id;
};
struct kr_api_session_create {
    const char *session, *sandbox;
    json_t *urls, *files;
    int64_t timeout;
};
struct kr_api_session_where {
    const char *sandbox;
};
extern const struct kr_api_table kr_api_session_file_table, kr_api_session_create_table, kr_api_session_where_table;

struct kr_json;

struct kr_api_session_asked {
    struct kr_api_who who;
    char sandbox[KR_STORE_ID_ROOM]; /* its id; "": any */
};
/* The session that the path names, in the sandbox that the query names. False: answered. */
bool kr_api_session_find(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_session_asked *a,
                         struct kr_box_session_info *ret);
/* Members of an open object. */
void kr_api_session_write(struct kr_json *j, const struct kr_box_session_info *s);
