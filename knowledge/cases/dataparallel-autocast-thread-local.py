"""A replica in a thread of its own, as DataParallel runs it: whether autocast is on is handed over,
its dtype is not, and the replica computes in the device's default dtype.
"""

import threading

import torch

Numbers = dict[str, float | bool]


def run(explicit: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, generator=generator)
    x = torch.randn(64, 64, generator=generator)
    chosen = torch.float16  # not the CPU's default, as bfloat16 is not CUDA's
    found: dict[str, torch.dtype] = {}

    def model(value: torch.Tensor) -> torch.Tensor:
        if explicit:
            with torch.autocast("cpu", dtype=chosen):
                return value @ weight
        return value @ weight

    def replica(enabled: bool) -> None:
        with torch.autocast("cpu", enabled=enabled):  # what parallel_apply does
            found["replica"] = model(x).dtype

    with torch.autocast("cpu", dtype=chosen):
        found["main"] = model(x).dtype
        enabled = torch.is_autocast_enabled("cpu")
        thread = threading.Thread(target=replica, args=(enabled,))
        thread.start()
        thread.join()
        bare: list[bool] = []
        thread = threading.Thread(target=lambda: bare.append(torch.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()

    def bits(dtype: torch.dtype) -> int:
        return round(1 - torch.log2(torch.tensor(torch.finfo(dtype).eps)).item())

    return {
        "significant_bits_main": bits(found["main"]),
        "significant_bits_replica": bits(found["replica"]),
        "autocast_on_in_a_new_thread": int(bare[0]),
        "failed": found["replica"] != chosen,
    }


def broken() -> Numbers:
    return run(explicit=False)


def fixed() -> Numbers:
    return run(explicit=True)
