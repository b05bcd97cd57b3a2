"""What makes forking a zygote cheap, and its children different from each other.

boot.py calls collect() before anything else is imported, pack() and prepare() after the preload,
share() last; in_child() runs in each new session. Invariant: two sessions of one zygote share no
random state (RESEED is the table), while a process that user code forks later gets all the
at-fork hooks of a normal Python again.

Cheap, measured: at-fork hooks written in Python touch many pages, so those of modules whose work
is void in a single-threaded zygote are held back; what sessions write to lies close together
(pack()); page tables of the interpreter's text are inherited only by mappings that have an
anon_vma; huge pages make fewer entries to copy, and a write still copies 4 KB only.
KRAIT_NO_FORK_TRICKS in the zygote's environment turns off what is not needed for correctness.
"""
import gc
import os
import sys

import _krait

HELD_BACK = ("random", "threading", "logging")
SHARED_TEXT = (
    "/libc.so",
    "/libc-",
    "/ld-linux",
    "/libpython3",
    "/libm.so",
    "/libm-",
    "/_krait.abi3",
)
HUGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1
PROT_READ, PROT_EXEC = 1, 4
# CPython's allocator of small objects (Objects/obmalloc.c): classes of size, pools of one class.
SMALL_STEP, SMALL = 16, 512
POOL = 16 << 10
BYTES_HEAD = sys.getsizeof(b"")
LARGE = [64 << 10, 32 << 10, 16 << 10, 12 << 10, 8 << 10, 6 << 10, 4 << 10, 3 << 10, 2 << 10]
LARGE += range(2 << 10, SMALL, -SMALL_STEP)  # descending: the largest hole takes the first
MAX_FILLERS = 200_000  # of one size

_NO_TRICKS = bool(os.environ.get("KRAIT_NO_FORK_TRICKS"))
_register = os.register_at_fork
_held: list = []  # keyword arguments of the registrations held back
_session = False  # True in a session and what it forks
_reseeders: list = []  # functions to call in a child, made by prepare()
_set_blas_threads = None
_fillers: list = []  # what lies in the holes of the zygote's memory


def collect() -> None:
    """From here on, until release(), registrations by the modules in HELD_BACK are kept for
    later.
    """

    def register_at_fork(**hooks):
        if sys._getframe(1).f_globals.get("__name__") in HELD_BACK:
            _held.append(hooks)
        else:
            _register(**hooks)

    os.register_at_fork = register_at_fork


def release() -> None:
    os.register_at_fork = _register


def adopt(other) -> None:
    """What the instance that saw the imports of the preload has held back."""
    _held[:0] = other._held
    _fillers.extend(other._fillers)


# ---- random state ------------------------------------------------------------------------------

# Each gives the function to call in a child, or None where it is enough that the zygote's own state
# is empty: what is made on first use is then made by each child for itself. Every page a child
# touches is a page copied, so less is better.


def _random(module):
    """random's module-level functions, and every other Random object the preload has made."""
    import _random as core

    seed = core.Random.seed
    found = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), module.Random) and not issubclass(type(one), module.SystemRandom)
    ]
    if not any(one is module._inst for one in found):
        found.append(module._inst)
    for one in found:
        one.gauss_next = None

    def reseed():
        for one in found:
            seed(one)  # from the kernel's random numbers

    return reseed


def _numpy(module):
    """The legacy generator behind numpy.random.rand() and friends; default_rng() draws fresh
    entropy by itself.
    """
    module._rand.seed()  # also forgets a normal deviate kept back
    address = module._rand._bit_generator.ctypes.state_address
    address = getattr(address, "value", address)
    return lambda: _krait.npseed(address)


def _ssl(module):
    """OpenSSL 3 notices a fork by the pid, and pids of two namespaces may be equal. As long as
    the zygote has no generator, each child makes its own from the kernel's random numbers.
    """
    if _no_generator(module):
        return None
    module.RAND_bytes(1)  # the first use of a generator costs milliseconds: here, once
    add, urandom = module.RAND_add, os.urandom
    add(urandom(32), 32.0)
    return lambda: add(urandom(32), 32.0)


def _no_generator(module) -> bool:
    """Whether OpenSSL surely has none yet: it lets the source of seeds be named only then."""
    if module.OPENSSL_VERSION_INFO < (3,):
        return False
    paths = loaded("libcrypto")
    if len(paths) != 1:
        return False
    import ctypes

    try:
        choose = ctypes.CDLL(paths.pop()).RAND_set_seed_source_type
    except (OSError, AttributeError):
        return False
    choose.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    return choose(None, b"SEED-SRC", None) == 1  # the default, said aloud


def _uuid(module):
    module._node = module._last_timestamp = None
    if hasattr(module, "_last_timestamp_v7"):
        module._last_timestamp_v7 = None


def _tempfile(module):
    """Candidate names reseed by pid, which may be equal; the directory is looked for again in
    the cell.
    """
    module._name_sequence = module.tempdir = None


def _threading(module):
    """No random state, but a number of the zygote's: the kernel's name of the main thread."""
    thread = module.main_thread()
    if not hasattr(thread, "_native_id"):
        return None
    native_id = module.get_native_id

    def renew():
        thread._native_id = native_id()

    return renew


