#include "tools/static_check/facts/half_guess.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/switched_off.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

constexpr int kMostSteps = 200;

// Names of tensors that hold indices, masks or labels, or of numbers. Matched as whole words
// between underscores.
constexpr std::string_view kNoActivations[] = {
    "mask",    "masks",     "target",    "targets", "label",  "labels",      "gt",
    "idx",     "index",     "ids",       "id",      "len",    "length",      "lens",
    "lengths", "count",     "counts",    "num",     "n",      "step",        "steps",
    "lr",      "timesteps", "size",      "dim",     "device", "shape",       "anchors",
    "eps",     "epsilon",   "grad",      "grads",   "valid",  "numel",       "batch",
    "onehot",  "ious",      "positions", "freqs",   "scale",  "temperature", "tau",
    "alpha",   "beta",      "gamma",     "margin",  "heads",  "momentum",    "decay"};

bool IsNoActivation(std::string_view name) {
  const std::string lower = LowerCase(name);
  for (size_t at = 0; at <= lower.size();) {
    const size_t end = std::min(lower.find('_', at), lower.size());
    const std::string_view word = std::string_view(lower).substr(at, end - at);
    if (std::find(std::begin(kNoActivations), std::end(kNoActivations), word) !=
        std::end(kNoActivations))
      return true;
    at = end + 1;
  }
  return false;
}

// True if the word stands in the text by itself.
bool HoldsWord(std::string_view text, std::string_view word) {
  const auto inside = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !inside(text[at - 1])) && (end == text.size() || !inside(text[end])))
      return true;
  }
  return false;
}

bool NamesFp32(std::string_view text) {
  return HoldsAny(text,
                  {"float32", "float64", "torch.float", "torch.double", "FloatTensor", "fp32"}) &&
         text.find("torch.float16") == std::string_view::npos;
}

// True where the function, or one that encloses it, is no setup of a model.
bool RunsWithModel(const FileFacts& facts, NodeId node) {
  const NodeId function = facts.syntax.FunctionOf(node);
  if (function == 0) return false;
  const std::string name =
      LowerCase(facts.syntax.Text(facts.syntax.Child(function, PythonFields().name)));
  if (name.starts_with("__init") || name.find("init_") != std::string::npos ||
      name.find("reset_") != std::string::npos || name.find("optimizer") != std::string::npos)
    return false;
  const NodeId klass = facts.syntax.Enclosing(function, Kind::kClass);
  if (klass != kNoNode) return IsPartOfModel(facts, klass);
  if (NamesPart(name)) return true;
  // Functions beside the layers: not those of a script, nor what works on data or weights.
  constexpr std::string_view kScripts[] = {
      "main",  "train",   "load",   "save", "collate", "build",   "parse", "plot",   "data",
      "setup", "convert", "update", "grad", "prepare", "process", "fetch", "augment"};
  constexpr std::string_view kPlaces[] = {"data",       "script",  "preproc", "tools/",
                                          "example",    "bench",   "metric",  "optim",
                                          "transforms", "convert", "schedul"};
  return !HoldsAny(name, kScripts) && !HoldsAny(facts.path, kPlaces);
}

// Without gradients, but a step of training: the matching of predictions to targets.
bool Assigns(const FileFacts& facts, NodeId node) {
  const NodeId klass = facts.syntax.Enclosing(node, Kind::kClass);
  if (klass == kNoNode) return false;
  const std::string name =
      LowerCase(facts.syntax.Text(facts.syntax.Child(klass, PythonFields().name)));
  constexpr std::string_view kWords[] = {"match", "assign", "loss", "criterion", "target"};
  return HoldsAny(name, kWords);
}

}  // namespace

