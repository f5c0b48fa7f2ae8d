"""Angle between predicted and true rotations, given as rotation vectors."""

import torch


def rotation_matrix(vector: torch.Tensor) -> torch.Tensor:
    """Rodrigues' formula: [n, 3] to [n, 3, 3]."""
    angle = vector.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    x, y, z = (vector / angle).unbind(dim=-1)
    c, s = torch.cos(angle[:, 0]), torch.sin(angle[:, 0])
    d = 1.0 - c
    row0 = torch.stack((c + x * x * d, x * y * d - z * s, x * z * d + y * s), dim=-1)
    row1 = torch.stack((y * x * d + z * s, c + y * y * d, y * z * d - x * s), dim=-1)
    row2 = torch.stack((z * x * d - y * s, z * y * d + x * s, c + z * z * d), dim=-1)
    return torch.stack((row0, row1, row2), dim=-2)


def geodesic_error(truth: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Angle in radians [n] between truth and truth + residual, both [n, 3]."""
    wanted = rotation_matrix(truth)
    given = rotation_matrix(truth + residual)
    relative = torch.matmul(wanted.transpose(-2, -1), given)
    trace = relative.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    cosine = ((trace - 1.0) / 2.0).clamp(-1.0, 1.0)
    return torch.acos(cosine)
