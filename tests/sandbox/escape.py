"""One attempt to do harm from inside of mpnanny-sandbox, as a row of a table.

The function is what the hostile code does; it gets what it may know (`given`) and raises where it
is refused. Whether harm was done is never its own word: `victim` names what it is let loose on
(victims.py), which is looked at from outside.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Given = dict[str, Any]


@dataclass(frozen=True)
class Escape:
    name: str  # the function's
    area: str  # the file's
    harm: str  # what it tries, as a clause: "appends to a file of the user's"
    victim: str
    run: Callable[[Given], Any]
    held: bool  # it stays while it is looked at: what it has opened, where it has got to
    root: bool  # needs root to do harm even where nothing confines it
    control: bool  # may be run without a sandbox, to see that it does harm then


ESCAPES: dict[str, Escape] = {}


def escape(
    harm: str, victim: str = "folder", *, held: bool = False, root: bool = False, control=True
) -> Callable[[Callable[[Given], Any]], Callable[[Given], Any]]:
    def add(run: Callable[[Given], Any]) -> Callable[[Given], Any]:
        area = run.__module__.rpartition(".")[2]
        name = run.__name__
        if name in ESCAPES:
            raise ValueError(f"two escapes are called {name}")
        ESCAPES[name] = Escape(name, area, harm, victim, run, held, root, control)
        return run

    return add


def all_escapes() -> dict[str, Escape]:
    import escapes

    for each in pkgutil.iter_modules(escapes.__path__):
        importlib.import_module(f"escapes.{each.name}")
    return ESCAPES
