// Signatures tell cases apart: what a run of each kind shows, and the case whose signals add up to
// most.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "tools/cases/case.h"

namespace mpnanny::cases {
namespace {

struct Alert {
  std::string type, phase, layer;  // layer of the producer
};
struct Stat {
  std::string of, column, layer;
  double value;
  double numel = 1000;
};
struct Evidence {
  std::vector<Alert> alerts = {};
  std::vector<Stat> stats = {};
  std::vector<std::string> scale = {}, rules = {}, log = {};
};

bool Seen(const Signal& signal, const Evidence& evidence) {
  const auto any = [](const auto& list, auto fits) {
    return std::any_of(list.begin(), list.end(), fits);
  };
  switch (signal.kind) {
    case Signal::Kind::kAlert:
      return any(evidence.alerts, [&](const Alert& alert) {
        return alert.type == signal.name && FitsLayer(signal, alert.layer) &&
               (signal.phase.empty() || signal.phase == alert.phase);
      });
    case Signal::Kind::kStat:
      return any(evidence.stats, [&](const Stat& stat) {
        return stat.of == signal.of && stat.column == signal.name &&
               FitsLayer(signal, stat.layer) &&
               FitsValue(signal, signal.share ? stat.value / stat.numel : stat.value);
      });
    case Signal::Kind::kScale:
      return any(evidence.scale, [&](const std::string& state) { return state == signal.name; });
    case Signal::Kind::kRule:
      return any(evidence.rules, [&](const std::string& rule) { return rule == signal.name; });
    case Signal::Kind::kLog:
      return any(evidence.log, [&](const std::string& line) { return FitsLogLine(signal, line); });
    case Signal::Kind::kSign:
      return false;  // what detectors make of a record is tests/runs' matter
  }
  return false;
}

class Signatures : public testing::Test {
 protected:
  // The case whose seen signals weigh most; no other may weigh as much.
  std::string Best(const Evidence& evidence) {
    const auto data = DataFiles::Create();
    EXPECT_TRUE(data);
    const CaseLibrary library = CaseLibrary::Load(*data);
    std::vector<std::pair<double, std::string>> ranked;
    for (const Case& one : library.all()) {
      double sum = 0;
      for (const Signal& signal : one.signals) sum += Seen(signal, evidence) ? signal.weight : 0;
      ranked.emplace_back(-sum, one.id);
    }
    std::sort(ranked.begin(), ranked.end());
    EXPECT_LT(ranked[0].first, ranked[1].first)
        << ranked[0].second << " and " << ranked[1].second << " fit equally";
    return ranked[0].second;
  }
};

TEST_F(Signatures, OverflowOfAFeedForwardProjection) {
  Evidence run;
  run.alerts = {{"INF", "forward", "blocks.1.ffn.wo"}, {"STEP_SKIPPED", "", ""}};
  EXPECT_EQ(Best(run), "t5-ffn-wo-fp16-overflow");
  run.alerts.push_back({"NAN", "forward", "blocks.2.norm1"});
  run.alerts.push_back({"LOSS_NAN", "loss", ""});
  run.alerts.push_back({"LOSS_SCALE_DECLINE", "", ""});
  run.stats = {{"activation", "absmax", "blocks.1.ffn.wo", 61000},
               {"activation", "absmax", "blocks.1", 61000}};
  run.scale = {"declining"};
  EXPECT_EQ(Best(run), "t5-ffn-wo-fp16-overflow");
  run.alerts.push_back({"LOSS_SCALE_LOW", "", ""});
  run.alerts.push_back({"LOSS_SCALE_COLLAPSE", "", ""});
  run.stats.push_back({"step", "loss_scale", "", 1e-6});
  run.scale = {"declining", "collapsed"};
  EXPECT_EQ(Best(run), "t5-ffn-wo-fp16-overflow");
  // Other frameworks' names of the same layer.
  for (const char* layer : {"encoder.block.3.layer.1.DenseReluDense.wo",
                            "model.layers.9.mlp.down_proj", "decoder.layers.0.fc2", "h.4.mlp"}) {
    EXPECT_EQ(Best({.alerts = {{"INF", "forward", layer}}}), "t5-ffn-wo-fp16-overflow") << layer;
  }
}

TEST_F(Signatures, OverflowOfTheResidualAddition) {
  EXPECT_EQ(Best({.alerts = {{"INF", "forward", "model.encoder.layers.11"}}}),
            "residual-add-overflow-pegasus");
}

TEST_F(Signatures, AttentionThatOverflowsAndAttentionThatSeesNoKey) {
  Evidence run;
  run.alerts = {{"NAN", "forward", "blocks.0.attn"}};
  run.stats = {{"activation", "absmax", "blocks.0.attn.q_proj", 70}};
  EXPECT_EQ(Best(run), "sd21-attention-qk-overflow");
  EXPECT_EQ(Best({.alerts = {{"INF", "forward", "unet.attn1.scores"}}}),
            "sd21-attention-qk-overflow");
  run.stats = {{"activation", "absmax", "blocks.0.attn.q_proj", 3}};
  run.alerts.push_back({"NAN", "backward", "blocks.0.attn.q_proj.weight"});
  EXPECT_EQ(Best(run), "fully-masked-row-softmax-nan");
}

TEST_F(Signatures, WhatIsNotPrecision) {
  EXPECT_EQ(
      Best(
          {.alerts = {{"NAN", "data", ""}, {"NAN", "forward", "embed"}, {"LOSS_NAN", "loss", ""}}}),
      "non-finite-input-data");
  EXPECT_EQ(Best({.alerts = {{"NAN", "loss", ""}, {"LOSS_NAN", "loss", ""}}}),
            "log-or-division-of-invalid-input");
  EXPECT_EQ(Best({.alerts = {{"NAN", "loss", ""}, {"LOSS_NAN", "loss", ""}},
                  .stats = {{"activation", "numel", "lm_head", 1e6}}}),
            "cutoff-leaves-no-label-tokens");
  // A diverging FP32 run overflows in the feed-forward layer too, but its history gives it away.
  EXPECT_EQ(Best({.alerts = {{"LOSS_SPIKE", "loss", ""},
                             {"GRAD_EXPLOSION", "backward", "blocks.0.ffn.wi.weight"},
                             {"INF", "forward", "blocks.0.ffn.wo"}},
                  .stats = {{"activation", "absmax", "blocks.0.ffn.wo", 1e38},
                            {"weight", "absmax", "blocks.0.ffn.wo.weight", 1e12},
                            {"step", "grad_norm", "", 1e20},
                            {"step", "loss", "", 1e30}}}),
            "learning-rate-too-high-diverges");
}

TEST_F(Signatures, GradientsAndUpdates) {
  EXPECT_EQ(Best({.alerts = {{"STALE_UPDATE", "optimizer", "norm.weight"}}}),
            "bf16-weights-update-below-half-ulp");
  EXPECT_EQ(Best({.alerts = {{"UNDERFLOW", "backward", "fc1.weight"}},
                  .stats = {{"gradient", "zeros", "fc1.weight", 700}}}),
            "pure-half-backward-underflow");
  EXPECT_EQ(Best({.alerts = {{"UNDERFLOW", "backward", "fc1.weight"}},
                  .stats = {{"gradient", "zeros", "fc1.weight", 700}},
                  .rules = {"fp16-autocast-without-scaler"}}),
            "fp16-autocast-without-scaler");
  EXPECT_EQ(Best({.alerts = {{"NAN", "optimizer", "embed.weight"}},
                  .stats = {{"weight", "nan", "embed.weight", 5}}}),
            "adam-eps-underflow-fp16");
  EXPECT_EQ(Best({.alerts = {{"INF", "backward", "fc.weight"}, {"NAN", "optimizer", "fc.weight"}},
                  .stats = {{"weight", "nan", "fc.weight", 5},
                            {"optimizer_state", "nan", "fc.weight", 5}}}),
            "bf16-inf-gradient-not-checked");
  EXPECT_EQ(Best({.alerts = {{"NAN", "backward", "proj.weight"}}}), "norm-gradient-at-zero-vector");
  EXPECT_EQ(Best({.stats = {{"input", "absmax", "blocks.0.norm1", 400},
                            {"activation", "zeros", "blocks.0.norm1", 250}}}),
            "hand-written-rmsnorm-squares-overflow");
}

TEST_F(Signatures, PlacesThatNamesTell) {
  const std::pair<Alert, const char*> alerts[] = {
      {{"NAN", "forward", "layer1.0.bn1.running_var"},
       "batchnorm-running-stats-poisoned-by-skipped-step"},
      {{"INF", "forward", "field.density_head"}, "nerf-density-exp-overflow"},
      {{"GRAD_EXPLOSION", "backward", "lstm.weight_hh_l0"}, "recurrent-gradient-explodes"},
      {{"NAN", "optimizer", "model.layers.0.self_attn.q_proj.lora_A.weight"},
       "peft-fp16-adapter-loss-zero"},
      {{"INF", "forward", "vae.decoder.conv_out"}, "sdxl-vae-fp16-black-images"},
      {{"INF", "forward", "criterion.dice"}, "dice-loss-sum-overflows"},
      {{"INF", "forward", "rpn.box_iou"}, "box-area-overflows-half"},
      {{"GRAD_EXPLOSION", "backward", "transformer.wte.weight"},
       "embedding-spikes-need-embed-norm"},
      {{"DEAD_LAYER", "backward", "netD.0"}, "gan-discriminator-overpowers"},
  };
  for (const auto& [alert, id] : alerts) EXPECT_EQ(Best({.alerts = {alert}}), id) << alert.layer;
  EXPECT_EQ(Best({.stats = {{"weight", "max", "clip.logit_scale", 11}}}),
            "contrastive-logit-scale-unbounded");
  EXPECT_EQ(Best({.alerts = {{"DEAD_LAYER", "backward", "fc1"}},
                  .stats = {{"activation", "zeros", "relu1", 1000},
                            {"gradient", "zeros", "fc1.weight", 1000}}}),
            "dying-relu-network");
  EXPECT_EQ(Best({.alerts = {{"DEAD_LAYER", "backward", "fc1"}},
                  .stats = {{"gradient", "below_fp16", "fc1.weight", 1000}}}),
            "vanishing-gradient-deep-sigmoid");
}

TEST_F(Signatures, TheScaleAlone) {
  EXPECT_EQ(Best({.alerts = {{"LOSS_SCALE_DECLINE", "", ""}}, .scale = {"declining"}}),
            "loss-scale-decline-with-intermittent-nan");
  EXPECT_EQ(Best({.alerts = {{"LOSS_SCALE_COLLAPSE", "", ""}, {"STEP_SKIPPED", "", ""}},
                  .scale = {"stuck"}}),
            "loss-scale-stuck-at-one");
  EXPECT_EQ(Best({.alerts = {{"LOSS_SCALE_COLLAPSE", "", ""}},
                  .stats = {{"step", "loss_scale", "", 1e-5}},
                  .scale = {"collapsed"}}),
            "loss-scale-shrinks-to-1e-6-transformer");
}

TEST_F(Signatures, MessagesOfLogs) {
  const std::pair<const char*, const char*> lines[] = {
      {"ValueError: Attempting to unscale FP16 gradients.", "half-params-attempting-to-unscale"},
      {"RuntimeError: unscale_() has already been called on this optimizer since the last "
       "update().",
       "unscale-called-twice"},
      {"RuntimeError: step() has already been called since the last update().",
       "scaler-step-without-update"},
      {"RuntimeError: value cannot be converted to type at::Half without overflow",
       "mask-fill-constant-overflows-half"},
      {"RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
       "autocast.",
       "bceloss-unsafe-to-autocast"},
      {"{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.01}",
       "loss-zero-grad-nan-llm-finetune"},
      {"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1",
       "loss-scale-stuck-at-one"},
      {"| WARNING: overflow detected, setting loss scale to: 0.25",
       "loss-scale-shrinks-to-1e-6-transformer"},
      {"RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
       "norm-gradient-at-zero-vector"},
      {"Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting "
       "run.",
       "deepspeed-loss-scale-at-minimum"},
      {"FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
       "opt175b-loss-scale-floor"},
      {"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1.45e-303",
       "apex-loss-scale-underflows-to-zero"},
      {"AssertionError: Attempted unscale_ but _scale is None.",
       "unscale-before-first-scale-after-resume"},
      {"torch.utils.checkpoint.CheckpointError: Recomputed values for the following tensors have "
       "different metadata than during the forward pass.",
       "checkpoint-recompute-loses-autocast"},
      {"modules.devices.NansException: A tensor with all NaNs was produced in VAE.",
       "sdxl-vae-fp16-black-images"},
      {"| lg_loss_scale | -3.2 |", "loss-scale-declines-on-unnormalised-data"},
      {"[1/200][150/500] Loss_D: 0.0000 Loss_G: 36.5991", "gan-discriminator-overpowers"},
      {"iter 3010: loss nan, time 110.31ms", "fp16-gpt-nan-after-thousands-of-steps"},
  };
  for (const auto& [line, id] : lines) EXPECT_EQ(Best({.log = {line}}), id) << line;
}

// Every failure's own rule must be able to bring it up first: no other case claims more from the
// same finding.
TEST_F(Signatures, ARuleSpeaksForOneCaseMost) {
  for (const auto& [rule, id] :
       {std::pair("clip-before-unscale", "clip-before-unscale"),
        std::pair("bce-under-autocast", "bceloss-unsafe-to-autocast"),
        std::pair("mask-const-overflow", "mask-fill-constant-overflows-half"),
        std::pair("fp16-autocast-without-scaler", "fp16-autocast-without-scaler"),
        std::pair("scaler-with-bf16", "gradscaler-used-with-bf16"),
        std::pair("scaler-not-checkpointed", "gradscaler-state-missing-in-checkpoint"),
        std::pair("double-unscale", "unscale-called-twice"),
        std::pair("optimizer-step-with-scaler", "optimizer-steps-on-scaled-gradients"),
        std::pair("scaler-step-without-update", "scaler-step-without-update"),
        std::pair("log-of-softmax", "log-of-softmax-underflows"),
        std::pair("autocast-disabled-no-float", "autocast-disabled-on-half-tensors"),
        std::pair("scaler-mismatch", "scaler-unscales-with-another-scale"),
        std::pair("backward-in-autocast", "whole-loop-inside-autocast"),
        std::pair("ema-in-half", "ema-in-half-never-moves"),
        std::pair("clamp-bound-rounds-to-one", "clamp-one-minus-eps-noop"),
        std::pair("bf16-gradient-accumulation", "bf16-gradient-accumulation"),
        std::pair("exp-overflow-half", "nerf-density-exp-overflow"),
        std::pair("gradient-penalty-unscaled", "gradient-penalty-under-amp"),
        std::pair("recompute-without-autocast", "checkpoint-recompute-loses-autocast"),
        std::pair("autocast-cache-no-grad", "autocast-cache-no-grad-lost-gradients"),
        std::pair("running-sum-in-half", "running-sum-in-bf16-stalls"),
        std::pair("grad-compress-fp16", "fp16-allreduce-sum-overflow"),
        std::pair("backward-unscaled", "auxiliary-loss-not-scaled"),
        std::pair("adam-eps-half", "adam-eps-underflow-fp16")}) {
    EXPECT_EQ(Best({.rules = {rule}}), id) << rule;
  }
}

}  // namespace
}  // namespace mpnanny::cases
