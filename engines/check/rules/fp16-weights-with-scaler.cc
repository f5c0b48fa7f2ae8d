#include <set>
#include <string>
#include <string_view>

#include "engines/check/facts/half_models.h"
#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::fp16_weights_with_scaler {

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

void Check(const FileFacts& facts, Sink& sink) {
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

}  // namespace mpnanny::check::fp16_weights_with_scaler
