#include "tools/static_check/candidates/hazards.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check {
namespace {

constexpr double kFp16Tiny = 0x1p-14;  // its smallest normal number

// Expressions that a value is looked for in: its own, and those that views and moves lead to.
constexpr int kMostViews = 6;
NodeId BehindViews(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  for (int step = 0; step < kMostViews; ++step) {
    if (facts.syntax.Is(id, Kind::kSubscript)) {
      id = Traced(facts, facts.syntax.Child(id, PythonFields().value));
      continue;
    }
    const auto call = TracedCall(facts, id,
                                 {"view", "reshape", "unsqueeze", "squeeze", "expand", "expand_as",
                                  "permute", "transpose", "t", "contiguous", "flatten", "repeat",
                                  "detach", "clone", "to", "cuda", "type_as", "requires_grad_"});
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
    return number ? std::fabs(*number) > kFp16RoundsToZero : facts.syntax.Is(node, Kind::kAttribute);
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
  for (const std::string_view positive : {"exp", "softplus", "add", "max", "maximum", "softmax",
                                          "sigmoid", "add_", "nan_to_num", "where"}) {
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
    "bmm", "matmul", "mm", "einsum", "scatter_add", "scatter_add_", "index_add", "index_add_", "dot"};
const std::initializer_list<std::string_view> kSizes = {
    "sum", "norm", "mean", "std", "var", "abs", "amax", "max", "count_nonzero", "vector_norm",
    "cumsum", "prod", "det", "logdet", "min", "amin", "relu", "sqrt"};
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

bool BeyondFp16(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return AnyConstant(facts, at, [](double c) { return std::isfinite(c) && std::fabs(c) > kFp16Max; });
}

// finfo(x.dtype).min added to something is -inf where both are the smallest.
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
  return AnyConstant(facts, at, [](double c) {
    return std::fabs(c) < 1 && std::fabs(c) >= kBf16RoundsToOne;
  });
}

bool Unbounded(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return !IsBoundedAbove(facts, at.left, 11.0);
}

bool MayBeZero(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return !IsKeptFromZero(facts, at.left);
}

bool OfSigmoid(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, {"sigmoid", "softmax", "tanh"});
}

// x / x.norm(), a / b.sum(-1): a size that may be zero, or is tiny.
bool BySize(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const NodeId by = BehindViews(facts, at.right);
  if (IsKeptFromZero(facts, at.right)) return false;
  return IsCallOf(facts, at.right, kSizes) || IsSquare(facts, by);
}

// x / (s + 1e-6): 1 / 1e-6 is more than FP16 holds.
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

// E[x^2] - E[x]^2
bool DifferenceOfMoments(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsOfSquares(facts, at.left) && IsSquare(facts, at.right);
}

// |x|^2 + |y|^2 - 2xy
bool ExpandedDistance(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  const Fields& f = PythonFields();
  const NodeId right = Traced(facts, at.right);
  const auto product = [&](NodeId id) {
    return OperatorOf(facts, Traced(facts, id)) == "@" ||
           IsCallOf(facts, id, {"matmul", "mm", "bmm", "einsum"});
  };
  if (OperatorOf(facts, right) != "*") return false;
  for (const uint16_t side : {f.left, f.right}) {
    if (facts.bindings.Number(facts.syntax.Child(right, side)) == 2.0)
      return product(facts.syntax.Child(right, side == f.left ? f.right : f.left));
  }
  return false;
}

bool OfPositions(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, kPositions);
}

bool EitherOfPositions(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, kPositions) || IsCallOf(facts, at.right, kPositions);
}

// arange(n, dtype=x.dtype): of a type that follows something else.
bool TypedLikeActivations(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  const NodeId dtype = facts.names.Argument(at.node, -1, "dtype");
  return dtype != kNoNode && types.Of(at.node).type != Shown::kFp32 &&
         types.Of(at.node).type != Shown::kIndex;
}

// Written by a type that nothing in the text ties to the other's.
bool Untied(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  if (at.left == kNoNode || at.right == kNoNode) return false;
  const ShownType left = types.Of(at.left);
  const ShownType right = types.Of(at.right);
  if (left.type == Shown::kNumber || right.type == Shown::kNumber) return false;
  if (left.type == Shown::kIndex || right.type == Shown::kIndex) return false;
  if (left.type == right.type && left.type != Shown::kUnknown) return false;
  // Both lead to one value.
  return left.because == kNoNode || left.because != right.because || left.type != right.type ||
         !SameText(facts, left.because, right.because);
}

