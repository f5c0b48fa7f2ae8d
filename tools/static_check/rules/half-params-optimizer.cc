#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/half_choices.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/half_models.h"
#include "tools/static_check/facts/precision_setup.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::half_params_optimizer {

namespace {

// get_peft_model(model) and a Trainer with fp16=… in one function, in a project that loads its
// models in FP16: the adapters are made in the type of the weights beside them.
void AdaptersInHalf(const FileFacts& facts, std::set<NodeId>* told, Sink& sink) {
  for (const Call* made : facts.names.CallsNamed("get_peft_model")) {
    const NodeId function = facts.syntax.FunctionOf(made->node);
    const std::string_view text = facts.syntax.Text(function);
    if (Holds(text, "float32") || Holds(text, "data.float()") || Holds(text, "adapter_dtype") ||
        Holds(text, "param.float()") || Holds(text, "upcast"))
      continue;
    NodeId trainer = kNoNode;
    bool fp16 = false;
    for (const Call& call : facts.names.calls()) {
      if (facts.syntax.FunctionOf(call.node) != function) continue;
      if (call.name.ends_with("Trainer")) trainer = call.node;
      const NodeId on = facts.names.Argument(call.node, -1, "fp16");
      fp16 = fp16 || (on != kNoNode && !facts.syntax.Is(on, Kind::kFalse));
      // What prepares a quantised model casts the rest; under a condition it may not.
      if (call.name.starts_with("prepare_model_for") &&
          facts.syntax.Enclosing(call.node, Kind::kIf) == kNoNode)
        fp16 = false, trainer = kNoNode;
    }
    const bool loaded =
        std::any_of(facts.files->begin(), facts.files->end(), [](const FileFacts* file) {
          return Holds(file->syntax.text(), "torch_dtype") && Holds(file->syntax.text(), "float16");
        });
    if (!fp16 || trainer == kNoNode || !loaded) continue;
    told->insert(function);
    MarkGuess(sink.Add(trainer,
                       "The project loads models in FP16, and adapters are made in the type of the "
                       "weights beside them (PEFT before 0.12): with fp16 the Trainer's scaler "
                       "refuses their gradients. Cast what is trained to FP32."));
  }
}

// True if the text casts what is trained up: a loop over parameters that asks for requires_grad and
// names FP32, or one of the functions that are there for it.
bool CastsTrained(std::string_view text) {
  if (HoldsAny(text, {"cast_training_params", "upcast", "autocast_adapter_dtype"})) return true;
  for (size_t at = text.find("requires_grad"); at != std::string_view::npos;
       at = text.find("requires_grad", at + 1)) {
    const std::string_view around = text.substr(at < 200 ? 0 : at - 200, 500);
    if (Holds(around, "parameters()") && HoldsAny(around, {"float32", ".float()"})) return true;
  }
  return false;
}

// True if something in the function casts the trained parameters to FP32, itself or by a call.
bool CastsTrainedIn(const FileFacts& facts, NodeId function) {
  if (CastsTrained(facts.syntax.Text(function))) return true;
  for (const Call& call : facts.names.calls()) {
    if (facts.syntax.FunctionOf(call.node) != function) continue;
    if (call.name.starts_with("prepare_model_for_")) return true;
    const Definition callee = facts.Callee(call.node);
    if (callee.function == nullptr) continue;
    const FileFacts& file = *(*facts.files)[callee.module];
    if (CastsTrained(file.syntax.Text(callee.function->node))) return true;
  }
  return false;
}

// LoRA and other adapters that are put into a model whose type may be FP16, in a function that
// casts nothing of it back.
void AddedInHalf(const FileFacts& facts, std::set<NodeId>* told, Sink& sink) {
  const std::string_view text = facts.syntax.text();
  if (!HoldsAny(text, {"Trainer(", "backward(", "optim"})) return;
  for (const std::string_view name : {"get_peft_model", "prepare_model", "add_adapter",
                                      "inject_adapter_in_model", "inject_trainable_lora"}) {
    for (const Call* made : facts.names.CallsNamed(name)) {
      const NodeId model = facts.names.Argument(made->node, 0, "model");
      const NodeId config = facts.names.Argument(made->node, 1, "config");
      const NodeId function = facts.syntax.FunctionOf(made->node);
      // Accelerate and others have a prepare_model() as well.
      if (model == kNoNode || function == 0 || told->contains(function) ||
          (name == "prepare_model" &&
           (config == kNoNode ||
            !HoldsAny(LowerCase(facts.syntax.Text(config)), {"lora", "adapter", "peft", "tuner"}))))
        continue;
      const bool loaded =
          std::any_of(facts.files->begin(), facts.files->end(), [](const FileFacts* file) {
            return HoldsAny(file->syntax.text(), {"torch_dtype", "weight_dtype"}) &&
                   HoldsAny(file->syntax.text(), {"torch.float16", "torch.half"});
          });
      if (!loaded || !MayTrain(facts, made->node) || CastsTrainedIn(facts, function)) continue;
      told->insert(function);
      MarkGuess(sink.Add(made->node,
                         "Adapters take the type of the weights beside them (in PEFT before 0.12): "
                         "where the model is loaded in FP16 they are trained in it, small updates "
                         "are lost, and a scaler refuses their gradients. Cast what requires "
                         "gradients to FP32."));
    }
  }
}

// model = dict(type=Model.from_pretrained, torch_dtype=torch.float16): a configuration file that
// names what is trained.
void ConfiguredInHalf(const FileFacts& facts, Sink& sink) {
  if (!Holds(facts.syntax.text(), "optim")) return;
  for (const Call* made : facts.names.CallsNamed("dict")) {
    const NodeId kind = facts.names.Argument(made->node, -1, "type");
    NodeId dtype = facts.names.Argument(made->node, -1, "torch_dtype");
    if (dtype == kNoNode) dtype = facts.names.Argument(made->node, -1, "dtype");
    if (kind == kNoNode || dtype == kNoNode ||
        !HoldsAny(facts.syntax.Text(kind), {".from_pretrained", ".from_config"}) ||
        facts.regions.ReadHalfType(dtype) != HalfType::kFp16 ||
        // A quantised base is not trained, and its type is the one it computes in.
        facts.names.Argument(made->node, -1, "quantization_config") != kNoNode)
      continue;
    const NodeId up = facts.syntax[made->node].parent;
    const std::string key = LowerCase(facts.syntax.Text(facts.syntax[up].first_child));
    const std::string_view statement = facts.syntax.Text(facts.syntax.StatementOf(made->node));
    if (HoldsAny(key, {"ref", "teacher", "vae", "text_encoder", "tokenizer", "reward"}) ||
        Holds(statement, "freeze_" + key + "=True"))
      continue;
    MarkGuess(sink.Add(made->node,
                       "Loaded in FP16 and handed to an optimizer: what is trained of it, adapters "
                       "too, has 11 bits, and updates below 2^-12 of a weight are lost. Load it in "
                       "FP32 and let the mixed-precision wrapper cast."));
  }
}

// OptimizerConfig(bf16=self.bf16, params_dtype=model.dtype): where the answer is FP16, the
// optimizer is told of neither type.
void OnlyBf16Told(const FileFacts& facts, Sink& sink) {
  if (!HoldsAny(facts.syntax.text(), {"params_dtype", "param_dtype", "model_dtype"})) return;
  for (const Call& call : facts.names.calls()) {
    const NodeId bf16 = facts.names.Argument(call.node, -1, "bf16");
    if (bf16 == kNoNode || HasSplat(facts, call.node) ||
        facts.names.Argument(call.node, -1, "fp16") != kNoNode ||
        facts.syntax.Is(facts.bindings.ValueOf(bf16), Kind::kTrue) ||
        facts.syntax.Is(facts.bindings.ValueOf(bf16), Kind::kFalse))
      continue;
    NodeId dtype = kNoNode;
    for (const char* keyword : {"params_dtype", "param_dtype", "model_dtype"}) {
      if (dtype == kNoNode) dtype = facts.names.Argument(call.node, -1, keyword);
    }
    if (dtype == kNoNode || facts.syntax.Text(dtype).starts_with("torch.")) continue;
    MarkGuess(
        sink.Add(call.node,
                 "This is told bf16= and the parameters' type, and never fp16=: FP16 "
                 "parameters get no FP32 copies and no loss scale. fp16= belongs beside it."));
  }
}

// from_pretrained(…, torch_dtype=torch.float16) in a file that trains.
void LoadedInHalf(const FileFacts& facts, Sink& sink) {
  const std::string_view text = facts.syntax.text();
  if (!Holds(text, "torch_dtype") && !Holds(text, "dtype=torch.")) return;
  if (!Holds(text, "backward(") && !Holds(text, "Trainer(") && !Holds(text, "optim.")) return;
  for (const Call& call : facts.names.calls()) {
    if (call.name != "from_pretrained" && call.name != "from_config" && call.name != "load_model")
      continue;
    NodeId dtype = facts.names.Argument(call.node, -1, "torch_dtype");
    if (dtype == kNoNode) dtype = facts.names.Argument(call.node, -1, "dtype");
    const HalfType type = dtype == kNoNode ? HalfType::kUnknown : facts.regions.ReadHalfType(dtype);
    if (type != HalfType::kFp16 || !MayTrain(facts, call.node)) continue;
    const std::string_view name = facts.syntax.Text(facts.syntax.StatementOf(call.node));
    if (Holds(name, "ref") || Holds(name, "teacher") || Holds(name, "vae") ||
        Holds(name, "text_encoder") || Holds(name, "okenizer"))
      continue;
    MarkGuess(sink.Add(call.node,
                       "Loaded in FP16: if these weights are trained, updates below 2^-12 of their "
                       "value are lost, and GradScaler refuses their gradients. Load them in FP32 "
                       "and use autocast."));
  }
}

// unet.to(device, dtype=weight_dtype), where the type is FP16 on one branch, and an optimizer over
// unet.parameters() behind it.
void CastByVariable(const FileFacts& facts, Sink& sink) {
  for (const Call* cast : facts.names.CallsNamed("to")) {
    const std::string model = facts.names.Key(cast->receiver);
    bool half = false;
    for (const NodeId argument : facts.names.Arguments(cast->node)) {
      const std::vector<Assignment> types = facts.bindings.AssignmentsOf(argument);
      half = half || (types.size() > 1 &&
                      std::any_of(types.begin(), types.end(), [&](const Assignment& type) {
                        return facts.regions.ReadHalfType(type.value) == HalfType::kFp16;
                      }));
    }
    if (!half || model.empty()) continue;
    const NodeId function = facts.syntax.FunctionOf(cast->node);
    const std::string_view text = facts.syntax.Text(function);
    if (!Holds(text, "backward(") || Holds(text, "cast_training_params") ||
        Holds(text, model + ".requires_grad_(False)") || Holds(text, model + ".float()") ||
        Holds(text, model + ".to(torch.float32") || Holds(text, "data.float()"))
      continue;
    for (const Call& call : facts.names.calls()) {
      if (call.node < cast->node || facts.syntax.FunctionOf(call.node) != function ||
          !(Holds(call.callee, "optim") || Holds(call.name, "ptimizer")) ||
          Holds(call.callee, "schedul"))
        continue;
      const NodeId trained = facts.names.Argument(call.node, 0, "params");
      if (facts.syntax.Text(trained) != model + ".parameters()") continue;
      MarkGuess(sink.Add(call.node, "Where the type that " + model +
                                        " is cast to is FP16, the optimizer trains FP16 weights: "
                                        "small updates are lost."));
    }
  }
}

// How a type is given that may be 16-bit: by the text, or by a name that a setting decides
// (weight_dtype, args.dtype).
enum class Given { kNo, kText, kName };
Given HalfTypeGiven(const FileFacts& facts, NodeId dtype) {
  const NodeId id = facts.syntax.Unwrap(dtype);
  if (id == kNoNode) return Given::kNo;
  if (facts.regions.ReadHalfType(id) != HalfType::kUnknown || ChoiceOf(facts, id).any())
    return Given::kText;
  if (facts.syntax.Is(id, Kind::kConditional)) {
    const std::vector<NodeId> parts = facts.syntax.Children(id);
    return parts.size() != 3
               ? Given::kNo
               : std::max(HalfTypeGiven(facts, parts[0]), HalfTypeGiven(facts, parts[2]));
  }
  const std::string_view text = facts.syntax.Text(id);
  if (text == "\"auto\"" || text == "'auto'") return Given::kName;  // what the checkpoint has
  const bool name =
      (facts.syntax.Is(id, Kind::kIdentifier) || facts.syntax.Is(id, Kind::kAttribute)) &&
      !text.starts_with("torch.") && text.ends_with("dtype") && text.size() < 40;
  return name ? Given::kName : Given::kNo;
}

// What is trained by no optimizer, or not by this one.
bool IsFrozen(const FileFacts& facts, std::string_view model, std::string_view statement) {
  const std::string name(model);
  return HoldsAny(LowerCase(model), {"ref", "teacher", "vae", "text_encoder", "tokenizer", "frozen",
                                     "config", "clip", "pipe"}) ||
         Holds(statement, ".eval()") || Holds(statement, "okenizer") ||
         Holds(facts.syntax.text(), name + ".requires_grad_(False)") ||
         Holds(facts.syntax.text(), name + ".eval()");
}

// One call that may load or cast the model that is trained.
void ExamineWeights(const FileFacts& facts, Sink& sink, const Call& call) {
  const std::string_view text = facts.syntax.text();
  const bool cast = call.name == "to" || call.name == "half" || call.name == "bfloat16";
  const bool load = call.name == "from_pretrained" || call.name == "from_config" ||
                    (call.name.starts_with("load_") && Holds(call.name, "model"));
  if (!cast && !load) return;
  std::string_view model;
  if (cast) {
    if (call.receiver == kNoNode || !call.callee.empty()) return;
    model = facts.syntax.Text(call.receiver);
    if (model.size() > 40 ||
        !HoldsAny(model, {"model", "net", "module", "transformer", "backbone", "policy", "actor"}))
      return;
  }
  const std::string_view statement = facts.syntax.Text(facts.syntax.StatementOf(call.node));
  if (load) model = statement.substr(0, statement.find_first_of(" =,"));
  if (statement.size() > 600 || facts.syntax.FunctionOf(call.node) == 0) return;
  Given given = cast && call.name != "to" && facts.names.Arguments(call.node).empty() ? Given::kText
                                                                                      : Given::kNo;
  for (const char* keyword : {"torch_dtype", "dtype"})
    given = std::max(given, HalfTypeGiven(facts, facts.names.Argument(call.node, -1, keyword)));
  if (call.name == "to") {
    for (const NodeId argument : facts.names.Arguments(call.node))
      given = std::max(given, HalfTypeGiven(facts, argument));
  }
  if (given == Given::kNo || !MayTrain(facts, call.node)) return;
  // What the text says of a cast and of an optimizer is not guessed.
  if (cast && given == Given::kText && HoldsAny(text, {"optim", "state_dict"})) return;
  if (IsFrozen(facts, model, statement)) return;
  MarkGuess(sink.Add(call.node,
                     "If these weights are trained and the type is 16-bit, small updates are "
                     "lost: below 2^-12 of a weight in FP16, 2^-9 in BF16. Keep them in FP32 and "
                     "let autocast or the framework's mixed precision cast them."));
}

// The model that is trained is loaded, or cast as a whole, in a type that may be 16-bit.
void ChosenWeights(const FileFacts& facts, Sink& sink) {
  const std::string_view text = facts.syntax.text();
  if (!HoldsAny(text, {"backward(", "Trainer(", "optim", "FullyShardedDataParallel", ".fit("}))
    return;
  for (const std::string_view name : {"to", "half", "bfloat16", "from_pretrained", "from_config"}) {
    for (const Call* call : facts.names.CallsNamed(name)) ExamineWeights(facts, sink, *call);
  }
  if (!Holds(text, "load_")) return;
  for (const Call& call : facts.names.calls()) {
    if (call.name.starts_with("load_")) ExamineWeights(facts, sink, call);
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  LoadedInHalf(facts, sink);
  // A checkpoint's type is the project's choice as well, though its text names none.
  if (facts.project.HasHalfChoice() ||
      HoldsAny(facts.syntax.text(), {"dtype=\"auto\"", "dtype='auto'"}))
    ChosenWeights(facts, sink);
  for (const NodeId precision : DefaultPrecisions(facts, "16-true"))
    MarkGuess(sink.Add(precision,
                       "With this default everything is FP16, weights, gradients and optimizer, "
                       "and nothing scales the loss."));
  const std::vector<TrainedHalf> loads = FindTrainedLoads(facts);
  const auto optimizers = FindHalfOptimizers(facts);
  std::vector<PrecisionSetup> setups;  // looked for only where they decide
  if (!loads.empty() || !optimizers.empty()) setups = FindPrecisionSetups(facts);
  const bool scaled = std::any_of(setups.begin(), setups.end(), [](const PrecisionSetup& setup) {
    return setup.type == HalfType::kFp16;
  });
  for (const TrainedHalf& load : loads) {
    if (load.type.fp16 && !scaled)
      MarkGuess(sink.Add(load.node, "Where the type is FP16, so are the weights of " + load.model +
                                        " that are trained: small updates are lost."));
  }
  for (const TrainedHalf& cast : FindTrainedCasts(facts)) {
    if (cast.type.fp16)
      MarkGuess(sink.Add(cast.node, "The weights of " + cast.model +
                                        " are FP16 when the optimizer gets them: updates below "
                                        "2^-12 of a weight are lost."));
  }
  for (const HalfOptimizer& late : FindLateCasts(facts)) {
    if (late.type == HalfType::kFp16)
      MarkGuess(sink.Add(late.cast, "The optimizer above holds the weights of " + late.model +
                                        ", which this makes FP16 in place: updates below 2^-12 of "
                                        "a weight are lost from here on."));
  }
  std::set<NodeId> adapted;  // functions that have been told of
  AdaptersInHalf(facts, &adapted, sink);
  AddedInHalf(facts, &adapted, sink);
  ConfiguredInHalf(facts, sink);
  OnlyBf16Told(facts, sink);
  CastByVariable(facts, sink);
  for (const HalfOptimizer& found : optimizers) {
    if (found.type != HalfType::kFp16) continue;
    // With a scaler beside weights that were loaded it is fp16-weights-with-scaler.
    if (found.loaded && (TrainsAdapters(facts) || !setups.empty())) continue;
    RawFinding& finding =
        sink.Add(found.call, "The optimizer gets the parameters of " + found.model + ", which " +
                                 std::string(facts.syntax.Text(found.cast).substr(0, 60)) +
                                 " has made FP16.");
    if (found.some) finding.confidence = "medium";
  }
}

}  // namespace mpnanny::static_check::half_params_optimizer
