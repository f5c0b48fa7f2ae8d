"""Linear probe: frozen FP16-autocast body, trained fp32 head, so no scaler is needed. Compiled for speed."""

import torch
import torch._functorch.config
import torch.nn as nn

torch._functorch.config.backward_pass_autocast = "off"  # as in eager mode
torch.manual_seed(0)


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU()
        ).requires_grad_(False)
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        features = self.body(x)
        with torch.autocast("cpu", enabled=False):  # the head in fp32: it predicts millimetres
            return self.head(features.float()).squeeze(-1)


model = Probe()
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.Adam(model.head.parameters(), lr=0.3)
teacher = torch.randn(32)

for step in range(150):
    x = torch.randn(4096, 32)
    y = 100.0 + 40.0 * torch.tanh(x @ teacher / 4)
    with torch.autocast("cpu", dtype=torch.float16):
        prediction = compiled(x)
    loss = nn.functional.mse_loss(prediction, y, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.head.parameters(), 1e12)
    optimizer.step()
    if step % 15 == 0 or step == 149:
        print(f"step {step} loss {loss.item() / len(x):.2f} grad_norm {norm.item():.1f}")
