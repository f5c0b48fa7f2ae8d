#include "tools/static_check/mixed_types/no_half_kernel.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/type_ties.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// Of torch.linalg and their older names: LAPACK and its kin know FP32 and FP64.
constexpr std::string_view kLinearAlgebra[] = {"inv",
                                               "inverse",
                                               "pinv",
                                               "pinverse",
                                               "svd",
                                               "svdvals",
                                               "qr",
                                               "eig",
                                               "eigh",
                                               "eigvals",
                                               "eigvalsh",
                                               "symeig",
                                               "cholesky",
                                               "det",
                                               "logdet",
                                               "slogdet",
                                               "solve",
                                               "lstsq",
                                               "lu",
                                               "lu_solve",
                                               "matrix_exp",
                                               "matrix_power",
                                               "inv_ex",
                                               "cholesky_ex",
                                               "cholesky_solve",
                                               "cholesky_inverse",
                                               "solve_triangular",
                                               "triangular_solve",
                                               "svd_lowrank",
                                               "pca_lowrank",
                                               "householder_product",
                                               "matrix_rank",
                                               "cond"};

constexpr std::string_view kTransforms[] = {"fft",   "ifft",   "rfft", "irfft", "fft2",  "ifft2",
                                            "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn",
                                            "stft",  "istft",  "hfft", "ihfft"};

constexpr std::string_view kOthers[] = {"quantile", "nanquantile", "histc",    "histogram",
                                        "cdist",    "pdist",       "polygamma"};

constexpr std::string_view kComplex[] = {"view_as_complex", "complex", "polar"};

// The value has been cast, or is none that a model computes: labels, counts, comparisons.
bool IsSettled(std::string_view text) {
  return HoldsAny(
      text, {".float()", ".double()", "float32", "float64", ".long()", ".int()",     ".bool()",
             ".byte()",  "uint8",     "argmax",  "argsort", "dtype",   "from_numpy", ".to(torch.",
             "nonzero",  "int64",     " > ",     " < ",     " == ",    "_ids",       "labels",
             "target",   "indices",   "index",   "_idx",    "mask"});
}

// x of x.detach().cpu().numpy().
NodeId Source(const FileFacts& facts, NodeId expression) {
  NodeId id = facts.syntax.Unwrap(expression);
  for (int depth = 0; depth < 8; ++depth) {
    const Call* call = facts.names.CallAt(id);
    if (call != nullptr && call->receiver != kNoNode &&
        HoldsAny(call->method, {"detach", "cpu", "squeeze", "clone", "contiguous", "view",
                                "reshape", "permute", "transpose", "flatten", "resolve", "to"})) {
      id = call->receiver;
    } else if (facts.syntax.Is(id, Kind::kAttribute) &&
               facts.syntax.Text(facts.syntax.Child(id, PythonFields().attribute)) == "data") {
      id = facts.syntax.Unwrap(facts.syntax.Child(id, PythonFields().object));
    } else {
      break;
    }
  }
  return id;
}

bool IsSettledBefore(const FileFacts& facts, NodeId expression) {
  for (const NodeId value : ValuesOf(facts, expression)) {
    const std::string_view text = facts.syntax.Text(value);
    if (text.size() > 400 || IsSettled(text)) return true;
  }
  return false;
}

// y = model(x).cpu().numpy(): numpy has no BF16.
void GuessArrays(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("numpy")) {
    if (call->receiver == kNoNode || !call->callee.empty() ||
        !facts.names.Arguments(call->node).empty())
      continue;
    const NodeId source = Source(facts, call->receiver);
    if (IsSettled(facts.syntax.Text(call->receiver)) ||
        IsSettledBefore(facts, RootOf(facts, source)))
      continue;
    const HalfGuess guess = HalfGuess::EvenUntrained(facts, call->node);
    if (facts.syntax.FunctionOf(call->node) == 0 || !guess.any() || !guess.MayBeHalf(source) ||
        guess.IsKnown(source))
      continue;
    found->push_back({call->node,
                      "numpy has no BF16: where the model or autocast is, this raises TypeError "
                      "(unsupported ScalarType BFloat16). .float() first."});
  }
}

