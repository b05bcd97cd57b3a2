/* Document 001, python-sandbox: MCP tools over stdio or HTTP that run code without keeping anything.
 *
 * Its code: src/dialect/python_sandbox_tools.c, python_sandbox_policy.c; pyvalue.c reads the values of its results. */
#pragma once

/* clang-format off */
#define KR_PYTHON_SANDBOX_DEFAULTS \
    { "host",        "0.0.0.0" }, \
    { "port",        "9000" }, \
    { "timeout",     "30s" }, \
    { "max-timeout", "300s" }, \
    { "memory",      "128M" }, \
    { "output",      "1M" }, \
    { "policy",      "restricted" }

#define KR_PYTHON_SANDBOX_TRAITS .mcp_reads_dotenv = true

#define KR_PYTHON_SANDBOX_TOOLS \
    &kr_tool_python_sandbox_execute, \
    &kr_tool_python_sandbox_validate, \
    &kr_tool_python_sandbox_info, \
    &kr_tool_python_sandbox_capabilities
/* clang-format on */
