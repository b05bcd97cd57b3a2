/* What the routes of files say of themselves: fields of their requests, shapes of their answers. Used by the
 * handlers of files_*.c, the table of routes and the writer of OpenAPI.
 *
 * Invariant: every field a handler reads is a row here. */
#include "file_routes.h"
#include "field.h"
#include "files.h"
#include "reply_schema.h"

#define PATH_MAX_ (KR_FILES_PATH_MAX - 1)
#define SANDBOX "01hv5k8m2nq7r9t3w6x8y0z2a4"

/* ---- requests ---- */

/* clang-format off */
#define Q(member) KR_API_AT(struct kr_files_query, member)
#define ROW_B64 {.name = "path_b64", .type = KR_API_STRING, Q(path_b64), KR_API_LENGTH(1, 8192), \
     .help = "Base64 of the path, for names that no URL can carry (not UTF-8, control characters, a backslash); " \
             "goes before the path.", .example = "cmVwb3J0Lf8uY3N2"}
#define ROWS_LIST \
    {.name = "recursive", .type = KR_API_BOOL, Q(recursive), .def = "false", \
     .help = "Also what is in the folders within.", .example = "true"}, \
    {.name = "limit", .type = KR_API_INT, Q(limit), KR_API_RANGE(1, 10000), .def = "1000", \
     .help = "At most so many entries.", .example = "1000"}, \
    {.name = "after", .type = KR_API_STRING, Q(after), KR_API_LENGTH(1, PATH_MAX_), \
     .help = "`next` of the page before.", .example = "plots/a.png"}, \
    {.name = "after_b64", .type = KR_API_STRING, Q(after_b64), KR_API_LENGTH(1, 8192), \
     .help = "`next_b64` of the page before, if it has one.", .example = "cGxvdHMv/w=="}
#define ROW_DOWNLOAD {.name = "download", .type = KR_API_BOOL, Q(download), .def = "false", \
     .help = "As an attachment, to be saved; else to be shown.", .example = "true"}

static const struct kr_api_field list_fields[] = {
    {.name = "path", .type = KR_API_STRING, Q(path), KR_API_LENGTH(0, PATH_MAX_), .help = "The folder; the workspace "
     "itself if left out.", .example = "plots"},
    ROW_B64, ROWS_LIST,
};
const struct kr_api_table kr_files_list_query = KR_API_TABLE(NULL, "Which files.", list_fields, struct kr_files_query);
static const struct kr_api_field get_fields[] = {ROW_DOWNLOAD, ROW_B64, ROWS_LIST};
const struct kr_api_table kr_files_get_query = KR_API_TABLE(NULL, "How.", get_fields, struct kr_files_query);
static const struct kr_api_field delete_fields[] = {
    {.name = "recursive", .type = KR_API_BOOL, Q(recursive), .def = "false", .help = "A folder with all that is in it.",
      .example = "true"}, ROW_B64,
};
const struct kr_api_table kr_files_delete_query = KR_API_TABLE(NULL, "How.", delete_fields, struct kr_files_query);
static const struct kr_api_field link_query_fields[] = {ROW_DOWNLOAD, ROW_B64};
const struct kr_api_table kr_files_link_query = KR_API_TABLE(NULL, "How.", link_query_fields, struct kr_files_query);

static const struct kr_api_field folder_fields[] = {
    {.name = "path", .type = KR_API_STRING, KR_API_AT(struct kr_folder_request, path), .required = true,
     KR_API_LENGTH(1, PATH_MAX_),
     .help = "The folder to be made, with those above it.", .example = "plots/2024"},
};
const struct kr_api_table kr_folder_table = KR_API_TABLE("FolderRequest", "A folder to be made.", folder_fields,
    struct kr_folder_request);

