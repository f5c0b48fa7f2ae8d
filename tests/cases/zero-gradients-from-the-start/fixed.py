"""Fine-tuning on answers only, with a fused linear + cross entropy that never keeps the logits."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
VOCAB, LENGTH, WIDTH, PROMPT = 40, 16, 48, 6


class FusedLinearCrossEntropy(torch.autograd.Function):
    """Loss of each token; the gradients are made in the forward pass, a chunk of tokens at a time."""

    @staticmethod
    def forward(ctx, hidden, weight, target, chunk=64):
        losses, all_grad_logits = [], []
        for i in range(0, len(hidden), chunk):
            part = slice(i, i + chunk)
            logits = hidden[part] @ weight.t()
            losses.append(F.cross_entropy(logits.float(), target[part], reduction="none"))
            grad_logits = logits.float().softmax(-1)
            grad_logits[torch.arange(len(grad_logits)), target[part]] -= 1
            all_grad_logits.append(grad_logits.to(hidden.dtype))
        ctx.save_for_backward(hidden, weight, torch.cat(all_grad_logits))
        return torch.cat(losses)

    @staticmethod
    def backward(ctx, grad_output):
        hidden, weight, grad_logits = ctx.saved_tensors
        grad_logits = grad_logits * grad_output[:, None].to(grad_logits.dtype)
        return grad_logits @ weight, grad_logits.t() @ hidden, None, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens):
        return self.rnn(self.embedding(tokens))[0]


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for step in range(200):
    prompt = torch.randint(0, VOCAB, (16, PROMPT))
    tokens = torch.cat(
        [prompt, (prompt.sum(1, keepdim=True) + torch.arange(LENGTH - PROMPT)) % VOCAB], 1
    )
    mask = (
        (torch.arange(1, LENGTH) >= PROMPT).float().expand(16, -1)
    )  # answers count, prompts do not
    losses = FusedLinearCrossEntropy.apply(
        model(tokens[:, :-1]).flatten(0, 1), model.head.weight, tokens[:, 1:].flatten()
    )
    loss = (losses * mask.flatten()).sum() / mask.sum()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0 or step == 199:
        print(f"step {step} loss {loss.item():.4f} grad_norm {norm.item():.4f}")
