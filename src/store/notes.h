/* What notes.c, notes_settle.c, store_run.c and store_audit.c share. Not for other folders. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_err;
struct kr_store;
struct kr_store_audit;
struct kr_store_run_end;
struct kr_store_run_start;

#define KR_STORE_NOTES "krait.notes." /* then the number of its process */

#define KR_NOTES_MAX (4u << 20)  /* of records that wait; they are settled at half of it */
#define KR_NOTES_ENDS (1u << 20) /* of these, kept for ends: a run whose start is noted must not seem to run for ever */
#define KR_NOTE_HEAD 24u
#define KR_NOTE_HASH 8u
#define KR_NOTE_NO_TEXT UINT32_MAX /* the length of a text that is NULL */
/* What a record of a kind holds never changes, since another krait may read it: a new content is a new kind. */
enum kr_note_kind { KR_NOTE_START = 1, KR_NOTE_END, KR_NOTE_AUDIT };
/* Of a record with its head, but for the hash itself. */
void kr_note_hash(const char *record, size_t len, unsigned char ret_hash[static KR_NOTE_HASH]);

/* notes_check.c. `known`: the last generation that the database has. */
/* Damaged, beyond what a kill or a power cut leaves; where. */
bool kr_notes_damaged(const char *data, size_t len, uint64_t known, size_t *ret_at);
/* Where the next sound record of *generation (0: of any that is not known, and then it is set) begins; len: none. */
size_t kr_notes_resync(const char *data, size_t len, size_t at, uint64_t known, uint64_t *generation);

/* Whose file it is, by its name; 0: none of ours. */
int64_t kr_notes_holder(const char *name);

/* Texts are cut to their rooms already. 0, or -errno: there is no room, and the row is lost. */
int kr_note_start(struct kr_store *s, const struct kr_store_run_start *run, struct kr_err *err);
int kr_note_end(struct kr_store *s, const char *owner, const char *id, const struct kr_store_run_end *end,
                struct kr_err *err);
int kr_note_audit(struct kr_store *s, const struct kr_store_audit *row, struct kr_err *err);
/* Is there a note of a run of that session? */
bool kr_notes_know_session(const struct kr_store *s, const char *owner, const char *sandbox, const char *session);
/* Before rows are read. */
void kr_store_settle_quietly(struct kr_store *s);
/* Are there notes of that process, which is gone, that no process has taken over yet? Then its runs may have ended
 * after all. */
bool kr_notes_left_by(const struct kr_store *s, int64_t holder);
/* At the store's end. */
void kr_store_notes_close(struct kr_store *s);

/* ---- store_run.c, store_audit.c: the rows themselves, with texts that are cut ---- */

struct kr_note_start {
    const char *id, *owner, *sandbox, *session, *code;
    int64_t holder, started;
};
int kr_run_put_start(struct kr_store *s, const struct kr_note_start *start, struct kr_err *err);
int kr_run_put_end(struct kr_store *s, const char *owner, const char *id, const struct kr_store_run_end *end,
                   struct kr_err *err);
int kr_run_put_whole(struct kr_store *s, const struct kr_note_start *start, const struct kr_store_run_end *end,
                     struct kr_err *err);
int kr_audit_put(struct kr_store *s, const struct kr_store_audit *row, struct kr_err *err);
