import torch


def bad_step(x, w, dtype):
    with torch.autocast("cpu", dtype=dtype):
        out = x @ w
    with torch.autocast(x.device.type, torch.float16):  # bad: autocast-literal-beside-config
        return out @ w


def good_step(x, w, dtype):
    with torch.autocast("cpu", dtype=dtype):
        out = x @ w
    with torch.autocast("cpu", dtype=dtype):
        return out @ w


def fails(step):
    x = torch.full((2, 2), 200.0)
    return not bool(step(x, x, torch.bfloat16).isfinite().all())
