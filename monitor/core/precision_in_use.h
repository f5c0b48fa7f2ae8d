// Which formats a run has been seen to use: what "auto" judges by, and what its row says.
//
// A plain value. Used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_PRECISION_IN_USE_H_
#define MPNANNY_MONITOR_CORE_PRECISION_IN_USE_H_

#include "base/run_words.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {

class PrecisionInUse {
 public:
  void See(DType dtype) {
    fp16_ = fp16_ || dtype == DType::kFloat16;
    bf16_ = bf16_ || dtype == DType::kBFloat16;
    fp8_ = fp8_ || dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
  }
  void SeeScaler() { scaler_ = true; }

  bool plain() const { return !fp16_ && !bf16_ && !fp8_ && !scaler_; }  // FP32 and nothing else
  bool needs_scale() const { return fp16_ || scaler_; }
  Precision name() const {  // run.precision
    return fp8_             ? Precision::kFp8
           : fp16_ && bf16_ ? Precision::kMixed
           : fp16_          ? Precision::kFp16
           : bf16_          ? Precision::kBf16
                            : Precision::kFp32;
  }

 private:
  bool fp16_ = false, bf16_ = false, fp8_ = false, scaler_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_PRECISION_IN_USE_H_
