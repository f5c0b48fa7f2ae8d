#include "engines/check/candidates/operand_forms.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <vector>

#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

constexpr double kFp16Tiny = 0x1p-14;    // its smallest normal number
constexpr double kLargestEpsilon = 0.1;  // a larger constant means something else

// Expressions that a value is looked for in: its own, and those that views and moves lead to.
constexpr int kMostViews = 6;
NodeId BehindViews(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  for (int step = 0; step < kMostViews; ++step) {
    if (facts.syntax.Is(id, Kind::kSubscript)) {
      id = Traced(facts, facts.syntax.Child(id, PythonFields().value));
      continue;
    }
    const auto call =
        TracedCall(facts, id, {"view",      "reshape", "unsqueeze",      "squeeze", "expand",
                               "expand_as", "permute", "transpose",      "t",       "contiguous",
                               "flatten",   "repeat",  "detach",         "clone",   "to",
                               "cuda",      "type_as", "requires_grad_", "float",   "double"});
    if (!call || call->tensor == kNoNode) return id;
    id = Traced(facts, call->tensor);
  }
  return id;
}

bool IsCallOf(const FileFacts& facts, NodeId expression,
              std::initializer_list<std::string_view> names) {
  return TracedCall(facts, BehindViews(facts, expression), names).has_value();
}

// A constant that is added, or a bound below, large enough for FP16.
bool IsKeptFromZero(const FileFacts& facts, NodeId expression) {
  const Fields& f = PythonFields();
  const NodeId id = BehindViews(facts, expression);
  const std::string_view op = OperatorOf(facts, id);
  const auto large = [&](NodeId node) {
    if (node == kNoNode) return false;
    const auto number = Constant(facts, node);
    return number ? std::fabs(*number) > kFp16RoundsToZero
                  : facts.syntax.Is(node, Kind::kAttribute);
  };
  if (op == "+") {
    return large(facts.syntax.Child(id, f.left)) || large(facts.syntax.Child(id, f.right));
  }
  const auto call = TorchCallAt(facts, id);
  if (!call) return false;
  for (const std::string_view bound : {"clamp", "clamp_", "clip", "clamp_min", "clamp_min_"}) {
    if (call->name != bound) continue;
    const NodeId least = ArgumentOf(facts, *call, 0, "min");
    return least != kNoNode && (large(least) || !Constant(facts, least));
  }
  // torch.max(x, eps); x.max() is a size.
  if (call->name == "max") return ArgumentOf(facts, *call, 0, "other") != kNoNode;
  for (const std::string_view positive :
       {"exp", "softplus", "add", "maximum", "softmax", "sigmoid", "add_", "nan_to_num", "where"}) {
    if (call->name == positive) return true;
  }
  return false;
}

bool IsSquare(const FileFacts& facts, NodeId expression) {
  return SquareOf(facts, BehindViews(facts, expression)) != kNoNode;
}

// mean(x ** 2), (x * x).sum()
bool IsOfSquares(const FileFacts& facts, NodeId expression) {
  const auto call = TracedCall(facts, BehindViews(facts, expression), {"sum", "mean", "nansum"});
  return call && IsSquare(facts, call->tensor);
}

const std::initializer_list<std::string_view> kSums = {"sum", "nansum", "cumsum", "prod"};
const std::initializer_list<std::string_view> kAccumulated = {
    "bmm",          "matmul",    "mm",         "einsum", "scatter_add",
    "scatter_add_", "index_add", "index_add_", "dot"};
const std::initializer_list<std::string_view> kSizes = {
    "sum",         "norm",   "mean", "std", "var",    "abs", "amax", "max",  "count_nonzero",
    "vector_norm", "cumsum", "prod", "det", "logdet", "min", "amin", "relu", "sqrt"};
const std::initializer_list<std::string_view> kPositions = {"arange", "linspace", "meshgrid",
                                                            "cumsum", "logspace"};

// All constants that the occurrence names: operands, and arguments of a call.
template <typename Test>
bool AnyConstant(const FileFacts& facts, const Occurrence& at, Test test) {
  const auto matches = [&](NodeId node) {
    if (node == kNoNode) return false;
    const auto number = Constant(facts, node);
    return number && test(*number);
  };
  if (matches(at.right) || (!at.is_call && matches(at.left))) return true;
  if (!at.is_call) return false;
  const std::vector<NodeId> arguments = facts.names.Arguments(at.node);
  return std::any_of(arguments.begin(), arguments.end(), matches);
}

}  // namespace

bool BeyondFp16(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return AnyConstant(facts, at,
                     [](double c) { return std::isfinite(c) && std::fabs(c) > kFp16Max; });
}

