/* The programs that a session finds under their usual names: `python` and `pip` of the interpreter that it runs in. */
#pragma once

/* The folder beneath the kernel's own; PATH of a session begins with it. */
#define KR_PROGRAMS_DIR "bin"
/* Makes DIR/KR_PROGRAMS_DIR with links to `python` and scripts for its pip; what is there already is made anew. 0 or
 * -errno. */
int kr_programs_put(const char *dir, const char *python);
