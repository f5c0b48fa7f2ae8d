#include "monitor/bindings/gathered_tensors.h"

#include <algorithm>
#include <cstring>

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/tickets.h"
#include "monitor/core/tensor_sample.h"
#include "numerics/device/rows.h"

namespace mpnanny {
namespace {

using device::Kernel;

constexpr size_t kTensorsOfCall = 16;
// What is kept beyond what the program keeps: so many tensors, as one launch takes, or bytes.
constexpr size_t kMostTensors = device::kFlagsRows, kMostWhole = device::kRows;
constexpr int64_t kMostBytes = int64_t{64} << 20;
// Tensors that may be met again after they have been asked for: the newest.
constexpr size_t kMetAgain = 32;

size_t PlaceOf(PyObject* object, size_t places) {
  return reinterpret_cast<uintptr_t>(object) / 16 % places;
}

Kernel KernelFor(Wanted wanted) {
  return wanted == Wanted::kWhole ? Kernel::kFigures : Kernel::kFlags;
}

}  // namespace

GatheredTensors::GatheredTensors(DeviceNumber device, bool sampled)
    : device_(device), sampled_(sampled) {
  numbers_of_.fill(-1);
}

GatheredTensors::~GatheredTensors() {
  Release();
  for (Tensor& tensor : tensors_) Py_XDECREF(std::exchange(tensor.weak, nullptr));
}

bool GatheredTensors::Note(int64_t layer, bool leaf, PyObject* inputs, PyObject* output,
                           std::set<std::string>* unreadable) {
  const CallTensors given(unreadable, TensorList::Memory::kOfAnyDevice);
  const CallTensors made(unreadable, TensorList::Memory::kOfAnyDevice);
  given->Collect(inputs, kTensorsOfCall);
  made->Collect(output, kTensorsOfCall);
  const Wanted wanted = sampled_ && leaf ? Wanted::kWhole : Wanted::kExtremes;
  Call call = {layer, static_cast<uint32_t>(numbers_.size()), 0, 0};
  call.inputs = EnterAll(*given, wanted);
  call.outputs = EnterAll(*made, wanted);
  calls_.push_back(call);
  return IsFull() || at_once_.contains(layer);
}

int GatheredTensors::Add(PyObject* tensor, Wanted wanted, int64_t layer,
                         std::set<std::string>* unreadable) {
  const CallTensors list(unreadable, TensorList::Memory::kOfAnyDevice);
  if (!list->Add(tensor) || list->views().front().numel() == 0) return -1;
  return Enter(*list, 0, TensorVersion(list->objects()[0]), wanted, layer);
}

int GatheredTensors::AddForNow(PyObject* tensor, Wanted wanted, std::set<std::string>* unreadable) {
  const CallTensors list(unreadable, TensorList::Memory::kOfAnyDevice);
  if (!list->Add(tensor) || list->views().front().numel() == 0) return -1;
  const int number = Enter(*list, 0, 0, wanted, 0);
  tensors_[At(number)].for_now = true;
  return number;
}

bool GatheredTensors::IsFull() const {
  const size_t most = sampled_ ? kMostWhole : kMostTensors;
  return tensors_.size() - asked_ >= most || bytes_ > kMostBytes;
}

bool GatheredTensors::IsOf(int number, PyObject* object, long version) const {
  if (number < 0 || version < 0) return false;
  const Tensor& tensor = tensors_[At(number)];
  if (tensor.version != version) return false;
  return tensor.object == object ||
         (tensor.weak != nullptr && PyWeakref_GetObject(tensor.weak) == object);
}

uint32_t GatheredTensors::EnterAll(const TensorList& list, Wanted wanted) {
  uint32_t entered = 0;
  for (size_t i = 0; i < list.views().size(); ++i) {
    if (list.views()[i].numel() == 0) continue;
    PyObject* const object = list.objects()[i];
    const long version = TensorVersion(object);
    int& number = numbers_of_[PlaceOf(object, numbers_of_.size())];
    // What is known in less detail than it is wanted now is asked for again.
    if (!IsOf(number, object, version) ||
        (wanted == Wanted::kWhole && this->wanted(number) != Wanted::kWhole)) {
      number = Enter(list, i, version, wanted, 0);
    }
    numbers_.push_back(number);
    ++entered;
  }
  return entered;
}

int GatheredTensors::Enter(const TensorList& list, size_t i, long version, Wanted wanted,
                           int64_t layer) {
  const TensorView& view = list.views()[i];
  Tensor& tensor = tensors_.emplace_back();
  tensor.version = version;
  tensor.object = list.objects()[i];
  Py_INCREF(tensor.object);
  tensor.layer = layer;
  tensor.wanted = wanted;
  tensor.here = list.devices()[i] == device_;
  if (tensor.here && IsDense(view)) tensor.data = view.data;
  tensor.stream = list.StreamOf(i);
  tensor.view.dtype = view.dtype;
  const int64_t elements = view.numel();
  stats_.emplace_back().numel = elements;
  bytes_ += elements * ElementBytes(view.dtype);
  return static_cast<int>(tensors_.size()) - 1;
}

bool GatheredTensors::IsIntact(const Tensor& tensor) const {
  if (tensor.for_now) return true;
  if (TensorVersion(tensor.object) != tensor.version) return false;
  if (tensor.data == nullptr) return true;  // it is read by torch, which knows
  const void* const data = tensor.data;
  const CallTensors list(nullptr, TensorList::Memory::kOfAnyDevice);
  return list->Add(tensor.object) && list->views()[0].data == data;
}

std::vector<int> GatheredTensors::Close() {
  std::vector<int> others;
  for (; asked_ < tensors_.size(); ++asked_) {
    const bool intact = IsIntact(tensors_[asked_]);
    Tensor& tensor = tensors_[asked_];
    if (!intact) {
      SayWritten(static_cast<int>(asked_));
    } else if (tensor.data != nullptr) {
      tensor.waiting = true;
    } else {
      others.push_back(static_cast<int>(asked_));
    }
  }
  bytes_ = 0;
  return others;
}

void GatheredTensors::SayWritten(int number) {
  if (const int64_t layer = tensors_[At(number)].layer; layer != 0) written_.push_back(layer);
  for (const Call& call : calls_) {
    const auto* const outputs = numbers_.data() + call.first + call.inputs;
    if (std::find(outputs, outputs + call.outputs, number) != outputs + call.outputs)
      written_.push_back(call.layer);
  }
}

bool GatheredTensors::Replace(int number, PyObject* copy) {
  const CallTensors list(nullptr, TensorList::Memory::kOfAnyDevice);
  if (!list->Add(copy) || list->devices()[0] != device_ || !IsDense(list->views()[0])) return false;
  Tensor& tensor = tensors_[At(number)];
  tensor.data = list->views()[0].data;
  tensor.stream = list->StreamOf(0);
  tensor.waiting = true;
  Py_INCREF(copy);
  Py_XDECREF(std::exchange(tensor.object, copy));
  return true;
}

std::vector<GatheredTensors::Wait> GatheredTensors::Waiting(Kernel kernel) const {
  std::vector<Wait> waits;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    if (!tensor.waiting || KernelFor(tensor.wanted) != kernel) continue;
    auto wait = std::ranges::find(waits, tensor.stream, &Wait::stream);
    if (wait == waits.end()) wait = waits.insert(waits.end(), {tensor.stream});
    ++wait->rows;
    wait->blocks += device::BlocksOf(stats_[i].numel);
  }
  return waits;
}

