#include <string>
#include <string_view>
#include <vector>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/model_calls.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::manual_half_cast {
namespace {

bool IsHalfCast(const FileFacts& facts, NodeId expression) {
  const auto call = TorchCallAt(facts, expression);
  if (!call || !call->is_method) return false;
  if (call->name == "half") return facts.names.Arguments(call->node).empty();
  if (call->name != "to" && call->name != "type") return false;
  for (const NodeId argument : facts.names.Arguments(call->node)) {
    if (facts.regions.ReadHalfType(argument) == HalfType::kFp16) return true;
  }
  return false;
}

bool Trains(const FileFacts& facts) {
  return facts.project.grad_scaler || facts.project.scaling_elsewhere ||
         Holds(facts.syntax.text(), "backward(");
}

// model(x.half()) where autocast chooses the types: what is lost before the first layer stays lost.
void InputsUnderAutocast(const FileFacts& facts, Sink& sink) {
  for (const ModelCall& model : FindModelCalls(facts)) {
    if (!facts.regions.MaybeOn(model.node) || !MayTrain(facts, model.node)) continue;
    for (const NodeId argument : facts.names.Arguments(model.node)) {
      if (!IsHalfCast(facts, argument)) continue;
      MarkGuess(sink.Add(argument,
                         "Autocast casts what needs it; cast by hand, the input is FP16 also "
                         "where layers work in FP32, and while autocast is switched off."));
    }
  }
}

// images = images.half(), and then autocast(): the same above the region, in a loop that trains.
void InputsBeforeAutocast(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("half")) {
    if (!IsHalfCast(facts, call->node) || !MayTrain(facts, call->node)) continue;
    const NodeId loop = LoopOf(facts, call->node);
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const NodeId statement = facts.syntax.StatementOf(call->node);
    const std::string_view name = facts.syntax.Text(call->receiver);
    // Models, losses and parameters are other rules'.
    if (name.find("model") != std::string_view::npos ||
        name.find("net") != std::string_view::npos || name.find("loss") != std::string_view::npos ||
        name.find("param") != std::string_view::npos || name.find("data") == 2 ||
        facts.regions.At(call->node) != nullptr ||
        !facts.syntax.Is(facts.syntax[statement].first_child, Kind::kAssignment))
      continue;
    const NodeId body = loop == kNoNode ? function : loop;
    const std::string_view text = facts.syntax.Text(body);
    if (!Holds(text, "backward(")) continue;
    bool under = false;
    for (const ModelCall& model : FindModelCalls(facts))
      under = under || (model.node > call->node && IsInside(facts, model.node, body) &&
                        facts.regions.MaybeOn(model.node));
    if (under)
      MarkGuess(sink.Add(call->node,
                         "Autocast casts what needs it; cast by hand, this is FP16 also where "
                         "layers and losses work in FP32."));
  }
}

// batch.mask.to(device, dtype=torch.float16) where the rest of the function takes a variable type.
void FixedType(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"to", "half"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const NodeId function = facts.syntax.FunctionOf(call->node);
      const std::string_view named =
          facts.syntax.Text(facts.syntax.Child(function, PythonFields().name));
      // What a step of training makes ready needs no gradients.
      if (!IsHalfCast(facts, call->node) || function == 0 ||
          !(MayTrain(facts, call->node) || HoldsAny(named, {"train", "step", "loss"})))
        continue;
      const std::string_view what = facts.syntax.Text(call->receiver);
      if (!HoldsAny(what, {"mask", "weight", "multiplier", "target", "latent", "noise", "embed"}) ||
          HoldsAny(what, {"model", "unet", "vae", "encoder", "attn"}) || what.size() > 60)
        continue;
      const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(call->node));
      if (!HoldsAny(text,
                    {"dtype=dtype", "dtype=weight_dtype", "dtype=self.dtype", ", weight_dtype)"}))
        continue;
      MarkGuess(sink.Add(call->node,
                         "This is FP16 whatever the rest is computed in: beside BF16 or FP32 it "
                         "loses range, and what is multiplied by it is rounded to 11 bits."));
    }
  }
}

