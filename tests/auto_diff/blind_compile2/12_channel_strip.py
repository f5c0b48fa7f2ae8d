import operator

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass


@torch.library.custom_op("strip12::gain", mutates_args=())
def gain(x: torch.Tensor, level: float) -> torch.Tensor:
    return x * 10 ** (level / 20)


@gain.register_fake
def _(x, level):
    return torch.empty_like(x)


class JoinGains(CustomGraphPass):
    """Two gains in a row become one."""

    join = staticmethod(operator.mul)

    def __call__(self, graph):
        kind = torch.ops.strip12.gain.default
        for node in list(graph.nodes):
            first = node.args[0] if node.target is kind else None
            if first is None or first.target is not kind or len(first.users) > 1:
                continue
            node.args = (first.args[0], self.join(first.args[1], node.args[1]))
            graph.erase_node(first)

    def uuid(self):
        return "strip12-join-gains-1"


config.post_grad_custom_pre_pass = JoinGains()


class Strip(nn.Module):
    """Trim, filter, make-up gain and a soft ceiling for a few channels of sound."""

    def __init__(self, channels: int = 4):
        super().__init__()
        self.filter = nn.Conv1d(channels, channels, 5, padding=2, groups=channels)
        self.mix = nn.Linear(channels, 2)

    def forward(self, sound):
        x = torch.ops.strip12.gain(sound, -3.0)
        x = self.filter(x)
        quiet = torch.ops.strip12.gain(x, -2.5)
        x = torch.ops.strip12.gain(quiet, 6.0)
        x = torch.tanh(x)
        return self.mix(x.transpose(1, 2))


def build():
    torch.manual_seed(12)
    return Strip().requires_grad_(False)
