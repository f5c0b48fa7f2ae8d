// What an alert says in figures: `alert.detail`, as the monitor writes it of a value that is not
// finite. Its keys are told in monitor/core/catalogue.cc, and by the table `meaning` of every file.
//
// Plain values and pure functions. What is missing or damaged stays empty.
#ifndef MPNANNY_ENGINES_RUNS_ALERT_DETAIL_H_
#define MPNANNY_ENGINES_RUNS_ALERT_DETAIL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::runs {

// An operator that made a value that is not finite, or made it worse.
struct NanOrigin {
  // kMask: -Inf and nothing worse; kInfinite: infinities and no NaN.
  enum class Inputs { kFinite, kMask, kInfinite };
  std::string op;  // "log": without namespace and overload
  std::string of;  // of a backward pass: the forward operator; "" if it is none
  bool backward = false;
  bool nan = false, posinf = false, neginf = false;  // what it made
  std::string dtype;                                 // of that, "float16"; "" if not known
  Inputs inputs = Inputs::kFinite;
  std::optional<double> largest;  // magnitude among finite inputs
  std::string place;              // "train.py:57"; "" if not known; raw
};

// Where a value that is not finite was made or met.
enum class Where {
  kUnknown,
  kBatch,          // what enters the model
  kModule,         // a module without children
  kOwnCode,        // the code of a module's own forward, not one of its children
  kCarried,        // made before: its inputs are not finite
  kWeightsBefore,  // weights that a forward pass found broken: an earlier step wrote them
  kWeights,        // weights or buffers that a sample found broken
  kBuffers,        // a module's buffers
  kLoss,           // the loss function, or between it and the last module
  kGradients,      // gradients of parameters
  kOptimizer,      // the optimizer's step
};

// One tensor that entered the model and is not finite.
struct BadTensor {
  int64_t input = 0;  // which argument, from 0
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t nan = 0, posinf = 0, neginf = 0;
  // Indices along the first and the last dimension with such an element: the first few, and how
  // many there are. Without columns if there is one dimension.
  std::vector<int64_t> rows, columns;
  int64_t row_count = 0, column_count = 0;
};

struct AlertDetail {
  Where where = Where::kUnknown;
  // In the order in which one led to another; empty if operators were not traced.
  std::vector<NanOrigin> operators;
  std::optional<int64_t> bad_gradients, gradients;  // of parameters: not finite, and all
  bool finite_before = false;  // weights and gradient were finite before the optimizer's step
  int64_t call = 1;            // of kBatch: the forward pass of the step, from 1
  std::vector<BadTensor> batch;
};

// Of the JSON in alert.detail.
AlertDetail ParseAlertDetail(std::string_view json);

// "aten.log.default" → "log", "aten._softmax" → "_softmax".
std::string ShortOperator(std::string_view name);

// "batch of step 17: input 0 (float32 [8, 16]) has 3 NaN, in rows 3 and 5 of 8, column 12 of 16";
// "" if nothing is known of a batch. Escaped.
std::string BatchText(const AlertDetail& detail, int64_t step);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_ALERT_DETAIL_H_
