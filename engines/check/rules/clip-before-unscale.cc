#include <string>

#include "engines/check/rule_support.h"

namespace mpnanny::check::clip_before_unscale {
namespace {

// True if an unscale_() stands between the clip and the last scale() above it: only conditions keep
// it from these gradients.
bool UnscalesBefore(const FileFacts& facts, const Violation& violation) {
  bool unscaled = false;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (call.call > violation.node ||
        facts.syntax.FunctionOf(call.call) != facts.syntax.FunctionOf(violation.node))
      continue;
    if (call.op == ScalerCall::Op::kScale) unscaled = false;
    if (call.op == ScalerCall::Op::kUnscale) unscaled = true;
  }
  return unscaled;
}

// True if whatever runs the clip also runs that step once, in the same turn of the loop: then the
// scaler exists there, and one unscale_() belongs to one step. Elsewhere a line of ours could meet
// a scaler that is None in FP32, or unscale every micro-batch, which raises.
bool IsSteppedAfter(const FileFacts& facts, NodeId clip, NodeId step) {
  const Syntax& syntax = facts.syntax;
  if (step < clip || syntax.FunctionOf(step) != syntax.FunctionOf(clip)) return false;
  const NodeId block = syntax[syntax.StatementOf(step)].parent;
  for (NodeId at = clip; at != block; at = syntax[at].parent) {
    const Kind kind = syntax.kind(at);
    if (at == kNoNode || kind == Kind::kFor || kind == Kind::kWhile || kind == Kind::kFunction) {
      return false;
    }
  }
  for (NodeId at = clip; at < step; ++at) {
    const Kind kind = syntax.kind(at);
    if (kind == Kind::kReturn || kind == Kind::kBreak || kind == Kind::kContinue) return false;
  }
  // A step within `a and scaler.step(…)` or `… if c else …` may not run.
  for (NodeId at = step; at != kNoNode && at != block; at = syntax[at].parent) {
    const Kind kind = syntax.kind(at);
    if (kind == Kind::kBoolean || kind == Kind::kConditional || kind == Kind::kLambda) return false;
  }
  return true;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(
      facts, Violation::Kind::kClipScaled, sink,
      [](const Violation& v) {
        return "Gradients are clipped while they still carry the loss scale: there is no " +
               v.scaler + ".unscale_(optimizer) between the backward pass and this call.";
      },
      [&](const Violation& v, RawFinding& finding) {
        if (UnscalesBefore(facts, v)) {
          // One more would raise RuntimeError where the other has run.
          finding.form = "unscale-before";
          return;
        }
        std::string optimizer;
        bool is_stepped = false;
        for (const ScalerCall& call : facts.scalers.calls()) {
          if (call.op != ScalerCall::Op::kStep || call.scaler != v.scaler) continue;
          if (!optimizer.empty() && optimizer != call.optimizer)
            return;  // which one is meant is not known
          optimizer = call.optimizer;
          is_stepped = is_stepped || IsSteppedAfter(facts, v.node, call.call);
        }
        if (is_stepped && !optimizer.empty())
          InsertLineBefore(facts, v.node, v.scaler + ".unscale_(" + optimizer + ")", finding);
      });
  ReportViolations(facts, Violation::Kind::kClipAfterStep, sink, [](const Violation& v) {
    return "Gradients are clipped after " + v.scaler +
           ".step() has used them: the clipping changes nothing.";
  });
}

}  // namespace mpnanny::check::clip_before_unscale
