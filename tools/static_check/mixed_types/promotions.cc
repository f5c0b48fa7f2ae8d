#include "tools/static_check/mixed_types/promotions.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/model_parts.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/type_ties.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

std::string FunctionName(const FileFacts& facts, NodeId node) {
  return LowerCase(
      facts.syntax.Text(facts.syntax.Child(facts.syntax.FunctionOf(node), PythonFields().name)));
}

std::string ClassName(const FileFacts& facts, NodeId node) {
  const NodeId klass = facts.syntax.Enclosing(node, Kind::kClass);
  return klass == kNoNode
             ? std::string()
             : LowerCase(facts.syntax.Text(facts.syntax.Child(klass, PythonFields().name)));
}

// FP32 is what losses and measures are to be computed in.
bool WantsFp32(const FileFacts& facts, NodeId node) {
  constexpr std::string_view kWords[] = {"loss",    "criterion", "metric",  "cost",
                                         "reward",  "eval",      "entropy", "kl_",
                                         "logprob", "log_prob",  "iou"};
  return HoldsAny(FunctionName(facts, node), kWords) || HoldsAny(ClassName(facts, node), kWords);
}

// What the function says behind `node`.
std::string_view RestOf(const FileFacts& facts, NodeId node) {
  const NodeId function = facts.syntax.FunctionOf(node);
  const uint32_t begin = facts.syntax[facts.syntax.StatementOf(node)].begin;
  const uint32_t end = facts.syntax[function].end;
  return begin < end ? std::string_view(facts.syntax.text()).substr(begin, end - begin)
                     : std::string_view();
}

// scores = torch.sigmoid(scores.to(torch.float32)), mask.float() * x: nothing in the rest of the
// function goes back to the type of what it was given.
void GuessOneWay(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const auto examine = [&](const Call& call) {
    if (facts.syntax.Enclosing(call.node, Kind::kClass) == kNoNode ||
        !IsModelCode(facts, call.node) || WantsFp32(facts, call.node))
      return;
    const NodeId statement = facts.syntax.StatementOf(call.node);
    const std::string_view own = facts.syntax.Text(statement);
    if (own.size() > 500 ||
        HoldsAny(own, {"loss", "logits", "freq", ".numpy()", ".item()", "log(", "timestep",
                       "metric", "assert", "return"}) ||
        HoldsAny(facts.syntax.Text(call.receiver), {"logits", "inv_freq", "loss", "arange"}))
      return;
    const std::string_view rest = RestOf(facts, call.node);
    if (!Holds(rest, "return") || CastsAway(rest)) return;
    found->push_back(
        {call.node,
         "This is cast to FP32, and nothing in the rest of the function goes back to "
         "the type of its input: what it meets becomes FP32 too, and the next layer of "
         "a model that is 16-bit as a whole raises RuntimeError. .to(x.dtype)"});
  };
  for (const Call* call : facts.names.CallsNamed("float")) {
    if (call->receiver != kNoNode && call->callee.empty()) examine(*call);
  }
  for (const Call* call : facts.names.CallsNamed("to")) {
    if (call->receiver == kNoNode || !call->callee.empty()) continue;
    for (const NodeId argument : facts.names.Arguments(call->node)) {
      if (facts.names.Resolve(argument) == "torch.float32") {
        examine(*call);
        break;
      }
    }
  }
}

// A parameter of __init__ that is declared a tensor: what a module keeps of it no cast converts.
bool IsGivenTensor(const FileFacts& facts, NodeId value) {
  const std::string_view name = facts.syntax.Text(value);
  if (!facts.syntax.Is(value, Kind::kIdentifier)) return false;
  const NodeId parameters =
      facts.syntax.Child(facts.syntax.FunctionOf(value), PythonFields().parameters);
  for (const NodeId parameter : facts.syntax.Children(parameters)) {
    const std::string_view declared = facts.syntax.Text(parameter);
    if (declared.starts_with(name) && declared.substr(name.size()).starts_with(":") &&
        Holds(declared, "Tensor") && !HoldsAny(declared, {"Long", "Int", "Bool"}))
      return true;
  }
  return false;
}

