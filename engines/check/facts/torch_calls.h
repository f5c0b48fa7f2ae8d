// torch's functions and tensor methods in one form, and what an expression is made of: what the
// rules about values ask.
//
// `torch.clamp(x, min=e)` and `x.clamp(e)` are the same TorchCall: its tensor is x, and the other
// arguments are counted without it. Free functions and plain values without state; everything
// borrows the FileFacts.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_TORCH_CALLS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_TORCH_CALLS_H_

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

struct TorchCall {
  NodeId node = kNoNode;
  NodeId tensor = kNoNode;  // what it works on: the receiver, or the first argument
  std::string_view name;    // "clamp"
  bool is_method = false;
};

// The call as one of torch's; a method counts whatever its object is, a function only if its name
// resolves to one of torch.
std::optional<TorchCall> ReadTorchCall(const FileFacts& facts, const Call& call);
// The same for a node, looking through parentheses; nullopt if it is no such call.
std::optional<TorchCall> TorchCallAt(const FileFacts& facts, NodeId node);
// Argument number `position` after the tensor, or by keyword.
NodeId ArgumentOf(const FileFacts& facts, const TorchCall& call, int position,
                  std::string_view keyword);
// Visits the calls of these names.
void ForEachTorchCall(const FileFacts& facts, std::initializer_list<std::string_view> names,
                      const std::function<void(const TorchCall&)>& visit);

// The expression without parentheses; a name that is assigned once stands for what is assigned.
NodeId Traced(const FileFacts& facts, NodeId expression);
// The call that Traced() is, if it is one of these names; nullopt for others.
std::optional<TorchCall> TracedCall(const FileFacts& facts, NodeId expression,
                                    std::initializer_list<std::string_view> names);
// What is squared: x of x ** 2, x * x, x.pow(2), x.square(); kNoNode for anything else.
NodeId SquareOf(const FileFacts& facts, NodeId expression);
// True if both are written alike, up to spaces.
bool SameText(const FileFacts& facts, NodeId a, NodeId b);
// The operator of a binary expression ("+"), "" for other nodes.
std::string_view OperatorOf(const FileFacts& facts, NodeId binary);
// True if the subscript's index is a tensor by its form: a comparison, or integers and booleans.
bool IsTensorIndex(const FileFacts& facts, NodeId subscript);
// A number known from the text, also torch.finfo(torch.float32).min and the like.
std::optional<double> Constant(const FileFacts& facts, NodeId expression);
// True if the call's tensor, or what it was made of, cannot be large and positive: -x.abs(), x -
// x.max(), clamp(max=…) up to `bound`, log_softmax.
bool IsBoundedAbove(const FileFacts& facts, NodeId expression, double bound, int depth = 5);

// What the value is that is zero for plausible inputs ("a variance"); "" if its form does not say
// so.
std::string_view ZeroForm(const FileFacts& facts, NodeId expression, int depth = 6);

// True where the value is worked on in training: not in no_grad, nor in a function whose name says
// that it evaluates, exports or samples.
bool MayTrain(const FileFacts& facts, NodeId node);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_TORCH_CALLS_H_