// torch.empty(param.size(), dtype=torch.float16): a copy of a parameter or gradient of any type.
void FixedCopies(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"empty", "zeros", "empty_like", "zeros_like"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.")) continue;
      const NodeId dtype = facts.names.Argument(call->node, -1, "dtype");
      const std::string_view of = facts.syntax.Text(facts.names.Argument(call->node, 0, "size"));
      const bool copy =
          name.ends_with("_like") || of.ends_with(".size()") || of.ends_with(".shape");
      if (!copy || dtype == kNoNode || facts.regions.ReadHalfType(dtype) != HalfType::kFp16 ||
          !(of.starts_with("p.") || of == "p" || HoldsAny(of, {"param", "grad", "weight"})))
        continue;
      MarkGuess(sink.Add(call->node,
                         "A copy of a parameter or gradient that is FP16 whatever their own type "
                         "is: BF16 values beyond 65504 become infinite in it."));
    }
  }
}

// torch.tensor(self.gamma, dtype=self.amp_dtype): a number that training is sensitive to.
void RoundedNumbers(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"tensor", "as_tensor", "full", "scalar_tensor"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.")) continue;
      const NodeId dtype = facts.names.Argument(call->node, -1, "dtype");
      if (dtype == kNoNode) continue;
      const std::string_view type = facts.syntax.Text(dtype);
      const bool half = facts.regions.ReadHalfType(dtype) != HalfType::kUnknown ||
                        HoldsAny(type, {"amp_dtype", "half_dtype", "autocast_dtype", "mp_dtype"});
      const std::string_view what =
          facts.syntax.Text(facts.names.Argument(call->node, name == "full" ? 1 : 0, "data"));
      if (!half || what.size() > 40 ||
          !HoldsAny(what, {"gamma", "tau", "decay", "momentum", "discount", "beta", "polyak",
                           "learning_rate", "target_entropy", "lambda"}))
        continue;
      MarkGuess(sink.Add(call->node, std::string(what) +
                                         " is rounded to 16 bits: in BF16 0.99 is 0.988 and 0.999 "
                                         "is 1. A Python number keeps its value and takes the type "
                                         "of the tensor beside it."));
    }
  }
}

// @custom_fwd(cast_inputs=torch.half): everything that the function is given.
void CastInputs(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("custom_fwd")) {
    const NodeId to = facts.names.Argument(call->node, -1, "cast_inputs");
    if (to == kNoNode || facts.regions.ReadHalfType(to) != HalfType::kFp16) continue;
    MarkGuess(sink.Add(call->node,
                       "Under autocast all floating-point inputs are rounded to FP16 first, also "
                       "coordinates and directions, which lose all beyond 11 bits."));
  }
}

// True for what holds weights, by its name.
bool NamesModel(std::string_view text) {
  return HoldsAny(text, {"model", "net", "module", "encoder", "decoder", "transformer", "backbone",
                         "generator", "discriminator"});
}

// True if the statement looks at the type before it casts, or casts what is only saved.
bool Looks(const FileFacts& facts, NodeId node) {
  const std::string_view text = facts.syntax.Text(facts.syntax.StatementOf(node));
  return HoldsAny(text, {".dtype", "is_floating_point", "float32", "state_dict", "save(", ".eval()",
                         "no_grad", "benchmark", "ref_", "requires_grad"}) ||
         Holds(facts.syntax.Text(facts.syntax.Enclosing(node, Kind::kFor)).substr(0, 300),
               "requires_grad");
}