static const struct kr_api_field link_fields[] = {
    {.name = "path", .type = KR_API_STRING, KR_API_AT(struct kr_link_request, path), .nullable = true,
     KR_API_LENGTH(1, PATH_MAX_), .help = "The file.", .example = "plots/a.png"},
    {.name = "path_b64", .type = KR_API_STRING, KR_API_AT(struct kr_link_request, path_b64), .nullable = true,
     KR_API_LENGTH(1, 8192), .help = "Base64 of the path instead, for names that are not UTF-8.",
     .example = "cmVwb3J0Lf8uY3N2"},
    {.name = "expires_in", .type = KR_API_INT, KR_API_AT(struct kr_link_request, expires_in),
     KR_API_GIVEN(struct kr_link_request, expires_given), .nullable = true, KR_API_RANGE(1, 31536000),
     .ceiling = KR_API_CEILING_LINK,
     .help = "Seconds it is good for; at most, and if left out, what the server allows.", .example = "3600"},
    {.name = "download", .type = KR_API_BOOL, KR_API_AT(struct kr_link_request, download), .def = "false",
     .nullable = true,
     .help = "A browser that follows it saves the file.", .example = "false"},
};
const struct kr_api_table kr_link_table = KR_API_TABLE("LinkRequest", "A link to be made.", link_fields,
    struct kr_link_request);

static const struct kr_api_field sandbox_file_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct kr_sandbox_file_query, sandbox_id), .required = true,
      KR_API_LENGTH(1, 64),
     .help = "The sandbox's id, or its name.", .example = SANDBOX},
    {.name = "file_path", .type = KR_API_STRING, KR_API_AT(struct kr_sandbox_file_query, file_path), .required = true,
     KR_API_LENGTH(1, PATH_MAX_),
     .help = "The file, beneath /app/results or /workspace.", .example = "/app/results/plot.png"},
    {.name = "token", .type = KR_API_STRING, KR_API_AT(struct kr_sandbox_file_query, token),
     .help = "A signature instead of a key, as the links that krait writes have it.",
         .example = "root." SANDBOX ".1763286400.4t9x"},
    {.name = "download", .type = KR_API_BOOL, KR_API_AT(struct kr_sandbox_file_query, download), .def = "false",
     .help = "As an attachment, to be saved.", .example = "false"},
};
const struct kr_api_table kr_sandbox_file_query_table = KR_API_TABLE(NULL, "Which file.", sandbox_file_fields,
    struct kr_sandbox_file_query);

struct form { const char *dir, *path, *file; };
static const struct kr_api_field form_fields[] = {
    {.name = "dir", .type = KR_API_STRING, KR_API_AT(struct form, dir), .help = "The folder of all files that follow "
     "it.", .example = "data"},
    {.name = "path", .type = KR_API_STRING, KR_API_AT(struct form, path), .help = "The whole path of the next file, "
     "whatever its name.", .example = "data/in.csv"},
    {.name = "file", .type = KR_API_STRING, KR_API_AT(struct form, file), .format = "binary", .required = true,
     .help = "A file, with its name; any number, under any field name.", .example = "a,b\n1,2\n"},
};
static const struct kr_api_table form_table = KR_API_TABLE("UploadForm", "Files, and before them where they go.",
    form_fields, struct form);

/* ---- answers ---- */

static const char *const types[] = {"file", "folder", "link", "other", NULL};
#define PROP_PATH {.name = "path", .type = KR_API_STRING, .help = "From the workspace.", .example = "plots/a.png"}
#define PROP_B64 {.name = "path_b64", .type = KR_API_STRING, .optional = true, .nullable = true, .format = "byte", \
     .help = "Its true bytes, if they are not UTF-8.", .example = "cGxvdHMv/w=="}
