#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::deprecated_amp_api {
namespace {

bool IsDecorator(std::string_view name) {
  return name.ends_with("custom_fwd") || name.ends_with("custom_bwd");
}

// What torch 2.4 deprecates beside torch.cuda.amp: one function per device.
bool IsPerDevice(std::string_view name) {
  for (const std::string_view old :
       {"torch.get_autocast_gpu_dtype", "torch.set_autocast_gpu_dtype",
        "torch.get_autocast_cpu_dtype", "torch.set_autocast_cpu_dtype",
        "torch.is_autocast_cpu_enabled", "torch.set_autocast_cpu_enabled"}) {
    if (name == old) return true;
  }
  return false;
}

// "cuda" of torch.cuda.amp.autocast; "" if the name is not deprecated.
std::string_view DeviceOf(std::string_view name) {
  for (const std::string_view device : {"cuda", "cpu"}) {
    const std::string prefix = "torch." + std::string(device) + ".amp.";
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    if (rest == "autocast" || rest == "GradScaler" || IsDecorator(rest)) return device;
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
    if (HoldsAny(condition, {"version", "VERSION", "hasattr", "TORCH_"})) return true;
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

bool ImportsTorch(const FileFacts& facts) {
  return std::any_of(
      facts.names.imports().begin(), facts.names.imports().end(), [](const Import& import) {
        return import.local == "torch" &&
               (import.qualified == "torch" || import.qualified.starts_with("torch."));
      });
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
  bool possible = only && std::none_of(deprecated.begin(), deprecated.end(), [](const Import* one) {
                    return IsDecorator(one->qualified);
                  });
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

// What no call calls: a decorator without arguments, a name that is given to another.
void CheckMention(const FileFacts& facts, NodeId mention, Sink& sink) {
  const std::string name = facts.names.Resolve(mention);
  if (DeviceOf(name).empty() || IsFallback(facts, mention)) return;
  RawFinding& finding = sink.Add(mention, name + " is deprecated since torch 2.4.");
  if (IsDecorator(name) && facts.syntax.Is(facts.syntax[mention].parent, Kind::kDecorator) &&
      ImportsTorch(facts)) {
    finding.edits.push_back({{facts.syntax[mention].begin, facts.syntax[mention].end},
                             "torch.amp." + name.substr(name.rfind('.') + 1) + "(device_type=\"" +
                                 std::string(DeviceOf(name)) + "\")"});
  }
}

void CheckCall(const FileFacts& facts, NodeId call, NodeId function, Sink& sink) {
  const std::string name = facts.names.Resolve(function);
  const std::string_view device = DeviceOf(name);
  if ((device.empty() && !IsPerDevice(name)) || IsFallback(facts, call)) return;
  RawFinding& finding = sink.Add(function, name + " is deprecated since torch 2.4.");
  if (device.empty() || IsDecorator(name) || !ImportsTorch(facts) ||
      !AddDevice(facts, call, device, finding))
    return;
  finding.edits.push_back({{facts.syntax[function].begin, facts.syntax[function].end},
                           "torch.amp." + name.substr(name.rfind('.') + 1)});
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  if (!HoldsAny(facts.syntax.text(), {"amp", "autocast"})) return;  // one is in all of their names
  for (NodeId id = 0; id < facts.syntax.size(); ++id) {
    if (facts.syntax[id].kind == Kind::kImportFrom) CheckImport(facts, id, sink);
    // Bare names are told at their import.
    if (facts.syntax[id].kind != Kind::kAttribute) continue;
    const NodeId parent = facts.syntax[id].parent;
    if (facts.syntax.Is(parent, Kind::kCall) && facts.syntax[id].field == f.function) {
      CheckCall(facts, parent, id, sink);
    } else if (const NodeId last = facts.syntax.Child(id, f.attribute);
               IsDecorator(facts.syntax.Text(last)) || facts.syntax.Text(last) == "autocast" ||
               facts.syntax.Text(last) == "GradScaler") {
      CheckMention(facts, id, sink);
    }
  }
}

}  // namespace mpnanny::check::deprecated_amp_api
