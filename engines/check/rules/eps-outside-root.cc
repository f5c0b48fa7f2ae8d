#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::eps_outside_root {
namespace {

constexpr double kLargestEpsilon = 1e-2;

// `sum` is root + epsilon, where the root's argument may be zero.
void Report(const FileFacts& facts, Sink& sink, NodeId sum, NodeId root, NodeId epsilon) {
  const auto eps = Constant(facts, epsilon);
  if (!eps || *eps <= 0 || *eps > kLargestEpsilon || !MayTrain(facts, sum)) return;
  const auto call = TorchCallAt(facts, root);
  if (!call || (call->name != "sqrt" && call->name != "rsqrt")) return;
  const std::string_view zero = ZeroForm(facts, call->tensor);
  if (zero.empty()) return;
  const bool inverse = call->name == "rsqrt";
  sink.Add(sum, "The epsilon is added behind " + std::string(call->name) + "() of " +
                    std::string(zero) + ": where that is 0, " +
                    (inverse ? "the root is infinite already."
                             : "the root's derivative is infinite, and 0 times it is NaN."));
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "+") continue;
    const NodeId left = facts.syntax.Unwrap(facts.syntax.Child(id, f.left));
    const NodeId right = facts.syntax.Unwrap(facts.syntax.Child(id, f.right));
    Report(facts, sink, id, left, right);
    Report(facts, sink, id, right, left);
  }
}

}  // namespace mpnanny::check::eps_outside_root
