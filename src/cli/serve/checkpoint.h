/* Moves the store's write-ahead log into the database while the server runs. Used by serve_app.c. */
#pragma once

struct kr_checkpoint;
struct kr_store;
struct uv_loop_s;

/* Looks once a second whether the log is long (KR_STORE_WAL_PAGES), and then has a thread move it. 0 or -errno. */
int kr_checkpoint_new(struct uv_loop_s *loop, const struct kr_store *store, struct kr_checkpoint **ret_checkpoint);
/* No look any more; a thread that is at it ends by itself, and touches nothing of the store's. Takes NULL. */
void kr_checkpoint_close(struct kr_checkpoint *c);
