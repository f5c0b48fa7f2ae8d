#include "engines/check/facts/modules.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engines/check/syntax/parallel.h"

namespace mpnanny::check {
namespace {

// How many classes one may inherit from, on all ways together.
constexpr size_t kMaxBases = 32;

std::vector<std::string> Components(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    if (const std::string_view part = text.substr(0, end); !part.empty() && part != ".")
      parts.emplace_back(part);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

size_t CommonPrefix(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

bool EndsWith(const std::vector<std::string>& path, const std::vector<std::string>& parts,
              size_t count) {
  return path.size() >= count &&
         std::equal(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count),
                    path.end() - static_cast<std::ptrdiff_t>(count));
}

// Methods of a torch.nn.Module that return the module itself.
constexpr std::array<std::string_view, 11> kReturnsSelf = {
    "cuda", "to",    "half", "float",          "bfloat16", "double",
    "cpu",  "train", "eval", "requires_grad_", "to_empty"};

bool IsWrapper(std::string_view callee) {
  return callee == "torch.compile" || callee.ends_with("DataParallel");
}

}  // namespace

size_t Modules::Add(std::string_view path, const Syntax& syntax, const Names& names,
                    const Bindings& bindings) {
  if (const size_t dot = path.rfind('.'); dot != std::string_view::npos) path = path.substr(0, dot);
  Module module{&syntax, &names, &bindings, Components(path, '/'), false};
  if (!module.path.empty() && module.path.back() == "__init__") {
    module.path.pop_back();
    module.is_package = true;
  }
  modules_.push_back(std::move(module));
  return modules_.size() - 1;
}

void Modules::Link(unsigned threads) {
  for (size_t i = 0; i < modules_.size(); ++i) {
    const std::vector<std::string>& path = modules_[i].path;
    if (!path.empty()) by_last_name_[path.back()].push_back(i);
    path_parts_.insert(path.begin(), path.end());
  }
  instances_.resize(modules_.size());
  meanings_.resize(modules_.size());
  InParallel(modules_.size(), threads, [&](size_t i) { FindInstances(i, false); });
  // Here a file asks for what was found in others before it.
  for (size_t i = 0; i < modules_.size(); ++i) FindInstances(i, true);
  edges_.resize(modules_.size());
  InParallel(modules_.size(), threads, [&](size_t i) { FindEdges(i); });
  const std::vector<bool> passed = PassInstances();
  InParallel(modules_.size(), threads, [&](size_t i) {
    if (passed[i]) FindEdges(i);
  });
  linking_ = false;
}

void Modules::FindInstances(size_t module, bool names) {
  const Syntax& syntax = *modules_[module].syntax;
  for (const auto& [key, assignments] : modules_[module].bindings->all()) {
    for (const Assignment& assignment : assignments) {
      const Kind kind = syntax.kind(syntax.Unwrap(assignment.value));
      const bool name = kind == Kind::kIdentifier || kind == Kind::kAttribute;
      if (kind != Kind::kCall && !(names && name)) continue;
      const ClassRef made = Made(module, assignment.value, names);
      if (made.klass != kNoNode) instances_[module][key].push_back({assignment.target, made});
    }
  }
}

void Modules::FindEdges(size_t module) {
  edges_[module].clear();
  for (const Call& call : modules_[module].names->calls()) {
    if (const Definition callee = Resolve(module, call); callee.function != nullptr)
      edges_[module].push_back({call.node, callee});
  }
}

std::vector<bool> Modules::PassInstances() {
  std::vector<bool> passed(modules_.size());
  for (size_t i = 0; i < modules_.size(); ++i) {
    for (const auto& [node, callee] : edges_[i]) {
      const std::vector<std::string>& parameters = callee.function->parameters;
      for (size_t k = 0; k < parameters.size(); ++k) {
        const NodeId argument =
            modules_[i].names->Argument(node, static_cast<int>(k), parameters[k]);
        const ClassRef klass = argument == kNoNode ? ClassRef{} : InstanceOf(i, argument);
        if (klass.klass == kNoNode) continue;
        instances_[callee.module][parameters[k]].push_back({callee.function->body, klass});
        passed[callee.module] = true;
      }
    }
  }
  return passed;
}

size_t Modules::Nearest(size_t module, const std::vector<size_t>& candidates) const {
  size_t best = modules_.size();
  size_t best_common = 0;
  bool tie = false;
  for (const size_t candidate : candidates) {
    if (candidate == module) continue;
    const size_t common = CommonPrefix(modules_[module].path, modules_[candidate].path);
    if (best == modules_.size() || common > best_common) {
      best = candidate;
      best_common = common;
      tie = false;
    } else {
      tie = tie || common == best_common;
    }
  }
  return tie ? modules_.size() : best;
}

Modules::Target Modules::FileOf(size_t module, std::string_view qualified) const {
  if (qualified.empty() || qualified.starts_with("torch.")) return {};
  const size_t dots = std::min(qualified.find_first_not_of('.'), qualified.size());
  std::vector<std::string> base;
  if (dots > 0) {
    base = modules_[module].path;
    const size_t up = modules_[module].is_package ? dots - 1 : dots;
    if (up > base.size()) return {};
    base.resize(base.size() - up);
  }
  const std::string_view name = qualified.substr(dots);
  // Most imports are of other packages.
  if (dots == 0 && path_parts_.find(name.substr(0, name.find('.'))) == path_parts_.end()) return {};
  const std::vector<std::string> parts = Components(name, '.');
  for (size_t count = parts.size(); count + 1 > 0; --count) {
    if (count == 0 && dots == 0) break;
    const std::string& last = count > 0 ? parts[count - 1] : base.empty() ? "" : base.back();
    const auto found = by_last_name_.find(last);
    if (found != by_last_name_.end()) {
      std::vector<size_t> fits;
      for (const size_t candidate : found->second) {
        const std::vector<std::string>& path = modules_[candidate].path;
        const bool fit =
            dots == 0
                ? EndsWith(path, parts, count)
                : path.size() == base.size() + count && EndsWith(path, parts, 0) &&
                      std::equal(base.begin(), base.end(), path.begin()) &&
                      std::equal(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count),
                                 path.begin() + static_cast<std::ptrdiff_t>(base.size()));
        if (fit) fits.push_back(candidate);
      }
      if (const size_t nearest = Nearest(module, fits); nearest < modules_.size()) {
        size_t at = 0;
        for (size_t i = 0; i < count; ++i) at += parts[i].size() + 1;
        return {nearest, at < name.size() ? name.substr(at) : std::string_view{}, true};
      }
    }
    if (count == 0) break;
  }
  return {};
}

Modules::Meaning Modules::InModule(size_t module, std::string_view name, Trail& trail) const {
  const Module& file = modules_[module];
  const size_t dot = name.find('.');
  const std::string_view first = name.substr(0, dot);
  if (const NodeId klass = file.bindings->ClassNamed(first); klass != kNoNode) {
    const ClassRef found{module, klass};
    if (dot == std::string_view::npos) return {{}, found};
    return {Method(found, name.substr(dot + 1)), {}};
  }
  if (dot == std::string_view::npos) {
    if (const Function* function = file.bindings->FunctionNamed(kNoNode, name))
      return {{module, function}, {}};
  }
  if (trail.hops == 0) return {};
  if (const std::string_view imported = file.names->Imported(first); !imported.empty()) {
    std::string whole(imported);
    if (dot != std::string_view::npos) whole += name.substr(dot);
    --trail.hops;
    const Meaning meaning = Lookup(module, whole, trail);
    ++trail.hops;
    return meaning;
  }
  const std::vector<std::string>& stars = file.names->star_imports();
  if (stars.empty() ||
      std::find(trail.stars.begin(), trail.stars.end(), module) != trail.stars.end())
    return {};
  trail.stars.push_back(module);
  Meaning meaning;
  --trail.hops;
  for (const std::string& star : stars) {
    meaning = Lookup(module, star + "." + std::string(name), trail);
    if (meaning.function.function != nullptr || meaning.klass.klass != kNoNode) break;
  }
  ++trail.hops;
  return meaning;
}

Modules::Meaning Modules::Lookup(size_t module, std::string_view qualified, Trail& trail) const {
  const Target target = FileOf(module, qualified);
  if (!target.found || target.rest.empty()) return {};
  return InModule(target.module, target.rest, trail);
}

Definition Modules::Method(ClassRef klass, std::string_view name) const {
  std::vector<ClassRef> seen;
  return Method(klass, name, seen);
}

Definition Modules::Method(ClassRef klass, std::string_view name,
                           std::vector<ClassRef>& seen) const {
  if (klass.klass == kNoNode || seen.size() == kMaxBases) return {};
  const Module& file = modules_[klass.module];
  if (const Function* own = file.bindings->FunctionNamed(klass.klass, name))
    return {klass.module, own};
  seen.push_back(klass);
  for (const NodeId base : file.bindings->Bases(klass.klass)) {
    const ClassRef parent = ClassOf(klass.module, base);
    const bool again = std::any_of(seen.begin(), seen.end(), [&](const ClassRef& one) {
      return one.module == parent.module && one.klass == parent.klass;
    });
    if (again) continue;
    if (const Definition found = Method(parent, name, seen); found.function != nullptr)
      return found;
  }
  return {};
}

ClassRef Modules::ClassOf(size_t module, NodeId expression) const {
  const Module& file = modules_[module];
  const NodeId id = file.syntax->Unwrap(expression);
  Trail trail;
  if (const std::string qualified = file.names->Resolve(id); !qualified.empty())
    return Lookup(module, qualified, trail).klass;
  if (!file.syntax->Is(id, Kind::kIdentifier)) return {};
  return InModule(module, file.syntax->Text(id), trail).klass;
}

ClassRef Modules::Made(size_t module, NodeId value, bool names) const {
  const Module& file = modules_[module];
  const Syntax& syntax = *file.syntax;
  NodeId id = syntax.Unwrap(value);
  // Net().cuda().half(), DistributedDataParallel(net, …): the call that makes the instance.
  for (int depth = 0; depth < 8; ++depth) {
    const Call* call = file.names->CallAt(id);
    if (call == nullptr) return names ? InstanceOf(module, id) : ClassRef{};
    if (IsWrapper(call->callee)) {
      id = syntax.Unwrap(file.names->Argument(id, 0, "module"));
    } else if (std::find(kReturnsSelf.begin(), kReturnsSelf.end(), call->method) !=
                   kReturnsSelf.end() &&
               call->receiver != kNoNode) {
      id = call->receiver;
    } else {
      if (call->callee.starts_with("torch.")) return {};
      if (const ClassRef made = MeaningOf(module, *call).klass; made.klass != kNoNode) return made;
      if (call->method.starts_with("from_")) return ClassOf(module, call->receiver);
      if (!names) return {};
      // A factory: what its only return statement returns.
      const Definition factory = FunctionOrMethod(module, *call);
      if (factory.function == nullptr || factory.function->klass != kNoNode) return {};
      const Syntax& there = *modules_[factory.module].syntax;
      NodeId returned = kNoNode;
      for (NodeId at = factory.function->body; at < there[factory.function->node].after; ++at) {
        if (there[at].kind != Kind::kReturn || there.FunctionOf(at) != factory.function->node)
          continue;
        if (returned != kNoNode) return {};
        returned = there[at].first_child;
      }
      if (returned == kNoNode) return {};
      return there.Is(returned, Kind::kCall) ? Made(factory.module, returned, false)
                                             : InstanceOf(factory.module, returned);
    }
  }
  return {};
}

ClassRef Modules::InstanceOf(size_t module, NodeId expression) const {
  const Module& file = modules_[module];
  const Syntax& syntax = *file.syntax;
  const NodeId id = syntax.Unwrap(expression);
  const Kind kind = syntax.kind(id);
  if (kind == Kind::kCall) return Made(module, id, false);
  if (kind != Kind::kIdentifier && kind != Kind::kAttribute) return {};
  if (syntax.Text(id) == "self") {
    const NodeId klass = syntax.Enclosing(id, Kind::kClass);
    return klass == kNoNode ? ClassRef{} : ClassRef{module, klass};
  }
  if (instances_[module].empty()) return {};
  const auto found = instances_[module].find(file.names->Key(id));
  if (found == instances_[module].end()) return {};
  const bool attribute = kind == Kind::kAttribute;
  const NodeId scope = attribute ? syntax.Enclosing(id, Kind::kClass) : kNoNode;
  ClassRef result;
  NodeId function = syntax.FunctionOf(id);
  while (result.klass == kNoNode) {
    for (const Instance& instance : found->second) {
      const bool visible = attribute ? syntax.Enclosing(instance.target, Kind::kClass) == scope
                                     : syntax.FunctionOf(instance.target) == function;
      if (!visible) continue;
      const ClassRef& one = instance.klass;
      if (result.klass != kNoNode && (result.klass != one.klass || result.module != one.module))
        return {};  // one of several classes
      result = one;
    }
    if (attribute || function == 0) break;
    const Function* inner = file.bindings->FunctionAt(function);
    if (inner != nullptr && std::find(inner->parameters.begin(), inner->parameters.end(),
                                      found->first) != inner->parameters.end())
      break;  // a parameter hides what is outside
    function = syntax.FunctionOf(function);
  }
  return result;
}

std::vector<ClassRef> Modules::Held(ClassRef klass) const {
  std::vector<ClassRef> held;
  for (const auto& [key, instances] : instances_[klass.module]) {
    if (!key.starts_with("self.")) continue;
    for (const Instance& instance : instances) {
      if (modules_[klass.module].syntax->Enclosing(instance.target, Kind::kClass) == klass.klass)
        held.push_back(instance.klass);
    }
  }
  return held;
}

Modules::Meaning Modules::MeaningOf(size_t module, const Call& call) const {
  const bool imported = !call.callee.empty();
  if (!imported && (call.receiver != kNoNode || call.name.empty())) return {};
  const std::string_view name = imported ? call.callee : call.name;
  const auto find = [&] {
    Trail trail;
    return imported ? Lookup(module, name, trail) : InModule(module, name, trail);
  };
  auto& known = meanings_[module][imported];
  if (!linking_) {
    const auto it = known.find(name);
    return it == known.end() ? find() : it->second;
  }
  const auto [it, is_new] = known.try_emplace(name);
  if (is_new) it->second = find();
  return it->second;
}

Definition Modules::FunctionOrMethod(size_t module, const Call& call) const {
  const Module& file = modules_[module];
  if (const Function* own = file.bindings->Callee(call.node)) return {module, own};
  const Meaning meaning = MeaningOf(module, call);
  if (meaning.klass.klass != kNoNode) return Method(meaning.klass, "__init__");
  return meaning.function;
}

Definition Modules::Resolve(size_t module, const Call& call) const {
  if (call.callee.starts_with("torch.")) return {};
  if (const Definition named = FunctionOrMethod(module, call); named.function != nullptr)
    return named;
  if (call.receiver != kNoNode) {
    const Definition method = Method(InstanceOf(module, call.receiver), call.method);
    if (method.function != nullptr) return method;
  }
  const ClassRef callable =
      InstanceOf(module, modules_[module].syntax->Child(call.node, PythonFields().function));
  if (const Definition forward = Method(callable, "forward"); forward.function != nullptr)
    return forward;
  return Method(callable, "__call__");
}

Definition Modules::Callee(size_t module, NodeId call) const {
  const std::vector<CallEdge>& edges = edges_[module];
  const auto it = std::lower_bound(edges.begin(), edges.end(), call,
                                   [](const CallEdge& a, NodeId id) { return a.call < id; });
  return it != edges.end() && it->call == call ? it->callee : Definition{};
}

}  // namespace mpnanny::check