bool SmallestOfType(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const Fields& f = PythonFields();
  for (const NodeId side : {at.left, at.right}) {
    const NodeId id = Traced(facts, side);
    if (!facts.syntax.Is(id, Kind::kAttribute)) continue;
    const std::string_view which = facts.syntax.Text(facts.syntax.Child(id, f.attribute));
    const NodeId of = facts.syntax.Unwrap(facts.syntax.Child(id, f.object));
    if ((which == "min" || which == "max") && facts.syntax.Is(of, Kind::kCall) &&
        facts.names.Callee(of) == "torch.finfo")
      return true;
  }
  return false;
}

bool RoundsToZero(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return AnyConstant(facts, at, [](double c) { return c > 0 && c <= kFp16RoundsToZero; });
}

bool EpsRoundsToZero(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const NodeId eps = facts.names.Argument(at.node, -1, "eps");
  if (eps == kNoNode) return false;
  const auto number = Constant(facts, eps);
  return number && *number > 0 && *number <= kFp16RoundsToZero;
}

bool NearOne(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return AnyConstant(facts, at,
                     [](double c) { return std::fabs(c) < 1 && std::fabs(c) >= kBf16RoundsToOne; });
}

bool Unbounded(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return !IsBoundedAbove(facts, at.left, 11.0);
}

bool MayBeZero(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return !IsKeptFromZero(facts, at.left);
}

bool OutsideDomain(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return !IsCallOf(facts, at.left, {"clamp", "clamp_", "clip", "tanh", "sin", "cos"});
}

bool OfSigmoid(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, {"sigmoid", "tanh"});
}

bool OfSoftmax(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, {"softmax"});
}

bool EpsBehindRoot(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const auto root = [&](NodeId side, NodeId other) {
    const auto eps = Constant(facts, other);
    const auto call = TorchCallAt(facts, facts.syntax.Unwrap(side));
    return eps && *eps > 0 && *eps < kLargestEpsilon && call &&
           (call->name == "sqrt" || call->name == "rsqrt") &&
           !ZeroForm(facts, call->tensor).empty();
  };
  return root(at.left, at.right) || root(at.right, at.left);
}

bool OfUnwritten(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const auto is_empty = [&](NodeId value) {
    const Call* const call = facts.names.CallAt(facts.syntax.Unwrap(value));
    return call != nullptr && (call->callee == "torch.empty" ||
                               call->callee == "torch.empty_like" || call->method == "new_empty");
  };
  const auto unwritten = [&](NodeId side) {
    const NodeId id = facts.syntax.Unwrap(side);
    if (is_empty(id)) return true;
    if (!facts.syntax.Is(id, Kind::kIdentifier)) return false;
    const std::vector<Assignment> values = facts.bindings.AssignmentsOf(id);
    return std::any_of(values.begin(), values.end(), [&](const Assignment& one) {
      return one.value != kNoNode && one.target < id && is_empty(one.value);
    });
  };
  return unwritten(at.left) || unwritten(at.right);
}

bool BySize(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const NodeId by = BehindViews(facts, at.right);
  if (IsKeptFromZero(facts, at.right)) return false;
  return IsCallOf(facts, at.right, kSizes) || IsSquare(facts, by);
}

bool BySmall(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const Fields& f = PythonFields();
  const NodeId by = BehindViews(facts, at.right);
  if (OperatorOf(facts, by) != "+") return false;
  for (const uint16_t side : {f.left, f.right}) {
    const auto number = Constant(facts, facts.syntax.Child(by, side));
    if (number && *number > 0 && *number < kFp16Tiny) return true;
  }
  return false;
}

bool SumDividedLater(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, kSums);
}

bool ProductDividedLater(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, kAccumulated) ||
         OperatorOf(facts, BehindViews(facts, at.left)) == "@";
}

bool OfSquares(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsSquare(facts, at.left);
}

bool OfExponentials(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, {"exp"});
}

bool DifferenceOfMoments(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsOfSquares(facts, at.left) && IsSquare(facts, at.right);
}

bool ExpandedDistance(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const Fields& f = PythonFields();
  const NodeId right = Traced(facts, at.right);
  const auto product = [&](NodeId id) {
    return OperatorOf(facts, Traced(facts, id)) == "@" ||
           IsCallOf(facts, id, {"matmul", "mm", "bmm", "einsum"});
  };
  // - 2 * x @ y is (2 * x) @ y.
  if (OperatorOf(facts, right) == "@") {
    const NodeId first = facts.syntax.Unwrap(facts.syntax.Child(right, f.left));
    return OperatorOf(facts, first) == "*" &&
           facts.bindings.Number(facts.syntax.Child(first, f.left)) == 2.0;
  }
  if (OperatorOf(facts, right) != "*") return false;
  for (const uint16_t side : {f.left, f.right}) {
    if (facts.bindings.Number(facts.syntax.Child(right, side)) == 2.0)
      return product(facts.syntax.Child(right, side == f.left ? f.right : f.left));
  }
  return false;
}

// x.dtype
static bool IsDtypeOfAnother(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  return facts.syntax.Is(id, Kind::kAttribute) &&
         facts.syntax.Text(facts.syntax.Child(id, PythonFields().attribute)) == "dtype";
}

