#include "tools/static_check/mixed_types/untied_inputs.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/type_ties.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// x @ self.W: nothing says that the caller's x has the type of the parameter.
void GuessForeignInputs(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Fields& f = PythonFields();
  const auto examine = [&](NodeId node, NodeId x, NodeId weight) {
    const NodeId given = facts.syntax.Unwrap(x);
    const std::string_view of = facts.syntax.Text(RootOf(facts, weight));
    if (!facts.syntax.Is(given, Kind::kIdentifier) || !of.starts_with("self.") || of.size() > 40 ||
        HoldsAny(of, {"(", "freq"}) || facts.regions.At(node) != nullptr ||
        !IsModelCode(facts, node))
      return;
    const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(node));
    const std::string_view name = facts.syntax.Text(given);
    if (function == nullptr ||
        std::find(function->parameters.begin(), function->parameters.end(), name) ==
            function->parameters.end() ||
        IsTied(facts, given) || IsTied(facts, weight) ||
        !HalfGuess::Anywhere(facts, node).MayBeHalf(given))
      return;
    found->push_back({node,
                      "Outside of autocast this product takes one type: the caller decides on "
                      "that of " +
                          std::string(name) + ", a cast of the model on that of " +
                          std::string(of) + ". x.to(self.W.dtype) ties the two."});
  };
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) == "@")
      examine(id, facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right));
  }
  for (const std::string_view name : {"matmul", "linear", "conv1d", "conv2d", "conv3d"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->callee.starts_with("torch."))
        examine(call->node, facts.names.Argument(call->node, 0, "input"),
                facts.names.Argument(call->node, 1, name == "matmul" ? "other" : "weight"));
    }
  }
}

// self.lora_a(x): adapters are often kept in FP32 beside weights that are 16-bit, or the reverse.
void GuessAdapters(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  if (!HoldsAny(facts.syntax.text(), {"lora", "adapter", "Adapter"})) return;
  for (const Call& call : facts.names.calls()) {
    const bool own = call.receiver != kNoNode && facts.syntax.Text(call.receiver) == "self";
    if (!call.callee.empty() || !(own || call.receiver == kNoNode) ||
        !(call.name.starts_with("lora_") || call.name.starts_with("adapter_")) ||
        HoldsAny(call.name, {"dropout", "init", "config", "state", "name", "merge"}) ||
        facts.bindings.Callee(call.node) != nullptr || facts.regions.At(call.node) != nullptr)
      continue;
    const NodeId given = facts.names.Argument(call.node, 0, "input");
    if (given == kNoNode || facts.names.Arguments(call.node).size() > 1 || IsTied(facts, given) ||
        !IsModelCode(facts, call.node) || !HalfGuess::Anywhere(facts, call.node).MayBeHalf(given))
      continue;
    found->push_back(
        {call.node,
         "An adapter is often kept in FP32 beside a 16-bit model, or loaded in another "
         "type than it: outside of autocast this layer then refuses its input. "
         "x.to(self.lora_a.weight.dtype) ties the two."});
  }
}

// flash_attn_func(q, k, v): kernels for FP16 and BF16 only.
void GuessFlash(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  if (!Holds(facts.syntax.text(), "flash_attn")) return;
  for (const Call& call : facts.names.calls()) {
    if (!HoldsAny(call.name, {"flash_attn_func", "flash_attn_varlen", "flash_attn_qkv",
                              "flash_attn_kv", "flash_attn_unpadded"}) ||
        facts.regions.At(call.node) != nullptr || !IsModelCode(facts, call.node))
      continue;
    // Whoever names a 16-bit type around it has thought of it.
    const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(call.node));
    if (HoldsAny(text, {"float16", "bfloat16", ".half()", "fp16", "bf16", "half_dtype"})) continue;
    const NodeId q = facts.names.Argument(call.node, 0, "q");
    if (q == kNoNode || facts.syntax.Text(q).starts_with("*")) continue;
    found->push_back({call.node,
                      "Flash attention takes FP16 and BF16 only: where a norm, a rotary table or "
                      "FP32 weights outside of autocast make the queries FP32, this raises "
                      "RuntimeError. Cast all three to one 16-bit type, and the result back."});
  }
}

