"""The matplotlib backend of a session: Agg underneath, and showing a figure is a display.

Loaded by matplotlib as module://krait_kernel.mplbackend. Only the session's own process uses it:
its children have MPLBACKEND=Agg.
"""
from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg

from krait_kernel import display


class FigureManagerKrait(FigureManagerBase):
    def show(self):
        """fig.show(): sent now, and not again at the end of the run."""
        display.show_figure(self.canvas.figure)


class FigureCanvasKrait(FigureCanvasAgg):
    manager_class = FigureManagerKrait


def _show(*_args, block=None, **_kwargs):
    """plt.show(). Without blocking (plt.pause calls it so) the figure stays open and is sent
    when the run ends.
    """
    if block is not False:
        display.show_figures()


@_Backend.export
class _BackendKrait(_Backend):
    backend_version = "1"
    FigureCanvas = FigureCanvasKrait
    FigureManager = FigureManagerKrait
    show = staticmethod(_show)
