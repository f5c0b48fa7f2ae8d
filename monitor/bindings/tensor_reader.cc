#include "monitor/bindings/tensor_reader.h"

#include <cstdint>
#include <cstdlib>
#include <unordered_map>

#include "monitor/bindings/owned.h"
#include "monitor/bindings/readings.h"

namespace mpnanny {
namespace {

// The part of DLPack 1.x that is read here, in its binary layout (dmlc/dlpack,
// include/dlpack/dlpack.h).
struct DlDevice {
  int32_t type;
  int32_t id;
};
struct DlDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlExchangeHeader {
  uint32_t major;
  uint32_t minor;
  DlExchangeHeader* previous;
};
struct DlExchange {
  DlExchangeHeader header;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, DlTensor* out);  // borrows; does not synchronise
  void* current_stream;
};

constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11;
constexpr int32_t kCudaManaged = 13;
constexpr uint8_t kFloat = 2, kBfloat = 4, kComplex = 5, kE4M3 = 10, kE5M2 = 12;

DType FromDlType(DlDataType type) {
  if (type.lanes != 1) return DType::kUnknown;
  if (type.code == kFloat && type.bits == 32) return DType::kFloat32;
  if (type.code == kFloat && type.bits == 16) return DType::kFloat16;
  if (type.code == kFloat && type.bits == 64) return DType::kFloat64;
  if (type.code == kBfloat && type.bits == 16) return DType::kBFloat16;
  if (type.code == kE4M3) return DType::kFloat8E4M3;
  if (type.code == kE5M2) return DType::kFloat8E5M2;
  return DType::kUnknown;
}

bool IsHost(int32_t type) { return type == kCpu || type == kCudaHost || type == kRocmHost; }
bool IsCuda(int32_t type) { return type == kCuda || type == kCudaManaged || type == kRocm; }

// "cuda:1", which is torch's word for ROCm too, and "cpu"; type 0 for any other device.
DeviceNumber NumberOf(const std::string& name) {
  if (name == "cpu") return {kCpu, 0};
  if (!name.starts_with("cuda")) return {};
  const size_t colon = name.find(':');
  return {kCuda, colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1)};
}

// What a Python type is to us. Types are few and live long; a type that is freed and its address
// reused by another is told apart by the reference that is kept.
struct TypeEntry {
  const DlExchange* exchange = nullptr;
  bool is_tensor = false;
};

const TypeEntry& Lookup(PyObject* object) {
  static auto* types = new std::unordered_map<PyTypeObject*, TypeEntry>;
  PyTypeObject* type = Py_TYPE(object);
  const auto known = types->find(type);
  if (known != types->end()) return known->second;
  TypeEntry entry;
  if (PyObject* capsule =
          PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__")) {
    void* pointer = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    for (auto* header = static_cast<DlExchangeHeader*>(pointer); header != nullptr;
         header = header->previous) {
      if (header->major == 1) {
        entry.exchange = reinterpret_cast<const DlExchange*>(header);
        break;
      }
    }
    Py_DECREF(capsule);
  }
  PyErr_Clear();
  entry.is_tensor = entry.exchange != nullptr || (PyObject_HasAttrString(object, "data_ptr") &&
                                                  PyObject_HasAttrString(object, "element_size"));
  const auto [place, added] = types->emplace(type, entry);
  if (added) Py_INCREF(type);  // else another thread was faster
  return place->second;
}

int64_t CallInt(PyObject* object, const char* method, bool& ok) {
  PyObject* result = PyObject_CallMethod(object, method, nullptr);
  const int64_t value = result != nullptr ? PyLong_AsLongLong(result) : -1;
  Py_XDECREF(result);
  ok = ok && PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return value;
}

bool Says(PyObject* object, const char* method) {
  PyObject* result = PyObject_CallMethod(object, method, nullptr);
  const bool yes = result != nullptr && PyObject_IsTrue(result) == 1;
  Py_XDECREF(result);
  PyErr_Clear();
  return yes;
}

bool ToInts(const Owned& sequence, std::vector<int64_t>& out) {
  if (!sequence) return PyErr_Clear(), false;
  const Py_ssize_t size = PySequence_Size(sequence.get());
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Owned item(PySequence_GetItem(sequence.get(), i));
    out.push_back(item ? PyLong_AsLongLong(item.get()) : -1);
  }
  const bool ok = size >= 0 && PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return ok;
}

std::string AttributeText(PyObject* object, const char* attribute) {
  PyObject* value = PyObject_GetAttrString(object, attribute);
  PyObject* text = value != nullptr ? PyObject_Str(value) : nullptr;
  const char* bytes = text != nullptr ? PyUnicode_AsUTF8AndSize(text, nullptr) : nullptr;
  std::string word = bytes != nullptr ? bytes : "";
  Py_XDECREF(text);
  Py_XDECREF(value);
  PyErr_Clear();
  return word;
}

std::string TypeName(PyObject* object) {
  return AttributeText(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__");
}

// Whether there is memory at `data`, where `tensor` says that its `itemsize`-byte elements begin. A
// tensor that has none of its own (DTensor, one whose storage was freed) answers with its offset,
// counted from 0: low addresses, which memory hardly ever has, are therefore looked at twice.
bool HasMemory(PyObject* tensor, const void* data, int64_t itemsize) {
  constexpr uintptr_t kLow = uintptr_t{1} << 36;
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address >= kLow) return true;
  if (address == 0) return false;
  bool ok = true;
  const int64_t offset = CallInt(tensor, "storage_offset", ok);
  return ok && address != static_cast<uintptr_t>(offset * itemsize);
}

}  // namespace

