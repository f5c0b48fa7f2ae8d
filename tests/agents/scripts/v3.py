"""Trains a small vision transformer with SGD in FP16 autocast."""

import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.utils import NativeScaler

torch.manual_seed(9)
CLASSES = 10
prototypes = torch.randn(CLASSES, 3, 32, 32)
model = VisionTransformer(
    img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4, num_classes=CLASSES
)
optimizer = create_optimizer_v2(model, opt="sgd", lr=0.05, weight_decay=1e-4, momentum=0.9)
loss_function = LabelSmoothingCrossEntropy(0.1)
scaler = NativeScaler(device="cpu")
for step in range(100):
    labels = torch.randint(0, CLASSES, (16,))
    images = prototypes[labels] + 0.7 * torch.randn(16, 3, 32, 32)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = loss_function(model(images), labels)
    scaler(loss, optimizer, clip_grad=5.0, parameters=model.parameters())
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f} scale {scaler.state_dict()['scale']:g}")
