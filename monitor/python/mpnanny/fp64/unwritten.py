"""Memory that an operator made without values (torch.empty, Module.to_empty) and that nothing has
written as a whole since: what it holds is whatever was there before.

Marks live as long as a run, since such a tensor may be a buffer that is read many steps later. A
write that no shadow step has seen shows in the tensor's version, and ends the mark: a mark never
claims more than was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .history import version_of
from .places import Site

MOST = 4096  # marks


@dataclass(slots=True)
class _Mark:
    alive: StorageWeakRef
    site: Site  # of the operator that made it
    version: int  # of the newest write that was seen


class Unwritten:
    """Of one run."""

    def __init__(self) -> None:
        self._marks: dict[int, _Mark] = {}

    def made(self, tensor: torch.Tensor, site: Site) -> None:
        """An operator at `site` has returned `tensor`, whose memory it has not written."""
        if len(self._marks) >= MOST:
            gone = [key for key, mark in self._marks.items() if mark.alive.expired()]
            for key in gone or list(self._marks)[: MOST // 2]:
                del self._marks[key]
        storage = tensor.untyped_storage()
        if storage.nbytes():
            self._marks[storage._cdata] = _Mark(StorageWeakRef(storage), site, version_of(tensor))

    def writes(self, tensor: torch.Tensor, whole: bool) -> None:
        """An operator is about to write `tensor`; `whole`: all of its memory."""
        if not self._marks:
            return
        key = tensor.untyped_storage()._cdata
        mark = self._marks.get(key)
        if mark is None:
            return
        if whole or version_of(tensor) > mark.version or mark.alive.expired():
            del self._marks[key]
        else:
            mark.version = version_of(tensor) + 1  # torch counts a write after it was made

    def of(self, tensor: torch.Tensor) -> Site | None:
        """Where the memory of `tensor` was made, if some of it was never written."""
        if not self._marks:
            return None
        mark = self._marks.get(tensor.untyped_storage()._cdata)
        if mark is None or mark.alive.expired() or version_of(tensor) > mark.version:
            return None
        return mark.site
