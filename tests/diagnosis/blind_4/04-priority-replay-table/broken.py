import torch
import torch.nn as nn

torch.manual_seed(5)
CAPACITY, BATCH = 12000, 256


class PrioritizedReplay:
    def __init__(self, states, returns, alpha=0.5):
        self.states, self.returns, self.alpha = states, returns, alpha
        self.priority = torch.ones(states.numel(), dtype=torch.bfloat16)  # @fault

    def sample(self, n):
        cdf = torch.cumsum(self.priority, dim=0)
        u = torch.rand(n) * cdf[-1].float()
        idx = torch.searchsorted(cdf.float(), u).clamp_(max=self.states.numel() - 1)
        return idx, self.states[idx], self.returns[idx]

    def refresh(self, idx, td_error):
        self.priority[idx] = (td_error.abs() + 0.05).pow(self.alpha).to(self.priority.dtype)


class StateValues(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.table = nn.Embedding(n, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, s):
        return self.head(self.table(s)).squeeze(-1)


states = torch.arange(CAPACITY)
returns = torch.sin(states * 0.7) * 2.0 + torch.randn(CAPACITY)
memory = PrioritizedReplay(states, returns)
net = StateValues(CAPACITY)
opt = torch.optim.Adam(net.parameters(), lr=0.03)

for step in range(500):
    idx, s, g = memory.sample(BATCH)
    pred = net(s)
    td = g - pred
    loss = td.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    memory.refresh(idx, td.detach())
    if step % 50 == 0:
        print(f"update {step} sampled loss {loss.item():.4f}")

with torch.no_grad():
    mse = (net(states) - returns).pow(2).mean()
print(f"mse over the whole memory {mse.item():.4f}")
