import torch


def bad_combine(x, w, absent):
    y = torch.empty_like(x)
    y[~absent] = x[~absent].tanh()
    weighted = y * w  # bad: mask-after-product
    return weighted.masked_fill(absent[:, None], 0.0)


def good_combine(x, w, absent):
    y = torch.empty_like(x)
    y[~absent] = x[~absent].tanh()
    y = y.masked_fill(absent[:, None], 0.0)
    return y * w


def fails(combine):
    w = torch.ones(4, 1, requires_grad=True)
    torch.use_deterministic_algorithms(True)  # memory that was never written is NaN
    try:
        loss = combine(torch.ones(4, 2), w, torch.tensor([True, False, False, True])).sum()
    finally:
        torch.use_deterministic_algorithms(False)
    loss.backward()
    return bool(loss.isfinite()) and bool(w.grad.isnan().any())
