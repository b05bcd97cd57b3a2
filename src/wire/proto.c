/* The table of frame types: name, payload bounds, descriptors, whether it is a question.
 *
 * Read by the codec on both ends of every socket. Invariant: a frame that the codec lets through has exactly the bytes
 * its struct has (JSON frames: at most as many as its row says) and only the descriptors its row declares. */
#include "proto.h"
#include "frame.h"
#include <assert.h>

#define FIXED(type_) sizeof(struct type_), sizeof(struct type_)
#define EMPTY 0, 0
#define JSON 0, KR_FRAME_CHANNEL_MAX
#define JSON_SMALL 0, (64u << 10) /* what a session has no reason to make larger is refused by its header */
#define JSON_END 0, (4u << 20)
#define JSON_EGRESS 0, KR_FRAME_EGRESS_MAX

/* clang-format off */
const struct kr_frame_type_row kr_frame_types[KR_F_MAX_] = {
    [KR_F_NONE]    = { "none",      EMPTY,               0, 0, 0 },
    [KR_W_HELLO]   = { "w_hello",   FIXED(kr_w_hello),   0, KR_HIERARCHIES_MAX, 0 },
    [KR_W_ZYGOTE]  = { "w_zygote",  FIXED(kr_w_zygote),  0, 0, 0 },
    [KR_W_OPEN]    = { "w_open",    FIXED(kr_w_open),    0, 0, 1 },
    [KR_W_OPENED]  = { "w_opened",  FIXED(kr_w_opened),  3, 5, 0 },
    [KR_W_START]   = { "w_start",   FIXED(kr_w_start),   0, 0, 1 },
    [KR_W_STARTED] = { "w_started", FIXED(kr_w_cell),    0, 0, 0 },
    [KR_W_SIGNAL]  = { "w_signal",  FIXED(kr_w_signal),  0, 0, 0 },
    [KR_W_KILL]    = { "w_kill",    FIXED(kr_w_cell),    0, 0, 0 },
    [KR_W_STAT]    = { "w_stat",    FIXED(kr_w_cell),    0, 0, 1 },
    [KR_W_STATS]   = { "w_stats",   FIXED(kr_w_stats),   0, 0, 0 },
    [KR_W_ENDED]   = { "w_ended",   FIXED(kr_w_ended),   0, 0, 0 },
    [KR_W_FAILED]  = { "w_failed",  FIXED(kr_err),       0, 0, 0 },
    [KR_B_READY]   = { "b_ready",   FIXED(kr_b_ready),   1, 1, 0 },
    [KR_B_CELL]    = { "b_cell",    FIXED(kr_b_cell),    2, 2, 1 },
    [KR_B_MADE]    = { "b_made",    FIXED(kr_b_made),    1, 2, 0 },
    [KR_B_GONE]    = { "b_gone",    FIXED(kr_b_gone),    0, 0, 0 },
    [KR_B_FAILED]  = { "b_failed",  FIXED(kr_err),       0, 0, 0 },
    [KR_I_GO]      = { "i_go",      FIXED(kr_i_go),      0, 0, 0 },
    [KR_I_READY]   = { "i_ready",   FIXED(kr_i_ready),   0, 0, 0 },
    [KR_I_ATTACH]  = { "i_attach",  FIXED(kr_i_attach),  1, 3 + KR_MOUNTS_MAX, 0 },
    [KR_I_DONE]    = { "i_done",    EMPTY,               0, 0, 0 },
    [KR_I_FAILED]  = { "i_failed",  FIXED(kr_err),       0, 0, 0 },
    [KR_Z_HELLO]   = { "z_hello",   FIXED(kr_z_hello),   0, 0, 0 },
    [KR_Z_FORK]    = { "z_fork",    FIXED(kr_z_fork),    4, 5 + KR_SPACES_ + KR_HIERARCHIES_MAX, 1 },
    [KR_Z_FORKED]  = { "z_forked",  FIXED(kr_z_forked),  1, 1, 0 },
    [KR_Z_EXIT]    = { "z_exit",    FIXED(kr_z_exit),    0, 0, 0 },
    [KR_Z_FAILED]  = { "z_failed",  FIXED(kr_err),       0, 0, 0 },
    [KR_S_GO]      = { "s_go",      EMPTY,               0, 0, 0 },
    [KR_S_READY]   = { "s_ready",   JSON_SMALL,          0, 0, 0 },
    [KR_S_FAILED]  = { "s_failed",  FIXED(kr_err),       0, 0, 0 },
    [KR_S_START]   = { "s_start",   sizeof(struct kr_s_start), KR_FRAME_CHANNEL_MAX, 0, 0, 0 },
    [KR_S_STARTED] = { "s_started", JSON_SMALL,          0, 0, 0 },
    [KR_S_RUN]     = { "s_run",     JSON,                0, 0, 0 },
    [KR_S_DISPLAY] = { "s_display", JSON,                0, 0, 0 },
    [KR_S_INPUT]   = { "s_input",   JSON_SMALL,          0, 0, 0 },
    [KR_S_REPLY]   = { "s_reply",   JSON,                0, 0, 0 },
    [KR_S_END]     = { "s_end",     JSON_END,            0, 0, 0 },
    [KR_W_WAKE]    = { "w_wake",    FIXED(kr_w_wake),    0, 0, 0 },
    [KR_S_INTERRUPT] = { "s_interrupt", EMPTY,           0, 0, 0 },
    [KR_B_EXIT]    = { "b_exit",    FIXED(kr_b_exit),    0, 0, 0 },
    [KR_W_PACE]    = { "w_pace",    FIXED(kr_w_pace),    0, 0, 0 },
    [KR_W_CLEAR]   = { "w_clear",   FIXED(kr_w_clear),   0, 0, 1 },
    [KR_W_CLEARED] = { "w_cleared", FIXED(kr_w_cleared), 0, 0, 0 },
    [KR_W_SHELF]   = { "w_shelf",   FIXED(kr_w_shelf),   0, 0, 1 },
    [KR_W_SHELVED] = { "w_shelved", FIXED(kr_w_shelved), 0, 0, 0 },
    [KR_W_PING]    = { "w_ping",    EMPTY,               0, 0, 1 },
    [KR_W_PONG]    = { "w_pong",    EMPTY,               0, 0, 0 },
    [KR_W_COUNT]   = { "w_count",   FIXED(kr_w_cell),    0, 0, 1 },
    [KR_W_COUNTED] = { "w_counted", FIXED(kr_w_counted), 0, 0, 0 },
    [KR_K_COUNT]   = { "k_count",   FIXED(kr_k_count),   1, 1, 1 },
    [KR_S_PACKAGES] = { "s_packages", JSON_SMALL,        0, 0, 1 },
    [KR_S_PACKAGED] = { "s_packaged", JSON_SMALL,        0, 0, 0 },
    [KR_S_TERMINAL] = { "s_terminal", sizeof(struct kr_s_terminal), 64u << 10, 0, 0, 0 },
    [KR_S_STEER]   = { "s_steer",   FIXED(kr_s_steer),   0, 0, 0 },
    [KR_S_EXITED]  = { "s_exited",  FIXED(kr_s_exited),  0, 0, 0 },
    [KR_W_EGRESS]  = { "w_egress",  EMPTY,               1, 1, 0 },
    [KR_E_CELL]    = { "e_cell",    JSON_EGRESS,        1, 1, 0 },
    [KR_E_RULE]    = { "e_rule",    JSON_EGRESS,        0, 0, 0 },
    [KR_E_DROP]    = { "e_drop",    FIXED(kr_e_cell),    0, 0, 0 },
    [KR_E_CONNECTION] = { "e_connection", JSON_EGRESS,  0, 0, 0 },
    [KR_E_FETCH]   = { "e_fetch",   JSON_EGRESS,        1, 1, 1 },
    [KR_W_PRELOAD] = { "w_preload", FIXED(kr_w_preload), 0, 0, 0 },
    [KR_Z_GO]      = { "z_go",      EMPTY,               0, KR_HIERARCHIES_MAX, 0 },
    [KR_E_CANCEL]  = { "e_cancel",  EMPTY,               0, 0, 0 },
    [KR_E_PROGRESS] = { "e_progress", FIXED(kr_e_progress), 0, 0, 0 },
    [KR_E_FETCHED] = { "e_fetched", JSON_EGRESS,        0, 0, 0 },
    [KR_E_SETUP]   = { "e_setup", JSON_EGRESS,          0, 0, 0 },
    [KR_E_OPEN]    = { "e_open",    FIXED(kr_e_open),    0, 0, 0 },
};
/* clang-format on */

