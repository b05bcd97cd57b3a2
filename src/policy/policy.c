/* Policies: read, narrowed, written.
 *
 * Called by the configuration, the sandbox settings and the box, each with what it was asked for; run_spec.c writes the
 * result for the kernel. Invariants: what kr_policy_narrow() returns allows no module and no right that `has` does not;
 * the modules of a list have valid names, and none is there twice. */
#include "policy.h"
#include "json.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PROFILES_ROOM 64u /* of the names of all profiles, with commas */

const char *const kr_policy_names[] = {
    [KR_POLICY_OPEN] = "open", [KR_POLICY_RESTRICTED] = "restricted", [KR_POLICY_MAX_] = NULL};
static_assert(sizeof kr_policy_names / sizeof *kr_policy_names == KR_POLICY_MAX_ + 1, "every policy has its name");

/* ---- lists of modules ---- */

/* The next module of a list with commas: true, or false at its end. */
static bool next_item(const char **at, const char **ret_item, size_t *ret_len)
{
    if (!**at)
        return false;
    *ret_item = *at;
    *ret_len = strcspn(*at, ",");
    *at += *ret_len + ((*at)[*ret_len] == ',');
    return true;
}

/* Whether `module` is `item` or below it. */
static bool is_within(const char *module, size_t len, const char *item, size_t item_len)
{
    return len >= item_len && memcmp(module, item, item_len) == 0 && (len == item_len || module[item_len] == '.');
}

static bool list_allows(const char *list, const char *module, size_t len)
{
    const char *item;
    size_t n;

    while (next_item(&list, &item, &n))
        if (is_within(module, len, item, n))
            return true;
    return false;
}

/* Whether each byte can be a part of a dotted name. Letters of other alphabets are not judged here. */
static bool is_module(const char *module)
{
    bool begins = true;

    for (const char *p = module; *p; p++) {
        if (*p == '.' ? begins
                      : !(isalpha((unsigned char)*p) || *p == '_' || (unsigned char)*p >= 0x80 ||
                          (!begins && isdigit((unsigned char)*p))))
            return false;
        begins = *p == '.';
    }
    return !begins;
}

/* The profiles' names with commas: "basic,network". Returns buf. */
static const char *profiles_text(uint32_t profiles, char *buf, size_t size)
{
    size_t len = 0;

    if (size > 0)
        *buf = '\0';
    for (int i = 0; i < KR_POLICY_PROFILE_MAX_ && len < size; i++)
        if (profiles & KR_POLICY_BIT(i))
            len += (size_t)snprintf(buf + len, size - len, "%s%s", len > 0 ? "," : "", kr_policy_profiles[i].name);
    return buf;
}

/* ---- asking ---- */

int kr_policy_ask_mode(struct kr_policy_ask *ask, const char *text, struct kr_err *err)
{
    for (int i = 0; i < KR_POLICY_MAX_; i++)
        if (strcmp(kr_policy_names[i], text) == 0) {
            ask->mode = (enum kr_policy)i;
            ask->has_mode = true;
            return 0;
        }
    return kr_err_set(err, KR_ERR_INVALID, 0, "policy: \"%.40s\" is neither open nor restricted", text), -EINVAL;
}

void kr_policy_ask_basic(struct kr_policy_ask *ask)
{
    ask->has_profiles = true;
    ask->profiles |= KR_POLICY_BIT(KR_POLICY_BASIC);
}

int kr_policy_ask_profile(struct kr_policy_ask *ask, const char *name, struct kr_err *err)
{
    char names[PROFILES_ROOM];

    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++)
        if (strcmp(kr_policy_profiles[i].name, name) == 0) {
            kr_policy_ask_basic(ask);
            ask->profiles |= KR_POLICY_BIT(i);
            return 0;
        }
    return kr_err_set(err, KR_ERR_INVALID, 0, "profiles: \"%.40s\" is not one of %s", name,
                      profiles_text(KR_POLICY_PROFILES_ALL, names, sizeof names)),
           -EINVAL;
}

