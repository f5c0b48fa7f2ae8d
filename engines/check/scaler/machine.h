// The abstract machine behind ScalerOrder: paths through a function and what each of them has done
// to the gradients.
//
// Internal to this folder. Borrows the analyses; Run() may be called for one function after
// another, from one thread.
#ifndef MPNANNY_ENGINES_CHECK_SCALER_MACHINE_H_
#define MPNANNY_ENGINES_CHECK_SCALER_MACHINE_H_

#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engines/check/facts/conditions.h"
#include "engines/check/scaler/code.h"
#include "engines/check/scaler/gradients.h"
#include "engines/check/scaler/transitions.h"

namespace mpnanny::check {

// Bounds on the work for one function; past them it stays silent.
inline constexpr size_t kMaxPaths = 48;
inline constexpr int kMaxSteps = 20000;
// How often a loop's body is gone through: twice, and again while its flags change.
inline constexpr int kMaxTurns = 4;
// How deep calls are followed.
inline constexpr size_t kMaxFrames = 5;

// What is known at one point of one path. Nodes are those of the function that is analysed.
struct Path {
  GradientState state;
  std::map<std::string, std::string> scaled_values;  // variable -> scaler that scaled it
  Conditions conditions;
  auto operator<=>(const Path&) const = default;
};

using Paths = std::set<Path>;

struct Flow {
  Paths out, breaks, continues, returns;
  // Adds where `other` leaves by break, continue and return, and takes it from there.
  void Leave(Flow& other);
};

class ScalerMachine {
 public:
  ScalerMachine(const Code& code, const CancelToken& cancel)
      : root_(code), cancel_(cancel), frames_{Frame{&code, nullptr, kNoNode, "self", {}, ""}} {}
  void Run(const Function& function, std::vector<Violation>* violations);

 private:
  // The code that runs: the analysed function, or a helper that it calls.
  struct Frame {
    const Code* code = nullptr;
    const Function* function = nullptr;
    NodeId call = kNoNode;  // where the analysed function calls the outermost helper
    std::string self;       // what self is, in the analysed function's words
    std::map<std::string, std::string> arguments;  // the same for parameters
    std::string suffix;                            // of the names of its own variables
  };
  const Frame& frame() const { return frames_.back(); }
  const Code& code() const { return *frame().code; }
  const Syntax& syntax() const { return code().syntax(); }
  const Names& names() const { return code().names(); }
  const Bindings& bindings() const { return code().bindings(); }
  const Scalers& scalers() const { return code().scalers(); }
  // The node of the analysed function that stands for one of the code that runs.
  NodeId Shown(NodeId node) const { return frame().call == kNoNode ? node : frame().call; }

  // A key of the code that runs, in terms of the function that is analysed.
  std::string KeyOf(NodeId expression) const { return Translate(names().Key(expression)); }
  std::string Translate(std::string key, int depth = 3) const;
  bool IsOptimizer(NodeId expression) const;
  bool IsScaler(NodeId expression) const;
  // True for optimizer.step(…, scaler), optimizer.step(scaler=scaler).
  bool IsHandedScaler(NodeId call) const;

  // An event of the code that runs.
  Event At(Event::Kind kind, NodeId id) const;
  // The event happens on the path, on all of them: transitions.h says what that means.
  void Happen(const Event& event, Path& path);
  Paths Happen(const Event& event, Paths in);
  Paths Happen(Event::Kind kind, NodeId id, Paths in) {
    return Happen(At(kind, id), std::move(in));
  }
  ScalerName Named(const std::string& scaler) const;
  static void Limit(Paths& paths);
  static void Add(Paths& into, const Paths& from) { into.insert(from.begin(), from.end()); }
  static void Add(Paths& into, Paths&& from) { into.merge(from); }
  // A path is large: its node goes from one set to the other, without a copy of what it holds.
  template <typename Apply>
  static Paths Each(Paths in, Apply apply) {
    Paths out;
    while (!in.empty()) {
      auto path = in.extract(in.begin());
      apply(path.value());
      out.insert(out.end(), std::move(path));
    }
    return out;
  }

