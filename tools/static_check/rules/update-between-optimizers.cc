#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::update_between_optimizers {
namespace {

// True if a call of the function, in this file, stands in a loop over optimizers.
bool RunsForEachOptimizer(const FileFacts& facts, const Function& function) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  for (const CallEdge& edge : facts.modules->Edges(facts.number)) {
    if (edge.callee.function != &function) continue;
    const NodeId caller = syntax.FunctionOf(edge.call);
    for (NodeId up = syntax[edge.call].parent; up > caller; up = syntax[up].parent) {
      if (syntax.Is(up, Kind::kFor) &&
          syntax.Text(syntax.Child(up, f.left)).find("opt") != std::string_view::npos &&
          syntax.Text(syntax.Child(up, f.right)).find("optim") != std::string_view::npos)
        return true;
    }
  }
  return false;
}

// True if a condition decides on the update that does not decide on the step.
bool IsChosen(const FileFacts& facts, NodeId update, NodeId step) {
  const Syntax& syntax = facts.syntax;
  for (NodeId up = syntax[update].parent; up > syntax.FunctionOf(update); up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kIf) && !IsInside(facts, step, up)) return true;
  }
  return false;
}

// A function that steps with the optimizer that it is given and updates, called for one after the
// other: the scale moves several times in one iteration.
void GuessCalled(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  for (const ScalerCall& update : calls) {
    const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(update.call));
    if (update.op != ScalerCall::Op::kUpdate || function == nullptr || function->node == 0)
      continue;
    const std::vector<std::string>& given = function->parameters;
    const bool steps = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& step) {
      return step.op == ScalerCall::Op::kStep && step.scaler == update.scaler &&
             IsInside(facts, step.call, function->node) &&
             !IsChosen(facts, update.call, step.call) &&
             std::find(given.begin(), given.end(), step.optimizer) != given.end();
    });
    if (!steps || !RunsForEachOptimizer(facts, *function)) continue;
    MarkGuess(sink.Add(update.call,
                       "This function is called for each optimizer: update() belongs after the "
                       "last one's step, once in an iteration."));
  }
}

// for o in optimizers: scaler.step(o); scaler.update()
void GuessLoops(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  for (const ScalerCall& update : calls) {
    if (update.op != ScalerCall::Op::kUpdate) continue;
    const NodeId loop = LoopOf(facts, update.call);
    if (loop == kNoNode || !facts.syntax.Is(loop, Kind::kFor)) continue;
    const std::string_view over = facts.syntax.Text(facts.syntax.Child(loop, f.left));
    const bool steps = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& step) {
      return step.op == ScalerCall::Op::kStep && step.scaler == update.scaler &&
             IsInside(facts, step.call, loop) && !step.optimizer.empty() &&
             Holds(over, step.optimizer);
    });
    if (steps)
      MarkGuess(
          sink.Add(update.call,
                   "Updated for each optimizer of this loop: update() belongs behind it, once "
                   "in an iteration."));
  }
}

// step(a), update(), step(b), update() in one function, both under a condition and the backward
// passes under none: gradients add up over several batches, and the scale moves in their middle.
void GuessTwice(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  std::set<NodeId> told;  // functions
  for (const Violation& violation : facts.protocol->violations()) {
    if (violation.kind == Violation::Kind::kUpdateBetween)
      told.insert(facts.syntax.FunctionOf(violation.node));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const ScalerCall& update = calls[i];
    const NodeId function = facts.syntax.FunctionOf(update.call);
    if (update.op != ScalerCall::Op::kUpdate || function == 0 || told.contains(function)) continue;
    const auto beside = [&](const ScalerCall& other) {
      return other.scaler == update.scaler && facts.syntax.FunctionOf(other.call) == function;
    };
    // Gradients of the second that were scaled before, in an iteration that did not step.
    const NodeId branch = facts.syntax.Enclosing(update.call, Kind::kIf);
    if (branch == kNoNode || branch < function) continue;
    const bool mixed = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& scale) {
      return scale.op == ScalerCall::Op::kScale && beside(scale) && scale.call > update.call &&
             !IsInside(facts, scale.call, branch);
    });
    if (!mixed) continue;
    std::string before, after;
    for (size_t k = i; k > 0 && before.empty(); --k) {
      if (calls[k - 1].op == ScalerCall::Op::kStep && beside(calls[k - 1]))
        before = calls[k - 1].optimizer;
    }
    for (size_t k = i + 1; k < calls.size() && after.empty(); ++k) {
      if (calls[k].op == ScalerCall::Op::kStep && beside(calls[k]) &&
          !ExcludeEachOther(facts, update.call, calls[k].call))
        after = calls[k].optimizer;
    }
    if (before.empty() || after.empty() || before == after) continue;
    told.insert(function);
    MarkGuess(sink.Add(update.call, "The scale moves here, between the steps of " + before +
                                        " and " + after +
                                        ": torch wants one update() in an iteration, after the "
                                        "last optimizer's step."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(facts, Violation::Kind::kUpdateBetween, sink, [](const Violation& v) {
    return "The gradients of " + v.optimizer + " were scaled before " + v.scaler +
           ".update() and are unscaled after it, perhaps with another scale.";
  });
  GuessCalled(facts, sink);
  GuessLoops(facts, sink);
  GuessTwice(facts, sink);
}

}  // namespace mpnanny::static_check::update_between_optimizers
