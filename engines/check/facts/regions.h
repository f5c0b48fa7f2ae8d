// Where code runs under autocast and with what settings: `with` statements and decorators, nesting,
// no_grad.
//
// Borrows Bindings; immutable after construction. What a region's settings are is told as far as
// the text says it: a dtype or an `enabled` that is computed at run time is kUnknown, and rules
// must not guess.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_REGIONS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_REGIONS_H_

#include <map>
#include <vector>

#include "engines/check/facts/op_table.h"
#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

enum class Tri { kNo, kYes, kUnknown };

// A 16-bit floating-point type; kUnknown: not told in the text.
enum class HalfType { kUnknown, kFp16, kBf16 };

struct Autocast {
  NodeId node =
      kNoNode;  // the expression that makes it: autocast(…), or the name that stands for it
  NodeId owner = kNoNode;  // the `with` statement or the decorated function that it rules
  Device device = Device::kUnknown;
  HalfType dtype = HalfType::kUnknown;
  bool dtype_given = false;  // by an argument; else the device's default
  Tri enabled = Tri::kYes;
  bool caches = true;  // not cache_enabled=False: casts of weights are kept while it lasts
  bool foreign =
      false;  // a framework's or a wrapper's autocast (accelerator.autocast()): settings unknown
};

class Regions {
 public:
  explicit Regions(const Bindings& bindings);

  // The innermost autocast whose body holds `node`, also one that is disabled; null outside of all.
  // A function's body is not inside the region in which the function is defined, but inside its
  // decorators.
  const Autocast* At(NodeId node) const;
  // True inside torch.no_grad() or inference_mode().
  bool NoGradAt(NodeId node) const;
  // True if autocast may be on at `node`: innermost region not disabled by a literal False.
  bool MaybeOn(NodeId node) const;

  const std::vector<Autocast>& all() const { return all_; }

  // Reads torch.float16 / torch.half / torch.bfloat16, also through names; kUnknown for anything
  // else.
  HalfType ReadHalfType(NodeId expression) const;

 private:
  void AddContext(NodeId owner, NodeId expression);
  // What is assigned to a name; kNoNode for what no expression gives.
  std::vector<NodeId> ValuesOf(NodeId name) const;
  // The first of `values` that `read` takes; on or off is not known where there are several.
  template <typename Read>
  bool ReadOneOf(const std::vector<NodeId>& values, Read read, Autocast* autocast) const;
  bool ReadContext(NodeId expression, int depth, Autocast* autocast) const;
  // What is called as `callable` gives an autocast: a name for the class, a lambda, either branch
  // of a choice between such.
  bool ReadCallable(NodeId callable, NodeId call, int depth, Autocast* autocast) const;
  Autocast ReadCall(NodeId call, const std::string& qualified) const;
  // A call of a function of this file that returns an autocast, or of a partial of one.
  bool MakesRegion(NodeId call, Autocast* autocast) const;
  Tri ReadTri(NodeId expression) const;

  const Bindings& bindings_;
  const Syntax& syntax_;
  const Names& names_;
  bool default_changed_ = false;  // torch.set_autocast_gpu_dtype and the like are called
  std::vector<Autocast> all_;
  std::map<NodeId, std::vector<size_t>>
      by_owner_;  // with statement or function -> its autocasts, outermost first
  std::map<NodeId, bool> no_grad_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_REGIONS_H_