HalfGuess HalfGuess::IfCast(const FileFacts& facts, NodeId node) {
  HalfGuess guess(facts);
  const ProjectFacts& project = facts.project;
  const Autocast* here = facts.regions.At(node);
  guess.weights_ =
      here == nullptr && (project.sixteen_bit || project.deepspeed || project.apex) &&
      !IsCalledWithAutocastOff(facts.bindings, facts.regions, facts.syntax.FunctionOf(node));
  guess.fp16_ = !(project.bf16_autocast && !project.grad_scaler && !project.fp16_on_cuda);
  return guess;
}

HalfGuess HalfGuess::Anywhere(const FileFacts& facts, NodeId node) {
  return MayTrain(facts, node) ? EvenUntrained(facts, node) : HalfGuess(facts);
}

HalfGuess HalfGuess::EvenUntrained(const FileFacts& facts, NodeId node) {
  HalfGuess guess(facts);
  const ProjectFacts& project = facts.project;
  if (!project.HasHalfChoice()) return guess;
  const Autocast* here = facts.regions.At(node);
  if (here != nullptr && here->enabled == Tri::kNo) return guess;
  guess.autocast_ = true;
  guess.weights_ = here == nullptr;  // inside of a region autocast decides
  guess.fp16_ = !(project.bf16_autocast && !project.grad_scaler && !project.fp16_on_cuda) &&
                !(here != nullptr && here->dtype == HalfType::kBf16);
  return guess;
}

HalfGuess::HalfGuess(const FileFacts& facts, NodeId node) : facts_(facts) {
  const ProjectFacts& project = facts.project;
  if (!project.sixteen_bit && !project.deepspeed && !project.apex) return;
  if (!(MayTrain(facts, node) || Assigns(facts, node)) || !RunsWithModel(facts, node)) return;
  const bool bf16_only = project.bf16_autocast && !project.grad_scaler && !project.fp16_on_cuda;
  const bool region = project.fp16_on_cuda || project.other_autocast || project.grad_scaler;
  const bool framework = project.deepspeed || project.accelerate || project.lightning ||
                         project.hf_trainer || project.apex;
  autocast_ = region || project.accelerate || project.lightning || project.hf_trainer;
  weights_ = project.apex || project.deepspeed ||
             (project.casts_models && (!region || project.casts_trained_model)) ||
             !(region || framework);  // a library that somebody else casts
  fp16_ = !bf16_only;
  if (const Autocast* here = facts.regions.At(node)) {
    if (here->enabled == Tri::kNo) {
      autocast_ = weights_ = false;
    } else {
      weights_ = false;  // autocast decides
      autocast_ = here->device != Device::kCpu && here->device != Device::kOther;
      if (here->dtype == HalfType::kBf16) fp16_ = false;
    }
  } else if (IsCalledWithAutocastOff(facts.bindings, facts.regions,
                                     facts.syntax.FunctionOf(node))) {
    autocast_ = weights_ = false;
  }
}

bool HalfGuess::MayBeHalf(NodeId expression) const {
  if (!any() || expression == kNoNode) return false;
  const Value value = facts_.dtypes->Of(expression);
  if (value.type == Type::kFp32 || value.type == Type::kIndex || value.type == Type::kNumber)
    return false;
  if (value.is_16bit()) return true;
  steps_ = kMostSteps;
  return KinOf(expression, 10) == Kin::kMaybe;
}

bool HalfGuess::IsKnown(NodeId expression) const {
  steps_ = kMostSteps;
  return KinOf(expression, 10) == Kin::kFp32;
}

