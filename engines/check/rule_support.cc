#include "engines/check/rule_support.h"

#include <cstdio>
#include <set>

#include "engines/check/facts/switches.h"

namespace mpnanny::check {

void ReportViolations(const FileFacts& facts, Violation::Kind kind, Sink& sink,
                      const std::function<std::string(const Violation&)>& message,
                      const std::function<void(const Violation&, RawFinding&)>& edit) {
  std::set<NodeId> shown;
  for (const Violation& violation : facts.scaler_order->violations()) {
    if (violation.kind != kind) continue;
    RawFinding& finding = sink.Add(violation.node, message(violation));
    // On a TPU the scaler of CUDA switches itself off.
    finding.guess = violation.guess || facts.names.ImportsModule("torch_xla");
    if (const NodeId condition = SwitchAround(facts, violation.node); condition != kNoNode) {
      finding.only_where = facts.syntax.Text(condition).substr(0, 60);
      finding.guess = finding.guess || IsNeverSwitchedOn(facts, condition);
    }
    if (edit) edit(violation, finding);
    // What is to be changed stands in a helper.
    if (violation.node != violation.inner) finding.edits.clear();
    // The call names the path on which it goes wrong; what goes wrong there stands in a helper.
    const bool helper = violation.inner != kNoNode && facts.syntax.FunctionOf(violation.inner) !=
                                                          facts.syntax.FunctionOf(violation.node);
    if (helper && shown.insert(violation.inner).second)
      sink.Add(violation.inner, message(violation) + " (As called from another function.)").guess =
          true;
  }
}

void ForEachCall(const FileFacts& facts, const std::function<void(NodeId call)>& visit) {
  for (const Call& call : facts.names.calls()) visit(call.node);
}

bool HasSplat(const FileFacts& facts, NodeId call) {
  const NodeId list = facts.syntax.Child(call, PythonFields().arguments);
  for (const NodeId argument : facts.syntax.Children(list)) {
    if (facts.syntax.Is(argument, Kind::kListSplat) || facts.syntax.Is(argument, Kind::kDictSplat))
      return true;
  }
  return false;
}

void InsertLineBefore(const FileFacts& facts, NodeId node, std::string_view line,
                      RawFinding& finding) {
  const NodeId statement = facts.syntax.StatementOf(node);
  if (statement == kNoNode) return;
  const uint32_t begin = facts.syntax[statement].begin;
  const std::string& text = facts.syntax.text();
  size_t start = begin;
  while (start > 0 && (text[start - 1] == ' ' || text[start - 1] == '\t')) --start;
  if (start > 0 && text[start - 1] != '\n') return;
  std::string inserted(line);
  inserted += '\n';
  inserted += text.substr(start, begin - start);
  finding.edits.push_back({{begin, begin}, std::move(inserted)});
}

NodeId LoopOf(const FileFacts& facts, NodeId node) {
  for (NodeId up = facts.syntax[node].parent; up > 0; up = facts.syntax[up].parent) {
    const Kind kind = facts.syntax[up].kind;
    if (kind == Kind::kFor || kind == Kind::kWhile) return up;
    if (kind == Kind::kFunction || kind == Kind::kLambda) break;
  }
  return kNoNode;
}

bool IsInside(const FileFacts& facts, NodeId inner, NodeId node) {
  return node != kNoNode && inner >= node && inner < facts.syntax[node].after;
}

NodeId SavedTraining(const FileFacts& facts, NodeId save) {
  const NodeId expression = facts.names.Argument(save, 0, "obj");
  NodeId dict = facts.syntax.Unwrap(expression);
  // A checkpoint's variable is often used for loading before: what was assigned last is what is
  // saved.
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(expression)) {
    const bool before = assignment.target < expression;
    if (before && assignment.function == facts.syntax.FunctionOf(expression))
      dict = assignment.value;
  }
  if (!facts.syntax.Is(dict, Kind::kDictionary)) return kNoNode;
  for (const NodeId pair : facts.syntax.Children(dict)) {
    const NodeId value = facts.syntax.Child(pair, PythonFields().value);
    if (facts.names.Method(value) == "state_dict" &&
        facts.scalers.IsOptimizer(facts.names.Key(facts.names.Receiver(value)))) {
      return dict;
    }
  }
  return kNoNode;
}

std::string ShowNumber(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.6g", value);
  return buffer;
}

bool HasSeveralImports(const FileFacts& facts, NodeId expression) {
  NodeId root = facts.syntax.Unwrap(expression);
  while (facts.syntax.Is(root, Kind::kAttribute))
    root = facts.syntax.Unwrap(facts.syntax.Child(root, PythonFields().object));
  const std::string_view name = facts.syntax.Text(root);
  const Import* first = nullptr;
  for (const Import& import : facts.names.imports()) {
    if (import.local != name) continue;
    if (first != nullptr && first->qualified != import.qualified &&
        !import.qualified.starts_with(name))
      return true;
    if (first == nullptr) first = &import;
  }
  // `def autocast(…)` where the import fails.
  return first != nullptr && (facts.bindings.FunctionNamed(kNoNode, name) != nullptr ||
                              facts.bindings.ClassNamed(name) != kNoNode);
}

void NoteAssumed(const Value& value, RawFinding& finding) {
  if (!value.assumed) return;
  // Of 36 such findings in code that nobody here knew none was true
  // (bench/evaluations/static_check/precision.md).
  finding.guess = true;
  finding.confidence = "low";
  finding.message +=
      " The FP16 autocast of this project stands elsewhere and is taken to hold here.";
}

void NoteUnlessShown(const Value& value, RawFinding& finding) {
  NoteAssumed(value, finding);
  finding.guess = finding.guess || !value.is_shown();
}

}  // namespace mpnanny::check
