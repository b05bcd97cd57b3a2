/* The rows of the program itself, as Prometheus' clients name them, from /proc/self.
 *
 * Called before the metrics are written. Invariant: reads alone; a file that cannot be read leaves its rows out (a
 * gauge that was never set is not printed). */
#define _GNU_SOURCE 1
#include "fd.h"
#include "metrics.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Fields of /proc/self/stat by their number in proc(5). */
enum { F_UTIME = 14, F_STIME = 15, F_THREADS = 20, F_START = 22, F_VSIZE = 23, F_RSS = 24, F_MAX = 25 };

/* The numbers from field 4 on; the name (field 2) may hold blanks and parentheses, so they begin behind its last
 * one. */
static int read_stat(double fields[F_MAX])
{
    char text[1024], *at;

    if (kr_fd_read_file_at(AT_FDCWD, "/proc/self/stat", text, sizeof text) <= 0 || !(at = strrchr(text, ')')))
        return -1;
    at += strspn(at, ") ") + 1; /* behind the state, field 3 */
    for (int i = 4; i < F_MAX; i++) {
        char *end;

        fields[i] = strtod(at, &end);
        if (end == at)
            return -1;
        at = end;
    }
    return 0;
}

static double clock_seconds(clockid_t id)
{
    struct timespec ts = {0};

    clock_gettime(id, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Linux 6.2 gives the number as the folder's size; before that they are counted. -1 if neither works. */
static long count_fds(void)
{
    struct stat st;
    long count = -1; /* the folder itself is one of them */
    DIR *dir;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (long)st.st_size;
    dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    for (const struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

void kr_metrics_look_at_process(struct kr_metrics *m)
{
    double fields[F_MAX], ticks = (double)sysconf(_SC_CLK_TCK);
    struct rlimit limit;
    long fds;

    if (!m)
        return;
    if (read_stat(fields) == 0) {
        kr_metrics_set(m, KR_M_PROCESS_CPU, KR_AT_NONE, (fields[F_UTIME] + fields[F_STIME]) / ticks);
        kr_metrics_set(m, KR_M_PROCESS_RESIDENT, KR_AT_NONE, fields[F_RSS] * (double)sysconf(_SC_PAGESIZE));
        kr_metrics_set(m, KR_M_PROCESS_VIRTUAL, KR_AT_NONE, fields[F_VSIZE]);
        kr_metrics_set(m, KR_M_PROCESS_THREADS, KR_AT_NONE, fields[F_THREADS]);
        if (kr_metrics_get(m, KR_M_PROCESS_START, KR_AT_NONE) == 0) /* once, or a corrected clock would move it */
            kr_metrics_set(m, KR_M_PROCESS_START, KR_AT_NONE,
                           clock_seconds(CLOCK_REALTIME) - clock_seconds(CLOCK_BOOTTIME) + fields[F_START] / ticks);
    }
    if ((fds = count_fds()) >= 0)
        kr_metrics_set(m, KR_M_PROCESS_FDS, KR_AT_NONE, (double)fds);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        kr_metrics_set(m, KR_M_PROCESS_FDS_MAX, KR_AT_NONE, (double)limit.rlim_cur);
}
