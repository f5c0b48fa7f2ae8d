#!/usr/bin/env python3
"""Writes run01..run20 and truths.json into FOLDER. Run: python make.py FOLDER"""
import json, math, os, io, csv, sys
from datetime import datetime, timedelta
import numpy as np
HERE = sys.argv[1]
TR = []

def rng(n): return np.random.default_rng(7000 + n)

class AR:
    """slowly correlated noise"""
    def __init__(s, r, rho, sd): s.r, s.rho, s.sd, s.x = r, rho, sd, 0.0
    def __call__(s):
        s.x = s.rho * s.x + math.sqrt(1 - s.rho ** 2) * s.r.normal(0, s.sd); return s.x

def put(name, text):
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="") as f: f.write(text)

def truth(file, framework, verdict, first, within, what, numbers):
    TR.append(dict(file=file, framework=framework, verdict=verdict, first_bad_step=first,
                   within=within, what=what, numbers=numbers))

def keyfig(pairs):
    """first/last/least over finite (step, loss)"""
    fin = [(s, l) for s, l in pairs if math.isfinite(l)]
    m = min(fin, key=lambda p: p[1])
    return dict(first_loss=fin[0][1], first_step=fin[0][0], last_loss=pairs[-1][1] if math.isfinite(pairs[-1][1]) else str(pairs[-1][1]),
                last_step=pairs[-1][0], least_loss=m[1], least_loss_step=m[0], logged_points=len(pairs))

def bar(fr, w=10):
    fr = max(0.0, min(1.0, fr)); n = fr * w; full = int(n); part = int((n - full) * 8)
    s = "█" * full + ((" ▏▎▍▌▋▊▉"[part]) if full < w else "")
    return s.ljust(w)

def hms(sec):
    sec = int(sec); h, m, s = sec // 3600, sec // 60 % 60, sec % 60
    return f"{h}:{m:02d}:{s:02d}" if h else f"{m:02d}:{s:02d}"

def tq(desc, i, n, el, per, post=""):
    rate = f"{1/per:5.2f}it/s" if per < 1 else f"{per:5.2f}s/it"
    p = f"{desc}{int(100*i/n):3d}%|{bar(i/n)}| {i}/{n} [{hms(el)}<{hms((n-i)*per)}, {rate}{', '+post if post else ''}]"
    return p

def sci(x): return f"{x:.2e}"

# ---------------------------------------------------------------- 01 HF Trainer
def run01():
    r = rng(1); L = []; A = L.append; N = 2400; log = 5; bad = 1388
    A("/opt/conda/lib/python3.10/site-packages/transformers/utils/hub.py:124: FutureWarning: Using `TRANSFORMERS_CACHE` is deprecated and will be removed in v5 of Transformers. Use `HF_HOME` instead.")
    A("  warnings.warn(")
    A("05/21/2024 13:02:11 - WARNING - __main__ - Process rank: 0, device: cuda:0, n_gpu: 1, distributed training: False, 16-bits training: True")
    A("05/21/2024 13:02:11 - INFO - __main__ - Training/evaluation parameters TrainingArguments(")
    for k, v in dict(_n_gpu=1, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-08, bf16=False, dataloader_num_workers=4, eval_steps=300, evaluation_strategy="steps",
                     fp16=True, gradient_accumulation_steps=4, gradient_checkpointing=True, learning_rate=0.0002, logging_nan_inf_filter=True, logging_steps=5,
                     lr_scheduler_type="cosine", max_grad_norm=1.0, num_train_epochs=3.0, output_dir="out/mt-sft", per_device_train_batch_size=4,
                     save_steps=300, seed=42, warmup_ratio=0.03, weight_decay=0.0).items(): A(f"{k}={v},")
    A(")")
    A("Loading checkpoint shards: 100%|██████████| 2/2 [00:07<00:00,  3.61s/it]")
    A("trainable params: 41,943,040 || all params: 7,283,675,136 || trainable%: 0.5758498902768")
    A("Map: 100%|██████████| 12800/12800 [00:11<00:00, 1121.33 examples/s]")
    A("***** Running training *****"); A("  Num examples = 12,800"); A("  Num Epochs = 3"); A("  Instantaneous batch size per device = 4")
    A("  Total train batch size (w. parallel, distributed & accumulation) = 16"); A("  Gradient Accumulation steps = 4"); A(f"  Total optimization steps = {N:,}"); A("  Number of trainable parameters = 41,943,040")
    A("`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.")
    P = []; el = 0; ev = []; tot = 0; gn_bad = None
    for s in range(log, N + 1, log):
        per = r.normal(2.31, .05); el += per * log
        lr = 2e-4 * (s / 72 if s < 72 else .5 * (1 + math.cos(math.pi * (s - 72) / (N - 72))))
        base = 0.93 + 0.95 * math.exp(-s / 60) + 0.16 * math.exp(-s / 700) - (0.09 if s > 800 else 0)
        l = base + r.normal(0, .07)
        gn = 0.52 * math.exp(r.normal(0, .18)) * (1 + 3 * math.exp(-s / 30))
        if bad <= s < bad + log: l *= 0.8; gn = math.nan
        elif s >= bad: l = 0.0; gn = math.nan
        l = round(l, 4); P.append((s, l)); tot += l * log
        if s >= bad and gn_bad is None: gn_bad = s
        g = "nan" if math.isnan(gn) else repr(float(np.float32(gn)))
        A("{" + f"'loss': {l}, 'grad_norm': {g}, 'learning_rate': {lr!r}, 'epoch': {round(s/800,2)}" + "}")
        if s % 20 == 0: A(tq("", s, N, el, per))
        if s % 300 == 0:
            e = (1.02 + .3 * math.exp(-s / 300) - .05 * (s > 800) + r.normal(0, .003)) if s < bad else math.nan
            rt = r.normal(41.2, .3); el += rt; e2 = "nan" if math.isnan(e) else repr(e); ev.append((s, e2))
            A("***** Running Evaluation *****"); A("  Num examples = 500"); A("  Batch size = 8")
            A("{" + f"'eval_loss': {e2}, 'eval_runtime': {rt:.4f}, 'eval_samples_per_second': {500/rt:.3f}, 'eval_steps_per_second': {63/rt:.3f}, 'epoch': {round(s/800,2)}" + "}")
            A(f"Saving model checkpoint to out/mt-sft/checkpoint-{s}")
            A("/opt/conda/lib/python3.10/site-packages/torch/utils/checkpoint.py:460: UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True or use_reentrant=False explicitly.")
    A("{" + f"'train_runtime': {el:.4f}, 'train_samples_per_second': {N*16/el:.3f}, 'train_steps_per_second': {N/el:.3f}, 'train_loss': {tot/N!r}, 'epoch': 3.0" + "}")
    A(tq("", N, N, el, el / N)); A("\nTraining completed. Do not forget to share your model on huggingface.co/models =)\n")
    put("run01.log", "\n".join(L) + "\n")
    k = keyfig(P); good = [p for p in P if p[0] < bad]; m = min(good, key=lambda p: p[1])
    truth("run01.log", "HF Trainer (console dict lines)", "broken", 1390, 5,
          "The forward pass gives NaN from step 1388 on; the trainer's nan filter logs it as loss 0.0 (partial window at 1390, exactly 0.0 from 1395) with grad_norm nan, and the evaluations at 1500 and later are nan.",
          dict(first_loss=k["first_loss"], last_loss=0.0, last_step=N, steps=N, last_real_loss=good[-1][1], least_real_loss=m[1], least_real_loss_step=m[0],
               first_nan_grad_norm_step=gn_bad, first_zero_loss_step=1395, first_nan_eval_step=1500, evals=[[a, b] for a, b in ev]))

# ---------------------------------------------------------------- 02 Lightning GAN, carriage returns
def run02():
    r = rng(2); o = io.StringIO(); W = o.write
    W("Global seed set to 1234\nGPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores\nIPU available: False, using: 0 IPUs\nHPU available: False, using: 0 HPUs\n")
    W("/home/mk/venv/lib/python3.11/site-packages/lightning/pytorch/utilities/parsing.py:198: Attribute 'generator' is an instance of `nn.Module` and is already saved during checkpointing. It is recommended to ignore them using `self.save_hyperparameters(ignore=['generator'])`.\n")
    W("You are using a CUDA device ('NVIDIA RTX A6000') that has Tensor Cores. To properly utilize them, you should set `torch.set_float32_matmul_precision('medium' | 'high')` which will trade-off precision for performance.\n")
    W("LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]\n\n  | Name          | Type          | Params\n------------------------------------------------\n0 | generator     | Generator     | 12.7 M\n1 | discriminator | Discriminator | 2.8 M\n2 | fid           | FrechetInceptionDistance | 23.9 M\n------------------------------------------------\n15.4 M    Trainable params\n23.9 M    Non-trainable params\n39.3 M    Total params\n157.228   Total estimated model params size (MB)\n")
    n = 469; E = 22; a, b = AR(r, .8, .33), AR(r, .8, .3); G = []; D = []; F = []; fid = None
    for e in range(E):
        el = 0; per = 0.071
        pts = list(range(0, n, 12)) + [n]
        for i in pts:
            s = e * n + i; t = s / (E * n); el = i * per
            g = max(.2, 0.75 + 2.6 * t ** .6 + a() * (0.7 + 1.2 * t) + (1.6 if r.random() < .02 else 0)); d = max(.02, 0.69 - .42 * t ** .5 + b() * .5)
            if r.random() < .015: d += r.uniform(.4, 1.3)
            post = f"v_num=14, g_loss={g:.3g}, d_loss={d:.3g}" + (f", fid={fid:.1f}" if fid else "")
            if i: G.append((s, float(f"{g:.3g}"))); D.append((s, float(f"{d:.3g}")))
            W("\r" + tq(f"Epoch {e}: ", i, n, el, per, post))
        for j in range(0, 41, 10):
            W("\r\nValidation: 0it [00:00, ?it/s]" if j == 0 else "\r" + tq("Validation DataLoader 0: ", j, 40, j * .4, .4))
        fid = 11.5 + 175 * math.exp(-e / 3.2) + r.normal(0, 1.1); F.append((e, round(fid, 1)))
        W("\x1b[A\r" + tq(f"Epoch {e}: ", n, n, n * per + 16, per, f"v_num=14, g_loss={g:.3g}, d_loss={d:.3g}, fid={fid:.1f}") + "\n")
        if e == 4: W("/home/mk/venv/lib/python3.11/site-packages/torchmetrics/utilities/prints.py:43: UserWarning: Metric `FrechetInceptionDistance` will save all extracted features in buffer. For large datasets this may lead to large memory footprint.\n")
    W("`Trainer.fit` stopped: `max_epochs=%d` reached.\n" % E)
    put("run02.log", o.getvalue())
    truth("run02.log", "PyTorch Lightning progress bar (carriage returns), GAN", "healthy", None, None,
          "A GAN: the generator loss rises and both losses jump about, which is the game being played; the FID falls steadily to below 12.",
          dict(first_g_loss=G[0][1], last_g_loss=G[-1][1], max_g_loss=max(G, key=lambda p: p[1])[1], first_d_loss=D[0][1], last_d_loss=D[-1][1], first_fid=F[0][1], last_fid=F[-1][1], least_fid=min(F, key=lambda p: p[1])[1], epochs=E, steps=E * n))

