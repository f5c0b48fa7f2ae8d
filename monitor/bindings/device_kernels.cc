#include "monitor/bindings/device_kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/bindings/convert.h"
#include "monitor/bindings/finding_tuples.h"
#include "monitor/bindings/gathered_type.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/lists.h"
#include "monitor/bindings/owned.h"
#include "monitor/core/device/kernels.h"
#include "numerics/device/rows.h"

namespace mpnanny {
namespace {

using device::Kernel;
using device::Kernels;

struct KernelsObject {
  PyObject ob_base;
  Kernels* kernels;  // owned
};

constexpr const char* kKernelNames[] = {"flags", "figures", "compare", "change"};

PyObject* RaiseError(const Error& error) {
  PyErr_SetString(error.kind == ErrorKind::kInvalidInput ? PyExc_ValueError : PyExc_RuntimeError,
                  error.Text().c_str());
  return nullptr;
}

// (elements, slot, options, address, dtype, address, dtype …); false with a Python error set.
bool ParseRow(PyObject* tuple, device::Row& row) {
  const Py_ssize_t size = PyTuple_Size(tuple);
  if (size < 0) return false;
  if (size < 5 || size > 11 || size % 2 == 0) {
    PyErr_SetString(PyExc_ValueError,
                    "a row is (elements, slot, options, address, dtype, …) of up to 4 tensors");
    return false;
  }
  const auto number = [&](Py_ssize_t i) { return PyLong_AsLongLong(PyTuple_GetItem(tuple, i)); };
  row = {};
  row.elements = number(0);
  row.slot = static_cast<int>(std::clamp(number(1), -1LL, 0x7fffffffLL));
  row.options = static_cast<unsigned>(number(2));
  for (Py_ssize_t i = 3; i < size; i += 2) {
    row.address[(i - 3) / 2] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, i));
    // What is no dtype becomes 0, the unknown one.
    const long long dtype = number(i + 1);
    row.dtypes[(i - 3) / 2] = static_cast<unsigned char>(dtype > 0 && dtype < kDTypes ? dtype : 0);
  }
  return PyErr_Occurred() == nullptr;
}

// False with a Python error set.
bool ParseRows(PyObject* list, std::vector<device::Row>& rows) {
  const Py_ssize_t size = PyList_Size(list);
  if (size < 0) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Owned tuple = Owned::Of(PyList_GetItem(list, i));
    if (!tuple || !ParseRow(tuple.get(), rows.emplace_back())) return false;
  }
  return true;
}

int InitKernels(PyObject* object, PyObject* args, PyObject*) {
  auto* self = reinterpret_cast<KernelsObject*>(object);
  PyObject* folders = nullptr;
  const char *cache = "", *driver = "libcuda.so.1";
  if (!PyArg_ParseTuple(args, "O|ss", &folders, &cache, &driver)) return -1;
  const Py_ssize_t size = PyList_Size(folders);
  if (size < 0) return -1;
  if (self->kernels != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "kernels are set up once");
    return -1;
  }
  std::vector<std::string> names;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Owned each = Owned::Of(PyList_GetItem(folders, i));
    const char* const name = each ? PyUnicode_AsUTF8AndSize(each.get(), nullptr) : nullptr;
    if (name == nullptr) return -1;
    names.emplace_back(name);
  }
  auto opened = Kernels::Open(names, cache, driver);
  if (!opened) {
    RaiseError(opened.error());
    return -1;
  }
  self->kernels = opened->release();
  return 0;
}

void DeallocKernels(PyObject* object) {
  delete reinterpret_cast<KernelsObject*>(object)->kernels;
  PyTypeObject* type = Py_TYPE(object);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(type);
}

// Null with a Python error set where __init__ has failed.
Kernels* KernelsIn(PyObject* object) {
  Kernels* const kernels = reinterpret_cast<KernelsObject*>(object)->kernels;
  if (kernels == nullptr) PyErr_SetString(PyExc_RuntimeError, "the kernels were not set up");
  return kernels;
}

PyObject* CompileKernel(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  int architecture = 0;
  Kernel kernel = Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "si", &name, &architecture)) return nullptr;
  Kernels* const kernels = KernelsIn(object);
  if (kernels == nullptr || !FindKernel(name, kernel)) return nullptr;
  Result<void> compiled;
  {
    const Unlocked unlocked;
    compiled = kernels->Compile(kernel, architecture);
  }
  if (!compiled) return RaiseError(compiled.error());
  Py_RETURN_NONE;
}

