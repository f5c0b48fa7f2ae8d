"""Models of transformers: words, sound, words and pictures."""

from __future__ import annotations

from typing import Any

import torch
from library_data import fixed, padding, sentences, waves
from library_parts import Training, adamw, cosine
from torch import Tensor


def tiny(**more: Any) -> dict[str, Any]:
    """What most configurations of transformers have in common."""
    return {
        "vocab_size": 48,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        **more,
    }


# --- text ---


def t5() -> Training:
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.optimization import Adafactor

    config = T5Config(
        vocab_size=48, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0, pad_token_id=0, feed_forward_proj="gated-gelu",
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    optimizer = Adafactor(
        model.parameters(), lr=3e-3, relative_step=False, scale_parameter=True, warmup_init=False
    )

    def loss() -> Tensor:
        words, mask = sentences(8, 16, 48, first=2), padding(8, 16)
        target = words.flip(1)[:, :8].contiguous()
        return model(input_ids=words * mask, attention_mask=mask, labels=target).loss

    return Training(model, [optimizer], loss, clip=1.0)


def llama() -> Training:
    """RoPE, RMSNorm, grouped queries, SDPA; checkpointed, gradients accumulated."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**tiny(num_key_value_heads=2, attn_implementation="sdpa"))
    model = LlamaForCausalLM(config)
    model.gradient_checkpointing_enable()
    optimizer = adamw(model, 3e-3, betas=(0.9, 0.95), weight_decay=0.1)

    def loss() -> Tensor:
        words = sentences(4, 24, 48)
        return model(input_ids=words, labels=words, use_cache=False).loss

    return Training(model, [optimizer], loss, scheduler=cosine(optimizer), clip=1.0, accumulate=2)


def bert() -> Training:
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(**tiny(), attn_implementation="eager"))

    def loss() -> Tensor:
        words, mask = sentences(8, 24, 48, first=2), padding(8, 24)
        hidden = (torch.rand(8, 24) < 0.15) & mask.bool()
        hidden[:, 0] = True
        labels = torch.where(hidden, words, -100)
        return model(
            input_ids=torch.where(hidden, 1, words) * mask, attention_mask=mask, labels=labels
        ).loss

    return Training(model, [adamw(model, 2e-3)], loss)


def gpt2() -> Training:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=48, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = adamw(model, 2e-3)

    def loss() -> Tensor:
        words = sentences(8, 24, 48)
        return model(input_ids=words, labels=words).loss

    return Training(model, [optimizer], loss, scheduler=cosine(optimizer), clip=1.0, blocks=False)


def mamba() -> Training:
    """A selective state space, by the library's path of plain operators."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=48, hidden_size=32, state_size=8, num_hidden_layers=2, time_step_rank=4,
        use_mambapy=False,
    )  # fmt: skip
    model = MambaForCausalLM(config)

    def loss() -> Tensor:
        words = sentences(4, 16, 48)
        return model(input_ids=words, labels=words).loss

    return Training(model, [adamw(model, 2e-3)], loss, clip=1.0)


def mixtral() -> Training:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        **tiny(num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
        output_router_logits=True, router_aux_loss_coef=0.02, attn_implementation="sdpa",
    )  # fmt: skip
    model = MixtralForCausalLM(config)

    def loss() -> Tensor:
        words, mask = sentences(4, 16, 48), padding(4, 16)
        labels = torch.where(mask.bool(), words, -100)
        return model(input_ids=words, attention_mask=mask, labels=labels, use_cache=False).loss

    return Training(model, [adamw(model, 2e-3)], loss, clip=1.0)


def switch() -> Training:
    from transformers import SwitchTransformersConfig, SwitchTransformersForConditionalGeneration

    config = SwitchTransformersConfig(
        vocab_size=48, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, num_experts=4,
        num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, decoder_start_token_id=0,
        pad_token_id=0,
    )  # fmt: skip
    model = SwitchTransformersForConditionalGeneration(config)

    def loss() -> Tensor:
        words = sentences(4, 12, 48, first=2)
        return model(input_ids=words, labels=words.flip(1).contiguous()).loss

    return Training(model, [adamw(model, 2e-3)], loss, clip=1.0)


# --- sound, and two things at once ---


def whisper() -> Training:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=48, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=24, max_target_positions=16, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None,
        dropout=0.1,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)

    def loss() -> Tensor:
        words = sentences(4, 12, 48, first=3)
        sound = fixed(9, 48, 8)[words].repeat_interleave(4, 1).transpose(1, 2)
        return model(input_features=sound + 0.1 * torch.randn_like(sound), labels=words).loss

    return Training(model, [adamw(model, 2e-3)], loss, clip=1.0)


def wav2vec2() -> Training:
    """Convolutions on a waveform, group norm, weight norm, CTC."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        **tiny(vocab_size=8), conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, pad_token_id=0,
        mask_time_prob=0.0, ctc_loss_reduction="mean", ctc_zero_infinity=True, layerdrop=0.0,
    )  # fmt: skip
    model = Wav2Vec2ForCTC(config)

    def loss() -> Tensor:
        sound, label = waves(4, 640)
        return model(input_values=sound, labels=label[:, None].repeat(1, 3) + 1).loss

    return Training(model, [adamw(model, 1e-3)], loss, clip=1.0)


def clip() -> Training:
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig(
        text_config=tiny(
            max_position_embeddings=16, bos_token_id=0, eos_token_id=47, pad_token_id=1
        ),
        vision_config={**tiny(), "image_size": 16, "patch_size": 4},
        projection_dim=32,
    )
    model = CLIPModel(config)
    pictures = fixed(11, 16, 3, 16, 16)

    def loss() -> Tensor:
        which = torch.randperm(16)[:8]
        words = torch.stack([which + 2, which * 2 + 3, torch.full_like(which, 47)], 1)
        pixels = pictures[which] + 0.3 * torch.randn(8, 3, 16, 16)
        return model(input_ids=words, pixel_values=pixels, return_loss=True).loss

    return Training(model, [adamw(model, 1e-3, weight_decay=0.2)], loss)
