/* The index for cells: requests for /index/… on their listener. */
#pragma once

struct kr_eg_conn;

/* Takes the connection, or refuses it: the hook on_index. */
void kr_eg_index_serve(struct kr_eg_conn *c);
