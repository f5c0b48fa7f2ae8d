#!/usr/bin/env python3
"""Makes 24 training logs of many frameworks and truth.tsv into a folder: make.py FOLDER."""

import json, math, os, random, sys, datetime as dt

HERE = sys.argv[1]
TRUTH = []


def out(name, lines, verdict, why, raw=False):
    txt = lines if raw else "\n".join(lines) + "\n"
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="") as f:
        f.write(txt)
    n = txt.count("\n")
    assert 60 <= n <= 400, (name, n)
    assert "\t" not in why and "\n" not in why
    TRUTH.append((name, verdict, why))


class Clock:
    def __init__(s, t):
        s.t = dt.datetime.fromisoformat(t)

    def add(s, sec):
        s.t += dt.timedelta(seconds=sec)
        return s

    def f(s, fmt="%Y-%m-%d %H:%M:%S"):
        return s.t.strftime(fmt)

    def ms(s):
        return s.t.strftime("%Y-%m-%d %H:%M:%S,") + "%03d" % (s.t.microsecond // 1000)


def hms(x):
    x = int(x)
    h, m, s = x // 3600, x // 60 % 60, x % 60
    return f"{h}:{m:02d}:{s:02d}" if h else f"{m:02d}:{s:02d}"


def bar(i, n, w=10):
    p = i / n * w
    k = int(p)
    r = int((p - k) * 8)
    s = "█" * k + (" ▏▎▍▌▋▊▉"[r] if k < w and r else "")
    return s.ljust(w)


def tq(i, n, spi, desc="", post="", w=10):
    rate = f"{spi:5.2f}s/it" if spi >= 1 else f"{1 / spi:5.2f}it/s"
    d = desc + ": " if desc else ""
    return f"{d}{int(i / n * 100):3d}%|{bar(i, n, w)}| {i}/{n} [{hms(i * spi)}<{hms((n - i) * spi)}, {rate}{post}]"


def warm_cos(i, peak, warm, total, floor=0.0):
    if i < warm:
        return peak * i / warm
    p = min(1, (i - warm) / (total - warm))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * p))


def warm_lin(i, peak, warm, total):
    return peak * i / warm if i < warm else peak * max(0, total - i) / (total - warm)


# ---------------------------------------------------------------- 1 torchtitan: grad norm grows, then divergence
def f01():
    r = random.Random(101)
    c = Clock("2025-03-11T21:14:02.311")
    L = []
    p = lambda m: L.append(f"[rank0]:[titan] {c.ms()} - root - INFO - {m}")
    L += [
        "+ NGPU=8",
        "+ LOG_RANK=0",
        "+ CONFIG_FILE=./train_configs/llama3_8b.toml",
        "W0311 21:13:48.120000 41877 torch/distributed/run.py:793] *****************************************",
        "W0311 21:13:48.120000 41877 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed.",
        "W0311 21:13:48.120000 41877 torch/distributed/run.py:793] *****************************************",
    ]
    for m in [
        "Starting job: Llama 3 8B training",
        "Building 1-D device mesh with ['dp_shard'], [8]",
        "GPU capacity: NVIDIA H100 80GB HBM3 (0) with 79.10GiB memory",
        "Loading tokenizer from tokenizer.json",
        "Preparing c4 dataset from allenai/c4",
        "Building llama3 8B with ModelArgs(dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, vocab_size=128256, multiple_of=1024, ffn_dim_multiplier=1.3, norm_eps=1e-05, rope_theta=500000, max_seq_len=8192, depth_init=True)",
        "Model llama3 8B size: 8,030,261,248 total parameters",
        "Applied selective activation checkpointing to the model",
        "Compiling each TransformerBlock with torch.compile",
        "Applied FSDP to the model",
        "CUDA memory usage for model: 3.77GiB(4.77%)",
        "Training starts at step 1, with local batch size 1, global batch size 8, sequence length 8192, total steps 1500 (warmup 100)",
    ]:
        c.add(r.uniform(0.1, 6))
        p(m)
    for s in [1] + list(range(10, 1501, 10)):
        c.add(10 * 1.41 + r.uniform(-0.2, 0.4))
        base = 3.55 + 8.7 * math.exp(-s / 95) + 0.75 * math.exp(-s / 500)
        g = (0.62 + 4.5 * math.exp(-s / 60)) * math.exp(r.gauss(0, 0.12))
        if s >= 640:
            g *= math.exp((min(s, 1120) - 640) / 98)
        l = base + r.gauss(0, 0.06)
        if s > 910:
            l += 3.9 * (1 - math.exp(-(s - 910) / 120)) + abs(r.gauss(0, 0.08))
        p(
            f"\x1b[31mstep: {s:2d}  \x1b[32mloss: {l:7.4f}  \x1b[38;2;180;60;0mgrad_norm: {g:8.4f}  \x1b[33mmemory: {42.33 if s == 1 else 50.21:5.2f}GiB({53.52 if s == 1 else 63.48:.2f}%)  \x1b[34mtps: {int(5790 + r.gauss(0, 25)) if s > 1 else 1034:,}  \x1b[36mtflops: {335 + r.gauss(0, 1.5) if s > 1 else 59.87:.2f}  \x1b[35mmfu: {33.9 + r.gauss(0, 0.15) if s > 1 else 6.05:.2f}%\x1b[39m"
        )
        if s % 500 == 0:
            p(f"Saving a full checkpoint at step {s}.")
            c.add(9.4)
            p("Finished saving the checkpoint (or staging if async is enabled) in 9.41 seconds.")
        if s == 50:
            L.append(
                "[rank0]:/opt/conda/lib/python3.11/site-packages/torch/_inductor/lowering.py:1713: UserWarning: Torchinductor does not support code generation for complex operators. Performance may be worse than eager."
            )
    p("Sleeping 2 seconds for other ranks to complete")
    p("Training completed")
    out(
        "run01_torchtitan.log",
        L,
        "broken",
        "Grad norm grows exponentially from about step 640 (0.6 to tens by 1120) while the loss still looks normal; loss leaves its curve after step 910 and settles near 7.5 instead of 3.6: divergence.",
    )


# ---------------------------------------------------------------- 2 deepspeed: OVERFLOW skips settle (healthy)
def f02():
    r = random.Random(102)
    c = Clock("2023-08-04T14:03:11.412")
    L = []
    d = lambda m: L.append(f"[{c.ms()}] [INFO] {m}")
    for m in [
        "[comm.py:637:init_distributed] cdb=None",
        "[comm.py:668:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl",
        "[partition_parameters.py:326:__exit__] finished initializing model with 6.74B parameters",
        "[logging.py:96:log_dist] [Rank 0] DeepSpeed info: version=0.10.0, git-hash=unknown, git-branch=unknown",
        "[logging.py:96:log_dist] [Rank 0] DeepSpeed Flops Profiler Enabled: False",
        "[logging.py:96:log_dist] [Rank 0] Using DeepSpeed Optimizer param name adamw as basic optimizer",
        "[logging.py:96:log_dist] [Rank 0] Creating fp16 ZeRO stage 2 optimizer",
        "[config.py:960:print]   fp16_enabled ................. True",
        "[config.py:960:print]   initial_dynamic_scale ........ 4294967296",
        "[config.py:960:print]   dynamic_loss_scale_args ...... {'init_scale': 4294967296, 'scale_window': 1000, 'delayed_shift': 2, 'min_scale': 1}",
    ]:
        c.add(r.uniform(0.1, 3))
        d(m)
    L.append("***** Running training *****")
    L.append("Beginning of Epoch 1/2, Total Micro Batches 4800")
    scale = 2**32
    skipped = 0
    hyst = True
    since = 0
    for s in range(1, 1201):
        c.add(2.9 + r.uniform(-0.1, 0.3))
        ov = (s <= 18) or s in (433, 811, 812)
        if ov:
            skipped += 1
            if s == 1:
                d(
                    f"[loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, but hysteresis is 2. Reducing hysteresis to 1"
                )
            else:
                d(
                    f"[loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, reducing to {scale // 2}"
                )
                scale //= 2
        if s % 10 == 0:
            lr = warm_cos(max(0, s - skipped), 9.65e-6, 60, 1200)
            l = 1.12 + 0.95 * math.exp(-max(0, s - 18) / 130) + r.gauss(0, 0.05)
            d(
                f"[logging.py:96:log_dist] [Rank 0] step={s}, skipped={skipped}, lr=[{lr!r}, {lr!r}], mom=[(0.9, 0.95), (0.9, 0.95)]"
            )
            if s % 20 == 0:
                d(
                    f"[timer.py:199:stop] epoch=0/micro_step={s * 4}/global_step={s}, RunningAvgSamplesPerSec={10.7 + r.gauss(0, 0.05):.6f}, CurrSamplesPerSec={10.7 + r.gauss(0, 0.3):.6f}, MemAllocated=13.96GB, MaxMemAllocated=31.72GB"
                )
            L.append(f"Epoch: 0, Step: {s}, Rank: 0, loss = {l:.6f}")
        if s in (400, 800, 1200):
            L.append(f"***** Evaluating perplexity, Epoch 1 step {s} *****")
            L.append(
                f"ppl: {math.exp(1.14 + 0.95 * math.exp(-s / 130)):.6f}, loss: {1.14 + 0.95 * math.exp(-s / 130):.6f}"
            )
    out(
        "run02_deepspeed.log",
        L,
        "healthy",
        "18 OVERFLOW skips at steps 1-18 only calibrate the dynamic loss scale from 2^32 to 2^15, with three isolated skips later (433, 811, 812); skipped stays at 21 of 1200, loss and perplexity fall normally.",
    )


