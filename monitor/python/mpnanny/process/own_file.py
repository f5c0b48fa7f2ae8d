"""Which file a run records into, when ranks, other runs or a cell that ran again want the same."""

from __future__ import annotations

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
