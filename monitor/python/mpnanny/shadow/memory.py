"""How much memory a shadow step may take: of what is free at that moment, less a reserve."""

from __future__ import annotations

import torch

CAP = 8 << 30  # bytes
RESERVE = 1 << 30
PART = 0.5  # of what is free beyond the reserve


def _free_on_host() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return 4 << 30  # not Linux: a modest guess


def allowance() -> int:
    """Bytes; 0 where there is not enough to begin with."""
    free = _free_on_host()
    if torch.cuda.is_initialized():
        device, _ = torch.cuda.mem_get_info()
        # What torch keeps for its next tensors is free for ours.
        device += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        free = min(free, device)
    most = min(CAP, int((free - RESERVE) * PART))
    return most if most >= 64 << 20 else 0