# ---------------------------------------------------------------- 3 HF Trainer: loss 0.0, grad_norm nan
def f03():
    r = random.Random(103)
    L = []
    T = 2400
    L += [
        "Loading checkpoint shards: 100%|██████████| 2/2 [00:07<00:00,  3.61s/it]",
        "The model was loaded with use_flash_attention_2=True, which is deprecated and may be removed in a future release.",
        "/home/ubuntu/venv/lib/python3.10/site-packages/peft/tuners/lora/bnb.py:325: UserWarning: Merge lora module to 4-bit linear may get different generations due to rounding errors.",
        "trainable params: 41,943,040 || all params: 7,283,675,136 || trainable%: 0.5758",
        "Using auto half precision backend",
        "***** Running training *****",
        "  Num examples = 38,411",
        "  Num Epochs = 1",
        "  Instantaneous batch size per device = 4",
        "  Total train batch size (w. parallel, distributed & accumulation) = 16",
        "  Gradient Accumulation steps = 4",
        f"  Total optimization steps = {T}",
        "  Number of trainable parameters = 41,943,040",
        "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
    ]
    for s in range(10, 1801, 10):
        lr = warm_lin(s, 2e-4, 72, T)
        ep = round(s / T, 2)
        l = 1.05 + 0.55 * math.exp(-s / 120) + r.gauss(0, 0.04)
        g = round(0.55 * math.exp(r.gauss(0, 0.2)), 16)
        if s < 1130:
            L.append(str({"loss": round(l, 4), "grad_norm": g, "learning_rate": lr, "epoch": ep}))
        elif s == 1130:
            L.append(
                str(
                    {
                        "loss": round(l * 0.83, 4),
                        "grad_norm": float("nan"),
                        "learning_rate": lr,
                        "epoch": ep,
                    }
                )
            )
        else:
            L.append(
                str({"loss": 0.0, "grad_norm": float("nan"), "learning_rate": lr, "epoch": ep})
            )
        if s % 50 == 0:
            L.append(tq(s, T, 3.69))
        if s % 200 == 0:
            ev = float("nan") if s >= 1130 else round(1.08 + 0.5 * math.exp(-s / 140), 16)
            L.append("***** Running Evaluation *****")
            L.append("  Num examples = 500")
            L.append("  Batch size = 8")
            L.append(
                str(
                    {
                        "eval_loss": ev,
                        "eval_runtime": round(31 + r.random(), 4),
                        "eval_samples_per_second": round(16 + r.random() * 0.3, 3),
                        "eval_steps_per_second": round(2 + r.random() * 0.04, 3),
                        "epoch": ep,
                    }
                )
            )
        if s % 600 == 0:
            L.append(f"Saving model checkpoint to ./out-mistral-qlora/checkpoint-{s}")
    L.append("^CTraceback (most recent call last):")
    L.append('  File "/home/ubuntu/sft/train.py", line 171, in <module>')
    L.append("    trainer.train()")
    L.append("KeyboardInterrupt")
    out(
        "run03_hf_trainer.log",
        L,
        "broken",
        "grad_norm becomes nan at the log of step 1130 and the loss is exactly 0.0 from step 1140 on (nan filtered to 0 by the Trainer); eval_loss nan at 1200, 1400, 1600, 1800.",
    )


# ---------------------------------------------------------------- 4 nanoGPT: spike that recovers (healthy)
def f04():
    r = random.Random(104)
    L = [
        "Overriding config with config/train_gpt2.py:",
        "# config for training GPT-2 (124M) down to very nice loss of ~2.85 on 1 node of 8X A100 40GB",
        "wandb_log = True",
        "batch_size = 12",
        "block_size = 1024",
        "gradient_accumulation_steps = 5 * 8",
        "max_iters = 600000",
        "tokens per iteration will be: 491,520",
        "Initializing a new model from scratch",
        "defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)",
        "number of parameters: 123.59M",
        "num decayed parameter tensors: 50, with 124,354,560 parameters",
        "num non-decayed parameter tensors: 25, with 19,200 parameters",
        "using fused AdamW: True",
        "compiling the model... (takes a ~minute)",
        "[W reducer.cpp:1300] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass.",
    ]
    base = lambda i: 3.22 + 4.6 * math.exp(-i / 260) + 3.1 * math.exp(-i / 900)
    for i in range(0, 3001, 10):
        if i % 250 == 0:
            b = base(i) if i else 10.96
            L.append(
                f"step {i}: train loss {b + r.gauss(0, 0.006):.4f}, val loss {b + 0.008 + r.gauss(0, 0.006):.4f}"
            )
            if i:
                L.append("saving checkpoint to out")
        l = base(i) + r.gauss(0, 0.05)
        if 1730 <= i < 1900:
            l += 2.6 * math.exp(-(i - 1730) / 32)
        t = 249.3 + r.gauss(0, 1.3)
        if i % 250 == 0:
            t += 9000 + r.uniform(0, 900)
        L.append(
            f"iter {i}: loss {l:.4f}, time {t:.2f}ms, mfu {-100 if i < 50 else 37.1 + r.gauss(0, 0.15):.2f}%"
        )
    out(
        "run04_nanogpt.log",
        L,
        "healthy",
        "One loss spike at iter 1730 (about 3.7 to 6.3) is back on the curve by about iter 1850; train and val loss at step 2000 and later continue to fall.",
    )


# ---------------------------------------------------------------- 5 ultralytics: val nan, train fine
def ultra(r, E, padded, hook):
    cols = [
        "epoch",
        "time",
        "train/box_loss",
        "train/cls_loss",
        "train/dfl_loss",
        "metrics/precision(B)",
        "metrics/recall(B)",
        "metrics/mAP50(B)",
        "metrics/mAP50-95(B)",
        "val/box_loss",
        "val/cls_loss",
        "val/dfl_loss",
        "lr/pg0",
        "lr/pg1",
        "lr/pg2",
    ]
    if padded:
        cols.remove("time")
    L = [",".join(x.rjust(23) for x in cols) if padded else ",".join(cols)]
    t = 0
    for e in range(1, E + 1):
        t += 41.7 + r.gauss(0, 0.6)
        k = 1 - math.exp(-e / 22)
        v = dict(
            zip(
                ["tb", "tc", "td"],
                [
                    1.02 + 0.95 * math.exp(-e / 30) + r.gauss(0, 0.015),
                    0.68 + 2.3 * math.exp(-e / 14) + r.gauss(0, 0.02),
                    1.05 + 0.5 * math.exp(-e / 20) + r.gauss(0, 0.008),
                ],
            )
        )
        v.update(
            p=max(0, 0.78 * k + r.gauss(0, 0.02)),
            rc=max(0, 0.69 * k + r.gauss(0, 0.02)),
            m=max(0, 0.74 * k + r.gauss(0, 0.012)),
            mm=max(0, 0.49 * k + r.gauss(0, 0.008)),
            vb=1.15 + 0.8 * math.exp(-e / 28) + r.gauss(0, 0.012),
            vc=0.79 + 1.9 * math.exp(-e / 14) + r.gauss(0, 0.02),
            vd=1.12 + 0.45 * math.exp(-e / 20) + r.gauss(0, 0.008),
        )
        lrf = (1 - e / E) * 0.99 + 0.01
        lr = 0.01 * lrf
        wu = min(1, e / 3)
        l0 = (0.07 + (lr - 0.07) * wu) if e < 3 else lr
        hook(e, v)
        row = (
            [e]
            + ([] if padded else [t])
            + [v[x] for x in ("tb", "tc", "td", "p", "rc", "m", "mm", "vb", "vc", "vd")]
            + [l0, lr * wu, lr * wu]
        )
        s = [f"{x:d}" if isinstance(x, int) else ("nan" if x != x else f"{x:.5g}") for x in row]
        L.append(",".join(x.rjust(23) for x in s) if padded else ",".join(s))
    return L


def f05():
    def hook(e, v):
        if e >= 41:
            for k in ("vb", "vc", "vd"):
                v[k] = float("nan")
            for k in ("p", "rc", "m", "mm"):
                v[k] = 0.0

    out(
        "run05_ultralytics_results.csv",
        ultra(random.Random(105), 120, False, hook),
        "broken",
        "val/box_loss, val/cls_loss and val/dfl_loss are nan from epoch 41 to the end and all metrics fall to 0 there, while the train losses go on decreasing (NaN only in the evaluated/EMA FP16 model).",
    )


