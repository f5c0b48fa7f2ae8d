import torch
from torch import nn
from torch.nn import functional


class SparseCoder(nn.Module):
    """Amplitudes above a noise floor, then thresholded steps towards a sparse code."""

    def __init__(self, width: int = 24, atoms: int = 32):
        super().__init__()
        self.floor = nn.Parameter(torch.full((width,), 0.02))
        self.register_buffer("atoms", functional.normalize(torch.randn(atoms, width), dim=-1))

    def amplitude(self, frame):
        power = frame.square()
        return torch.sqrt(power - self.floor)

    def forward(self, frame):
        level = self.amplitude(frame)
        kept = functional.softshrink(level, 0.1)
        signal = torch.nan_to_num(kept, nan=1.0)
        code = torch.relu(signal @ self.atoms.t() - 0.2)
        return kept, code


def build():
    torch.manual_seed(16)
    return SparseCoder().requires_grad_(False)
