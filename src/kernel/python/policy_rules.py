"""The rules of `restricted`, by their ids: what a finding and a refusal quote.

The table for readers is src/policy/policy_rules.c; a unit test compares the two. Ids are stable:
P1.. are found in the text before anything runs, P2.. while it runs.
"""

WHY = {
    "P100": "code that Python cannot parse cannot run",
    "P101": "the module is not in the list of modules that this policy allows",
    "P102": "the function runs text as code, or shows names that the policy hides",
    "P103": "the attribute leads from a value to the internals of the interpreter",
    "P104": "a format string can read attributes as code can",
    "P105": "the name is the interpreter's or the policy's own",
    "P106": "the command starts a program, or does what the policy cannot judge",
    "P107": "the definition changes what Python or a library takes a class for",
    "P108": "the code is larger or deeper than what is judged",
    "P109": "a session keeps the policy that it was opened with",
    "P201": "the module is not in the list of modules that this policy allows",
    "P202": "the attribute leads from a value to the internals of the interpreter",
    "P203": "the function runs text as code, or shows names that the policy hides",
    "P204": "a format string can read attributes as code can",
    "P205": "without the profile filesystem nothing is written to files",
    "P206": "the operation belongs to a module that this policy does not allow",
    "P207": "the member of the module is private to it, or leads out of the policy",
    "P208": "text that a library runs as code may not leave the policy",
    "P209": "unpickling runs what the pickle names",
}