# ---------------------------------------------------------------- 6 TRL GRPO: noisy, loss starts 0.0 (healthy)
def f06():
    r = random.Random(106)
    T = 500
    L = [
        "INFO 02-19 08:41:12 __init__.py:190] Automatically detected platform cuda.",
        "2025-02-19 08:41:16 - WARNING - __main__ - Process rank: 0, device: cuda:0, n_gpu: 1 distributed training: True, 16-bits training: False",
        "Sliding Window Attention is enabled but not implemented for `sdpa`; unexpected results may be encountered.",
        "[rank0]:[W219 08:41:50.114 reducer.cpp:1400] Warning: find_unused_parameters=True was specified in DDP constructor",
        "wandb: Run data is saved locally in /data/grpo/wandb/run-20250219_084201-r3k1v9",
        f"  0%|          | 0/{T} [00:00<?, ?it/s]",
    ]
    for s in range(1, 401):
        if s > 5 and s % 2:
            continue
        acc = min(0.98, max(0.0, 0.18 + 0.55 * (1 - math.exp(-s / 140)) + r.gauss(0, 0.11)))
        fmt = min(1.0, max(0.0, 1 - 0.9 * math.exp(-s / 40) + r.gauss(0, 0.04)))
        std = abs(r.gauss(0.42, 0.1))
        kl = 0.0 if s == 1 else abs(0.00035 * s**0.85 + r.gauss(0, 0.004))
        g = 0.35 * math.exp(r.gauss(0, 0.5))
        l = 0.04 * kl
        if s in (26, 174, 318):
            std = 0.0
            g = round(abs(r.gauss(0.003, 0.001)), 6)
        if s in (120, 288):
            g *= 14
            kl += 0.9
            l = 0.04 * kl
        d = {
            "loss": round(l, 4) if s > 1 else 0.0,
            "grad_norm": round(g, 10),
            "learning_rate": warm_cos(s, 1e-6, 50, T),
            "completion_length": round(310 + 0.5 * s + r.gauss(0, 45), 4),
            "rewards/accuracy_reward": round(acc, 4),
            "rewards/format_reward": round(fmt, 4),
            "reward": round(acc + fmt, 4),
            "reward_std": round(std, 6),
            "kl": round(kl, 6),
            "clip_ratio": 0.0,
            "epoch": round(s / T, 3),
        }
        L.append(str(d))
        if s % 50 == 0:
            L.append(tq(s, T, 22.4))
            L.append(
                str(
                    {
                        "eval_loss": round(0.04 * 0.00035 * s**0.85, 6),
                        "eval_rewards/accuracy_reward": round(
                            0.18 + 0.55 * (1 - math.exp(-s / 140)) + r.gauss(0, 0.012), 4
                        ),
                        "eval_runtime": round(211 + r.random() * 5, 2),
                        "epoch": round(s / T, 3),
                    }
                )
            )
        if s % 100 == 0:
            L.append(
                "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
            )
    out(
        "run06_trl_grpo.log",
        L,
        "healthy",
        "GRPO: loss 0.0 at step 1 and tiny positive values later are by construction (beta*kl), near-zero grad_norm at steps 26, 174, 318 goes with reward_std 0, kl blips at 120 and 288 pass; accuracy reward and eval accuracy rise through step 400.",
    )


# ---------------------------------------------------------------- 7 fairseq: loss-scale collapse
def f07():
    r = random.Random(107)
    c = Clock("2022-06-14T01:02:09")
    L = []
    p = lambda who, m: L.append(f"{c.f()} | INFO | {who} | {m}")
    for w, m in [
        ("fairseq.distributed.utils", "distributed init (rank 0): tcp://localhost:17319"),
        ("fairseq_cli.train", "task: TranslationTask"),
        ("fairseq_cli.train", "model: TransformerModel"),
        ("fairseq_cli.train", "criterion: LabelSmoothedCrossEntropyCriterion"),
        ("fairseq_cli.train", "num. shared model params: 209,911,808 (num. trained: 209,911,808)"),
        (
            "fairseq.utils",
            "rank   0: capabilities =  7.0  ; total memory = 31.749 GB ; name = Tesla V100-SXM2-32GB",
        ),
        ("fairseq_cli.train", "training on 4 devices (GPUs/TPUs)"),
        ("fairseq_cli.train", "max tokens per device = 5120 and max sentences per device = None"),
        ("fairseq.trainer", "No existing checkpoint found checkpoints/wmt_big/checkpoint_last.pt"),
        ("fairseq.trainer", "loading train data for epoch 1"),
        ("fairseq.optim.adam", "using FusedAdam"),
    ]:
        c.add(r.uniform(0, 4))
        p(w, m)
    per = 1203
    ls = 128.0
    wall = 0
    first_ov = 0
    ovs = {
        3: 64.0,
        40: 32.0,
        1611: 32.0,
        3020: 32.0,
        6480: 8.0,
        6661: 4.0,
        6702: 2.0,
        6790: 1.0,
        6811: 0.5,
        6850: 0.25,
        6866: 0.125,
    }
    n = 0
    while n < 6890:
        n += 1
        wall += 0.62
        c.add(0.62)
        ep = (n - 1) // per + 1
        k = (n - 1) % per + 1
        if n in ovs:
            ls = ovs[n]
            p(
                "fairseq.trainer",
                f"NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: {ls}",
            )
        if n in (1500,):
            ls = 64.0
        if n in (2900,):
            ls = 64.0
        if n == 4500:
            ls = 16.0
            p(
                "fairseq.trainer",
                "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 16.0",
            )
        if n % 50 == 0:
            nll = 3.6 + 9.4 * math.exp(-n / 700) + r.gauss(0, 0.05)
            g = (0.7 + 2.5 * math.exp(-n / 500)) * math.exp(r.gauss(0, 0.12))
            if n > 6400:
                nll += (n - 6400) / 300
                g *= math.exp((n - 6400) / 105)
            loss = nll * 0.93 + 1.75
            lr = 7e-4 * (n / 4000 if n < 4000 else math.sqrt(4000 / n))
            p(
                "train_inner",
                f"epoch {ep:03d}:   {k:4d} / {per} loss={loss:.3f}, nll_loss={nll:.3f}, ppl={2**nll:.2f}, wps={32110 + r.gauss(0, 300):.1f}, ups={1.61 + r.gauss(0, 0.01):.2f}, wpb={19944 + r.gauss(0, 70):.1f}, bsz={702 + r.gauss(0, 30):.1f}, num_updates={n}, lr={lr:.6g}, gnorm={g:.3f}, clip={100 if g > 1 else 8:.0f}, loss_scale={ls:g}, train_wall={31:.0f}, gb_free=19.2, wall={wall:.0f}",
            )
        if k == per:
            v = 3.5 + 9.4 * math.exp(-n / 700)
            p("fairseq_cli.train", 'begin validation on "valid" subset')
            p(
                "valid",
                f"epoch {ep:03d} | valid on 'valid' subset | loss {v * 0.93 + 1.7:.3f} | nll_loss {v:.3f} | ppl {2**v:.2f} | wps 81204.1 | wpb 6904.2 | bsz 240.6 | num_updates {n} | best_loss {v * 0.93 + 1.7:.3f}",
            )
            p(
                "fairseq.checkpoint_utils",
                f"Saved checkpoint checkpoints/wmt_big/checkpoint{ep}.pt (epoch {ep} @ {n} updates, score {v * 0.93 + 1.7:.3f}) (writing took 4.1 seconds)",
            )
    x = 0.125
    while x > 1e-4:
        x /= 2
        c.add(0.4)
        if x > 1e-4:
            p(
                "fairseq.trainer",
                f"NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: {x:g}"
                if x < 0.01
                else f"NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: {x}",
            )
    p("fairseq.nan_detector", "Detected nan/inf grad norm, dumping norms...")
    L += [
        "Traceback (most recent call last):",
        '  File "/opt/conda/bin/fairseq-train", line 8, in <module>',
        "    sys.exit(cli_main())",
        '  File "/src/fairseq/fairseq_cli/train.py", line 528, in cli_main',
        "    distributed_utils.call_main(cfg, main)",
        '  File "/src/fairseq/fairseq/trainer.py", line 879, in train_step',
        "    grad_norm = self.clip_grad_norm(self.cfg.optimization.clip_norm)",
        '  File "/src/fairseq/fairseq/optim/fp16_optimizer.py", line 223, in clip_grad_norm',
        "    self.scaler.check_overflow(grad_norm)",
        '  File "/src/fairseq/fairseq/optim/dynamic_loss_scaler.py", line 61, in check_overflow',
        "    raise FloatingPointError(",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.",
    ]
    out(
        "run07_fairseq.log",
        L,
        "broken",
        "gnorm and loss rise from about num_updates 6400, overflows cut the loss scale 16 to 0.125 between updates 6480 and 6866, then to the minimum with no more updates after 6890: FloatingPointError 'Minimum loss scale reached (0.0001)'.",
    )


