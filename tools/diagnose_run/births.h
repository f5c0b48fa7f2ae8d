// Which operator made the first bad value, as the monitor's trace of operators tells it in the
// message of an alert (docs/monitor_nonfinite.md).
//
// Plain values and a pure function.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_BIRTHS_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_BIRTHS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::diagnose_run {

struct Birth {
  enum class Inputs { kFinite, kMask, kInfinite };  // kMask: -Inf and nothing worse
  std::string op;                                   // "log": without namespace and overload
  std::string of;  // of a backward pass: the forward operator; "" if it is none
  bool backward = false;
  bool nan = false, posinf = false, neginf = false;  // what it made
  std::string dtype;                                 // of that, "float16"; "" if not told
  Inputs inputs = Inputs::kFinite;
  std::optional<double> largest;  // magnitude among finite inputs
  std::string place;              // "train.py:57"; "" if not told; raw
  std::string text;               // the sentence, raw
};

// In the order in which one led to the other; empty where the message has no trace.
std::vector<Birth> ParseBirths(std::string_view message);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_BIRTHS_H_
