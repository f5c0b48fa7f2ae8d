"""Where tensors in 16 bits or fewer were created: the line that chose the dtype of a table, a
counter or a weight whose updates are lost later.

Known of what is allocated in a shadow step, and before the first step where the program runs under
`mpnanny run` or has called `mpnanny.follow_from_here()`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .call import tensors_of
from .lasting import NARROW as NARROW_BY_NAME
from .operators import VIEW, Operator
from .places import Site

MOST = 4096
NARROW = frozenset(NARROW_BY_NAME.values())


class Births:
    """Of one run."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[StorageWeakRef, Site]] = {}  # by storage

    def saw(self, operator: Operator, inputs: Any, result: Any, site: Site) -> None:
        """`operator` has made `result` at `site`."""
        if operator.schema_name == "aten::lift_fresh":  # torch.tensor() makes it without one
            read = set()
        elif operator.kind is VIEW:
            return
        else:
            read = {each.untyped_storage()._cdata for each in tensors_of(inputs)}
        for each in tensors_of(result):
            if each.dtype in NARROW and each.untyped_storage()._cdata not in read:
                self._add(each.untyped_storage(), site)

    def _add(self, storage: torch.UntypedStorage, site: Site) -> None:
        if len(self._made) >= MOST:
            living = {key: each for key, each in self._made.items() if not each[0].expired()}
            self._made = dict(list(living.items())[: MOST // 2])  # what is older has lasted
        self._made[storage._cdata] = (StorageWeakRef(storage), site)

    def of(self, tensor: torch.Tensor) -> Site | None:
        """Where the memory of `tensor` was made; None where that is not known."""
        made = self._made.get(tensor.untyped_storage()._cdata)
        return None if made is None or made[0].expired() else made[1]
