#include "monitor/bindings/device_kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/bindings/convert.h"
#include "monitor/bindings/finding_tuples.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/lists.h"
#include "monitor/bindings/owned.h"
#include "monitor/core/device/kernels.h"
#include "numerics/device/rows.h"

namespace mpnanny {
namespace {

using device::Kernel;
using device::Kernels;
using device::Table;

struct KernelsObject {
  PyObject ob_base;
  Kernels* kernels;  // owned
};

constexpr const char* kKernelNames[] = {"flags", "figures", "compare", "change"};

// False, with a ValueError, for a word that is no kernel.
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

// As many tables as the rows take; false with a Python error set.
bool ParseTables(PyObject* rows, std::vector<Table>& tables) {
  const Py_ssize_t size = PyList_Size(rows);
  if (size < 0) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Owned tuple = Owned::Of(PyList_GetItem(rows, i));
    device::Row row;
    if (!tuple || !ParseRow(tuple.get(), row)) return false;
    if (!tables.empty() && device::Append(row, tables.back())) continue;
    tables.push_back({});
    if (!device::Append(row, tables.back())) {
      PyErr_SetString(PyExc_ValueError, "a tensor is too large for a launch");
      return false;
    }
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
  PyObject* rows = nullptr;
  unsigned long long slots = 0, scratch = 0, scratch_bytes = 0, stream = 0;
  int slot_count = 0;
  Kernel kernel = Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "sOKiKKK", &name, &rows, &slots, &slot_count, &scratch,
                        &scratch_bytes, &stream)) {
    return nullptr;
  }
  Kernels* const kernels = KernelsIn(object);
  std::vector<Table> tables;
  if (kernels == nullptr || !FindKernel(name, kernel) || !ParseTables(rows, tables)) return nullptr;
  Result<void> launched;
  {
    const Unlocked unlocked;
    for (size_t i = 0; i < tables.size() && launched; ++i) {
      launched = kernels->Launch(kernel, tables[i], {slots, slot_count, scratch, scratch_bytes},
                                 reinterpret_cast<device::Driver::Stream>(stream));
    }
  }
  if (!launched) return RaiseError(launched.error());
  return PyLong_FromSize_t(tables.size());
}

PyObject* ScratchBytesOf(PyObject*, PyObject* rows) {
  std::vector<Table> tables;
  if (!ParseTables(rows, tables)) return nullptr;
  int blocks = 0;
  for (const Table& each : tables) blocks = std::max(blocks, each.blocks);
  return PyLong_FromSize_t(device::ScratchBytes(blocks));
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
     " scratch bytes, stream) -> how many tables"},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot kDeviceKernelsSlots[] = {
    {Py_tp_init, reinterpret_cast<void*>(&Guarded<&InitKernels>::Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocKernels)},
    {Py_tp_methods, kDeviceKernelsMethods},
    {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
    {0, nullptr}};
PyType_Spec kDeviceKernelsSpec = {"mpnanny._core.DeviceKernels", sizeof(KernelsObject), 0,
                                  Py_TPFLAGS_DEFAULT, kDeviceKernelsSlots};

PyMethodDef kDeviceFunctions[] = {
    {"device_scratch_bytes", Method<&ScratchBytesOf>(), METH_O,
     "device_scratch_bytes(rows) -> what a launch of them wants, zeroed before its first use"},
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

bool AddDeviceKernels(PyObject* module) {
  return AddMade(module, "DeviceKernels", PyType_FromSpec(&kDeviceKernelsSpec)) &&
         AddMade(module, "DEVICE_SLOT_BYTES", SlotSizes()) &&
         AddMade(module, "DEVICE_DTYPES", DTypeNumbers()) &&
         PyModule_AddFunctions(module, kDeviceFunctions) == 0 &&
         PyModule_AddIntConstant(module, "DEVICE_RESTARTS", device::kRestarts) == 0 &&
         PyModule_AddIntConstant(module, "DEVICE_GATED", device::kGated) == 0;
}

}  // namespace mpnanny
