"""The optimizer is a class of the program. Fault: the gradient of a root at zero."""

import torch
from common import Net, batch, say_loss, say_weights


class Lion:
    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), lr
        self.averages = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, average in zip(self.parameters, self.averages, strict=True):
            p.sub_(torch.sign(0.9 * average + 0.1 * p.grad) * self.lr)
            average.mul_(0.99).add_(p.grad, alpha=0.01)


torch.manual_seed(0)
model = Net()
optimizer = Lion(model.parameters(), lr=1e-3)
for step in range(8):
    x, y = batch(step)
    output = model(x)
    loss = (output - y).pow(2).mean()
    if step == 3:
        loss = loss + torch.sqrt((output - output.detach()).pow(2)).mean()  # @fault
    optimizer.zero_grad()
    loss.backward()
    say_loss(loss)
    optimizer.step()
say_weights(model.parameters())
