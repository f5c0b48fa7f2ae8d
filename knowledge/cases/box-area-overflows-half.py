"""Boxes in pixels in FP16: an area of 256 x 256 is 65536, which is infinity there, and the IoU of
two such boxes is NaN; where only the sum of the areas is infinite it is 0. FP32 is right.
"""

import torch

Numbers = dict[str, float | bool]


def area(box: torch.Tensor) -> torch.Tensor:
    return (box[2] - box[0]) * (box[3] - box[1])


def iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    overlap = (high - low).clamp_min(0).prod()
    return overlap / (area(a) + area(b) - overlap)


def run(dtype: torch.dtype) -> Numbers:
    small = torch.tensor([[0.0, 0, 200, 200], [20, 20, 220, 220]])
    large = torch.tensor([[0.0, 0, 600, 600], [60, 60, 660, 660]])
    exact = iou(*large).item()
    found = iou(*large.to(dtype)).item()
    return {
        "area_of_200": area(small[0].to(dtype)).item(),
        "area_of_600": area(large[0].to(dtype)).item(),
        "iou_of_small": iou(*small.to(dtype)).item(),
        "iou_of_large": found,
        "exact_iou_of_large": exact,
        "failed": found != found,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
