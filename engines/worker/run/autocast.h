// In which precision a run computes: as it is, under autocast, or everything in the low type.
//
// Autocast is the state of this thread; CUDA's operator lists are installed into torch's dispatcher
// of the whole process, once and for good: only in a process that ends with its job.
#ifndef MPNANNY_ENGINES_WORKER_RUN_AUTOCAST_H_
#define MPNANNY_ENGINES_WORKER_RUN_AUTOCAST_H_

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

struct CastPolicy {
  // In FP32, where regions of the model's own do nothing either.
  static CastPolicy Full() { return {}; }
  // As the library runs it.
  static CastPolicy AsWritten() {
    CastPolicy precision;
    precision.regions = Own::kOfTheCpu;
    return precision;
  }

  // Which regions of the model's own open: a CPU stands in for CUDA in a run in low precision.
  enum class Own { kNone, kOfTheCpu, kAll };
  Own regions = Own::kNone;
  bool autocast = false;  // around all of it
  c10::ScalarType low = c10::ScalarType::BFloat16;
  // What tensors are put into before the run, states and inputs alike.
  std::optional<c10::ScalarType> everything;
};

// `policy`: cuda-autocast, cpu-autocast or pure.
CastPolicy CastPolicyOf(const std::string& policy, c10::ScalarType low);

// For all jobs of this process and its forks; the first job would do it.
void ReadCudaLists();

// From here on autocast on the CPU follows CUDA's lists.
void InstallCudaLists();

// Autocast regions, which nest. Ends those that are open when it is destroyed.
class Regions {
 public:
  explicit Regions(const CastPolicy& precision);
  ~Regions();
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  void Enter(const Region& region);
  void Leave();

 private:
  struct Before {
    bool enabled;
    c10::ScalarType dtype;
  };
  void Set(bool enabled, c10::ScalarType dtype);

  CastPolicy precision_;
  std::vector<Before> before_;
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_AUTOCAST_H_