static const struct kr_api_prop file_props[] = {
    PROP_PATH, PROP_B64,
    {.name = "type", .type = KR_API_ENUM, .choices = types, .help = "What it is; links are shown, never followed.",
     .example = "file"},
    {.name = "size", .type = KR_API_INT, .help = "Bytes.", .example = "10240"},
    {.name = "modified_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.123456"},
};
static const struct kr_api_schema file_schema = KR_API_SCHEMA("FileEntry", "An entry of a folder.", file_props);
static const struct kr_api_prop files_props[] = {
    {.name = "path", .type = KR_API_STRING, .help = "The folder, from the workspace; empty: the workspace itself.",
     .example = "plots"}, PROP_B64,
    {.name = "files", .type = KR_API_ARRAY, .of = &file_schema, .help = "Sorted by path, a folder before what is in "
     "it."},
    {.name = "next", .type = KR_API_STRING, .nullable = true, .help = "`after` of the next page; null at the end.",
     .example = "plots/a.png"},
    {.name = "next_b64", .type = KR_API_STRING, .optional = true, .nullable = true, .format = "byte", .help =
     "`after_b64` of the next page, if `next` is not UTF-8.", .example = "cGxvdHMv/w=="},
    {.name = "incomplete", .type = KR_API_BOOL, .help = "A bound was met or a folder could not be read: some entries "
     "are on no page.", .example = "false"},
};
static const struct kr_api_schema files_schema = KR_API_SCHEMA("Files", "A page of a folder's entries.", files_props);

static const struct kr_api_prop stored_props[] = {
    PROP_PATH,
    {.name = "size", .type = KR_API_INT, .help = "Bytes.", .example = "10240"},
    {.name = "created", .type = KR_API_BOOL, .help = "There was nothing of that name before.", .example = "true"},
};
static const struct kr_api_schema stored_schema = KR_API_SCHEMA("StoredFile", "A file that was stored.", stored_props);
static const struct kr_api_prop unstored_props[] = {
    {.name = "name", .type = KR_API_STRING, .nullable = true, .help = "What it was called; null: the rest of the form.",
      .example = "../x"},
    {.name = "kind", .type = KR_API_STRING, .help = "What is wrong, as one word.", .example = "invalid"},
    {.name = "message", .type = KR_API_STRING, .help = "The same as a sentence.",
     .example = "path \"../x\": it contains \"..\""},
};
static const struct kr_api_schema unstored_schema = KR_API_SCHEMA("UnstoredFile",
    "A file that was not stored, and why.", unstored_props);
static const struct kr_api_prop upload_props[] = {
    {.name = "files", .type = KR_API_ARRAY, .of = &stored_schema, .help = "What was stored, in the order of the form."},
    {.name = "failed", .type = KR_API_ARRAY, .of = &unstored_schema, .help = "What was not.", .example = "[]"},
};
static const struct kr_api_schema upload_schema = KR_API_SCHEMA("Upload", "What became of the files of a form.",
    upload_props);
static const struct kr_api_prop folder_props[] = {
    {.name = "path", .type = KR_API_STRING, .help = "From the workspace.", .example = "plots/2024"},
    {.name = "created", .type = KR_API_BOOL, .help = "It was not there before.", .example = "true"},
};
static const struct kr_api_schema folder_schema = KR_API_SCHEMA("Folder", "A folder.", folder_props);
static const struct kr_api_prop link_props[] = {
    {.name = "url", .type = KR_API_STRING, .format = "uri", .help = "A client that has it can read the file.",
     .example = "http://localhost:8642/files/root." SANDBOX ".1763286400.4t9x/plots/a.png"},
    PROP_PATH, PROP_B64,
    {.name = "expires_at", .type = KR_API_INT, .help = "Unix time.", .example = "1763286400"},
};
static const struct kr_api_schema link_schema = KR_API_SCHEMA("Link", "A link to a file that needs no key.",
    link_props);

static const struct kr_api_header content_headers[] = {
    {"ETag", "Names this content; for If-None-Match, If-Range and If-Match.", "\"1f3-2800-186f-186f\""},
    {"Content-Disposition", "inline or attachment, and the file's name.", "inline; filename=\"a.png\""},
    {"Accept-Ranges", "Parts can be asked for.", "bytes"},
    {0}};
static const struct kr_api_header part_headers[] = {{"Content-Range", "Which bytes, and of how many.",
    "bytes 0-99/10240"}, {0}};
