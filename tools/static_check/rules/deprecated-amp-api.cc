#include <algorithm>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::deprecated_amp_api {
namespace {

// "cuda" of torch.cuda.amp.autocast; "" if the name is not deprecated.
std::string_view DeviceOf(std::string_view name) {
  for (const std::string_view device : {"cuda", "cpu"}) {
    const std::string prefix = "torch." + std::string(device) + ".amp.";
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    if (rest == "autocast" || rest == "GradScaler") return device;
  }
  return {};
}

// A try that asks which names this torch has: nothing but imports, plain assignments and classes in
// its body or in the except clause that `node` stands in, and an except clause for their absence. A
// training loop in a try is none.
bool CatchesAbsence(const FileFacts& facts, NodeId attempt, NodeId node) {
  const Syntax& syntax = facts.syntax;
  bool catches = false;
  NodeId block = syntax.Child(attempt, PythonFields().body);
  for (const NodeId part : syntax.Children(attempt)) {
    if (!syntax.Is(part, Kind::kExcept)) continue;
    for (const NodeId inner : syntax.Children(part)) {
      if (!syntax.Is(inner, Kind::kBlock)) continue;
      if (inner < node && node < syntax[inner].after) block = inner;
      const std::string_view header =
          std::string_view(syntax.text())
              .substr(syntax[part].begin, syntax[inner].begin - syntax[part].begin);
      for (const std::string_view error :
           {"ImportError", "AttributeError", "ModuleNotFoundError", "Exception", "except:"})
        catches = catches || header.find(error) != std::string_view::npos;
    }
  }
  if (!catches) return false;
  const std::vector<NodeId> statements = syntax.Children(block);
  return std::all_of(statements.begin(), statements.end(), [&](NodeId statement) {
    const Kind kind = syntax[statement].kind;
    if (kind == Kind::kImport || kind == Kind::kImportFrom || kind == Kind::kReturn) return true;
    const NodeId inner = syntax[statement].first_child;
    return kind == Kind::kAssignment || syntax.Is(inner, Kind::kAssignment);
  });
}

// Inside a fallback for another version of torch: try/except, or an if that asks for a version or
// an attribute.
bool IsFallback(const FileFacts& facts, NodeId node) {
  for (NodeId up = facts.syntax[node].parent; up != kNoNode; up = facts.syntax[up].parent) {
    if (facts.syntax[up].kind == Kind::kTry && CatchesAbsence(facts, up, node)) return true;
    if (facts.syntax[up].kind != Kind::kIf) continue;
    const std::string_view condition =
        facts.syntax.Text(facts.syntax.Child(up, PythonFields().condition));
    for (const std::string_view word : {"version", "VERSION", "hasattr", "TORCH_"}) {
      if (condition.find(word) != std::string_view::npos) return true;
    }
  }
  return false;
}

// Puts the device, which torch.amp wants first, into the call's arguments.
bool AddDevice(const FileFacts& facts, NodeId call, std::string_view device, RawFinding& finding) {
  const NodeId arguments = facts.syntax.Child(call, PythonFields().arguments);
  if (!facts.syntax.Is(arguments, Kind::kArgumentList)) return false;
  const uint32_t at = facts.syntax[arguments].begin + 1;
  const std::vector<NodeId> given = facts.syntax.Children(arguments);
  // autocast(True) has `enabled` first, torch.amp.autocast has it third.
  if (!given.empty() && !facts.syntax.Is(given[0], Kind::kKeywordArgument)) return false;
  finding.edits.push_back(
      {{at, at}, "\"" + std::string(device) + "\"" + (given.empty() ? "" : ", ")});
  return true;
}

void CheckImport(const FileFacts& facts, NodeId statement, Sink& sink) {
  std::vector<const Import*> deprecated;
  bool only = true;
  for (const Import& import : facts.names.imports()) {
    if (import.statement != statement) continue;
    DeviceOf(import.qualified).empty() ? (void)(only = false) : deprecated.push_back(&import);
  }
  if (deprecated.empty() || IsFallback(facts, statement)) return;
  std::string names;
  for (const Import* import : deprecated) {
    if (!names.empty()) names += " and ";
    names += import->qualified;
  }
  RawFinding& finding = sink.Add(statement, names + (deprecated.size() == 1 ? " is" : " are") +
                                                " deprecated since torch 2.4.");
  const std::string_view device = DeviceOf(deprecated[0]->qualified);
  const NodeId module = facts.syntax.Child(statement, PythonFields().module_name);
  finding.edits.push_back({{facts.syntax[module].begin, facts.syntax[module].end}, "torch.amp"});
  // Every use must be a call that can be given the device, or there is no mechanical edit.
  bool possible = only;
  for (NodeId id = 0; id < facts.syntax.size() && possible; ++id) {
    if (facts.syntax[id].kind != Kind::kIdentifier || id < facts.syntax[statement].after) continue;
    const bool meant = std::any_of(deprecated.begin(), deprecated.end(), [&](const Import* import) {
      return import->local == facts.syntax.Text(id);
    });
    if (!meant || facts.syntax[id].field == PythonFields().attribute ||
        facts.syntax[id].field == PythonFields().name)
      continue;
    const NodeId call = facts.syntax[id].parent;
    possible = facts.syntax.Is(call, Kind::kCall) &&
               facts.syntax[id].field == PythonFields().function &&
               AddDevice(facts, call, device, finding);
  }
  if (!possible) finding.edits.clear();
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (NodeId id = 0; id < facts.syntax.size(); ++id) {
    if (facts.syntax[id].kind == Kind::kImportFrom) CheckImport(facts, id, sink);
    if (facts.syntax[id].kind != Kind::kCall) continue;
    const NodeId function = facts.syntax.Child(id, PythonFields().function);
    if (!facts.syntax.Is(function, Kind::kAttribute)) continue;  // bare names: told at their import
    const std::string name = facts.names.Resolve(function);
    const std::string_view device = DeviceOf(name);
    if (device.empty() || IsFallback(facts, id)) continue;
    RawFinding& finding = sink.Add(function, name + " is deprecated since torch 2.4.");
    const bool has_torch = std::any_of(
        facts.names.imports().begin(), facts.names.imports().end(), [](const Import& import) {
          return import.local == "torch" &&
                 (import.qualified == "torch" || import.qualified.starts_with("torch."));
        });
    if (!has_torch || !AddDevice(facts, id, device, finding)) continue;
    const std::string replacement = "torch.amp." + name.substr(name.rfind('.') + 1);
    finding.edits.push_back(
        {{facts.syntax[function].begin, facts.syntax[function].end}, replacement});
  }
}

}  // namespace mpnanny::static_check::deprecated_amp_api
