#include "engines/check/syntax/names.h"

#include <algorithm>
#include <utility>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

std::string WithoutSpace(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\\') out += c;
  }
  return out;
}

// Modules in which torch keeps what it publishes one level up.
std::string PublicName(std::string name) {
  for (const std::string_view hidden : {".autocast_mode.", ".grad_scaler.", ".clip_grad."}) {
    if (const size_t at = name.find(hidden);
        at != std::string::npos && name.starts_with("torch.")) {
      name.replace(at, hidden.size(), ".");
    }
  }
  if (name.starts_with("torch.functional.")) name.replace(0, 17, "torch.");
  return name;
}

}  // namespace

Names::Names(const Syntax& syntax) : syntax_(syntax) {
  for (NodeId id = 0; id < syntax.size(); ++id) {
    if (syntax[id].kind == Kind::kImport) AddImport(id);
    if (syntax[id].kind == Kind::kImportFrom) AddFrom(id);
  }
  // `autocast = torch.cuda.amp.autocast` at module level is an import by other means.
  const Fields& f = PythonFields();
  for (NodeId id = 0; id < syntax.size(); ++id) {
    if (syntax[id].kind != Kind::kAssignment || syntax.FunctionOf(id) != 0) continue;
    const NodeId left = syntax.Child(id, f.left);
    const NodeId right = syntax.Child(id, f.right);
    if (!syntax.Is(left, Kind::kIdentifier) || !syntax.Is(right, Kind::kAttribute)) continue;
    std::string qualified = Resolve(right);
    if (qualified.starts_with("torch."))
      Add(std::string(syntax.Text(left)), std::move(qualified), kNoNode, kNoNode);
  }
  ReadCalls();
}

void Names::Add(std::string local, std::string qualified, NodeId statement, NodeId item) {
  qualified = PublicName(std::move(qualified));
  // In `try: from torch.amp … except ImportError: from torch.cuda.amp …` the first one is what runs
  // today.
  qualified_.emplace(local, qualified);
  imports_.push_back({std::move(local), std::move(qualified), statement, item});
}

void Names::AddImport(NodeId statement) {
  const Fields& f = PythonFields();
  for (const NodeId item : syntax_.Children(statement)) {
    if (syntax_.Is(item, Kind::kAliasedImport)) {
      Add(std::string(syntax_.Text(syntax_.Child(item, f.alias))),
          WithoutSpace(syntax_.Text(syntax_.Child(item, f.name))), statement, item);
    } else if (syntax_.Is(item, Kind::kDottedName)) {
      const std::string name = WithoutSpace(syntax_.Text(item));
      const std::string root = name.substr(0, name.find('.'));
      Add(root, root, statement, item);
      imports_.back().qualified = name;
    }
  }
}

void Names::AddFrom(NodeId statement) {
  const Fields& f = PythonFields();
  const NodeId module = syntax_.Child(statement, f.module_name);
  std::string prefix = WithoutSpace(syntax_.Text(module));
  if (!prefix.ends_with('.')) prefix += '.';  // `from . import x` is ".x"
  for (const NodeId item : syntax_.Children(statement)) {
    if (item == module) continue;
    if (syntax_.Text(item) == "*") star_imports_.push_back(prefix.substr(0, prefix.size() - 1));
    if (syntax_.Is(item, Kind::kAliasedImport)) {
      Add(std::string(syntax_.Text(syntax_.Child(item, f.alias))),
          prefix + WithoutSpace(syntax_.Text(syntax_.Child(item, f.name))), statement, item);
    } else if (syntax_.Is(item, Kind::kDottedName)) {
      const std::string name = WithoutSpace(syntax_.Text(item));
      Add(name, prefix + name, statement, item);
    }
  }
}

std::string_view Names::Imported(std::string_view local) const {
  const auto it = qualified_.find(local);
  return it == qualified_.end() ? std::string_view{} : std::string_view(it->second);
}

std::string Names::Resolve(NodeId expression) const {
  const Fields& f = PythonFields();
  const NodeId whole = syntax_.Unwrap(expression);
  NodeId root = whole;
  while (syntax_.Is(root, Kind::kAttribute)) root = syntax_.Unwrap(syntax_.Child(root, f.object));
  if (!syntax_.Is(root, Kind::kIdentifier)) return "";
  const auto it = qualified_.find(syntax_.Text(root));
  if (it == qualified_.end()) return "";
  std::vector<NodeId> attributes;
  for (NodeId id = whole; id != root; id = syntax_.Unwrap(syntax_.Child(id, f.object)))
    attributes.push_back(syntax_.Child(id, f.attribute));
  std::string name = it->second;
  for (auto part = attributes.rbegin(); part != attributes.rend(); ++part) {
    name += '.';
    name += syntax_.Text(*part);
  }
  return PublicName(std::move(name));
}

void Names::ReadCalls() {
  static const std::string kNone;
  size_t count = 0;
  for (NodeId id = 0; id < syntax_.size(); ++id) count += syntax_[id].kind == Kind::kCall ? 1 : 0;
  calls_.reserve(count);
  callees_.reserve(count);
  const Fields& f = PythonFields();
  for (NodeId id = 0; id < syntax_.size(); ++id) {
    if (syntax_[id].kind != Kind::kCall) continue;
    const NodeId function = syntax_.Unwrap(syntax_.Child(id, f.function));
    Call call{id, kNoNode, {}, {}, {}};
    if (syntax_.Is(function, Kind::kAttribute)) {
      call.method = syntax_.Text(syntax_.Child(function, f.attribute));
      call.receiver = syntax_.Unwrap(syntax_.Child(function, f.object));
      call.name = call.method;
    } else if (syntax_.Is(function, Kind::kIdentifier)) {
      call.name = syntax_.Text(function);
    }
    const std::string* callee = &kNone;
    if (std::string qualified = Resolve(function); !qualified.empty()) {
      callee = &*texts_.insert(std::move(qualified)).first;
      call.callee = *callee;
      call.name = call.callee.substr(call.callee.rfind('.') + 1);
    }
    calls_.push_back(call);
    callees_.push_back(callee);
  }
  for (const Call& call : calls_) {
    if (!call.name.empty()) by_name_[call.name].push_back(&call);
  }
}

