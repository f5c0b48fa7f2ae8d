// What torch's functions do to dtypes, with and without autocast: data/autocast_ops.json (what
// autocast knows, operator by operator) and data/torch_functions.json (what comes out of functions
// that are made of several), both measured by scripts/generate_*.py.
//
// Immutable after Parse(); safe from any thread.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_OP_TABLE_H_
#define MPNANNY_ENGINES_CHECK_FACTS_OP_TABLE_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::check {

// The device of an autocast region. kUnknown: computed at run time.
enum class Device { kUnknown, kCuda, kCpu, kOther };

enum class CastPolicy {
  kUnlisted,  // runs in the dtype of its inputs
  kLower,     // runs in autocast's dtype
  kFp32,      // runs in FP32
  kPromote,   // runs in the widest dtype of its inputs
  kBanned,    // raises
  kUnknown,   // CUDA and CPU differ and the device is not known
};

class OpTable {
 public:
  // `autocast` and `functions`: the texts of the two files.
  static Result<OpTable> Parse(std::string_view autocast, std::string_view functions);

  // Under autocast. `function`: the name of a torch function or tensor method ("softmax",
  // "matmul", "cross_entropy").
  CastPolicy PolicyOf(Device device, std::string_view function) const;

  // Without autocast: the result has the dtype of the inputs; is of integers or booleans whatever
  // they are.
  bool KeepsDtype(std::string_view function) const;
  bool GivesIndex(std::string_view function) const;

 private:
  struct Function {
    bool index = false;
    bool keeps = false;
    CastPolicy cuda = CastPolicy::kUnknown;
    CastPolicy cpu = CastPolicy::kUnknown;
  };
  CastPolicy Lookup(Device device, std::string_view function) const;
  std::map<std::string, std::map<std::string, CastPolicy, std::less<>>, std::less<>> devices_;
  std::map<std::string, Function, std::less<>> functions_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_OP_TABLE_H_
