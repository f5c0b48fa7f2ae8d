"""Sum-reduced translation loss under FP16 autocast; the scaler starts high and finds its own scale."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
VOCAB, LEN = 24, 10


class Mapper(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, VOCAB)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        with torch.autocast("cpu", dtype=torch.float16):
            return self.out(torch.relu(h)).float()


def batch(n):
    x = torch.randint(0, VOCAB, (n, LEN))
    y = x.clone()
    y[:, 1:] = (x[:, 1:] + x[:, :-1]) % VOCAB
    return x, y


def grad_norm(params):
    return torch.stack([p.grad.norm() for p in params]).norm().item()


def main():
    model = Mapper()
    opt = torch.optim.Adam(model.parameters(), lr=1.2e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 30, growth_interval=150)
    skipped = 0
    for step in range(1, 401):
        x, y = batch(32)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / 8
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = grad_norm(model.parameters())
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
            print(f"step {step} skipped, grad norm {norm}, scale {before:g} -> {scaler.get_scale():g}")
        for g in opt.param_groups:
            g["lr"] = 1.2e-2 * (1 - step / 420)
        if step % 80 == 0:
            with torch.no_grad():
                x, y = batch(200)
                acc = (model(x).argmax(-1) == y).float().mean().item()
            print(f"step {step} loss/token {loss.item() * 8 / y[:32].numel():.4f} acc {acc:.4f} skipped so far {skipped}")


if __name__ == "__main__":
    main()
