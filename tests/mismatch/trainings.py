"""Trainings of a small policy whose engine differs from its trainer in one thing:
trainings.py CASE.

GRPO-like: eight prompts, four answers each, rewards by how many even tokens an answer has.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import mpnanny
import torch
from policy import ANSWER, PROMPT, WORDS, Engine, Experts, Policy, logprobs, places, sampled


@dataclass
class Case:
    engine: Engine = field(default_factory=Engine)
    trainer: Engine = field(default_factory=Engine)
    sync_every: int = 1  # 0: never
    says_synced: bool = True
    experts: bool = False
    other_weights: float = 0.0  # added to the engine's weights, by their size
    packed: int = 1  # documents a row, in the trainer
    shift: int = 0  # tokens by which the engine's log-probabilities are off
    gives: tuple[str, ...] = ("mask",)
    lr: float = 1e-3
    logprobs_in: torch.dtype | None = None  # the engine's, as they are kept
    low_rows: int = 0  # rows that another engine (of other weights) answers


CASES = {
    # Nothing is wrong.
    "healthy_fp32": Case(),
    "healthy_bf16": Case(engine=Engine(dtype=torch.bfloat16)),
    "healthy_fp16": Case(engine=Engine(dtype=torch.float16), gives=("mask", "positions")),
    "healthy_packed": Case(packed=4, gives=("mask", "positions", "documents")),
    "healthy_packed_bf16": Case(
        engine=Engine(dtype=torch.bfloat16), packed=4, gives=("mask", "positions")
    ),
    "healthy_experts": Case(experts=True, gives=("mask", "experts")),
    # One thing is.
    "head_bf16": Case(engine=Engine(head=torch.bfloat16), gives=("mask", "tokens", "hidden")),
    "head_bf16_unseen": Case(engine=Engine(head=torch.bfloat16)),
    "logprobs_bf16": Case(logprobs_in=torch.bfloat16),
    "stale_4": Case(sync_every=4, gives=("mask", "synced")),
    "stale_4_unsaid": Case(sync_every=4),
    "never_synced": Case(sync_every=0),
    "documents": Case(
        trainer=Engine(sees_other_documents=True),
        packed=4,
        gives=("mask", "positions", "documents"),
    ),
    "documents_by_positions": Case(
        trainer=Engine(sees_other_documents=True), packed=4, gives=("mask", "positions")
    ),
    "documents_bf16": Case(
        engine=Engine(dtype=torch.bfloat16),
        trainer=Engine(sees_other_documents=True),
        packed=4,
        gives=("mask", "positions", "documents"),
    ),
    "temperature_07": Case(engine=Engine(temperature=0.7)),
    "temperature_12": Case(engine=Engine(temperature=1.2), gives=("mask", "tokens", "hidden")),
    "top_p_09": Case(engine=Engine(top_p=0.9)),
    "top_p_09_seen": Case(engine=Engine(top_p=0.9), gives=("mask", "tokens", "hidden")),
    "theta": Case(engine=Engine(theta=500.0), gives=("mask", "positions")),
    "answer_offset": Case(engine=Engine(answer_offset=1), gives=("mask", "positions")),
    "window": Case(engine=Engine(window=24), gives=("mask", "positions")),
    "softcap": Case(engine=Engine(softcap=5.0), gives=("mask", "tokens", "hidden")),
    "experts": Case(engine=Engine(router_noise=0.01), experts=True, gives=("mask", "experts")),
    "experts_unseen": Case(engine=Engine(router_noise=0.1), experts=True),
    "cache_fp16": Case(engine=Engine(cache=torch.float16)),
    "cache_fp8": Case(engine=Engine(cache=torch.float8_e4m3fn)),
    "weights": Case(other_weights=0.05),
    "shifted": Case(shift=1),
    "rows": Case(other_weights=0.1, low_rows=8),
}


def engine_logprobs(policy, tokens, engine):
    """In the engine's own dtype."""
    positions, documents = places(tokens)
    low = copy.deepcopy(policy).to(engine.dtype)
    chosen = logprobs(low, tokens, positions, documents, engine).float()
    return chosen, low.routes() if isinstance(low.mlp[0], Experts) else None


def packed(tokens, per_row):
    """Documents behind each other in a row, with positions that begin anew."""
    rows = tokens.reshape(-1, per_row * tokens.shape[1])
    positions, _ = places(tokens)
    documents = torch.arange(per_row).repeat_interleave(tokens.shape[1]).expand(rows.shape)
    return rows, positions.reshape(rows.shape), documents


def disturbed(policy, by):
    generator = torch.Generator().manual_seed(9)
    other = copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in other.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(by * parameter.std() * noise if parameter.numel() > 1 else 0)
    return other


def train(case: Case, steps: int, watch: Callable[[Policy], object] = lambda policy: None) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    policy = Policy(experts=case.experts)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=case.lr)
    held = copy.deepcopy(policy)  # before it is watched: hooks would be copied
    watch(policy)
    for step in range(steps):
        synced = step > 0 and case.sync_every > 0 and step % case.sync_every == 0
        if synced:
            held.load_state_dict(policy.state_dict())
        answering = disturbed(held, case.other_weights) if case.other_weights else held
        prompts = torch.randint(WORDS, (8, PROMPT), generator=generator).repeat_interleave(4, 0)
        low = copy.deepcopy(answering).to(case.engine.dtype)
        tokens = sampled(low, case.engine, prompts, generator)
        with torch.no_grad():
            rollout, routes = engine_logprobs(answering, tokens, case.engine)
            if case.low_rows:
                right, _ = engine_logprobs(held, tokens, case.engine)
                rollout = torch.cat([rollout[: case.low_rows], right[case.low_rows :]])
        mask = torch.zeros_like(tokens, dtype=torch.bool)
        mask[:, PROMPT:] = True
        rollout = torch.roll(rollout, case.shift, 1)
        if case.logprobs_in:
            rollout = rollout.to(case.logprobs_in).float()
        rows, positions, documents = packed(tokens, case.packed)
        seen = case.trainer
        chosen, hidden = logprobs(policy, rows, positions, documents, seen, hidden=True)
        optional = {
            "mask": mask.reshape(rows.shape),
            "positions": positions,
            "documents": documents,
            "tokens": rows,
            "synced": synced,
        }
        if "hidden" in case.gives:
            optional |= {"hidden": hidden.detach(), "head": policy.head.weight}
        if case.experts:
            optional["experts"] = (policy.routes(), routes.reshape(policy.routes().shape))
        given = {name: optional[name] for name in (*case.gives, "head") if name in optional}
        mpnanny.log_mismatch(chosen, rollout.reshape(rows.shape), step=step, **given)
        reward = (tokens[:, PROMPT:] % 2 == 0).float().mean(1)
        grouped = reward.view(-1, 4)
        advantage = (grouped - grouped.mean(1, keepdim=True)).reshape(-1, 1)
        kept = chosen.reshape(tokens.shape)[:, PROMPT:]
        ratio = (kept - kept.detach()).exp()
        loss = -(ratio * advantage).sum() / ANSWER
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(replace(CASES[sys.argv[1]]), int(sys.argv[2]) if len(sys.argv) > 2 else 12)
