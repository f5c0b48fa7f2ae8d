"""Keyword spotting on log-mel frames (values about 6 +- 0.3) with a home-made frame normalisation."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
MELS, FRAMES, WORDS = 40, 20, 6
shape = 0.3 * torch.randn(WORDS, MELS)


class FrameNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.gain, self.shift, self.eps = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = ((x * x).mean(-1, keepdim=True) - mean * mean + self.eps).sqrt()  # @fault
        return (x - mean) / std * self.gain + self.shift


model = nn.Sequential(FrameNorm(MELS), nn.Linear(MELS, 64), nn.ReLU(), nn.Linear(64, WORDS))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for step in range(80):
    y = torch.randint(0, WORDS, (32,))
    frames = 6 + shape[y][:, None] + 0.2 * torch.randn(32, FRAMES, MELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(frames.bfloat16()).mean(1)
    loss = F.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 79:
        print(f"step {step} loss {loss.item():.4f}")
