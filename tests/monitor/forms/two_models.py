"""A generator and a discriminator, each with its own optimizer."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
maker, judge = Net(8, 8), Net(8, 1)
of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
compare = torch.nn.functional.binary_cross_entropy_with_logits
yes, no = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(6):
    real, _ = batch(step)
    made = maker(torch.randn(16, 8))
    of_judge.zero_grad()
    loss = compare(judge(real), yes) + compare(judge(made.detach()), no)
    loss.backward()
    of_judge.step()
    of_maker.zero_grad()
    loss = compare(judge(made), yes)
    loss.backward()
    say_loss(loss)
    of_maker.step()
say_weights([*maker.parameters(), *judge.parameters()])
