// The exception that ended a training, and the tensors of the call that raised it
// (monitor/python/mpnanny/report/failed_call.py). Labels that are out of range end so.
//
// Plain values and pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_FAILED_CALL_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_FAILED_CALL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/runs/sentence.h"

namespace mpnanny::diagnosis {

struct GivenTensor {
  std::string name, dtype;  // raw
  std::vector<int64_t> shape;
  std::optional<int64_t> min, max;  // of integers
};

struct FailedCall {
  int64_t step = 0;
  std::string error, text;       // "IndexError" and its words; raw
  std::string function, source;  // of the call; file:line of the training's own code; raw
  std::vector<GivenTensor> tensors;
  int64_t line = 0;           // of the log that prints it; 0: it was recorded
  bool through_mode = false;  // raised in a step whose operators the monitor called
};

// Of the event's detail.
FailedCall ParseFailedCall(int64_t step, const Json& detail);

// "target reaches 10, and input has 10 along dimension 1 (0 to 9)": where an integer tensor has an
// element that is no index into the tensor beside it; empty if none has. Escaped.
runs::Sentence OutOfRangeText(const FailedCall& call);

// In a sentence or two, escaped.
runs::Sentence FailedCallText(const FailedCall& call);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_FAILED_CALL_H_
