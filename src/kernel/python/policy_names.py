"""Which names mean what under `restricted`: the tables that the judge, the guards and the facades
of modules share.

Names are judged exactly as they are spelled, after Python has normalised them. Invariant: what is
in none of these tables costs nothing at run time.
"""

# ---- attributes --------------------------------------------------------------------------------

# Special methods that user code may define, and call by name.
METHODS = frozenset(
    "__%s__" % name
    for name in """
abs add aenter aexit aiter and anext await bool bytes call ceil class_getitem complex contains copy
deepcopy del delete delitem dir divmod enter eq exit float floor floordiv format fspath ge get
getitem getnewargs getnewargs_ex getstate gt hash iadd iand ifloordiv ilshift imatmul imod imul
index init init_subclass instancecheck int invert ior ipow irshift isub iter itruediv ixor le len
length_hint lshift lt matmul missing mod mro_entries mul ne neg new next or pos post_init pow
prepare radd rand rdivmod repr reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift
rshift rsub rtruediv rxor set set_name setitem setstate sizeof str sub subclasscheck subclasshook
truediv trunc xor array array_ufunc array_function array_priority html buffer release_buffer
""".split()
)
# Attributes that show what everybody may know.
SHOWN = frozenset(
    "__%s__" % name
    for name in """
abstractmethods all annotations args author bound cause constraints context constants
dataclass_fields dataclass_params date debug doc email file isabstractmethod license match_args
members metadata module name notes optional_keys orig_bases orig_class origin parameters qualname
required_keys signature slots suppress_context test total value version wrapped
""".split()
)
READ = METHODS | SHOWN | {"__class__"}
COMPUTED = METHODS | SHOWN  # what getattr() and hasattr() may ask for
WRITTEN = frozenset(
    "__%s__" % name
    for name in "cause context doc hash name notes qualname signature suppress_context test version".split()
)

# Attributes without underscores at both ends that lead to frames, code and tracebacks, and methods
# of libraries that hand out other modules.
DENIED = frozenset(
    """
ag_await ag_code ag_frame co_argcount co_cellvars co_code co_consts co_filename co_firstlineno
co_flags co_freevars co_lnotab co_linetable co_names co_nlocals co_positions co_stacksize
co_varnames cr_await cr_code cr_frame cr_origin exec_module f_back f_builtins f_code f_globals
f_lasti f_lineno f_locals f_trace func_closure func_code func_defaults func_globals gi_code gi_frame
gi_suspended gi_yieldfrom im_class im_func im_self load_module tb_frame tb_lasti tb_lineno tb_next
_convert_ _getframe _current_frames _old_targets
""".split()
)

# Modules that user code must not reach by accident of what another module has imported.
POWERS = frozenset(
    """
_ctypes _imp _io _pickle _posixsubprocess _socket _thread ast asyncio atexit bdb bltns builtins
code codecs codeop concurrent copyreg ctypes dis doctest faulthandler fcntl gc imp importlib inspect
io linecache logging marshal mmap multiprocessing nt ntpath os pathlib pdb pickle pkgutil posix
posixpath pty pydoc resource runpy shelve shutil signal site socket sqlite3 ssl subprocess symtable
sys sysconfig tempfile threading tkinter traceback tracemalloc types unittest warnings weakref
webbrowser zipimport genericpath pathmod
""".split()
)
# Parts of libraries that run text or programs, or reach memory: only a list that names them gives them.
NEVER = frozenset(
    """
matplotlib.animation matplotlib.testing matplotlib.texmanager numpy.compat numpy.ctypeslib
numpy.distutils numpy.f2py numpy.testing._private numpy.testing.extbuild
pandas.compat.pickle_compat pandas.core.computation pandas.io.clipboard pandas.io.clipboards
pandas.io.pickle scipy._lib scipy.weave statsmodels.tools.testing sympy.external sympy.plotting.pygletplot
sympy.testing sympy.utilities.autowrap sympy.utilities._compilation
""".split()
)
# Functions of such modules.
POWER_FUNCTIONS = frozenset(
    """
CDLL PyDLL LibraryLoader Popen check_call check_output dlopen execl execle execlp execv execve
execvp execvpe find_module find_spec fork forkpty getoutput getstatusoutput import_module interact
meta_path modules path_hooks path_importer_cache popen posix_spawn posix_spawnp reload run_module
run_path runcode runsource setprofile settrace spawnl spawnle spawnlp spawnv spawnve spawnvp
startfile system
""".split()
)
# Those of them that objects of libraries have among their attributes, or that lead on at once. The
# others are often names of people's own attributes, and as modules they are behind facades.
LOOKED_AT = frozenset(
    """
_ctypes _posixsubprocess bltns builtins codecs ctypes gc genericpath importlib inspect linecache
marshal multiprocessing nt ntpath os pathmod pickle posix posixpath pty runpy shutil socket
subprocess sys tempfile threading traceback
""".split()
)
# Read through a guard: what they give is looked at. The judge puts the guard there.
GUARDED = (
    frozenset(
        """
__delattr__ __dict__ __getattr__ __getattribute__ __setattr__ fdel fget fset format format_map obj mro query eval
_flavour
""".split()
    )
    | POWER_FUNCTIONS
    | LOOKED_AT
    | frozenset("_" + name for name in LOOKED_AT if not name.startswith("_"))
)

# ---- builtins and other names ------------------------------------------------------------------

# The judge refuses to see them; at run time they refuse to be called.
NO_BUILTINS = frozenset(["breakpoint", "compile", "eval", "exec", "globals", "locals"])
# What may not be bound: by an assignment, a definition, a parameter, an import, a pattern.
UNBOUND = frozenset(
    "__%s__" % name
    for name in """
annotations array_interface array_struct bases base build_class builtins cached class closure code
debug dict globals import krait loader module mro name package path reduce reduce_ex spec subclasses
traceback wrapped
""".split()
)
OURS = "__krait"
ATTRIBUTE, CHECKED, TIMED = "__krait_attr__", "__krait_checked__", "__krait_timed__"
CAPTURE = "__krait_capture_%d__"

# ---- text that libraries run -------------------------------------------------------------------

TEXT = (
    frozenset("eval exec compile open getattr setattr delattr globals locals vars breakpoint".split())
    | DENIED
    | POWER_FUNCTIONS
    | frozenset("_" + name for name in LOOKED_AT if not name.startswith("_"))
)
TEXT_SPECIAL = READ | {"__setattr__", "__delattr__", "__create_fn__", "__name__"}
FIELD = ("__", "_frame", "_code", "f_", "tb_", "co_", "_convert", "func_", "modules")


def is_special(name: str) -> bool:
    return name[:2] == "__" and name[-2:] == "__" and len(name) > 4


def may_stand_in_text(name: str) -> bool:
    """A name in text that a library runs as code: dataclasses and namedtuple write some of their own."""
    if is_special(name):
        return name in TEXT_SPECIAL or name.startswith("__dataclass_")
    return name not in TEXT


def may_read(name: str) -> bool:
    """An attribute that stands in the text. Those in GUARDED are looked at when they are read."""
    if name in DENIED:
        return False
    return not is_special(name) or name in READ or name in GUARDED


def may_compute(name: str) -> bool:
    """The same of a name that is made at run time."""
    return name not in DENIED and (not is_special(name) or name in COMPUTED or name in GUARDED)


def may_write(name: str) -> bool:
    if name in DENIED:
        return False
    return not is_special(name) or name in WRITTEN


def may_bind(name: str) -> bool:
    return name not in UNBOUND and not name.startswith(OURS)