bool OfPositions(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  // A move to a device is no cast.
  if (at.name == "to" && types.Of(at.node).type != Shown::kHalf) {
    const std::vector<NodeId> given = facts.names.Arguments(at.node);
    const bool typed = std::any_of(given.begin(), given.end(), [&](NodeId argument) {
      return IsDtypeOfAnother(facts, argument);
    });
    if (!typed && types.Of(at.node).type != Shown::kUnknown) return false;
    if (!typed && given.size() == 1 &&
        !facts.syntax.Is(facts.syntax.Unwrap(given[0]), Kind::kIdentifier))
      return false;
  }
  return IsCallOf(facts, at.left, kPositions);
}

bool EitherOfPositions(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, kPositions) || IsCallOf(facts, at.right, kPositions);
}

bool TypedLikeActivations(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  const NodeId dtype = facts.names.Argument(at.node, -1, "dtype");
  // BF16 holds whole numbers up to 256.
  const NodeId second = facts.names.Argument(at.node, 1, "end");
  const auto end =
      Constant(facts, second == kNoNode ? facts.names.Argument(at.node, 0, "") : second);
  if (end && *end <= 257) return false;
  return dtype != kNoNode && types.Of(at.node).type != Shown::kFp32 &&
         types.Of(at.node).type != Shown::kIndex;
}

// torch.zeros(n, dtype=x.dtype), torch.full_like(x, 0): whoever made it has thought of the type.
static bool FollowsAnotherType(const FileFacts& facts, NodeId made) {
  const auto call = TorchCallAt(facts, made);
  if (!call) return false;
  return call->name.ends_with("_like") || call->name.starts_with("new_") ||
         IsDtypeOfAnother(facts, facts.names.Argument(made, -1, "dtype"));
}

bool TypesMayDiffer(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  if (at.left == kNoNode || at.right == kNoNode) return false;
  const ShownType left = types.Of(at.left);
  const ShownType right = types.Of(at.right);
  if (left.type == Shown::kNumber || right.type == Shown::kNumber) return false;
  if (left.type == Shown::kIndex || right.type == Shown::kIndex) return false;
  if (right.type == Shown::kUnknown && FollowsAnotherType(facts, left.because)) return false;
  if (left.type == right.type && left.type != Shown::kUnknown) return false;
  // Both lead to one value.
  return left.because == kNoNode || left.because != right.because || left.type != right.type ||
         !SameText(facts, left.because, right.because);
}

bool Fp32MeetsUnknown(const FileFacts&, ValueTypes& types, const Occurrence& at) {
  if (at.left == kNoNode || at.right == kNoNode) return false;
  const Shown left = types.Of(at.left).type;
  const Shown right = types.Of(at.right).type;
  const auto fp32 = [](Shown type) { return type == Shown::kFp32; };
  const auto open = [](Shown type) {
    return type == Shown::kUnknown || type == Shown::kHalf || type == Shown::kWeight;
  };
  return (fp32(left) && open(right)) || (fp32(right) && open(left));
}

bool Fp32Input(const FileFacts&, ValueTypes& types, const Occurrence& at) {
  return at.left != kNoNode && types.Of(at.left).type == Shown::kFp32;
}

bool TypesMayDifferThroughIndex(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  return IsTensorIndex(facts, facts.syntax.Unwrap(at.left)) && TypesMayDiffer(facts, types, at);
}

bool ToHalf(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  if (types.Of(at.node).type != Shown::kHalf) return false;
  const std::initializer_list<std::string_view> losses = {"mse_loss", "l1_loss", "smooth_l1_loss",
                                                          "huber_loss", "cross_entropy"};
  if (IsCallOf(facts, at.left, losses)) return true;
  const NodeId list = facts.syntax[at.node].parent;
  const Call* const outer =
      list == kNoNode ? nullptr : facts.names.CallAt(facts.syntax[list].parent);
  return outer != nullptr &&
         (outer->callee == "torch.nn.Parameter" ||
          std::find(losses.begin(), losses.end(), TorchFunction(outer->callee)) != losses.end());
}

bool IsAverage(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  if (at.name == "lerp_" || at.name == "_foreach_lerp_") return true;
  return at.name == "add_" && IsCallOf(facts, at.left, {"mul_"});
}

bool InLoop(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  if (LoopOf(facts, at.node) == kNoNode) return false;
  const ShownType right = types.Of(at.right);
  return right.type == Shown::kHalf;
}

bool OfRandom(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, {"rand_like", "rand"}) ||
         IsCallOf(facts, at.right, {"rand_like", "rand"});
}

bool AfterCastUp(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  const auto cast = [&](NodeId id) {
    if (id == kNoNode) return false;
    const ShownType type = types.Of(id);
    const auto call = TorchCallAt(facts, type.because);
    return type.type == Shown::kFp32 && call && call->is_method &&
           (call->name == "float" || call->name == "double" || call->name == "to");
  };
  return cast(at.left) || cast(at.right);
}

}  // namespace mpnanny::check
