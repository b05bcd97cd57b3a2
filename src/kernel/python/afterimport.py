"""Adjusts a few libraries right after user code (or the preload) imports them, and never imports
one itself.

A finder in front of sys.meta_path answers for the names in its table only. It also serves our
matplotlib backend, whose text was read in the zygote: a cell need not be able to read our files.
"""
import sys
from importlib.machinery import ModuleSpec, PathFinder
from marshal import loads

from krait_kernel import streams

_actions: dict = {}  # module name -> function(module)
_texts: dict = {}  # module name -> its code, marshalled: a quarter of the memory, and most are never run


class _Wrapped:
    """The module's own loader, with our adjustment after it."""

    def __init__(self, real, action) -> None:
        self._real = real
        self._action = action

    def __getattr__(self, name):
        return getattr(self._real, name)

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module) -> None:
        module.__loader__ = module.__spec__.loader = self._real
        self._real.exec_module(module)
        try:
            self._action(module)
        except Exception as exc:  # the library works without; say why it may look different
            streams.emit(
                2,
                "krait: %s is not adjusted: %s: %s\n" % (module.__name__, type(exc).__name__, exc),
            )


class _Text:
    """Loader of a module whose code the zygote has compiled."""

    def __init__(self, code) -> None:
        self._code = code

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        module.__file__ = self._code.co_filename
        exec(self._code, module.__dict__)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in _texts:
            code = loads(_texts[name])
            return ModuleSpec(name, _Text(code), origin=code.co_filename)
        action = _actions.get(name)
        if action is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Wrapped(spec.loader, action)
        return spec


def install(actions: dict, texts: dict) -> None:
    """Modules that are loaded already are adjusted now."""
    _actions.update(actions)
    _texts.update(texts)
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
    for name, action in actions.items():
        if name in sys.modules:
            action(sys.modules[name])