PyObject* LaunchKernel(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  PyObject* list = nullptr;
  unsigned long long slots = 0, scratch = 0, scratch_bytes = 0, stream = 0;
  int slot_count = 0;
  Kernel kernel = Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "sOKiKKK", &name, &list, &slots, &slot_count, &scratch,
                        &scratch_bytes, &stream)) {
    return nullptr;
  }
  Kernels* const kernels = KernelsIn(object);
  std::vector<device::Row> rows;
  if (kernels == nullptr || !FindKernel(name, kernel) || !ParseRows(list, rows)) return nullptr;
  Result<int> launched = 0;
  {
    const Unlocked unlocked;
    launched = kernels->Launch(kernel, rows, {slots, slot_count, scratch, scratch_bytes},
                               reinterpret_cast<device::Driver::Stream>(stream));
  }
  if (!launched) return RaiseError(launched.error());
  return PyLong_FromLong(*launched);
}

// The rows of a Gathered that wait for this kernel.
PyObject* LaunchGathered(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  PyObject* gathered = nullptr;
  int chunk = 0, first = 0, slot_count = 0;
  unsigned long long slots = 0, scratch = 0, scratch_bytes = 0, stream = 0;
  int made_there = 0;
  Kernel kernel = Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "sOiiKiKKKp", &name, &gathered, &chunk, &first, &slots, &slot_count,
                        &scratch, &scratch_bytes, &stream, &made_there)) {
    return nullptr;
  }
  Kernels* const kernels = KernelsIn(object);
  GatheredTensors* const tensors = GatheredIn(gathered);
  if (kernels == nullptr || tensors == nullptr || !FindKernel(name, kernel)) return nullptr;
  const std::vector<device::Row> rows = tensors->Rows(
      kernel, made_there ? std::optional<uint64_t>(stream) : std::nullopt, chunk, first);
  // With Python's lock: what is launched lives as long as nobody gives it back, and a launch waits
  // for nothing.
  const Result<int> launched =
      kernels->Launch(kernel, rows, {slots, slot_count, scratch, scratch_bytes},
                      reinterpret_cast<device::Driver::Stream>(stream));
  if (!launched) return RaiseError(launched.error());
  return PyLong_FromLong(*launched);
}

PyObject* ScratchBytesOf(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* list = nullptr;
  Kernel kernel = Kernel::kFlags;
  std::vector<device::Row> rows;
  if (!PyArg_ParseTuple(args, "sO", &name, &list) || !FindKernel(name, kernel) ||
      !ParseRows(list, rows)) {
    return nullptr;
  }
  return PyLong_FromSize_t(device::ScratchFor(kernel, rows));
}

// --- slots, copied to the host ---

PyObject* SlotTuple(const device::FlagsSlot& slot) {
  return Py_BuildValue("(LLLLddd)", slot.elements, slot.nan, slot.posinf, slot.neginf, slot.least,
                       slot.greatest, slot.squares);
}
PyObject* SlotTuple(const device::FiguresSlot& slot) {
  return Py_BuildValue("(L[LLLLLddddddLLLL]N)", slot.elements, slot.nan, slot.posinf, slot.neginf,
                       slot.zeros, slot.finite, slot.min, slot.max, slot.absmin, slot.mean,
                       slot.squared_deviation, slot.squares, slot.below_fp16, slot.subnormal_fp16,
                       slot.above_fp16, slot.near_fp16_max,
                       ListOf(slot.exponents, PyLong_FromLongLong));
}
PyObject* SlotTuple(const device::CompareSlot& slot) { return FiguresTuple(device::ErrorOf(slot)); }
PyObject* SlotTuple(const device::ChangeSlot& slot) {
  return Py_BuildValue("(LLLddddd)", slot.elements, slot.moved, slot.lost, slot.change,
                       slot.lost_change, slot.kept_change, slot.squared_change, slot.squared_error);
}

template <typename Slot>
PyObject* SlotList(const char* at, Py_ssize_t bytes) {
  std::vector<Slot> slots(static_cast<size_t>(bytes) / sizeof(Slot));
  std::memcpy(slots.data(), at, slots.size() * sizeof(Slot));
  return ListOf(slots, [](const Slot& each) { return SlotTuple(each); });
}

