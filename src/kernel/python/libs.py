"""What is adjusted in which library (afterimport.py calls these): their ways of showing
something lead to display.py.

Invariant: a program that works with the library elsewhere works here; only windows, browsers and
viewers, of which there are none, are replaced.
"""
import sys

from krait_kernel import display

BACKEND = "module://krait_kernel.mplbackend"
# Backends that write files: asked for by name they are given. All others (windows, notebooks, Agg)
# are ours, which is Agg.
FILE_BACKENDS = {"pdf", "svg", "ps", "pgf", "cairo", "template"}
# Families with Chinese, Japanese and Korean glyphs. All that are installed stand behind the chosen
# one (Droid has no Hangul).
CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "NanumGothic",
    "IPAGothic",
)


def _ours(name) -> bool:
    return isinstance(name, str) and name.lower() not in FILE_BACKENDS


def matplotlib(module) -> None:
    use = module.use
    use(BACKEND)

    def use_backend(backend, *args, **kwargs):
        """Select the backend used for rendering. There is no screen: windows become displays."""
        return use(BACKEND if _ours(backend) else backend, *args, **kwargs)

    use_backend.__name__ = use_backend.__qualname__ = "use"
    module.use = use_backend


def pyplot(module) -> None:
    switch = module.switch_backend

    def switch_backend(newbackend, *args, **kwargs):
        """Set the pyplot backend. There is no screen: windows become displays."""
        return switch(BACKEND if _ours(newbackend) else newbackend, *args, **kwargs)

    module.switch_backend = switch_backend


def font_manager(module) -> None:
    """Text in any script is drawn: fonts with CJK glyphs stand behind whatever family is chosen
    (matplotlib 3.6 and later).
    """
    import matplotlib as base

    names = {font.name for font in module.fontManager.ttflist}
    found = [one for one in CJK_FONTS if one in names]
    for params in (base.rcParams, base.rcParamsDefault, base.rcParamsOrig):
        families = [one for one in params["font.sans-serif"] if one not in found]
        at = families.index("DejaVu Sans") + 1 if "DejaVu Sans" in families else len(families)
        params["font.sans-serif"] = families[:at] + found + families[at:]
    find = getattr(module.FontManager, "_find_fonts_by_props", None)
    if find is None or not found:
        return
    behind = [
        module.findfont(module.FontProperties(family=[name]), fallback_to_default=False)
        for name in found
    ]

    def find_fonts(self, prop, *args, **kwargs):
        paths = list(find(self, prop, *args, **kwargs))
        return paths + [one for one in behind if one not in paths]

    module.FontManager._find_fonts_by_props = find_fonts


def forget() -> None:
    """In the zygote, after the warm-up: matplotlib's own at-fork hook closes the fonts that are
    open, which is better done once.
    """
    get_font = getattr(sys.modules.get("matplotlib.font_manager"), "_get_font", None)
    if hasattr(get_font, "cache_clear"):
        get_font.cache_clear()


def plotly_io(module) -> None:
    def show(fig, *_args, **_kwargs):
        """Show a figure: it becomes a display."""
        if isinstance(fig, dict):
            import plotly.graph_objects as objects

            fig = objects.Figure(fig)
        display.display(fig)

    module.show = show


def pil_image(module) -> None:
    def show(self, title=None, command=None):
        """Show the image: it becomes a display."""
        display.display(self)

    module.Image.show = show


def pandas(module) -> None:
    """Frames show their columns: without a terminal pandas takes 80 characters for all there is. What
    user code sets later holds.
    """
    for name, value in (("display.width", 200), ("display.max_columns", 60)):
        module.set_option(name, value)


def ipython_display(module) -> None:
    """IPython's functions do nothing without its shell; its classes (HTML, Image, Markdown …)
    work as they are.
    """
    module.display = display.display
    if hasattr(module, "clear_output"):
        module.clear_output = clear_output


def multiprocessing_spawn(module) -> None:
    """Processes that are started anew find what runs have defined (spawnmain.py)."""
    prepare = module.get_preparation_data

    def get_preparation_data(name):
        """Return info about parent needed by child to unpickle process object"""
        data = prepare(name)
        main = sys.modules["__main__"]
        if "init_main_from_name" not in data and "init_main_from_path" not in data:
            from krait_kernel import spawnmain

            data["init_main_from_path"] = spawnmain.main_file(main)
        sys.modules["__mp_main__"] = main  # under which name objects come back
        return data

    module.get_preparation_data = get_preparation_data


def clear_output(wait=False):
    """Output is a log here: nothing is taken back."""


ACTIONS = {
    "multiprocessing.spawn": multiprocessing_spawn,
    "matplotlib": matplotlib,
    "matplotlib.pyplot": pyplot,
    "matplotlib.font_manager": font_manager,
    "pandas": pandas,
    "plotly.io": plotly_io,
    "PIL.Image": pil_image,
    "IPython.display": ipython_display,
    "IPython.core.display_functions": ipython_display,
}