// True for self.x (also behind a subscript or a view) that the class fills with a tensor: a
// registered buffer, a factory, or a function of its own that makes one.
bool IsTable(const FileFacts& facts, NodeId expression) {
  const NodeId root = RootOf(facts, expression);
  const std::string_view text = facts.syntax.Text(root);
  if (!facts.syntax.Is(root, Kind::kAttribute) || !text.starts_with("self.") || text.size() > 60)
    return false;
  const std::string name(text.substr(5));
  const std::string_view file = facts.syntax.text();
  if (Holds(file, "register_buffer(\"" + name + "\"") ||
      Holds(file, "register_buffer('" + name + "'"))
    return true;
  if (HoldsAny(name, {"weight", "bias", "gamma", "beta", "alpha", "scale", "eps"})) return false;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(root)) {
    const NodeId value = facts.syntax.Unwrap(assignment.value == kNoNode
                                                 ? UnpackedFrom(facts.syntax, assignment.target)
                                                 : assignment.value);
    const Call* call = value == kNoNode ? nullptr : facts.names.CallAt(value);
    if (call == nullptr) {
      if (IsGivenTensor(facts, value)) return true;
      continue;
    }
    if (HoldsAny(call->name, {"freqs", "cos_sin", "rope", "rotary", "sinusoid"}) &&
        !CastsAway(facts.syntax.Text(value)))
      return true;
    if (call->callee.starts_with("torch.") && !call->callee.starts_with("torch.nn.") &&
        HoldsAny(call->name, {"zeros", "ones", "linspace", "arange", "tensor", "Tensor", "sin",
                              "cos", "randn", "eye", "cat", "stack", "exp"}) &&
        !CastsAway(facts.syntax.Text(value)))
      return true;
  }
  return false;
}

bool MeetsHalf(const FileFacts& facts, NodeId node, NodeId other) {
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
  return anywhere.any() && !facts.bindings.Number(other) && anywhere.MayBeHalf(other) &&
         !anywhere.IsKnown(other);
}

// x + self.pe[:, :n], out * self.mask: a table that is not cast with what it meets.
void GuessTables(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Fields& f = PythonFields();
  if (!Holds(facts.syntax.text(), "self.")) return;
  const auto report = [&](NodeId node, NodeId table, NodeId other) {
    if (!IsTable(facts, table) || IsTied(facts, table) || IsTable(facts, other) ||
        !IsModelCode(facts, node) || !MeetsHalf(facts, node, other) || IsTiedLater(facts, node) ||
        HoldsAny(facts.syntax.Text(table), {".float()", "dtype"}))
      return;
    found->push_back({node,
                      "The tensor that the class keeps has the type it was made or loaded with "
                      "(FP32 where autocast is on, or where it is no registered buffer and the "
                      "model is cast): beside 16-bit activations the result is FP32, and what "
                      "follows may refuse it. .to(x.dtype) ties the two."});
  };
  for (const NodeId id : facts.binaries) {
    const std::string_view op = OperatorOf(facts, id);
    if (op != "+" && op != "-" && op != "*" && op != "/" && op != "@") continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    // A name that stands for the table: mask = self.mask[:n].
    const NodeId a = Traced(facts, RootOf(facts, left));
    const NodeId b = Traced(facts, RootOf(facts, right));
    if (facts.syntax.Text(a).starts_with("self.")) report(id, a, right);
    if (facts.syntax.Text(b).starts_with("self.")) report(id, b, left);
  }
  for (const std::string_view name : {"linear", "matmul", "einsum"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.")) continue;
      const bool einsum = name == "einsum";
      const NodeId a = facts.names.Argument(call->node, einsum ? 1 : 0, "input");
      const NodeId b = facts.names.Argument(call->node, einsum ? 2 : 1, "weight");
      if (a == kNoNode || b == kNoNode) continue;
      report(call->node, b, a);
      report(call->node, a, b);
    }
  }
}

// torch.cat((x, self.token.expand(…)), dim=1), torch.cat((x, pos_embed)): cat returns the widest
// type of its parts.
void GuessJoins(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("cat")) {
    if (!call->callee.starts_with("torch.")) continue;
    const NodeId parts = facts.syntax.Unwrap(facts.names.Argument(call->node, 0, "tensors"));
    if (!facts.syntax.Is(parts, Kind::kTuple) && !facts.syntax.Is(parts, Kind::kList)) continue;
    NodeId table = kNoNode;
    NodeId other = kNoNode;
    for (const NodeId part : facts.syntax.Children(parts)) {
      const NodeId made = Traced(facts, part);
      const std::string_view text =
          facts.syntax.Text(facts.syntax[made].after <= call->node ? made : part);
      const std::string_view own = facts.syntax.Text(part);
      const bool kept =
          HoldsAny(text, {"self.pos", "self.cls", "self.embed", "_token.", "self.query",
                          "self.register", "self.mask_token", "self.prompt", "self.null"}) ||
          HoldsAny(own, {"pos_emb", "posit", "pos_embd", "pe_"});
      (kept ? table : other) = part;
      if (kept && IsTied(facts, part)) return;
    }
    if (table == kNoNode || other == kNoNode || IsTied(facts, other) ||
        !IsModelCode(facts, call->node) || !MeetsHalf(facts, call->node, other) ||
        IsTiedLater(facts, call->node))
      continue;
    found->push_back(
        {call->node, "cat returns the widest type of its parts: " +
                         std::string(facts.syntax.Text(table).substr(0, 40)) +
                         " has the type of the weights or of a table, and where the activations "
                         "are 16-bit beside it, all of them become FP32. .to(x.dtype)"});
  }
}

