/* Terminals over HTTP: create, list, write, resize, follow, close; and one as a WebSocket. Our own voice. */
#pragma once
#include "api.h"
#include "route_doc.h"

kr_http_handler kr_api_terminals_list, kr_api_terminals_create, kr_api_terminals_read, kr_api_terminals_delete,
    kr_api_terminals_input, kr_api_terminals_size, kr_api_terminals_output, kr_api_terminals_socket;
extern const struct kr_api_doc kr_api_terminals_list_doc, kr_api_terminals_create_doc, kr_api_terminals_read_doc,
    kr_api_terminals_delete_doc, kr_api_terminals_input_doc, kr_api_terminals_size_doc, kr_api_terminals_output_doc,
    kr_api_terminals_socket_doc;

/* Answers with its output from there on (terminal_follow.c); as a WebSocket (terminal_socket.c). */
void kr_api_terminal_follow(struct kr_api *api, struct kr_http_ex *ex, struct kr_box_terminal *t, uint64_t from);
void kr_api_terminal_connect(struct kr_api *api, struct kr_http_ex *ex, struct kr_box_terminal *t, uint64_t from);
/* {"type":"end",…} into an empty buffer: what followers are told last. */
struct kr_buf;
void kr_api_terminal_end_json(struct kr_buf *buf, const struct kr_box_terminal *t);

#define KR_API_TERMINAL_BODY_MAX (64u << 10)   /* of a request to create one */
#define KR_API_TERMINAL_INPUT_MAX (128u << 10) /* as base64, with what is around it */
#define KR_API_TERMINAL_PIECE 16384u           /* bytes of output in one line or message */
/* The subprotocol of the WebSocket. */
#define KR_API_TERMINAL_PROTOCOL "krait.terminal"

/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_TERMINALS_ROUTES \
    {KR_HTTP_GET,    "/api/v1/terminals",                      0, 0, kr_api_terminals_list, \
     &kr_api_terminals_list_doc}, \
    {KR_HTTP_POST,   "/api/v1/terminals",                      KR_API_TERMINAL_BODY_MAX, 0, kr_api_terminals_create, \
     &kr_api_terminals_create_doc}, \
    {KR_HTTP_DELETE, "/api/v1/terminals/{terminal_id}",        0, 0, kr_api_terminals_delete, \
     &kr_api_terminals_delete_doc}, \
    {KR_HTTP_GET,    "/api/v1/terminals/{terminal_id}",        0, 0, kr_api_terminals_read, \
     &kr_api_terminals_read_doc}, \
    {KR_HTTP_POST,   "/api/v1/terminals/{terminal_id}/input",  KR_API_TERMINAL_INPUT_MAX, 0, kr_api_terminals_input, \
     &kr_api_terminals_input_doc}, \
    {KR_HTTP_GET,    "/api/v1/terminals/{terminal_id}/output", 0, 0, kr_api_terminals_output, \
     &kr_api_terminals_output_doc}, \
    {KR_HTTP_PUT,    "/api/v1/terminals/{terminal_id}/size",   KR_API_TERMINAL_BODY_MAX, 0, kr_api_terminals_size, \
     &kr_api_terminals_size_doc}, \
    {KR_HTTP_GET,    "/api/v1/terminals/{terminal_id}/socket", 0, 0, kr_api_terminals_socket, \
     &kr_api_terminals_socket_doc}
/* clang-format on */
