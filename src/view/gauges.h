/* Gauges: the files of a cell's /proc that krait writes, because the kernel's own speak of the whole machine.
 *
 * The warden writes the four that change (gauge_text.c, gauges.c), the builder those that do not, and the cell's init
 * binds all of them over the kernel's names. Every file is read-only in the cell, and nothing in it is of the host
 * but the model of its processors and the version of its kernel, which CPUID and uname(2) tell anyway. */
#pragma once
#include "err.h"
#include <stddef.h>
#include <stdint.h>

enum kr_gauge { KR_GAUGE_STAT, KR_GAUGE_MEMINFO, KR_GAUGE_UPTIME, KR_GAUGE_LOADAVG, KR_GAUGE_MAX_ };
#define KR_GAUGE_CPUS_MAX 64u /* processors that are shown; a cell with more is shown so many */
#define KR_GAUGE_TEXT_MAX 12288u

/* What they say of one cell. */
struct kr_gauge_facts {
    uint64_t uptime_ms;          /* since the start of its family */
    uint64_t boot;               /* that moment, in seconds of the epoch */
    uint32_t cpus;               /* its CPU limit, in whole processors */
    uint32_t tasks;              /* processes and threads in it */
    uint64_t user_ns, system_ns; /* processor time */
    uint64_t memory, used;       /* bytes: its limit, what is charged to it */
    uint64_t cached, shared;     /* of that: files, tmpfs included; tmpfs alone */
    uint64_t active, inactive;   /* of that: files that a shortage would drop */
    uint32_t load_milli[3];      /* processors in use, averaged over 1, 5 and 15 minutes */
};

/* The content of one file. For the same number of processors the length is always the same, so a reader that meets a
 * writer finds no line cut or doubled. Returns its length, at most KR_GAUGE_TEXT_MAX. */
size_t kr_gauge_text(enum kr_gauge which, const struct kr_gauge_facts *f, char buf[KR_GAUGE_TEXT_MAX]);

/* In the warden: a detached tmpfs for the gauges of a family's cells, with room for `cells` of them. Its descriptor, or
 * -EPERM without a word where none can be made, or another negative errno. */
int kr_gauges_new(unsigned cells, struct kr_err *err);
/* In the warden: writes files of the cell with this index, and makes them first where they are missing. `which`: bits,
 * by enum kr_gauge. `again`: of a folder that an earlier cell has had, whose text may have been longer. */
#define KR_GAUGES_ALL ((1u << KR_GAUGE_MAX_) - 1)
int kr_gauges_write(int gauges, unsigned index, unsigned which, int again, const struct kr_gauge_facts *facts);

/* In the builder, beneath `root`, where the tree is put together: the files that do not change, for cells of 1 to
 * `cpus` processors, and the mount of the warden's. */
int kr_gauges_attach(const char *root, int gauges, unsigned cpus);
/* In the builder, in the family's root: can a whole /proc be narrowed after files were bound over some of its names?
 * 1, 0 where it cannot, -errno. */
int kr_gauges_try(const char *stage);

/* In a cell's init, whose root has the cell's folder of gauges as a layer and whose /proc is a whole one: binds the
 * cell's files over their names and hides all other names of the machine. User code is not in the cell yet. */
int kr_gauges_mount(unsigned cpus, struct kr_err *err);
/* In a cell's init, at the hand-off: shows another number of processors than kr_gauges_mount() did. */
int kr_gauges_show_cpus(unsigned cpus, struct kr_err *err);
/* Whole processors of a CPU limit in thousandths, as gauges show them. */
unsigned kr_gauge_cpus(uint64_t cpu_milli);
