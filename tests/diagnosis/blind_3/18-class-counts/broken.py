"""Imbalanced classification with weights by inverse class frequency."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(13)
CLASSES = 5
frequency = torch.tensor([0.55, 0.3, 0.1, 0.04, 0.01])
centre = torch.randn(CLASSES, 10) * 0.6


def draw(n, p):
    y = torch.multinomial(p, n, replacement=True)
    return centre[y] + torch.randn(n, 10), y


train_x, train_y = draw(12000, frequency)
test_x, test_y = draw(2000, torch.ones(CLASSES) / CLASSES)
dtype = torch.bfloat16
count = torch.zeros(CLASSES, dtype=dtype)
count.index_add_(0, train_y, torch.ones(len(train_y), dtype=dtype))  # @fault
weight = (count.float().sum() / (CLASSES * count.float()))
print("weights", [round(v, 2) for v in weight.tolist()])

model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, CLASSES))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(120):
    pick = torch.randint(0, len(train_y), (256,))
    with torch.autocast("cpu", dtype=dtype):
        logits = model(train_x[pick])
    loss = F.cross_entropy(logits.float(), train_y[pick], weight=weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        with torch.no_grad():
            out = model(test_x)
            print(f"step {step} loss {loss.item():.4f} balanced loss {F.cross_entropy(out, test_y).item():.4f} balanced accuracy {(out.argmax(1) == test_y).float().mean().item():.3f}")
