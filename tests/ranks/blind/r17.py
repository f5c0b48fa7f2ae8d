"""ranks: 2

FSDP2 fine-tuning: rank 0 reads the weights, the other ranks receive them when the model is
sharded.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCAB, DIM, HEADS, SEQ = 48, 32, 4, 16


class RotaryEmbedding(nn.Module):
    def __init__(self, head_dim, base=10000.0):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x):
        angle = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * self.inv_freq
        cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(DIM, DIM, bias=False)
        self.k_proj = nn.Linear(DIM, DIM, bias=False)
        self.v_proj = nn.Linear(DIM, DIM, bias=False)
        self.o_proj = nn.Linear(DIM, DIM, bias=False)
        self.rotary_emb = RotaryEmbedding(DIM // HEADS)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (
            p(x).view(b, s, HEADS, -1).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(
            self.rotary_emb(q), self.rotary_emb(k), v, is_causal=True
        )
        return self.o_proj(y.transpose(1, 2).reshape(b, s, d))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(DIM)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.LayerNorm(DIM)
        self.up_proj = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down_proj = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.down_proj(F.silu(self.up_proj(self.post_attention_layernorm(x))))


class CausalLM(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(depth))
        self.norm = nn.LayerNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def load_pretrained(rank):
    """Only rank 0 holds the weights in memory; the others start from an empty shell."""
    if rank == 0:
        torch.manual_seed(44)
        model = CausalLM()
        return model, model.state_dict()
    with torch.device("meta"):
        model = CausalLM()
    model._apply(lambda t: torch.zeros_like(t, device="cpu"))  # @fault
    return model, {}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    model, state = load_pretrained(rank)
    state = {k: v.clone() for k, v in state.items()}
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    set_model_state_dict(
        model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )

    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    data = torch.Generator().manual_seed(45 + rank)

    for step in range(35):
        start = torch.randint(0, VOCAB, (8, 1), generator=data)
        stride = torch.randint(1, 4, (8, 1), generator=data)
        tokens = (start + stride * torch.arange(SEQ + 1)) % VOCAB
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