  // Statements: machine.cc.
  Flow Block(NodeId block, Paths in);
  Flow Statement(NodeId id, Paths in);
  Flow Try(NodeId id, Paths in);
  Flow Leaving(NodeId id, Paths in);
  // Splits paths by a condition that holds or does not. `apart`: where `a and b` fails, the paths
  // on which a fails and those on which only b does go on apart.
  void Split(NodeId condition, Paths in, Paths* yes, Paths* no, bool apart = false) const;
  Flow If(NodeId id, Paths in);
  // True if the branches between `from` and the node may all be taken on that path.
  bool MayReach(NodeId node, NodeId from, const Path& path) const;
  Flow Loop(NodeId id, Paths in);
  // What it means for paths that take `branch` that they do not take `other`.
  void GoAround(NodeId condition, NodeId branch, NodeId other, Paths& paths);
  // Expressions: values.cc.
  // A variable that gets another value is another object: nothing is known of it.
  void Rebind(NodeId target, Path& path) const;
  // The variables of a loop.
  void NextElement(NodeId loop, bool starts, Path& path) const;
  // Rebinds everything that is assigned inside.
  Paths RebindAll(NodeId id, Paths in) const;
  // Flags: flags.cc.
  // The variables of the code that runs whose values decide which way it goes.
  const std::set<std::string, std::less<>>& Asked();
  // What the assignment makes a variable hold on that path, by variable.
  using Held = std::vector<std::pair<std::string, PathConstant>>;
  Held HeldAfter(NodeId target, NodeId value, const Path& path);
  // The call may write into the tensors that it is given.
  void TouchTensors(NodeId call, Path& path) const;
  // Runs the calls of an expression, inner ones first.
  Paths Expression(NodeId id, Paths in);
  Paths Assign(NodeId id, Paths in);
  // Runs the condition and then the one expression or the other.
  Paths Either(NodeId condition, NodeId yes, NodeId no, Paths in);
  // `a if condition else b`.
  Paths Choice(NodeId id, Paths in);
  // True if the expression calls nothing and binds no name.
  bool DoesNothing(NodeId expression) const;
  // The scaler that scaled the value, or what it is computed from, on that path; "" for none.
  std::string ScalerOf(NodeId value, const Path& path) const;
  // Calls `apply(path, scaler)` with the scaler that scaled `value` on that path ("" for none);
  // splits paths where `value` is `scaler.scale(loss) if use_amp else loss`.
  template <typename Apply>
  Paths WithScale(NodeId value, Paths in, Apply apply) const {
    const NodeId id = syntax().Unwrap(value);
    if (syntax().Is(id, Kind::kConditional) && !scalers().ScaledBy(id).empty()) {
      const std::vector<NodeId> parts = syntax().Children(id);
      if (parts.size() == 3) {
        Paths out, yes, no;
        Split(parts[1], std::move(in), &yes, &no);
        Add(out, WithScale(parts[0], std::move(yes), apply));
        Add(out, WithScale(parts[2], std::move(no), apply));
        return out;
      }
    }
    return Each(std::move(in), [&](Path& path) { apply(path, ScalerOf(id, path)); });
  }

  // Calls: calls.cc, those of functions in helpers.cc.
  Paths RunCall(NodeId id, Paths in);
  Paths OnBackward(NodeId id, NodeId loss, Paths in);
  // True if the text says where the loss comes from, so that it is known not to be scaled.
  bool IsKnownLoss(NodeId loss) const;
  Paths OnClip(NodeId id, Paths in);
  Paths OnStep(NodeId id, Paths in);
  Paths OnZeroGrad(NodeId id, Paths in);
  // Whether code outside of the function that is analysed may have unscaled before it runs: kNo if
  // nothing in the project does, kUnknown if something does elsewhere and nobody calls the
  // function.
  Tri UnscalesOutside() const;
  // True if the function that is analysed goes backward below the node, and not above it in the
  // same loop.
  bool GoesBackwardLater(NodeId node) const;
  // True if all steps of the file are of one optimizer, which any backward pass is for.
  bool HasOneOptimizer() const;
  // The optimizer that the backward pass is for, as far as the text says it.
  std::string ServedBy(NodeId backward) const;
  Paths OnScaler(NodeId id, const ScalerCall& call, Paths in);
  // True if the scale that is read here divides a value that was scaled.
  bool DividesScaled(NodeId get_scale, const Path& path) const;
  // What UseOfGradient() says of the node.
  Paths OnGradient(NodeId id, Event::Kind use, Paths in);
  Paths OnHelper(NodeId id, const Target& target, Paths in);
  Paths InHelper(NodeId id, const Target& target, const Path& from);
  // True if names that belong to neither the caller nor the helper mean the same in both.
  bool SharesNames(const Target& target) const;
  // True if the name is the helper's own, or the caller's where the helper does not stand inside
  // it.
  bool IsOwnName(const Target& target, std::string_view name) const;
  Paths InLambda(NodeId id, NodeId lambda, Paths in);
  Paths OnUnseen(NodeId id, Paths in);
  // The argument of the call for that parameter of what it runs, kNoNode if it is not given.
  NodeId ArgumentOf(NodeId call, const Target& target, size_t position) const;
  // True if the call may reach scalers that are attributes of self, in code that is not seen.
  bool MayUseSelf(NodeId call) const;

  const Code& root_;
  const CancelToken& cancel_;
  int steps_ = 0;
  std::vector<Frame> frames_;  // the analysed function first
  // What came out of helpers, by the calls that lead there and the path that went in.
  std::map<std::pair<std::string, Path>, Paths> helpers_;
  std::map<std::pair<int, NodeId>, Violation> found_;
  // By file and function: what Asked() found.
  std::map<std::pair<const Code*, NodeId>, std::set<std::string, std::less<>>> asked_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCALER_MACHINE_H_
