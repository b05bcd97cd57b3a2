/* What a run is asked to do: one struct, from the field table of a voice to the frame for the kernel.
 *
 * A voice fills it, or lets its table fill it (KR_API_AT(struct …, spec.code)), and passes a pointer. The box keeps one
 * copy while the run waits, and hands a pointer to that to the engine. A new option is a member here, a row in the
 * table of each voice that offers it, and the code that uses it: kr_run_spec_write() if that is the kernel. */
#pragma once
#include "text.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_buf;
struct kr_policy_spec;

/* `python3 FILE args`: the code is written into `file` first if `write`. */
struct kr_run_script {
    const char *file;
    const char *const *argv;
    size_t argc;
    bool write;
};

/* A program on a pseudo-terminal instead of code (docs/design/terminal.md). Borrowed, by a copy too. */
struct kr_run_terminal {
    uint32_t cols, rows;
    const char *term;        /* the value of TERM; "": as it is */
    const char *const *argv; /* argc 0: a shell */
    size_t argc;
};

/* What its caller asks of its policy, which may only narrow what its sandbox has. NULL: nothing. */
struct kr_run_asks {
    const char *policy;                 /* "open", "restricted" */
    json_t *profiles, *allowed_imports; /* arrays of texts */
};

struct kr_run_spec {
    /* for the kernel */
    struct kr_text code;
    struct kr_text input; /* what input() and sys.stdin read; absent: they ask, or there is a pipe */
    json_t *variables;    /* an object: set as variables before the code; NULL: none */
    json_t *env;          /* an object of texts, for this run alone; NULL: none */
    int64_t figure_px;    /* longest side of a figure that is shown; 0: as it was drawn */
    bool auto_install;    /* what an import does not find is installed, once, and the code begins anew */
    bool readable;        /* a model reads it: displays get their text, and what can be drawn is drawn */
    int64_t figure_bytes; /* with `readable`: of base64 that all its images may have together; 0: no bound */
    const struct kr_run_script *script; /* NULL: a snippet. Borrowed, by a copy too */

    const struct kr_run_terminal *terminal; /* then the code is absent; its session has a stdin pipe. NULL: code */

    const struct kr_policy_spec *policy; /* what holds for its code; NULL: open */
    bool judge_only;                     /* the code is judged and not run */
    bool names_modules;                  /* its variables are told with the modules among them */
    bool own_code;                       /* krait's own, in a session of its own: no policy judges it */

    /* What its caller would say to have a package installed, with NAME in its place, for its hint: static. NULL: pip in
     * the session. */
    const char *install_call;

    /* for the engine; to the box, 0 is the limit of the sandbox */
    uint64_t timeout_ms; /* 0: none */
    int64_t output_cap;  /* bytes handed on, of output and again of displays; 0: no end */
    bool raw;            /* output as bytes, not as text */
    bool shell;          /* the code is a shell command's (shell_snippet.h): its last words may be its hint */

    /* for the box */
    const char *sandbox;     /* id or name; NULL: the default one */
    const char *session;     /* NULL: KR_BOX_MAIN, or with `fresh` one that is thrown away */
    const char *network;     /* the text of a rule that is not past the sandbox's (net_rule.h); NULL: the sandbox's */
    struct kr_run_asks asks; /* borrowed, and not in a copy: the box makes `policy` of it */
    bool fresh; /* a session of its own, thrown away with the run, in a folder of its own unless `sandbox` is given */
    bool interactive;   /* input() asks; else it reads the end of input */
    bool leave_cancels; /* the run is cancelled when its last reader leaves; else it lives on for linger_ms */

    char *texts; /* of a copy: the memory of its texts; NULL in a spec whose texts and objects are borrowed */
};

/* Makes `ret` a copy that owns its texts and references to its objects. 0 or -ENOMEM, and then there is nothing to
 * free. */
int kr_run_spec_copy(const struct kr_run_spec *spec, struct kr_run_spec *ret);
/* Frees what a copy owns: texts and objects are absent then, the other members stay. May be called again. */
void kr_run_spec_done(struct kr_run_spec *spec);
/* Bytes of memory that its texts and objects take, about. */
size_t kr_run_spec_bytes(const struct kr_run_spec *spec);
/* Writes the payload of the frame KR_S_TERMINAL. 0, -ENOBUFS or -ENOMEM. */
int kr_run_spec_write_terminal(const struct kr_run_spec *spec, struct kr_buf *buf);
/* Writes the payload of the frame KR_S_RUN; `number` names the code in tracebacks. 0, -ENOBUFS or -ENOMEM. */
int kr_run_spec_write(const struct kr_run_spec *spec, uint32_t number, struct kr_buf *buf);
/* Adds to it that processes of the run before were ended, which the session may have to await. 0, or -errno and it is
 * as before. */
int kr_run_spec_add_dead(struct kr_buf *json);
