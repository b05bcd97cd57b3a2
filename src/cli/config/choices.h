/* The words for what the engine and the warden number: NULL terminated, in the order of their enums. */
#pragma once

extern const char *const kr_cli_levels[],
    *const kr_cli_log_levels[], *const kr_cli_preloads[], *const kr_cli_networks[], *const kr_cli_tools[],
                                                                                        *const kr_cli_transports[],
                                                                                            *const kr_cli_shelves[];
