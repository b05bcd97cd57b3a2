/* The policy file that a setting names.
 *
 * Called by config_check.c for its first reading, and by config_reload.c when another one takes effect. Invariants:
 * what code may do is said in one place, so the settings of [policy] and a file that says it too are an error; a file
 * that is wrong in any place changes nothing. */
#include "config_rows.h"
#include "fd.h"
#include "policy_file.h"
#include "toml.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool says_policy(const struct kr_user_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        if (rules->rules[i].has_policy)
            return true;
    return false;
}

/* A setting of [policy] beside a file that says what code may do. */
static int check_settings(const struct kr_config *c, struct kr_err *err)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);
    char setting[96];

    for (size_t i = 0; i < count && says_policy(&c->user_rules); i++) {
        const struct kr_config_row *row = &rows[i];

        if (!row->section || strcmp(row->section, "policy") != 0 || strcmp(row->key, "file") == 0 ||
            !kr_config_given(c, row->flag))
            continue;
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: the policy file says what code may do; leave one of them out",
                   kr_config_origin(c, row->flag, setting, sizeof setting));
        return -EINVAL;
    }
    return 0;
}

int kr_config_read_policy_file(struct kr_config *c, struct kr_err *err)
{
    cleanup_free char *text = NULL;
    char origin[96];
    size_t len;
    int r;

    c->box.user_rules = &c->user_rules;
    if (!c->policy_file)
        return 0;
    r = kr_config_read_named(c->origins->tray, c->policy_file, KR_TOML_TEXT_MAX, &text, &len, err);
    if (r < 0)
        return kr_err_wrap(err, r, "%s", kr_config_origin(c, "policy-file", origin, sizeof origin));
    r = kr_policy_file_parse(c->policy_file, text, len, &c->user_rules, err);
    return r < 0 ? r : check_settings(c, err);
}

bool kr_config_take_rules(struct kr_config *c, struct kr_config *from)
{
    struct kr_user_rules old = c->user_rules;
    bool is_same_file = c->policy_file && from->policy_file && strcmp(c->policy_file, from->policy_file) == 0;

    if (!is_same_file || kr_user_rules_same(&c->user_rules, &from->user_rules))
        return false;
    c->user_rules = from->user_rules;
    from->user_rules = old; /* freed with what the others came from */
    return true;
}
