/* Notes on sessions that ended between two runs, for the next run of the same name.
 *
 * Called by box_sessions.c when a session ends and by box_run_events.c when a run begins. A session that no run waits
 * for is removed when its process ends; why it ended is kept here. Invariants: a note is told once; of more than
 * NOTES_MAX the oldest is forgotten, and its next run says session_restarted and no reason. */
#include "box_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX 256u

struct note {
    char sandbox[KR_STORE_ID_ROOM], session[KR_BOX_SESSION_NAME_MAX + 1];
    char text[KR_BOX_NOTICE_ROOM]; /* "": free */
};

struct kr_notes {
    struct note rows[NOTES_MAX];
    unsigned next;
};

static struct note *find_note(struct kr_notes *n, const char *sandbox, const char *session)
{
    for (unsigned i = 0; n && i < NOTES_MAX; i++)
        if (n->rows[i].text[0] && strcmp(n->rows[i].sandbox, sandbox) == 0 && strcmp(n->rows[i].session, session) == 0)
            return &n->rows[i];
    return NULL;
}

void kr_notes_add(struct kr_box *b, const struct kr_box_session *session, const char *text)
{
    struct note *note;

    if (session->thrown_away || !text || !*text)
        return;
    if (!b->notes)
        b->notes = calloc(1, sizeof *b->notes);
    if (!b->notes)
        return; /* the next run says session_restarted without a reason */
    note = find_note(b->notes, session->sandbox, session->name);
    if (!note)
        note = &b->notes->rows[b->notes->next++ % NOTES_MAX];
    snprintf(note->sandbox, sizeof note->sandbox, "%s", session->sandbox);
    snprintf(note->session, sizeof note->session, "%s", session->name);
    snprintf(note->text, sizeof note->text, "between two runs: %s", text);
}

void kr_notes_take(struct kr_box *b, const struct kr_box_session *session, char text[KR_BOX_NOTICE_ROOM])
{
    struct note *note = find_note(b->notes, session->sandbox, session->name);

    text[0] = '\0';
    if (!note)
        return;
    memcpy(text, note->text, sizeof note->text);
    note->text[0] = '\0';
}
