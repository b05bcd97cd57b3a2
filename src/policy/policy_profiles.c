/* The profiles: which modules belong to each. The one list of modules in krait; the kernel is sent what follows from
 * it.
 *
 * Called by policy.c and by what prints the table. Invariants: the modules of a row are sorted, and every name that
 * document 001 lists is there as it spells it, also where another row of the list holds it already (html.parser); those
 * of `basic` reach neither files nor sockets by what they are made for. */
#include "policy.h"
#include <assert.h>

/* clang-format off */
static const char *const basic[] = {
    "__future__", "abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "colorsys",
    "configparser", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions",
    "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "html.parser", "itertools", "json", "keyword", "math",
    "numbers", "operator", "pprint", "random", "re", "reprlib", "secrets", "statistics", "string", "struct", "textwrap",
    "time", "types", "typing", "unicodedata", "urllib.parse", "uuid", "xml.etree", "zlib", "zoneinfo", NULL,
};
static const char *const data_science[] = {
    "matplotlib", "mpl_toolkits", "numpy", "pandas", "plotly", "scipy", "seaborn", "sklearn", "statsmodels", "sympy",
    NULL,
};
static const char *const network[] = {
    "aiohttp", "email", "ftplib", "http.client", "http.cookies", "httpx", "requests", "smtplib", "ssl", "urllib.error",
    "urllib.request", "websocket", NULL,
};
static const char *const filesystem[] = {
    "bz2", "fnmatch", "glob", "gzip", "lzma", "os.path", "pathlib", "shutil", "tarfile", "tempfile", "zipfile", NULL,
};

const struct kr_policy_profile_row kr_policy_profiles[] = {
    [KR_POLICY_BASIC] = {
        "basic", basic, NULL,
        "Numbers, texts, dates, containers and data formats of the standard library. Every restricted policy has it.",
    },
    [KR_POLICY_DATA_SCIENCE] = {
        "data_science", data_science, NULL,
        "numpy, pandas and the libraries around them.",
    },
    [KR_POLICY_NETWORK] = {
        "network", network, "sockets, within the sandbox's network rule",
        "Clients of HTTP, mail and FTP.",
    },
    [KR_POLICY_FILESYSTEM] = {
        "filesystem", filesystem, "a workspace that can be written",
        "Paths, files and archives.",
    },
};
const char *const kr_policy_profile_names[] = {"basic", "data_science", "network", "filesystem", NULL};
/* clang-format on */
static_assert(sizeof kr_policy_profile_names / sizeof *kr_policy_profile_names == KR_POLICY_PROFILE_MAX_ + 1,
              "every profile has its name");
static_assert(sizeof kr_policy_profiles / sizeof *kr_policy_profiles == KR_POLICY_PROFILE_MAX_,
              "every profile has its row");