HalfGuess::Kin HalfGuess::KinOf(NodeId expression, int depth) const {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts_.syntax;
  const NodeId id = syntax.Unwrap(expression);
  if (id == kNoNode) return Kin::kNumber;
  if (depth <= 0 || --steps_ < 0) return Kin::kMaybe;
  // FP32 wins over a 16-bit tensor, which wins over the rest.
  const auto join = [](Kin a, Kin b) {
    if (a == Kin::kFp32 || b == Kin::kFp32) return Kin::kFp32;
    if (a == Kin::kMaybe || b == Kin::kMaybe) return Kin::kMaybe;
    return a == Kin::kIndex || b == Kin::kIndex ? Kin::kIndex : Kin::kNumber;
  };
  switch (syntax.kind(id)) {
    case Kind::kIdentifier:
    case Kind::kAttribute:
      return KinOfName(id, depth);
    case Kind::kUnary:
      return KinOf(syntax.Child(id, f.argument), depth - 1);
    case Kind::kSubscript:
      return KinOf(syntax.Child(id, f.value), depth - 1);
    case Kind::kComparison:
    case Kind::kNot:
    case Kind::kBoolean:
      return Kin::kIndex;
    case Kind::kConditional: {
      const std::vector<NodeId> parts = syntax.Children(id);
      return parts.size() == 3 ? join(KinOf(parts[0], depth - 1), KinOf(parts[2], depth - 1))
                               : Kin::kNumber;
    }
    case Kind::kBinary: {
      const std::string_view op = OperatorOf(facts_, id);
      if (op == "@") return Kin::kMaybe;
      const Kin kin = join(KinOf(syntax.Child(id, f.left), depth - 1),
                           KinOf(syntax.Child(id, f.right), depth - 1));
      return op == "**" && kin == Kin::kMaybe && !weights_ ? Kin::kFp32 : kin;
    }
    case Kind::kCall:
      return KinOfCall(id, depth);
    case Kind::kList:
    case Kind::kTuple: {
      Kin kin = Kin::kNumber;
      for (const NodeId part : syntax.Children(id)) kin = join(kin, KinOf(part, depth - 1));
      return kin;
    }
    default:
      // [f(x) for x in y] is what f makes.
      if (syntax.Text(id).starts_with("[")) return KinOf(syntax[id].first_child, depth - 1);
      return Kin::kNumber;
  }
}

