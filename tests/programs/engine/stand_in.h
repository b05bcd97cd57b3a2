/* An egress process for the suites of cells: it accepts what comes to the cells' listeners and answers it with one
 * word, which no address has to be reached for. */
#pragma once

#define KR_STAND_IN_WORD "through"
/* A kr_egress_entry. */
int kr_stand_in_main(int fd, void *arg);