// self.mlp(timestep_embedding(t)), self.proj(pixel_values): tables of sines are FP32 by how they
// are made, data by how they are loaded, and a layer of a model that is cast takes neither.
void GuessModelInputs(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  constexpr std::string_view kTables[] = {"timestep_emb", "sinusoid", "time_proj",     "fourier",
                                          "sincos",       "sine",     "gen_sine",      "time_embed",
                                          "get_timestep", "rbf",      "positional_enc"};
  constexpr std::string_view kData[] = {
      "pixel_values", "image", "mel",  "waveform", "wav",    "audio",       "features",
      "sine",         "noise", "cond", "points",   "frames", "prompt_embed"};
  if (!HoldsAny(facts.syntax.text(), {"nn.Module", "(Module)", "PreTrainedModel"})) return;
  for (const Call& call : facts.names.calls()) {
    if (!call.callee.empty() || call.receiver == kNoNode ||
        facts.syntax.Text(call.receiver) != "self" || facts.regions.At(call.node) != nullptr ||
        !HoldsAny(call.name, {"proj", "linear", "fc", "mlp", "embed", "conv", "dense", "layer",
                              "encoder", "net", "model", "stem", "in_"}) ||
        HoldsAny(call.name, {"loss", "get", "init", "compute", "processor", "extract", "log_"}))
      continue;
    const NodeId given = facts.syntax.Unwrap(facts.names.Argument(call.node, 0, "input"));
    if (given == kNoNode || facts.bindings.Callee(call.node) != nullptr || IsTied(facts, given) ||
        !IsModelCode(facts, call.node))
      continue;
    const std::vector<NodeId> values = ValuesOf(facts, given);
    const Call* made = facts.names.CallAt(facts.syntax.Unwrap(values.back()));
    const bool table = made != nullptr && HoldsAny(made->name, kTables);
    const NodeId root = RootOf(facts, given);
    const std::string_view name = facts.syntax.Text(root);
    const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(call.node));
    const bool data = facts.syntax.Is(root, Kind::kIdentifier) && HoldsAny(name, kData) &&
                      function != nullptr && facts.bindings.AssignmentsOf(root).size() <= 1 &&
                      std::find(function->parameters.begin(), function->parameters.end(), name) !=
                          function->parameters.end();
    if (!table && !data) continue;
    found->push_back({call.node, table ? "Sines and cosines of FP32 positions are FP32: in a model "
                                         "that is cast as a whole the weights of this layer are "
                                         "16-bit, and it raises RuntimeError. .to(x.dtype)"
                                       : "The caller decides on the type of this input, a cast of "
                                         "the model on that of the weights: data that a loader "
                                         "made are FP32, and a 16-bit layer raises RuntimeError. "
                                         "x.to(self.weight.dtype) ties the two."});
  }
}

// MOELinear.apply(x, counts, self.weight): autocast casts nothing for a custom function.
void GuessApplied(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("apply")) {
    const std::string_view klass = facts.syntax.Text(call->receiver).substr(0, 60);
    if (call->receiver == kNoNode || klass.empty() || klass.front() < 'A' || klass.front() > 'Z' ||
        facts.regions.At(call->node) != nullptr || !IsModelCode(facts, call->node))
      continue;
    // The function minds the types itself, here or where it is defined.
    const ClassRef of = facts.modules->ClassOf(facts.number, call->receiver);
    if (of.klass != kNoNode &&
        HoldsAny((*facts.files)[of.module]->syntax.Text(of.klass),
                 {"custom_fwd", ".to(", ".float()", "type_as", ".type(", ".half()", "autocast"}))
      continue;
    const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(call->node));
    const std::vector<NodeId> arguments = facts.names.Arguments(call->node);
    bool weight = false;
    for (const NodeId argument : arguments) {
      const std::string_view text = facts.syntax.Text(argument);
      weight = weight || (text.starts_with("self.") && text.ends_with("weight"));
    }
    // What comes first is what the function works on: Binarize.apply(self.weight, x) has no input.
    const NodeId input = arguments.empty() ? kNoNode : arguments.front();
    if (!weight || function == nullptr || !facts.syntax.Is(input, Kind::kIdentifier) ||
        std::find(function->parameters.begin(), function->parameters.end(),
                  facts.syntax.Text(input)) == function->parameters.end())
      continue;
    if (IsTied(facts, input) || !HalfGuess::Anywhere(facts, call->node).MayBeHalf(input)) continue;
    found->push_back(
        {call->node, "Autocast converts nothing for a custom function: " +
                         std::string(facts.syntax.Text(input)) +
                         " is 16-bit where an operator before it was, and the weight is FP32. "
                         "x.type_as(self.weight), or custom_fwd on its forward()."});
  }
}

// get_mask(x) of `def get_mask(x, dtype=torch.float16)`: a type that nobody here has chosen.
void GuessDefaults(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call& call : facts.names.calls()) {
    const Definition callee = facts.Callee(call.node);
    if (callee.function == nullptr || !IsModelCode(facts, call.node)) continue;
    const FileFacts& file = *(*facts.files)[callee.module];
    const Function& function = *callee.function;
    // One that makes a tensor of that type: a kernel's compute type is its own matter.
    if (!HoldsAny(function.name, {"mask", "bias", "embed", "pos", "table", "encod", "rope", "freq",
                                  "make_", "create_", "init_state", "cache", "noise", "latent"}))
      continue;
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      const std::string& name = function.parameters[i];
      if (name != "dtype") continue;
      const NodeId value = file.bindings.ParameterDefault(function.node, name);
      if (value == kNoNode || file.regions.ReadHalfType(value) == HalfType::kUnknown ||
          facts.names.Argument(call.node, static_cast<int>(i), name) != kNoNode ||
          Holds(facts.syntax.Text(facts.syntax.Child(call.node, PythonFields().arguments)), "**") ||
          IsTiedLater(facts, call.node))
        continue;
      found->push_back(
          {call.node, "What " + function.name + "() makes is 16-bit because its " + name +
                          " is by default: beside FP32 or the other 16-bit type, where the model "
                          "runs in that, it does not fit. Hand in the type of what it meets."});
    }
  }
}

}  // namespace

std::vector<UnlikeWrite> FindUntiedInputs(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  GuessForeignInputs(facts, &found);
  GuessModelInputs(facts, &found);
  GuessAdapters(facts, &found);
  GuessFlash(facts, &found);
  GuessApplied(facts, &found);
  GuessDefaults(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
