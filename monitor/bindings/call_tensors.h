// The tensors of one call of Python's.
//
// A list is taken from those that earlier calls have given back, so that a call allocates nothing,
// and belongs to this call alone: while it lets go of Python's lock, or calls code that calls back
// here, no other call meets it. Used under Python's lock.
#ifndef MPNANNY_MONITOR_BINDINGS_CALL_TENSORS_H_
#define MPNANNY_MONITOR_BINDINGS_CALL_TENSORS_H_

#include <memory>
#include <set>
#include <string>

#include "monitor/bindings/tensor_reader.h"

namespace mpnanny {

class CallTensors {
 public:
  // `unreadable`: takes why tensors could not be read, if anybody wants to know. Outlives this.
  explicit CallTensors(std::set<std::string>* unreadable = nullptr,
                       TensorList::Memory memory = TensorList::Memory::kOfHost);
  ~CallTensors();
  CallTensors(const CallTensors&) = delete;
  CallTensors& operator=(const CallTensors&) = delete;

  TensorList& operator*() const { return *list_; }
  TensorList* operator->() const { return list_.get(); }

 private:
  std::unique_ptr<TensorList> list_;
  std::set<std::string>* unreadable_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_CALL_TENSORS_H_
