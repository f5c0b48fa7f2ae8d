// The words that a case's front matter and signals may use: the one place (alert types are those of
// base/run_words.h). knowledge/README.md explains them to people, and tests/cases holds both equal.
//
// Constants only.
#ifndef MPNANNY_ENGINES_CASES_VOCABULARY_H_
#define MPNANNY_ENGINES_CASES_VOCABULARY_H_

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/run_words.h"

namespace mpnanny::cases {

struct Word {
  std::string_view name;
  std::string_view meaning;  // as in knowledge/README.md
};

inline constexpr Word kKinds[] = {
    {"failure", "something that goes wrong in a run or in code"},
    {"concept", "background or a normal sight that is often taken for a failure"},
};

inline constexpr Word kCategories[] = {
    {"nan-inf", "a value becomes NaN or infinite"},
    {"loss-scale-collapse", "the loss scale falls to its floor, to 1 or below"},
    {"loss-scale-decline", "the loss scale falls, restarts or skips steps without collapsing"},
    {"scaler-protocol", "scale, unscale_, step and update in a wrong order or number"},
    {"grad-vanish", "gradients, or what is left of them, become too small"},
    {"grad-explosion", "gradients, logits or activations grow without bound"},
    {"stale-update", "updates happen on paper and change nothing"},
    {"swamping", "a large number absorbs a small one, or a format's resolution is too coarse"},
    {"dim-imbalance", "magnitudes that differ too much meet in one low-precision operation"},
    {"loss-dtype", "an operation, loss or metric gets a dtype it cannot work in"},
    {"manual-cast", "a cast by hand puts values into the wrong dtype"},
    {"dtype-default", "a default dtype differs from the one that is expected"},
    {"train-infer", "training and inference, or two kernels, compute different numbers"},
    {"distributed", "communication or sharding changes precision"},
    {"hardware-kernel", "a device or kernel computes otherwise than asked"},
    {"not-precision", "looks like a precision failure, and FP32 fails as well"},
};

inline constexpr Word kSeverities[] = {
    {"P0", "error: the run is broken or stops"},
    {"P1", "warning: the result is worse or at risk"},
    {"P2", "info: worth knowing, harmless most of the time"},
};

inline constexpr Word kDifficulties[] = {
    {"easy", "an exception, or one look at the right number"},
    {"medium", "needs the right statistic of the right layer"},
    {"hard", "nothing fails; only a comparison shows it"},
};

inline constexpr Word kPrecisions[] = {
    {"fp16", "IEEE half: largest 65504, smallest subnormal 5.96e-8"},
    {"bf16", "bfloat16: FP32's range, 8 significant bits"},
    {"fp8", "E4M3 or E5M2 with scales"},
    {"fp4", "MXFP4 or NVFP4: E2M1 with a scale for each block"},
    {"int8", "8-bit integers or codes with a scale for each block"},
    {"tf32", "FP32 storage, 11 significant bits in matrix products"},
    {"fp32", "happens in plain FP32 too"},
};

inline constexpr Word kComponents[] = {
    {"activation-function", "GELU, exp, sigmoid and their like"},
    {"adversarial", "a generator against a discriminator"},
    {"attention", "scores, masks, softmax over keys"},
    {"autocast", "the autocast region itself"},
    {"checkpoint", "saving and resuming"},
    {"communication", "all-reduce, reduce-scatter and their like"},
    {"compiler", "torch.compile and other compilers"},
    {"convolution", "convolutions"},
    {"data", "inputs, labels, tokenisation, masks of samples"},
    {"detection-head", "boxes, IoU, matching"},
    {"ema", "averaged copies of the weights"},
    {"embedding", "token and position embeddings"},
    {"ffn", "feed-forward blocks and their projections"},
    {"gradient-clipping", "norms and clipping of gradients"},
    {"kv-cache", "keys and values that are kept between tokens"},
    {"learning-rate", "the size of the learning rate, warm-up"},
    {"logging", "what is printed or recorded"},
    {"loss", "the loss function and its reductions"},
    {"metric", "accuracy, mAP and other counts"},
    {"normalization", "LayerNorm, RMSNorm, BatchNorm, normalising a vector"},
    {"optimizer", "the update, its state and its constants"},
    {"output-head", "the last projection and its logits"},
    {"position-encoding", "RoPE, positions, time steps of diffusion"},
    {"quantization", "casts with scales: FP8, MX, NVFP4, INT8, 4-bit weights"},
    {"recurrent", "RNN, LSTM, GRU: the same weights at every time step"},
    {"reinforcement-learning", "trainer, rollout engine and what is compared between them"},
    {"residual", "the residual stream and its additions"},
    {"router", "the gate that chooses experts"},
    {"scaler", "GradScaler and other loss scalers"},
    {"schedule", "how the learning rate changes over the steps"},
    {"state-space", "scans and states of Mamba and its like"},
    {"weights", "parameters and the dtype they are stored in"},
};

inline constexpr Word kDetectableBy[] = {
    {"static", "a rule of static_check can see it in the code"},
    {"monitor", "the monitor's database shows it"},
    {"diff", "auto_diff shows it"},
    {"tensor", "analyze_tensor shows it on a saved tensor"},
    {"log", "the text of a log is enough"},
    {"shadow", "a shadow step of the monitor names the operator"},
    {"reproduction", "knowledge/cases/<id>.py shows it on a CPU"},
};

inline constexpr Word kDevices[] = {
    {"any", "every device"},  {"cpu", "processors"},       {"cuda", "GPUs by NVIDIA"},
    {"rocm", "GPUs by AMD"},  {"xpu", "GPUs by Intel"},    {"npu", "Ascend"},
    {"mps", "GPUs by Apple"}, {"tpu", "TPUs through XLA"},
};

inline constexpr Word kAlertTypes[] = {
    {NameOf(AlertType::kNan), "a NaN element"},
    {NameOf(AlertType::kInf), "an infinite element"},
    {NameOf(AlertType::kLossNan), "a non-finite loss"},
    {NameOf(AlertType::kOverflow), "finite, but above the judged format's maximum"},
    {NameOf(AlertType::kOverflowAhead), "values that grow towards the maximum of FP16"},
    {NameOf(AlertType::kSaturation), "many elements close to the maximum"},
    {NameOf(AlertType::kUnderflow), "many elements round to zero"},
    {NameOf(AlertType::kGradExplosion), "very large gradients"},
    {NameOf(AlertType::kGradVanish), "very small gradients"},
    {NameOf(AlertType::kDeadLayer), "a trainable layer without gradient"},
    {NameOf(AlertType::kAbsorption), "an addend is lost in an addition or reduction"},
    {NameOf(AlertType::kDimImbalance), "maxima per dimension differ greatly"},
    {NameOf(AlertType::kStaleUpdate), "updates under half an ulp of the weight"},
    {NameOf(AlertType::kLossScaleLow), "the loss scale is low"},
    {NameOf(AlertType::kLossScaleDecline), "five falls without a rise"},
    {NameOf(AlertType::kLossScaleCollapse), "1 or less for 20 steps"},
    {NameOf(AlertType::kStepSkipped), "more skipped steps than growing the scale costs"},
    {NameOf(AlertType::kLossSpike), "the loss jumps"},
    {NameOf(AlertType::kLogprobMismatch), "trainer and rollout engine disagree"},
    {NameOf(AlertType::kShadowRange), "not finite where the FP64 reference is"},
    {NameOf(AlertType::kShadowUndefined), "not finite in FP64 either: no precision helps"},
    {NameOf(AlertType::kShadowDiverged), "updates so large that values left every range"},
    {NameOf(AlertType::kShadowIntegers), "whole numbers are no longer the same"},
    {NameOf(AlertType::kShadowLostChange), "a state that should change stays as it was"},
    {NameOf(AlertType::kShadowAmplified), "a small rounding error becomes a large one"},
    {NameOf(AlertType::kShadowFlushed), "values that are not 0 in FP64 became 0"},
    {NameOf(AlertType::kShadowClipped), "a cast cut values off at the format's maximum"},
    {NameOf(AlertType::kProtocol),
     "gradients, parameters and states do not belong together as they should"},
};
static_assert(std::size(kAlertTypes) == std::size(Vocabulary<AlertType>::kNames),
              "an alert type has no meaning here");

inline constexpr Word kPhases[] = {
    {"data", "the batch itself"},
    {"forward", "the model's forward"},
    {"loss", "the loss function"},
    {"backward", "the gradients"},
    {"optimizer", "the update, weights, buffers and optimizer state"},
};

inline constexpr Word kScaleStates[] = {
    {"declining", "five falls or more without a rise between them"},
    {"collapsed", "came down to 1 or below, or skips steps there, for 20 steps or more"},
    {"stuck", "the same value at 20 steps or more in a row, and all of them are skipped"},
};

// What a detector of diagnose_run establishes from a run's record: the mechanism, whatever it is
// called in the case that it fits.
inline constexpr Word kSigns[] = {
    {"forward-overflow", "a module's output passed the largest value of its format"},
    {"matmul-overflow",
     "a product of matrices outside of linear layers passed FP16's range (attention scores)"},
    {"add-overflow", "an addition of two finite tensors passed FP16's range (residual stream)"},
    {"sum-overflow", "a sum or mean of finite half values passed the range"},
    {"square-overflow", "squares of finite half values passed the range"},
    {"exp-overflow", "an exponential of a finite value passed the range"},
    {"cast-overflow", "a cast to a narrower format made an infinity of a finite value"},
    {"mask-constant-overflow", "a mask's large constant became -Inf in half precision"},
    {"masked-row-softmax", "softmax got a row of nothing but -Inf"},
    {"log-of-zero", "the logarithm of something that is zero, forward or in its derivative"},
    {"domain-error",
     "a function got a finite value outside of its domain (log or root of a negative)"},
    {"zero-division", "a finite number was divided by zero"},
    {"half-zero-division", "a division by a half-precision value that had underflowed to zero"},
    {"root-gradient-at-zero", "the derivative of a norm or square root at zero"},
    {"loss-born-nan", "the loss is NaN, or infinite, although all that enters it is finite"},
    {"data-not-finite", "the batch itself is not finite"},
    {"raw-inputs", "the inputs are far from unit scale, and FP16 overflows behind them"},
    {"norm-output-zero", "a normalisation gives zeros because its squares overflowed"},
    {"unchecked-gradient", "a gradient that is not finite was applied: nothing skips such steps"},
    {"gradients-replaced", "gradients were not finite and were made so before the step"},
    {"optimizer-division",
     "an optimizer's step on finite gradients and weights made values that are not finite"},
    {"half-optimizer-state", "the optimizer keeps its state in half precision"},
    {"no-scaler", "FP16 is trained without loss scaling"},
    {"half-weights", "the weights themselves are held in FP16 and there is no loss scaling"},
    {"gradients-flushed", "much of the gradients is zero or too small for FP16"},
    {"clipped-while-scaled", "gradients were clipped before they were unscaled"},
    {"scaled-step", "an optimizer stepped on gradients that were still scaled"},
    {"unguarded-step",
     "an optimizer stepped past the scaler, on gradients that were unscaled and not finite"},
    {"missing-update", "scaler.step() without scaler.update()"},
    {"scaler-restarted",
     "the loss scale started anew in the middle of the training and steps were skipped"},
    {"scale-never-recovers",
     "the scale falls as far as it can and every step is skipped all the same"},
    {"scale-decline", "the scale falls again and again, between good steps"},
    {"frozen-updates", "updates of half-precision weights are under half an ulp of them"},
    {"zeroed-updates", "gradients live and the weights do not move at all"},
    {"half-clip-norm", "the norm that gradients are clipped by is infinite in FP16"},
    {"poisoned-buffer",
     "a running statistic is not finite, or was thrown far off, by a batch whose step was skipped"},
    {"diverged", "loss or gradient norm ran away in finite numbers"},
    {"loss-jumped", "the loss jumped within a record that is too short to say more"},
    {"lr-jump", "the learning rate jumped and the loss followed"},
    {"zero-learning-rate", "the learning rate is 0 while the training goes on"},
    {"recurrent-explosion", "the gradient grew through a recurrent layer"},
    {"outlier-batch", "one batch out of the ordinary threw the loss up"},
    {"optimizer-restarted",
     "the optimizer began without its state in the middle of the training and the loss jumped"},
    {"dead-units", "most units behind a ReLU give zero for every input"},
    {"gradients-not-zeroed", "gradients of several updates add up: nothing sets them to zero"},
    {"constant-input", "what enters the model is 0 in every element, batch after batch"},
    {"zero-gradients", "gradients are exactly 0 from the first step on, of all weights or of some"},
    {"state-not-finite", "a state of the optimizer held NaN before the first step that broke"},
    {"fading-gradient", "gradients fade from layer to layer towards the input"},
    {"rank-nan", "one rank made a value that is not finite, and a collective carried it to others"},
    {"rank-reduced-twice", "gradients that were the same on all ranks already were summed again"},
    {"rank-not-reduced", "a gradient was not reduced over the ranks that hold its parameter"},
    {"rank-mean", "a gradient was not reduced by the rule of all others"},
    {"rank-factors", "ranks scaled their gradients by different factors"},
    {"rank-norm", "the norm that gradients are clipped by is not that of all ranks' gradients"},
    {"rank-gradients", "ranks that hold the same parameter derived different gradients"},
    {"rank-parameter", "a parameter that ranks should hold alike is not the same on all of them"},
    {"rank-buffer", "a buffer that nobody writes to is not the same on all ranks"},
    {"rank-sum-in-place", "a buffer that holds a sum over the ranks is summed over them again"},
    {"figure-left-its-level", "a figure that a log prints beside the loss left its level for good"},
    {"logprob-mismatch",
     "trainer and rollout engine give other log-probabilities than formats explain"},
    {"logged-perplexity", "the perplexity in a log is not the exponential of its loss"},
    {"uniform-guess", "the loss rests at the logarithm of the number of classes"},
    {"logged-grid", "every printed value of a figure is a number of a 16-bit format"},
    {"adversary-won", "of two networks that are trained against each other one has won"},
};

// Headings ("## Symptom") that the text of a case has, in this order.
inline constexpr std::string_view kSections[] = {"Symptom", "Mechanism", "How to confirm", "Fix",
                                                 "Code"};

// True if one of `words` is called `name`.
bool IsWord(std::span<const Word> words, std::string_view name);

// True if `id` is written as ids of cases and rules are: a-z, 0-9, single '-' between.
bool IsKebab(std::string_view id);

// "a, b, c": for messages that say what is allowed.
std::string Names(std::span<const Word> words);

// The names alone, in the order of the table.
std::vector<std::string> NameList(std::span<const Word> words);

}  // namespace mpnanny::cases

#endif  // MPNANNY_ENGINES_CASES_VOCABULARY_H_
