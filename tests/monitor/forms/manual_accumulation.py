"""Updates by hand, one for two backward passes. Fault: a division by zero in step 4."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
model = Net()
for step in range(6):
    total = torch.zeros(())
    for part in range(2):
        x, y = batch(2 * step + part)
        output = model(x)
        loss = (output - y).pow(2).mean() / 2
        if step == 4 and part == 1:
            loss = loss / (loss.detach() - loss.detach())  # @fault
        loss.backward()
        total = total + loss.detach().double()
    say_loss(total)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.05 * parameter.grad
    model.zero_grad()
say_weights(model.parameters())
