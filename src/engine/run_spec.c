/* A run's specification: its copy, its size, its form for the kernel.
 *
 * Called by the box, which keeps a copy while a run waits, and by run.c. Invariant: a copy's texts are in one block of
 * memory, and each is followed by NUL. */
#include "run_spec.h"
#include "buf.h"
#include "json.h"
#include "json_load.h"
#include "policy.h"
#include "proto.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 64u /* what jansson takes for one value, about */

/* Copies a text to *at, moves that behind its NUL, and returns where the text is now. */
static const char *put_text(char **at, const char *text, size_t len)
{
    char *start = *at;

    if (!text)
        return NULL;
    memcpy(start, text, len);
    start[len] = '\0';
    *at += len + 1;
    return start;
}

/* The copy of a policy, which begins the block, where it is aligned. */
static const struct kr_policy_spec *put_policy(char **at, const struct kr_policy_spec *policy)
{
    char *start = *at;

    if (!policy)
        return NULL;
    memcpy(start, policy, sizeof *policy);
    *at += sizeof *policy;
    return (const struct kr_policy_spec *)(const void *)start;
}

int kr_run_spec_copy(const struct kr_run_spec *spec, struct kr_run_spec *ret)
{
    size_t policy = spec->policy ? sizeof *spec->policy : 0;
    size_t sandbox = spec->sandbox ? strlen(spec->sandbox) : 0, session = spec->session ? strlen(spec->session) : 0;
    size_t network = spec->network ? strlen(spec->network) : 0;
    char *texts = malloc(policy + spec->code.len + spec->input.len + sandbox + session + network + 5), *at = texts;

    if (!texts)
        return -ENOMEM;
    *ret = *spec;
    ret->texts = texts;
    ret->asks = (struct kr_run_asks){0};
    ret->policy = put_policy(&at, spec->policy);
    ret->code.text = put_text(&at, spec->code.text, spec->code.len);
    ret->input.text = put_text(&at, spec->input.text, spec->input.len);
    ret->sandbox = put_text(&at, spec->sandbox, sandbox);
    ret->session = put_text(&at, spec->session, session);
    ret->network = put_text(&at, spec->network, network);
    json_incref(ret->variables);
    json_incref(ret->env);
    return 0;
}

void kr_run_spec_done(struct kr_run_spec *spec)
{
    if (!spec->texts)
        return;
    free(spec->texts);
    json_decref(spec->variables);
    json_decref(spec->env);
    spec->texts = NULL;
    spec->code = spec->input = (struct kr_text){0};
    spec->variables = spec->env = NULL;
    spec->sandbox = spec->session = spec->network = NULL;
    spec->policy = NULL;
}

static size_t value_bytes(const json_t *value)
{
    size_t bytes = VALUE_BYTES + json_string_length(value), i;
    const char *key;
    json_t *item;

    json_object_foreach((json_t *)value, key, item)
    {
        bytes += VALUE_BYTES + strlen(key) + value_bytes(item);
    }
    json_array_foreach(value, i, item)
    {
        bytes += value_bytes(item);
    }
    return bytes;
}

size_t kr_run_spec_bytes(const struct kr_run_spec *spec)
{
    return spec->code.len + spec->input.len + (spec->policy ? sizeof *spec->policy : 0) +
           (spec->variables ? value_bytes(spec->variables) : 0) + (spec->env ? value_bytes(spec->env) : 0);
}

static void write_script(struct kr_json *j, const struct kr_run_script *script)
{
    kr_json_key(j, "script");
    if (!script) {
        kr_json_null(j);
        return;
    }
    kr_json_object(j);
    kr_json_key_str(j, "file", script->file);
    kr_json_key(j, "argv");
    kr_json_array(j);
    for (size_t i = 0; i < script->argc; i++)
        kr_json_str(j, script->argv[i]);
    kr_json_array_end(j);
    kr_json_key_bool(j, "write", script->write);
    kr_json_key_bool(j, "exit", true);
    kr_json_object_end(j);
}

static int write_object(struct kr_json *j, const char *key, const json_t *object)
{
    char *text = kr_json_dump(object, 0);

    if (!text)
        return -ENOMEM;
    kr_json_key(j, key);
    kr_json_raw(j, text, strlen(text));
    free(text);
    return 0;
}

/* Images that would be past the output limit are as lost as those that are too large: they stay within half of it. */
static void write_readable(struct kr_json *j, const struct kr_run_spec *spec)
{
    int64_t most = spec->output_cap > 0 ? spec->output_cap / 2 : INT64_MAX;

    if (!spec->readable)
        return;
    kr_json_key_bool(j, "readable", true);
    if (spec->figure_bytes > 0)
        kr_json_key_int(j, "figure_bytes", spec->figure_bytes < most ? spec->figure_bytes : most);
}

/* Nothing of an open policy, unless the code is to be judged. */
static void write_policy(struct kr_json *j, const struct kr_run_spec *spec)
{
    static const struct kr_policy_spec open_policy = {.mode = KR_POLICY_OPEN};
    const struct kr_policy_spec *policy = spec->policy ? spec->policy : &open_policy;

    if (policy->mode == KR_POLICY_OPEN && !spec->judge_only)
        return;
    kr_json_key(j, "policy");
    kr_policy_write(j, policy, spec->judge_only);
}

int kr_run_spec_add_dead(struct kr_buf *json)
{
    static const char member[] = ",\"dead\":true}";
    int r;

    if (json->len + sizeof member > json->max)
        return -ENOBUFS;
    json->len--; /* its closing brace */
    r = kr_buf_add_str(json, member);
    json->len += r < 0;
    return r;
}

int kr_run_spec_write(const struct kr_run_spec *spec, uint32_t number, struct kr_buf *buf)
{
    struct kr_json j;
    char name[32];

    snprintf(name, sizeof name, "<run %u>", number);
    kr_json_init(&j, buf);
    kr_json_object(&j);
    kr_json_key(&j, "code");
    kr_json_str_n(&j, spec->code.text, spec->code.len);
    kr_json_key_str(&j, "name", name);
    kr_json_key_bool(&j, "warm", false);
    if (spec->auto_install)
        kr_json_key_bool(&j, "auto_install", true);
    if (spec->names_modules)
        kr_json_key_bool(&j, "names_modules", true);
    kr_json_key_str(&j, "figures", "png");
    if (spec->figure_px > 0)
        kr_json_key_int(&j, "figure_px", spec->figure_px);
    write_readable(&j, spec);
    if (spec->variables && write_object(&j, "variables", spec->variables) < 0)
        return -ENOMEM;
    if (json_object_size(spec->env) > 0 && write_object(&j, "env", spec->env) < 0)
        return -ENOMEM;
    kr_json_key(&j, "stdin");
    if (spec->input.text)
        kr_json_str_n(&j, spec->input.text, spec->input.len);
    else
        kr_json_null(&j);
    write_script(&j, spec->script);
    write_policy(&j, spec);
    kr_json_object_end(&j);
    return kr_json_done(&j);
}

int kr_run_spec_write_terminal(const struct kr_run_spec *spec, struct kr_buf *buf)
{
    const struct kr_run_terminal *t = spec->terminal;
    struct kr_s_terminal how = {.cols = t->cols, .rows = t->rows, .texts = (uint32_t)t->argc + 1};
    int r = kr_buf_add(buf, &how, sizeof how);

    if (r >= 0)
        r = kr_buf_add(buf, t->term, strlen(t->term) + 1);
    for (size_t i = 0; r >= 0 && i < t->argc; i++)
        r = kr_buf_add(buf, t->argv[i], strlen(t->argv[i]) + 1);
    return r;
}
