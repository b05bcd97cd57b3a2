/* Reading a password. Called by cmd_users.c.
 *
 * Invariant: the terminal echoes again whichever way the program goes on or ends: its settings are put back after the
 * read, and by a handler if a signal ends us in between. */
#include "secret_input.h"
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define SIGNALS (sizeof signals / sizeof signals[0])

static struct termios saved;

/* tcsetattr() and raise() are async-signal-safe (signal-safety(7)). */
static void on_input_signal(int number)
{
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    signal(number, SIG_DFL);
    raise(number);
}

/* One line, without its end. 0 or -errno. Byte by byte: what follows is for the next reader. */
static int read_line(char text[KR_PASSWORD_MAX + 1], size_t *ret_len, struct kr_err *err)
{
    size_t len = 0;

    for (;;) {
        char c;
        ssize_t n = read(STDIN_FILENO, &c, 1);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "the password cannot be read");
        if (n == 0 || c == '\n')
            break;
        if (len == KR_PASSWORD_MAX)
            return kr_err_set(err, KR_ERR_INVALID, 0, "the password has more than %u bytes", KR_PASSWORD_MAX), -EINVAL;
        if (c == '\0')
            return kr_err_set(err, KR_ERR_INVALID, 0, "there is a NUL in the password"), -EINVAL;
        text[len++] = c;
    }
    if (len > 0 && text[len - 1] == '\r')
        len--;
    text[len] = '\0';
    *ret_len = len;
    if (len == 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the password is empty"), -EINVAL;
    return 0;
}

static int ask_secret(const char *what, const char *again, char text[KR_PASSWORD_MAX + 1], size_t *ret_len,
                      struct kr_err *err)
{
    struct sigaction old[SIGNALS], restore = {.sa_handler = on_input_signal};
    struct termios quiet;
    int r;

    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the terminal");
    quiet = saved;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK);
    quiet.c_lflag |= ECHONL | ICANON;
    quiet.c_cc[VSUSP] = _POSIX_VDISABLE; /* a shell would find the terminal without echo */
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &restore, &old[i]);
    fprintf(stderr, "%s%s: ", what, again);
    fflush(stderr);
    r = tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "the terminal")
                                                       : read_line(text, ret_len, err);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &old[i], NULL);
    return r;
}

int kr_secret_read(const char *what, char ret_text[KR_PASSWORD_MAX + 1], size_t *ret_len, struct kr_err *err)
{
    char second[KR_PASSWORD_MAX + 1];
    size_t len = 0;
    int r;

    if (!isatty(STDIN_FILENO))
        return read_line(ret_text, ret_len, err);
    r = ask_secret(what, "", ret_text, ret_len, err);
    if (r == 0)
        r = ask_secret(what, " again", second, &len, err);
    if (r == 0 && (len != *ret_len || memcmp(second, ret_text, len) != 0)) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the two are not the same");
        r = -EINVAL;
    }
    sodium_memzero(second, sizeof second);
    return r;
}
