// What autocast does to each operator, by device: data/autocast_ops.json, made by
// scripts/generate_autocast_ops.py.
//
// Immutable after Parse(); safe from any thread.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_OP_TABLE_H_
#define MPNANNY_TOOLS_STATIC_CHECK_OP_TABLE_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::static_check {

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
  static Result<OpTable> Parse(std::string_view json);

  // `function`: the name of a torch function or tensor method ("softmax", "matmul",
  // "cross_entropy").
  CastPolicy PolicyOf(Device device, std::string_view function) const;

 private:
  CastPolicy Lookup(const char* device, std::string_view function) const;
  std::map<std::string, std::map<std::string, CastPolicy, std::less<>>, std::less<>> devices_;
};

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_OP_TABLE_H_
