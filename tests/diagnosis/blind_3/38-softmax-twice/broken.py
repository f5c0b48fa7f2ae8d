"""Gesture classification from six channels with a 1-d convolution."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)
CLASSES = 8
motif = torch.randn(CLASSES, 6, 24)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(6, 16, 5, stride=2), nn.Conv1d(16, 16, 3, stride=2)
        self.out = nn.Linear(16 * 4, CLASSES)

    def forward(self, x):
        x = F.relu(self.b(F.relu(self.a(x))))
        return F.softmax(self.out(x.flatten(1)), dim=-1)  # @fault


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(100):
    y = torch.randint(0, CLASSES, (32,))
    x = 0.6 * motif[y] + torch.randn(32, 6, 24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
    loss = F.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f} accuracy {(logits.argmax(1) == y).float().mean().item():.3f}")
