/* The rules of `restricted`, by their ids.
 *
 * Called by what shows findings and prints the table. The judge and the guards are in src/kernel/python/policy_*.py,
 * whose policy_rules.py has the ids and the reasons, too; a unit test compares the two. Invariants: an id is never used
 * again for another rule; rows are sorted. */
#include "policy_rules.h"

#define WHY_IMPORT "the module is not in the list of modules that this policy allows"
#define WHY_BUILTIN "the function runs text as code, or shows names that the policy hides"
#define WHY_ATTRIBUTE "the attribute leads from a value to the internals of the interpreter"
#define WHY_FORMAT "a format string can read attributes as code can"

/* clang-format off */
const struct kr_policy_rule kr_policy_rules[] = {
    {"P100", "syntax", "The code is not Python. Only code that is validated gets this finding.",
     "code that Python cannot parse cannot run",
     "Correct the place that the caret shows.", "x = = 1"},
    {"P101", "import", "An import of a module that is neither in the list nor below a module of it.",
     WHY_IMPORT,
     "Use a module of the list, or ask for the profile that has the module.", "import os"},
    {"P102", "builtin", "The functions eval, exec, compile, globals, locals, breakpoint, and vars without an argument.",
     WHY_BUILTIN,
     "Write the computation as code; read data with json.loads().", "eval(\"1 + 1\")"},
    {"P103", "attribute", "An attribute that leads to frames, code, classes of the interpreter, or is set on them.",
     WHY_ATTRIBUTE,
     "Keep what you need in attributes of your own.", "().__class__.__bases__"},
    {"P104", "format string", "A format string with such an attribute in it.",
     WHY_FORMAT,
     "Give format() the value itself.", "\"{0.__globals__}\".format(f)"},
    {"P105", "name", "A name with two underscores at both ends that is Python's own or the policy's.",
     "the name is the interpreter's or the policy's own",
     "Use another name.", "__builtins__ = {}"},
    {"P106", "command", "A shell command or a notebook command that starts programs or cannot be judged.",
     "the command starts a program, or does what the policy cannot judge",
     "Do in Python what the command does.", "!ls"},
    {"P107", "definition", "A definition by which a class shows Python another shape than its text says.",
     "the definition changes what Python or a library takes a class for",
     "Write __match_args__ as a tuple of names.", "__match_args__ = names()"},
    {"P108", "size", "Code of more than half a million characters, or nested deeper than Python's parser goes.",
     "the code is larger or deeper than what is judged",
     "Divide it into several runs; read data from files or variables.", "\"(\" * 100000"},
    {"P109", "session", "A run with another policy in a session that is there already.",
     "a session keeps the policy that it was opened with",
     "Use a new session.", "policy=\"open\" in a restricted session"},
    {"P201", "import", "An import while the code runs of a module that is not in the list.",
     WHY_IMPORT,
     "Use a module of the list, or ask for the profile that has the module.", "from urllib import request"},
    {"P202", "attribute", "An attribute by a computed name, or through a class, that code may not read.",
     WHY_ATTRIBUTE,
     "Keep what you need in attributes of your own.", "getattr((), \"__cla\" + \"ss__\")"},
    {"P203", "builtin", "A call of a builtin that is not allowed, by another name.",
     WHY_BUILTIN,
     "Write the computation as code; read data with json.loads().", "[eval][0](\"1\")"},
    {"P204", "format string", "A format string, made while the code runs, that reads such an attribute.",
     WHY_FORMAT,
     "Give format() the value itself.", "(\"{0.__cla\" + \"ss__}\").format(1)"},
    {"P205", "write", "A file that is opened for writing without the profile filesystem.",
     "without the profile filesystem nothing is written to files",
     "Return or print the data, or ask for the profile filesystem.", "open(\"a.txt\", \"w\")"},
    {"P206", "operation", "An operation of the interpreter, such as starting a program, that code began itself.",
     "the operation belongs to a module that this policy does not allow",
     "Use what the allowed modules offer.", "os.system called by another road"},
    {"P207", "member", "A private member of a module, or one that is another module outside of the list.",
     "the member of the module is private to it, or leads out of the policy",
     "Import what you need by its own name.", "random._os"},
    {"P208", "text", "Text that a library runs as code (a type hint, an expression) with names that code may not use.",
     "text that a library runs as code may not leave the policy",
     "Write the expression as code.", "df.query(\"@x.__class__\")"},
    {"P209", "pickle", "A pickle that names something other than plain values and allowed modules.",
     "unpickling runs what the pickle names",
     "Exchange data as JSON, CSV or npy without objects.", "numpy.load(f, allow_pickle=True)"},
};
/* clang-format on */
const size_t kr_policy_rules_count = sizeof kr_policy_rules / sizeof *kr_policy_rules;
