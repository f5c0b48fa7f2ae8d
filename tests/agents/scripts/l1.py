"""Trains a small classifier with Lightning in FP16."""

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(6)
CLASSES = 12
prototypes = torch.randn(CLASSES, 64)
labels = torch.randint(0, CLASSES, (4800,))
inputs = prototypes[labels] + 2.0 * torch.randn(4800, 64)


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, 128),
            nn.LayerNorm(128),
            nn.GELU(),
            nn.Linear(128, 128),
            nn.LayerNorm(128),
            nn.GELU(),
            nn.Linear(128, CLASSES),
        )

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        logits = self.net(batch[0])
        loss = F.cross_entropy(logits, batch[1])
        if batch_index % 15 == 0:
            right = (logits.argmax(-1) == batch[1]).float().mean()
            print(
                f"batch {batch_index} step {self.global_step} loss {loss.item():.4f} "
                f"accuracy {right.item():.3f}"
            )
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


trainer = L.Trainer(
    max_epochs=1,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    gradient_clip_val=1.0,
    plugins=[MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu"))],
)
trainer.fit(Classifier(), DataLoader(TensorDataset(inputs, labels), batch_size=32))
