/* How to use krait, for a model: the resource krait://guide and the prompt use_krait. */
#pragma once

extern const char kr_mcp_guide[];