std::vector<device::Row> GatheredTensors::Rows(Kernel kernel, std::optional<uint64_t> stream,
                                               int chunk, int first) {
  std::vector<device::Row> rows;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (!tensor.waiting || KernelFor(tensor.wanted) != kernel || tensor.stream != stream) continue;
    tensor.waiting = false;
    tensor.chunk = chunk;
    tensor.slot = first++;
    device::Row& row = rows.emplace_back();
    row = {};
    row.address[0] = reinterpret_cast<uint64_t>(tensor.data);
    row.elements = stats_[i].numel;
    row.slot = tensor.slot;
    row.dtypes[0] = static_cast<unsigned char>(tensor.view.dtype);
  }
  return rows;
}

std::vector<int64_t> GatheredTensors::Release() {
  std::vector<PyObject*> objects;  // giving back may run anything
  const size_t first = tensors_.size() - std::min(tensors_.size(), kMetAgain);
  for (; released_ < tensors_.size(); ++released_) {
    Tensor& tensor = tensors_[released_];
    tensor.waiting = false;
    objects.push_back(tensor.object);
    if (released_ >= first && Py_REFCNT(tensor.object) > 1)
      tensor.weak = PyWeakref_NewRef(tensor.object, nullptr);
    tensor.object = nullptr;
  }
  PyErr_Clear();
  for (PyObject* each : objects) Py_DECREF(each);
  return std::exchange(written_, {});
}

void GatheredTensors::Read(Kernel kernel, int chunk, const char* slots, size_t bytes) {
  const size_t size = device::SlotBytes(kernel);
  for (Tensor& tensor : tensors_) {
    if (tensor.chunk != chunk || tensor.slot < 0 || KernelFor(tensor.wanted) != kernel) continue;
    const size_t at = static_cast<size_t>(tensor.slot) * size;
    if (at + size > bytes) continue;
    if (kernel == Kernel::kFlags) {
      device::FlagsSlot slot;
      std::memcpy(&slot, slots + at, sizeof(slot));
      Learn(tensor, device::StatsOf(slot), nullptr);
    } else {
      device::FiguresSlot slot;
      std::memcpy(&slot, slots + at, sizeof(slot));
      const ExponentHistogram exponents = device::ExponentsOf(slot);
      Learn(tensor, device::StatsOf(slot), &exponents);
    }
  }
}

void GatheredTensors::Set(int number, const TensorStats& stats) {
  Learn(tensors_[At(number)], stats, nullptr);
}

void GatheredTensors::Learn(Tensor& tensor, const TensorStats& stats,
                            const ExponentHistogram* exponents) {
  TensorStats& known = stats_[static_cast<size_t>(&tensor - tensors_.data())];
  known = stats;
  tensor.view.known = &known;
  if (exponents != nullptr) tensor.view.known_exponents = &exponents_.emplace_back(*exponents);
}

const TensorView* GatheredTensors::ViewOf(int number) const {
  if (number < 0 || At(number) >= tensors_.size()) return nullptr;
  const TensorView& view = tensors_[At(number)].view;
  return view.known != nullptr ? &view : nullptr;
}

void GatheredTensors::Show(const Call& call, Shown& shown) const {
  shown.inputs.clear();
  shown.outputs.clear();
  shown.input_tickets.clear();
  shown.output_tickets.clear();
  const auto show = [&](uint32_t first, uint32_t count, std::vector<TensorView>& views,
                        std::vector<uint64_t>& tickets) {
    for (uint32_t i = first; i < first + count; ++i) {
      if (const TensorView* view = ViewOf(numbers_[i])) {
        views.push_back(*view);
        tickets.push_back(static_cast<uint64_t>(numbers_[i]) + 1);
      }
    }
  };
  show(call.first, call.inputs, shown.inputs, shown.input_tickets);
  show(call.first + call.inputs, call.outputs, shown.outputs, shown.output_tickets);
}

}  // namespace mpnanny
