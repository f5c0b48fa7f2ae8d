"""Fine-tunes a small LLaMA on the answers of generated conversations (not on the questions)."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(11)
LENGTH, VOCAB = 40, 80
generator = torch.Generator().manual_seed(1)


def conversation() -> dict[str, torch.Tensor]:
    start, stride = torch.randint(0, VOCAB, (2,), generator=generator)
    ids = (start + stride * torch.arange(LENGTH)) % VOCAB
    labels = ids.clone()
    question = int(torch.randint(8, 30, (1,), generator=generator))
    if float(torch.rand((), generator=generator)) < 0.1:
        question = LENGTH  # cut off before the answer
    labels[:question] = -100
    return {
        "input_ids": ids,
        "attention_mask": torch.ones(LENGTH, dtype=torch.long),
        "labels": labels,
    }


config = LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
)
arguments = TrainingArguments(
    "/tmp/out_t3",
    max_steps=60,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=4,
    learning_rate=1e-3,
    logging_steps=5,
    logging_nan_inf_filter=False,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    seed=11,
    disable_tqdm=True,
)
Trainer(
    model=LlamaForCausalLM(config),
    args=arguments,
    train_dataset=[conversation() for _ in range(1200)],
).train()
