/* Names of files and projects as they come from outside: from a field of a server's answer, from a folder. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The file's name of a Content-Disposition ("attachment; filename="a b.csv""), without a path; "" where there is none.
 * Returns buf. */
const char *kr_disposition_name(const char *field, char *buf, size_t size);
/* A project's name in the form in which names are compared (PEP 503). Returns buf. */
const char *kr_project_canonical(const char *name, size_t len, char *buf, size_t size);
/* The project of a wheel or an sdist, canonical. False: the file is neither, or its name has a character that no such
 * name has. */
bool kr_project_of_file(const char *name, char *buf, size_t size);
