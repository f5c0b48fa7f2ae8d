import os
import random
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F

# Letter model of made-up product codes. Training state stays full; samples come from a light file with the average.
torch.manual_seed(5)
rng = random.Random(5)
CHARS = "ABCDEFGH01234567-."
CTX = 6


def code():
    a, b = rng.randrange(8), rng.randrange(8)
    return f"{CHARS[a]}{CHARS[b]}-{a}{(a + b) % 8}."


def valid(s):
    if len(s) != 6 or s[2] != "-" or s[5] != "." or s[0] not in CHARS[:8] or s[1] not in CHARS[:8]:
        return False
    a, b = CHARS.index(s[0]), CHARS.index(s[1])
    return s[3] == str(a) and s[4] == str((a + b) % 8)


IDS = torch.tensor([CHARS.index(c) for _ in range(3000) for c in code()])


class LetterModel(nn.Module):
    def __init__(self, d=16, w=128):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), d)
        self.net = nn.Sequential(nn.Linear(CTX * d, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, len(CHARS)))

    def forward(self, x):
        return self.net(self.emb(x).flatten(1))


@torch.no_grad()
def share_valid(net, n=300):
    x = IDS[:CTX].repeat(n, 1)
    out = []
    for _ in range(6):
        nxt = torch.multinomial(net(x[:, -CTX:]).softmax(-1), 1)
        out.append(nxt)
        x = torch.cat([x, nxt], 1)
    texts = ["".join(CHARS[i] for i in row) for row in torch.cat(out, 1).tolist()]
    return sum(map(valid, texts)) / n, texts[0]


def main():
    net = LetterModel()
    ema = {k: v.clone() for k, v in net.state_dict().items()}
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    with tempfile.TemporaryDirectory() as d:
        light, full = os.path.join(d, "sampler_fp16.pt"), os.path.join(d, "full.pt")
        for step in range(1, 501):
            at = torch.randint(0, len(IDS) - CTX - 1, (128,))
            win = torch.stack([IDS[a:a + CTX + 1] for a in at])
            loss = F.cross_entropy(net(win[:, :CTX]), win[:, CTX])
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for k, v in net.state_dict().items():
                    ema[k].lerp_(v, 0.02)
            if step % 100 == 0:
                torch.save({k: v.half() for k, v in ema.items()}, light)
                torch.save({"net": net.state_dict(), "ema": ema, "opt": opt.state_dict()}, full)
                view = LetterModel()
                view.load_state_dict(torch.load(light))
                share, text = share_valid(view)
                print(f"step {step} loss {loss.item():.4f} valid samples {share:.3f}, e.g. {text}")


main()