std::span<const Call* const> Names::CallsNamed(std::string_view name) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return {};
  return it->second;
}

const Call* Names::CallAt(NodeId id) const {
  const auto it = std::lower_bound(calls_.begin(), calls_.end(), id,
                                   [](const Call& call, NodeId node) { return call.node < node; });
  return it != calls_.end() && it->node == id ? &*it : nullptr;
}

const std::string& Names::Callee(NodeId call) const {
  static const std::string kNone;
  const Call* found = CallAt(call);
  return found == nullptr ? kNone : *callees_[static_cast<size_t>(found - calls_.data())];
}

std::string_view Names::Method(NodeId call) const {
  const Call* found = CallAt(call);
  return found == nullptr ? std::string_view{} : found->method;
}

NodeId Names::Receiver(NodeId call) const {
  const Call* found = CallAt(call);
  return found == nullptr ? kNoNode : found->receiver;
}

NodeId Names::Argument(NodeId call, int position, std::string_view keyword) const {
  const Fields& f = PythonFields();
  const NodeId list = syntax_.Child(call, f.arguments);
  if (!syntax_.Is(list, Kind::kArgumentList)) return kNoNode;
  int index = 0;
  bool known = position >= 0;
  NodeId by_position = kNoNode;
  for (const NodeId argument : syntax_.Children(list)) {
    if (syntax_.Is(argument, Kind::kKeywordArgument)) {
      if (syntax_.Text(syntax_.Child(argument, f.name)) == keyword)
        return syntax_.Child(argument, f.value);
    } else if (syntax_.Is(argument, Kind::kListSplat)) {
      known = false;
    } else if (!syntax_.Is(argument, Kind::kDictSplat)) {
      if (known && index == position) by_position = argument;
      ++index;
    }
  }
  return by_position;
}

std::vector<NodeId> Names::Arguments(NodeId call) const {
  const Fields& f = PythonFields();
  std::vector<NodeId> values;
  const NodeId list = syntax_.Child(call, f.arguments);
  if (list == kNoNode) return values;
  for (const NodeId argument : syntax_.Children(list)) {
    values.push_back(syntax_.Is(argument, Kind::kKeywordArgument) ? syntax_.Child(argument, f.value)
                                                                  : argument);
  }
  return values;
}

std::vector<NodeId> Names::Uses(std::string_view name) const {
  std::vector<NodeId> uses;
  const std::string_view text = syntax_.text();
  if (name.empty() || !Holds(text, name)) return uses;
  for (size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + name.size())) {
    const NodeId id = syntax_.At(static_cast<uint32_t>(at));
    if (syntax_.Is(id, Kind::kIdentifier) && syntax_.Text(id) == name) uses.push_back(id);
  }
  return uses;
}

std::string Names::Key(NodeId expression) const {
  const Fields& f = PythonFields();
  std::vector<NodeId> parts;  // attributes and subscripts, the outermost first
  NodeId id = syntax_.Unwrap(expression);
  for (; !syntax_.Is(id, Kind::kIdentifier); id = syntax_.Unwrap(id)) {
    const Kind kind = syntax_.kind(id);
    if (kind != Kind::kAttribute && kind != Kind::kSubscript) return "";
    parts.push_back(id);
    id = syntax_.Child(id, kind == Kind::kAttribute ? f.object : f.value);
  }
  std::string key(syntax_.Text(id));
  if (key.empty()) return "";  // a name that tree-sitter put where one is missing
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (syntax_.Is(*part, Kind::kAttribute)) {
      key += '.';
      key += syntax_.Text(syntax_.Child(*part, f.attribute));
      continue;
    }
    const std::string_view text = syntax_.Text(syntax_.Child(*part, f.subscript));
    if (text.size() > 40 || text.find('(') != std::string_view::npos) return "";
    key += '[';
    key += WithoutSpace(text);
    key += ']';
  }
  return key;
}

bool Names::ImportsModule(std::string_view module) const {
  return std::any_of(imports_.begin(), imports_.end(), [&](const Import& import) {
    return import.qualified.starts_with(module) &&
           (import.qualified.size() == module.size() || import.qualified[module.size()] == '.');
  });
}

bool IsAutocast(std::string_view name) {
  return name == "torch.autocast" || name == "torch.amp.autocast" ||
         name == "torch.cuda.amp.autocast" || name == "torch.cpu.amp.autocast";
}

bool IsGradScaler(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view last = name.substr(dot + 1);
  if (last != "GradScaler" && last != "ShardedGradScaler") return false;
  // Other frameworks' scalers have the name and another protocol.
  for (const std::string_view root : {"paddle", "oneflow", "mindspore", "megatron", "colossalai",
                                      "jittor", "flow.", "tensorflow"}) {
    if (name.starts_with(root)) return false;
  }
  return true;
}

std::string_view TorchFunction(std::string_view name) {
  for (const std::string_view prefix :
       {"torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.", "torch."}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    return rest.find('.') == std::string_view::npos ? rest : std::string_view{};
  }
  return {};
}

}  // namespace mpnanny::check