static const struct kr_api_header stored_headers[] = {{"ETag", "Names the content that was stored.",
    "\"1f3-2800-186f-186f\""}, {0}};
#define ERROR(status_, kind_, help_, text_) {status_, help_, NULL, &kr_api_error_schema, \
    "{\"error\":{\"kind\":\"" kind_ "\",\"message\":\"" text_ "\",\"field\":null," \
        "\"request_id\":\"3f0c9a52d1b84e7f\"}}", \
    NULL}
#define DETAIL(status_, kind_, help_, text_) {status_, help_, NULL, &kr_api_detail_schema, \
    KR_API_DETAIL_EXAMPLE(kind_, text_), NULL}
#define BYTES {200, "The file, as its name and bytes say what it is.", "application/octet-stream", NULL, NULL, \
     content_headers}, \
    {200, "The file, as its name and bytes say what it is.", "*/*", NULL, "a,b\n1,2\n", content_headers}, \
    {206, "The part that Range asks for.", "application/octet-stream", NULL, NULL, part_headers}, \
    {206, "The part that Range asks for.", "*/*", NULL, "a,b\n", part_headers}, \
    {304, "It is the one that If-None-Match names.", NULL, NULL, NULL, NULL}
#define DENIED ERROR(403, "denied", "A symbolic link, or permission bits.", \
    "path \\\"x\\\": a part of it is a symbolic link, and links are not followed")
#define IN_THE_WAY ERROR(409, "conflict", "Something is in the way.", "path \\\"plots\\\": it is a folder")
#define NO_SPACE ERROR(507, "limit", "The disk, or what you may have of it, is full.", \
    "path \\\"x\\\": no space is left")
#define NO_RANGE ERROR(416, "invalid", "Nothing of the file is in the range.", "range: the file has 10240 bytes")

static const struct kr_api_response list_ok[] = {{200, "The page.", NULL, &files_schema, NULL, NULL}, DENIED, {0}};
static const struct kr_api_response get_ok[] = {BYTES, DENIED, NO_RANGE, {0}};
static const struct kr_api_response put_ok[] = {
    {201, "It is stored, under a new name.", NULL, &stored_schema, NULL, stored_headers},
    {200, "It is stored and replaces another.", NULL, &stored_schema, NULL, stored_headers},
    DENIED, IN_THE_WAY, ERROR(412, "conflict", "If-None-Match or If-Match does not hold.", "something of that name is "
        "there already"), NO_SPACE, {0}};
static const struct kr_api_response post_ok[] = {
    {201, "All are stored.", NULL, &upload_schema, NULL, NULL},
    {207, "Some are stored; what failed is listed.", NULL, &upload_schema, NULL, NULL},
    DENIED, IN_THE_WAY, ERROR(415, "invalid", "The body is not multipart/form-data.", "the body must be "
        "multipart/form-data; PUT takes one file as it is"), NO_SPACE, {0}};
static const struct kr_api_response delete_ok[] = {{204, "It is gone.", NULL, NULL, NULL, NULL}, DENIED,
    ERROR(409, "conflict", "A folder that is not empty, without `recursive`.", "path \\\"plots\\\": the folder is not "
        "empty"), {0}};
static const struct kr_api_response folder_ok[] = {{201, "It is made.", NULL, &folder_schema, NULL, NULL}, {200,
    "It is there.", NULL, &folder_schema, NULL, NULL},
    DENIED, IN_THE_WAY, NO_SPACE, {0}};
static const struct kr_api_response links_ok[] = {{201, "The link.", NULL, &link_schema, NULL, NULL}, DENIED, {0}};
static const struct kr_api_response link_ok[] = {BYTES, ERROR(403, "denied", "Its time is over, or the file is a "
    "symbolic link.", "the time of this link is over: ask for a new one"), NO_RANGE, {0}};
