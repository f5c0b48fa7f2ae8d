// The device kernels as plain C++: what kernels/target.h gives on a GPU, by loops over threads and
// blocks.
//
// The threads of a phase, and the blocks of a launch, run one after the other in an order that a
// test chooses: what depends on the order is wrong on a device. Shared memory holds what the block
// before left in it, as there. Blocks may also run on several threads of the CPU at once.
#ifndef MPNANNY_TESTS_NUMERICS_DEVICE_EMULATION_H_
#define MPNANNY_TESTS_NUMERICS_DEVICE_EMULATION_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "numerics/device/table.h"

#define MPN_KERNEL(name) inline void name
#define MPN_INLINE inline
#define MPN_SHARED static thread_local
#define MPN_UNROLL
#define MPN_ROLLED
#define MPN_EACH_THREAD(thread) for (const int thread : ::mpnanny::device::emulation::Threads())

namespace mpnanny::device {
namespace emulation {

enum class Order { kForward, kBackward, kShuffled };

inline std::vector<int> Numbers(int count, Order order) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (order == Order::kBackward) std::reverse(numbers.begin(), numbers.end());
  if (order == Order::kShuffled) std::shuffle(numbers.begin(), numbers.end(), std::mt19937(7));
  return numbers;
}

struct Running {
  std::vector<int> threads = Numbers(kThreads, Order::kForward);
  int block = 0;
};
inline Running& Current() {
  static thread_local Running running;
  return running;
}
inline const std::vector<int>& Threads() { return Current().threads; }

// Runs `kernel(table, slots, scratch)`. `processors`: threads of the CPU.
template <typename Kernel, typename AnyTable, typename Slot>
void Launch(Kernel kernel, const AnyTable& table, Slot* slots, Scratch* scratch,
            Order order = Order::kForward, int processors = 1) {
  const std::vector<int> blocks = Numbers(table.blocks, order);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    Current().threads = Numbers(kThreads, order);
    for (size_t i = next++; i < blocks.size(); i = next++) {
      Current().block = blocks[i];
      kernel(table, slots, scratch);
    }
  };
  if (processors == 1) return work();
  std::vector<std::thread> threads;
  for (int i = 0; i < processors; ++i) threads.emplace_back(work);
  for (std::thread& each : threads) each.join();
}

}  // namespace emulation

inline int BlockNumber() { return emulation::Current().block; }
inline void Fence() {}  // the atomics below order memory

inline float FloatOf(unsigned int bits) { return std::bit_cast<float>(bits); }
inline unsigned int BitsOf(float value) { return std::bit_cast<unsigned int>(value); }
inline double DoubleOf(unsigned long long bits) { return std::bit_cast<double>(bits); }
inline unsigned long long BitsOf(double value) { return std::bit_cast<unsigned long long>(value); }

template <typename T>
T AddTo(T& sum, T value) {
  return std::atomic_ref<T>(sum).fetch_add(value);
}
template <typename T>
void RaiseTo(T& most, T value) {
  std::atomic_ref<T> shared(most);
  T before = shared.load();
  while (before < value && !shared.compare_exchange_weak(before, value)) {
  }
}

template <typename T>
T Load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <typename T>
void Store(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

}  // namespace mpnanny::device

// The text itself.
#include "numerics/device/kernels/change.h"   // IWYU pragma: export
#include "numerics/device/kernels/compare.h"  // IWYU pragma: export
#include "numerics/device/kernels/figures.h"  // IWYU pragma: export
#include "numerics/device/kernels/flags.h"    // IWYU pragma: export

#endif  // MPNANNY_TESTS_NUMERICS_DEVICE_EMULATION_H_
