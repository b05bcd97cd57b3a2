/* Resources: their rows (the guide, templates), and what the files of resources share. resources.c lists and
 * dispatches, resource_list.c collects what a caller has, resource_read.c reads one. */
#pragma once
#include "call.h"
#include "uri.h"
#include <stddef.h>

struct kr_api;
struct kr_box_run;

/* One resource with a fixed address, or a template. */
struct kr_mcp_resource {
    const char *uri; /* or the template */
    const char *name, *title, *description, *mime;
    bool is_template;
    /* Reads it: answers now or later, by kr_mcp_contents() or kr_mcp_no_resource(). Of a template: may be NULL, when
     * kr_mcp_uri_parse() knows its addresses. */
    void (*read)(struct kr_mcp_call *c, const char *uri);
    bool (*matches)(const char *uri); /* of a template with its own read */
};
/* krait's, in the order in which they are listed (resources.c); those of additions.h follow. */
extern const struct kr_mcp_resource kr_mcp_resources[];
extern const size_t kr_mcp_resources_count;
/* The i-th of all, additions included, or NULL. */
const struct kr_mcp_resource *kr_mcp_resource_at(size_t i);

#define KR_MCP_READ_MAX (3u << 20) /* bytes of a resource that is read; larger ones are refused, with the way to them */

/* Answers resources/read with one content: text, or with `blob` base64. */
void kr_mcp_contents(struct kr_mcp_call *c, const char *uri, const char *mime, const char *text, size_t len, bool blob);
/* Answers that it is not there: the code by the revision, data.uri. */
void kr_mcp_no_resource(struct kr_mcp_call *c, const char *uri);

/* Members of an item, those that this revision has. Texts but uri and name may be NULL. */
json_t *kr_mcp_resource_item(const struct kr_mcp_call *c, const struct kr_mcp_resource *r);

/* Answers resources/list with the rows in `items` (taken) and what the caller has. */
void kr_mcp_resource_list(struct kr_mcp_call *c, json_t *items);
/* Answers resources/read of an address of ours. */
void kr_mcp_resource_read(struct kr_mcp_call *c, const char *text, const struct kr_mcp_uri *uri);

/* Answers resources/read of krait://connections (resource_connections.c). */
void kr_mcp_read_connections(struct kr_mcp_call *c, const char *uri);

/* A run has ended (for kr_box_calls.on_run_ended): subscribers of files it changed, of its session or its log are
 * notified. */
void kr_mcp_run_ended(struct kr_mcp *m, struct kr_api *api, const struct kr_box_run *run);
/* A file of a sandbox was changed: its subscribers, by the sandbox's id or its name, are notified. */
void kr_mcp_file_changed(struct kr_mcp *m, const char *user, const char *sandbox, const char *name, const char *path);
