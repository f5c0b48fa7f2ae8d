import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(39)
NOTES, LEN = 16, 24
table = torch.randn(NOTES, NOTES) * 2.5


def melodies(n):
    seq = torch.zeros(n, LEN + 1, dtype=torch.long)
    seq[:, 0] = torch.randint(0, NOTES, (n,))
    for t in range(LEN):
        seq[:, t + 1] = torch.multinomial(F.softmax(table[seq[:, t]], -1), 1).squeeze(1)
    return seq


class NoteGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(NOTES, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, NOTES)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def nll(model, seq):
    logits = model(seq[:, :-1]).float()
    return F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())


model = NoteGRU()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(120):
    seq = melodies(24)
    loss = nll(model, seq)
    loss.backward()  # @fault
    opt.step()
    if step % 12 == 0:
        print(f"step {step} nll {loss.item():.4f}")
with torch.no_grad():
    print(f"validation nll {nll(model, melodies(300)).item():.4f}")
