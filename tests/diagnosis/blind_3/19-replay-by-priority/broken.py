"""Training from a buffer with samples drawn in proportion to their priority."""
import torch
import torch.nn as nn

torch.manual_seed(14)
w = torch.randn(24, 1) / 5
buffer_x = torch.randn(4000, 24)
buffer_y = buffer_x @ w + 0.5 * torch.randn(4000, 1)
test_x = torch.randn(1000, 24)
test_y = test_x @ w
priority = (0.5 + torch.rand(4000)).bfloat16()  # @fault
drawn = torch.zeros(4000, dtype=torch.bool)


def sample(n):
    total = priority.cumsum(0)
    index = torch.searchsorted(total.float(), torch.rand(n) * total[-1].float()).clamp(max=3999)
    drawn[index] = True
    return index


net = nn.Sequential(nn.Linear(24, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(120):
    index = sample(128)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = net(buffer_x[index])
    loss = (prediction.float() - buffer_y[index]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        with torch.no_grad():
            test = (net(test_x) - test_y).pow(2).mean().item()
        print(f"step {step} loss {loss.item():.4f} test {test:.4f} samples seen {drawn.sum().item()}")
