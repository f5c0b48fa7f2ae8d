#include <set>
#include <string>
#include <string_view>

#include "tools/static_check/facts/half_choices.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/half_models.h"
#include "tools/static_check/facts/precision_setup.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::fp16_weights_with_scaler {

// The variable that a call trains: Trainer(model=…), optimizer of its parameters; "" for others.
static std::string Trained(const FileFacts& facts, const Call& one) {
  const std::string_view name = one.name;
  const NodeId call = one.node;
  if (name.ends_with("Trainer")) return facts.names.Key(facts.names.Argument(call, 0, "model"));
  if (name == "fit") return facts.names.Key(facts.names.Argument(call, 0, "model"));
  const NodeId parameters = facts.names.Argument(call, 0, "params");
  if (facts.names.Method(parameters) != "parameters") return "";
  const bool optimizer = one.callee.starts_with("torch.optim.") || name.starts_with("Adam") ||
                         name.ends_with("optimizer_cls") || name.ends_with("optimizer_class") ||
                         name == "SGD" || name == "Lion";
  return optimizer ? facts.names.Key(facts.names.Receiver(parameters)) : "";
}

// True if the model is frozen, as one beside an adapter or a student is.
static bool IsFrozen(const FileFacts& facts, const std::string& model) {
  return Holds(facts.syntax.text(), model + ".requires_grad_(False)");
}

// True where DeepSpeed scales the loss, which keeps FP32 copies of 16-bit weights, or where nothing
// is trained at all.
static bool NeedsNoFp32(const std::string& text) {
  if (Holds(text, "deepspeed") || Holds(text, "DeepSpeed")) return true;
  return !Holds(text, "train(") && !Holds(text, ".fit(") && !Holds(text, "backward(");
}

// True if the condition asks whether mixed precision is on: cfg.fp16, args.bf16.
static bool AsksForMixed(const FileFacts& facts, NodeId condition) {
  for (NodeId id = condition; id != kNoNode && id < facts.syntax[condition].after; ++id) {
    const std::string_view text = facts.syntax.Text(id);
    if (facts.syntax.Is(id, Kind::kIdentifier) && (text == "fp16" || text == "bf16")) return true;
  }
  return false;
}

// True if the file loads something with the variable as its type.
static bool LoadsWith(const FileFacts& facts, std::string_view variable) {
  for (const Call* call : facts.names.CallsNamed("from_pretrained")) {
    for (const char* name : {"torch_dtype", "dtype"}) {
      const NodeId dtype = facts.names.Argument(call->node, -1, name);
      if (dtype != kNoNode && facts.syntax.Text(dtype) == variable) return true;
    }
  }
  return false;
}

// if cfg.fp16: cfg.torch_dtype = torch.float16: what turns on mixed precision also makes the
// weights 16-bit.
static void WeightsFollowMixed(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const std::string& text = facts.syntax.text();
  if (!Holds(text, "torch_dtype") || !(Holds(text, "fp16") || Holds(text, "bf16"))) return;
  const ProjectFacts& project = facts.project;
  if (!project.hf_trainer && !project.accelerate && !project.grad_scaler) return;
  for (const NodeId id : facts.assignments) {
    const NodeId value = facts.syntax.Child(id, f.right);
    const std::string_view target = facts.syntax.Text(facts.syntax.Child(id, f.left));
    const bool weights = target == "torch_dtype" || target.ends_with(".torch_dtype") ||
                         (target.size() < 40 && Holds(target, "dtype") && LoadsWith(facts, target));
    if (!weights || !ChoiceOf(facts, value).any() || !MayTrain(facts, id)) continue;
    NodeId condition = kNoNode;
    if (facts.syntax.Is(facts.syntax.Unwrap(value), Kind::kConditional)) {
      condition = facts.syntax.Children(facts.syntax.Unwrap(value))[1];
    } else {
      const NodeId block = facts.syntax[facts.syntax.StatementOf(id)].parent;
      const NodeId branch = facts.syntax[block].parent;
      if (facts.syntax.Is(branch, Kind::kIf) || facts.syntax.Is(branch, Kind::kElif))
        condition = facts.syntax.Child(branch, f.condition);
    }
    if (condition == kNoNode || !AsksForMixed(facts, condition)) continue;
    MarkGuess(sink.Add(id,
                       "The setting that turns on mixed precision also loads the weights in 16 "
                       "bits: FP16 gradients are refused by the scaler, BF16 weights lose small "
                       "updates. Mixed precision trains FP32 weights."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  WeightsFollowMixed(facts, sink);
  if (!Holds(facts.syntax.text(), "16") || NeedsNoFp32(facts.syntax.text())) return;
  const std::vector<PrecisionSetup> setups = FindPrecisionSetups(facts);
  const PrecisionSetup* scaled = nullptr;
  for (const PrecisionSetup& setup : setups) {
    if (setup.type == HalfType::kFp16) scaled = &setup;
  }
  if (scaled == nullptr || TrainsAdapters(facts)) return;
  const std::vector<WeightCast> casts = FindWeightCasts(facts);
  if (casts.empty()) return;
  std::set<NodeId> reported;
  for (const Call& call : facts.names.calls()) {
    const std::string model = Trained(facts, call);
    if (model.empty()) continue;
    const WeightCast* last = CastAt(facts, casts, model, call.node);
    if (last == nullptr || last->type == HalfType::kUnknown || IsFrozen(facts, model)) continue;
    // With torch.optim over a model that was cast it is half-params-optimizer.
    if (!last->loaded && call.callee.starts_with("torch.optim.")) continue;
    if (!reported.insert(last->origin).second) continue;
    const bool fp16 = last->type == HalfType::kFp16;
    RawFinding& finding = sink.Add(
        last->origin, std::string("The weights of ") + model + (fp16 ? " are FP16" : " are BF16") +
                          " here, and they are trained with FP16 loss scaling.");
    if (!fp16) finding.form = "bf16";
    if (scaled->by == PrecisionSetup::By::kScaler &&
        facts.names.Argument(scaled->call, -1, "enabled") != kNoNode)
      finding.confidence = "medium";
  }
}

}  // namespace mpnanny::static_check::fp16_weights_with_scaler
