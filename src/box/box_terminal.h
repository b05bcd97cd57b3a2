/* Terminals of sandboxes: a program on a pseudo-terminal, its output numbered by bytes, and who follows it.
 *
 * A terminal has a slot like a session, and a cell of its own. Its last KR_TERMINAL_KEPT bytes of output are kept: a
 * reader begins or resumes at a byte, and is told how many it missed if those are gone. The reader that is furthest
 * ahead holds back the program, so it loses nothing; others may lose what it has had; without any the program runs on.
 * Ended ones are kept for a minute, for their last bytes and how they ended. Ids are looked up with their owner. Loop
 * thread only; callbacks as in box.h. docs/design/terminal.md. */
#pragma once
#include "box.h"

struct kr_box_terminal;

#define KR_TERMINAL_KEPT (256u << 10)     /* bytes of output */
#define KR_TERMINAL_WRITE_MAX (64u << 10) /* bytes of input at once */

struct kr_box_terminal_new {
    const char *sandbox; /* id or name, as of kr_box_sandbox_find() */
    struct kr_run_terminal how;
};
typedef void kr_box_terminal_fn(void *data, struct kr_box_terminal *t, const struct kr_err *err);
/* Starts a program. fn comes once, later, with the terminal or err. 0; or -errno with err and no callback: -ENOENT,
 * KR_ERR_INVALID, KR_ERR_TOO_MANY (bounds of sandbox, user, server). */
int kr_box_terminal_open(struct kr_box *b, const struct kr_caller *who, const struct kr_box_terminal_new *how,
                         kr_box_terminal_fn *fn, void *data, struct kr_box_terminal **ret, struct kr_err *err);
/* The starter has left before fn came: it does not come any more, and the terminal is closed. */
void kr_box_terminal_abandon(struct kr_box_terminal *t);

struct kr_box_terminal_info {
    const char *id, *sandbox, *sandbox_name;
    uint32_t cols, rows;
    int64_t created_us, used_us;
    uint64_t first, next; /* the oldest byte of output that is kept, the one that comes next */
    unsigned readers;
    bool running;
    enum kr_cause cause; /* once it has ended, and the rest: */
    int exit_code;
    const char *message; /* "" if the cause says it all */
};
/* The caller's, also for a minute after its end. NULL with err. Valid until the return to the loop. */
struct kr_box_terminal *kr_box_terminal_find(struct kr_box *b, const struct kr_caller *who, const char *id,
                                             struct kr_err *err);
void kr_box_terminals(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                      void (*on_terminal)(void *data, const struct kr_box_terminal_info *info), void *data);
void kr_box_terminal_get_info(const struct kr_box_terminal *t, struct kr_box_terminal_info *ret);
/* {"terminal_id","sandbox_id","sandbox",…} */
void kr_box_terminal_json(struct kr_json *j, const struct kr_box_terminal_info *info);

/* Input of the program, all or nothing. 0; -EAGAIN: too much waits for it; -ESRCH: it has ended. */
int kr_box_terminal_write(struct kr_box_terminal *t, const void *data, size_t len, struct kr_err *err);
/* Does it take KR_TERMINAL_WRITE_MAX bytes now, and as many that are on their way already? Else on_more of its readers
 * comes when it does. */
bool kr_box_terminal_wants(const struct kr_box_terminal *t);
/* 0, -EINVAL, -ESRCH, or -EAGAIN. */
int kr_box_terminal_resize(struct kr_box_terminal *t, uint32_t cols, uint32_t rows, struct kr_err *err);
/* Ends the program and what it started; of one that has ended, forgets it. */
void kr_box_terminal_close(struct kr_box_terminal *t, const struct kr_caller *who);

/* ---- readers ---- */

/* Embedded by who follows. */
struct kr_terminal_reader {
    TAILQ_ENTRY(kr_terminal_reader) link;
    struct kr_box_terminal *terminal; /* NULL: it does not read */
    uint64_t at;                      /* the next byte that it wants */
    /* There is more to peek, or the terminal has ended, or it takes input again. May close this reader, no other. */
    void (*on_more)(struct kr_terminal_reader *r);
};
#define KR_TERMINAL_NOW UINT64_MAX
/* From this byte on (0: the oldest that is kept; KR_TERMINAL_NOW: the next one). The terminal lives until it is closed.
 * on_more does not come for what is there already. */
void kr_terminal_read(struct kr_box_terminal *t, struct kr_terminal_reader *r, uint64_t from);
/* Bytes in one piece; *ret_lost: how many before it were lost. False: there are none at the moment. */
bool kr_terminal_peek(struct kr_terminal_reader *r, const char **ret_data, size_t *ret_len, uint64_t *ret_lost);
/* So many bytes of the last peek, and what was lost before them, are taken. */
void kr_terminal_take(struct kr_terminal_reader *r, size_t len);
/* The program has ended and all of its output is taken. */
bool kr_terminal_done(const struct kr_terminal_reader *r);
/* Also of one that does not read. */
void kr_terminal_leave(struct kr_terminal_reader *r);
