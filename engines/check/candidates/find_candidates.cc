#include "engines/check/candidates/find_candidates.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engines/check/candidates/hazards.h"
#include "engines/check/candidates/training_hazards.h"
#include "engines/check/facts/switched_off.h"

namespace mpnanny::check {
namespace {

// How much a reader should fear, by what happens and by how much speaks for 16 bits. Orders
// candidates; no claim is made with these numbers.
constexpr double kHarm[] = {0.9, 1.0, 0.85, 0.5};  // by Harm
constexpr double kKnownHalf = 1.0, kUnknownType = 0.6, kWeightType = 0.4, kNotAsked = 0.7;
constexpr double kUnderRegion = 1.0, kRegionOff = 0.75, kNoRegion = 0.8, kOnlyIfCast = 0.5;
constexpr double kNoGrad = 0.1, kModuleCode = 0.2, kPlainFunction = 0.7, kConstructor = 0.15;

constexpr size_t kMostCode = 240;
// What a row is called where autocast is off and nothing shows a cast.
constexpr std::string_view kUncast = "autocast-disabled-no-float";

const char* TypeText(HalfType type) {
  return type == HalfType::kFp16 ? "float16" : type == HalfType::kBf16 ? "bfloat16" : "its dtype";
}

bool HasAutocast(const ProjectFacts& project) {
  return project.fp16_on_cuda || project.bf16_autocast || project.other_autocast ||
         project.grad_scaler || project.accelerate || project.lightning || project.hf_trainer;
}

// True where the weights of a whole model may be 16-bit, so that no operator is kept in FP32.
bool IsCast(const ProjectFacts& project) {
  return project.casts_models || project.apex || project.deepspeed || !HasAutocast(project);
}

// True if the project itself lets something run in 16 bits; that others may import it is not
// enough.
bool LowersPrecision(const ProjectFacts& project) {
  return project.lowers_precision || project.sixteen_bit || project.apex || project.deepspeed ||
         HasAutocast(project);
}

class Matcher {
 public:
  Matcher(const Unit& unit, const std::function<bool(std::string_view rule)>& wanted,
          Suppressions& suppressions)
      : unit_(unit),
        facts_(*unit.facts),
        lowers_(LowersPrecision(facts_.project)),
        autocast_(HasAutocast(facts_.project)),
        cast_(IsCast(facts_.project)),
        types_(facts_, cast_),
        wanted_(wanted),
        suppressions_(suppressions) {
    const ProjectFacts& project = facts_.project;
    fp16_ = !(project.bf16_autocast && !project.grad_scaler && !project.fp16_on_cuda);
  }