def _multiprocessing(module):
    """The key with which processes of one family know each other."""

    def reseed():
        process = module.current_process()
        process._config["authkey"] = module.AuthenticationString(os.urandom(32))

    return reseed


def _semaphores(module):
    """Names of multiprocessing's semaphores."""
    module.SemLock._rand = type(module.SemLock._rand)()


# The module that must be loaded for it to matter, and what deals with it. os.urandom, secrets,
# SystemRandom, uuid4 and hashlib ask the kernel each time; hash() of strings is the zygote's until
# it is rotated.
RESEED = (
    ("random", _random),
    ("numpy.random.mtrand", _numpy),
    ("ssl", _ssl),
    ("uuid", _uuid),
    ("tempfile", _tempfile),
    ("threading", _threading),
    ("multiprocessing.process", _multiprocessing),
    ("multiprocessing.synchronize", _semaphores),
)


def prepare() -> None:
    """After the preload: finds what a child must reseed."""
    global _set_blas_threads
    made = [make(sys.modules[name]) for name, make in RESEED if name in sys.modules]
    _reseeders[:] = [one for one in made if one is not None]
    _set_blas_threads = _find_blas()
    for hooks in _held:
        _register(**{when: _in_sessions(hook) for when, hook in hooks.items()})


def _in_sessions(hook):
    """The at-fork hook, for forks that user code makes."""

    def call():
        if _session:
            hook()

    return call


def in_child() -> None:
    """In a new session, before anything else of ours."""
    global _session
    _session = True
    for reseed in _reseeders:
        reseed()


def _find_blas():
    """OpenBLAS was loaded with one thread; gives the function that sets another number, or None."""
    if "numpy" not in sys.modules:
        return None
    for path in loaded("openblas"):
        try:
            import ctypes

            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name in (
            "openblas_set_num_threads",
            "openblas_set_num_threads64_",
            "scipy_openblas_set_num_threads64_",
        ):
            if hasattr(library, name):
                return getattr(library, name)
    return None


def blas_threads(count: int) -> None:
    if _set_blas_threads is not None and count > 1:
        _set_blas_threads(count)


# ---- memory ------------------------------------------------------------------------------------


def mappings() -> list:
    """Fields of each line of our maps: range, rights, offset, device, inode, path. Empty without
    /proc.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n").split(None, 5) for line in file]
    except OSError:
        return []


def loaded(part: str) -> set:
    """Paths of the shared libraries in this process whose path has this part."""
    return {
        fields[5]
        for fields in mappings()
        if len(fields) > 5 and part in fields[5] and ".so" in fields[5]
    }


def _range(fields: list) -> tuple:
    first, _, last = fields[0].partition("-")
    return int(first, 16), int(last, 16)


def threads() -> int:
    """How many threads this process has, 0 if it cannot be known."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def pack() -> None:
    """Fills the holes that dead objects have left, for good: what is allocated from here on lies
    close together, in the zygote and in its sessions. The fillers cost the zygote memory, and a
    session none.
    """
    if _NO_TRICKS:
        return
    gc.collect()
    for size in range(SMALL_STEP, SMALL + 1, SMALL_STEP):
        _fill_small(size)
    top = 0
    for size in LARGE:
        for _attempt in range(MAX_FILLERS):
            one = bytes(size - BYTES_HEAD)
            _fillers.append(one)
            if id(one) > top:  # no hole was large enough
                top = id(one)
                break


def _fill_small(size: int) -> None:
    """Objects of pymalloc's class of that size, until a pool was taken (nearly) whole: by then
    no other pool of that class had room.
    """
    run = pool = 0
    for _attempt in range(MAX_FILLERS):
        one = _small_object(size)
        _fillers.append(one)
        run = run + 1 if id(one) // POOL == pool else 1
        pool = id(one) // POOL
        if run * size > POOL * 9 // 10:
            return


def _small_object(size: int):
    if size == 16:
        return object()
    return float(size) if size == 32 else bytes(size - BYTES_HEAD)


def share() -> None:
    """Last of all: everything alive now is the children's as well."""
    gc.collect()
    gc.freeze()
    if not _NO_TRICKS:
        _inherit_page_tables()
        _collapse()


def _inherit_page_tables() -> int:
    """Text and constants of interpreter and libc: children find their page table entries filled."""
    binary = os.path.realpath(sys.executable)
    done = 0
    for fields in mappings():
        if (
            len(fields) < 6
            or not fields[1].startswith("r")
            or "w" in fields[1]
            or fields[1][3] != "p"
        ):
            continue
        if fields[5] != binary and not any(part in fields[5] for part in SHARED_TEXT):
            continue
        first, last = _range(fields)
        try:
            _krait.anonify(first, last, PROT_READ | (PROT_EXEC if "x" in fields[1] else 0))
            done += 1
        except OSError:
            pass  # dearer, not wrong
    return done


def _collapse() -> int:
    """Heap and anonymous memory into huge pages, where the kernel can."""
    done = 0
    for fields in mappings():
        if fields[1] != "rw-p" or (len(fields) > 5 and fields[5] != "[heap]"):
            continue
        first, last = _range(fields)
        at = (first + HUGE - 1) // HUGE * HUGE
        while at + HUGE <= last:
            try:
                failed = _krait.madvise(at, at + HUGE, MADV_COLLAPSE)
            except OSError:
                failed = True
            done += 0 if failed else 1
            at += HUGE
    return done
