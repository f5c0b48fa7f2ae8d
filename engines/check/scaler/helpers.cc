// Calls of functions: what is seen is run, what is not makes the path unknown.
#include <algorithm>
#include <iterator>
#include <optional>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/machine.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// What a module or a loss that is kept in self is usually called, or a method that computes one.
bool IsModuleName(std::string_view name) {
  constexpr std::string_view kModules[] = {
      "model",    "net",  "network", "module", "encoder", "decoder", "generator", "discriminator",
      "backbone", "head", "forward", "netG",   "netD",    "G",       "D"};
  return IsOneOf(kModules, name) ||
         (HoldsAny(name, {"loss", "criterion"}) &&
          !HoldsAny(name, {"back", "step", "scale", "update", "optim", "train"}));
}

// Methods of torch.nn.Module and LightningModule that handle no gradients.
bool IsOfModule(std::string_view name) {
  constexpr std::string_view kParameters[] = {"parameters", "named_parameters",
                                              "trainable_parameters", "get_parameters"};
  constexpr std::string_view kOthers[] = {
      "modules", "children", "train", "eval", "optimizers", "lr_schedulers",
      "log",     "log_dict", "print", "to",   "cuda",       "state_dict"};
  return IsOneOf(kParameters, name) || IsOneOf(kOthers, name);
}

// Methods of torch's optimizers that leave gradients as they are.
bool IsOfTorchOptimizer(std::string_view name) {
  return name == "state_dict" || name == "load_state_dict" || name == "add_param_group" ||
         name.starts_with("register_");
}

constexpr std::string_view kNorms[] = {
    "get_grad_norm",     "get_grad_norm_", "compute_grad_norm",     "calc_grad_norm",
    "get_gradient_norm", "grad_norm",      "compute_gradient_norm", "get_grad_norms"};

}  // namespace

NodeId ScalerMachine::ArgumentOf(NodeId call, const Target& target, size_t position) const {
  const std::string_view name = target.function->parameters[position];
  if (target.partial == kNoNode) return names().Argument(call, static_cast<int>(position), name);
  // partial(f, a, b=c): a comes first, then the call's own arguments.
  int fixed = -1;
  for (const NodeId argument :
       syntax().Children(syntax().Child(target.partial, PythonFields().arguments)))
    fixed += syntax().Is(argument, Kind::kKeywordArgument) ? 0 : 1;
  const int index = static_cast<int>(position);
  const NodeId given = index < fixed ? kNoNode : names().Argument(call, index - fixed, name);
  return given != kNoNode ? given : names().Argument(target.partial, index + 1, name);
}

Paths ScalerMachine::OnHelper(NodeId id, const Target& target, Paths in) {
  if (target.function != nullptr) {
    if (!target.code->Reaches(target.function->node)) return in;
    const bool running = std::any_of(frames_.begin(), frames_.end(),
                                     [&](const Frame& f) { return f.function == target.function; });
    // Too deep to follow, or a training of its own, which is analysed by itself.
    if (running || frames_.size() >= kMaxFrames ||
        target.code->HasTrainingLoop(target.function->node))
      return Happen(Event::Kind::kUnseen, id, std::move(in));
  } else if (frames_.size() >= kMaxFrames) {
    return Happen(Event::Kind::kEscape, id, std::move(in));
  }
  Paths out;
  for (const Path& path : in) Add(out, InHelper(id, target, path));
  Limit(out);
  return out;
}

Paths ScalerMachine::InLambda(NodeId id, NodeId lambda, Paths in) {
  const Fields& f = PythonFields();
  // What it mentions is what is here; its parameters are the arguments.
  Frame next = frame();
  next.call = Shown(id);
  int index = 0;
  for (const NodeId parameter : syntax().Children(syntax().Child(lambda, f.parameters))) {
    const std::string key = KeyOf(names().Argument(id, index++, syntax().Text(parameter)));
    if (!key.empty()) next.arguments.insert_or_assign(std::string(syntax().Text(parameter)), key);
  }
  frames_.push_back(std::move(next));
  in = Expression(syntax().Child(lambda, f.body), std::move(in));
  frames_.pop_back();
  return in;
}