  std::vector<Candidate> All() {
    for (const Hazard& hazard : Hazards()) {
      if (!Counts(hazard.where) || !(wanted_(hazard.rule) || wanted_(kUncast))) continue;
      for (std::string_view rest = hazard.names; !rest.empty();) {
        const size_t end = std::min(rest.find(' '), rest.size());
        Row(hazard, rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    for (const TrainingHazard& one : FindTrainingHazards(facts_)) {
      if (wanted_(one.rule) && (lowers_ || one.in_fp32) &&
          !suppressions_.Silences(one.node, one.rule))
        Training(one);
    }
    std::vector<Candidate> all;
    for (auto& [line, candidate] : by_line_) all.push_back(std::move(candidate));
    return all;
  }

 private:
  bool Counts(Where where) const {
    return where == Where::kAny || (lowers_ && (where == Where::k16Bit || fp16_));
  }

  void Row(const Hazard& hazard, std::string_view name) {
    const Fields& f = PythonFields();
    const Syntax& syntax = facts_.syntax;
    if (name == "[]=") {
      for (const NodeId id : facts_.assignments) {
        const NodeId target = syntax.Unwrap(syntax.Child(id, f.left));
        if (syntax.Is(target, Kind::kSubscript))
          Examine(hazard, {id, target, syntax.Child(id, f.right), name, false});
      }
    } else if (name == "layer()") {
      for (const Call& call : facts_.names.calls()) {
        if (IsLayer(call))
          Examine(hazard,
                  {call.node, facts_.names.Argument(call.node, 0, ""), kNoNode, name, true});
      }
    } else if (name.size() == 2 && name[1] == '=') {
      for (const NodeId id : facts_.augmented) {
        if (syntax.Text(syntax.Child(id, f.operator_)) == name)
          Examine(hazard, {id, syntax.Child(id, f.left), syntax.Child(id, f.right), name, false});
      }
    } else if (name.find_first_not_of("+-*/@") == std::string_view::npos) {
      for (const NodeId id : facts_.binaries) {
        if (OperatorOf(facts_, id) == name)
          Examine(hazard, {id, syntax.Child(id, f.left), syntax.Child(id, f.right), name, false});
      }
    } else {
      for (const Call* call : facts_.names.CallsNamed(name)) {
        if (const auto torch = ReadTorchCall(facts_, *call)) Examine(hazard, OfCall(*torch));
      }
    }
  }

  // self.fc(x) where __init__ makes self.fc of a class of torch.nn.
  bool IsLayer(const Call& call) const {
    if (call.method.empty() || !call.callee.empty() || facts_.syntax.Text(call.receiver) != "self")
      return false;
    const NodeId of = facts_.syntax.Child(call.node, PythonFields().function);
    for (const Assignment& one : facts_.bindings.AssignmentsOf(of)) {
      if (one.value == kNoNode) continue;
      if (facts_.names.Callee(facts_.syntax.Unwrap(one.value)).starts_with("torch.nn."))
        return true;
    }
    return false;
  }

  // self.log(…), logger.log("p", x), self.encoder.norm(x): of a module or another object. A
  // tensor's own method takes numbers, or a tensor beside what is a tensor by itself.
  bool IsOfAnObject(const Occurrence& at) const {
    const Call* const call = facts_.names.CallAt(at.node);
    if (call == nullptr || call->receiver == kNoNode || !call->callee.empty()) return false;
    if (facts_.syntax.Text(call->receiver) == "self") return true;
    const NodeId first = facts_.syntax.Unwrap(facts_.names.Argument(at.node, 0, ""));
    if (facts_.syntax.Is(first, Kind::kString)) return at.name != "norm";
    // wandb.log({…}), tfm.inverse(x): of a tensor these take nothing.
    for (const std::string_view alone :
         {"log", "log2", "log10", "exp", "sqrt", "rsqrt", "inverse", "acos", "asin", "atanh"}) {
      if (first != kNoNode && at.name == alone) return true;
    }
    const bool held = facts_.names.Key(call->receiver).starts_with("self.");
    return held &&
           (facts_.syntax.Is(first, Kind::kIdentifier) ||
            facts_.syntax.Is(first, Kind::kAttribute) || facts_.syntax.Is(first, Kind::kCall));
  }

  // True for an expression that NumPy, math or another framework computes with.
  bool IsForOthers(NodeId node) const {
    for (NodeId up = facts_.syntax[node].parent; up != kNoNode; up = facts_.syntax[up].parent) {
      if (facts_.syntax.Is(up, Kind::kExpressionStatement) || facts_.syntax.Is(up, Kind::kBlock))
        return false;
      const Call* const call =
          facts_.syntax.Is(up, Kind::kCall) ? facts_.names.CallAt(up) : nullptr;
      if (call == nullptr) continue;
      for (const std::string_view module :
           {"numpy.", "math.", "tensorflow.", "jax.", "cv2.", "scipy.", "pandas."}) {
        if (call->callee.starts_with(module)) return true;
      }
    }
    return false;
  }

  // The second operand of a call, whatever its keyword.
  Occurrence OfCall(const TorchCall& call) const {
    Occurrence at{call.node, call.tensor, kNoNode, call.name, true};
    if (call.name == "where") {
      at.left = facts_.names.Argument(call.node, 1, "input");
      at.right = facts_.names.Argument(call.node, 2, "other");
      return at;
    }
    // einsum("…", a, b), linear(x, w): the tensors behind the equation.
    if (call.name == "einsum") {
      at.left = facts_.names.Argument(call.node, 1, "");
      at.right = facts_.names.Argument(call.node, 2, "");
      return at;
    }
    constexpr std::pair<int, std::string_view> kSecond[] = {
        {2, "src"},    {2, "source"}, {1, "value"}, {1, "values"}, {1, "source"}, {0, "other"},
        {0, "weight"}, {0, "end"},    {0, "mat2"},  {0, "value"},  {0, "min"},    {0, "max"}};
    const bool scattered = call.name.starts_with("scatter") || call.name.starts_with("index_");
    for (const auto& [position, keyword] : kSecond) {
      const bool third = position == 2;
      if (third && !scattered) continue;
      at.right = ArgumentOf(facts_, call, position, keyword);
      if (at.right != kNoNode) break;
    }
    return at;
  }

  // What the project lets happen at the node, 0: nothing.
  double Setting(const Hazard& hazard, const Occurrence& at, ShownType type) const {
    Policy policy;
    const Autocast* const region = facts_.regions.At(at.node);
    const bool off = region != nullptr && region->enabled == Tri::kNo;
    const bool on = !off && (region != nullptr ||
                             (facts_.dtypes->PolicyAt(at.node, &policy) && !policy.assumed));
    const CastPolicy listed = facts_.ops.PolicyOf(
        Device::kCuda,
        hazard.autocast.empty() || hazard.autocast == "input" ? at.name : hazard.autocast);
    const bool safe = hazard.autocast == "converts" ||
                      (hazard.autocast != "any" &&
                       (listed == CastPolicy::kFp32 || listed == CastPolicy::kPromote));
    if (hazard.where == Where::kFp16 && region != nullptr && region->dtype == HalfType::kBf16)
      return 0;
    if (hazard.where == Where::kAny) return kNoRegion;
    if (off) return hazard.autocast == "on" ? 0 : kRegionOff;
    const bool lost_before = hazard.autocast == "input" && type.type == Shown::kHalf;
    if (on) return safe && !lost_before ? 0 : kUnderRegion;
    if (IsCalledWithAutocastOff(facts_.bindings, facts_.regions, facts_.syntax.FunctionOf(at.node)))
      return kRegionOff;
    // What autocast has made 16-bit it runs in FP32 here; what a cast has, it may not see.
    if (!safe || (type.type == Shown::kHalf && IsByCast(facts_, type.because))) return kNoRegion;
    return cast_ ? kOnlyIfCast : 0;
  }

  // By the code that it stands in.
  double Place(NodeId node) const {
    const NodeId function = facts_.syntax.FunctionOf(node);
    if (function == 0) return kModuleCode;
    const double without_gradients = facts_.regions.NoGradAt(node) ? kNoGrad : 1.0;
    const Function* const of = facts_.bindings.FunctionAt(function);
    if (of == nullptr || of->klass == kNoNode) return kPlainFunction * without_gradients;
    if (of->name == "__init__") return kConstructor;
    const bool module = facts_.bindings.IsModuleClass(of->klass) ||
                        facts_.bindings.FunctionNamed(of->klass, "forward") != nullptr;
    return (module ? 1.0 : kPlainFunction) * without_gradients;
  }

  ShownType Judge(const Hazard& hazard, const Occurrence& at) {
    switch (hazard.judged) {
      case Judged::kLeft:
        return types_.Of(at.left);
      case Judged::kRight:
        return types_.Of(at.right);
      case Judged::kNothing:
        return {Shown::kUnknown, kNoNode};
      case Judged::kMixed:
      case Judged::kEither: {
        const ShownType left = types_.Of(at.left);
        const ShownType right = types_.Of(at.right);
        const auto open = [](Shown type) {
          return type == Shown::kUnknown || type == Shown::kHalf;
        };
        return open(left.type) ? left : right;
      }
    }
    return {Shown::kUnknown, kNoNode};
  }

  void Examine(const Hazard& hazard, const Occurrence& at) {
    // A method of what is no tensor: text.split, layer.norm(x).
    if (at.is_call && at.left == kNoNode && hazard.judged == Judged::kLeft) return;
    if (at.is_call && IsOfAnObject(at)) return;
    const double place = Place(at.node);
    const ShownType type = Judge(hazard, at);
    // softmax(x, dtype=torch.float32): computed and stored in the type that is given.
    if (at.is_call && hazard.judged == Judged::kLeft && IsGivenFp32(facts_, at.node)) return;
    double of_type = kNotAsked;
    if (hazard.judged != Judged::kNothing) {
      if (type.type == Shown::kHalf) {
        of_type = kKnownHalf;
      } else if (type.type == Shown::kUnknown) {
        of_type = kUnknownType;
      } else if (type.type == Shown::kWeight) {
        of_type = kWeightType;
      } else {
        return;  // FP32, an integer, a number
      }
    }
    const double setting = Setting(hazard, at, type);
    const double score = kHarm[static_cast<size_t>(hazard.harm)] * of_type * setting * place;
    if (score <= 0) return;
    const int line = LineOf(at.node);
    if (const auto it = by_line_.find(line); it != by_line_.end() && it->second.score >= score)
      return;
    // Where autocast is off, what is missing is the cast.
    const Autocast* const region = facts_.regions.At(at.node);
    const bool uncast = region != nullptr && region->enabled == Tri::kNo &&
                        type.type == Shown::kUnknown && hazard.judged != Judged::kNothing;
    const std::string_view rule = uncast ? kUncast : hazard.rule;
    if (!wanted_(rule)) return;
    if (hazard.when != nullptr && !hazard.when(facts_, types_, at)) return;
    if (IsForOthers(at.node)) return;
    if (suppressions_.Silences(at.node, rule)) return;
    by_line_[line] = Tell(hazard, rule, at, type, score);
  }

  Candidate Tell(const Hazard& hazard, std::string_view rule, const Occurrence& at, ShownType type,
                 double score) const {
    Candidate candidate;
    const Autocast* const region = facts_.regions.At(at.node);
    const bool off = region != nullptr && region->enabled == Tri::kNo;
    candidate.rule = rule;
    candidate.hazard =
        (rule == kUncast ? "autocast is off here and nothing shows a cast to FP32: " : "") +
        std::string(hazard.what);
    candidate.question = hazard.question;
    candidate.score = score;
    const int shift = Locate(at.node, &candidate);
    const NodeId operand = hazard.judged == Judged::kRight ? at.right : at.left;
    const std::string name(facts_.syntax.Text(operand).substr(0, 60));
    if (type.type == Shown::kHalf) {
      candidate.known.push_back({name + " is 16-bit: made here", LineOf(type.because) - shift});
    } else if (type.type == Shown::kWeight) {
      candidate.known.push_back(
          {name + " is a weight, FP32 until the model is cast", LineOf(type.because) - shift});
    } else if (hazard.judged != Judged::kNothing && !name.empty()) {
      candidate.unknown.push_back("the dtype of " + name + TrailEnd(type.because, operand, shift));
    }
    if (region != nullptr) {
      candidate.known.push_back({off ? std::string("autocast is off here")
                                     : std::string("autocast to ") + TypeText(region->dtype) +
                                           (region->enabled == Tri::kYes ? "" : ", if it is on"),
                                 LineOf(region->node) - shift});
    } else if (autocast_) {
      candidate.unknown.push_back("whether autocast is on where this is called");
    } else {
      candidate.unknown.push_back("whether the model is cast to 16 bits");
    }
    return candidate;
  }

  void Training(const TrainingHazard& one) {
    const NodeId function = facts_.syntax.FunctionOf(one.node);
    const double score =
        one.score * (function != 0 && facts_.regions.NoGradAt(one.node) ? kNoGrad : 1.0);
    const int line = LineOf(one.node);
    if (const auto it = by_line_.find(line); it != by_line_.end() && it->second.score >= score)
      return;
    Candidate candidate;
    Locate(one.node, &candidate);
    candidate.rule = one.rule;
    candidate.hazard = one.hazard;
    candidate.question = one.question;
    candidate.score = score;
    candidate.known.push_back({std::string(one.known), candidate.line});
    candidate.unknown.emplace_back(one.unknown);
    by_line_[line] = std::move(candidate);
  }

  // Path, lines and code; gives by how much its lines are shifted in a notebook.
  int Locate(NodeId node, Candidate* candidate) const {
    candidate->line = LineOf(node);
    candidate->path = PathAt(unit_, candidate->line);
    const int shift = LineOf(node) - candidate->line;
    const Node& statement = facts_.syntax[facts_.syntax.StatementOf(node)];
    const bool whole = statement.end - statement.begin < kMostCode;
    const std::string_view code =
        whole ? facts_.syntax.Text(facts_.syntax.StatementOf(node)) : facts_.syntax.Text(node);
    candidate->code = std::string(code.substr(0, kMostCode));
    // Of a function or a class its head.
    const bool block =
        facts_.syntax.Is(node, Kind::kFunction) || facts_.syntax.Is(node, Kind::kClass);
    candidate->end_line =
        block ? candidate->line : facts_.lines.LineAt(facts_.syntax[node].end) - shift;
    return shift;
  }

  // Where it comes from, as far as the text leads.
  std::string TrailEnd(NodeId because, NodeId operand, int shift) const {
    if (because == kNoNode || because == operand) {
      const Function* const of = facts_.bindings.FunctionAt(facts_.syntax.FunctionOf(operand));
      const std::string_view text = facts_.syntax.Text(operand);
      if (of != nullptr &&
          std::find(of->parameters.begin(), of->parameters.end(), text) != of->parameters.end())
        return ", a parameter of " + of->name;
      return "";
    }
    const std::string from(facts_.syntax.Text(because).substr(0, 60));
    return ", which comes from " + from + " in line " + std::to_string(LineOf(because) - shift);
  }

  int LineOf(NodeId node) const { return facts_.lines.LineAt(facts_.syntax[node].begin); }

  const Unit& unit_;
  const FileFacts& facts_;
  const bool lowers_, autocast_, cast_;
  ValueTypes types_;
  const std::function<bool(std::string_view rule)>& wanted_;
  Suppressions& suppressions_;
  bool fp16_ = false;
  std::map<int, Candidate> by_line_;
};

}  // namespace

std::vector<Candidate> FindCandidates(const Unit& unit,
                                      const std::function<bool(std::string_view rule)>& wanted,
                                      Suppressions& suppressions) {
  if (!unit.facts || !unit.facts->names.ImportsModule("torch")) return {};
  return Matcher(unit, wanted, suppressions).All();
}

}  // namespace mpnanny::check
