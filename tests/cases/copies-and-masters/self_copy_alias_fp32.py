import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
master = [
    p.detach().float().requires_grad_() for p in model.parameters()
]  # fp32 already: the same memory
optimizer = torch.optim.Adam(master, lr=3e-3)
t = torch.randn(16, 1) / 4
for step in range(300):
    x = torch.randn(64, 16)
    loss = (model(x) - x @ t).square().mean()
    loss.backward()
    for m, p in zip(master, model.parameters()):
        m.grad, p.grad = p.grad.float(), None
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(master, model.parameters()):
            p.copy_(m)
    if step % 100 == 0:
        print(step, loss.item())