PyObject* ReadSlots(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* data = nullptr;
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  Kernel kernel = Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "sO", &name, &data) || !FindKernel(name, kernel) ||
      PyBytes_AsStringAndSize(data, &bytes, &size) != 0) {
    return nullptr;
  }
  switch (kernel) {
    case Kernel::kFlags:
      return SlotList<device::FlagsSlot>(bytes, size);
    case Kernel::kFigures:
      return SlotList<device::FiguresSlot>(bytes, size);
    case Kernel::kCompare:
      return SlotList<device::CompareSlot>(bytes, size);
    case Kernel::kChange:
      return SlotList<device::ChangeSlot>(bytes, size);
  }
  Py_RETURN_NONE;
}

PyMethodDef kDeviceKernelsMethods[] = {
    {"compile", Method<&CompileKernel>(), METH_VARARGS,
     "compile(kernel, architecture): what launch() would compile at its first call; needs no "
     "device"},
    {"launch", Method<&LaunchKernel>(), METH_VARARGS,
     "launch(kernel, [(elements, slot, options, address, dtype, …)], slots, slot count, scratch,"
     " scratch bytes, stream) -> how many launches"},
    {"launch_gathered", Method<&LaunchGathered>(), METH_VARARGS,
     "launch_gathered(kernel, gathered, chunk, first slot, slots, slot count, scratch, scratch"
     " bytes, stream, whether it is known to have made them) -> how many launches"},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot kDeviceKernelsSlots[] = {
    {Py_tp_init, reinterpret_cast<void*>(&Guarded<&InitKernels>::Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocKernels)},
    {Py_tp_methods, kDeviceKernelsMethods},
    {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
    {0, nullptr}};
PyType_Spec kDeviceKernelsSpec = {"mpnanny._core.DeviceKernels", sizeof(KernelsObject), 0,
                                  Py_TPFLAGS_DEFAULT, kDeviceKernelsSlots};

PyMethodDef kDeviceFunctions[] = {{"device_scratch_bytes", Method<&ScratchBytesOf>(), METH_VARARGS,
                                   "device_scratch_bytes(kernel, rows) -> what a launch of them "
                                   "wants, zeroed before its first use"},
                                  {"device_slots", Method<&ReadSlots>(), METH_VARARGS,
                                   "device_slots(kernel, bytes) -> [the fields of each slot]"},
                                  {nullptr, nullptr, 0, nullptr}};

PyObject* SlotSizes() {
  PyObject* sizes = PyDict_New();
  for (const Kernel kernel : device::kAllKernels) {
    const Owned bytes(PyLong_FromSize_t(device::SlotBytes(kernel)));
    if (sizes == nullptr || !bytes ||
        PyDict_SetItemString(sizes, kKernelNames[static_cast<int>(kernel)], bytes.get()) != 0) {
      Py_XDECREF(sizes);
      return nullptr;
    }
  }
  return sizes;
}

PyObject* DTypeNumbers() {
  PyObject* numbers = PyDict_New();
  for (int i = 1; i < kDTypes; ++i) {
    const Owned number(PyLong_FromLong(i));
    const Owned name(Text(DTypeName(static_cast<DType>(i))));
    if (numbers == nullptr || !number || !name ||
        PyDict_SetItem(numbers, name.get(), number.get()) != 0) {
      Py_XDECREF(numbers);
      return nullptr;
    }
  }
  return numbers;
}

bool AddMade(PyObject* module, const char* name, PyObject* made) {
  return made != nullptr && PyModule_AddObject(module, name, made) == 0;
}

}  // namespace

bool FindKernel(const char* name, Kernel& kernel) {
  for (const Kernel each : device::kAllKernels) {
    if (std::string_view(name) == kKernelNames[static_cast<int>(each)]) {
      kernel = each;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError, "'%s' is no kernel", name);
  return false;
}

bool AddDeviceKernels(PyObject* module) {
  return AddMade(module, "DeviceKernels", PyType_FromSpec(&kDeviceKernelsSpec)) &&
         AddMade(module, "DEVICE_SLOT_BYTES", SlotSizes()) &&
         AddMade(module, "DEVICE_DTYPES", DTypeNumbers()) &&
         PyModule_AddFunctions(module, kDeviceFunctions) == 0 &&
         PyModule_AddIntConstant(module, "DEVICE_RESTARTS", device::kRestarts) == 0 &&
         PyModule_AddIntConstant(module, "DEVICE_GATED", device::kGated) == 0;
}

}  // namespace mpnanny
