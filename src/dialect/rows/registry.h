/* The documents' rows together, for the tables that are made of them. A document's routes and tools are named in its
 * own header; the names are declared by src/dialect/dialect_routes.h and src/dialect/dialect_tools.h. */
#pragma once
#include "mcp_sandbox.h"
#include "python_executor.h"
#include "python_sandbox.h"
#include "sandbox_mcp.h"
#include "sandbox_service.h"

/* Documents 001 (python-sandbox) and 003 (python-executor) have no REST routes of their own. */
#define KR_DIALECT_ROUTES KR_SANDBOX_MCP_ROUTES, KR_SANDBOX_SERVICE_ROUTES, KR_MCP_SANDBOX_ROUTES

#define KR_DIALECT_TOOLS                                                                                               \
    KR_SANDBOX_MCP_TOOLS, KR_PYTHON_SANDBOX_TOOLS, KR_SANDBOX_SERVICE_TOOLS, KR_PYTHON_EXECUTOR_TOOLS,                 \
        KR_MCP_SANDBOX_TOOLS
