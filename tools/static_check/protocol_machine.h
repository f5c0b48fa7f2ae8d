// The abstract machine behind Protocol: paths through a function and what each of them has done to
// the gradients.
//
// Internal to protocol*.cc. Borrows the analyses; Run() may be called for one function after
// another, from one thread.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_PROTOCOL_MACHINE_H_
#define MPNANNY_TOOLS_STATIC_CHECK_PROTOCOL_MACHINE_H_

#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/static_check/conditions.h"
#include "tools/static_check/protocol.h"

namespace mpnanny::static_check {

// Bounds on the work for one function; past them it stays silent.
inline constexpr size_t kMaxPaths = 48;
inline constexpr int kMaxSteps = 20000;

enum class Gradients { kNone, kScaled, kPlain };

// What is known at one point of one path.
struct Path {
  Gradients gradients = Gradients::kNone;
  bool escaped = false;     // the gradients are handled in a way that is not known; for good
  bool unseen = false;      // code that is not seen may have unscaled, stepped or updated since the
                            // last backward
  bool updated = false;     // update() since the last backward
  bool after_step = false;  // the gradients were used by a step and not cleared since
  std::string scaler;       // who scaled the gradients
  std::set<std::string> unscaled, stepped;  // optimizers, since the last update()
  std::set<std::string> stepped_since_backward;
  std::map<std::string, std::string> scaled_values;  // variable -> scaler that scaled it
  Conditions conditions;
  auto operator<=>(const Path&) const = default;
};

using Paths = std::set<Path>;

struct Flow {
  Paths out, breaks, continues, returns;
};

class ProtocolMachine {
 public:
  ProtocolMachine(const Bindings& bindings, const Scalers& scalers, const CancelToken& cancel)
      : bindings_(bindings),
        syntax_(bindings.syntax()),
        names_(bindings.names()),
        scalers_(scalers),
        cancel_(cancel) {
    for (const Function& function : bindings.functions()) {
      if (Matters(function)) matters_.insert(function.node);
    }
    FindReaching();
  }
  void Run(const Function& function, std::vector<Violation>* violations);
  // True if the function, or one that it calls however deep, does what the protocol knows.
  bool reaches(const Function& function) const { return reaches_.contains(function.node); }

 private:
  // True if the function does anything that the protocol knows.
  bool Matters(const Function& function) const;
  // Fills reaches_.
  void FindReaching();
  // A key of the code that runs, in terms of the function that is analysed (a helper's parameter is
  // its argument).
  std::string KeyOf(NodeId expression) const { return Translate(names_.Key(expression)); }
  std::string Translate(std::string key) const;
  void Report(Violation::Kind kind, NodeId call, const Path& path, const std::string& optimizer);
  static void Limit(Paths& paths);
  static void Add(Paths& into, const Paths& from) { into.insert(from.begin(), from.end()); }
  Flow Block(NodeId block, Paths in);
  Flow Statement(NodeId id, Paths in);
  // Splits paths by a condition that holds or does not.
  void Split(NodeId condition, const Paths& in, Paths* yes, Paths* no) const;
  Flow If(NodeId id, Paths in);
  Flow Loop(NodeId id, Paths in);
  // A variable that gets another value is another object: nothing is known of it.
  void Rebind(NodeId target, Path& path) const;
  // Runs the calls of an expression, inner ones first.
  Paths Expression(NodeId id, Paths in);
  // `a if condition else b`.
  Paths Choice(NodeId id, Paths in);
  // Calls `apply(path, scaler)` with the scaler that scaled `value` on that path ("" for none);
  // splits paths where `value` is `scaler.scale(loss) if use_amp else loss`.
  template <typename Apply>
  Paths WithScale(NodeId value, Paths in, Apply apply) const {
    const NodeId id = syntax_.Unwrap(value);
    Paths out;
    if (syntax_.Is(id, Kind::kConditional) && !scalers_.ScaledBy(id).empty()) {
      const std::vector<NodeId> parts = syntax_.Children(id);
      if (parts.size() == 3) {
        Paths yes;
        Paths no;
        Split(parts[1], in, &yes, &no);
        for (const Path& path : WithScale(parts[0], yes, apply)) out.insert(path);
        for (const Path& path : WithScale(parts[2], no, apply)) out.insert(path);
        return out;
      }
    }
    const std::string direct = Translate(scalers_.ScaledBy(id));
    const std::string key = KeyOf(id);
    for (Path path : in) {
      std::string scaler = direct;
      if (const auto it = path.scaled_values.find(key);
          scaler.empty() && it != path.scaled_values.end())
        scaler = it->second;
      apply(path, scaler);
      out.insert(std::move(path));
    }
    return out;
  }
  template <typename Apply>
  static Paths Each(Paths in, Apply apply) {
    Paths out;
    for (Path path : in) {
      apply(path);
      out.insert(std::move(path));
    }
    return out;
  }
  static void Backward(Path& path, const std::string& scaler);
  Paths Call(NodeId id, Paths in);
  Paths OnScaler(NodeId id, const ScalerCall& call, Paths in);
  Paths OnHelper(NodeId id, const Function& helper, Paths in);
  Paths OnUnseen(NodeId id, Paths in);
  // True if the call may reach scalers that are attributes of self, in code that is not seen.
  bool MayUseSelf(NodeId call) const;
  const Bindings& bindings_;
  const Syntax& syntax_;
  const Names& names_;
  const Scalers& scalers_;
  const CancelToken& cancel_;
  std::set<NodeId> matters_;
  std::set<NodeId> reaches_;  // functions that matter or call, however deep, one that does
  int steps_ = 0;
  NodeId helper_call_ = kNoNode;                  // set while a helper's body is run
  std::map<std::string, std::string> arguments_;  // the helper's parameters
  std::map<std::pair<int, NodeId>, Violation> found_;
};

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_PROTOCOL_MACHINE_H_