// A product of something that is FP32 for certain with something that may be 16-bit.
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

// self.mlp(embedding(t)): what comes out of a factory or a cast to FP32.
bool Fp32Input(const FileFacts&, ValueTypes& types, const Occurrence& at) {
  return at.left != kNoNode && types.Of(at.left).type == Shown::kFp32;
}

// x + torch.zeros(n, m): of a tensor that is made without a type, in a function that gets tensors.
bool Fp32TensorJoins(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  std::vector<NodeId> operands = {at.left, at.right};
  if (at.is_call) {
    for (const NodeId argument : facts.names.Arguments(at.node)) {
      const NodeId id = facts.syntax.Unwrap(argument);
      if (facts.syntax.Is(id, Kind::kList) || facts.syntax.Is(id, Kind::kTuple)) {
        for (const NodeId part : facts.syntax.Children(id)) operands.push_back(part);
      }
    }
  }
  bool factory = false;
  bool open = false;
  for (const NodeId operand : operands) {
    if (operand == kNoNode) continue;
    const ShownType type = types.Of(operand);
    open = open || type.type == Shown::kUnknown || type.type == Shown::kHalf;
    // A cast to FP32 is somebody's decision; a factory without a type is none.
    factory = factory || (type.type == Shown::kFp32 && facts.syntax.Is(type.because, Kind::kCall) &&
                          facts.names.Argument(type.because, -1, "dtype") == kNoNode &&
                          !facts.names.Callee(type.because).empty());
  }
  return factory && open;
}

// Written through a mask or through a list of places, which does not convert.
bool UntiedThroughIndex(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  return IsTensorIndex(facts, facts.syntax.Unwrap(at.left)) && Untied(facts, types, at);
}

// loss.half(), logits.half(): of something that is known to be FP32, or not known at all.
bool ToHalf(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  if (types.Of(at.node).type != Shown::kHalf) return false;
  return facts.syntax.FunctionOf(at.node) != 0;
}

// decay * average + (1 - decay) * x, average.mul_(d).add_(…), average.lerp_(x, w)
bool IsAverage(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  if (at.name == "lerp_" || at.name == "_foreach_lerp_") return true;
  return at.name == "add_" && IsCallOf(facts, at.left, {"mul_"});
}

// total += loss inside of a loop, on a tensor.
bool InLoop(const FileFacts& facts, ValueTypes& types, const Occurrence& at) {
  if (LoopOf(facts, at.node) == kNoNode) return false;
  const ShownType right = types.Of(at.right);
  return right.type == Shown::kHalf;
}

// floor(keep + rand_like(x))
bool OfRandom(const FileFacts& facts, ValueTypes&, const Occurrence& at) {
  return IsCallOf(facts, at.left, {"rand_like", "rand"}) ||
         IsCallOf(facts, at.right, {"rand_like", "rand"});
}

// x.float() @ w: autocast takes the cast back.
bool AfterCastUp(const FileFacts&, ValueTypes& types, const Occurrence& at) {
  const auto fp32 = [&](NodeId id) { return id != kNoNode && types.Of(id).type == Shown::kFp32; };
  return fp32(at.left) || fp32(at.right);
}

constexpr std::string_view kProducts = "matmul mm bmm einsum linear baddbmm addmm @ outer ger";

