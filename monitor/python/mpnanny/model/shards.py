"""Parameters that are spread over the ranks of a training."""

from __future__ import annotations

from typing import Any


def is_sharded(kind: type) -> bool:
    """Whether tensors of this class are parts of one over several ranks. By its name: importing
    torch.distributed.tensor takes a second.
    """
    return kind.__name__ == "DTensor" and kind.__module__.startswith("torch.distributed")


def local_part(tensor: Any) -> Any:
    """Of a sharded tensor what this rank holds of it, of another the tensor itself."""
    return tensor._local_tensor if is_sharded(type(tensor)) else tensor
