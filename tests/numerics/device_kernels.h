// What the tests of device kernels share: rows of tensors, and kernels run in emulation.
#ifndef MPNANNY_TESTS_NUMERICS_DEVICE_KERNELS_H_
#define MPNANNY_TESTS_NUMERICS_DEVICE_KERNELS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "numerics/device/rows.h"
#include "tests/numerics/device_emulation.h"

namespace mpnanny {

using device::emulation::Order;
// Beside the forward one.
inline constexpr Order kOrders[] = {Order::kBackward, Order::kShuffled};

// As many rows as are asked for, in as many launches as that takes; row i has slot i.
inline device::Row RowOf(std::initializer_list<std::pair<const void*, DType>> tensors,
                         size_t elements, unsigned options = 0) {
  device::Row row = {};
  int i = 0;
  for (const auto& [memory, dtype] : tensors) {
    row.address[i] = reinterpret_cast<uintptr_t>(memory);
    row.dtypes[i++] = static_cast<unsigned char>(dtype);
  }
  row.elements = static_cast<long long>(elements);
  row.options = options;
  return row;
}

// Device memory: 16 bytes aligned, as an allocator of a device gives it.
class Scratch {
 public:
  explicit Scratch(int blocks) : memory_(device::ScratchBytes(blocks) / sizeof(Word) + 1) {}
  device::Scratch* get() { return reinterpret_cast<device::Scratch*>(memory_.data()); }
  // What the next launch relies on.
  bool IsClean() const {
    static constexpr char kNothing[sizeof(device::Progress)] = {};
    for (int i = 0; i < device::kFlagsRows; ++i) {
      const char* const at = reinterpret_cast<const char*>(memory_.data());
      if (std::memcmp(at + i * sizeof(device::Progress), kNothing, sizeof(kNothing)) != 0)
        return false;
    }
    return true;
  }

 private:
  struct alignas(16) Word {
    char bytes[16] = {};
  };
  std::vector<Word> memory_;
};

template <typename Slot, typename Table = device::Table, typename... Kernels>
std::vector<Slot> RunInEmulation(std::vector<device::Row> rows, Order order, int processors,
                                 Kernels... kernels) {
  std::vector<Slot> slots(rows.size());
  std::memset(static_cast<void*>(slots.data()), 0xa5, slots.size() * sizeof(Slot));
  for (size_t i = 0; i < rows.size();) {
    Table table = {};
    for (; i < rows.size(); ++i) {
      rows[i].slot = static_cast<int>(i);
      EXPECT_EQ(device::WrongWith(rows[i], 1), "");
      if (!device::Append(rows[i], table)) break;
    }
    Scratch scratch(table.blocks);
    (device::emulation::Launch(kernels, table, slots.data(), scratch.get(), order, processors),
     ...);
    EXPECT_TRUE(scratch.IsClean());
  }
  return slots;
}

inline std::vector<device::FlagsSlot> Flags(const std::vector<device::Row>& rows,
                                            Order order = Order::kForward, int processors = 1) {
  return RunInEmulation<device::FlagsSlot, device::FlagsTable>(rows, order, processors,
                                                               device::mpn_flags);
}
inline std::vector<device::FiguresSlot> Figures(const std::vector<device::Row>& rows,
                                                Order order = Order::kForward, int processors = 1) {
  return RunInEmulation<device::FiguresSlot>(rows, order, processors, device::mpn_figures);
}
inline std::vector<device::CompareSlot> Compare(const std::vector<device::Row>& rows,
                                                Order order = Order::kForward, int processors = 1) {
  return RunInEmulation<device::CompareSlot>(rows, order, processors, device::mpn_compare,
                                             device::mpn_compare_flushed);
}
inline std::vector<device::ChangeSlot> Change(const std::vector<device::Row>& rows,
                                              Order order = Order::kForward, int processors = 1) {
  return RunInEmulation<device::ChangeSlot>(rows, order, processors, device::mpn_change);
}

// Bit for bit.
template <typename Slot>
bool Same(const std::vector<Slot>& a, const std::vector<Slot>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Slot)) == 0;
}

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_NUMERICS_DEVICE_KERNELS_H_
