import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(37)
EPOCHS, BATCHES = 12, 20


class LeafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 5, stride=2)
        self.fc = nn.Linear(8 * 36, 4)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


patterns = torch.randn(4, 1, 16, 16) * 0.35


def leaves(n):
    y = torch.randint(0, 4, (n,))
    flip = torch.where(torch.rand(n, 1, 1, 1) < 0.5, 1.0, -1.0)
    return patterns[y] * flip + 0.8 * torch.randn(n, 1, 16, 16), y


model = LeafNet()
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=4, gamma=0.3)
for epoch in range(EPOCHS):
    total = 0.0
    for _ in range(BATCHES):
        x, y = leaves(48)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        sched.step()  # @fault
    print(f"epoch {epoch} loss {total / BATCHES:.4f} lr {opt.param_groups[0]['lr']:.2e}")
with torch.no_grad():
    x, y = leaves(2000)
    out = model(x)
print(f"test loss {F.cross_entropy(out, y).item():.4f} accuracy {(out.argmax(1) == y).float().mean().item():.4f}")
