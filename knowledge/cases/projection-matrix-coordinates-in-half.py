"""Points in metres projected to pixels with one FP16 matrix: pixel times depth passes 65504 for far
points, and near ones are wrong by up to several pixels. FP32 is right.
"""

import torch

Numbers = dict[str, float | bool]


def project(matrix: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    seen = points @ matrix.T
    return (seen[:, :2] / seen[:, 2:3]).double()


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    # Camera of 1600 x 900 pixels, focal length 1260, turned by 1.2 rad, 1.7 m to the side.
    camera = torch.tensor([[1260.0, 0, 800], [0, 1260.0, 450], [0, 0, 1]], dtype=torch.float64)
    angle = torch.tensor(1.2, dtype=torch.float64)
    c, s = angle.cos().item(), angle.sin().item()
    pose = torch.tensor([[s, -c, 0, 1.7], [0, 0, -1, 1.5], [c, s, 0, -0.9]], dtype=torch.float64)
    lidar_to_image = camera @ pose
    near = torch.rand(4000, 3, generator=generator, dtype=torch.float64)
    points = near * torch.tensor([100.0, 100.0, 8.0]) - torch.tensor([50.0, 50.0, 5.0])
    points = torch.cat([points, torch.ones(4000, 1)], 1)
    exact = project(lidar_to_image, points)
    depth = points @ lidar_to_image[2]
    inside = (depth > 5) & (exact[:, 0] >= 0) & (exact[:, 0] < 1600)
    inside &= (exact[:, 1] >= 0) & (exact[:, 1] < 900)
    got = project(lidar_to_image.to(dtype), points.to(dtype))
    error = (got - exact)[inside].norm(dim=-1)
    finite = torch.isfinite(error)
    return {
        "points_in_image": int(inside.sum()),
        "points_infinite": int((~finite).sum()),
        "median_error_pixels": error[finite].median().item(),
        "largest_error_pixels": error[finite].max().item(),
        "failed": not bool((error < 0.1).all()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
