"""Node classification with a graph convolution; graph and layers in half precision, FP32 weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
NODES, CLASSES = 100, 3
label = torch.randint(0, CLASSES, (NODES,))
same = label[:, None] == label[None, :]
edge = torch.rand(NODES, NODES) < torch.where(same, 0.16, 0.02)
edge = edge | edge.t()
edge[::25] = False
edge[:, ::25] = False
adjacency = edge.half()
features = torch.randn(NODES, 12) + 0.6 * F.one_hot(label, 12)


def normalise(a, eps=1e-8):
    degree = a.float().sum(1)
    inverse = (degree + eps).rsqrt()
    return inverse[:, None] * a * inverse[None, :]


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.skip = nn.Linear(12, 48), nn.Linear(48, CLASSES), nn.Linear(12, CLASSES)

    def forward(self, x, a):
        h = F.relu(a @ self.first(x))
        return a @ self.second(h) + self.skip(x)


model = GCN()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
train = torch.rand(NODES) < 0.5
for step in range(60):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(features, normalise(adjacency))
        loss = F.cross_entropy(logits.float()[train], label[train])
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0 or step == 59:
        accuracy = (logits.argmax(1) == label)[~train].float().mean().item()
        print(f"step {step} loss {loss.item():.4f} held out {accuracy:.3f}")
