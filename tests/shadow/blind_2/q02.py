"""Topic classification of short token lists with mixed precision and gradient clipping."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)

AMP = not os.environ.get("REF")
VOCAB, TOPICS, LENGTH, STEPS = 200, 8, 12, 120

topic_words = torch.randn(TOPICS, VOCAB).mul(1.5).softmax(1)


def documents(n):
    label = torch.randint(TOPICS, (n,))
    tokens = torch.multinomial(topic_words[label], LENGTH, replacement=True)
    return tokens, label


class TopicModel(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, TOPICS)

    def forward(self, tokens):
        x = self.embedding(tokens).mean(1)
        x = F.relu(self.hidden(x))
        return self.head(x)


model = TopicModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)

for step in range(STEPS):
    tokens, label = documents(64)
    with torch.autocast("cpu", dtype=torch.float16, enabled=AMP):
        logits = model(tokens)
    loss = F.cross_entropy(logits.float(), label)

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # @fault
    scaler.step(optimizer)  # @fault
    scaler.update()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():.0f}")

with torch.no_grad():
    tokens, label = documents(1000)
    logits = model(tokens)
    accuracy = (logits.argmax(1) == label).float().mean().item()
print(f"final loss {F.cross_entropy(logits, label).item():.4f} accuracy {accuracy:.3f}")
