"""Hidden Markov model of machine modes, fitted by gradient on sequence likelihood."""
import torch
from torch import nn

torch.manual_seed(12)
K, V, T = 3, 8, 96


def simulate(n, gen):
    a = torch.tensor([[.92, .05, .03], [.04, .90, .06], [.05, .05, .90]])
    b = torch.tensor([[.40, .30, .10, .05, .05, .04, .03, .03],
                      [.03, .04, .05, .38, .35, .05, .05, .05],
                      [.05, .03, .04, .03, .05, .05, .40, .35]])
    z = torch.randint(K, (n,), generator=gen)
    out = []
    for _ in range(T):
        out.append(torch.multinomial(b[z], 1, generator=gen).squeeze(1))
        z = torch.multinomial(a[z], 1, generator=gen).squeeze(1)
    return torch.stack(out, 1)


class HMM(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(K))
        self.trans = nn.Parameter(torch.randn(K, K) * 0.3 + torch.eye(K))
        self.emit = nn.Parameter(torch.randn(K, V) * 0.5)

    def log_likelihood(self, obs):
        pi = self.start.softmax(0)
        a = self.trans.softmax(1)
        like = self.emit.softmax(1).T[obs]          # n, T, K
        alpha, logz = pi * like[:, 0], 0.0
        for t in range(1, obs.shape[1]):
            alpha = (alpha @ a) * like[:, t]
            c = torch.ones(len(obs), 1)  # @fault
            alpha = alpha / c
            logz = logz + c.log().squeeze(1)
        return logz + alpha.sum(1).clamp_min(torch.finfo(alpha.dtype).tiny).log()

    @torch.no_grad()
    def perplexity(self, obs):
        """Symbol perplexity, computed with log-sum-exp."""
        la, lb = self.trans.log_softmax(1), self.emit.log_softmax(1).T
        f = self.start.log_softmax(0) + lb[obs[:, 0]]
        for t in range(1, obs.shape[1]):
            f = torch.logsumexp(f[:, :, None] + la, 1) + lb[obs[:, t]]
        return (-torch.logsumexp(f, 1).mean() / obs.shape[1]).exp().item()


def main():
    gen = torch.Generator().manual_seed(3)
    train, test = simulate(512, gen), simulate(128, gen)
    model = HMM()
    opt = torch.optim.Adam(model.parameters(), lr=5e-2)
    for it in range(200):
        obs = train[torch.randint(512, (48,), generator=gen)]
        loss = -model.log_likelihood(obs).mean() / T
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 40 == 0 or it == 199:
            print(f"it {it}  nll/symbol {loss.item():.4f}  test perplexity {model.perplexity(test):.4f}")
    print("test perplexity", round(model.perplexity(test), 4))


if __name__ == "__main__":
    main()
