// Signatures tell cases apart: what a run of each kind shows, and the case that diagnose_run's
// ranking puts first. (How detectors and recorded rows become facts is tests/runs' matter.)
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engines/cases/case.h"
#include "engines/diagnosis/cases/rank.h"
#include "engines/diagnosis/facts/log_hits.h"

namespace mpnanny::cases {
namespace {

struct Alert {
  std::string type, phase, layer;  // layer of the producer
};
struct Evidence {
  std::vector<Alert> alerts = {};
  std::vector<std::string> scale = {}, rules = {}, log = {}, signs = {};
};

using diagnosis::Facts;
using diagnosis::Hypothesis;

bool IsValue(const std::string& type) {
  return type == "NAN" || type == "INF" || type == "OVERFLOW" || type == "LOSS_NAN";
}

// The facts of a run in which all of it was seen at one step; the first value that is not finite is
// the onset.
Facts FactsOf(const Evidence& evidence, const CaseLibrary& library) {
  constexpr int64_t kStep = 100;
  Facts facts;
  // Log and code alone have no monitor, which would have seen what it does not speak of.
  facts.monitored = !evidence.alerts.empty() || !evidence.scale.empty();
  for (const Alert& alert : evidence.alerts) {
    diagnosis::SeenAlert seen;
    seen.row.step = kStep;
    seen.row.type = Word<AlertType>(alert.type);
    seen.row.phase = Word<Phase>(alert.phase);
    seen.row.layer_id = static_cast<int64_t>(facts.alerts.size()) + 1;
    seen.layer = alert.layer;
    if (IsValue(alert.type) && !facts.onset) {
      seen.row.producer = 1;
      facts.onset.emplace();
      facts.onset->step = kStep;
      facts.onset->phase = seen.row.phase;
      facts.onset->place = diagnosis::Onset::Place::kProducer;
      facts.onset->layer_id = seen.row.layer_id;
      facts.onset->layer = alert.layer;
      facts.onset->is_inf = alert.type == "INF";
      facts.onset->is_nan = !facts.onset->is_inf;
    }
    facts.alerts.push_back(std::move(seen));
  }
  for (const std::string& state : evidence.scale) {
    facts.summary.scale_first = 65536;
    facts.scale.declining = facts.scale.declining || state == "declining";
    facts.scale.collapsed = facts.scale.collapsed || state == "collapsed";
    facts.scale.stuck = facts.scale.stuck || state == "stuck";
  }
  for (const std::string& rule : evidence.rules) {
    facts.code_checked = true;
    facts.findings.push_back({rule, "error", "train.py:1", rule, {}, true});
  }
  for (const std::string& line : evidence.log) {
    EXPECT_TRUE(diagnosis::FindLogHits(imports::ByteSource::OfText(line), library, CancelToken(),
                                       facts.log_hits));
  }
  return facts;
}

class Signatures : public testing::Test {
 protected:
  // The case that diagnose_run ranks first; no other may be as likely.
  std::string Best(const Evidence& evidence) {
    const auto data = DataFiles::Create();
    EXPECT_TRUE(data);
    const CaseLibrary library = CaseLibrary::Load(*data);
    std::vector<diagnosis::Claim> claims;
    for (const std::string& sign : evidence.signs) {
      diagnosis::Claim& claim = claims.emplace_back();
      claim.id = sign;
      claim.sentence = sign;
      claim.strength = 1;
    }
    const std::vector<Hypothesis> ranked = Rank(FactsOf(evidence, library), claims, library);
    if (ranked.empty()) return "no case";
    if (ranked.size() > 1) {
      EXPECT_GT(ranked[0].confidence, ranked[1].confidence)
          << ranked[0].cause->id << " and " << ranked[1].cause->id << " fit equally";
    }
    return ranked[0].cause->id;
  }
};

TEST_F(Signatures, OverflowOfAFeedForwardProjection) {
  Evidence run;
  run.alerts = {{"INF", "forward", "blocks.1.ffn.wo"}, {"STEP_SKIPPED", "", ""}};
  EXPECT_EQ(Best(run), "t5-ffn-wo-fp16-overflow");
  run.alerts.push_back({"NAN", "forward", "blocks.2.norm1"});
  run.alerts.push_back({"LOSS_NAN", "loss", ""});
  run.alerts.push_back({"LOSS_SCALE_DECLINE", "", ""});
  run.scale = {"declining"};
  EXPECT_EQ(Best(run), "t5-ffn-wo-fp16-overflow");
  run.alerts.push_back({"LOSS_SCALE_LOW", "", ""});
  run.alerts.push_back({"LOSS_SCALE_COLLAPSE", "", ""});
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
  EXPECT_EQ(Best(run), "sd21-attention-qk-overflow");
  EXPECT_EQ(Best({.alerts = {{"INF", "forward", "unet.attn1.scores"}}}),
            "sd21-attention-qk-overflow");
  run.alerts.push_back({"NAN", "backward", "blocks.0.attn.q_proj.weight"});
  run.signs = {"masked-row-softmax"};  // without it the ranking takes it for an overflow
  EXPECT_EQ(Best(run), "fully-masked-row-softmax-nan");
}

TEST_F(Signatures, WhatIsNotPrecision) {
  EXPECT_EQ(
      Best(
          {.alerts = {{"NAN", "data", ""}, {"NAN", "forward", "embed"}, {"LOSS_NAN", "loss", ""}}}),
      "non-finite-input-data");
  EXPECT_EQ(Best({.alerts = {{"NAN", "loss", ""}, {"LOSS_NAN", "loss", ""}}}),
            "log-or-division-of-invalid-input");
  // A diverging FP32 run overflows in the feed-forward layer too, but its history gives it away.
  EXPECT_EQ(Best({.alerts = {{"LOSS_SPIKE", "loss", ""},
                             {"GRAD_EXPLOSION", "backward", "blocks.0.ffn.wi.weight"},
                             {"INF", "forward", "blocks.0.ffn.wo"}}}),
            "learning-rate-too-high-diverges");
}

TEST_F(Signatures, GradientsAndUpdates) {
  EXPECT_EQ(Best({.alerts = {{"STALE_UPDATE", "optimizer", "norm.weight"}}}),
            "bf16-weights-update-below-half-ulp");
  EXPECT_EQ(Best({.alerts = {{"UNDERFLOW", "backward", "fc1.weight"}}}),
            "pure-half-backward-underflow");
  EXPECT_EQ(Best({.alerts = {{"UNDERFLOW", "backward", "fc1.weight"}},
                  .rules = {"fp16-autocast-without-scaler"}}),
            "fp16-autocast-without-scaler");
  EXPECT_EQ(Best({.alerts = {{"NAN", "optimizer", "embed.weight"}}}), "adam-eps-underflow-fp16");
  EXPECT_EQ(Best({.alerts = {{"INF", "backward", "fc.weight"}, {"NAN", "optimizer", "fc.weight"}}}),
            "bf16-inf-gradient-not-checked");
  EXPECT_EQ(Best({.alerts = {{"NAN", "backward", "proj.weight"}}}), "norm-gradient-at-zero-vector");
  EXPECT_EQ(Best({.alerts = {{"DEAD_LAYER", "backward", "blocks.0.norm1"}},
                  .signs = {"norm-output-zero"}}),
            "hand-written-rmsnorm-squares-overflow");
}

TEST_F(Signatures, PlacesThatNamesTell) {
  const std::pair<Alert, const char*> alerts[] = {
      {{"NAN", "forward", "layer1.0.bn1.running_var"},
       "batchnorm-running-stats-poisoned-by-skipped-step"},
      {{"INF", "forward", "field.density_head"}, "nerf-density-exp-overflow"},
      {{"NAN", "optimizer", "model.layers.0.self_attn.q_proj.lora_A.weight"},
       "peft-fp16-adapter-loss-zero"},
      {{"INF", "forward", "vae.decoder.conv_out"}, "sdxl-vae-fp16-black-images"},
      {{"INF", "forward", "criterion.dice"}, "dice-loss-sum-overflows"},
      {{"INF", "forward", "rpn.box_iou"}, "box-area-overflows-half"},
      {{"GRAD_EXPLOSION", "backward", "transformer.wte.weight"},
       "embedding-spikes-need-embed-norm"},
  };
  for (const auto& [alert, id] : alerts) EXPECT_EQ(Best({.alerts = {alert}}), id) << alert.layer;
  // Defined by what a detector makes of the course: the name alone brings them up, but not first.
  EXPECT_EQ(Best({.alerts = {{"GRAD_EXPLOSION", "backward", "lstm.weight_hh_l0"}},
                  .signs = {"recurrent-explosion"}}),
            "recurrent-gradient-explodes");
  EXPECT_EQ(Best({.alerts = {{"DEAD_LAYER", "backward", "netD.0"}}, .signs = {"adversary-won"}}),
            "gan-discriminator-overpowers");
  EXPECT_EQ(Best({.alerts = {{"DEAD_LAYER", "backward", "fc1"}}, .signs = {"dead-units"}}),
            "dying-relu-network");
  EXPECT_EQ(Best({.alerts = {{"DEAD_LAYER", "backward", "fc1"}}, .signs = {"fading-gradient"}}),
            "vanishing-gradient-deep-sigmoid");
}

TEST_F(Signatures, TheScaleAlone) {
  EXPECT_EQ(Best({.alerts = {{"LOSS_SCALE_DECLINE", "", ""}}, .scale = {"declining"}}),
            "loss-scale-decline-with-intermittent-nan");
  EXPECT_EQ(Best({.alerts = {{"LOSS_SCALE_COLLAPSE", "", ""}, {"STEP_SKIPPED", "", ""}},
                  .scale = {"stuck"}}),
            "loss-scale-stuck-at-one");
  EXPECT_EQ(Best({.alerts = {{"LOSS_SCALE_COLLAPSE", "", ""}}, .scale = {"collapsed"}}),
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
        std::pair("detect-anomaly-on", "anomaly-mode-false-alarm-with-gradscaler"),
        std::pair("scaled-loss-read", "logged-loss-is-scaled"),
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
