// Which steps are sampled, and how: every so many steps, and each step for a while after an ERROR.
//
// Plain state without tensors. Used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_SAMPLE_SCHEDULE_H_
#define MPNANNY_MONITOR_CORE_SAMPLE_SCHEDULE_H_

#include <cstdint>
#include <optional>

namespace mpnanny {

class SampleSchedule {
 public:
  // Exponents cost more than all other figures together: of samples that follow each other closely
  // one in so many steps has them.
  static constexpr int64_t kExponentSteps = 25;

  SampleSchedule(int64_t interval, int64_t dense_steps)
      : interval_(interval), dense_steps_(dense_steps) {}

  // Starts a step. `sampled`: the caller's own decision, for steps that are reported after they
  // have ended.
  struct Begun {
    bool first = false;        // of the run
    bool dense_ended = false;  // the dense steps after an ERROR end with this one
  };
  Begun BeginStep(int64_t step, std::optional<bool> sampled);

  int64_t step() const { return step_; }
  bool sampling() const { return sampling_; }  // this step
  bool dense() const { return dense_; }        // it is sampled because of an ERROR, and light
  bool full() const { return full_; }          // with exponents and columns' maxima
  bool dense_next() const { return dense_left_ > 0; }  // the next step is sampled whatever it is

  // After an ERROR. True: dense steps begin, and were not going on.
  bool GoDense();

 private:
  int64_t interval_, dense_steps_;
  bool first_step_ = true;
  int64_t dense_left_ = 0;
  int64_t full_step_ = -1;  // the newest
  int64_t step_ = 0;
  bool sampling_ = false, dense_ = false, full_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_SAMPLE_SCHEDULE_H_
