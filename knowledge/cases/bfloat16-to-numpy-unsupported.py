"""NumPy has no bfloat16: the conversion raises; through FP32 it is exact."""

import torch

Numbers = dict[str, float | bool]


def run(through_fp32: bool) -> Numbers:
    x = torch.tensor([1.0, 3.140625], dtype=torch.bfloat16)
    raised, error = False, float("nan")
    try:
        array = (x.float() if through_fp32 else x).numpy()
        error = float(abs(array[1] - 3.140625))
    except TypeError:
        raised = True
    return {"elements": x.numel(), "error": error, "failed": raised}


def broken() -> Numbers:
    return run(through_fp32=False)


def fixed() -> Numbers:
    return run(through_fp32=True)
