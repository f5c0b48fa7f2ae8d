"""An extension operator that wants both inputs in one dtype, called under autocast with 16-bit
features and FP32 boxes. A bare custom_fwd casts nothing; with cast_inputs both are FP32.
"""

import torch

Numbers = dict[str, float | bool]


def extension(features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Stands for a compiled kernel, which autocast does not know."""
    if features.dtype != boxes.dtype:
        raise RuntimeError(f"expected scalar type {features.dtype} but found {boxes.dtype}")
    return features[:, : boxes.shape[0]] * boxes[:, 0]


def run(cast_inputs: torch.dtype | None) -> Numbers:
    class Pool(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx, features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(boxes)
            return extension(features, boxes)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient: torch.Tensor) -> tuple:
            (boxes,) = ctx.saved_tensors
            return gradient * boxes[:, 0], None

    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(8, 4, generator=generator, requires_grad=True)
    x = torch.randn(16, 8, generator=generator)
    boxes = torch.rand(4, 4, generator=generator)
    raised, bits = 0, 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = x @ weight  # 16 bits
        try:
            pooled = Pool.apply(features, boxes)
            bits = 8 * pooled.element_size()
            pooled.sum().backward()
        except RuntimeError as error:
            raised = int("expected scalar type" in str(error))
    return {
        "bits_of_features": 8 * features.element_size(),
        "bits_of_boxes": 8 * boxes.element_size(),
        "bits_of_result": bits,
        "raised": raised,
        "failed": bool(raised) or weight.grad is None,
    }


def broken() -> Numbers:
    return run(None)


def fixed() -> Numbers:
    return run(torch.float32)