HalfGuess::Kin HalfGuess::KinOfName(NodeId id, int depth) const {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts_.syntax;
  if (facts_.bindings.Number(id) || syntax.Text(id) == "self") return Kin::kNumber;
  const bool attribute = syntax.Is(id, Kind::kAttribute);
  const std::string_view name =
      attribute ? syntax.Text(syntax.Child(id, f.attribute)) : syntax.Text(id);
  if (attribute && (name == "T" || name == "mT" || name == "data" || name == "values"))
    return KinOf(syntax.Child(id, f.object), depth - 1);
  if (attribute && (name == "shape" || name == "dtype" || name == "device")) return Kin::kNumber;
  const std::vector<Assignment> assignments = facts_.bindings.AssignmentsOf(id);
  if (IsNoActivation(name)) {
    // Unless it is made like something else: zeros(n, n).to(q).
    for (const Assignment& assignment : assignments) {
      const Call* made = facts_.names.CallAt(syntax.Unwrap(assignment.value));
      if (made == nullptr) continue;
      if ((made->name == "to" || made->name == "type_as" || made->name.ends_with("_like")) &&
          KinOfCall(made->node, depth - 1) == Kin::kMaybe)
        return Kin::kMaybe;
    }
    return Kin::kIndex;
  }
  const Function* function = facts_.bindings.FunctionAt(syntax.FunctionOf(id));
  const bool parameter = !attribute && function != nullptr &&
                         std::find(function->parameters.begin(), function->parameters.end(),
                                   name) != function->parameters.end();
  if (parameter && IsGivenFp32(*function, name, depth)) return Kin::kFp32;
  bool maybe = parameter;
  if (assignments.empty()) maybe = !attribute || !syntax.Text(id).starts_with("self.");
  bool index = false;
  for (const Assignment& assignment : assignments) {
    if (assignment.value == kNoNode) {
      // What one of several is, nobody says.
      const NodeId from = UnpackedFrom(syntax, assignment.target);
      // x, y = a[0], a[1]: what stands in the same place.
      if (syntax.Is(from, Kind::kExpressionList) || syntax.Is(from, Kind::kTuple)) {
        const std::vector<NodeId> given = syntax.Children(from);
        const std::vector<NodeId> taken = syntax.Children(syntax[assignment.target].parent);
        const auto at = std::find(taken.begin(), taken.end(), assignment.target);
        if (given.size() == taken.size() && at != taken.end()) {
          const Kin kin = KinOf(given[static_cast<size_t>(at - taken.begin())], depth - 1);
          if (kin == Kin::kFp32) return kin;
          maybe = maybe || kin == Kin::kMaybe;
          index = index || kin == Kin::kIndex;
          continue;
        }
      }
      if (syntax.Text(from).find(".float()") != std::string_view::npos) return Kin::kFp32;
      // a, b = (t.unsqueeze(0) for t in (a, b)) goes on with what they are.
      if (!syntax.Is(from, Kind::kCall) && HoldsWord(syntax.Text(from), name)) continue;
      // A function of the project that computes with FP32 gives FP32.
      if (const Definition callee = facts_.Callee(from);
          callee.function != nullptr && callee.function->klass == kNoNode) {
        const std::vector<NodeId> given = facts_.names.Arguments(from);
        if (std::any_of(given.begin(), given.end(),
                        [&](NodeId argument) { return KinOf(argument, depth - 2) == Kin::kFp32; }))
          return Kin::kFp32;
      }
      const auto call = TorchCallAt(facts_, from);
      const bool keeps =
          call && (call->name.ends_with("_mean") || call->name == "topk" || call->name == "max" ||
                   call->name == "min" || call->name == "sort");
      if (keeps && KinOf(call->tensor, depth - 1) == Kin::kFp32) return Kin::kFp32;
      maybe = true;
      continue;
    }
    const Call* made = facts_.names.CallAt(syntax.Unwrap(assignment.value));
    if (attribute && made != nullptr && made->name == "Parameter") {
      maybe = maybe || weights_;
      continue;
    }
    const Kin kin = KinOf(assignment.value, depth - 1);
    if (kin == Kin::kFp32 && (attribute || syntax[assignment.value].after <= id)) return kin;
    maybe = maybe || kin == Kin::kMaybe;
    index = index || kin == Kin::kIndex;
  }
  return maybe ? Kin::kMaybe : index ? Kin::kIndex : Kin::kNumber;
}

bool HalfGuess::IsGivenFp32(const Function& function, std::string_view parameter, int depth) const {
  const auto it = std::find(function.parameters.begin(), function.parameters.end(), parameter);
  const int position = static_cast<int>(it - function.parameters.begin());
  for (const Call* call : facts_.names.CallsNamed(function.name)) {
    if (!call->callee.empty()) continue;
    const NodeId given = facts_.names.Argument(call->node, position, parameter);
    if (given != kNoNode && KinOf(given, depth - 2) == Kin::kFp32) return true;
  }
  return false;
}

