"""A module with a class that torch.jit.script compiles where it is defined, as
torch.distributed.optim has them: names are looked up in the frame that calls.
"""

import torch


def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@torch.jit.script
class Doubler:
    def __init__(self, x: torch.Tensor) -> None:
        self.value = twice(x)