void kr_policy_ask_no_imports(struct kr_policy_ask *ask)
{
    ask->has_imports = true;
    ask->imports[0] = '\0';
}

static unsigned count_items(const char *list)
{
    const char *item;
    unsigned count = 0;
    size_t len;

    while (next_item(&list, &item, &len))
        count++;
    return count;
}

static bool has_item(const char *list, const char *module)
{
    const char *item;
    size_t len;

    while (next_item(&list, &item, &len))
        if (strlen(module) == len && memcmp(item, module, len) == 0)
            return true;
    return false;
}

int kr_policy_ask_import(struct kr_policy_ask *ask, const char *module, struct kr_err *err)
{
    size_t len = strlen(module), used = ask->has_imports ? strlen(ask->imports) : 0;

    if (!ask->has_imports)
        kr_policy_ask_no_imports(ask);
    if (!is_module(module) || len > KR_POLICY_MODULE_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "allowed_imports: \"%.60s\" is not the name of a module", module),
               -EINVAL;
    if (has_item(ask->imports, module))
        return 0;
    if (count_items(ask->imports) >= KR_POLICY_IMPORTS_MAX || used + len + 2 > sizeof ask->imports)
        return kr_err_set(err, KR_ERR_INVALID, 0, "allowed_imports: more than %u modules or %d bytes",
                          KR_POLICY_IMPORTS_MAX, KR_POLICY_IMPORTS_ROOM - 1),
               -E2BIG;
    snprintf(ask->imports + used, sizeof ask->imports - used, "%s%s", used > 0 ? "," : "", module);
    return 0;
}

/* Calls `add` with each word. */
static int each_word(struct kr_policy_ask *ask, const char *text, const char *setting,
                     int (*add)(struct kr_policy_ask *ask, const char *word, struct kr_err *err), struct kr_err *err)
{
    static const char gaps[] = ", \t\r\n";
    char word[KR_POLICY_MODULE_MAX + 1];
    int r = 0;

    for (text += strspn(text, gaps); *text && r >= 0; text += strspn(text, gaps)) {
        size_t len = strcspn(text, gaps);

        if (len >= sizeof word)
            return kr_err_set(err, KR_ERR_INVALID, 0, "%s: \"%.40s…\" is longer than %u bytes", setting, text,
                              KR_POLICY_MODULE_MAX),
                   -EINVAL;
        snprintf(word, sizeof word, "%.*s", (int)len, text);
        r = add(ask, word, err);
        text += len;
    }
    return r;
}

int kr_policy_ask_profiles_text(struct kr_policy_ask *ask, const char *text, struct kr_err *err)
{
    kr_policy_ask_basic(ask);
    return each_word(ask, text, "profiles", kr_policy_ask_profile, err);
}

int kr_policy_ask_imports_text(struct kr_policy_ask *ask, const char *text, struct kr_err *err)
{
    if (!ask->has_imports)
        kr_policy_ask_no_imports(ask);
    return each_word(ask, text, "allowed_imports", kr_policy_ask_import, err);
}

bool kr_policy_ask_is_empty(const struct kr_policy_ask *ask)
{
    return !ask->has_mode && !ask->has_profiles && !ask->has_imports;
}

/* ---- narrowing ---- */

static int check_profiles(const struct kr_policy_spec *has, const struct kr_policy_ask *ask, const char *whose,
                          struct kr_err *err)
{
    uint32_t more = ask->has_profiles && has->mode == KR_POLICY_RESTRICTED ? ask->profiles & ~has->profiles : 0;
    char asked[PROFILES_ROOM], own[PROFILES_ROOM];

    if (!more)
        return 0;
    return kr_err_set(err, KR_ERR_INVALID, 0, "profiles: %s is more than %s allows, which is %s",
                      profiles_text(more, asked, sizeof asked), whose, profiles_text(has->profiles, own, sizeof own)),
           -ERANGE;
}