bool ScalerMachine::SharesNames(const Target& target) const {
  return target.code == &code() && frame().function != nullptr &&
         !HoldsAny(syntax().Text(target.function->node), {"nonlocal ", "global "});
}

bool ScalerMachine::IsOwnName(const Target& target, std::string_view name) const {
  const auto of = [&](const Function& function) {
    return (function.klass != kNoNode && (name == "self" || name == "cls")) ||
           IsOneOf(function.parameters, name) || code().Local(function.node, name) != nullptr;
  };
  if (of(*target.function)) return true;
  // What stands inside the caller has the caller's names.
  NodeId around = target.function->node;
  do {
    around = syntax().FunctionOf(around);
    if (around == frame().function->node) return false;
  } while (around != 0);
  return of(*frame().function);
}

Paths ScalerMachine::InHelper(NodeId id, const Target& target, const Path& from) {
  if (target.function == nullptr) return InLambda(id, target.lambda, {from});
  Frame next{target.code, target.function,
             Shown(id),   Translate(target.self),
             {},          frame().suffix + "@" + std::to_string(id)};
  const bool splat = Holds(syntax().Text(id), "*");
  std::vector<std::pair<std::string, NodeId>> given;
  const Conditions& known = from.conditions;
  Path start = from;
  // Names of neither mean the same in both: what a closure takes from around it, the module's.
  const bool shares = SharesNames(target);
  const auto own = [&](std::string_view name) { return IsOwnName(target, name); };
  start.conditions = shares ? known.InClosure(own) : Conditions();
  start.conditions.Adopt(known.Inside(target.self));
  bool says_if_mixed = false;  // scaler=None, amp=False: inside there is no mixed precision
  const auto learn = [&](const std::string& parameter, bool answer, bool literal) {
    start.conditions.Learn(parameter, answer);
    const Question question = AskOfName(parameter);
    if (!literal || question.key != kMixedPrecision) return;
    start.conditions.Learn(question.key, question.positive == answer);
    says_if_mixed = true;
  };
  const auto hold = [&](const std::string& parameter, std::optional<PathConstant> value) {
    if (value && !value->tensor && AskOfName(parameter).key != kMixedPrecision)
      start.conditions.values().Set(parameter, std::move(*value));
  };
  start.scaled_values.erase("()");
  for (size_t i = 0; i < target.function->parameters.size(); ++i) {
    const std::string& name = target.function->parameters[i];
    const NodeId argument = ArgumentOf(id, target, i);
    if (argument == kNoNode) {
      const NodeId value =
          splat ? kNoNode : target.code->bindings().ParameterDefault(target.function->node, name);
      const Kind kind = target.code->syntax().kind(value);
      if (kind == Kind::kTrue || kind == Kind::kFalse || kind == Kind::kNone)
        learn(name, kind == Kind::kTrue, true);
      hold(name, PathValues().Evaluate(target.code->bindings(), value));
      continue;
    }
    given.emplace_back(name, argument);
    hold(name, known.values().Evaluate(bindings(), argument));
    const Kind kind = syntax().kind(argument);
    if (const Tri answer = known.Evaluate(bindings(), argument); answer != Tri::kUnknown)
      learn(name, answer == Tri::kYes,
            kind == Kind::kTrue || kind == Kind::kFalse || kind == Kind::kNone);
    const std::string key = KeyOf(argument);
    if (!key.empty() && target.code->IsFixedParameter(*target.function, name)) {
      next.arguments.emplace(name, key);
      continue;
    }
    const std::string scaler = ScalerOf(argument, from);
    start.scaled_values.erase(name + next.suffix);
    if (!scaler.empty()) start.scaled_values[name + next.suffix] = scaler;
  }
  const std::string suffix = next.suffix;
  const auto [ran, first] = helpers_.try_emplace({suffix, start});
  if (first) {
    frames_.push_back(std::move(next));
    Flow flow = Block(target.function->body, {start});
    frames_.pop_back();
    Add(flow.out, std::move(flow.returns));
    ran->second = std::move(flow.out);
  }
  return Each(ran->second, [&](Path& path) {
    Conditions learnt = std::exchange(path.conditions, known);
    if (says_if_mixed) learnt.Drop(kMixedPrecision);  // that was about this call
    if (shares) path.conditions.Adopt(learnt.InClosure(own));
    path.conditions.Return(learnt, target.self);
    for (const auto& [name, argument] : given) {
      const Tri answer = learnt.Known(name);
      if (answer != Tri::kUnknown && known.Evaluate(bindings(), argument) == Tri::kUnknown)
        path.conditions.Assume(bindings(), argument, answer == Tri::kYes);
    }
    std::erase_if(path.scaled_values,
                  [&](const auto& one) { return one.first.find(suffix) != std::string::npos; });
    const std::string result = "()" + std::to_string(id);
    path.scaled_values.erase(result);
    if (auto node = path.scaled_values.extract("()"); !node.empty()) {
      node.key() = result;
      path.scaled_values.insert(std::move(node));
    }
  });
}

