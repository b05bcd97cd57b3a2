/* Fuzzes the reader of .env files with any bytes: what it hands over is what its header promises, a refusal names file
 * and line, and the same names and values written anew read the same. */
#include "buf.h"
#include "dotenv.h"
#include "replay.h"
#include "utf8.h"

#define FILE_NAME ".env"

struct seen {
    struct kr_buf again;
    unsigned line, lines;
    uint64_t sum;
};

static void check_text(const char *text)
{
    size_t len = strlen(text);

    must(len <= KR_DOTENV_VALUE_MAX, "a value is as long as it may be");
    for (size_t i = 0; i < len;) {
        int n = kr_utf8_next((const unsigned char *)text + i, len - i, NULL);

        must(n > 0, "a value is UTF-8");
        i += n > 0 ? (size_t)n : len;
    }
}

static int on_pair(void *data, const char *name, const char *value, unsigned line, struct kr_err *err)
{
    static const char special[] = "\n\r\t\"\\$", letters[] = "nrt\"\\$";
    struct seen *s = data;

    (void)err;
    must(line > s->line && line <= s->lines, "lines go up and are there");
    must(name[0] && strlen(name) <= KR_DOTENV_NAME_MAX && (name[0] < '0' || name[0] > '9'), "a name is one");
    check_text(value);
    s->line = line;
    for (const char *p = name; *p; p++)
        s->sum = (s->sum ^ (unsigned char)*p) * 1099511628211u;
    kr_buf_printf(&s->again, "export %s=\"", name);
    for (const char *p = value; *p; p++) {
        const char *found = strchr(special, *p);

        s->sum = (s->sum ^ (unsigned char)*p) * 1099511628211u;
        if (found)
            kr_buf_printf(&s->again, "\\%c", letters[found - special]);
        else
            kr_buf_add(&s->again, p, 1);
    }
    kr_buf_add_str(&s->again, "\" # behind it\r\n");
    s->sum = (s->sum ^ 0xff) * 1099511628211u;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen first = {.lines = 1}, second = {.lines = 1u << 20};
    struct kr_err err = {0};
    unsigned line;
    int r;

    kr_buf_init(&first.again, 4u << 20);
    kr_buf_init(&second.again, 4u << 20);
    for (size_t i = 0; i < size; i++)
        first.lines += data[i] == '\n';
    r = kr_dotenv_parse(FILE_NAME, (const char *)data, size, on_pair, &first, &err);
    must(r == 0 || r == -22, "it is read or refused");
    if (r < 0)
        must(err.kind == KR_ERR_INVALID &&
                 (size > KR_DOTENV_TEXT_MAX ||
                  (sscanf(err.msg, FILE_NAME ":%u: ", &line) == 1 && line >= 1 && line <= first.lines)),
             "a refusal names the file and a line of it");
    /* Double quotes hold everything but a backquote. */
    if (r == 0 && first.again.len <= KR_DOTENV_TEXT_MAX && !memchr(data, '`', size)) {
        r = kr_dotenv_parse(FILE_NAME, kr_buf_str(&first.again), first.again.len, on_pair, &second, &err);
        must(r == 0 && first.sum == second.sum, "written anew it reads the same");
    }
    kr_buf_done(&first.again);
    kr_buf_done(&second.again);
    return 0;
}
