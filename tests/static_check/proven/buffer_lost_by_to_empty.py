import torch
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("cos", torch.ones(4), persistent=False)

    def reset_buffers(self):
        self.cos.fill_(1.0)


def bad_load(saved):
    with torch.device("meta"):
        net = Table()
    net.to_empty(device="cpu")  # bad: buffer-lost-by-to-empty
    net.load_state_dict(saved)
    return net


def good_load(saved):
    with torch.device("meta"):
        net = Table()
    net.to_empty(device="cpu")
    net.load_state_dict(saved)
    net.reset_buffers()
    return net


def fails(load):
    saved = Table().state_dict()
    torch.use_deterministic_algorithms(True)  # memory that was never written is NaN
    try:
        net = load(saved)
    finally:
        torch.use_deterministic_algorithms(False)
    return not torch.equal(net.cos, torch.ones(4))