/* Each module of the list is allowed by `has`. */
static int check_imports(const struct kr_policy_spec *has, const struct kr_policy_ask *ask, const char *whose,
                         struct kr_err *err)
{
    const char *at = ask->imports, *item;
    char module[KR_POLICY_MODULE_MAX + 1];
    size_t len;

    while (ask->has_imports && next_item(&at, &item, &len)) {
        snprintf(module, sizeof module, "%.*s", (int)len, item);
        if (!kr_policy_allows(has, module))
            return kr_err_set(err, KR_ERR_INVALID, 0,
                              "allowed_imports: %.60s is more than %s allows; a list can only narrow it", module,
                              whose),
                   -ERANGE;
    }
    return 0;
}

int kr_policy_narrow(const struct kr_policy_spec *has, const struct kr_policy_ask *ask, const char *whose,
                     struct kr_policy_spec *ret, struct kr_err *err)
{
    bool asks_lists = ask->has_profiles || ask->has_imports;
    struct kr_policy_spec made = *has;
    int r;

    if (ask->has_mode && ask->mode == KR_POLICY_OPEN) {
        if (asks_lists)
            return kr_err_set(err, KR_ERR_INVALID, 0, "%s: needs the policy restricted, and open was asked for",
                              ask->has_imports ? "allowed_imports" : "profiles"),
                   -EINVAL;
        if (has->mode != KR_POLICY_OPEN)
            return kr_err_set(err, KR_ERR_INVALID, 0, "policy: open is more than %s allows, which is %s", whose,
                              kr_policy_names[has->mode]),
                   -ERANGE;
    }
    r = check_profiles(has, ask, whose, err);
    if (r >= 0)
        r = check_imports(has, ask, whose, err);
    if (r < 0)
        return r;
    if (asks_lists || (ask->has_mode && ask->mode == KR_POLICY_RESTRICTED))
        made.mode = KR_POLICY_RESTRICTED;
    if (ask->has_profiles)
        made.profiles = ask->profiles;
    if (made.mode == KR_POLICY_RESTRICTED)
        made.profiles |= KR_POLICY_BIT(KR_POLICY_BASIC);
    if (ask->has_imports) {
        made.has_imports = true;
        memcpy(made.imports, ask->imports, sizeof made.imports);
    }
    *ret = made;
    return 0;
}

/* Adds a module to the list of a policy that is being made; what does not fit is left out. */
static void keep_module(struct kr_policy_spec *made, const char *item, size_t len)
{
    size_t used = strlen(made->imports);
    char module[KR_POLICY_MODULE_MAX + 1];

    snprintf(module, sizeof module, "%.*s", (int)len, item);
    if (has_item(made->imports, module))
        return;
    if (used + len + 2 <= sizeof made->imports)
        snprintf(made->imports + used, sizeof made->imports - used, "%s%s", used > 0 ? "," : "", module);
}

/* The modules of `from` that `list` has, or has a prefix of. */
static void keep_within(struct kr_policy_spec *made, const struct kr_policy_spec *from, const char *list)
{
    const char *at = from->imports, *item;
    size_t len;

    while (from->has_imports && next_item(&at, &item, &len))
        if (list_allows(list, item, len))
            keep_module(made, item, len);
    for (int i = 0; !from->has_imports && i < KR_POLICY_PROFILE_MAX_; i++)
        for (const char *const *m = kr_policy_profiles[i].modules; (from->profiles & KR_POLICY_BIT(i)) && *m; m++)
            if (list_allows(list, *m, strlen(*m)))
                keep_module(made, *m, strlen(*m));
}

