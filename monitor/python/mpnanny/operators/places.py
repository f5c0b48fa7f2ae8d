"""Where an operator is called: the innermost line of the Python stack that is neither torch's, nor
the standard library's, nor ours, and the innermost module of the model.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass

import torch
from torch import nn

_call_impl = nn.Module._call_impl.__code__


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Files of ours that are on the stack between an operator and the line that called it.
_passing = {__file__}


def pass_through(file: str) -> None:
    """`file` (a module's __file__) holds a dispatch mode: operators that come through it are the
    program's. What other files of ours call is the monitor's own.
    """
    _passing.add(file)


class _Files:
    """Which files are neither torch's, nor the standard library's, nor ours."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        site = {paths["purelib"], paths["platlib"]}
        self._site = tuple(path + os.sep for path in site)
        self._library = tuple(paths[key] + os.sep for key in ("stdlib", "platstdlib"))
        self._hidden = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, _OURS)
        self._known: dict[str, bool] = {}

    def is_users(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._find(file)
        return known

    def _find(self, file: str) -> bool:
        if file.startswith(("<frozen", "<eval_with_key>", "<__array_function__")):
            return False
        if file.startswith(self._hidden):
            return False
        return file.startswith(self._site) or not file.startswith(self._library)

    def is_library(self, file: str) -> bool:
        """Installed: torch's, the standard library's, or another package's."""
        return file.startswith((*self._site, *self._library, *self._hidden))


_files = _Files()
is_users = _files.is_users
is_library = _files.is_library


def users_line() -> tuple[str, int]:
    """The innermost line of the user's code that is running; ("", 0) if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return os.path.abspath(frame.f_code.co_filename), frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0


MOST_CALLERS = 2

# Files and lines.
Lines = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Place:
    operator: str
    file: str  # "" where no line of the user's is on the stack
    line: int
    module: str | None
    callers: Lines = ()  # of the user's functions, up to a module's forward pass, nearest first

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


def find_place(operator: str, modules: dict[int, str], outer: Place | None = None) -> Place | None:
    """`modules`: names by id. None for an operator that the monitor itself calls. `outer`: where
    the call stands that a function of ours named `run_again` repeats at this moment.
    """
    file, line, module = "", 0, None
    callers: Lines = ()
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is _call_impl:
            if module is None:
                module = modules.get(id(frame.f_locals.get("self")))
            if module is not None and file:
                break
        elif code.co_name == "_engine_run_backward":
            break  # what called backward() is not where the operator is
        elif code.co_name == "run_again" and outer is not None:
            if not file:
                file, line = outer.file, outer.line
            module = outer.module if module is None else module
            break
        elif _files.is_users(code.co_filename):
            if not file:
                file, line = code.co_filename, frame.f_lineno
            elif len(callers) < MOST_CALLERS:
                callers += ((code.co_filename, frame.f_lineno),)
        elif not file and code.co_filename not in _passing and code.co_filename.startswith(_OURS):
            if module is None:
                return None
            break  # a model of library modules alone, which we run: no line is the user's
        frame = frame.f_back  # type: ignore[assignment]
    if file and not file.startswith("<"):
        file = os.path.abspath(file)
    return Place(operator, file, line, module, callers)