Paths ScalerMachine::OnUnseen(NodeId id, Paths in) {
  // Our monitor listens only, and what partial fixes is used where its result is called.
  if (names().Callee(id).starts_with("mpnanny.") || names().Callee(id) == "functools.partial")
    return in;
  bool escapes = false;
  bool clears = false;
  for (const NodeId argument : names().Arguments(id)) {
    escapes = escapes || IsScaler(argument);
    clears = clears || IsOptimizer(argument) || syntax().Text(argument) == "self";
  }
  const bool unseen = MayUseSelf(id);
  const NodeId receiver = names().Receiver(id);
  const std::string_view name = receiver == kNoNode ? code().FunctionText(id) : names().Method(id);
  const bool scheduler = Holds(syntax().Text(receiver), "sched");
  // A method of the optimizer that is none of torch's: first_step(zero_grad=True).
  const bool own_step = receiver != kNoNode && IsOptimizer(receiver) && !IsOfTorchOptimizer(name);
  clears = clears || code().IsSuper(receiver) || own_step ||
           (SoundsLikeClearing(name, receiver != kNoNode) && !scheduler) ||
           (syntax().Text(receiver) == "self" && !IsModuleName(name));
  const bool function = receiver == kNoNode || !names().Callee(id).empty();
  if (function && !escapes && IsOneOf(kNorms, name))
    return OnGradient(id, Event::Kind::kRead, std::move(in));
  for (const auto& [happens, kind] :
       {std::pair(clears, Event::Kind::kMayClear), std::pair(own_step, Event::Kind::kMayStep),
        std::pair(unseen, Event::Kind::kUnseen), std::pair(escapes, Event::Kind::kEscape)}) {
    if (happens) in = Happen(kind, id, std::move(in));
  }
  return in;
}

bool ScalerMachine::MayUseSelf(NodeId call) const {
  const std::vector<ScalerCall>& calls = scalers().calls();
  if (std::none_of(calls.begin(), calls.end(),
                   [](const ScalerCall& c) { return c.scaler.starts_with("self."); }))
    return false;
  // hooks.after_backward(self)
  for (const NodeId argument : names().Arguments(call)) {
    if (syntax().Text(argument) == "self") return true;
  }
  const NodeId receiver = names().Receiver(call);
  if (code().IsSuper(receiver)) return true;
  if (syntax().Text(receiver) != "self") return false;
  // An inherited method may; a module or a loss that is kept in self does not.
  if (IsModuleName(names().Method(call)) || IsOfModule(names().Method(call))) return false;
  const std::vector<Assignment> values =
      bindings().AssignmentsOf(syntax().Child(call, PythonFields().function));
  return values.empty() || std::any_of(values.begin(), values.end(), [&](const Assignment& a) {
           const std::string_view text = syntax().Text(a.value);
           return syntax().Is(a.value, Kind::kLambda) || text.starts_with("self.") ||
                  Holds(text, "partial(");
         });
}

}  // namespace mpnanny::check
