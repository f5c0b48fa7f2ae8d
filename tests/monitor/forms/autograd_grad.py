"""torch.autograd.grad and updates by hand: no .grad anywhere. Fault: the logarithm of zero."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
model = Net()
weights = list(model.parameters())
for step in range(8):
    x, y = batch(step)
    output = model(x)
    loss = (output - y).pow(2).mean()
    if step == 6:
        loss = loss + torch.log(output.detach() * 0).mean()  # @fault
    gradients = torch.autograd.grad(loss, weights)
    say_loss(loss)
    with torch.no_grad():
        for each, gradient in zip(weights, gradients, strict=True):
            each -= 0.05 * gradient
say_weights(weights)
