"""A top-1 mixture of more experts than the data has clusters; experts are ReLU MLPs."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)
REF = bool(os.environ.get("REF"))


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        with torch.no_grad():
            self.up.bias[: width // 2] = -6.0  # a sparse start: these units rarely fire

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class SparseMoe(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([Expert(width) for _ in range(experts)])

    def forward(self, x):
        # The router works in FP32, so that near ties are decided as in evaluation.
        with torch.autocast("cpu", enabled=False):
            probs = torch.softmax(self.router(x.float()), dim=-1)
        gate, chosen = probs.topk(1, dim=-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = (chosen[:, 0] == index).nonzero().squeeze(1)
            if len(rows) == 0:
                continue
            out = out.index_add(0, rows, (gate[rows] * expert(x[rows])).to(out.dtype))
        load = torch.zeros(len(self.experts)).index_add_(
            0, chosen[:, 0], torch.ones(len(x), dtype=torch.float32)
        )
        return out, load / len(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(12, 32)
        self.norm = nn.LayerNorm(32)
        self.moe = SparseMoe(32, 12)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        x = self.inp(x)
        mixed, load = self.moe(self.norm(x))
        return self.head(x + mixed), load


def main():
    centres = 2 * torch.randn(3, 12)
    cluster = torch.randint(0, 3, (1200,))
    inputs = centres[cluster] + 0.5 * torch.randn(1200, 12)
    labels = (cluster + (inputs[:, 0] * inputs[:, 1] > 0).long()) % 3

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(120):
        rows = torch.randint(0, 1200, (128,))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits, load = model(inputs[rows])
        loss = nn.functional.cross_entropy(logits.float(), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} idle experts {(load == 0).sum().item()}")
    with torch.no_grad():
        logits, _ = model(inputs)
        final = nn.functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(-1) == labels).float().mean()
    print(f"final loss {final.item():.4f} accuracy {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
