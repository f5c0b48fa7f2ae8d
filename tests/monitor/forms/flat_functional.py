"""One flat leaf; the module runs with slices of it. Fault: the root of a negative number."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
model = Net()
shapes = {name: p.shape for name, p in model.named_parameters()}
flat = torch.cat([p.detach().flatten() for p in model.parameters()]).requires_grad_()
optimizer = torch.optim.Adam([flat], lr=0.01)
for step in range(8):
    x, y = batch(step)
    parts = torch.split(flat, [shape.numel() for shape in shapes.values()])
    named = {name: part.view(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
    output = torch.func.functional_call(model, named, (x,))
    loss = (output - y).pow(2).mean()
    if step == 4:
        loss = loss + torch.sqrt(output - 100.0).mean()  # @fault
    optimizer.zero_grad()
    loss.backward()
    say_loss(loss)
    optimizer.step()
say_weights([flat])
