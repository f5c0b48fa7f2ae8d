#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::variance_cancellation {
namespace {

// A call that averages: its name and what it averages.
struct Average {
  std::string_view function;
  NodeId node = kNoNode;
  NodeId of = kNoNode;
};

Average AverageOf(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  if (OperatorOf(facts, id) == "/") {  // sum / n
    if (const auto sum = TracedCall(facts, facts.syntax.Child(id, PythonFields().left), {"sum"}))
      return {"sum /", sum->node, sum->tensor};
  }
  if (!facts.syntax.Is(id, Kind::kCall)) return {};
  const auto call = TorchCallAt(facts, id);
  if (call && (call->name == "mean" || call->name == "sum" || call->name == "avg_pool1d" ||
               call->name == "avg_pool2d" || call->name == "avg_pool3d" || call->name == "conv1d" ||
               call->name == "conv2d" || call->name == "conv3d"))
    return {call->name, id, call->tensor};
  // self.pool(x * x) - self.pool(x) ** 2: any one function of both.
  const NodeId argument = facts.names.Argument(id, 0, "");
  if (argument == kNoNode || (call && !call->is_method)) return {};
  return {facts.syntax.Text(facts.syntax.Child(id, PythonFields().function)), id, argument};
}

// x ** 2 * weight, weight * x ** 2.
bool HoldsSquare(const FileFacts& facts, NodeId expression) {
  const NodeId id = Traced(facts, expression);
  return OperatorOf(facts, id) == "*" &&
         (SquareOf(facts, facts.syntax.Child(id, PythonFields().left)) != kNoNode ||
          SquareOf(facts, facts.syntax.Child(id, PythonFields().right)) != kNoNode);
}

// x * y or a square.
bool IsProduct(const FileFacts& facts, NodeId expression) {
  return SquareOf(facts, expression) != kNoNode ||
         OperatorOf(facts, Traced(facts, expression)) == "*";
}

// The averages in `mu ** 2` or `mu1 * mu2`; the first is empty if it is neither.
std::pair<Average, Average> AveragesIn(const FileFacts& facts, NodeId expression) {
  if (const NodeId base = SquareOf(facts, expression); base != kNoNode) {
    const Average average = AverageOf(facts, base);
    return {average, average};
  }
  const NodeId id = Traced(facts, expression);
  if (OperatorOf(facts, id) != "*") return {};
  return {AverageOf(facts, facts.syntax.Child(id, PythonFields().left)),
          AverageOf(facts, facts.syntax.Child(id, PythonFields().right))};
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "-") continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    const Average squares = AverageOf(facts, left);
    if (squares.node == kNoNode || !IsProduct(facts, squares.of)) continue;
    // Weights that sum to one make a mean of a sum.
    if (squares.function == "sum" && !HoldsSquare(facts, squares.of)) continue;
    const auto [a, b] = AveragesIn(facts, right);
    if (a.node == kNoNode || b.node == kNoNode || a.function != squares.function ||
        b.function != squares.function)
      continue;
    Value type = facts.dtypes->Of(squares.node);
    if (!type.is_16bit()) type = facts.dtypes->Of(a.node);
    if (!type.is_16bit() || !MayTrain(facts, id)) continue;
    RawFinding& finding = sink.Add(
        id, std::string("A variance as the mean of the squares less the square of the mean, of ") +
                (type.is_fp16() ? "FP16" : "16-bit") +
                " values: where the mean is large beside the deviation, nothing but rounding is "
                "left.");
    NoteAssumed(type, finding);
  }
}

}  // namespace mpnanny::check::variance_cancellation
