/* Document 003, python-executor: MCP tools whose answers are one text for people.
 *
 * Its code: src/dialect/python_executor_tools.c, python_executor_packages.c. */
#pragma once

/* clang-format off */
#define KR_PYTHON_EXECUTOR_DEFAULTS \
    { "host",        "0.0.0.0" }, \
    { "port",        "8000" }, \
    { "timeout",     "60s" }, \
    { "max-timeout", "300s" }, \
    { "memory",      "2G" }, \
    { "cpu",         "2" }

#define KR_PYTHON_EXECUTOR_TOOLS \
    &kr_tool_python_executor_execute, \
    &kr_tool_python_executor_install, \
    &kr_tool_python_executor_list, \
    &kr_tool_python_executor_info, \
    &kr_tool_python_executor_reset
/* clang-format on */
