"""The notebook cell in which a run is begun."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Cell:
    """The line of a notebook's cell that is running, and which execution of it this is."""

    file: str
    line: int
    execution: int

    def ran_again(self, earlier: Cell | None) -> bool:
        return (
            earlier is not None
            and (self.file, self.line) == (earlier.file, earlier.line)
            and self.execution != earlier.execution
        )


def current_cell() -> Cell | None:
    """None outside of IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return None
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    return Cell(frame.f_code.co_filename, frame.f_lineno, int(shell.execution_count))