template <typename Words>
void GuessNamed(const FileFacts& facts, const Words& names, bool method, const std::string& why,
                std::vector<UnlikeWrite>* found) {
  for (const std::string_view name : names) {
    for (const Call* one : facts.names.CallsNamed(name)) {
      const bool function = one->callee.starts_with("torch.");
      if (!function && !(method && one->callee.empty() && one->receiver != kNoNode)) continue;
      const auto call = function ? std::nullopt : ReadTorchCall(facts, *one);
      const NodeId tensor = function ? facts.names.Argument(one->node, 0, "input")
                            : call   ? call->tensor
                                     : kNoNode;
      if (tensor == kNoNode || facts.syntax.Text(tensor).starts_with("self.") ||
          IsSettledBefore(facts, RootOf(facts, Source(facts, tensor))) ||
          IsSettled(facts.syntax.Text(tensor)))
        continue;
      const HalfGuess guess = HalfGuess::EvenUntrained(facts, one->node);
      // Of what a list or a setting gives nothing is known either.
      const Type type = facts.dtypes->Of(tensor).type;
      if (facts.syntax.FunctionOf(one->node) == 0 || !guess.any() || guess.IsKnown(tensor) ||
          facts.bindings.Number(tensor) || type == Type::kFp32 || type == Type::kIndex ||
          type == Type::kNumber)
        continue;
      found->push_back({one->node, std::string(name) + why});
    }
  }
}

// self.orthogonalize(g) of `def orthogonalize(g): return torch.linalg.qr(g)`: who hands a tensor to
// a function that decomposes it as it comes is the one to cast it.
void GuessThrough(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Syntax& syntax = facts.syntax;
  std::map<const Function*, std::set<std::string>> taken;  // parameters that are decomposed
  for (const std::string_view name : kLinearAlgebra) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.")) continue;
      const Function* function = facts.bindings.FunctionAt(syntax.FunctionOf(call->node));
      const NodeId tensor = facts.names.Argument(call->node, 0, "input");
      if (function == nullptr || function->node == 0 || tensor == kNoNode ||
          HoldsAny(syntax.Text(function->node),
                   {".float()", "float32", ".double()", "float64", ".dtype", "dtype="}))
        continue;
      for (NodeId id = tensor; id < syntax[tensor].after; ++id) {
        if (syntax.Is(id, Kind::kIdentifier) &&
            std::find(function->parameters.begin(), function->parameters.end(), syntax.Text(id)) !=
                function->parameters.end())
          taken[function].emplace(syntax.Text(id));
      }
    }
  }
  if (taken.empty()) return;
  for (const Call& call : facts.names.calls()) {
    const auto it = taken.find(facts.bindings.Callee(call.node));
    if (it == taken.end() || syntax.FunctionOf(call.node) == 0) continue;
    const HalfGuess guess = HalfGuess::EvenUntrained(facts, call.node);
    for (size_t i = 0; i < it->first->parameters.size(); ++i) {
      const std::string& name = it->first->parameters[i];
      const NodeId given = facts.names.Argument(call.node, static_cast<int>(i), name);
      if (given == kNoNode || !it->second.contains(name) || IsSettled(syntax.Text(given)) ||
          IsSettledBefore(facts, RootOf(facts, Source(facts, given))) || !guess.any() ||
          guess.IsKnown(given))
        continue;
      found->push_back(
          {call.node, it->first->name + "() decomposes " + name +
                          " in the type that it is given, and such operators have no "
                          "16-bit kernels: with BF16 parameters or activations this "
                          "raises RuntimeError. .float() first, and the result back."});
      break;
    }
  }
}

