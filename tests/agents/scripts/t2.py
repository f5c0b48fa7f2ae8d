"""Trains a small BERT as a masked language model on generated sentences."""

import torch
from tokenizers import Tokenizer, models
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(3)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(20)]
backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend,
    unk_token="[UNK]",
    pad_token="[PAD]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
)
generator = torch.Generator().manual_seed(1)


def sentence() -> dict[str, list[int]]:
    start = int(torch.randint(0, 20, (1,), generator=generator))
    return {"input_ids": [5 + (start + i) % 20 for i in range(32)]}


model = BertForMaskedLM(
    BertConfig(
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
    )
)
arguments = TrainingArguments(
    "/tmp/out_t2",
    max_steps=400,
    per_device_train_batch_size=16,
    learning_rate=2e-3,
    logging_steps=20,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    seed=3,
    disable_tqdm=True,
)
Trainer(
    model=model,
    args=arguments,
    train_dataset=[sentence() for _ in range(4000)],
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
).train()
