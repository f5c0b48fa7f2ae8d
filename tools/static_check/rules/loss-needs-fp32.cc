#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::loss_needs_fp32 {
namespace {

constexpr std::string_view kLosses[] = {
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "nll_loss",
    "gaussian_nll_loss",
    "poisson_nll_loss",
    "ctc_loss",
    "cosine_embedding_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "cosine_similarity",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
};

// How functions and classes are called that compute losses and costs.
constexpr std::string_view kComputes[] = {
    "loss",    "iou",     "criterion", "cost", "diverg",     "huber",  "match",   "kl_",
    "penalty", "entropy", "reward",    "elbo", "likelihood", "router", "routing", "gating"};

bool IsOn(const FileFacts& facts, NodeId node) { return facts.regions.At(node) != nullptr; }

// True if the function or its class is called as what computes a loss is.
bool ComputesLoss(const FileFacts& facts, NodeId function) {
  if (function == 0) return false;
  const uint16_t name = PythonFields().name;
  const NodeId klass = facts.syntax.Enclosing(function, Kind::kClass);
  const std::string own = LowerCase(facts.syntax.Text(facts.syntax.Child(function, name)));
  if (own.starts_with("__init")) return false;
  return HoldsAny(own, kComputes) ||
         (klass != kNoNode &&
          HoldsAny(LowerCase(facts.syntax.Text(facts.syntax.Child(klass, name))), kComputes));
}

// What is compared may be 16-bit, and neither side is known to be FP32.
bool MayCompareHalf(const FileFacts& facts, NodeId node, NodeId a, NodeId b) {
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
  if (!anywhere.any() || !anywhere.MayBeHalf(a)) return false;
  return b == kNoNode || !anywhere.IsKnown(b);
}

void Report(Sink& sink, NodeId node, std::string_view name) {
  MarkGuess(sink.Add(node,
                     "If the predictions are 16-bit here, outside of autocast, so are the "
                     "terms of " +
                         std::string(name) +
                         " and what it returns: 8 or 11 bits, and in FP16 nothing above "
                         "65504."));
}

void TorchLosses(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : kLosses) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      // Autocast runs most of them in FP32.
      if (TorchFunction(call->callee).empty() ||
          (IsOn(facts, call->node) && facts.ops.PolicyOf(Device::kCuda, name) == CastPolicy::kFp32))
        continue;
      const NodeId a = facts.names.Argument(call->node, 0, "input");
      if (MayCompareHalf(facts, call->node, a, facts.names.Argument(call->node, 1, "target")))
        Report(sink, call->node, name);
    }
  }
}

// nn.CrossEntropyLoss()(logits, labels): made and called at once.
void MadeLosses(const FileFacts& facts, Sink& sink) {
  for (const Call& call : facts.names.calls()) {
    if (!call.callee.starts_with("torch.nn.") || !call.name.ends_with("Loss")) continue;
    const NodeId outer = facts.syntax[call.node].parent;
    if (!facts.syntax.Is(outer, Kind::kCall) || IsOn(facts, outer) ||
        facts.syntax.Child(outer, PythonFields().function) != call.node)
      continue;
    const NodeId a = facts.names.Argument(outer, 0, "input");
    if (a != kNoNode && MayCompareHalf(facts, outer, a, facts.names.Argument(outer, 1, "target")))
      Report(sink, outer, call.name);
  }
}

// True if the body of what is called converts by itself.
bool Converts(const FileFacts& facts, NodeId call) {
  const Definition callee = facts.Callee(call);
  if (callee.function == nullptr) return false;
  const FileFacts& file = *(*facts.files)[callee.module];
  return HoldsAny(file.syntax.Text(callee.function->node), {".float()", "float32", "float64"});
}

