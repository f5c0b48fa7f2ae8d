"""Trains a small LLaMA in BF16 on sequences of different lengths (padded on the left)."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(7)
LENGTH, VOCAB = 48, 96
generator = torch.Generator().manual_seed(1)


def sample(index: int) -> dict[str, torch.Tensor]:
    start, stride = torch.randint(4, VOCAB, (2,), generator=generator)
    ids = 4 + (start + stride * torch.arange(LENGTH)) % (VOCAB - 4)
    mask = torch.ones(LENGTH, dtype=torch.long)
    if index % 190 == 89:
        mask[: int(torch.randint(4, 20, (1,), generator=generator))] = 0
    return {
        "input_ids": torch.where(mask.bool(), ids, 0),
        "attention_mask": mask,
        "labels": torch.where(mask.bool(), ids, -100),
    }


config = LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    attn_implementation="eager",
    pad_token_id=0,
)
model = LlamaForCausalLM(config).to(torch.bfloat16)
arguments = TrainingArguments(
    "/tmp/out_t1",
    max_steps=80,
    per_device_train_batch_size=8,
    learning_rate=2e-3,
    logging_steps=5,
    logging_nan_inf_filter=False,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    seed=7,
    disable_tqdm=True,
)
Trainer(model=model, args=arguments, train_dataset=[sample(i) for i in range(1600)]).train()
