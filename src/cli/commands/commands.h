/* The subcommands: one row each. Adding one is a row in main.c and a file. */
#pragma once
#include "options.h"

struct kr_command {
    const char *name;
    int (*run)(int argc, char **argv);  /* argv[0] is the command's name; returns the exit status */
    const char *help;                   /* one line */
    const struct kr_opt_table *options; /* NULL: it has none */
};
extern const struct kr_command kr_commands[];
extern const size_t kr_commands_count;

int kr_cmd_run(int argc, char **argv);
int kr_cmd_check(int argc, char **argv);
int kr_cmd_serve(int argc, char **argv);
int kr_cmd_doctor(int argc, char **argv);
int kr_cmd_dump(int argc, char **argv);
int kr_cmd_keys(int argc, char **argv);
int kr_cmd_users(int argc, char **argv);
int kr_cmd_mcp(int argc, char **argv);
int kr_cmd_setup(int argc, char **argv);
int kr_cmd_shell(int argc, char **argv);
int kr_cmd_shelf(int argc, char **argv);
int kr_cmd_backup(int argc, char **argv);
int kr_cmd_restore(int argc, char **argv);
int kr_cmd_verify(int argc, char **argv);

extern const struct kr_opt_table kr_run_options_table;
extern const struct kr_opt_table kr_check_options_table;
extern const struct kr_opt_table kr_doctor_options_table;
extern const struct kr_opt_table kr_keys_options_table;
extern const struct kr_opt_table kr_users_options_table;
extern const struct kr_opt_table kr_mcp_options_table;
extern const struct kr_opt_table kr_setup_options_table;
extern const struct kr_opt_table kr_shell_options_table;
extern const struct kr_opt_table kr_shelf_options_table;
extern const struct kr_opt_table kr_backup_options_table;
extern const struct kr_opt_table kr_restore_options_table;
extern const struct kr_opt_table kr_verify_options_table;