// scaled_dot_product_attention(q, k, v, attn_mask=mask): the mask is boolean or of q's type.
void GuessAttentionMasks(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("scaled_dot_product_attention")) {
    const NodeId mask = facts.names.Argument(call->node, 3, "attn_mask");
    if (mask == kNoNode || facts.syntax.Is(facts.syntax.Unwrap(mask), Kind::kNone) ||
        !IsModelCode(facts, call->node))
      continue;
    bool settled = false;
    const std::vector<NodeId> values = ValuesOf(facts, mask);
    for (const NodeId value : values) {
      const std::string_view text = facts.syntax.Text(value);
      settled = settled || CastsAway(text) || facts.syntax.Is(value, Kind::kComparison) ||
                HoldsAny(text, {"bool", "~", "None if"});
    }
    const std::string rest = std::string(facts.syntax.Text(mask)) + ".";
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const std::string_view body = facts.syntax.Text(function);
    if (settled || HoldsAny(body, {rest + "to(", rest + "type_as", rest + "bool("})) continue;
    found->push_back({call->node,
                      "attn_mask is to be boolean or of the type of the query: a mask that is made "
                      "or kept in FP32 beside 16-bit queries raises RuntimeError. .to(q.dtype)"});
  }
}

// Kernel.apply(x, self.bias): outside of a function with custom_fwd nobody converts.
void GuessApplies(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("apply")) {
    if (call->receiver == kNoNode || facts.syntax.Is(call->receiver, Kind::kCall)) continue;
    const std::string_view klass = facts.syntax.Text(call->receiver);
    if (!klass.ends_with("Function") && !klass.ends_with("Func") && !klass.ends_with("Fn"))
      continue;
    const std::vector<NodeId> given = facts.names.Arguments(call->node);
    if (given.size() < 2 || !HalfGuess::EvenUntrained(facts, call->node).any()) continue;
    NodeId weight = kNoNode;
    bool tied = false;
    for (const NodeId argument : given) {
      const std::string_view text = facts.syntax.Text(argument);
      tied = tied || CastsAway(text) || IsTied(facts, argument) || Holds(text, ".float()");
      const std::string_view last = text.substr(text.rfind('.') + 1);
      if (argument != given.front() && text.size() < 40 &&
          HoldsAny(last, {"weight", "bias", "gamma", "scale_param"}))
        weight = argument;
    }
    const NodeId own = facts.bindings.ClassNamed(klass);
    if (weight == kNoNode || tied ||
        (own != kNoNode &&
         HoldsAny(facts.syntax.Text(own), {"custom_fwd", ".to(", "type_as", ".float()"})))
      continue;
    found->push_back(
        {call->node, "Autocast converts no arguments of a custom function: " +
                         std::string(facts.syntax.Text(weight)) +
                         " is FP32 there and the activations are 16-bit, and a kernel takes one "
                         "type. Cast it to the input's, or use custom_fwd(cast_inputs=…)."});
  }
}

// state["m"].lerp_(v, 0.1) in an optimizer: the state is FP32 where the gradient is 16-bit.
void GuessStates(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("lerp_")) {
    const NodeId end = facts.names.Argument(call->node, 0, "end");
    if (call->receiver == kNoNode || end == kNoNode || !facts.project.HasHalfChoice() ||
        !Holds(FunctionName(facts, call->node), "step"))
      continue;
    const std::string_view state = facts.syntax.Text(call->receiver);
    const std::string_view given = facts.syntax.Text(end);
    if (!HoldsAny(state, {"state", "exp_avg", "buf", "moment", "ema"}) ||
        Holds(given, ".float()") || CastsAway(given) || IsTied(facts, end) ||
        IsMadeFp32(facts, end) || given == "grad" || given == "g" || Holds(given, ".grad"))
      continue;
    found->push_back({call->node,
                      "lerp_ takes one type: a state that is kept in FP32 and an update that was "
                      "computed in 16 bits raise RuntimeError. " +
                          std::string(given.substr(0, 40)) + ".to(state.dtype)"});
  }
}

}  // namespace

std::vector<UnlikeWrite> FindPromotions(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  GuessOneWay(facts, &found);
  GuessTables(facts, &found);
  GuessJoins(facts, &found);
  GuessAttentionMasks(facts, &found);
  GuessApplies(facts, &found);
  GuessStates(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
