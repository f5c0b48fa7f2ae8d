#include "monitor/core/sample_schedule.h"

#include <utility>

namespace mpnanny {

SampleSchedule::Begun SampleSchedule::BeginStep(int64_t step, std::optional<bool> sampled) {
  step_ = step;
  dense_ = dense_left_ > 0;
  const bool periodic = first_step_ || step % interval_ == 0;
  sampling_ = dense_ || periodic;
  full_ = periodic && (full_step_ < 0 || step - full_step_ >= kExponentSteps);
  if (full_) full_step_ = step;
  if (periodic)
    dense_ = false;  // a periodic sample has everything, a dense one leaves out the exponents
  if (sampled) {
    sampling_ = *sampled;
    dense_ = dense_ && sampling_;
  }
  Begun begun;
  begun.dense_ended = dense_left_ > 0 && --dense_left_ == 0;
  begun.first = std::exchange(first_step_, false);
  return begun;
}

bool SampleSchedule::GoDense() {
  const bool begins = dense_left_ == 0 && dense_steps_ > 0;
  dense_left_ = dense_steps_;
  return begins;
}

}  // namespace mpnanny
