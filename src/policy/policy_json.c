/* What is asked of a policy, as JSON has it: settings of sandboxes, fields of runs.
 *
 * Called by the box and by what reads requests without it. Invariant: a value of the wrong type is refused by the name
 * of its field, never ignored. */
#include "policy_json.h"
#include <errno.h>
#include <string.h>

/* A text of a list, without NUL; NULL if it is none. */
static const char *item_of(const json_t *list, size_t i)
{
    const json_t *item = json_array_get(list, i);
    const char *text = json_string_value(item);

    return text && strlen(text) == json_string_length(item) ? text : NULL;
}

static int wrong_list(const char *field, struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "%s: a list of names", field), -EINVAL;
}

int kr_policy_ask_json(struct kr_policy_ask *ask, const json_t *mode, const json_t *profiles, const json_t *imports,
                       struct kr_err *err)
{
    int r = 0;

    if (mode && !json_is_string(mode))
        return kr_err_set(err, KR_ERR_INVALID, 0, "policy: open or restricted"), -EINVAL;
    if (mode)
        r = kr_policy_ask_mode(ask, json_string_value(mode), err);
    if (r >= 0 && profiles) {
        if (!json_is_array(profiles))
            return wrong_list("profiles", err);
        kr_policy_ask_basic(ask);
        for (size_t i = 0; i < json_array_size(profiles) && r >= 0; i++)
            r = item_of(profiles, i) ? kr_policy_ask_profile(ask, item_of(profiles, i), err)
                                     : wrong_list("profiles", err);
    }
    if (r >= 0 && imports) {
        if (!json_is_array(imports))
            return wrong_list("allowed_imports", err);
        kr_policy_ask_no_imports(ask);
        for (size_t i = 0; i < json_array_size(imports) && r >= 0; i++)
            r = item_of(imports, i) ? kr_policy_ask_import(ask, item_of(imports, i), err)
                                    : wrong_list("allowed_imports", err);
    }
    return r;
}