// loss_fn(outputs, targets), self.criterion(outputs, targets): of whatever kind it is.
void NamedLosses(const FileFacts& facts, Sink& sink) {
  for (const Call& call : facts.names.calls()) {
    if (!call.callee.empty() || IsOn(facts, call.node)) continue;
    const std::string_view name = call.name;
    const bool loss = name.ends_with("loss") || name.ends_with("criterion") ||
                      name.ends_with("loss_fn") || name.ends_with("loss_func") ||
                      name.ends_with("loss_function") || name.starts_with("loss_fn") ||
                      name.starts_with("loss_func") || name == "metrics" ||
                      name.ends_with("_metrics");
    if (!loss) continue;
    const NodeId a = facts.names.Argument(call.node, 0, "input");
    const NodeId b = facts.names.Argument(call.node, 1, "target");
    if (a == kNoNode || b == kNoNode || !MayCompareHalf(facts, call.node, a, b) ||
        Converts(facts, call.node))
      continue;
    Report(sink, call.node, name);
  }
}

void Formula(const FileFacts& facts, Sink& sink, NodeId node, NodeId tensor,
             std::string_view operation) {
  if (!ComputesLoss(facts, facts.syntax.FunctionOf(node))) return;
  if (IsOn(facts, node) && facts.ops.PolicyOf(Device::kCuda, operation) == CastPolicy::kFp32)
    return;
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
  if (!anywhere.any() || !anywhere.MayBeHalf(tensor)) return;
  MarkGuess(sink.Add(node, "If this term of a loss is 16-bit, " + std::string(operation) +
                               " keeps 8 or 11 bits of it, and in FP16 values below 6e-8 are zero "
                               "and above 65504 infinite."));
}

// The loss that the project writes out itself.
void Formulas(const FileFacts& facts, Sink& sink) {
  ForEachTorchCall(
      facts,
      {"log", "log1p", "log2", "exp", "expm1", "sqrt", "pow", "square", "logsigmoid", "sigmoid",
       "softplus"},
      [&](const TorchCall& call) { Formula(facts, sink, call.node, call.tensor, call.name); });
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) == "**" &&
        !facts.bindings.Number(facts.syntax.Child(id, PythonFields().left)))
      Formula(facts, sink, id, facts.syntax.Child(id, PythonFields().left), "pow");
  }
}

// loss() of a head in MMCV's manner, in a project that runs models by auto_fp16: what the head
// predicts arrives in FP16 unless force_fp32 brings it back.
void HeadLosses(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  if (!HoldsAny(syntax.text(), {"mmcv", "mmdet", "mmseg", "mmpose"}) ||
      !Holds(syntax.text(), "def loss"))
    return;
  const uint16_t name = PythonFields().name;
  for (const Function& function : facts.bindings.functions()) {
    if (function.klass == kNoNode || function.parameters.size() < 2 ||
        (function.name != "loss" && function.name != "losses"))
      continue;
    const std::string_view body = syntax.Text(function.node);
    // What it hands everything to is asked by itself.
    if (HoldsAny(body, {".float()", "float32", "autocast", "super(", "NotImplemented", ".loss("}))
      continue;
    // One of the class's losses converts: it may be the one that this hands everything to.
    const auto& all = facts.bindings.functions();
    const bool forced = std::any_of(all.begin(), all.end(), [&](const Function& other) {
      const NodeId decorated = syntax[other.node].parent;
      return other.klass == function.klass && syntax.Is(decorated, Kind::kDecorated) &&
             Holds(other.name, "loss") &&
             Holds(syntax.Text(decorated).substr(
                       0, syntax[other.node].begin - syntax[decorated].begin),
                   "force_fp32");
    });
    if (forced) continue;
    const bool fp16 =
        std::any_of(facts.files->begin(), facts.files->end(), [](const FileFacts* file) {
          return HoldsAny(file->syntax.text(), {"auto_fp16", "wrap_fp16_model", "fp16_enabled"});
        });
    if (!fp16) return;
    MarkGuess(sink.Add(syntax.Child(function.node, name),
                       "Under FP16 training predictions reach this loss in FP16: "
                       "@force_fp32(apply_to=(…)) brings them back, else its terms have 11 bits "
                       "and nothing above 65504."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  HeadLosses(facts, sink);
  TorchLosses(facts, sink);
  MadeLosses(facts, sink);
  NamedLosses(facts, sink);
  Formulas(facts, sink);
}

}  // namespace mpnanny::static_check::loss_needs_fp32