// A cast by hand to a 16-bit type, where code may train.
void AnyCast(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"half", "bfloat16", "to", "type"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || !call->callee.empty()) continue;
      HalfType type = name == "half"       ? HalfType::kFp16
                      : name == "bfloat16" ? HalfType::kBf16
                                           : HalfType::kUnknown;
      const std::vector<NodeId> arguments = facts.names.Arguments(call->node);
      if (type != HalfType::kUnknown && !arguments.empty()) continue;
      for (const NodeId argument : arguments) {
        if (type == HalfType::kUnknown) type = facts.regions.ReadHalfType(argument);
      }
      if (type == HalfType::kUnknown) continue;
      const std::string_view what = facts.syntax.Text(call->receiver);
      // Frozen, it is never updated.
      if (what.size() < 60 &&
          Holds(facts.syntax.text(), std::string(what) + ".requires_grad_(False)"))
        continue;
      if (!MayTrain(facts, call->node) || what.size() > 100) continue;
      if (facts.syntax.Is(call->receiver, Kind::kIdentifier) ||
          facts.syntax.Is(call->receiver, Kind::kAttribute)) {
        if (NamesModel(what)) {
          // BF16 weights are other rules'.
          if (type == HalfType::kFp16 && facts.syntax.FunctionOf(call->node) != 0 &&
              HoldsAny(facts.syntax.text(), {"backward(", "optim", "rainer", ".train()"}) &&
              !Holds(facts.syntax.Text(facts.syntax.StatementOf(call->node)), ".eval()"))
            MarkGuess(sink.Add(call->node,
                               "The weights are FP16 from here on: if they are trained, updates "
                               "below 2^-11 of a weight are lost, and GradScaler refuses their "
                               "gradients."));
          continue;
        }
      }
      // self.loss is a module as often as a value.
      if (what.starts_with("self.") && (what.ends_with("loss") || what.ends_with("criterion")))
        continue;
      if (facts.syntax.FunctionOf(call->node) == 0 || Looks(facts, call->node)) continue;
      MarkGuess(sink.Add(
          call->node, std::string("Cast by hand: from here on it has ") +
                          (type == HalfType::kFp16 ? "11 bits and nothing above 65504" : "8 bits") +
                          ", whatever is multiplied by it; a mask or an index "
                          "becomes a float."));
    }
  }
}

// torch.as_tensor(pixels, dtype=torch.float16), array.astype(np.float16): data and buffers that are
// 16-bit from the start, before anything has brought them into range.
void MadeInHalf(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"tensor", "as_tensor", "empty", "zeros", "ones", "full",
                                      "rand", "randn", "astype", "asarray"}) {
    for (const Call* made : facts.names.CallsNamed(name)) {
      const Call& call = *made;
      const bool numpy = name == "astype" || name == "asarray";
      if (!numpy && !call.callee.starts_with("torch.")) continue;
      NodeId dtype = facts.names.Argument(call.node, call.name == "astype" ? 0 : -1, "dtype");
      if (dtype == kNoNode || facts.syntax.FunctionOf(call.node) == 0) continue;
      const std::string_view text = facts.syntax.Text(dtype);
      const bool half =
          (text.starts_with("torch.") && facts.regions.ReadHalfType(dtype) != HalfType::kUnknown) ||
          (numpy && (text == "np.float16" || text == "numpy.float16" || text == "\"float16\"" ||
                     text == "'float16'"));
      if (!half || !MayTrain(facts, call.node)) continue;
      MarkGuess(
          sink.Add(call.node,
                   "16-bit from the start, whatever type the rest is computed in: raw data "
                   "and physical units beyond 65504 are infinite in FP16, and small "
                   "differences are gone in either type. Cast after scaling, or take the type "
                   "of what it meets."));
    }
  }
}

// cos.to(x.dtype): the tables of a rotary embedding in the type of the activations.
void RotaryTables(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"to", "type_as"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || !call->callee.empty()) continue;
      const std::string_view what = facts.syntax.Text(call->receiver);
      const std::string_view root = what.substr(0, what.find_first_of(".[("));
      if (what.size() > 60 || !HoldsAny(root, {"cos", "sin", "freqs", "rope", "rotary"})) continue;
      bool given = name == "type_as";
      for (const NodeId argument : facts.names.Arguments(call->node))
        given = given || facts.syntax.Text(argument).ends_with("dtype");
      given = given ||
              facts.syntax.Text(facts.names.Argument(call->node, -1, "dtype")).ends_with("dtype");
      if (!given || facts.syntax.FunctionOf(call->node) == 0 ||
          !HalfGuess::Anywhere(facts, call->node).any())
        continue;
      MarkGuess(sink.Add(call->node,
                         "If that type is 16-bit, sine and cosine are rounded to 8 or 11 bits "
                         "before the rotation: rotate in FP32 and cast the result."));
    }
  }
}