# ---------------------------------------------------------------- 03 DeepSpeed fp16
def run03():
    r = rng(3); L = []; A = L.append; t = datetime(2024, 2, 19, 9, 12, 31, 512000)
    def ts(): return t.strftime("%Y-%m-%d %H:%M:%S,") + f"{t.microsecond//1000:03d}"
    def I(w, m, lvl="INFO"): A(f"[{ts()}] [{lvl}] [{w}] {m}")
    I("runner.py:463:main", "Using IP address of 10.12.0.31 for node gpu-31", "INFO"); I("runner.py:555:main", "cmd = /opt/conda/bin/python -u -m deepspeed.launcher.launch --world_info=eyJncHUtMzEiOiBbMCwgMSwgMiwgM119 --master_addr=10.12.0.31 --master_port=29500 pretrain.py --deepspeed_config ds_fp16_z2.json")
    I("launch.py:145:main", "WORLD INFO DICT: {'gpu-31': [0, 1, 2, 3]}"); I("launch.py:151:main", "nnodes=1, num_local_procs=4, node_rank=0"); I("launch.py:163:main", "dist_world_size=4")
    for k in range(4): t += timedelta(milliseconds=211); I("real_accelerator.py:110:get_accelerator", "Setting ds_accelerator to cuda (auto detect)")
    I("comm.py:622:init_distributed", "Initializing TorchBackend in DeepSpeed with backend nccl")
    I("logging.py:96:log_dist", "[Rank 0] DeepSpeed info: version=0.10.3, git-hash=unknown, git-branch=unknown")
    A("Using /home/li/.cache/torch_extensions/py310_cu118 as PyTorch extensions root..."); A("ninja: no work to do."); A("Time to load fused_adam op: 0.08791589736938477 seconds")
    I("logging.py:96:log_dist", "[Rank 0] Using DeepSpeed Optimizer param name adamw as basic optimizer"); I("logging.py:96:log_dist", "[Rank 0] Creating fp16 ZeRO stage 2 optimizer")
    for rk in range(4): A(f"Rank: {rk} partition count [4] and sizes[(327155712, False)] ")
    I("config.py:967:print", "DeepSpeedEngine configuration:")
    for k, v in dict(activation_checkpointing_config="{", amp_enabled=False, bfloat16_enabled=False, dynamic_loss_scale_args="{'init_scale': 65536, 'scale_window': 200, 'delayed_shift': 1, 'consecutive_hysteresis': False, 'min_scale': 1}", fp16_auto_cast=False, fp16_enabled=True, gradient_accumulation_steps=4, gradient_clipping=1.0, initial_dynamic_scale=65536, loss_scale=0, optimizer_name="adamw", steps_per_print=5, train_batch_size=128, train_micro_batch_size_per_gpu=8, world_size=4, zero_enabled=True, zero_optimization_stage=2).items():
        I("config.py:971:print", f"  {k} {'.'*(28-min(27,len(k)))} {v}")
    scale = 65536.0; since = 0; skipped = 0; P = []; step = 0; al = AR(r, .7, .06); hi = None; ovf = []; first = 702; done = False; mx = scale
    end_slide = 1130
    while not done:
        step += 1; t += timedelta(seconds=float(r.normal(3.42, .05)))
        if step <= 3: o = True
        elif step < first: o = since >= 180 and scale >= 131072 and r.random() < .05
        elif step < end_slide: o = (step == first) or r.random() < 0.030
        else: o = True
        if o:
            ovf.append(step); skipped += 1; since = 0
            if scale <= 1:
                done = True; break
            I("loss_scaler.py:188:update_scale", f"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {int(scale)}, reducing to {int(max(1,scale/2))}") if True else None
            scale = max(1, scale / 2)
        else:
            since += 1
            if since % 200 == 0: scale *= 2; mx = max(mx, scale)
        if step < first: l = 2.62 + 8.1 * math.exp(-step / 55) + 1.3 * math.exp(-step / 260) + al()
        else:
            u = step - first; l = 2.73 + .0021 * u + 1.4 * max(0, (u - 330) / 130) ** 2 + al() * (1 + u / 120)
        if step % 5 == 0:
            lr = 3e-4 * min(1, max(0, step - skipped) / 100)
            P.append((step, round(l, 4)))
            A(f"epoch 0 | step {step} | loss {l:.4f} | ppl {math.exp(min(20,l)):.2f}")
            I("logging.py:96:log_dist", f"[Rank 0] step={step}, skipped={skipped}, lr=[{lr!r}, {lr!r}], mom=[(0.9, 0.95), (0.9, 0.95)]")
            I("timer.py:260:stop", f"epoch=0/micro_step={step*4}/global_step={step}, RunningAvgSamplesPerSec={37.4+r.normal(0,.05)!r}, CurrSamplesPerSec={37.4+r.normal(0,.5)!r}, MemAllocated=7.92GB, MaxMemAllocated=31.4GB")
        if step == 500:
            I("logging.py:96:log_dist", "[Rank 0] [Torch] Checkpoint global_step500 is about to be saved!")
            for rk in range(4): I("torch_checkpoint_engine.py:33:commit", f"[Torch] Checkpoint global_step500 is ready now!")
    tb = ["Traceback (most recent call last):", '  File "/workspace/pretrain.py", line 212, in <module>', "    main()", '  File "/workspace/pretrain.py", line 187, in main', "    engine.step()",
          '  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/engine.py", line 2080, in step', "    self._take_model_step(lr_kwargs)",
          '  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/engine.py", line 1987, in _take_model_step', "    self.optimizer.step()",
          '  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/zero/stage_1_and_2.py", line 1781, in step', "    self._update_scale(self.overflow)",
          '  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/zero/stage_1_and_2.py", line 2031, in _update_scale', "    self.loss_scaler.update_scale(has_overflow)",
          '  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/fp16/loss_scaler.py", line 175, in update_scale', "    raise Exception(",
          "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."]
    for _ in range(4): L.extend(tb)
    t += timedelta(seconds=4)
    for p in (20411, 20412, 20413, 20414): I("launch.py:315:sigkill_handler", f"Killing subprocess {p}")
    I("launch.py:321:sigkill_handler", "['/opt/conda/bin/python', '-u', 'pretrain.py', '--local_rank=3', '--deepspeed_config', 'ds_fp16_z2.json'] exits with return code = 1", "ERROR")
    put("run03.log", "\n".join(L) + "\n"); k = keyfig(P)
    late = [s for s in ovf if s >= first]
    truth("run03.log", "DeepSpeed ZeRO-2 fp16", "broken", first, 25,
          "From step 702 FP16 overflows come far faster than the scale window can regrow; the loss scale slides down to 1 while the loss climbs, and DeepSpeed raises 'loss scale already at minimum' and exits.",
          dict(k, steps=step, skipped_steps=skipped, overflows_before_702=len(ovf) - len(late), overflows_from_702=len(late), scale_start=65536, scale_after_start_search=8192, scale_max=mx, scale_end=1, exit_code=1, last_print_step=P[-1][0], last_printed_skipped=sum(1 for x in ovf if x <= P[-1][0])))

