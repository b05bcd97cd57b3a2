/* The C side of the test protocol: a suite prints "PASS name", "FAIL name: why" or "SKIP name: why", one a line;
 * tests/run counts them. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failed_;
#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("FAIL %s: %s:%d: %s\n", __func__, __FILE__, __LINE__, #cond);                                       \
            check_failed_ = 1;                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)
#define RUN(fn)                                                                                                        \
    do {                                                                                                               \
        int before_ = check_failed_;                                                                                   \
        check_failed_ = 0;                                                                                             \
        fn();                                                                                                          \
        if (!check_failed_)                                                                                            \
            printf("PASS %s\n", #fn);                                                                                  \
        check_failed_ |= before_;                                                                                      \
        fflush(stdout);                                                                                                \
    } while (0)
#define CHECK_DONE() return check_failed_ ? 1 : 0
