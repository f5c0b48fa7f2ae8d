"""Neither module nor optimizer. Fault: an exponential that overflows in step 5."""

import torch
from common import batch, say_loss, say_weights

torch.manual_seed(0)
weight = (torch.randn(8, 1) * 0.1).requires_grad_()
bias = torch.zeros(1, requires_grad=True)
for step in range(8):
    x, y = batch(step)
    output = x @ weight + bias
    if step == 5:
        output = torch.exp(output + 100) - torch.exp(output + 100)  # @fault
    loss = (output - y).pow(2).mean()
    loss.backward()
    say_loss(loss)
    with torch.no_grad():
        for each in (weight, bias):
            each -= 0.1 * each.grad
            each.grad.zero_()
say_weights([weight, bias])
