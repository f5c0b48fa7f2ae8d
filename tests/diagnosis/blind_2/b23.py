"""Fine-tuning of a pretrained residual network whose weights are kept in sixteen bits."""

import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(23)
HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16
WIDTH = 160


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def pretrained():
    model = nn.Sequential(
        nn.Linear(20, WIDTH), Block(), Block(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8)
    )
    for p in model.parameters():
        if p.dim() == 2:
            nn.init.normal_(p, std=1.3 / p.shape[1] ** 0.5)
        else:
            nn.init.uniform_(p, 0.5, 1.0)
    return model


def main():
    model = pretrained().to(HALF)  # @fault
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0)
    mix = torch.randn(20, 8) / 20**0.5
    recent = []
    for step in range(150):
        x = torch.randn(32, 20)
        y = torch.sin(2 * x @ mix)
        out = model(x.to(HALF))
        loss = (out.float() - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # @fault
        recent = [*recent[-9:], loss.item()]
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.5f}")


if __name__ == "__main__":
    main()
