/* Messages to systemd (sd_notify(3)): ready, stopping, signs of life. Without NOTIFY_SOCKET every call
 * does nothing; a message that cannot be sent is a line at debug and nothing else. Never blocks. */
#pragma once
#include <stdint.h>

/* Connects to $NOTIFY_SOCKET (a path, or an abstract name after '@'), so that messages can be sent after the process
 * has confined itself; forgets an earlier one. 1 connected, 0 there is none, -errno it cannot be reached (only tests
 * look at it). The unit needs NotifyAccess=all: the server is a child of the process systemd started. */
int kr_notify_open(void);
void kr_notify_close(void);

/* Each returns 1 if the message was sent, 0 without a socket, or -errno. */
int kr_notify_ready(void);
int kr_notify_stopping(void);
int kr_notify_watchdog(void);

/* How often kr_notify_watchdog() is due, in milliseconds: half of $WATCHDOG_USEC if it is meant for this process or its
 * parent, 0 without a watchdog. */
uint64_t kr_notify_watchdog_ms(void);
