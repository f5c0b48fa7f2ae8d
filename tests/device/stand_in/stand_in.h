// What a test asks of the stand-ins for CUDA's driver and NVRTC beside the calls that these have:
// functions of the libraries, found by name.
#ifndef MPNANNY_TESTS_DEVICE_STAND_IN_STAND_IN_H_
#define MPNANNY_TESTS_DEVICE_STAND_IN_STAND_IN_H_

#include <map>
#include <mutex>
#include <string>

#define STAND_IN_CALL extern "C" __attribute__((visibility("default")))

namespace stand_in {

// How often each call was made, and which fail.
class Calls {
 public:
  // What the call gives; counts it.
  int Make(const char* name) {
    const std::lock_guard<std::mutex> lock(lock_);
    ++made_[name];
    const auto fails = failures_.find(name);
    return fails == failures_.end() ? 0 : fails->second;
  }
  void Fail(const char* name, int result) {
    const std::lock_guard<std::mutex> lock(lock_);
    failures_[name] = result;
  }
  int Made(const char* name) {
    const std::lock_guard<std::mutex> lock(lock_);
    return made_[name];
  }
  void Reset() {
    const std::lock_guard<std::mutex> lock(lock_);
    made_.clear();
    failures_.clear();
  }

 private:
  std::mutex lock_;
  std::map<std::string, int> made_, failures_;
};

inline Calls& TheCalls() {
  static Calls calls;
  return calls;
}

}  // namespace stand_in

STAND_IN_CALL void stand_in_fail(const char* name, int result) {
  stand_in::TheCalls().Fail(name, result);
}
STAND_IN_CALL int stand_in_made(const char* name) { return stand_in::TheCalls().Made(name); }

#endif  // MPNANNY_TESTS_DEVICE_STAND_IN_STAND_IN_H_