void TensorList::Clear() {
  views_.clear();
  devices_.clear();
  while (!objects_.empty()) {
    PyObject* object = objects_.back();
    objects_.pop_back();
    Py_DECREF(object);
  }
  owned_.clear();
}

void TensorList::Keep(PyObject* tensor, const TensorView& view, DeviceNumber device) {
  views_.push_back(view);
  devices_.push_back(device);
  objects_.push_back(tensor);
  Py_INCREF(tensor);
}

void TensorList::Note(PyObject* tensor, const char* why) {
  unreadable_.insert("tensors of type " + TypeName(tensor) + " " + why);
}

bool TensorList::Add(PyObject* tensor) {
  if (const TensorView* known = KnownView(tensor)) {
    Keep(tensor, *known);
    return true;
  }
  const TypeEntry& type = Lookup(tensor);
  if (!type.is_tensor) return false;
  if (type.exchange == nullptr) return AddThroughMethods(tensor);
  DlTensor view{};
  if (type.exchange->tensor_from_object(tensor, &view) != 0) {
    PyErr_Clear();
    Note(tensor, "that have no plain memory (sparse, meta, quantized or inside a transform)");
    return false;
  }
  const DType dtype = FromDlType(view.dtype);
  if (dtype == DType::kUnknown) {  // integers and the like: nothing to watch
    if (view.dtype.code == kComplex) unreadable_.insert("complex tensors");
    return false;
  }
  if (!IsHost(view.device.type) && (memory_ == Memory::kOfHost || !IsCuda(view.device.type))) {
    unreadable_.insert("tensors on the device " + AttributeText(tensor, "device") +
                       ": their statistics are not read yet");
    return false;
  }
  const auto dims = static_cast<size_t>(view.ndim);
  TensorView found;
  found.dtype = dtype;
  found.shape = {view.shape, dims};
  if (view.strides != nullptr) found.strides = {view.strides, dims};
  found.data = static_cast<const char*>(view.data) + view.byte_offset;
  if (found.numel() > 0 && !HasMemory(tensor, found.data, view.dtype.bits / 8)) {
    return AddPart(tensor);
  }
  // The sign is not in the memory of the imaginary part of a conjugate, whose elements lie apart.
  if (!found.strides.empty() && found.strides.back() != 1 && Says(tensor, "is_neg")) {
    Note(tensor, "that are negated views");
    return false;
  }
  Keep(tensor, found,
       IsHost(view.device.type) ? DeviceNumber{kCpu, 0}
                                : DeviceNumber{view.device.type, view.device.id});
  return true;
}

bool TensorList::AddPart(PyObject* tensor) {
  const Owned part(PyObject_HasAttrString(tensor, "_local_tensor") != 0 &&
                           TypeName(tensor) == "DTensor"
                       ? PyObject_GetAttrString(tensor, "_local_tensor")
                       : nullptr);
  PyErr_Clear();
  const bool added = part && part.get() != tensor && Add(part.get());
  if (added) {
    unreadable_.insert("of sharded tensors (DTensor) more than this process's shard");
  } else {
    Note(tensor, "whose memory is elsewhere (FakeTensor, freed storage)");
  }
  return added;
}

bool TensorList::AddThroughMethods(PyObject* tensor) {
  const std::string dtype = AttributeText(tensor, "dtype"),
                    device = AttributeText(tensor, "device");
  TensorView view;
  for (int i = 1; i < kDTypes; ++i) {
    if (dtype == "torch." + std::string(DTypeName(static_cast<DType>(i))))
      view.dtype = static_cast<DType>(i);
  }
  if (view.dtype == DType::kUnknown) {
    if (dtype.starts_with("torch.complex")) unreadable_.insert("complex tensors");
    return false;
  }
  const DeviceNumber number = NumberOf(device);
  if (number.type != kCpu && (memory_ == Memory::kOfHost || number.type != kCuda)) {
    unreadable_.insert("tensors on the device " + device + ": their statistics are not read yet");
    return false;
  }
  bool ok = true;
  const int64_t pointer = CallInt(tensor, "data_ptr", ok);
  const int64_t itemsize = CallInt(tensor, "element_size", ok);
  std::vector<int64_t>& shape = owned_.emplace_back();
  ok = ok && ToInts(Owned(PyObject_GetAttrString(tensor, "shape")), shape);
  std::vector<int64_t>& strides = owned_.emplace_back();
  ok = ok && ToInts(Owned(PyObject_CallMethod(tensor, "stride", nullptr)), strides);
  view.shape = shape;
  view.strides = strides;
  view.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(pointer));
  if (!ok || shape.size() != strides.size()) {
    Note(tensor, "that have no plain memory");
    return false;
  }
  if (view.numel() > 0 && !HasMemory(tensor, view.data, itemsize)) return AddPart(tensor);
  Keep(tensor, view, number);
  return true;
}

void TensorList::Collect(PyObject* object, size_t limit) { Walk(object, limit, 0); }

void TensorList::Walk(PyObject* object, size_t limit, int depth) {
  constexpr int kDepth = 3;
  if (object == nullptr || object == Py_None || depth > kDepth || views_.size() >= limit) return;
  if (PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(object); ++i)
      Walk(PyTuple_GetItem(object, i), limit, depth + 1);
  } else if (PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PyList_Size(object); ++i)
      Walk(Owned::Of(PyList_GetItem(object, i)).get(), limit, depth + 1);
    PyErr_Clear();  // of an item that another thread has removed
  } else if (PyDict_Check(object)) {
    Walk(Owned(PyDict_Values(object)).get(), limit, depth);
    PyErr_Clear();
  } else {
    Add(object);
  }
}

}  // namespace mpnanny
