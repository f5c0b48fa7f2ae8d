import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)
SPEAKERS, FEAT = 20, 24
voice = torch.randn(SPEAKERS, FEAT) * 0.8


class SpeakerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEAT, 32), nn.ReLU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, SPEAKERS)

    def forward(self, x):
        return self.head(self.body(x))


def clips(n):
    y = torch.randint(0, SPEAKERS, (n,))
    return voice[y] + 0.7 * torch.randn(n, FEAT), y


model = SpeakerNet()
opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
for step in range(200):
    x, y = clips(64)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # @fault
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    x, y = clips(2000)
    out = model(x)
print(f"test loss {F.cross_entropy(out, y).item():.4f} accuracy {(out.argmax(1) == y).float().mean().item():.4f}")