/* Structs cross address spaces as they lie in memory: an implicit hole would carry a stranger's bytes. The fields are
 * laid out so that there is none; these are the ones where a slip would be easiest. */
static_assert(sizeof(struct kr_limits) == 12 * 8, "no holes");
static_assert(sizeof(struct kr_w_hello) == 6 * 4 + KR_HIERARCHIES_MAX * 16 + 256, "no holes");
static_assert(sizeof(struct kr_w_zygote) == 4 * 4 + sizeof(struct kr_err), "no holes");
static_assert(sizeof(struct kr_w_open) == 4 * 4 + 16 + sizeof(struct kr_limits), "no holes");
static_assert(sizeof(struct kr_w_start) == 16 + KR_FOLDER_ROOM + 16 + sizeof(struct kr_limits), "no holes");
static_assert(sizeof(struct kr_w_opened) == 3 * 8 + 2 * 4, "no holes");
static_assert(sizeof(struct kr_i_attach) == 16 + 6 * 4, "no holes");
static_assert(sizeof(struct kr_usage) == 7 * 8 + 2 * 4, "no holes");
static_assert(sizeof(struct kr_w_ended) == 16 + sizeof(struct kr_usage), "no holes");
static_assert(sizeof(struct kr_w_signal) == 24, "no holes");
static_assert(sizeof(struct kr_w_clear) == 24, "no holes");
static_assert(sizeof(struct kr_w_cleared) == 16 + sizeof(struct kr_usage), "no holes");
static_assert(sizeof(struct kr_b_cell) == 8 + 4 * 4, "no holes");
static_assert(sizeof(struct kr_b_exit) == 16, "no holes");
static_assert(sizeof(struct kr_z_hello) == 16 + 64, "no holes");
static_assert(sizeof(struct kr_s_start) == KR_RLIMIT_MAX_ * 8 + 8, "no holes");
static_assert(sizeof(struct kr_s_terminal) == 4 * 4, "no holes");
static_assert(sizeof(struct kr_s_steer) == 4 * 4, "no holes");
static_assert(sizeof(struct kr_s_exited) == 8, "no holes");
static_assert(sizeof(struct kr_w_shelf) == 8 + 2 * KR_FOLDER_ROOM + 2 * 8, "no holes");
static_assert(sizeof(struct kr_w_shelved) == 2 * 4 + 7 * 8, "no holes");
static_assert(sizeof(struct kr_w_counted) == 2 * 8 + 2 * 4, "no holes");
static_assert(sizeof(struct kr_z_fork) == 8 + 6 * 4, "no holes");
static_assert(sizeof(struct kr_w_preload) == 8 + KR_FOLDER_ROOM, "no holes");