# ---------------------------------------------------------------- 04 Megatron-LM bf16, pre-emptions
def run04():
    r = rng(4); L = []; A = L.append; t = datetime(2024, 6, 11, 3, 12, 45); N = 4000
    P = []; V = []
    def head(first):
        A("using world size: 64, data-parallel size: 16, context-parallel size: 1 tensor-model-parallel size: 4, pipeline-model-parallel size: 1 ")
        A("WARNING: Setting args.overlap_p2p_comm to False since non-interleaved schedule does not support overlapping p2p communication"); A("accumulate and all-reduce gradients in fp32 for bfloat16 data type."); A("using torch.bfloat16 for parameters ...")
        A("------------------------ arguments ------------------------")
        for k, v in sorted(dict(adam_beta1=.9, adam_beta2=.95, adam_eps=1e-8, bf16=True, clip_grad=1.0, check_for_nan_in_loss_and_grad=True, eval_interval=500, exit_signal_handler=True, fp16=False, global_batch_size=512, hidden_size=4096, initial_loss_scale=4294967296, log_interval=10, loss_scale=None, loss_scale_window=1000, lr="0.0003", lr_decay_style="cosine", lr_warmup_iters=400, min_loss_scale=1.0, min_lr="3e-05", num_layers=32, save="/lustre/ckpt/lm8b", save_interval=500, seq_length=4096, train_iters=N).items()):
            A(f"  {k} {'.'*(48-len(k))} {v}")
        A("-------------------- end of arguments ---------------------")
        A("> building GPT2BPETokenizer tokenizer ..."); A(" > padded vocab (size: 50257) with 431 dummy tokens (new size: 50688)"); A("> initializing torch distributed ..."); A("> setting random seeds to 1234 ...")
        A(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1741504512"); A("> learning rate decay style: cosine")
    def seg(a, b, noise):
        nonlocal t
        for s in range(a + 10, b + 1, 10):
            el = 5321 + noise.normal(0, 22) + (38000 if s == a + 10 else 0) / 10; t += timedelta(milliseconds=el * 10)
            lr = 3e-4 * s / 400 if s <= 400 else 3e-5 + .5 * (2.7e-4) * (1 + math.cos(math.pi * (s - 400) / (N - 400)))
            l = 2.30 + 6.2 * math.exp(-s / 130) + 2.3 * math.exp(-s / 620) + .42 * math.exp(-s / 2500) + noise.normal(0, .022)
            if 330 <= s <= 420: l += .25 * math.exp(-((s - 370) / 25) ** 2)
            gn = .34 + 18 * math.exp(-s / 50) + (2.1 * math.exp(-((s - 360) / 25) ** 2)) + abs(noise.normal(0, .04)) + (noise.uniform(.5, 1.5) if noise.random() < .01 else 0)
            P.append((s, round(l, 6)))
            A(f" [{t:%Y-%m-%d %H:%M:%S}] iteration {s:8d}/{N:8d} | consumed samples: {s*512:12d} | elapsed time per iteration (ms): {el:.1f} | throughput per GPU (TFLOP/s/GPU): {401.2*5321/el:.1f} | learning rate: {lr:.6E} | global batch size: {512:5d} | lm loss: {l:.6E} | loss scale: 1.0 | grad norm: {gn:.3f} | number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |")
            if s == 10: A("[Rank 0] (after 10 iterations) memory (MB) | allocated: 31211.3 | max allocated: 62014.8 | reserved: 66120.0 | max reserved: 66120.0")
            if s % 500 == 0:
                v = l + .015 + noise.normal(0, .004); V.append((s, round(v, 6)))
                A("-" * 100); A(f" validation loss at iteration {s} | lm loss value: {v:.6E} | lm loss PPL: {math.exp(v):.6E} | "); A("-" * 100)
                A(f"saving checkpoint at iteration {s:7d} to /lustre/ckpt/lm8b in torch_dist format"); A(f"  successfully saved checkpoint from iteration {s:7d} to /lustre/ckpt/lm8b [ t 1/4, p 1/1 ]"); t += timedelta(seconds=95)
    head(True); A("WARNING: could not find the metadata file /lustre/ckpt/lm8b/latest_checkpointed_iteration.txt "); A("    will not load any checkpoints and will start from random"); A(f"[before the start of training step] datetime: {t:%Y-%m-%d %H:%M:%S} ")
    seg(0, 1430, rng(41))
    A("slurmstepd: error: *** STEP 771204.0 ON node0114 CANCELLED AT 2024-06-11T05:22:17 DUE TO PREEMPTION ***"); A(f"saving checkpoint at iteration    1437 to /lustre/ckpt/lm8b in torch_dist format"); A("  successfully saved checkpoint from iteration    1437 to /lustre/ckpt/lm8b [ t 1/4, p 1/1 ]"); A("exiting program after receiving SIGTERM.")
    t += timedelta(hours=2, minutes=11); head(False)
    A(" loading distributed checkpoint from /lustre/ckpt/lm8b at iteration 1437"); A(" checkpoint version 3.0"); A("  successfully loaded checkpoint from /lustre/ckpt/lm8b [ t 1/4, p 1/1 ] at iteration 1437")
    seg(1430, 2180, rng(42))
    A("slurmstepd: error: *** STEP 771204.1 ON node0114 CANCELLED AT 2024-06-11T09:01:40 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"); A("srun: error: node0129: task 40: Killed"); A("srun: launch/slurm: _step_signal: Terminating StepId=771204.1")
    t += timedelta(minutes=37); head(False); A(" loading distributed checkpoint from /lustre/ckpt/lm8b at iteration 2000"); A(" checkpoint version 3.0"); A("  successfully loaded checkpoint from /lustre/ckpt/lm8b [ t 1/4, p 1/1 ] at iteration 2000")
    seg(2000, N, rng(43))
    A("[after training is done] datetime: %s " % f"{t:%Y-%m-%d %H:%M:%S}")
    put("run04.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run04.log", "Megatron-LM bf16", "healthy", None, None,
          "BF16 run (loss scale 1.0 is normal) with a small bump at the end of warm-up, one pre-emption (resumed at 1437) and one node failure (went back from 2180 to 2000); the loss continues without a jump to the end.",
          dict(k, steps=N, skipped_iterations=0, nan_iterations=0, scale_start=1.0, scale_end=1.0, restarts=2, resumed_at=[1437, 2000], validation=V))

# ---------------------------------------------------------------- 05 NeMo ASR
def run05():
    r = rng(5); L = []; A = L.append; t = datetime(2024, 3, 2, 11, 20, 3)
    def I(w, m, lv="I"): A(f"[NeMo {lv} {t:%Y-%m-%d %H:%M:%S} {w}] {m}")
    I("nemo_logging:349", "/usr/local/lib/python3.10/dist-packages/hydra/_internal/hydra.py:119: UserWarning: Future Hydra versions will no longer change working directory at job runtime by default.", "W"); A("      ret = run_job("); A("    ")
    I("speech_to_text_ctc_bpe:75", "Hydra config: name: FastConformer-CTC-BPE"); 
    for x in ["model:", "  sample_rate: 16000", "  log_prediction: true", "  ctc_reduction: mean_volume", "  train_ds:", "    batch_size: 32", "    max_duration: 16.7", "  optim:", "    name: adamw", "    lr: 0.001", "    betas: [0.9, 0.98]", "    sched:", "      name: CosineAnnealing", "      warmup_steps: 2000", "      min_lr: 1.0e-06", "trainer:", "  devices: 1", "  max_epochs: 24", "  precision: bf16-mixed", "  gradient_clip_val: 0.0", "exp_manager:", "  checkpoint_callback_params:", "    monitor: val_wer", "    save_top_k: 5"]: A("    " + x)
    A("GPU available: True (cuda), used: True"); I("exp_manager:396", "Experiments will be logged at /results/FastConformer-CTC-BPE/2024-03-02_11-20-01"); I("mixins:172", "Tokenizer SentencePieceTokenizer initialized with 1024 tokens")
    I("collections:196", "Dataset loaded with 26656 files totalling 92.31 hours"); I("collections:197", "412 files were filtered totalling 2.04 hours"); I("audio_to_text_dataset:48", "Model level config does not contain `labels`, please explicitly provide labels to the dataloaders.", "W")
    I("modelPT:728", "Optimizer config = AdamW (\n    Parameter Group 0\n        amsgrad: False\n        betas: [0.9, 0.98]\n        eps: 1e-08\n        lr: 0.001\n        weight_decay: 0.001\n    )")
    A("  | Name              | Type                              | Params"); A("------------------------------------------------------------------------"); A("0 | preprocessor      | AudioToMelSpectrogramPreprocessor | 0     "); A("1 | encoder           | ConformerEncoder                  | 115 M "); A("2 | decoder           | ConvASRDecoder                    | 525 K "); A("3 | loss              | CTCLoss                           | 0     "); A("4 | spec_augmentation | SpectrogramAugmentation           | 0     "); A("5 | wer               | WER                               | 0     ")
    words = "the of a to and he in was that it his had with as for not she but her they at on you is be which him said all have from there one we so were this what who out up then them when into no would do".split()
    n = 833; E = 24; spike = 9640; P = []; V = []; best = []; al = AR(r, .5, 1.0)
    for e in range(E):
        el = 0
        for i in list(range(50, n, 50)) + [n]:
            s = e * n + i; per = r.normal(.62, .01); el = i * .62; t += timedelta(seconds=.62 * 50)
            l = 19.5 + 290 * math.exp(-s / 420) + 55 * math.exp(-s / 2600)
            if s >= spike:
                u = s - spike; l = 33.0 - 4.2 * (1 - math.exp(-u / 6000)) + 265 * math.exp(-u / 260)
            l += al() * (.7 + .025 * l)
            lf = float(f"{l:.3g}"); P.append((s, lf))
            A(tq(f"Epoch {e}: ", i, n, el, .62, f"loss={lf:.3g}, v_num=0-01, train_step_timing in s={per:.3f}"))
            if i % 200 == 0:
                ref = [words[k] for k in r.integers(0, len(words), 11)]; rate = min(.95, .02 + l / 260); hyp = [w if r.random() > rate else words[r.integers(0, len(words))] for w in ref]
                if l > 200: hyp = []
                A(""); I("wer_bpe:315", ""); A(""); I("wer_bpe:316", "reference:" + " ".join(ref)); I("wer_bpe:317", "predicted:" + " ".join(hyp))
        s = (e + 1) * n; w = .118 + .9 * math.exp(-s / 1500) + .22 * math.exp(-s / 4200) if s < spike else .226 - .03 * (1 - math.exp(-(s - spike) / 5000)) + .45 * math.exp(-(s - spike) / 500)
        w += r.normal(0, .003); w = min(w, .9998); V.append((e, s, round(w, 5))); t += timedelta(seconds=63)
        A(tq("Validation DataLoader 0: ", 85, 85, 62, .73))
        best = sorted(best + [w])[:5]
        if w in best: I("dist_ckpt_io:80" if False else "rank_zero:64", f"Epoch {e}, global step {s}: 'val_wer' reached {w:.5f} (best {best[0]:.5f}), saving model to '/results/FastConformer-CTC-BPE/2024-03-02_11-20-01/checkpoints/FastConformer-CTC-BPE--val_wer={w:.4f}-epoch={e}.ckpt' as top 5")
        else: I("rank_zero:64", f"Epoch {e}, global step {s}: 'val_wer' was not in top 5")
    A(f"`Trainer.fit` stopped: `max_epochs={E}` reached.")
    put("run05.log", "\n".join(L) + "\n"); k = keyfig(P); bv = min(V, key=lambda v: v[2]); f = next(s for s, l in P if s >= spike)
    pre = [l for s, l in P if spike - 500 <= s < spike]; post = [l for s, l in P[-10:]]
    truth("run05.log", "NeMo ASR (Lightning bar + NeMo log lines)", "degraded", f, 50,
          "The loss spikes near step 9640 (epoch 11), comes down again within about 1,500 steps but settles on a clearly higher level, and val_wer never gets back to the best before the spike.",
          dict(k, steps=E * n, spike_peak=max(l for s, l in P if s >= spike), mean_loss_before_spike=round(float(np.mean(pre)), 2), mean_loss_at_end=round(float(np.mean(post)), 2), best_val_wer=bv[2], best_val_wer_epoch=bv[0], last_val_wer=V[-1][2]))

# ---------------------------------------------------------------- 06 torchtitan
def run06():
    r = rng(6); L = []; A = L.append; t = datetime(2025, 1, 14, 8, 11, 2, 123000); N = 8000
    def I(m, lv="INFO"): A(f"[rank0]:[titan] {t:%Y-%m-%d %H:%M:%S},{t.microsecond//1000:03d} - root - {lv} - {m}")
    A("+ NGPU=8"); A("+ CONFIG_FILE=./train_configs/llama3_1b.toml"); A("+ torchrun --nproc_per_node=8 --rdzv_backend c10d --rdzv_endpoint=localhost:0 --local-ranks-filter 0 --role rank --tee 3 train.py --job.config_file ./train_configs/llama3_1b.toml")
    A("W0114 08:10:44.031000 2716 site-packages/torch/distributed/run.py:793] *****************************************"); A("W0114 08:10:44.031000 2716 site-packages/torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed. ")
    I("Starting job: Llama 3 1B training"); I("WARNING: ENV[TORCH_NCCL_ASYNC_ERROR_HANDLING] = 1 will be overridden to 3 based on job config", "WARNING"); I("GPU capacity: NVIDIA H100 80GB HBM3 (0) with 79.10GiB memory"); I("Building 1-D device mesh with ['dp_shard'], [8]"); I("Building tiktoken tokenizer locally from ./torchtitan/datasets/tokenizer/original/tokenizer.model"); I("TikTokenizer built: #words 128256, BOS ID 128000, EOS ID 128001"); I("Preparing c4 dataset from allenai/c4"); I("Building llama3 1B with ModelArgs(dim=2048, n_layers=16, n_heads=32, n_kv_heads=8, vocab_size=128256, multiple_of=1024, ffn_dim_multiplier=1.3, norm_eps=1e-05, rope_theta=500000, max_seq_len=4096, depth_init=True, norm_type='rmsnorm')")
    I("\x1b[34mModel llama3 1B \x1b[31msize: 1,498,482,688 total parameters\x1b[39m"); I("Applied selective activation checkpointing to the model"); I("Applied FSDP to the model"); I("Peak FLOPS used for computing MFU: 9.890e+14"); I("CUDA memory usage for model: 0.78GiB(0.99%)"); I("Training starts at step 1, with local batch size 4, global batch size 32, sequence length 4096, total steps 8000 (warmup 400)")
    P = []; al = AR(r, .6, .045); turn = 3100; G = []
    for s in [1] + list(range(10, N + 1, 10)):
        t += timedelta(seconds=float(r.normal(5.1, .03)))
        base = 2.86 + 6.6 * math.exp(-s / 170) + 2.0 * math.exp(-s / 800) 
        if s == 1: base = 12.24
        if s > turn: u = (s - turn) / 4900; base += .30 * u + 1.05 * u ** 2
        l = base + al() * (1 + (1.5 * max(0, (s - turn) / 4900)))
        g = (.33 + 6 * math.exp(-s / 90)) * math.exp(r.normal(0, .12))
        if s > turn: g *= math.exp(2.1 * (s - turn) / 4900)
        tps = r.normal(25810, 90); P.append((s, round(l, 4))); G.append(round(g, 4))
        I(f"\x1b[31mstep: {s:2d}  \x1b[32mloss: {l:7.4f}  \x1b[33mmemory: 46.42GiB(58.69%)  \x1b[34mtps: {tps:,.0f}  \x1b[36mtflops: {tps*.01127:.2f}  \x1b[35mmfu: {tps*.01127/9.89:.2f}%\x1b[39m  grad_norm: {g:.4f}" if False else
          f"\x1b[31mstep: {s:2d}  \x1b[32mloss: {l:7.4f}  \x1b[38;5;208mgrad_norm: {g:7.4f}  \x1b[33mmemory: 46.42GiB(58.69%)  \x1b[34mtps: {tps:,.0f}  \x1b[36mtflops: {tps*.01127:.2f}  \x1b[35mmfu: {tps*.01127/9.89:.2f}%\x1b[39m")
        if s == 1: I("Synchronizing and adjusting timeout for all ProcessGroups to 0:01:40")
        if s % 1000 == 0: I("Saving the checkpoint (or staging if async is enabled)."); t += timedelta(seconds=9); I("[GC] GC collection invoked by checkpointing. 0.02 seconds."); I(f"Finished saving the checkpoint (or staging if async is enabled) in {r.uniform(8,11):.2f} seconds.")
        if s % 1750 == 0: I("[GC] Peforming periodical GC collection 0.01 seconds.")
    I("Sleeping 2 seconds for other ranks to complete"); I("Training completed"); I("Process group destroyed.")
    put("run06.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run06.log", "torchtitan (bf16, ANSI colours)", "broken", 3800, 900,
          "Slow divergence in BF16: the loss turns near step 3100 and climbs without a jump to the end, above what it was at step 1,000, while the gradient norm grows about eightfold.",
          dict(k, steps=N, turning_step=turn, loss_at_1000=dict(P)[1000], grad_norm_near_turn=float(np.median(G[305:320])), grad_norm_end=float(np.median(G[-15:]))))

# ---------------------------------------------------------------- 07 FSDP plain loop, 4 ranks, OOM kill
def run07():
    r = rng(7); L = []; A = L.append; t = datetime(2024, 9, 3, 14, 2, 11); last = 1873; P = []
    A("W0903 14:01:50.114000 139913 torch/distributed/run.py:779] "); A("W0903 14:01:50.114000 139913 torch/distributed/run.py:779] *****************************************")
    for k in range(4): A(f"[rank {k}] {t:%H:%M:%S} init process group nccl world_size=4 local_rank={k} device=NVIDIA A100-SXM4-40GB")
    A(f"[rank 0] {t:%H:%M:%S} config: " + json.dumps(dict(model="llama-3b", seq=2048, micro_bs=4, accum=4, lr=3e-4, warmup=200, steps=10000, sharding="FULL_SHARD", mp="bf16", loader_workers=8, ckpt_every=500, shuffle_buffer=2000000)))
    A("/opt/venv/lib/python3.10/site-packages/torch/distributed/fsdp/_init_utils.py:441: UserWarning: FSDP is switching to use `NO_SHARD` instead of ShardingStrategy.FULL_SHARD since the world size is 1." if False else "/opt/venv/lib/python3.10/site-packages/torch/utils/data/dataloader.py:558: UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system is 6, which is smaller than what this DataLoader is going to create.")
    A(f"[rank 0] {t:%H:%M:%S} params 3,212,749,824 (local shard 803,187,456)")
    rss = 38.0
    for s in range(10, last + 1, 10):
        t += timedelta(seconds=31.2 + r.normal(0, .2)); base = 2.55 + 7.4 * math.exp(-s / 95) + 1.5 * math.exp(-s / 600); lr = 3e-4 * min(1, s / 200); gn = .6 + 8 * math.exp(-s / 40) + abs(r.normal(0, .08))
        order = r.permutation(4); ls = [base + r.normal(0, .06) for _ in range(4)]
        for k in order: A(f"[rank {k}] {t:%H:%M:%S} step {s}/10000 loss {ls[k]:.4f} lr {lr:.2e} gnorm {gn:.3f} tok/s {r.normal(10480,60):.0f} mem {31.2+.1*k:.1f}GB")
        P.append((s, round(ls[0], 4)))
        rss = 38 + s * .0772 + r.normal(0, .4)
        if s == 50: rss0 = round(rss, 1)
        if s % 50 == 0: rssl = round(rss, 1)
        if s % 50 == 0: A(f"[rank 0] {t:%H:%M:%S} host rss {rss*1.0:.1f} GiB, open files {int(r.normal(412,3))}, loader queue {int(r.integers(12,17))}/16")
        if s % 250 == 0: A(f"[rank 0] {t:%H:%M:%S} eval @ {s}: val_loss {base+.03+r.normal(0,.005):.4f} ppl {math.exp(base+.03):.2f}")
        if s % 500 == 0: A(f"[rank 0] {t:%H:%M:%S} wrote ckpt/step{s:06d} in {r.uniform(20,26):.1f}s"); t += timedelta(seconds=24)
    d = f"{t:%m%d %H:%M:%S}"
    A(f"W{d}.402000 139913 torch/distributed/elastic/multiprocessing/api.py:858] Sending process 140022 closing signal SIGTERM"); A(f"W{d}.403000 139913 torch/distributed/elastic/multiprocessing/api.py:858] Sending process 140023 closing signal SIGTERM"); A(f"W{d}.404000 139913 torch/distributed/elastic/multiprocessing/api.py:858] Sending process 140025 closing signal SIGTERM")
    A(f"E{d}.981000 139913 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: -9) local_rank: 2 (pid: 140024) of binary: /opt/venv/bin/python3")
    L.extend(['Traceback (most recent call last):', '  File "/opt/venv/bin/torchrun", line 8, in <module>', '    sys.exit(main())', '  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 348, in wrapper', '    return f(*args, **kwargs)', '  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/run.py", line 901, in main', '    run(args)', '  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/run.py", line 892, in run', '    elastic_launch(', '  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/launcher/api.py", line 133, in __call__', '    return launch_agent(self._config, self._entrypoint, list(args))', '  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent', '    raise ChildFailedError(', 'torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ', '=======================================================', 'train_fsdp.py FAILED', '-------------------------------------------------------', 'Failures:', '  <NO_OTHER_FAILURES>', '-------------------------------------------------------', 'Root Cause (first observed failure):', '[0]:', f'  time      : {t:%Y-%m-%d_%H:%M:%S}', '  host      : a100-07.cluster.local', '  rank      : 2 (local_rank: 2)', '  exitcode  : -9 (pid: 140024)', '  error_file: <N/A>', '  traceback : Signal 9 (SIGKILL) received by PID 140024', '=======================================================', 'slurmstepd: error: Detected 1 oom_kill event in StepId=883121.0. Some of the step tasks have been OOM Killed.', 'srun: error: a100-07: task 0: Out Of Memory'])
    put("run07.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run07.log", "plain FSDP loop, 4 ranks, torchrun + Slurm", "broken", 1870, 10,
          "The host memory of the job grows by about 0.08 GiB a step until the kernel kills rank 2 (SIGKILL, oom_kill) after step 1870 of 10,000; loss and gradient norm are healthy to the last line, newest checkpoint step 1500.",
          dict(k, loss_is_of="rank 0", steps=1870, steps_planned=10000, host_rss_first_gib=rss0, host_rss_last_gib=rssl, last_checkpoint=1500, killed_rank=2))

# ---------------------------------------------------------------- 08 nanoGPT, resume without optimizer
def run08():
    r = rng(8); L = []; A = L.append; N = 12000; P = []; V = []; cut = 6000
    def cfg(res):
        A("Overriding config with config/train_gpt2_small.py:"); A("# launch: torchrun --standalone --nproc_per_node=4 train.py config/train_gpt2_small.py"); A("wandb_log = False"); A("batch_size = 12"); A("block_size = 1024"); A("gradient_accumulation_steps = 10 * 4"); A(f"max_iters = {N}"); A(f"lr_decay_iters = {N}"); A("eval_interval = 500"); A("log_interval = 10"); A("weight_decay = 1e-1")
        if res: A("Overriding: init_from = resume")
        A("tokens per iteration will be: 491,520")
        A("Resuming training from out-owt" if res else "Initializing a new model from scratch")
        if res: A("ckpt keys: ['model', 'model_args', 'iter_num', 'best_val_loss', 'config']")
        else: A("defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)")
        A("number of parameters: 123.59M"); A("num decayed parameter tensors: 50, with 124,354,560 parameters"); A("num non-decayed parameter tensors: 25, with 19,200 parameters"); A("using fused AdamW: True"); A("compiling the model... (takes a ~minute)")
    def base(s):
        b = 3.10 + 5.6 * math.exp(-s / 260) + 1.55 * math.exp(-s / 1500) + .2 * math.exp(-s / 6000)
        if s > cut: u = s - cut; b = 3.262 + .045 * math.exp(-u / 2500) + 1.35 * math.exp(-u / 130) + .30 * math.exp(-u / 900)
        if s == cut: b = base(cut - 1)
        return b
    best = 9; cfg(False)
    s = 0; resumed = False
    while s <= N:
        if s % 500 == 0 and not (s == 0 and False):
            vb = base(s) if not (s == cut and resumed) else base(s)
            if s == 0: vb = 10.98
            tl, vl = vb + r.normal(0, .004), vb + .012 + r.normal(0, .004); V.append((s, round(vl, 4)))
            A(f"step {s}: train loss {tl:.4f}, val loss {vl:.4f}")
            if s and vl < best: best = vl; A("saving checkpoint to out-owt")
        l = (base(s) if s else 10.98) + r.normal(0, .045); P.append((s, round(l, 4)))
        ms = r.normal(742, 4) + (5100 if s % 500 == 0 else 0) + (31000 if s in (0,) or (resumed and s == cut) else 0)
        A(f"iter {s}: loss {l:.4f}, time {ms:.2f}ms, mfu {r.normal(39.2,.2) if s else -100:.2f}%")
        if s == cut + 130 and not resumed:
            pass
        if s == cut and not resumed:
            A("^C[2024-04-08 23:41:02,771] torch.distributed.elastic.agent.server.api: [WARNING] Received Signals.SIGINT death signal, shutting down workers"); A("")
            resumed = True; cfg(True); V.pop(); 
            P.pop()
            continue_after = True
            V.append((s, round(vl, 4))); tl2 = base(s) + r.normal(0, .004); A(f"step {s}: train loss {tl2:.4f}, val loss {tl2+.012:.4f}")
            A(f"iter {s}: loss {l + r.normal(0,.03):.4f}, time {36121.4:.2f}ms, mfu -100.00%"); P.append((s, round(l, 4)))
        s += 10
    put("run08.log", "\n".join(L) + "\n"); k = keyfig(P); d = dict(P); vb = min((v for v in V), key=lambda v: v[1])
    truth("run08.log", "nanoGPT", "degraded", 6010, 20,
          "Resumed at iteration 6000 from a checkpoint without optimizer state (keys list shows none): the loss jumps by about 1.6 right after, takes thousands of iterations to come down and stays above the level before the stop to the end.",
          dict(k, steps=N, resume_step=cut, loss_at_5990=d[5990], loss_at_6010=d[6010], val_at_6000=dict(V)[6000], best_val=vb[1], best_val_step=vb[0], last_val=V[-1][1]))

# ---------------------------------------------------------------- 09 fairseq
def run09():
    r = rng(9); L = []; A = L.append; t = datetime(2021, 8, 3, 11, 22, 33); n = 1102; E = 8
    def I(w, m): A(f"{t:%Y-%m-%d %H:%M:%S} | INFO | {w} | {m}")
    I("fairseq_cli.train", "{'_name': None, 'common': {'_name': None, 'no_progress_bar': True, 'log_interval': 25, 'log_format': 'simple', 'seed': 1, 'fp16': True, 'memory_efficient_fp16': False, 'fp16_init_scale': 128, 'fp16_scale_window': 500, 'fp16_scale_tolerance': 0.0, 'min_loss_scale': 0.0001, 'threshold_loss_scale': None}, 'optimization': {'max_epoch': 8, 'clip_norm': 0.0, 'update_freq': [1], 'lr': [0.0005]}, 'criterion': {'_name': 'label_smoothed_cross_entropy', 'label_smoothing': 0.1}, 'lr_scheduler': {'_name': 'inverse_sqrt', 'warmup_updates': 4000, 'warmup_init_lr': 1e-07}}")
    I("fairseq.tasks.translation", "[de] dictionary: 8848 types"); I("fairseq.tasks.translation", "[en] dictionary: 6632 types"); I("fairseq_cli.train", "task: TranslationTask"); I("fairseq_cli.train", "num. shared model params: 39,469,056 (num. trained: 39,469,056)"); I("fairseq.data.data_utils", "loaded 160,239 examples from: data-bin/iwslt14.tokenized.de-en/train.de-en.de"); I("fairseq.trainer", "detected shared parameter: decoder.embed_tokens.weight <- decoder.output_projection.weight"); I("fairseq.utils", "***********************CUDA enviroments for all 1 workers***********************"); I("fairseq.utils", "rank   0: capabilities =  7.0  ; total memory = 31.749 GB ; name = Tesla V100-SXM2-32GB"); I("fairseq.trainer", "No existing checkpoint found checkpoints/checkpoint_last.pt"); I("fairseq.trainer", "NOTE: your device may support faster training with --amp"); I("fairseq.trainer", "begin training epoch 1")
    scale = 128.0; since = 0; P = []; V = []; ov = []; upd = 0; best = 99; wall = 0; ups = 8.3; mx = 128
    for e in range(1, E + 1):
        for i in range(1, n + 1):
            s = (e - 1) * n + i; wall += 1 / ups; t0 = t; t += timedelta(seconds=1 / ups)
            lim = 4.1 if s < 12 else 2 ** (4.2 + 2.5 * min(1, s / 5000)) * 1.0
            o = (s <= 5) or (scale > lim and r.random() < .3)
            if o:
                scale /= 2; since = 0; ov.append((s, scale)); I("fairseq.trainer", f"NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: {scale}"); continue
            upd += 1; since += 1
            if since % 500 == 0 and since: scale *= 2; mx = max(mx, scale)
            if upd % 25 == 0:
                l = 4.02 + 6.6 * math.exp(-upd / 500) + 3.0 * math.exp(-upd / 2300) + r.normal(0, .07); nll = l * 1.19 - 2.05 if l < 11 else l - .05
                lr = 5e-4 * upd / 4000 if upd <= 4000 else 5e-4 * math.sqrt(4000 / upd); gn = .95 + 3.2 * math.exp(-upd / 300) + abs(r.normal(0, .12))
                P.append((upd, round(l, 3)))
                I("train_inner", f"epoch {e:03d}: {i:6d} / {n} loss={l:.3f}, nll_loss={nll:.3f}, ppl={2**nll:.2f}, wps={r.normal(29512,300):.1f}, ups={r.normal(ups,.1):.2f}, wpb={r.normal(3560,30):.1f}, bsz={r.normal(145,6):.1f}, num_updates={upd}, lr={lr:.6g}, gnorm={gn:.3f}, loss_scale={scale:g}, train_wall=3, gb_free=28.9, wall={wall:.0f}")
        v = 3.92 + 6.2 * math.exp(-upd / 700) + 2.5 * math.exp(-upd / 2300) + r.normal(0, .01); nll = v * 1.19 - 2.05; best = min(best, v); V.append((e, round(v, 3)))
        I("fairseq_cli.train", f'begin validation on "valid" subset'); t += timedelta(seconds=6)
        I("valid", f"epoch {e:03d} | valid on 'valid' subset | loss {v:.3f} | nll_loss {nll:.3f} | ppl {2**nll:.2f} | wps 71204.1 | wpb 2835.3 | bsz 115.6 | num_updates {upd}" + (f" | best_loss {best:.3f}" if e > 1 else "")); I("fairseq.checkpoint_utils", f"Preparing to save checkpoint for epoch {e} @ {upd} updates"); I("fairseq.checkpoint_utils", f"Saved checkpoint checkpoints/checkpoint{e}.pt (epoch {e} @ {upd} updates, score {v:.3f}) (writing took 2.1 seconds)"); I("fairseq_cli.train", f"end of epoch {e} (average epoch stats below)")
        I("train", f"epoch {e:03d} | loss {P[-1][1]+.1:.3f} | nll_loss {P[-1][1]*1.19-1.95:.3f} | ppl {2**(P[-1][1]*1.19-1.95):.2f} | wps 29230.4 | ups 8.21 | wpb 3560.1 | bsz 145.4 | num_updates {upd} | lr {lr:.6g} | gnorm {gn:.3f} | loss_scale {scale:g} | train_wall 129 | gb_free 29 | wall {wall:.0f}")
        if e < E: I("fairseq.trainer", f"begin training epoch {e+1}")
    I("fairseq_cli.train", f"done training in {wall:.1f} seconds")
    put("run09.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run09.log", "fairseq fp16", "healthy", None, None,
          "The first 5 updates are skipped while the dynamic loss scale is searched (128 down to 4) and later single overflows follow scale doublings; loss and validation loss fall to the end.",
          dict(k, steps=upd, skipped_steps=len(ov), skipped_in_first_20=sum(1 for s, _ in ov if s <= 20), scale_start=128, scale_after_search=4, scale_max=mx, scale_end=scale, first_valid=V[0][1], last_valid=V[-1][1]))

# ---------------------------------------------------------------- 10 timm, schedule over early
def run10():
    r = rng(10); L = []; A = L.append; n = 1251; E = 90; end = 30; P = []; T = []
    A("Training with a single process on 1 device (cuda:0)."); A("Model vit_small_patch16_224 created, param count:22050664"); A("Data processing configuration for current model + dataset:")
    for x in ["input_size: (3, 224, 224)", "interpolation: bicubic", "mean: (0.5, 0.5, 0.5)", "std: (0.5, 0.5, 0.5)", "crop_pct: 0.9"]: A("\t" + x)
    A("AMP not enabled. Training in torch.float32." if False else "Using native Torch AMP. Training in mixed precision."); A("Scheduled epochs: 90. LR stepped per update.")
    A("/opt/conda/lib/python3.10/site-packages/torch/optim/lr_scheduler.py:143: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite order.")
    best = (0, 0); hist = []; tot_imp = 0
    def lrf(x): return 1e-6 + (1e-3 - 1e-6) * x / 3 if x < 3 else (1e-6 if x >= end else 1e-6 + .5 * (1e-3 - 1e-6) * (1 + math.cos(math.pi * (x - 0) / end)))
    for e in range(E):
        avg = []
        for i in list(range(0, n - 1, 250)) + [n - 1]:
            x = e + i / n; xe = min(x, end) ; l = 3.42 + 3.5 * math.exp(-xe / 6.5) - .0006 * max(0, x - end) + r.normal(0, .09); avg.append(l); P.append((e * n + i, float(f'{l:.3g}')))
            tt = r.normal(.412, .006)
            A(f"Train: {e} [{i:>4d}/{n} ({100*i/(n-1):>3.0f}%)]  Loss: {l:#.3g} ({np.mean(avg):#.3g})  Time: {tt:.3f}s, {1024/tt:>7.2f}/s  ({.412:.3f}s, {1024/.412:>7.2f}/s)  LR: {lrf(x):.3e}  Data: {abs(r.normal(.012,.003)):.3f} (0.013)")
        xe = min(e + 1, end); acc = 63.4 * (1 - math.exp(-xe / 7.5)) + r.normal(0, .18 if e < end else .05); tl = 1.62 + 5.0 * math.exp(-xe / 6) + r.normal(0, .01)
        for j in (0, 24, 48): A(f"Test: [{j:>4d}/48]  Time: {r.normal(.31,.02):.3f} (0.330)  Loss: {tl+r.normal(0,.06)*(j!=48):>7.3f} ({tl:>6.3f})  Acc@1: {acc+r.normal(0,1)*(j!=48):>7.3f} ({acc:>7.3f})  Acc@5: {min(99,acc+21-(acc/10)):>7.3f} ({min(99,acc+21-acc/10):>7.3f})")
        T.append((e, round(acc, 3)))
        if acc > best[0]: best = (acc, e)
        if e % 10 == 9:
            A("Current checkpoints:")
            for a, ee in sorted(((a, ee) for ee, a in T), reverse=True)[:5]: A(f" ('./output/train/20230911-101502-vit_small_patch16_224-224/checkpoint-{ee}.pth.tar', {a})")
            A("")
    A(f"*** Best metric: {best[0]:.3f} (epoch {best[1]})")
    put("run10.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run10.log", "timm train.py", "degraded", end * n, 3 * n,
          "The cosine schedule is over at epoch 30 of 90 (lr at its floor 1e-6 from there): loss and accuracy stand still for the remaining 60 epochs, two thirds of the run wasted.",
          dict(k, epochs=E, steps=E * n, step_counts="epoch*1251 + batch", lr_floor=1e-6, lr_floor_from_epoch=end, acc_epoch_29=T[29][1], acc_last=T[-1][1], acc_best=round(best[0], 3), acc_best_epoch=best[1]))

# ---------------------------------------------------------------- 11 ultralytics results.csv
def run11():
    r = rng(11); o = []; E = 300; bad = 143; P = []; M = []; el = 0; VL = []
    o.append("epoch,time,train/box_loss,train/cls_loss,train/dfl_loss,metrics/precision(B),metrics/recall(B),metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,val/cls_loss,val/dfl_loss,lr/pg0,lr/pg1,lr/pg2")
    g = lambda x: f"{x:.5g}"
    for e in range(1, E + 1):
        el += r.normal(24.6, .4); q = math.exp(-e / 40); mos = -.09 if e > 290 else 0
        b = 1.02 + .75 * q - .0009 * e + mos + r.normal(0, .012); c = .55 + 2.3 * math.exp(-e / 18) - .0008 * e + mos + r.normal(0, .012); d = 1.03 + .5 * q - .0003 * e + r.normal(0, .005)
        if e < bad:
            m = .78 * (1 - math.exp(-e / 28)) + r.normal(0, .008); m = max(.002, m); row = [m + .05 + r.normal(0, .01), m - .04 + r.normal(0, .01), m, m * .66, b + .11 + r.normal(0, .01), c + .09 + r.normal(0, .01), d + .05]
        else: row = [0, 0, 0, 0, math.nan, math.nan, math.nan]
        row = [max(0, x) if math.isfinite(x) else x for x in row]
        lr = .01 * (1 - .99 * (e - 1) / E); lr = lr if e > 3 else lr * e / 3
        P.append((e, float(g(b)))); M.append((e, float(g(row[2])))); VL.append((e, row[4]))
        o.append(",".join([str(e), g(el), g(b), g(c), g(d)] + [("nan" if math.isnan(x) else g(x)) for x in row] + [g(lr)] * 3))
    put("run11.csv", "\n".join(o) + "\n"); k = keyfig(P); bm = max(M, key=lambda p: p[1])
    truth("run11.csv", "ultralytics results.csv", "broken", bad, 0,
          "From epoch 143 on every validation loss is nan and precision, recall and mAP are 0, while the training losses go on falling (the EMA/validated weights or BN statistics are no longer finite); the last weights are unusable.",
          dict(first_box_loss=k["first_loss"], last_box_loss=k["last_loss"], least_box_loss=k["least_loss"], least_box_loss_epoch=k["least_loss_step"], epochs=E, best_mAP50=bm[1], best_mAP50_epoch=bm[0], last_finite_val_box_loss=round(VL[bad - 2][1], 5), step_counts="epoch"))

# ---------------------------------------------------------------- 12 mmdet JSON
def run12():
    r = rng(12); o = []; n = 1466; E = 12; P = []; V = []; start = 5000; nan = 12660; G = []
    al = AR(r, .5, .04); lastg = None
    for e in range(1, E + 1):
        for i in list(range(25, n + 1, 25)):
            s = (e - 1) * n + i; lr = .02 * min(1, .001 + s / 500) * (.1 if e > 8 else 1) * (.1 if e > 11 else 1); u = max(0, s - start) / (nan - start)
            g = (4.2 + 9 * math.exp(-s / 400)) * math.exp(r.normal(0, .2)) * math.exp(5.1 * u)
            b = .74 + 1.9 * math.exp(-s / 500) + .35 * math.exp(-s / 4000); b = b * (1 + .03 * u + .95 * max(0, (u - .55) / .45) ** 2) + al() * (1 + 3 * u)
            if s >= nan: b = g = math.nan
            fr = [.05, .06, .42, .47]; parts = [b * f for f in fr]
            P.append((s, b)); G.append((s, g))
            o.append(json.dumps(dict(base_lr=lr, lr=lr, data_time=round(abs(r.normal(.009, .002)), 17), grad_norm=g, loss=b, loss_rpn_cls=parts[0], loss_rpn_bbox=parts[1], loss_cls=parts[2], acc=(float(94 + r.normal(0, 1.5)) if s < nan else 0.0), loss_bbox=parts[3], time=float(r.normal(.291, .004)), epoch=e, iter=s, memory=int(5412 + (i == 25) * 3), step=s)))
        s = e * n; u = max(0, s - start) / (nan - start)
        if s < nan:
            m = (.335 * (1 - math.exp(-e / 2.2))) * (1 - .55 * max(0, (u - .4) / .6) ** 1.5) + r.normal(0, .003); m = round(float(max(0, m)), 3); V.append((e, m))
            o.append(json.dumps({"coco/bbox_mAP": m, "coco/bbox_mAP_50": round(m * 1.62, 3), "coco/bbox_mAP_75": round(m * 1.03, 3), "coco/bbox_mAP_s": round(m * .55, 3), "coco/bbox_mAP_m": round(m * 1.1, 3), "coco/bbox_mAP_l": round(m * 1.3, 3), "data_time": .0021, "time": .0412, "step": e}))
        else: o.append(json.dumps({"data_time": .0022, "time": .0388, "step": e}))
    put("run12.json", "\n".join(o) + "\n"); k = keyfig(P); fn = next(s for s, l in P if math.isnan(l)); lastf = [p for p in P if math.isfinite(p[1])][-1]
    med = lambda a, b: round(float(np.median([g for s, g in G if a <= s < b])), 2)
    truth("run12.json", "mmdet/mmengine scalars.json", "broken", 5500, 1500,
          "The gradient norm grows exponentially from about step 5000 (over a hundredfold), the loss follows from about step 9500 and all losses are NaN from step %d on; later evaluations have no mAP at all." % fn,
          dict(first_loss=round(k["first_loss"], 4), last_loss="nan", last_finite_loss=round(lastf[1], 4), least_loss=round(k["least_loss"], 4), least_loss_step=k["least_loss_step"], steps=E * n, last_logged_step=P[-1][0], first_nan_step=fn, first_nan_epoch=fn // n + 1, grad_norm_3000_5000=med(3000, 5000), grad_norm_8000_9000=med(8000, 9000), grad_norm_last_500_before_nan=med(nan - 500, nan), best_mAP=max(V, key=lambda v: v[1])[1], last_mAP=V[-1][1]))

# ---------------------------------------------------------------- 13 wandb JSONL GRPO
def run13():
    r = rng(13); o = []; t0 = 1741003311.42; P = []; K = []; RW = []; rt = 40.0; a = AR(r, .6, .03)
    N = 700
    for s in range(1, N + 1):
        rt += r.normal(38, 2); x = s / N; kl = 0.0004 * 0 + .11 * (1 - math.exp(-s / 420)) * math.exp(r.normal(0, .12)) + 1e-4 * (s < 5)
        if s == 1: kl = 0.0
        loss = .04 * kl + r.normal(0, 2e-9) + (r.normal(0, .004) if s > 3 and r.random() < .25 else 0)
        rew = .42 + 1.15 * (1 - math.exp(-s / 210)) + a() * 2; std = max(.02, .52 - .22 * x + r.normal(0, .05)); z = float(np.clip(.06 + .45 * x + r.normal(0, .08), 0, 1)); z = round(z * 8) / 8
        row = {"train/loss": round(loss, 4) if s > 1 else 0.0, "train/grad_norm": float(abs(r.normal(.21, .05)) * (1 + (2 if r.random() < .01 else 0))), "train/learning_rate": 1e-6 * min(1, s / 35) * (1 if s <= 35 else .5 * (1 + math.cos(math.pi * (s - 35) / (N - 35)))),
               "train/num_tokens": 41000 * s, "train/completions/mean_length": float(310 + 260 * x + r.normal(0, 22)), "train/completions/clipped_ratio": float(max(0, .02 + .05 * x + r.normal(0, .01))), "train/rewards/accuracy_reward/mean": float(np.clip(rew * .6, 0, 1)), "train/rewards/format_reward/mean": float(np.clip(rew * .62, 0, 1)), "train/reward": float(rew), "train/reward_std": float(std), "train/frac_reward_zero_std": z, "train/kl": float(kl), "train/clip_ratio/low_mean": 0.0, "train/clip_ratio/high_mean": 0.0, "train/epoch": round(s * 32 / 7473, 4), "train/global_step": s, "_runtime": rt, "_timestamp": t0 + rt, "_step": s - 1}
        P.append((s, row["train/loss"])); K.append(kl); RW.append(rew); o.append(json.dumps(row))
        if s % 100 == 0: o.append(json.dumps({"eval/gsm8k_acc": round(.31 + .42 * (1 - math.exp(-s / 250)) + float(r.normal(0, .006)), 4), "train/global_step": s, "_runtime": rt + 30, "_timestamp": t0 + rt + 30, "_step": s - 1}))
    put("run13.jsonl", "\n".join(o) + "\n"); k = keyfig(P)
    truth("run13.jsonl", "wandb history JSONL (TRL GRPO)", "healthy", None, None,
          "GRPO: the loss starts at exactly 0, hovers near 0 with both signs and rises with beta*KL, the KL rises to about 0.09 - both by design; reward and eval accuracy rise throughout.",
          dict(k, steps=N, kl_first=0.0, kl_last=round(K[-1], 4), reward_first10=round(float(np.mean(RW[:10])), 3), reward_last10=round(float(np.mean(RW[-10:])), 3)))

# ---------------------------------------------------------------- 14 TensorBoard long CSV
def run14():
    r = rng(14); o = ["wall_time,tag,step,value"]; w = 1712312201.0; P = []; V = []; dead = 2650; rows = []
    for s in range(25, 8001, 25):
        w += 9.4 + r.normal(0, .2); 
        if s < dead: l = 4.35 + 2.55 * math.exp(-s / 1300) + r.normal(0, .06); g = (1.1 + .9 * math.exp(-s / 300)) * math.exp(r.normal(0, .2))
        else: l = 6.9078 + r.normal(0, .0009); g = 0.0
        if s == dead - 25: g = 41.7; l += .9
        lr = .4 * min(1, s / 500) * (1 - s / 9000); P.append((s, round(l, 6)))
        for tag, v in (("train/loss", f"{l:.6f}"), ("train/grad_norm", f"{g:.6f}"), ("train/lr", f"{lr:.8f}")): o.append(f"{w:.6f},{tag},{s},{v}")
        if s % 500 == 0:
            vl, ac = (l + .1, 100 * math.exp(-l) * 9) if s < dead else (6.907755, .1); V.append((s, round(vl, 4)))
            o += [f"{w+20:.6f},val/loss,{s},{vl:.6f}", f"{w+20:.6f},val/top1,{s},{ac:.4f}"]
    put("run14.csv", "\n".join(o) + "\n"); k = keyfig(P)
    truth("run14.csv", "TensorBoard CSV export, long form", "broken", 2650, 25,
          "After one big gradient (41.7 at step 2625) the network is dead: from step 2650 the gradient norm is exactly 0 and the loss stands at 6.908 = ln 1000 to the end, val top-1 at chance 0.1 %.",
          dict(k, steps=8000, grad_norm_zero_from=2650, stalled_loss=6.908, last_val_loss=V[-1][1]))

# ---------------------------------------------------------------- 15 diffusers LoRA via accelerate, Chinese wrapper, batch 1
def run15():
    r = rng(15); o = io.StringIO(); W = o.write; N = 2000; P = []
    W("[启动器] 2024-07-18 20:31:02 工作目录 D:\\lora-train,开始检查环境……\n[启动器] Python 3.10.11,torch 2.1.2+cu121,显卡 NVIDIA GeForce RTX 3060 (12288 MB)\n[启动器] 数据集:共 47 张图片,重复 10 次,batch_size=1\n[启动器] 警告:metadata.csv 中有 3 行 caption 为 NaN(空值),已用空字符串代替\n")
    W("[启动器] 执行命令: accelerate launch --mixed_precision=fp16 train_text_to_image_lora.py --train_batch_size=1 --max_train_steps=2000 --learning_rate=1e-04 --lr_scheduler=constant_with_warmup --lr_warmup_steps=100\n")
    W("The following values were not passed to `accelerate launch` and had defaults used instead:\n\t`--num_processes` was set to a value of `1`\n\t`--num_machines` was set to a value of `1`\n\t`--dynamo_backend` was set to a value of `'no'`\n")
    W("07/18/2024 20:31:24 - INFO - __main__ - Distributed environment: NO\nNum processes: 1\nProcess index: 0\nLocal process index: 0\nDevice: cuda\n\nMixed precision type: fp16\n\n{'variance_type', 'clip_sample_range', 'thresholding', 'dynamic_thresholding_ratio'} was not found in config. Values will be initialized to default values.\n{'scaling_factor', 'force_upcast'} was not found in config. Values will be initialized to default values.\n")
    for x in ["***** Running training *****", "  Num examples = 470", "  Num Epochs = 5", "  Instantaneous batch size per device = 1", "  Total train batch size (w. parallel, distributed & accumulation) = 1", "  Gradient Accumulation steps = 1", f"  Total optimization steps = {N}"]: W(f"07/18/2024 20:31:58 - INFO - __main__ - {x}\n")
    el = 0
    for s in range(2, N + 1, 2):
        per = r.normal(.81, .02); el += 2 * per; l = float(np.clip(math.exp(r.normal(-2.75 - .12 * min(1, s / 1200), .95)), .0011, .92)); P.append((s, float(f"{l:.3g}")))
        lr = 1e-4 * min(1, s / 100)
        W("\r" + tq("Steps: ", s, N, el, .81, f"lr={lr:.3g}, step_loss={l:.3g}"))
        if s % 500 == 0: W(f"\n07/18/2024 {20+(31*60+58+int(el))//3600:02d}:{((31*60+58+int(el))//60)%60:02d}:{(58+int(el))%60:02d} - INFO - accelerate.accelerator - Saving current state to out\\checkpoint-{s}\n[启动器] 已保存中间模型 checkpoint-{s},正在生成预览图……\n[启动器] 预览图完成,耗时 {r.uniform(20,26):.1f} 秒\n")
    W("\nModel weights saved in out\\pytorch_lora_weights.safetensors\n" + tq("Steps: ", N, N, el, .81, f"lr=0.0001, step_loss={l:.3g}") + "\n[启动器] 训练完成,总用时 %s,模型位于 D:\\lora-train\\out\n" % hms(el))
    put("run15.log", o.getvalue()); k = keyfig(P); v = [p[1] for p in P]
    truth("run15.log", "diffusers LoRA script (accelerate + tqdm, carriage returns, Chinese wrapper)", "healthy", None, None,
          "Batch-1 diffusion loss: single-step values scatter over two orders of magnitude because the timestep is random, with only a slight fall of the mean; nothing is wrong, the NaN in the text is an empty caption.",
          dict(k, steps=N, mean_first_quarter=round(float(np.mean(v[:250])), 4), mean_last_quarter=round(float(np.mean(v[-250:])), 4), max_loss=max(v)))

# ---------------------------------------------------------------- 16 TRL DPO
def run16():
    r = rng(16); L = []; A = L.append; N = 1910; P = []; V = []; el = 0
    A("[2024-01-22 17:40:12,881] [INFO] [real_accelerator.py:161:get_accelerator] Setting ds_accelerator to cuda (auto detect)"); A("2024-01-22 17:40:14 - WARNING - __main__ - Process rank: 0, device: cuda:0, n_gpu: 1 distributed training: True, 16-bits training: False"); A("2024-01-22 17:40:14 - INFO - __main__ - Model parameters ModelArguments(base_model_revision=None, model_name_or_path='alignment-handbook/zephyr-7b-sft-full', torch_dtype='auto', use_flash_attention_2=True, use_peft=False)")
    A("2024-01-22 17:40:14 - INFO - __main__ - Training/evaluation parameters DPOConfig(beta=0.01, bf16=True, fp16=False, learning_rate=5e-07, lr_scheduler_type=cosine, max_length=1024, max_prompt_length=512, warmup_ratio=0.1, loss_type=sigmoid)")
    A("/opt/conda/lib/python3.10/site-packages/trl/trainer/dpo_trainer.py:314: UserWarning: When using DPODataCollatorWithPadding, you should set `remove_unused_columns=False` in your TrainingArguments we have set it for you, but you should do it yourself in the future."); A("Could not estimate the number of tokens of the input, floating-point operations will not be computed")
    A("***** Running training *****"); A("  Num examples = 61,134"); A("  Num Epochs = 1"); A("  Instantaneous batch size per device = 8"); A(f"  Total optimization steps = {N:,}")
    f = lambda x: round(float(x), 4)
    for s in [1] + list(range(10, N + 1, 10)):
        per = 9.1; el += per * (10 if s > 1 else 1); x = 1 - math.exp(-max(0, s - 60) / 420); lr = 5e-7 * s / 191 if s <= 191 else 2.5e-7 * (1 + math.cos(math.pi * (s - 191) / (N - 191)))
        ch = -1.05 * x + r.normal(0, .06) * x; mg = .98 * x + r.normal(0, .09) * (x > .02) + abs(r.normal(0, .003)); acc = .5 + .27 * min(1, x * 1.3) + r.normal(0, .045)
        if s == 1: ch = mg = acc = 0.0
        loss = .6931 - .185 * x + r.normal(0, .026) * min(1, .02 + x) ; loss = .6931 if s == 1 else loss
        P.append((s, f(loss)))
        A("{" + f"'loss': {f(loss)}, 'grad_norm': {float((4.6+7*x)*math.exp(r.normal(0,.15)))!r}, 'learning_rate': {lr!r}, 'rewards/chosen': {float(ch)!r}, 'rewards/rejected': {float(ch-mg)!r}, 'rewards/accuracies': {f(np.clip(acc,0,1))}, 'rewards/margins': {float(mg)!r}, 'logps/rejected': {float(-262+100*(ch-mg)+r.normal(0,9))!r}, 'logps/chosen': {float(-284+100*ch+r.normal(0,9))!r}, 'logits/rejected': {float(-2.5+1.9*x+r.normal(0,.08))!r}, 'logits/chosen': {float(-2.6+1.8*x+r.normal(0,.08))!r}, 'epoch': {round(s/N,2)}" + "}")
        if s % 30 == 0: A(tq("", s, N, el, per))
        if s % 300 == 0:
            v = .6931 - .178 * x + r.normal(0, .002); V.append((s, f(v)))
            A("{" + f"'eval_loss': {float(v)!r}, 'eval_runtime': {r.normal(290,2):.4f}, 'eval_samples_per_second': 6.89, 'eval_steps_per_second': 0.21, 'eval_rewards/chosen': {float(-1.03*x)!r}, 'eval_rewards/rejected': {float(-2.0*x)!r}, 'eval_rewards/accuracies': {f(.5+.26*min(1,x*1.3))}, 'eval_rewards/margins': {float(.97*x)!r}, 'epoch': {round(s/N,2)}" + "}")
            A("/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py:1879: UserWarning: Positional args are being deprecated, use kwargs instead. Refer to https://pytorch.org/docs/master/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.")
    A("{" + f"'train_runtime': {el:.4f}, 'train_samples_per_second': {61134/el:.3f}, 'train_steps_per_second': {N/el:.3f}, 'train_loss': {float(np.mean([p[1] for p in P]))!r}, 'epoch': 1.0" + "}"); A("2024-01-22 22:31:40 - INFO - __main__ - *** Training complete ***")
    put("run16.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run16.log", "TRL DPO (console dict lines)", "healthy", None, None,
          "DPO: loss starts at ln 2 and falls only to about 0.51, the chosen reward and both logps fall and the gradient norm rises moderately, all usual; margins, accuracies and eval loss improve throughout.",
          dict(k, steps=N, first_eval=V[0][1], last_eval=V[-1][1], eval_at=[v[0] for v in V]))

# ---------------------------------------------------------------- 17 OpenRLHF
def run17():
    r = rng(17); L = []; A = L.append; N = 160; P = []; K = []; RW = []; el = 0; a = AR(r, .5, .04)
    A("2025-02-11 10:02:44,118\tINFO job_manager.py:530 -- Runtime env is setting up."); A("2025-02-11 10:02:51,730\tINFO worker.py:1514 -- Using address 10.0.4.17:6379 set in the environment variable RAY_ADDRESS"); A("2025-02-11 10:02:51,742\tINFO worker.py:1832 -- Connected to Ray cluster. View the dashboard at \x1b[1m\x1b[32m10.0.4.17:8265 \x1b[39m\x1b[22m")
    A("(LLMRayActor pid=88120) INFO 02-11 10:03:20 config.py:542] This model supports multiple tasks: {'embed', 'generate', 'classify', 'score', 'reward'}. Defaulting to 'generate'."); A("(LLMRayActor pid=88120) WARNING 02-11 10:03:20 cuda.py:95] To see benefits of async output processing, enable CUDA graph. Since, enforce-eager is enabled, async output processor cannot be used"); A("(ActorModelRayActor pid=91823) [2025-02-11 10:03:31,008] [INFO] [config.py:1001:print]   bfloat16_enabled ............. True"); A("(ActorModelRayActor pid=91823) [2025-02-11 10:03:31,008] [INFO] [config.py:1001:print]   loss_scale ................... 1.0"); A("(CriticModelRayActor pid=91990) Some weights of CriticModel were not initialized from the model checkpoint and are newly initialized: ['score.weight']"); A("(ActorModelRayActor pid=91824) [rank1]: UserWarning: Using non-full backward hooks on a Module [repeated 7x across cluster] (Ray deduplicates logs by default.)")
    for s in range(1, N + 1):
        x = s / N; kl = .095 * x ** .8 * math.exp(r.normal(0, .1)); rew = -.62 + 2.1 * (1 - math.exp(-s / 55)) + a() * 2; gl = 380 + 190 * x + r.normal(0, 12); lr = 5e-7 * min(1, s / 5)
        pgs = []
        for i in (2, 4, 6, 8):
            pg = r.normal(-.004, .021); pgs.append(pg)
            A("(ActorModelRayActor pid=91823) " + tq("Train epoch [1/1]: ", i, 8, i * 3.9, 3.9, f"pg={pg:.3g}, rm={rew+r.normal(0,.05):.3g}, ret={rew-kl+r.normal(0,.05):.3g}, glen={gl:.0f}, tlen={gl+171:.0f}, kl={kl:.3g}, act_lr={lr:.3g}"))
        cl = .9 * math.exp(-s / 9) + .045 + abs(r.normal(0, .008)); pl = float(np.mean(pgs)); P.append((s, pl)); K.append(kl); RW.append(rew); el += 121
        A("(ActorModelRayActor pid=91823) Global step %d: {'policy_loss': %r, 'critic_loss': %r, 'values': %r, 'reward': %r, 'return': %r, 'kl': %r, 'response_length': %r, 'total_length': %r, 'actor_lr': %r, 'critic_lr': 9e-06, 'actor_grad_norm': %r}" % (s, pl, float(cl), float(rew * .9), float(rew), float(rew - kl), float(kl), float(gl), float(gl + 171), lr, float(.8 * math.exp(r.normal(0, .2)))))
        A(tq("Episode [1/1]: ", s, N, el, 121.3))
        if s % 40 == 0: A(f"(ActorModelRayActor pid=91823) [2025-02-11 {10+s*2//60:02d}:{s*2%60:02d}:11,421] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step{s} is ready now!"); A(f"✨ eval global_step {s}: {{'eval_math_pass1': {.41+.16*(1-math.exp(-s/60))+r.normal(0,.004):.4f}}}")
        if s in (23, 88, 131): A("(ActorModelRayActor pid=91823) [2025-02-11 12:11:02,310] [WARNING] [stage3.py:2069:step] 1 pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is detrimental to performance. if this is happening frequently consider adjusting settings to reduce memory consumption.")
    A("(ActorModelRayActor pid=91823) Saving model to ./ckpt/7b_rlhf"); A("------------------------------------------"); A("Job 'raysubmit_7QkWmB1ZcWzYyV2d' succeeded"); A("------------------------------------------")
    put("run17.log", "\n".join(L) + "\n")
    truth("run17.log", "OpenRLHF PPO (Ray-prefixed bars and dicts)", "healthy", None, None,
          "PPO: policy loss flutters around 0 with both signs and the KL rises slowly to about 0.09; reward, return and the evaluation rise, job succeeded.",
          dict(steps=N, policy_loss_first=round(P[0][1], 5), policy_loss_last=round(P[-1][1], 5), kl_first=round(K[0], 5), kl_last=round(K[-1], 5), reward_first=round(RW[0], 3), reward_last=round(RW[-1], 3)))

# ---------------------------------------------------------------- 18 Keras flow, negative loss
def run18():
    r = rng(18); L = []; A = L.append; E = 260; lr = 1e-3; best = 1e9; be = 0; wait = 0; P = []; V = []; fin = None; es = 0; plate = 0
    A("2024-10-05 15:20:31.114251: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to use available CPU instructions in performance-critical operations."); A("To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate compiler flags."); A("2024-10-05 15:20:33.520113: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:8454] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered")
    A("/home/lena/.venv/lib/python3.11/site-packages/numpy/lib/nanfunctions.py:1215: RuntimeWarning: Mean of empty slice"); A("  return np.nanmean(a, axis, out=out, keepdims=keepdims)"); A("/home/lena/flow/prep.py:41: RuntimeWarning: All-NaN slice encountered"); A("  med = np.nanmedian(block, axis=0)"); A("[prep] 412 rows with NaN in column 'humidity_2m' dropped (0.8 %)"); A("[prep] columns kept: 21, train 50112, val 6264, test 6264"); A("callbacks: TerminateOnNaN, ModelCheckpoint, ReduceLROnPlateau(patience=12), EarlyStopping(patience=40)")
    A('Model: "real_nvp"'); A("┏━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┓"); A("┃ Layer (type)    ┃      Param # ┃"); A("┡━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━┩"); A("│ coupling_0..7   │      612,864 │"); A("└─────────────────┴──────────────┘"); A(" Total params: 612,864 (2.34 MB)")
    cur = 26.1
    bumps = {31: 6.0, 74: 3.2}
    for e in range(1, E + 1):
        l = -31.5 + 61 * math.exp(-e / 14) + 9 * math.exp(-e / 60) + r.normal(0, .12 if lr > 4e-4 else .05) + bumps.get(e, 0) * .35; v = l + .35 + r.normal(0, .25 if lr > 4e-4 else .06) + bumps.get(e, 0)
        if e > 170: v = max(v, -30.2 + r.normal(0, .05) + .15)
        l, v = round(l, 4), round(v, 4); P.append((e, l)); V.append((e, v)); A(f"Epoch {e}/{E}")
        imp = v < best
        if imp: A(f"\nEpoch {e}: val_loss improved from {'inf' if best > 1e8 else f'{best:.5f}'} to {v:.5f}, saving model to ckpt/flow.keras"); best, be, wait, plate = v, e, 0, 0
        else:
            A(f"\nEpoch {e}: val_loss did not improve from {best:.5f}"); wait += 1; plate += 1
        if plate >= 12 and lr > 3e-5: lr /= 2; plate = 0; A(f"\nEpoch {e}: ReduceLROnPlateau reducing learning rate to {float(np.float32(lr))!r}.")
        A(f"196/196 - {int(r.integers(4,6))}s - {int(r.integers(21,26))}ms/step - loss: {l:.4f} - val_loss: {v:.4f} - learning_rate: {lr:.4e}")
        if wait >= 40: A(f"Epoch {e}: early stopping"); A(f"Restoring model weights from the end of the best epoch: {be}."); break
    A(f"196/196 - 2s - 9ms/step - loss: {best+.08:.4f}"); A(f"test NLL: {best+.08:.4f} nats")
    put("run18.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run18.log", "Keras verbose=2", "healthy", None, None,
          "A normalizing flow: the negative log-likelihood goes below zero by design and improves; early stopping ends the run; NaN appears only in preprocessing warnings and a callback's name.",
          dict(k, epochs=P[-1][0], best_val=best, best_val_epoch=be, last_val=V[-1][1], lr_start=1e-3, lr_end=lr))

# ---------------------------------------------------------------- 19 TB wide CSV SAC
def run19():
    r = rng(19); o = ["step,wall_time,rollout/ep_len_mean,rollout/ep_rew_mean,time/fps,train/actor_loss,train/critic_loss,train/ent_coef,train/ent_coef_loss,train/learning_rate,eval/mean_reward"]; w = 1699021100.3; P = []; C = []; RW = []; EV = []; a = AR(r, .9, 1)
    for j in range(1, 501):
        s = j * 4000; x = s / 2e6; w += 4000 / 92; rew = -280 + 9900 * (1 - math.exp(-x * 2.6)) + a() * 180 * min(1, x * 5 + .1); al = -12 - 760 * (1 - math.exp(-x * 2.3)) + r.normal(0, 6); cl = (1.2 + 38 * (1 - math.exp(-x * 3))) * math.exp(r.normal(0, .22)); ec = max(.02, .9 * math.exp(-x * 40) + .02 + .33 * x ** .5 + r.normal(0, .004))
        ev = ""
        if j % 25 == 0: e = rew * 1.04 + r.normal(0, 90); ev = f"{e:.4f}"; EV.append((s, round(e, 1)))
        trn = ["", "", "", "", ""] if j <= 2 else [f"{al:.5f}", f"{cl:.5f}", f"{ec:.6f}", f"{r.normal(0,.6)-(20*math.exp(-x*60)):.5f}", "0.0003"]
        if j > 2: P.append((s, round(al, 5))); C.append((s, round(cl, 5)))
        RW.append((s, round(rew, 1))); o.append(",".join([str(s), f"{w:.4f}", "1000", f"{rew:.4f}", str(int(r.normal(92, 2)))] + trn + [ev]))
    put("run19.csv", "\n".join(o) + "\n")
    truth("run19.csv", "TensorBoard CSV export, wide form (Stable-Baselines3 SAC)", "healthy", None, None,
          "SAC: the actor loss is minus Q, so it sinks to about -690, and the critic loss grows with the size of the returns; the episode reward rises from about -280 to above 9,000.",
          dict(actor_loss_first=P[0][1], actor_loss_last=P[-1][1], critic_loss_first=C[0][1], critic_loss_last=C[-1][1], critic_loss_max=max(c for _, c in C), reward_first=RW[0][1], reward_last=RW[-1][1], last_eval=EV[-1][1], steps=2000000, rows=500))

# ---------------------------------------------------------------- 20 hand-made Chinese loop
def run20():
    r = rng(20); L = []; A = L.append; t = datetime(2024, 6, 12, 22, 14, 3); N = 9000; P = []; V = []; al = AR(r, .5, .05); sk = []
    def S(m): A(f"[{t:%m-%d %H:%M:%S}] {m}")
    S("== 小炉子 v0.7 点火 =="); S("说明: 痛感=交叉熵损失 步幅=学习率 推力=梯度范数(裁剪前) 考试=验证集"); S("配置 批大小=64 总步数=9000 预热=1200 步幅上限=0.0008 精度=bf16 随机种子=20240612"); S("读取语料 ./corpus/*.jsonl ... 1,284,113 条"); S("提示: 其中 37 条时长为 nan,已剔除"); S("UserWarning: 字体缺失,曲线图中的中文可能显示为方块"); S("参数量 86.4M,显存占用 14.2G")
    ep = 0
    for s in range(10, N + 1, 10):
        t += timedelta(seconds=float(r.normal(4.6, .1))); lr = 8e-4 * s / 1200 if s <= 1200 else 4e-4 * (1 + math.cos(math.pi * (s - 1200) / (N - 1200)))
        b = 2.28 + 6.4 * math.exp(-s / 160) + 1.9 * math.exp(-s / 1700)
        b += .75 * math.exp(-((s - 820) / 90) ** 2) + .5 * math.exp(-((s - 1190) / 60) ** 2)
        l = b + al(); g = .7 + 5 * math.exp(-s / 100) + 4.8 * math.exp(-((s - 800) / 90) ** 2) + 3.1 * math.exp(-((s - 1180) / 60) ** 2) + abs(r.normal(0, .09)); P.append((s, round(l, 3)))
        S(f"第{(s-1)//1800+1}圈 第{s}步 痛感 {l:.3f} 步幅 {lr:.2e} 推力 {g:.2f} 速度 {r.normal(139,2):.0f}条/秒 显存 21.{int(r.integers(2,5))}G")
        if r.random() < .006: S(f"跳过坏样本 id={int(r.integers(1e5,1e6))}: 长度为 0"); sk.append(s)
        if s % 600 == 0: v = b + .06 + r.normal(0, .008); V.append((s, round(v, 3))); S(f"---- 考试 第{s}步 痛感 {v:.3f} 答对率 {100*math.exp(-v)*4.6:.2f}% " + ("(新纪录,存档)" if v <= min(x for _, x in V) + 1e-3 else "(未破纪录)"))
    S("== 熄火,全部 9000 步完成 ==")
    put("run20.log", "\n".join(L) + "\n"); k = keyfig(P)
    truth("run20.log", "hand-made print loop with odd words (Chinese)", "healthy", None, None,
          "Two bumps in loss and gradient norm during warm-up (around steps 820 and 1190) that pass by themselves; after that the loss falls to the end, the validation too.",
          dict(k, steps=N, loss_word="痛感", lr_word="步幅", grad_norm_word="推力", bump_peaks_near=[820, 1190], first_val=V[0][1], last_val=V[-1][1]))

for i in range(1, 21): globals()[f"run{i:02d}"]()
json.dump(TR, open(os.path.join(HERE, "truths.json"), "w", encoding="utf-8"), ensure_ascii=False, indent=1, default=float)