void kr_policy_clip(const struct kr_policy_spec *has, const struct kr_policy_ask *ask, struct kr_policy_spec *ret)
{
    struct kr_policy_spec made = *has;
    const char *at = ask->imports, *item;
    char module[KR_POLICY_MODULE_MAX + 1];
    size_t len;

    if (ask->has_profiles || ask->has_imports || (ask->has_mode && ask->mode == KR_POLICY_RESTRICTED))
        made.mode = KR_POLICY_RESTRICTED;
    if (ask->has_profiles)
        made.profiles = has->mode == KR_POLICY_OPEN ? ask->profiles : has->profiles & ask->profiles;
    if (made.mode == KR_POLICY_RESTRICTED)
        made.profiles |= KR_POLICY_BIT(KR_POLICY_BASIC);
    if (ask->has_imports) {
        made.has_imports = true;
        made.imports[0] = '\0';
        while (next_item(&at, &item, &len)) {
            snprintf(module, sizeof module, "%.*s", (int)len, item);
            if (kr_policy_allows(has, module))
                keep_module(&made, item, len);
        }
        keep_within(&made, has, ask->imports);
    }
    *ret = made;
}

bool kr_policy_same_rights(const struct kr_policy_spec *a, const struct kr_policy_spec *b)
{
    return a->mode == b->mode && a->profiles == b->profiles;
}

bool kr_policy_is_same(const struct kr_policy_spec *a, const struct kr_policy_spec *b)
{
    return a->mode == b->mode && a->profiles == b->profiles && a->has_imports == b->has_imports &&
           (!a->has_imports || strcmp(a->imports, b->imports) == 0);
}

/* ---- what holds ---- */

static bool profile_allows(enum kr_policy_profile profile, const char *module, size_t len)
{
    for (const char *const *m = kr_policy_profiles[profile].modules; *m; m++)
        if (is_within(module, len, *m, strlen(*m)))
            return true;
    return false;
}

bool kr_policy_allows(const struct kr_policy_spec *p, const char *module)
{
    size_t len = strlen(module);

    if (p->mode == KR_POLICY_OPEN)
        return true;
    if (p->has_imports)
        return list_allows(p->imports, module, len);
    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++)
        if ((p->profiles & KR_POLICY_BIT(i)) && profile_allows((enum kr_policy_profile)i, module, len))
            return true;
    return false;
}

enum kr_policy_profile kr_policy_profile_of(const char *module)
{
    int i = 0;

    while (i < KR_POLICY_PROFILE_MAX_ && !profile_allows((enum kr_policy_profile)i, module, strlen(module)))
        i++;
    return (enum kr_policy_profile)i;
}

void kr_policy_write_imports(struct kr_json *j, const struct kr_policy_spec *p)
{
    const char *at = p->imports, *item;
    size_t len;

    kr_json_array(j);
    while (p->has_imports && next_item(&at, &item, &len))
        kr_json_str_n(j, item, len);
    for (int i = 0; !p->has_imports && i < KR_POLICY_PROFILE_MAX_; i++)
        for (const char *const *m = kr_policy_profiles[i].modules; (p->profiles & KR_POLICY_BIT(i)) && *m; m++)
            kr_json_str(j, *m);
    kr_json_array_end(j);
}

void kr_policy_write_profiles(struct kr_json *j, const struct kr_policy_spec *p)
{
    kr_json_array(j);
    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++)
        if (p->profiles & KR_POLICY_BIT(i))
            kr_json_str(j, kr_policy_profiles[i].name);
    kr_json_array_end(j);
}

void kr_policy_write(struct kr_json *j, const struct kr_policy_spec *p, bool judge_only)
{
    kr_json_object(j);
    kr_json_key_str(j, "mode", kr_policy_names[p->mode]);
    kr_json_key(j, "imports");
    kr_policy_write_imports(j, p);
    kr_json_key(j, "profiles");
    kr_policy_write_profiles(j, p);
    kr_json_key_bool(j, "judge_only", judge_only);
    kr_json_object_end(j);
}
