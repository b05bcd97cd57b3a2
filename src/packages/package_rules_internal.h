/* The tables of package_rules.c, for it and for their test. */
#pragma once
#include "package_rules.h"

extern const char *const kr_package_stdlib[], *const kr_package_popular[];
extern const size_t kr_package_stdlib_count, kr_package_popular_count;
