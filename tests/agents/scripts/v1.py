"""Trains a small vision transformer with soft targets in FP16 autocast."""

import torch
import torch.nn.functional as F
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.utils import NativeScaler

torch.manual_seed(5)
CLASSES = 8
prototypes = torch.randn(CLASSES, 3, 32, 32)
model = VisionTransformer(
    img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4, num_classes=CLASSES
)
optimizer = create_optimizer_v2(model, opt="adamw", lr=8e-3, weight_decay=0.0)
loss_function = SoftTargetCrossEntropy()
scaler = NativeScaler(device="cpu")
for step in range(150):
    labels = torch.randint(0, CLASSES, (16,))
    images = prototypes[labels] + 0.5 * torch.randn(16, 3, 32, 32)
    targets = F.one_hot(labels, CLASSES).float()
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = loss_function(model(images), targets)
    scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.4f}")
