#include "tools/static_check/mixed_types/undone_casts.h"

#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/switched_off.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/type_ties.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// x.float(), not (x > 0).float(): what a comparison or a mask becomes has no bits to lose.
bool EndsInCast(std::string_view text) {
  return !HoldsAny(text, {" > ", " < ", ">=", "<=", "==", "!=", "mask", "one_hot", "bool"}) &&
         text.size() < 160 &&
         (text.ends_with(".float()") || text.ends_with("(torch.float32)") ||
          text.ends_with("dtype=torch.float32)"));
}

// x.float(), x of `x = x.float()`, normalize(x) of that: functions and layers go on with what was
// cast.
bool IsCastCall(const FileFacts& facts, NodeId expression) {
  NodeId id = facts.syntax.Unwrap(expression);
  for (int depth = 0; depth < 5 && id != kNoNode; ++depth) {
    if (EndsInCast(facts.syntax.Text(ValuesOf(facts, id).back()))) return true;
    const Call* call = facts.names.CallAt(id);
    if (call == nullptr) return false;
    const bool layer = call->receiver == kNoNode || !call->callee.empty() ||
                       facts.syntax.Text(call->receiver).starts_with("self");
    id = facts.syntax.Unwrap(layer ? facts.names.Argument(call->node, 0, "input") : call->receiver);
  }
  return false;
}

// True where autocast may be on, and nobody in sight has decided about it.
bool MayBeLowered(const FileFacts& facts, NodeId node) {
  const NodeId function = facts.syntax.FunctionOf(node);
  const Autocast* here = facts.regions.At(node);
  if (function == 0 || (here != nullptr && here->enabled == Tri::kUnknown) ||
      !HalfGuess::Anywhere(facts, node).any() ||
      IsCalledWithAutocastOff(facts.bindings, facts.regions, function))
    return false;
  for (const Autocast& region : facts.regions.all()) {
    if (region.enabled == Tri::kNo && facts.syntax.FunctionOf(region.node) == function)
      return false;
  }
  return true;
}

// sparse @ x.float(): under autocast the product runs in 16 bits again.
void GuessUndoneProducts(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const auto examine = [&](NodeId node, NodeId a, NodeId b) {
    if ((!IsCastCall(facts, a) && !IsCastCall(facts, b)) || !MayBeLowered(facts, node)) return;
    found->push_back({node,
                      "The cast to FP32 is undone where autocast is on: it runs this product in 16 "
                      "bits, and the sum with it. autocast(enabled=False) keeps it in FP32."});
  };
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) == "@")
      examine(id, facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right));
  }
  ForEachTorchCall(facts, {"matmul", "bmm", "mm", "einsum"}, [&](const TorchCall& call) {
    const bool einsum = call.name == "einsum";
    examine(call.node, einsum ? facts.names.Argument(call.node, 1, "") : call.tensor,
            einsum ? facts.names.Argument(call.node, 2, "") : ArgumentOf(facts, call, 0, "other"));
  });
}

// True if the method that is called, also one of another file, names autocast.
bool NamesAutocast(const FileFacts& facts, const Call& call) {
  const Definition callee = facts.Callee(call.node);
  return callee.function != nullptr &&
         Holds((*facts.files)[callee.module]->syntax.Text(callee.function->node), "autocast");
}

// self.fbank(waveform), self.mel_spectrogram(x): the front end that makes a spectrum of a signal
// runs inside of the model, and so where autocast is on.
void GuessFrontEnds(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  constexpr std::string_view kFrontEnds[] = {"fbank",   "filterbank", "filter_bank",
                                             "melspec", "mel_spec",   "spectrogram",
                                             "logmel",  "mfcc",       "to_mel"};
  if (!HoldsAny(facts.syntax.text(), kFrontEnds)) return;
  for (const Call& call : facts.names.calls()) {
    if (!call.callee.empty() || call.receiver == kNoNode ||
        facts.syntax.Text(call.receiver) != "self" || !HoldsAny(call.name, kFrontEnds) ||
        HoldsAny(call.name, {"loss", "get_", "plot", "save", "load", "len", "augment", "_norm",
                             "mask", "init"}) ||
        facts.regions.At(call.node) != nullptr || !IsModelCode(facts, call.node))
      continue;
    const NodeId given = facts.names.Argument(call.node, 0, "waveform");
    if (given == kNoNode || facts.bindings.Number(given) || NamesAutocast(facts, call) ||
        !MayBeLowered(facts, call.node))
      continue;
    found->push_back({call.node,
                      "A front end turns a signal into a spectrum here: under autocast its filter "
                      "bank is a product in 16 bits, of powers that take more than 8 or 11 bits "
                      "and may pass 65504. Put autocast(enabled=False) around it."});
  }
}

}  // namespace

std::vector<UnlikeWrite> FindUndoneCasts(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  GuessUndoneProducts(facts, &found);
  GuessFrontEnds(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
