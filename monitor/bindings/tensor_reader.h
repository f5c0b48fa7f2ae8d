// Python tensors as TensorViews, without a copy and without a torch header.
//
// Reads through DLPack's C exchange table, which torch hangs on the tensor type
// (`__dlpack_c_exchange_api__`, torch 2.10 and newer), else through the tensor's own methods. Only
// memory that the CPU can read and dtypes that the kernels know make a view; of a sharded tensor it
// is this process's part. What else is met is remembered by its reason, so that it can be said
// once. Used under Python's lock, which reading may let go of (guarded.h).
#ifndef MPNANNY_MONITOR_BINDINGS_TENSOR_READER_H_
#define MPNANNY_MONITOR_BINDINGS_TENSOR_READER_H_

#include <Python.h>

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numerics/tensor_stats.h"

namespace mpnanny {

// As DLPack counts devices, and torch those of one type.
struct DeviceNumber {
  int32_t type = 0;
  int32_t index = 0;
  friend bool operator==(const DeviceNumber&, const DeviceNumber&) = default;
};

// Views into the tensors of one call, which it owns; valid until Clear(), while no tensor is
// resized.
class TensorList {
 public:
  enum class Memory { kOfHost, kOfAnyDevice };  // `data` of a device's is its own address

  TensorList() = default;
  ~TensorList() { Clear(); }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  // Of the host alone, if nothing else is said.
  void Read(Memory memory) { memory_ = memory; }
  // Finds the tensors in `object`: a tensor, or tuples, lists and dicts of them, a few levels deep.
  // `limit`: at most so many. Never leaves a Python error set.
  void Collect(PyObject* object, size_t limit);
  // One tensor; false if there is no readable floating-point memory behind it.
  bool Add(PyObject* tensor);
  void Clear();

  const std::vector<TensorView>& views() const { return views_; }
  // The object behind each view.
  const std::vector<PyObject*>& objects() const { return objects_; }
  // Where the memory of each view is.
  const std::vector<DeviceNumber>& devices() const { return devices_; }
  // Room for a ticket of each object (tickets.h), kept from call to call.
  std::vector<uint64_t>& tickets() { return tickets_; }

  // Why tensors could not be read since the last call, or not whole; each reason once.
  std::set<std::string> TakeUnreadable() { return std::exchange(unreadable_, {}); }

 private:
  void Keep(PyObject* tensor, const TensorView& view, DeviceNumber device = {});
  void Walk(PyObject* object, size_t limit, int depth);
  bool AddThroughMethods(PyObject* tensor);
  bool AddPart(PyObject* tensor);
  void Note(PyObject* tensor, const char* why);

  Memory memory_ = Memory::kOfHost;
  std::vector<TensorView> views_;
  std::vector<PyObject*> objects_;  // owned
  std::vector<DeviceNumber> devices_;
  std::vector<uint64_t> tickets_;
  std::deque<std::vector<int64_t>> owned_;  // shapes and strides that came from Python objects
  std::set<std::string> unreadable_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_TENSOR_READER_H_
