"""Text classification with Accelerate: bf16, gradient accumulation, the learning rate falls when the epoch's loss stops falling."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, vocab=400, d=64, classes=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, classes)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(self.norm(h.mean(1)))


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 40, (n,), generator=g)
    ids = torch.randint(0, 400, (n, 16), generator=g)
    key = torch.rand(n, 16, generator=g) < 0.25
    ids = torch.where(key, y[:, None] * 10 + ids % 10, ids)
    wrong = torch.rand(n, generator=g) < 0.4  # annotators disagree
    return ids, torch.where(wrong, torch.randint(0, 40, (n,), generator=g), y)


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=4)
    weight_dtype = torch.float32
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    loader = DataLoader(TensorDataset(*data(3200, 0)), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer.optimizer, factor=0.2, patience=0, threshold=1e-2
    )
    for epoch in range(8):
        total = torch.zeros((), dtype=weight_dtype)
        for ids, y in loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(ids), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
        mean = total.item() / len(loader)
        plateau.step(mean)
        print(
            f"epoch {epoch} loss {mean:.4f} last {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.2e}"
        )
    x, y = data(800, 1)
    model.eval()
    with torch.no_grad():
        print("accuracy", (model(x).argmax(-1) == y).float().mean().item())


if __name__ == "__main__":
    main()