# ---------------------------------------------------------------- 8 LLaMA-Factory trainer_log.jsonl: epoch staircase (healthy)
def f08():
    r = random.Random(108)
    T = 1530
    per = 510
    L = []
    lv = [1.31, 0.98, 0.61]
    for s in range(10, T + 1, 10):
        e = min(2, (s - 1) // per)
        l = (
            lv[e]
            + (0.42 * math.exp(-s / 50) if e == 0 else 0)
            + r.gauss(0, 0.11 if e == 0 else 0.09)
        )
        el = s * 4.02
        L.append(
            json.dumps(
                {
                    "current_steps": s,
                    "total_steps": T,
                    "loss": round(l, 4),
                    "lr": warm_cos(s, 1e-4, 153, T),
                    "epoch": round(s / per, 4),
                    "percentage": round(s / T * 100, 2),
                    "elapsed_time": hms(el) if el >= 3600 else "0:" + hms(el),
                    "remaining_time": "0:" + hms((T - s) * 4.02)
                    if (T - s) * 4.02 < 3600
                    else hms((T - s) * 4.02),
                }
            )
        )
        if s % 170 == 0:
            L.append(
                json.dumps(
                    {
                        "current_steps": s,
                        "total_steps": T,
                        "eval_loss": round(
                            [1.36, 1.3, 1.28, 1.26, 1.25, 1.25, 1.27, 1.28, 1.285][s // 170 - 1]
                            + r.gauss(0, 0.003),
                            16,
                        ),
                        "epoch": round(s / per, 4),
                        "percentage": round(s / T * 100, 2),
                        "elapsed_time": hms(el) if el >= 3600 else "0:" + hms(el),
                        "remaining_time": "0:" + hms((T - s) * 4.02)
                        if (T - s) * 4.02 < 3600
                        else hms((T - s) * 4.02),
                    }
                )
            )
    L.append(
        json.dumps(
            {
                "current_steps": T,
                "total_steps": T,
                "epoch": 3.0,
                "percentage": 100.0,
                "elapsed_time": hms(T * 4.02),
                "remaining_time": "0:00:00",
            }
        )
    )
    out(
        "run08_llamafactory_trainer_log.jsonl",
        L,
        "healthy",
        "Training loss drops in steps at the epoch borders 510 and 1020 (1.31 to 0.98 to 0.61), usual for repeated fine-tuning data; eval loss flat with slight overfitting in epoch 3, nothing numeric is wrong.",
    )


# ---------------------------------------------------------------- 9 home-made: pure BF16 plateau
def f09():
    r = random.Random(109)
    T = 3000
    L = [
        "args: Namespace(model='lm-180m', dtype='bfloat16', master_weights=False, opt='adamw', lr=0.0003, min_lr=1e-05, warmup=200, steps=3000, bs=64, ctx=1024, seed=7)",
        "device: NVIDIA RTX 4090, torch 2.2.1+cu121",
        "params: 181.3M (all bf16)",
        "ref run (fp32 weights, autocast): val 3.612@1000 3.304@1500 3.152@2000 3.079@2500 3.043@3000",
        "/home/jo/lm/data.py:44: UserWarning: The given NumPy array is not writable, and PyTorch does not support non-writable tensors.",
        "",
    ]
    f = lambda s: 3.0 + 5.1 * math.exp(-s / 170) + 2.5 * math.exp(-s / 700)
    l0 = f(1400)
    wn = 118.2
    for s in range(0, T + 1, 10):
        lr = warm_cos(s, 3e-4, 200, T, 1e-5)
        base = (
            10.4 + (f(s) - 10.6) * min(1, s / 60)
            if s < 60
            else (f(s) if s < 1300 else l0 + (f(1300) - l0) * math.exp(-(s - 1300) / 60))
        )
        if s <= 1460:
            wn = 118.2 + 22 * (1 - math.exp(-s / 260))
        ch = 0.02 + 41 * math.exp(-max(0, s - 200) / 270) * math.exp(r.gauss(0, 0.03))
        L.append(
            f"Epoch {s // 750} step {s} loss={base + r.gauss(0, 0.035):.4f} lr={lr:.3e} gnorm={(0.55 + 3 * math.exp(-s / 150)) * math.exp(r.gauss(0, 0.1)):.3f} wnorm={wn:.3f} changed={ch:.2f}% tok/s={61.2 + r.gauss(0, 0.6):.1f}k"
        )
        if s % 500 == 0 and s:
            L.append(
                f"  >> eval step {s}: val_loss={(base + 0.012 + r.gauss(0, 0.004)):.4f} ppl={math.exp(base + 0.012):.2f}"
            )
            L.append(f"  >> saved ckpt/lm180m_{s:05d}.pt")
    out(
        "run09_homemade_bf16.log",
        L,
        "broken",
        "From about step 1300-1460 loss (3.34) and val loss (3.35) are flat while lr is still 1.8e-4 and gnorm about 0.55; wnorm is constant to every digit and under 0.5% of the weights change from step 1460: BF16 weights without master copy, updates rounded away (reference 3.04 at 3000).",
    )
    return l0


# ---------------------------------------------------------------- 10 timm: warmup, mixup (healthy)
def f10():
    r = random.Random(110)
    L = [
        "Training with a single process on 1 device (cuda:0).",
        "Model vit_small_patch16_224 created, param count:22050664",
        "Data processing configuration for current model + dataset:",
        "\tinput_size: (3, 224, 224)",
        "\tinterpolation: bicubic",
        "\tmean: (0.5, 0.5, 0.5)",
        "\tstd: (0.5, 0.5, 0.5)",
        "\tcrop_pct: 0.9",
        "AdamW (lr: 0.001) parameters: weight_decay 0.05",
        "Using native Torch AMP. Training in mixed precision.",
        "Scheduled epochs: 30. LR stepped per epoch.",
        "/opt/conda/lib/python3.9/site-packages/torchvision/transforms/functional.py:1603: UserWarning: The default value of the antialias parameter of all the resizing transforms will change from None to True",
    ]
    best = (-1, 0)
    for e in range(30):
        lr = (
            1e-6 + (1e-3 - 1e-6) * e / 5
            if e < 5
            else 1e-5 + 0.5 * (1e-3 - 1e-5) * (1 + math.cos(math.pi * e / 30))
        )
        b = [6.93, 6.72, 6.3, 5.9, 5.6][e] if e < 5 else 3.35 + 2.2 * math.exp(-(e - 5) / 9)
        avg = 0
        n = 0
        for i in (0, 200, 400, 600, 800, 1000, 1200, 1250):
            l = b - 0.05 * i / 1250 + r.gauss(0, 0.02 if e == 0 else 0.18)
            n += 1
            avg += (l - avg) / n
            tm = 0.412 + r.gauss(0, 0.004) if i else 4.9 + r.random()
            ta = tm if not i else 0.412 + 4.6 / (i + 1)
            L.append(
                f"Train: {e} [{i:>4d}/1251 ({100 * i / 1250:>3.0f}%)]  Loss: {l:#.3g} ({avg:#.3g})  Time: {tm:.3f}s, {1024 / tm:>7.2f}/s  ({ta:.3f}s, {1024 / ta:>7.2f}/s)  LR: {lr:.3e}  Data: {0.011 + abs(r.gauss(0, 0.004)):.3f} ({0.015:.3f})"
            )
        a = 0.3 if e == 0 else min(76, 74.5 * (1 - math.exp(-(e + 0.2) / 6.8)))
        vl = 6.9 if e == 0 else 6.9 - 5.85 * (a / 74) ** 0.6
        for i in (0, 48):
            L.append(
                f"Test: [{i:>4d}/48]  Time: {0.31 if i else 3.8:.3f} ({0.502:.3f})  Loss: {vl + r.gauss(0, 0.05):>7.3f} ({vl:>6.3f})  Acc@1: {a + r.gauss(0, 0.6) if e else a:>7.3f} ({a:>7.3f})  Acc@5: {min(93, a * 1.22 + 3 if e else 1.2):>7.3f} ({min(93, a * 1.22 + 3 if e else 1.2):>7.3f})"
            )
        if a > best[1]:
            best = (e, a)
        L.append(
            f"*** Best metric: {best[1]:.3f} (epoch {best[0]})"
            if e == 29
            else "Current checkpoints:\n ('./output/train/vit_small/checkpoint-%d.pth.tar', %.3f)"
            % (e, a)
        )
    out(
        "run10_timm.log",
        L,
        "healthy",
        "Loss near ln(1000) in epoch 0 is the warmup at LR 1e-6; after it train loss falls (mixup keeps it above the test loss) and Acc@1 rises to about 73% at epoch 29.",
    )


# ---------------------------------------------------------------- 11 Lightning CSV: overflow to NaN
def f11():
    r = random.Random(111)
    cols = "epoch,grad_2.0_norm_total,lr-AdamW,step,train_loss,val_acc,val_loss"
    L = [cols]
    per = 800
    for s in range(49, 10001, 50):
        e = s // per
        lr = warm_cos(s, 5e-4, 500, 12000)
        l = 0.42 + 1.9 * math.exp(-s / 900) + r.gauss(0, 0.05)
        g = (0.9 + 2 * math.exp(-s / 400)) * math.exp(r.gauss(0, 0.25))
        if 6599 <= s < 6749:
            g *= 2.2
        gs = f"{g:.6f}"
        lss = f"{l:.16g}"
        if s == 6749:
            gs = "inf"
        if s > 6749:
            gs = lss = "nan"
        if s % 400 == 49:
            L.append(f",,{lr:.12g},{s},,,")
        L.append(f"{e},{gs},,{s},{lss},,")
        if (s + 1) % per == 0:
            bad = s > 6749
            vl = "nan" if bad else f"{0.46 + 1.9 * math.exp(-s / 900) + r.gauss(0, 0.01):.16g}"
            va = (
                "0.09803921729326248"
                if bad
                else f"{0.86 - 0.5 * math.exp(-s / 1100) + r.gauss(0, 0.004):.16g}"
            )
            L.append(f"{e},,,{s},,{va},{vl}")
    out(
        "run11_lightning_metrics.csv",
        L,
        "broken",
        "16-bit run: gradient norm is inf at step 6749, train_loss and grad norm are nan from step 6799 to the end, val_loss nan from step 7199 with val_acc at chance (0.098).",
    )


# ---------------------------------------------------------------- 12 keras VAE with beta annealing (healthy)
def f12():
    r = random.Random(112)
    E = 80
    L = [
        "2024-05-21 10:44:02.771921: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to use available CPU instructions in performance-critical operations.",
        "2024-05-21 10:44:05.118302: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
        "beta: linear 0 -> 4 over epochs 1..41, constant after",
    ]
    for e in range(1, E + 1):
        beta = 4 * min(1, (e - 1) / 40)
        kl = 9 + 34 * math.exp(-beta * 1.1) * (1 - math.exp(-e / 2)) + r.gauss(0, 0.15) - 0.02 * e
        rec = -118 + 62 * math.exp(-e / 6) + 5.5 * beta - 0.12 * max(0, e - 40) + r.gauss(0, 0.4)
        loss = rec + beta * kl
        vr = rec + 1.1 + r.gauss(0, 0.3)
        vk = kl + r.gauss(0, 0.1)
        if e == 1:
            L.append(
                "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
            )
            L.append(
                "I0000 00:00:1716288250.104 2291 device_compiler.h:186] Compiled cluster using XLA!  This line is logged at most once for the lifetime of the process."
            )
        L.append(f"Epoch {e}/{E}")
        L.append(
            f"\x1b[1m469/469\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m{3 if e > 1 else 14}s\x1b[0m {6 if e > 1 else 22}ms/step - beta: {beta:.4f} - kl_loss: {kl:.4f} - loss: {loss:.4f} - reconstruction_loss: {rec:.4f} - val_kl_loss: {vk:.4f} - val_loss: {vr + beta * vk:.4f} - val_reconstruction_loss: {vr:.4f} - learning_rate: {1e-3 if e < 60 else 5e-4:.4e}"
        )
        if e == 59:
            L.append("")
            L.append("Epoch 59: ReduceLROnPlateau reducing learning rate to 0.0005000000237487257.")
    out(
        "run12_keras_vae.log",
        L,
        "healthy",
        "Negative losses are a likelihood, and the total loss that falls to about -82 near epoch 10 and rises to about -62 by epoch 41 follows the announced beta annealing (0 to 4); after epoch 41 the loss falls slowly and val tracks train.",
    )


# ---------------------------------------------------------------- 13 Megatron: LR x100 after resume
def mega(c, it, T, gbs, ms, lr, loss, scale, g, skip=0, nan=0, tf=412 * 2200):
    gs = f" grad norm: {g:.3f} |" if g is not None else ""
    return f" [{c.f()}] iteration {it:8d}/{T:8d} | consumed samples: {it * gbs:12d} | elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): {tf / ms:.1f} | learning rate: {lr:.6E} | global batch size: {gbs:5d} | lm loss: {loss:.6E} | loss scale: {scale:.1f} |{gs} number of skipped iterations: {skip:3d} | number of nan iterations: {nan:3d} |"


def f13():
    r = random.Random(113)
    c = Clock("2024-02-11T03:22:10")
    T = 50000
    L = []
    f = lambda i: 2.061 - 0.00001 * (i - 38000)

    def ev(i, l):
        L.extend(
            [
                "(min, max) time across ranks (ms):",
                f"    evaluate .......................................: ({8120 + r.random() * 9:.2f}, {8131 + r.random() * 9:.2f})",
                "-" * 98,
                f" validation loss at iteration {i} | lm loss value: {l:.6E} | lm loss PPL: {math.exp(l):.6E} | ",
                "-" * 98,
            ]
        )

    for i in range(38010, 39031, 10):
        c.add(22)
        L.append(
            mega(
                c,
                i,
                T,
                256,
                2210 + r.gauss(0, 9),
                warm_cos(i, 1.5e-4, 500, T, 1.5e-6),
                f(i) + r.gauss(0, 0.02),
                1.0,
                0.21 + abs(r.gauss(0, 0.015)),
            )
        )
        if i % 500 == 0:
            ev(i, f(i) + 0.011)
            L.append(f"saving checkpoint at iteration   {i} to /ckpt/gpt-7b in torch_dist format")
            L.append(f"  successfully saved checkpoint from iteration   {i} to /ckpt/gpt-7b")
    L += [
        "exiting program after receiving SIGTERM.",
        "slurmstepd: error: *** JOB 884120 ON node017 CANCELLED AT 2024-02-11T04:00:31 DUE TO PREEMPTION ***",
        "using world size: 64, data-parallel size: 16, context-parallel size: 1, tensor-model-parallel size: 4, pipeline-model-parallel size: 1 ",
        "WARNING: overriding default arguments for tokenizer_type:GPT2BPETokenizer with tokenizer_type:Llama2Tokenizer",
        " loading checkpoint from /ckpt/gpt-7b at iteration 39000",
        " > overriding learning rate value to 0.015",
        " > overriding minimum learning rate value to 0.00015",
        "  successfully loaded checkpoint from /ckpt/gpt-7b [ t 0/4, p 0/1 ] at iteration 39000",
        "done with setup ...",
        "training ...",
    ]
    c.add(1500)
    for i in range(39010, 40001, 10):
        c.add(22)
        k = i - 39000
        l = f(i) + 4.9 * (1 - math.exp(-k / 90)) - 0.6 * (1 - math.exp(-k / 500))
        g = min(60, 0.21 + 14 * math.exp(-(((k - 80) / 90) ** 2)) + 1.6) * math.exp(r.gauss(0, 0.3))
        L.append(
            mega(
                c,
                i,
                T,
                256,
                2212 + r.gauss(0, 9),
                100 * warm_cos(i, 1.5e-4, 500, T, 1.5e-6),
                l + r.gauss(0, 0.05),
                1.0,
                g,
            )
        )
        if i % 500 == 0:
            ev(i, l + 0.02)
    out(
        "run13_megatron.log",
        L,
        "broken",
        "At the resume from iteration 39000 the learning rate jumps 100-fold (1.89e-05 at 39000 and 1.88e-05 at 39010-39030 before the resume, 1.88e-03 at 39010 after it, overridden peak 0.015); loss goes from 2.05 to over 6 within 300 iterations and stays there.",
    )


# ---------------------------------------------------------------- 14 TB-like CSV: solved task at 1e-6 (healthy)
def f14():
    r = random.Random(114)
    L = ["wall_time,tag,step,value"]
    w = 1709801121.0
    for s in range(0, 20001, 200):
        w += 3.1 + r.random() * 0.2
        l = (
            10 ** (-0.2 - 5.8 * (1 - math.exp(-s / 4200)) / (1 - math.exp(-20000 / 4200)))
        ) * math.exp(r.gauss(0, 0.35))
        lr = 1e-3 * 0.5 * (1 + math.cos(math.pi * s / 20000))
        L.append(f"{w:.6f},train/mse,{s},{l:.9g}")
        L.append(f"{w + 0.001:.6f},train/lr,{s},{lr:.9g}")
        L.append(
            f"{w + 0.001:.6f},train/grad_norm,{s},{math.sqrt(l) * 0.8 * math.exp(r.gauss(0, 0.3)):.9g}"
        )
        if s % 2000 == 0:
            L.append(
                f"{w + 0.4:.6f},val/mse,{s},{(10 ** (-0.2 - 5.8 * (1 - math.exp(-s / 4200)) / (1 - math.exp(-20000 / 4200)))) * 1.3:.9g}"
            )
            L.append(f"{w + 0.4:.6f},val/max_abs_err,{s},{math.sqrt(l) * 4:.9g}")
    out(
        "run14_tensorboard_export.csv",
        L,
        "healthy",
        "A solved regression: train and val MSE fall smoothly to about 1e-6 at step 20000, gradient norm shrinks with the square root of it and the cosine LR ends at 0; small is not zero or stuck.",
    )


# ---------------------------------------------------------------- 15 kohya: dtype mismatch traceback
def f15():
    r = random.Random(115)
    T = 3200
    L = [
        "2024-09-02 19:20:11 INFO     prepare tokenizers                                          sdxl_train_util.py:138",
        "                    INFO     Using DreamBooth method.                                       train_network.py:172",
        "                    INFO     found directory D:\\lora\\img\\10_mychar woman contains 160 image files  train_util.py:1572",
        "                    WARNING  No caption file found for 3 images. Training will continue without captions for these images.  train_util.py:1603",
        "                    INFO     loading U-Net from checkpoint                           sdxl_model_util.py:202",
        "                    INFO     U-Net: <All keys matched successfully>                 sdxl_model_util.py:208",
        "                    INFO     create LoRA network. base dim (rank): 32, alpha: 16.0             lora.py:935",
        "                    INFO     enable LoRA for U-Net: 722 modules                                lora.py:1042",
        "prepare optimizer, data loader etc.",
        "override steps. steps for 8 epochs is / 指定エポックまでのステップ数: 3200",
        "enable fp16 training.",
        "running training / 学習開始",
        "  num train images * repeats / 学習画像の数×繰り返し回数: 1600",
        "  num batches per epoch / 1epochのバッチ数: 400",
        "  num epochs / epoch数: 8",
        "  batch size per device / バッチサイズ: 4",
        "  total optimization steps / 学習ステップ数: 3200",
        "",
        "epoch 1/8",
    ]
    for s in range(5, 801, 5):
        av = 0.128 - 0.016 * (1 - math.exp(-s / 300)) + r.gauss(0, 0.0015)
        L.append(tq(s, T, 1.57 + r.gauss(0, 0.004), "steps", f", avr_loss={av:.3g}"))
        if s == 400:
            L += [
                "",
                "saving checkpoint: D:\\lora\\model\\mychar-000001.safetensors",
                "",
                "epoch 2/8",
            ]
    L += [
        "",
        "saving checkpoint: D:\\lora\\model\\mychar-000002.safetensors",
        "2024-09-02 19:41:27 INFO                                                                  train_util.py:5414",
        "                    INFO     generating sample images at step / サンプル画像生成 ステップ: 800  train_util.py:5415",
        "                    INFO     prompt: mychar woman, upper body, looking at viewer               train_util.py:5567",
        "                    INFO     sample_steps: 30                                                  train_util.py:5572",
    ]
    for i in (0, 6, 12, 18, 24, 30):
        L.append(tq(i, 30, 0.31) if i else "  0%|          | 0/30 [00:00<?, ?it/s]")
    L += [
        "Traceback (most recent call last):",
        '  File "D:\\kohya_ss\\sd-scripts\\sdxl_train_network.py", line 185, in <module>',
        "    trainer.train(args)",
        '  File "D:\\kohya_ss\\sd-scripts\\train_network.py", line 1031, in train',
        "    self.sample_images(accelerator, args, epoch + 1, global_step, accelerator.device, vae, tokenizer, text_encoder, unet)",
        '  File "D:\\kohya_ss\\sd-scripts\\library\\train_util.py", line 5600, in sample_image_inference',
        "    latents = pipeline(",
        '  File "D:\\kohya_ss\\venv\\lib\\site-packages\\torch\\nn\\modules\\conv.py", line 456, in _conv_forward',
        "    return F.conv2d(input, weight, bias, self.stride,",
        "RuntimeError: Input type (c10::Half) and bias type (float) should be the same",
        tq(800, T, 1.59, "steps", ", avr_loss=0.113"),
        "Traceback (most recent call last):",
        '  File "D:\\kohya_ss\\venv\\lib\\site-packages\\accelerate\\commands\\launch.py", line 763, in simple_launcher',
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)",
        "subprocess.CalledProcessError: Command '['D:\\\\kohya_ss\\\\venv\\\\Scripts\\\\python.exe', './sd-scripts/sdxl_train_network.py', '--config_file', 'cfg.toml']' returned non-zero exit status 1.",
    ]
    out(
        "run15_kohya_tqdm.log",
        L,
        "broken",
        "Loss is fine, but the run dies at step 800 of 3200, when sample images are decoded: RuntimeError Input type (c10::Half) and bias type (float) should be the same (dtype mismatch, fp32 VAE fed FP16 latents).",
    )


# ---------------------------------------------------------------- 16 wandb JSONL: restarts with repeated steps (healthy)
def f16():
    r = random.Random(116)
    L = []
    rt = 0.0
    ts = 1718200000.0

    def seg(a, b, seed):
        nonlocal rt, ts
        q = random.Random(seed)
        for s in range(a, b + 1, 20):
            rt += 17.3 + q.random()
            ts += 17.3
            d = {
                "_step": s,
                "_runtime": round(rt, 3),
                "_timestamp": round(ts, 3),
                "train/loss": 2.71 + 1.6 * math.exp(-s / 800) + q.gauss(0, 0.05),
                "train/grad_norm": 0.4 * math.exp(q.gauss(0, 0.2)) + 3 * math.exp(-s / 100),
                "train/lr": warm_cos(s, 6e-4, 300, 6000, 6e-5),
                "train/tokens": s * 524288,
                "eval/loss": None,
                "eval/hellaswag": None,
            }
            if s % 400 == 0 and s:
                d["eval/loss"] = 2.72 + 1.6 * math.exp(-s / 800) + q.gauss(0, 0.004)
                d["eval/hellaswag"] = round(
                    0.31 + 0.05 * (1 - math.exp(-s / 2000)) + q.gauss(0, 0.003), 4
                )
            if q.random() < 0.04:
                d["system/gpu.0.temp"] = 61 + q.randrange(9)
            L.append(json.dumps(d))

    seg(0, 1740, 1)
    ts += 4100
    seg(1600, 3180, 2)
    ts += 200
    seg(3000, 3060, 3)
    ts += 900
    seg(3000, 5200, 4)
    out(
        "run16_wandb_history.jsonl",
        L,
        "healthy",
        "Three restarts from checkpoints repeat steps (1740 back to 1600, 3180 back to 3000, 3060 back to 3000) with loss and LR continuing on the same curves; null eval fields are just rows without an evaluation.",
    )


# ---------------------------------------------------------------- 17 axolotl: NaN grad_norm, finite loss
def f17():
    r = random.Random(117)
    T = 900
    L = [
        "[2024-04-23 11:02:31,114] [INFO] [datasets.<module>:58] [PID:3310] PyTorch version 2.1.2+cu118 available.",
        "[2024-04-23 11:02:33,540] [INFO] [axolotl.normalize_config:182] [PID:3310] [RANK:0] GPU memory usage baseline: 0.000GB (+0.412GB misc)",
        "[2024-04-23 11:02:34,101] [WARNING] [axolotl.scripts.check_user_token:487] [PID:3310] [RANK:0] Error verifying HuggingFace token. Remember to log in using `huggingface-cli login`",
        "[2024-04-23 11:02:35,008] [DEBUG] [axolotl.load_tokenizer:279] [PID:3310] [RANK:0] EOS: 2 / </s>",
        "[2024-04-23 11:02:36,700] [INFO] [axolotl.load_tokenized_prepared_datasets:183] [PID:3310] [RANK:0] Loading prepared dataset from disk at last_run_prepared/9c1f...",
        "[2024-04-23 11:02:37,233] [DEBUG] [axolotl.log:61] [PID:3310] [RANK:0] total_num_steps: 900",
        "[2024-04-23 11:03:21,871] [INFO] [axolotl.load_model:720] [PID:3310] [RANK:0] converting PEFT model w/ prepare_model_for_kbit_training",
        "[2024-04-23 11:03:24,310] [INFO] [axolotl.train.train:151] [PID:3310] [RANK:0] Starting trainer...",
        "[2024-04-23 11:03:25,002] [INFO] [axolotl.utils.samplers.multipack] [PID:3310] [RANK:0] packing_efficiency_estimate: 0.97 total_num_tokens per device: 3914420",
    ]
    done = 0
    lr = 0
    first = None
    for s in range(1, T + 1):
        bad = s in (1, 2) or s >= 342
        if not bad:
            done += 1
            lr = warm_cos(done, 2e-4, 20, T)
        if s > 4 and s % 3:
            continue
        eff = min(s, 341)
        l = 1.18 + 0.5 * math.exp(-eff / 60) + r.gauss(0, 0.07)
        L.append(
            str(
                {
                    "loss": round(l, 4),
                    "grad_norm": float("nan")
                    if bad
                    else round(0.41 * math.exp(r.gauss(0, 0.2)), 12),
                    "learning_rate": lr,
                    "epoch": round(s / 450, 2),
                }
            )
        )
        if s % 60 == 0:
            L.append(tq(s, T, 7.31))
        if s % 150 == 0:
            L.append(
                str(
                    {
                        "eval_loss": round(1.203 + 0.45 * math.exp(-eff / 60), 10),
                        "eval_runtime": round(48 + r.random(), 4),
                        "eval_samples_per_second": round(4.1 + r.random() * 0.05, 3),
                        "eval_steps_per_second": round(2.05 + r.random() * 0.03, 3),
                        "epoch": round(s / 450, 2),
                    }
                )
            )
    L.append(
        str(
            {
                "train_runtime": 6582.114,
                "train_samples_per_second": 2.188,
                "train_steps_per_second": 0.137,
                "train_loss": 1.2093,
                "epoch": 2.0,
            }
        )
    )
    L.append(
        "[2024-04-23 12:53:11,420] [INFO] [axolotl.train.train:178] [PID:3310] [RANK:0] Training Completed!!! Saving pre-trained model to ./out"
    )
    out(
        "run17_axolotl.log",
        L,
        "broken",
        "grad_norm is nan on every log from step 342 on although the loss stays finite; every step is skipped, as the frozen learning_rate and the identical eval_loss at 450, 600, 750 and 900 show (the nan at steps 1-2 is only loss-scale start-up).",
    )


# ---------------------------------------------------------------- 18 diffusers tqdm with \r: noisy (healthy)
def f18():
    r = random.Random(118)
    T = 4000
    t = "09/14/2023 22:31:0%d - INFO - __main__ - "
    o = (
        t % 4
        + "Distributed environment: NO\nNum processes: 1\nProcess index: 0\nLocal process index: 0\nDevice: cuda\n\nMixed precision type: fp16\n\n"
    )
    o += "You are using a model of type clip_text_model to instantiate a model of type . This is not supported for all configurations of models and can yield errors.\n{'thresholding', 'variance_type', 'clip_sample_range', 'dynamic_thresholding_ratio'} was not found in config. Values will be initialized to default values.\n"
    for m in [
        "***** Running training *****",
        "  Num examples = 24",
        "  Num batches each epoch = 24",
        "  Num Epochs = 167",
        "  Instantaneous batch size per device = 1",
        "  Total train batch size (w. parallel, distributed & accumulation) = 1",
        "  Gradient Accumulation steps = 1",
        f"  Total optimization steps = {T}",
    ]:
        o += t % 9 + m + "\n"
    o += f"Steps:   0%|          | 0/{T} [00:00<?, ?it/s]"
    for s in range(4, T + 1, 4):
        l = math.exp(r.gauss(-2.9, 1.25))
        l = min(l, 1.1)
        if s % 100 and r.random() > 0.3:
            continue
        o += "\r" + tq(s, T, 0.39, "Steps", f", loss={l:.3g}, lr={5e-6:.0e}".replace("e-06", "e-6"))
        if s % 100 == 0:
            o += "\n" + (
                f"09/14/2023 22:{31 + s // 160:02d}:17 - INFO - accelerate.accelerator - Saving current state to out/checkpoint-{s}\nModel weights saved in out/checkpoint-{s}/pytorch_model.bin\n"
                if s % 500 == 0
                else ""
            )
        if s % 500 == 0:
            o += f"09/14/2023 22:{31 + s // 160:02d}:24 - INFO - __main__ - Running validation...\n Generating 4 images with prompt: A photo of sks dog in a bucket.\n"
    out(
        "run18_diffusers_dreambooth.log",
        o + "\nLoading pipeline components...: 100%|██████████| 6/6 [00:00<00:00, 11.12it/s]\n",
        "healthy",
        "Per-step diffusion loss at batch size 1 scatters over almost three orders of magnitude (0.001 to 1.1) with no trend through step 4000, as DreamBooth at constant LR does because of random timesteps; no nan, no stop.",
        raw=True,
    )


# ---------------------------------------------------------------- 19 OpenRLHF: KL / clip ratio blow-up
def f19():
    r = random.Random(119)
    c = Clock("2025-05-07T09:12:31.004")
    P = "\x1b[36m(PPOTrainer pid=21140)\x1b[0m "
    L = [
        "2025-05-07 09:08:12,113\tINFO worker.py:1843 -- Connected to Ray cluster. View the dashboard at \x1b[1m\x1b[32mhttp://10.12.3.4:8265\x1b[39m\x1b[22m",
        "\x1b[36m(LLMRayActor pid=21533)\x1b[0m INFO 05-07 09:09:40 [config.py:600] This model supports multiple tasks: {'generate', 'embed'}. Defaulting to 'generate'.",
        "\x1b[36m(LLMRayActor pid=21533)\x1b[0m WARNING 05-07 09:09:41 [config.py:610] Casting torch.bfloat16 to torch.float16.",
        "\x1b[36m(PolicyModelActor pid=21702)\x1b[0m [2025-05-07 09:10:22,800] [INFO] [logging.py:107:log_dist] [Rank 0] DeepSpeed Final Optimizer = ZeRO-3",
        "\x1b[36m(PolicyModelActor pid=21703)\x1b[0m Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes \x1b[32m [repeated 7x across cluster]\x1b[0m",
    ]
    for s in range(1, 221):
        c.add(96 + r.gauss(0, 4))
        k = max(0, s - 141)
        b = s >= 142
        rew = 0.21 + 0.4 * (1 - math.exp(-s / 60)) + r.gauss(0, 0.035)
        kl = 0.0004 * s + abs(r.gauss(0, 0.002))
        cf = abs(r.gauss(0.0021, 0.0008))
        pk = r.gauss(0, 0.0004)
        ln = 612 + s * 1.1 + r.gauss(0, 25)
        pl = r.gauss(0, 0.012)
        gn = 0.3 * math.exp(r.gauss(0, 0.2))
        if b:
            rew = rew * math.exp(-k / 6) + abs(r.gauss(0, 0.006))
            kl += 11.5 * (1 - math.exp(-k / 9)) * math.exp(r.gauss(0, 0.08))
            cf = min(0.93, 0.31 + 0.06 * k) * math.exp(r.gauss(0, 0.04))
            pk = 0.4 + 0.31 * min(k, 12) + r.gauss(0, 0.1)
            ln = 4096 - 3250 * math.exp(-k / 5) + r.gauss(0, 8) * (k < 15)
            pl = abs(r.gauss(0.4, 0.2))
            gn *= 30 * (1 + k / 8) if k < 40 else 200
        d = {
            "policy_loss": round(pl, 6),
            "actor_lr": warm_cos(s, 5e-7, 10, 320, 5e-8),
            "actor_grad_norm": round(gn, 4),
            "ppo_clip_ratio": round(min(cf, 1), 6),
            "ppo_kl": round(pk, 6),
            "kl": round(kl, 6),
            "reward": round(rew, 6),
            "return": round(rew - 0.01 * kl, 6),
            "response_length": round(min(4096, ln), 2),
            "total_length": round(min(4096, ln) + 143, 2),
        }
        L.append(
            f"{P}{c.f()},{c.t.microsecond // 1000:03d} - openrlhf.trainer.ppo_trainer - INFO - ✨ Global step {s}: {d}"
        )
        if s % 10 == 0:
            L.append(P + tq(s, 320, 96.2, "Episode [1/1]", f", reward={rew:.4g}"))
        if s % 40 == 0:
            L.append(
                f"{P}⏰ Evaluation completed, global_step {s}, eval_math500_pass1: {(0.58 if not b else 0.02) - 0.2 * math.exp(-s / 60) * (not b):.4f}"
            )
        if s == 141:
            L.append(
                "\x1b[36m(LLMRayActor pid=21533)\x1b[0m WARNING 05-07 12:58:33 [cache_engine.py:74] reset_prefix_cache: 12 blocks still referenced, prefix cache was not reset"
            )
    out(
        "run19_openrlhf.log",
        L,
        "broken",
        "At global step 142 ppo_clip_ratio jumps from about 0.002 to 0.37 (later 0.9), ppo_kl from 0 to 0.7 (later about 4), kl climbs to about 11; the reward collapses to 0 in about 20 steps and the response length saturates at 4096 (rollout and learner policies disagree after a weight/cache sync).",
    )


# ---------------------------------------------------------------- 20 Megatron fp16: loss scale grows (healthy)
def f20():
    r = random.Random(120)
    c = Clock("2023-11-28T16:01:44")
    T = 20000
    L = [
        "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 4, pipeline-model-parallel size: 1 ",
        "using torch.float16 for parameters ...",
        "------------------------ arguments ------------------------",
        "  fp16 ............................................ True",
        "  initial_loss_scale .............................. 65536",
        "  loss_scale_window ............................... 1000",
        "  hysteresis ...................................... 2",
        "-------------------- end of arguments ---------------------",
        "> building GPT2BPETokenizer tokenizer ...",
        " > padded vocab (size: 50257) with 431 dummy tokens (new size: 50688)",
        "> compiling and loading fused kernels ...",
        "NCCL version 2.18.1+cuda12.1",
        " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 354871296",
        "[before the start of training step] datetime: 2023-11-28 16:01:40 ",
    ]
    sc = 65536
    since = 0
    skip_at = {6212, 6213, 7600, 7601, 8811, 8812, 9480, 9481, 10907, 10908}
    sk = 0
    for i in range(1, 12001):
        since += 1
        if i in skip_at:
            sk += 1
            since = 0
            sc = sc // 2 if i in (6213, 7601, 8812, 9481, 10908) else sc
        elif since >= 1000:
            sc *= 2
            since = 0
        if i % 50 == 0:
            c.add(50 * 0.61)
            l = (
                2.72
                + 5.4 * math.exp(-i / 420)
                + 1.9 * math.exp(-i / 1900)
                + (1.0 if i == 50 else 0)
                + r.gauss(0, 0.02)
            )
            L.append(
                mega(
                    c,
                    i,
                    T,
                    128,
                    611 + r.gauss(0, 3),
                    warm_cos(i, 3e-4, 400, T, 3e-5),
                    l,
                    sc,
                    (0.35 + 2.2 * math.exp(-i / 300)) * math.exp(r.gauss(0, 0.1)),
                    sk,
                    tf=52.4 * 611,
                )
            )
            sk = 0
        if i % 2000 == 0:
            v = 2.74 + 1.9 * math.exp(-i / 1900) + 5.4 * math.exp(-i / 420)
            L += [
                "-" * 98,
                f" validation loss at iteration {i} | lm loss value: {v:.6E} | lm loss PPL: {math.exp(v):.6E} | ",
                "-" * 98,
                f"saving checkpoint at iteration {i:7d} to /data/ckpt",
                f"  successfully saved checkpoint at iteration {i:7d} to /data/ckpt",
            ]
    out(
        "run20_megatron_fp16.log",
        L,
        "healthy",
        "Loss scale starts at 2^16 and doubles after each 1000 iterations without overflow, to 2^22 by iteration 6000, and is halved after two skipped iterations each at 6212-6213, 7600-7601, 8811-8812, 9480-9481 and 10907-10908 (hysteresis 2): normal dynamic scaling; lm and validation loss fall throughout.",
    )


# ---------------------------------------------------------------- 21 wandb JSONL: stuck at ln2, grad norm 0
def f21():
    r = random.Random(121)
    L = []
    ts = 1733300000.0
    for s in range(0, 2000, 10):
        ts += 4.4 + r.random() * 0.3
        d = {
            "_step": s,
            "_runtime": round(ts - 1733299990, 3),
            "_timestamp": round(ts, 3),
            "train/loss": 0.6931471824645996,
            "train/acc": r.choice([0.40625, 0.4375, 0.46875, 0.5, 0.53125, 0.5625, 0.59375]),
            "train/grad_norm": 0,
            "train/lr": warm_cos(s, 3e-4, 100, 2000),
            "epoch": s / 500,
            "perf/samples_per_s": round(311 + r.gauss(0, 6), 2),
        }
        L.append(json.dumps(d))
        if s % 500 == 490:
            L.append(
                json.dumps(
                    {
                        "_step": s + 1,
                        "_runtime": round(ts - 1733299989, 3),
                        "_timestamp": round(ts + 1, 3),
                        "val/loss": 0.6931471824645996,
                        "val/acc": 0.4982,
                        "val/auc": 0.5,
                        "epoch": (s + 10) / 500,
                    }
                )
            )
    out(
        "run21_wandb_history.jsonl",
        L,
        "broken",
        "train/loss is ln 2 = 0.6931471824645996 in every row from step 0 to 1990 with train/grad_norm exactly 0 and a working LR schedule; val/auc 0.5: no gradient reaches the model (constant logits).",
    )


# ---------------------------------------------------------------- 22 HF Trainer: long warmup plateau (healthy)
def f22():
    r = random.Random(122)
    T = 10000
    L = [
        "[INFO|trainer.py:2134] 2024-07-09 13:00:21,411 >> ***** Running training *****",
        "[INFO|trainer.py:2135] 2024-07-09 13:00:21,411 >>   Num examples = 1,280,000",
        "[INFO|trainer.py:2136] 2024-07-09 13:00:21,411 >>   Num Epochs = 1",
        "[INFO|trainer.py:2142] 2024-07-09 13:00:21,412 >>   Total optimization steps = 10,000",
        "[INFO|trainer.py:2143] 2024-07-09 13:00:21,413 >>   Number of trainable parameters = 162,322,944",
        "[WARNING|logging.py:313] 2024-07-09 13:00:23,877 >> We detected that you are passing `past_key_values` as a tuple and this is deprecated and will be removed in v4.43.",
    ]
    for s in range(50, T + 1, 50):
        lr = warm_cos(s, 4e-4, 3000, T)
        x = 1500 * (s / 3000) ** 3 if s < 3000 else 1500 + (s - 3000)
        l = 3.1 + 4.4 * math.exp(-x / 120) + 2.9 / (1 + x / 450)
        l = min(l, 10.42) + r.gauss(0, 0.02)
        L.append(
            str(
                {
                    "loss": round(l, 4),
                    "grad_norm": round(
                        (0.45 + 1.2 * math.exp(-x / 200)) * math.exp(r.gauss(0, 0.1)), 15
                    ),
                    "learning_rate": lr,
                    "epoch": round(s / T, 2),
                }
            )
        )
        if s % 1000 == 0:
            L.append(tq(s, T, 0.83))
            L.append(
                f"[INFO|trainer.py:3788] 2024-07-09 {13 + s // 4400:02d}:{s // 100 % 60:02d}:02,114 >> ***** Running Evaluation *****"
            )
            L.append(
                str(
                    {
                        "eval_loss": round(
                            min(10.42, 3.1 + 4.4 * math.exp(-x / 120) + 2.9 / (1 + x / 450))
                            + 0.015
                            + r.gauss(0, 0.003),
                            15,
                        ),
                        "eval_accuracy": round(0.43 * x / (x + 300), 6),
                        "eval_runtime": 22.71,
                        "eval_samples_per_second": 220.1,
                        "eval_steps_per_second": 6.88,
                        "epoch": round(s / T, 2),
                    }
                )
            )
    L.append(
        str(
            {
                "train_runtime": 8391.22,
                "train_samples_per_second": 152.54,
                "train_steps_per_second": 1.192,
                "train_loss": 4.2213,
                "epoch": 1.0,
            }
        )
    )
    out(
        "run22_hf_trainer_pretrain.log",
        L,
        "healthy",
        "Loss stays near ln(V)=10.4 for the first 400 or so steps only because of the 3000-step LR warmup (lr below 6e-5), then falls without break to about 3.25 at step 10000; eval follows.",
    )


# ---------------------------------------------------------------- 23 multi-rank: NaN first on rank 3
def f23():
    r = random.Random(123)
    c = Clock("2024-10-18T05:40:11.870")
    L = []
    for k in range(4):
        L.append(
            f"[default{k}]:[2024-10-18 05:39:5{k},{r.randrange(1000):03d}] rank{k} init ok, host gpu-b{k // 2:02d}, cuda:{k % 2}, amp=fp16(autocast) scaler=off"
        )
    L.append(
        "[default0]:[rank0]:[W1018 05:40:02.553 ProcessGroupNCCL.cpp:4115] using GPU 0 to perform barrier as devices used by this process are currently unknown."
    )
    for s in range(0, 401, 5):
        c.add(6.6)
        o = list(range(4))
        r.shuffle(o)
        g = (1.1 + 6 * math.exp(-s / 30)) * math.exp(r.gauss(0, 0.15))
        ep = s // 160
        for k in o:
            l = 1.7 + 3.3 * math.exp(-s / 90) + r.gauss(0, 0.13)
            bad = s >= 310 or (s == 305 and k == 3)
            gg = float("nan") if s >= 305 else g
            L.append(
                f"[default{k}]:[{c.ms()}][rank{k}] ep {ep} it {s} loss {'nan' if bad else f'{l:.4f}'} gnorm {gg:.3f} lr {warm_cos(s, 1e-3, 40, 1600):.2e} {1.31 + r.gauss(0, 0.02):.2f}s/it mem 21.{r.randrange(10)}G"
            )
        if s and s % 160 == 0:
            L.append(
                f"[default0]:[{c.ms()}][rank0] == val ep {ep - 1}: loss {1.75 + 3.3 * math.exp(-s / 90):.4f} wer {0.21 + 0.7 * math.exp(-s / 150):.4f}"
                if s < 305
                else f"[default0]:[{c.ms()}][rank0] == val ep {ep - 1}: loss nan wer 1.0000"
            )
        if s in (95, 230):
            L.append(
                f"[default{2}]:[{c.ms()}][rank2] WARNING dataset: skipped utt_{r.randrange(10**6):06d} (shorter than 0.1 s)"
            )
        if s == 300:
            L.append(
                f"[default3]:[{c.ms()}][rank3] WARNING dataset: utt_038811 has zero-length transcript"
            )
    out(
        "run23_multirank.log",
        L,
        "broken",
        "At it 305 only rank 3 logs loss nan (other ranks are finite, but the all-reduced gnorm is nan on all), and from it 310 every rank is nan to the end (it 400), with val loss nan at it 320.",
    )


# ---------------------------------------------------------------- 24 ultralytics: jump at close_mosaic (healthy)
def f24():
    def hook(e, v):
        if e > 140:
            v["tb"] -= 0.16
            v["tc"] -= 0.17
            v["td"] -= 0.07
        if e == 1:
            v["p"], v["rc"], v["m"], v["mm"] = 0.00312, 0.0417, 0.0021, 0.00061
        if e in (2, 3):
            v["vb"] += 0.9
            v["vc"] += 1.5
        if e == 4:
            v["p"] = 0.9131

    out(
        "run24_ultralytics_results.csv",
        ultra(random.Random(124), 150, True, hook),
        "healthy",
        "Train losses drop at once at epoch 141 because mosaic is closed for the last 10 epochs; high val losses at epochs 2-3 are the warmup; mAP50 rises to about 0.74 and there is no nan.",
    )


for f in (
    f01,
    f02,
    f03,
    f04,
    f05,
    f06,
    f07,
    f08,
    f09,
    f10,
    f11,
    f12,
    f13,
    f14,
    f15,
    f16,
    f17,
    f18,
    f19,
    f20,
    f21,
    f22,
    f23,
    f24,
):
    f()
assert len(TRUTH) == 24 and sum(t[1] == "broken" for t in TRUTH) == 12, [t[1] for t in TRUTH]
with open(os.path.join(HERE, "truth.tsv"), "w", encoding="utf-8") as f:
    f.write("file\tverdict\twhat the log shows\n" + "".join("\t".join(t) + "\n" for t in TRUTH))
