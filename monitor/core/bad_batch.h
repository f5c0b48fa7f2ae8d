// Which rows and columns of a batch are not finite: measured once, when an alert says that it is
// not.
//
// Pure functions on borrowed memory; used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_BAD_BATCH_H_
#define MPNANNY_MONITOR_CORE_BAD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "numerics/tensor_view.h"

namespace mpnanny {

inline constexpr size_t kIndicesKept = 8;     // of the rows and columns of one tensor
inline constexpr size_t kBadTensorsKept = 4;  // of one batch
// A tensor of more elements is searched for rows only: its columns lie far apart in memory.
inline constexpr int64_t kColumnsSearched = 1 << 24;

// {"call":1,"inputs":[{"input":0,"dtype":"float32","shape":[8,16],"nan":3,"rows":[3,5],
// "row_count":2,"columns":[12],"column_count":1}]}. Rows count along the first dimension, columns
// along the last; a tensor of one dimension has no columns, one on a device neither. `call`: the
// how manieth of the step, from 1.
std::string BadBatchJson(std::span<const TensorView> inputs, int64_t call);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_BAD_BATCH_H_
