"""Which file a run records into, when ranks, other runs or a cell that ran again want the same."""

from __future__ import annotations

import fcntl
import os

from torch import nn

from .cell import Cell
from .ends import live_runs


def free_path(db: str, model: nn.Module, cell: Cell | None, rank: int, world_size: int) -> str:
    """`db`, made different for each rank and each model that is watched at once. A run that an
    earlier execution of the same cell began, or one of the same model, is closed instead.
    """
    stem, extension = os.path.splitext(db)
    if world_size > 1:
        stem = f"{stem}.rank{rank}"
    path = stem + extension
    number = 1
    while True:
        users = [run for run in live_runs() if os.path.realpath(run.db) == os.path.realpath(path)]
        for run in list(users):
            if run.model is model or (cell is not None and cell.ran_again(run.cell)):
                run.close()
                users.remove(run)
        if not users:
            return path
        number += 1
        path = f"{stem}-{number}{extension}"


def path_of_our_own(db: str) -> str:
    """`db`, or a name beside it while another process records into it."""
    try:
        with open(f"{db}-ring", "r+b") as ring:
            fcntl.lockf(ring, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return db
    except OSError:
        stem, extension = os.path.splitext(db)
        return f"{stem}-{os.getpid()}{extension}"
    return db
