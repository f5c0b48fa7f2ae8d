import torch


def bad_scale(x):
    spread = (x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True)
    return x / (torch.sqrt(spread) + 1e-6)  # bad: eps-outside-root


def good_scale(x):
    spread = (x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True)
    return x / torch.sqrt(spread + 1e-6)


def fails(scale):
    x = torch.ones(2, 4, requires_grad=True)
    scale(x).sum().backward()
    return bool(x.grad.isnan().any())
