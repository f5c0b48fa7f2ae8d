"""Nothing is wrong here, though it looks it: scale too high at first, a frozen body, zero-initialised heads, a negative likelihood."""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, d=20, h=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU()
        ).requires_grad_(False)
        self.adapter = nn.Sequential(nn.Linear(h, 32), nn.ReLU(), nn.Linear(32, h))
        nn.init.zeros_(self.adapter[2].weight)
        nn.init.zeros_(self.adapter[2].bias)
        self.mean, self.log_var = nn.Linear(h, 1), nn.Linear(h, 1)
        for head in (self.mean, self.log_var):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, x):
        h = self.body(x)
        h = h + self.adapter(h)
        return self.mean(h).float().squeeze(-1), self.log_var(h).float().squeeze(-1)


def main():
    torch.manual_seed(0)
    w = torch.randn(20) / 20**0.5
    model = Net()
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=150)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1500)
    for step in range(1500):
        x = torch.randn(128, 20)
        y = 0.3 * torch.tanh(x @ w) + 0.02 * torch.randn(128)
        with torch.autocast("cpu", dtype=torch.float16):
            mean, log_var = model(x)
            loss = (0.5 * log_var + 0.5 * (y - mean) ** 2 * torch.exp(-log_var)).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        if step % 150 == 0:
            print(f"step {step} nll {loss.item():.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
