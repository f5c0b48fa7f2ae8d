import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 8)
).to(torch.bfloat16)
opt = torch.optim.AdamW(net.parameters(), lr=2e-5, weight_decay=0.0)
proj = torch.randn(32, 8)
for step in range(150):
    x = torch.randn(64, 32)
    y = (x @ proj).argmax(1)
    loss = nn.functional.cross_entropy(net(x.bfloat16()).float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()  # @fault