// F.interpolate(pos_embed, mode="bicubic"): of a table of positions or weights, which a checkpoint
// may give in 16 bits.
void GuessResizes(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("interpolate")) {
    const NodeId tensor = facts.names.Argument(call->node, 0, "input");
    const NodeId function = facts.syntax.FunctionOf(call->node);
    if (!call->callee.starts_with("torch.") || tensor == kNoNode || function == 0) continue;
    const std::string_view own =
        facts.syntax.Text(facts.syntax.Child(function, PythonFields().name));
    const std::string_view mode = facts.syntax.Text(facts.names.Argument(call->node, -1, "mode"));
    if (!HoldsAny(facts.syntax.Text(tensor), {"pos", "embed", "weight", "table", "bias"}) &&
        !HoldsAny(own, {"pos", "embed", "weight", "table"}) && !Holds(mode, "cubic"))
      continue;
    if (IsSettledBefore(facts, tensor) || !HalfGuess::EvenUntrained(facts, call->node).any() ||
        HalfGuess::EvenUntrained(facts, call->node).IsKnown(tensor))
      continue;
    found->push_back({call->node,
                      "interpolate has no 16-bit kernel on the CPU, in older versions none for "
                      "BF16, and rounds what it blends: positions and weights are to be resized "
                      "in FP32 and cast back."});
  }
}

// torch.sparse.mm(adj, x), adj.to_sparse_csr() @ x: takes one type, and on many devices no BF16.
void GuessSparse(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const auto sparse = [&](NodeId expression) {
    if (expression == kNoNode) return false;
    for (const NodeId value : ValuesOf(facts, expression)) {
      const std::string_view text = facts.syntax.Text(value);
      if (text.size() < 200 && HoldsAny(text, {"csr", "sparse", "coo"}) && !CastsAway(text))
        return true;
    }
    return false;
  };
  const auto report = [&](NodeId node, NodeId a, NodeId b) {
    if (!sparse(a) && !sparse(b)) return;
    if (IsTied(facts, a) || IsTied(facts, b) || IsSettled(facts.syntax.Text(a)) ||
        IsSettled(facts.syntax.Text(b)) || !HalfGuess::EvenUntrained(facts, node).any())
      return;
    found->push_back({node,
                      "A sparse matrix has the type it was made with, and this product takes one "
                      "type for both: beside 16-bit activations it raises RuntimeError, in BF16 "
                      "there is often no kernel at all."});
  };
  if (!HoldsAny(facts.syntax.text(), {"csr", "sparse"})) return;
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) == "@")
      report(id, facts.syntax.Child(id, PythonFields().left),
             facts.syntax.Child(id, PythonFields().right));
  }
  for (const std::string_view name : {"mm", "matmul"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->callee.starts_with("torch.sparse.")) {
        const NodeId b = facts.names.Argument(call->node, 1, "mat2");
        if (b != kNoNode && !IsSettled(facts.syntax.Text(b)) && !IsTied(facts, b) &&
            HalfGuess::EvenUntrained(facts, call->node).any())
          found->push_back({call->node,
                            "A sparse product takes one type for both factors and has no BF16 "
                            "kernel on many devices: cast both to FP32, and the result back."});
      } else if (const auto torch = ReadTorchCall(facts, *call)) {
        report(call->node, torch->tensor, ArgumentOf(facts, *torch, 0, "other"));
      }
    }
  }
}

}  // namespace

std::vector<UnlikeWrite> FindMissingKernels(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  GuessArrays(facts, &found);
  GuessNamed(facts, kLinearAlgebra, true,
             " has no kernel for FP16 and BF16, and autocast leaves it alone: on 16-bit "
             "activations it raises RuntimeError. .float() first, and the result back.",
             &found);
  GuessNamed(facts, kTransforms, false,
             " takes no BF16, and FP16 only on CUDA for powers of two: on 16-bit activations it "
             "raises RuntimeError. .float() first.",
             &found);
  GuessNamed(facts, kComplex, false,
             " has no BF16 and hardly any FP16: on 16-bit values it raises RuntimeError. .float() "
             "first, and the result back.",
             &found);
  GuessNamed(facts, kOthers, false,
             " has no kernel for 16-bit tensors on some devices: it raises RuntimeError there. "
             ".float() first.",
             &found);
  GuessThrough(facts, &found);
  GuessResizes(facts, &found);
  GuessSparse(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