// targets.to(dtype), rewards.to(x.dtype): what a loss compares with takes the activations' type.
void LossInputs(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"to", "type_as", "type"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || !call->callee.empty()) continue;
      const std::string_view what = facts.syntax.Text(call->receiver);
      if (what.size() > 80 ||
          !HoldsAny(what, {"label", "target", "reward", "advantage", "returns", "loss_weight",
                           "loss_mask", "log_prob", "snr", "sigma"}))
        continue;
      bool given = name == "type_as";
      for (const NodeId argument : facts.names.Arguments(call->node)) {
        const std::string_view type = facts.syntax.Text(argument);
        given = given || (type.ends_with("dtype") && type.size() < 40);
      }
      const HalfGuess anywhere = HalfGuess::Anywhere(facts, call->node);
      if (!given || !anywhere.any() || facts.syntax.FunctionOf(call->node) == 0) continue;
      MarkGuess(sink.Add(call->node,
                         "What the loss compares or weighs with takes a type that is given: if "
                         "that is 16-bit, it is rounded to 8 or 11 bits before the loss."));
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.HasHalfChoice()) {
    AnyCast(facts, sink);
    LossInputs(facts, sink);
    MadeInHalf(facts, sink);
    RotaryTables(facts, sink);
  }
  if (facts.project.sixteen_bit) {
    FixedType(facts, sink);
    FixedCopies(facts, sink);
    RoundedNumbers(facts, sink);
    CastInputs(facts, sink);
  }
  if (!facts.project.sixteen_bit || !Trains(facts)) return;
  const Fields& f = PythonFields();
  // Parameters that are made in FP16. A library makes them for whoever passes the dtype, and for
  // inference; a training script for itself.
  for (const Call* call : facts.names.CallsNamed("Parameter")) {
    if (call->callee != "torch.nn.Parameter" && call->callee != "torch.nn.parameter.Parameter")
      continue;
    const NodeId trained = facts.names.Argument(call->node, 1, "requires_grad");
    const NodeId data = facts.names.Argument(call->node, 0, "data");
    const Value type = facts.dtypes->Of(data);
    if (trained != kNoNode || !type.is_fp16() || type.assumed || type.passed != kNoNode ||
        !Holds(facts.syntax.text(), ".backward()"))
      continue;
    sink.Add(call->node,
             "A trained parameter is FP16: updates below 2^-11 of its value are lost, and "
             "GradScaler refuses its gradients.");
  }
  InputsUnderAutocast(facts, sink);
  InputsBeforeAutocast(facts, sink);
  // Targets of a regression.
  for (const std::string_view loss : {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}) {
    for (const Call* call : facts.names.CallsNamed(loss)) {
      if (TorchFunction(call->callee).empty() || !MayTrain(facts, call->node)) continue;
      const NodeId target = facts.names.Argument(call->node, 1, "target");
      if (!IsHalfCast(facts, target)) continue;
      sink.Add(target,
               "The target is rounded to FP16, 11 bits and at most 65504, before the loss "
               "compares it.");
    }
  }
  // The loss itself, and parameters one by one.
  for (const Call* call : facts.names.CallsNamed("half")) {
    if (!IsHalfCast(facts, call->node) || !MayTrain(facts, call->node)) continue;
    const std::string key = facts.names.Key(call->receiver);
    // self.loss is a module as often as a value.
    if (!key.starts_with("self.") &&
        (key == "loss" || key.ends_with("_loss") || key.ends_with(".loss")))
      sink.Add(call->node, "The loss is cast to FP16: the backward pass starts from 11 bits.");
  }
  for (const NodeId id : facts.assignments) {
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    if (!facts.syntax.Is(left, Kind::kAttribute) ||
        facts.syntax.Text(facts.syntax.Child(left, f.attribute)) != "data" ||
        !IsHalfCast(facts, right))
      continue;
    const NodeId loop = facts.syntax.Enclosing(id, Kind::kFor);
    if (loop == kNoNode || !MayTrain(facts, id)) continue;
    const std::string_view over = facts.syntax.Text(facts.syntax.Child(loop, f.right));
    const std::string_view body = facts.syntax.Text(loop);
    if (over.find("parameters()") == std::string_view::npos ||
        body.find("requires_grad") != std::string_view::npos ||
        facts.syntax.Text(facts.syntax.FunctionOf(id)).find("backward(") == std::string_view::npos)
      continue;
    sink.Add(id, "The parameters are cast to FP16: updates below 2^-11 of a weight are lost.");
  }
}

}  // namespace mpnanny::static_check::manual_half_cast
