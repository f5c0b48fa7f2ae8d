#include <string>
#include <string_view>

#include "engines/check/facts/autocast_callers.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::dtype_mismatch {
namespace {

// One of two values is 16-bit and the other FP32, both by the text alone.
bool Differ(Value a, Value b) {
  if (a.assumed || b.assumed || a.passed != kNoNode || b.passed != kNoNode) return false;
  return (a.is_16bit() && b.type == Type::kFp32) || (b.is_16bit() && a.type == Type::kFp32);
}

bool Autocast(const FileFacts& facts, NodeId node) {
  Policy policy;
  const struct Autocast* region = facts.regions.At(node);
  // A region whose settings are not known may be on.
  return facts.dtypes->PolicyAt(node, &policy) ||
         (region != nullptr && region->enabled != Tri::kNo);
}

// `product`: autocast converts both sides, so that no caller may be under it.
void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId a, NodeId b,
            std::string_view what, bool product) {
  if (a == kNoNode || b == kNoNode || !Differ(facts.dtypes->Of(a), facts.dtypes->Of(b))) return;
  if (product ? MayRunUnderAutocast(facts, node) : !HoldsForCallers(facts, node, a, b)) return;
  const bool first = facts.dtypes->Of(a).is_16bit();
  sink.Add(node, std::string(what) + " gets the 16-bit " +
                     std::string(facts.syntax.Text(first ? a : b).substr(0, 40)) +
                     " and the FP32 " +
                     std::string(facts.syntax.Text(first ? b : a).substr(0, 40)) +
                     ", and does not convert: RuntimeError.");
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "@" || Autocast(facts, id)) continue;
    Report(facts, sink, id, facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right), "@",
           true);
  }
  ForEachTorchCall(facts, {"matmul", "mm", "bmm", "mv", "linear", "dot"},
                   [&](const TorchCall& call) {
                     if (Autocast(facts, call.node)) return;
                     Report(facts, sink, call.node, call.tensor,
                            ArgumentOf(facts, call, 0, "other"), call.name, true);
                   });
  // These are not converted under autocast either.
  ForEachTorchCall(facts, {"scatter_", "scatter_add_", "index_add_", "index_copy_"},
                   [&](const TorchCall& call) {
                     if (call.is_method)
                       Report(facts, sink, call.node, call.tensor,
                              ArgumentOf(facts, call, 2, "src"), call.name, false);
                   });
  ForEachTorchCall(facts, {"masked_scatter", "masked_scatter_"}, [&](const TorchCall& call) {
    if (call.is_method)
      Report(facts, sink, call.node, call.tensor, ArgumentOf(facts, call, 1, "source"), call.name,
             false);
  });
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    if (!facts.syntax.Is(target, Kind::kSubscript) || !IsTensorIndex(facts, target)) continue;
    Report(facts, sink, id, facts.syntax.Child(target, f.value), facts.syntax.Child(id, f.right),
           "Assignment through an index", false);
  }
}

}  // namespace mpnanny::check::dtype_mismatch
