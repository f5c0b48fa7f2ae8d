"""Wide regressor on few noisy rows, FP16 autocast, L2 penalty folded into the gradients by hand."""
import torch
import torch.nn as nn

torch.manual_seed(7)


class Wide(nn.Module):
    def __init__(self, dim=40, hidden=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


@torch.no_grad()
def add_penalty(model, strength):
    for p in model.parameters():
        if p.ndim > 1:
            p.grad.add_(p, alpha=strength)


w_true = torch.zeros(40)
w_true[:4] = torch.tensor([1.0, -1.0, 0.5, 0.8])
train_x, test_x = torch.randn(120, 40), torch.randn(1000, 40)
train_y = train_x @ w_true + 0.5 * torch.randn(120)
test_y = test_x @ w_true

model = Wide()
opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
for step in range(400):
    with torch.autocast("cpu", dtype=torch.float16):
        pred = model(train_x)
    loss = (pred.float() - train_y).pow(2).mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    add_penalty(model, 0.05)
    scaler.step(opt)
    scaler.update()
    if step % 40 == 39:
        with torch.no_grad():
            test = (model(test_x) - test_y).pow(2).mean()
        print(f"step {step + 1} loss {loss.item():.4f} test {test:.4f}")
