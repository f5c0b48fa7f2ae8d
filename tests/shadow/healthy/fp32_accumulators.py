"""BF16 weights whose micro-batch gradients are accumulated and clipped in FP32."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(19)
REF = bool(os.environ.get("REF"))
DTYPE = torch.float32 if REF else torch.bfloat16
MICRO, STEPS = 4, 80


def lr_factor(step):
    return min(step / 8, (STEPS - step) / (STEPS - 8))


def main():
    teacher = torch.randn(20, 3)
    inputs = torch.randn(768, 20)
    labels = (inputs @ teacher).argmax(-1)
    model = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 3))
    masters = [p.detach().clone() for p in model.parameters()]
    model.to(DTYPE)
    sums = [torch.empty_like(m) for m in masters]
    optimizer = torch.optim.SGD(masters, lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_factor)
    tail = []
    for step in range(STEPS):
        for total in sums:
            total.zero_()
        mean = 0.0
        for _ in range(MICRO):
            rows = torch.randint(0, 768, (32,))
            logits = model(inputs[rows].to(DTYPE)).float()
            loss = nn.functional.cross_entropy(logits, labels[rows])
            model.zero_grad(set_to_none=True)
            loss.backward()
            for total, p in zip(sums, model.parameters(), strict=True):
                total.add_(p.grad.float(), alpha=1 / MICRO)
            mean += loss.item() / MICRO
        for master, total in zip(masters, sums, strict=True):
            master.grad = total
        nn.utils.clip_grad_norm_(masters, 0.5)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for p, master in zip(model.parameters(), masters, strict=True):
                p.copy_(master)
        tail = (tail + [mean])[-10:]
        if step % 16 == 0:
            print(f"step {step} loss {mean:.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