static const struct kr_api_response sandbox_file_ok[] = {BYTES,
    DETAIL(401, "unauthorized", "Neither a key nor a good token.", "Authentication required"),
    DETAIL(403, "forbidden", "The link's time is over, or the file is a symbolic link.",
     "the time of this link is over: ask for a new one"),
    DETAIL(404, "not_found", "No such sandbox of yours, or no such file in it.",
     "there is no sandbox of that id or name"),
    DETAIL(416, "invalid", "Nothing of the file is in the range.", "range: the file has 10240 bytes"), {0}};

/* ---- routes ---- */

#define PARAM_SANDBOX {"sandbox_id", "The sandbox's id or name; `default` always is one.", "default"}
#define PARAM_PATH {"path", "The path from the workspace, each part percent-encoded.", "plots/a.png"}
static const struct kr_api_param sandbox_params[] = {PARAM_SANDBOX, {0}};
static const struct kr_api_param path_params[] = {PARAM_SANDBOX, PARAM_PATH, {0}};
static const struct kr_api_param link_params[] = {{"token", "Owner, sandbox, end and signature.",
    "root." SANDBOX ".1763286400.4t9x"}, PARAM_PATH, {0}};
static const struct kr_api_media raw_body[] = {{"application/octet-stream", NULL, "The bytes of the file, whatever "
    "its Content-Type.", "a,b\n1,2\n"}, {0}};
static const struct kr_api_media form_body[] = {{"multipart/form-data", &form_table,
    "Files, and before them where they go.", NULL}, {0}};

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "files", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_api_files_list_doc = {DOC("list_files", "List a folder", KR_RIGHT_READ),
    .params = sandbox_params, .query = &kr_files_list_query, .responses = list_ok};
const struct kr_api_doc kr_api_files_get_doc = {DOC("read_file", "Read a file, or list a folder", KR_RIGHT_READ),
    .description = "Range (one), If-Range and If-None-Match are understood. A folder gives its list, as `list_files` "
        "does.", .params = path_params, .query = &kr_files_get_query, .responses = get_ok};
const struct kr_api_doc kr_api_files_put_doc = {DOC("write_file", "Store a file", KR_RIGHT_RUN),
    .description = "The file appears whole or not at all; folders above it are made. `If-None-Match: *` replaces "
        "nothing; `If-Match` with an ETag replaces that content only.",
    .params = path_params, .bodies = raw_body, .responses = put_ok};
const struct kr_api_doc kr_api_files_post_doc = {DOC("upload_files", "Store several files", KR_RIGHT_RUN),
    .description = "Each file appears whole or not at all, under its own name in `dir`, or as `path` says.",
        .params = sandbox_params, .bodies = form_body, .responses = post_ok};
const struct kr_api_doc kr_api_files_delete_doc = {DOC("delete_file", "Delete a file or folder", KR_RIGHT_RUN),
    .params = path_params, .query = &kr_files_delete_query, .responses = delete_ok};
const struct kr_api_doc kr_api_folders_post_doc = {DOC("create_folder", "Make a folder", KR_RIGHT_RUN),
    .params = sandbox_params, .body = &kr_folder_table, .responses = folder_ok};
const struct kr_api_doc kr_api_links_post_doc = {DOC("create_link", "Make a link to a file", KR_RIGHT_READ),
    .description = "A client that has it can read the file without a key until its time is over, or the file, "
        "the sandbox or its owner are deleted.",
    .params = sandbox_params, .body = &kr_link_table, .body_example = "{\"path\":\"plots/a.png\"}",
         .responses = links_ok};
const struct kr_api_doc kr_api_link_get_doc = {DOC("follow_link", "Read a file by a link", 0), .open = true,
    .params = link_params, .query = &kr_files_link_query, .responses = link_ok};
const struct kr_api_doc kr_api_sandbox_file_doc = {.id = "sandbox_file", .tag = KR_API_TAG_004,
    .summary = "Read a file of a sandbox, to be shown", .voice = KR_API_DOCUMENT,
    .description = "With a key, with a `token`, or with neither where authentication is off.",
    .needs = KR_RIGHT_READ, .open = true, .query = &kr_sandbox_file_query_table, .responses = sandbox_file_ok};
/* clang-format on */
