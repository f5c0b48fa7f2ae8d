// What a step on a device has shown: its tensors, noted as they come, which a few launches ask for
// together; and the calls of its modules, which are reported to the core when the figures are
// there.
//
// Owns a tensor until it has been asked for. What was written in between is no longer what its
// module has made, and nothing is said of it. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_GATHERED_TENSORS_H_
#define MPNANNY_MONITOR_BINDINGS_GATHERED_TENSORS_H_

#include <Python.h>

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "monitor/bindings/tensor_reader.h"
#include "monitor/core/device/kernels.h"
#include "monitor/core/step_inputs.h"

namespace mpnanny {

// What is to be known of a tensor. Where kernels are launched the first three are one.
enum class Wanted : uint8_t { kExtremes, kLargest, kNorm, kWhole };

class GatheredTensors {
 public:
  // Kernels can be launched on `device`; type 0: on none.
  GatheredTensors(DeviceNumber device, bool sampled);
  ~GatheredTensors();
  GatheredTensors(const GatheredTensors&) = delete;
  GatheredTensors& operator=(const GatheredTensors&) = delete;

  // --- as the step goes on ---

  // A module's call. True: it is time to ask, for there is enough, or the layer's outputs are
  // written soon after. `unreadable` takes why tensors could not be read.
  bool Note(int64_t layer, bool leaf, PyObject* inputs, PyObject* output,
            std::set<std::string>* unreadable);
  // The number of one tensor; -1 if it cannot be read. `layer`: of which it is a gradient, or 0.
  int Add(PyObject* tensor, Wanted wanted, int64_t layer, std::set<std::string>* unreadable);
  // The same of one that is asked for before anything else happens.
  int AddForNow(PyObject* tensor, Wanted wanted, std::set<std::string>* unreadable);
  bool IsFull() const;
  // Layers whose tensors are asked for at once.
  void AskAtOnce(int64_t layer) { at_once_.insert(layer); }
  size_t calls() const { return calls_.size(); }

  // --- asking, in this order ---

  // Numbers of the tensors that no kernel reads as they are: on another device, with gaps, or all.
  std::vector<int> Close();
  // Their objects, until Release(); what is wanted of them; whether kernels can read a copy.
  PyObject* object(int number) const { return tensors_[At(number)].object; }
  Wanted wanted(int number) const { return tensors_[At(number)].wanted; }
  bool is_here(int number) const { return tensors_[At(number)].here; }
  // A contiguous copy of one, which is read in its place. False: it is none.
  bool Replace(int number, PyObject* copy);
  // What waits for a kernel, by the stream that has made it, behind which it has to be read.
  struct Wait {
    std::optional<uint64_t> stream;
    size_t rows = 0;
    int64_t blocks = 0;
  };
  std::vector<Wait> Waiting(device::Kernel kernel) const;
  // The rows of a launch on that stream, with slots from `first` of the memory that is numbered
  // `chunk`.
  std::vector<device::Row> Rows(device::Kernel kernel, std::optional<uint64_t> stream, int chunk,
                                int first);
  // Gives the tensors back. The layers whose outputs were written too early since the last call.
  std::vector<int64_t> Release();

  // --- when the figures are there ---

  void Read(device::Kernel kernel, int chunk, const char* slots, size_t bytes);
  void Set(int number, const TensorStats& stats);
  // Null where nothing is known.
  const TensorView* ViewOf(int number) const;

  struct Call {
    int64_t layer;
    uint32_t first, inputs, outputs;  // in numbers_
  };
  const Call& call(size_t i) const { return calls_[i]; }
  // What is known of the inputs and outputs of a call, and their tickets.
  struct Shown {
    std::vector<TensorView> inputs, outputs;
    std::vector<uint64_t> input_tickets, output_tickets;
  };
  void Show(const Call& call, Shown& shown) const;

 private:
  struct Tensor {
    PyObject* object = nullptr;  // owned, until it has been asked for
    PyObject* weak = nullptr;    // owned, afterwards, while it may be met again
    long version = 0;            // when it was noted
    int64_t layer = 0;           // of which it is a gradient
    Wanted wanted = Wanted::kExtremes;
    bool here = false;     // on the device of launches
    bool for_now = false;  // nothing can have written it
    bool waiting = false;  // for a launch
    int chunk = -1, slot = -1;
    const void* data = nullptr;      // of one that kernels can read
    std::optional<uint64_t> stream;  // that has made it; empty: nobody knows
    TensorView view;                 // of what is known
  };

  static size_t At(int number) { return static_cast<size_t>(number); }
  // Whether a number was given to this object, alive since, in this state.
  bool IsOf(int number, PyObject* object, long version) const;
  int Enter(const TensorList& list, size_t i, long version, Wanted wanted, int64_t layer);
  // Numbers of all tensors of a call's inputs or output, into numbers_.
  uint32_t EnterAll(const TensorList& list, Wanted wanted);
  // Whether nothing has written into it, or freed its memory, since it was noted.
  bool IsIntact(const Tensor& tensor) const;
  // Of the layers that have given it out, or of which it is a gradient: it was written too early.
  void SayWritten(int number);
  void Learn(Tensor& tensor, const TensorStats& stats, const ExponentHistogram* exponents);

  const DeviceNumber device_;
  const bool sampled_;
  // The newest number of an object, by its address. Two that share a place are read twice at worst.
  std::array<int, 512> numbers_of_;
  std::vector<Tensor> tensors_;
  std::vector<int> numbers_;
  std::vector<Call> calls_;
  size_t asked_ = 0, released_ = 0;  // tensors
  int64_t bytes_ = 0;
  std::set<int64_t> at_once_;
  std::vector<int64_t> written_;
  std::deque<TensorStats> stats_;  // in which views point
  std::deque<ExponentHistogram> exponents_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_GATHERED_TENSORS_H_
