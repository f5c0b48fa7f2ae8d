"""FP16 autocast on an MLP; the GradScaler starts high and looks for its scale itself."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)
REF = bool(os.environ.get("REF"))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 48)
        self.hidden = nn.Linear(48, 48)
        self.out = nn.Linear(48, 4)

    def forward(self, x):
        x = nn.functional.gelu(self.inp(x))
        x = x + nn.functional.gelu(self.hidden(x))
        return self.out(x)


def main():
    centres = 1.2 * torch.randn(4, 16)
    labels = torch.randint(0, 4, (1024,))
    inputs = centres[labels] + 1.5 * torch.randn(1024, 16)

    model = Mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**32, growth_interval=40, enabled=not REF)
    for step in range(140):
        rows = torch.randint(0, 1024, (64,))
        with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
            logits = model(inputs[rows])
        loss = nn.functional.cross_entropy(logits.float(), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g}")
    with torch.no_grad():
        logits = model(inputs)
        final = nn.functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(-1) == labels).float().mean()
    print(f"final loss {final.item():.4f} accuracy {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
