#include "monitor/bindings/call_tensors.h"

#include <utility>
#include <vector>

namespace mpnanny {
namespace {

constexpr size_t kKept = 16;  // lists; a call has three at most

std::vector<std::unique_ptr<TensorList>>& Free() {
  static auto* lists = new std::vector<std::unique_ptr<TensorList>>;
  return *lists;
}

}  // namespace

CallTensors::CallTensors(std::set<std::string>* unreadable, TensorList::Memory memory)
    : unreadable_(unreadable) {
  if (Free().empty()) {
    list_ = std::make_unique<TensorList>();
  } else {
    list_ = std::move(Free().back());
    Free().pop_back();
  }
  list_->Read(memory);
}

CallTensors::~CallTensors() {
  std::set<std::string> reasons = list_->TakeUnreadable();
  if (unreadable_ != nullptr) unreadable_->merge(reasons);
  list_->Clear();  // gives tensors back, which may run anything: the list is still this call's
  if (Free().size() < kKept) Free().push_back(std::move(list_));
}

}  // namespace mpnanny
