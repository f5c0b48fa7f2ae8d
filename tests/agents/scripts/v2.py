"""Trains a small vision transformer to tell apart twelve kinds of noisy pictures."""

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2

torch.manual_seed(5)
CLASSES = 12
prototypes = torch.randn(CLASSES, 3, 32, 32)
model = VisionTransformer(
    img_size=32, patch_size=8, embed_dim=64, depth=3, num_heads=4, num_classes=CLASSES
)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
for step in range(200):
    labels = torch.randint(0, CLASSES, (32,))
    images = prototypes[labels] + 1.5 * torch.randn(32, 3, 32, 32)
    logits = model(images)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        right = (logits.argmax(-1) == labels).float().mean()
        print(f"step {step} loss {loss.item():.4f} accuracy {right.item():.3f}")
