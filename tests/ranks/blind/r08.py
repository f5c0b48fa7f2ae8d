"""ranks: 2

Fine-tuning with low-rank adapters; data parallel written by hand.
"""

import math

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab=50, dim=32, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
            for _ in range(2)
        )
        self.classifier = nn.Linear(dim, classes)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x.mean(dim=1))


class LoRALinear(nn.Module):
    def __init__(self, base, r, alpha):
        super().__init__()
        self.base = base
        self.scaling = alpha / r
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + self.scaling * (x @ self.lora_A.t() @ self.lora_B.t())


def add_lora(model, r=4, alpha=8):
    for p in model.parameters():
        p.requires_grad_(False)
    for layer in model.layers:
        layer.linear1 = LoRALinear(layer.linear1, r, alpha)
        layer.linear2 = LoRALinear(layer.linear2, r, alpha)
    for p in model.classifier.parameters():
        p.requires_grad_(True)


def broadcast_model(model):
    with torch.no_grad():
        for tensor in list(model.parameters()) + list(model.buffers()):
            dist.broadcast(tensor, src=0)


def average_gradients(parameters):
    for p in parameters:
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1234 + rank)

    model = Encoder()
    broadcast_model(model)
    add_lora(model)  # @fault
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=5e-3)

    for step in range(40):
        label = torch.randint(0, 4, (32,))
        tokens = torch.randint(0, 20, (32, 10)) + 10 * label[:, None]
        loss = F.cross_entropy(model(tokens), label)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(trainable)
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
