/* What the files beneath a folder take, however the code that made them hides them. Pure: thread pool. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define KR_MEASURE_ENTRIES_MAX 200000u /* a folder with more is not measured whole */

/* Why a measurement does not hold the whole folder. What was seen is then less than what is there. */
enum kr_measure_gap {
    KR_MEASURE_WHOLE,
    KR_MEASURE_TOO_MANY,   /* more entries than were allowed */
    KR_MEASURE_TOO_LATE,   /* the deadline came first */
    KR_MEASURE_UNREADABLE, /* a folder could not be opened or read */
    KR_MEASURE_MOVED,      /* folders were moved during the walk, each time it was tried */
    KR_MEASURE_HIDDEN,     /* files that processes have open could not be looked at; no walk finds this */
    KR_MEASURE_GAP_MAX_,
};
/* "it has more than 200000 entries": completes a sentence about the folder. */
extern const char *const kr_measure_gap_texts[KR_MEASURE_GAP_MAX_];

struct kr_measure {
    uint64_t bytes;      /* as the blocks on disk count them; a file with several names counts once */
    uint64_t entries;    /* beneath the folder */
    uint64_t unreadable; /* folders */
    enum kr_measure_gap gap;
};

struct kr_measure_max {
    uint64_t entries;     /* 0: KR_MEASURE_ENTRIES_MAX */
    uint64_t deadline_ns; /* kr_clock_ns() scale; 0: none */
};

/* Measures at any depth with a fixed number of descriptors. Opens nothing but folders, follows no link, crosses no
 * mount. A folder that its owner has closed to itself is opened for the look and closed again. 0, or -errno when the
 * folder itself cannot be read. May block. */
int kr_measure(int dirfd, const struct kr_measure_max *max, struct kr_measure *ret);

/* What a folder may hold. */
struct kr_measure_bound {
    uint64_t bytes, entries;
    uint64_t left; /* bytes that its user has left; UINT64_MAX: no bound */
    bool grows;    /* the bounds are of what is added to a folder that was there before, not of the whole */
};
enum kr_measure_over { KR_MEASURE_WITHIN, KR_MEASURE_OVER_BYTES, KR_MEASURE_OVER_ENTRIES, KR_MEASURE_OVER_GAP };

/* Is the folder past its bound? `base` is what it held before the code began: code that adds nothing is never over,
 * unless the folder cannot be measured. A folder that cannot be measured is over; one that grows, only if it could be
 * measured before. */
enum kr_measure_over kr_measure_judge(const struct kr_measure_bound *b, const struct kr_measure *base,
                                      const struct kr_measure *now);