HalfGuess::Kin HalfGuess::KinOfCall(NodeId id, int depth) const {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts_.syntax;
  const Call* call = facts_.names.CallAt(id);
  const auto torch = call == nullptr ? std::nullopt : ReadTorchCall(facts_, *call);
  const std::string_view text = syntax.Text(syntax.Child(id, f.arguments));
  if (!torch) {
    if (call != nullptr &&
        (call->callee.starts_with("math.") || call->callee.starts_with("numpy.")))
      return Kin::kNumber;
    const std::string_view name = call == nullptr ? std::string_view() : call->name;
    if (text.find(".float()") != std::string_view::npos) return Kin::kFp32;
    if (name == "float" || name == "int" || name == "len" || name == "range" || name == "round")
      return Kin::kNumber;
    if (const Definition callee = facts_.Callee(id); callee.function != nullptr) {
      const std::string_view body =
          (*facts_.files)[callee.module]->syntax.Text(callee.function->node);
      if (body.size() < 4000 &&
          (body.find(".float()") != std::string_view::npos || NamesFp32(body)))
        return Kin::kFp32;
    }
    return Kin::kMaybe;
  }
  const std::string_view name = torch->name;
  // torch.tensor(d_k), torch.tensor(q.size(-1)).float().sqrt(): of no dimension, so its type does
  // not count beside a tensor's.
  NodeId base = id;
  while (facts_.names.Receiver(base) != kNoNode &&
         syntax.Is(facts_.names.Receiver(base), Kind::kCall))
    base = facts_.names.Receiver(base);
  if (const std::string& made = facts_.names.Callee(base);
      made == "torch.tensor" || made == "torch.as_tensor" || made == "torch.scalar_tensor") {
    const NodeId data = syntax.Unwrap(facts_.names.Argument(base, 0, "data"));
    if (facts_.bindings.Number(data) ||
        ((syntax.Is(data, Kind::kSubscript) || syntax.Is(data, Kind::kAttribute) ||
          syntax.Is(data, Kind::kIdentifier) || syntax.Is(data, Kind::kCall)) &&
         KinOf(data, depth - 1) <= Kin::kIndex))
      return Kin::kNumber;
  }
  if (!torch->is_method && (name == "sqrt" || name == "rsqrt" || name == "log") &&
      KinOf(torch->tensor, depth - 1) == Kin::kNumber)
    return Kin::kNumber;
  if (NamesFp32(text)) return Kin::kFp32;
  if (torch->is_method && CallsLayer(facts_, *torch))
    return text.find(".float()") == std::string_view::npos ? Kin::kMaybe : Kin::kFp32;
  if (name == "float" || name == "double") return Kin::kFp32;
  if (name == "half" || name == "bfloat16") return Kin::kMaybe;
  if (name == "item" || name == "size" || name == "numel" || name == "dim" || name == "tolist")
    return Kin::kNumber;
  if (name == "long" || name == "int" || name == "bool" || facts_.ops.GivesIndex(name))
    return Kin::kIndex;
  constexpr std::string_view kCreates[] = {"zeros",  "ones",   "empty",   "rand",
                                           "randn",  "full",   "eye",     "linspace",
                                           "tensor", "arange", "logspace"};
  if (!torch->is_method &&
      std::find(std::begin(kCreates), std::end(kCreates), name) != std::end(kCreates))
    return text.find("dtype") == std::string_view::npos ? Kin::kFp32 : Kin::kMaybe;
  if (torch->is_method && (name == "to" || name == "type_as" || name == "type")) {
    for (const NodeId argument : facts_.names.Arguments(id)) {
      const std::string_view like = syntax.Text(argument);
      if (like.ends_with("type")) return Kin::kMaybe;
      if (name != "type" && syntax.Is(argument, Kind::kIdentifier) &&
          like.find("dev") == std::string_view::npos)
        return KinOf(argument, depth - 1);
    }
    return KinOf(torch->tensor, depth - 1);
  }
  const CastPolicy policy = facts_.ops.PolicyOf(Device::kCuda, name);
  if (policy == CastPolicy::kLower) return Kin::kMaybe;
  if (policy == CastPolicy::kFp32 && !weights_) return Kin::kFp32;
  const bool all = name == "cat" || name == "stack" || name == "mul" || name == "div" ||
                   name == "add" || name == "sub" || name == "maximum" || name == "minimum";
  Kin kin = KinOf(torch->tensor, depth - 1);
  if (all && kin != Kin::kFp32) {
    if (const NodeId other = ArgumentOf(facts_, *torch, 0, "other"); other != kNoNode) {
      const Kin second = KinOf(other, depth - 1);
      if (second == Kin::kFp32 || kin == Kin::kNumber) kin = second;
    }
  }
  // A method of something that is no tensor by its name may give anything.
  if (kin == Kin::kNumber && torch->is_method && !facts_.ops.KeepsDtype(name)) return Kin::kMaybe;
  return kin;
}

void MarkGuess(RawFinding& finding) {
  finding.guess = true;
  finding.confidence = "low";
}

}  // namespace mpnanny::static_check