constexpr Hazard kTable[] = {
    // --- range ---
    {"mask-const-overflow",
     "masked_fill masked_fill_ fill_ full full_like new_full where clamp clamp_ clip pad * + - []= += -=",
     BeyondFp16, Judged::kLeft, Harm::kRaises, true, "any",
     "a constant above 65504 meets a tensor: masked_fill and fill_ raise in FP16, arithmetic gives inf",
     "Can this tensor be FP16? torch.finfo(x.dtype).min fits every type."},
    {"mask-const-overflow", "* +", SmallestOfType, Judged::kEither, Harm::kNonFinite, false, "any",
     "the smallest number of a type is added or multiplied: a second mask on top gives -inf, and another type may not hold it",
     "Is anything added to it afterwards, or is it cast to a narrower type?"},
    {"eps-underflow-fp16", "+ += clamp clamp_ clamp_min clip maximum add add_ max", RoundsToZero,
     Judged::kLeft, Harm::kNonFinite, true, "any",
     "an epsilon of at most 2.98e-8 is zero in FP16: what it guards is not guarded",
     "Can this tensor be FP16, and can it be zero?"},
    {"eps-underflow-fp16", "normalize layer_norm batch_norm group_norm cosine_similarity pairwise_distance",
     EpsRoundsToZero, Judged::kLeft, Harm::kNonFinite, true, "",
     "an eps= of at most 2.98e-8 is zero in FP16", "Can this tensor be FP16, and can its norm be zero?"},
    {"exp-overflow-half", "exp expm1 exp_ exp2 cosh sinh", Unbounded, Judged::kLeft, Harm::kNonFinite,
     true, "", "exp is infinite above 11.09 in FP16, and nothing limits its argument here",
     "How large can the argument get?"},
    {"reduction-in-half", "sum nansum", OfSquares, Judged::kLeft, Harm::kNonFinite, true, "",
     "a sum of squares: above 65504 it is infinite in FP16 (256 values of 16)",
     "How many values are summed, and how large are they?"},
    {"rms-norm-in-half", "mean", OfSquares, Judged::kLeft, Harm::kNonFinite, true, "any",
     "the square of 256 is already infinite in FP16; a mean of squares is taken of infinities",
     "Can a value be above 255 (or a square below 6e-8 matter)?"},
    {"norm-in-half", "norm vector_norm renorm dist", nullptr, Judged::kLeft, Harm::kNonFinite, true,
     "", "a norm in FP16 overflows above 65504 and is stored in 11 bits",
     "Is the tensor 16-bit here, and how large is its norm?"},
    {"reduction-in-half", "/ div div_ true_divide", SumDividedLater, Judged::kLeft, Harm::kNonFinite,
     true, "sum", "a sum is taken before it is divided: in FP16 it may pass 65504 first",
     "How large is the sum before the division? Divide first, or sum in FP32."},
    {"reduction-in-half", "/ div div_ true_divide", ProductDividedLater, Judged::kLeft,
     Harm::kNonFinite, true, "any",
     "a product of matrices is divided afterwards: in FP16 it may pass 65504 first",
     "How large is it before the division? Divide one factor first."},
    {"reduction-in-half", "sum", OfExponentials, Judged::kLeft, Harm::kNonFinite, false, "",
     "exponentials are summed by hand: in 16 bits small ones vanish beside the sum, large ones overflow",
     "Is this 16-bit? logsumexp of x.float() is safe."},
    // --- zero ---
    {"log-no-eps", "log log2 log10 log_", MayBeZero, Judged::kLeft, Harm::kNonFinite, false, "",
     "the logarithm of zero is -inf, and FP16 rounds everything below 2.98e-8 to zero",
     "Can the argument be zero or round to it?"},
    {"log-of-sigmoid", "log log2 log10", OfSigmoid, Judged::kLeft, Harm::kNonFinite, false, "any",
     "log of a sigmoid or softmax: -inf where it rounds to 0, no gradient where it rounds to 1",
     "logsigmoid and log_softmax do it in one step; how confident does the model get?"},
    {"sqrt-div-no-eps", "sqrt rsqrt sqrt_ rsqrt_ reciprocal", MayBeZero, Judged::kLeft,
     Harm::kNonFinite, false, "",
     "the root of zero has an infinite gradient, and what is tiny in FP32 is zero in FP16",
     "Can the argument be zero or round to it?"},
    {"sqrt-div-no-eps", "/ div", BySize, Judged::kRight, Harm::kNonFinite, false, "any",
     "a division by a norm, a sum or a deviation that nothing keeps from zero",
     "Can the divisor be zero, or round to zero in FP16?"},
    {"sqrt-div-no-eps", "/ div", BySmall, Judged::kRight, Harm::kNonFinite, true, "any",
     "a division by a value that may be as small as its epsilon: above 65504 the quotient is infinite in FP16",
     "Can the rest of the divisor vanish?"},
    {"domain-no-clamp", "acos asin atanh arccos arcsin arctanh erfinv acos_ asin_", MayBeZero,
     Judged::kLeft, Harm::kNonFinite, false, "",
     "outside of [-1, 1] it is NaN, and a 16-bit product of unit vectors rounds above 1",
     "Is the argument clamped inside of (-1, 1)?"},
    {"clamp-bound-rounds-to-one", "clamp clamp_ clip clamp_max", NearOne, Judged::kLeft,
     Harm::kNonFinite, false, "any", "the upper bound rounds to exactly 1 in 16 bits",
     "Is the tensor 16-bit, and what follows: log(1 - x), acos, atanh?"},
    // --- cancellation and rounding ---
    {"variance-cancellation", "-", DifferenceOfMoments, Judged::kLeft, Harm::kWrong, false, "any",
     "E[x^2] - E[x]^2: two near numbers are subtracted, and the result may be negative",
     "Is this 16-bit, and is the mean large beside the deviation?"},
    {"variance-cancellation", "var std var_mean std_mean", nullptr, Judged::kLeft, Harm::kNonFinite,
     true, "", "a variance overflows FP16 from deviations of 256 on and is zero below 2.4e-4",
     "Is the tensor 16-bit here?"},
    {"distance-cancellation", "- add_ baddbmm addmm_", ExpandedDistance, Judged::kRight, Harm::kWrong,
     false, "any",
     "|x|^2 + |y|^2 - 2xy: autocast runs the product in 16 bits, and the difference keeps its error",
     "How small are the distances beside the norms?"},
    {"distance-cancellation", "cdist", nullptr, Judged::kLeft, Harm::kWrong, false, "",
     "cdist expands the square: in 16 bits small distances are lost", "Is it 16-bit here?"},
    {"softmax-half-no-dtype", "softmax log_softmax softmin logsumexp", nullptr, Judged::kLeft,
     Harm::kRounded, false, "",
     "a softmax that is 16-bit outside of autocast sums 16-bit exponentials",
     "Is it 16-bit here? softmax(x, dtype=torch.float32)."},
    {"reduction-in-half", "sum nansum prod", nullptr, Judged::kLeft, Harm::kRounded, false, "",
     "a sum is stored in the type of its input: FP16 is infinite above 65504 and counts by twos from 2048 on, BF16 from 256 on",
     "Is the tensor 16-bit here, and how many values are summed?"},
    {"cumsum-in-half", "cumsum cumprod logcumsumexp", nullptr, Judged::kLeft, Harm::kRounded, false,
     "", "a cumulative sum rounds at every step", "Is the tensor 16-bit here?"},
    {"reduction-in-half", "scatter_add_ scatter_add index_add_ index_add scatter_reduce scatter_reduce_ segment_reduce",
     nullptr, Judged::kLeft, Harm::kWrong, false, "any",
     "each value is rounded as it is added: small ones are lost beside a large sum",
     "What type has the tensor that is added to?"},
    {"positions-in-half", "arange linspace", TypedLikeActivations, Judged::kNothing, Harm::kWrong,
     false, "any", "positions in 16 bits: from 2048 (FP16) or 256 (BF16) on neighbours are the same number",
     "How many positions are there, and which type is it?"},
    {"positions-in-half", "to type_as half bfloat16 type", OfPositions, Judged::kNothing,
     Harm::kWrong, false, "any",
     "positions are cast: from 2048 (FP16) or 256 (BF16) on neighbours are the same number",
     "To which type? Compute with them in FP32 and cast the result."},
    {"rotary-matmul-under-autocast", kProducts, EitherOfPositions, Judged::kNothing, Harm::kWrong,
     false, "any", "positions are multiplied by an operator that autocast runs in 16 bits",
     "Can autocast be on here? autocast(enabled=False) around it keeps FP32."},
    {"rotary-matmul-under-autocast", kProducts, AfterCastUp, Judged::kNothing, Harm::kWrong, false,
     "any", "an operand is FP32 on purpose, and autocast runs the product in 16 bits nevertheless",
     "Can autocast be on here, and does the result need FP32?"},
    {"dropout-mask-in-half", "+", OfRandom, Judged::kNothing, Harm::kRounded,
     false, "any", "random numbers of 16 bits have few values: what is kept is not the share that was asked for",
     "Which type do the random numbers have?"},
    {"ema-in-half", "lerp_ _foreach_lerp_ add_", IsAverage, Judged::kLeft, Harm::kWrong, false, "any",
     "a moving average: in 16 bits an update of less than half an ulp is lost",
     "Which type has the average, and how small is 1 - decay?"},
    {"running-sum-in-half", "+=", InLoop, Judged::kRight, Harm::kWrong, false, "any",
     "16-bit values are added up in a loop: the sum stops growing at 2048 (FP16) or 256 (BF16) times what is added",
     "How many are added up?"},
    // --- types that meet ---
    {"dtype-mismatch", "index_add_ index_copy_ scatter_ scatter_add_ masked_scatter_ masked_scatter index_put_ index_put scatter index_add scatter_add",
     Untied, Judged::kMixed, Harm::kRaises, false, "any",
     "this operator does not convert: it raises where one tensor is 16-bit and the other is not",
     "Do both always have one type, also under autocast?"},
    {"dtype-mismatch", "[]=", UntiedThroughIndex, Judged::kMixed, Harm::kRaises, false, "any",
     "an assignment through a mask or indices does not convert: it raises where the types differ",
     "Do both always have one type, also under autocast?"},
    {"dtype-mismatch", kProducts, Fp32MeetsUnknown, Judged::kMixed, Harm::kRaises, false, "",
     "a product of something FP32 with something that may be 16-bit raises outside of autocast",
     "Is the model ever cast (half, bfloat16, DeepSpeed, from_pretrained with a dtype)?"},
    {"dtype-mismatch", "layer()", Fp32Input, Judged::kNothing, Harm::kRaises, false, "linear",
     "a layer is handed FP32 that its own function makes: it raises where the model is cast to 16 bits",
     "Is the model ever cast as a whole?"},
    {"dtype-mismatch", "+ - * cat stack add sub mul where", Fp32TensorJoins, Judged::kNothing,
     Harm::kRounded, false, "any",
     "an FP32 tensor joins values that may be 16-bit: the result is FP32, and so is what follows",
     "Should the result stay in the type of the activations? dtype=x.dtype, or .to(x.dtype)."},
    {"dtype-mismatch", "conv1d conv2d conv3d lstm scaled_dot_product_attention", Fp32MeetsUnknown,
     Judged::kMixed, Harm::kRaises, false, "",
     "inputs and weights of different types raise outside of autocast",
     "Is the model ever cast as a whole?"},
    {"no-half-kernel", "svd svdvals eigh eig inv inverse pinv pinverse cholesky cholesky_solve solve lstsq qr det slogdet logdet matrix_rank matrix_exp eigvalsh lu householder_product symeig triangular_solve solve_triangular histc",
     nullptr, Judged::kLeft, Harm::kRaises, false, "any",
     "there is no 16-bit kernel for this: it raises, also under autocast", "Can its input be 16-bit? Cast to FP32 first."},
    {"no-half-kernel", "fft rfft irfft ifft fft2 rfft2 irfft2 ifft2 fftn rfftn irfftn stft istft", nullptr,
     Judged::kLeft, Harm::kRaises, false, "any",
     "FFTs take FP16 only in powers of two on CUDA, and no BF16", "Can its input be 16-bit? Cast to FP32 first."},
    {"no-half-kernel", "numpy", nullptr, Judged::kLeft, Harm::kRaises, false, "any",
     "NumPy has no BF16: numpy() raises for it", "Can the tensor be BF16? .float().numpy()."},
    {"manual-half-cast", "half to bfloat16 type", ToHalf, Judged::kNothing, Harm::kWrong, false, "any",
     "a value is cast to 16 bits by hand, whatever its range", "Does what follows (a loss, a sum, a mask, an update) need FP32?"},
    {"loss-needs-fp32",
     "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss kl_div binary_cross_entropy_with_logits binary_cross_entropy huber_loss ctc_loss gaussian_nll_loss cosine_embedding_loss",
     nullptr, Judged::kLeft, Harm::kRounded, false, "",
     "a loss of 16-bit predictions outside of autocast is computed and stored in 16 bits",
     "Is it called under autocast, or is the prediction cast to FP32?"},
    {"bce-under-autocast", "binary_cross_entropy", nullptr, Judged::kNothing, Harm::kRaises, false,
     "any", "CUDA autocast refuses binary_cross_entropy", "Can it be called under CUDA autocast?"},
    {"nan-hiding", "nan_to_num nan_to_num_", nullptr, Judged::kNothing, Harm::kWrong, false, "any",
     "NaN or inf is replaced, and what made it goes on", "What makes it non-finite?"},
};

}  // namespace

std::span<const Hazard> Hazards() { return kTable; }

}  // namespace mpnanny::static_check
