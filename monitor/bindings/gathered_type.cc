#include "monitor/bindings/gathered_type.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/device_kernels.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/held_recorder.h"
#include "monitor/bindings/lists.h"
#include "monitor/bindings/owned.h"
#include "monitor/bindings/readings.h"

namespace mpnanny {
namespace {

struct GatheredObject {
  PyObject ob_base;
  GatheredTensors* tensors;  // owned
  PyObject* recorder;        // owned
};

PyTypeObject* gathered_type = nullptr;  // of the process, as the module is

constexpr size_t kOwnParameters = 16;  // of one module, for an explanation

GatheredObject* GatheredFrom(PyObject* object) { return reinterpret_cast<GatheredObject*>(object); }
GatheredTensors& TensorsIn(PyObject* object) { return *GatheredFrom(object)->tensors; }
std::set<std::string>* ReasonsOf(PyObject* object) {
  return Self(GatheredFrom(object)->recorder)->unreadable;
}

// Gathered(recorder, device_of, sampled). `device_of`: a tensor of the device on which kernels can
// be launched, None if on none.
int InitGathered(PyObject* object, PyObject* args, PyObject*) {
  PyObject *recorder = nullptr, *device_of = nullptr;
  int sampled = 0;
  if (!PyArg_ParseTuple(args, "OOp", &recorder, &device_of, &sampled)) return -1;
  if (GatheredFrom(object)->tensors != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a step is set up once");
    return -1;
  }
  DeviceNumber device;
  const CallTensors list(nullptr, TensorList::Memory::kOfAnyDevice);
  if (device_of != Py_None && list->Add(device_of)) device = list->devices()[0];
  Py_INCREF(recorder);
  GatheredFrom(object)->recorder = recorder;
  GatheredFrom(object)->tensors = new GatheredTensors(device, sampled != 0);
  return 0;
}

void DeallocGathered(PyObject* object) {
  delete GatheredFrom(object)->tensors;
  Py_XDECREF(GatheredFrom(object)->recorder);
  PyTypeObject* type = Py_TYPE(object);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(type);
}

// note(layer, leaf, inputs, output) -> whether to ask now
PyObject* NoteCall(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "note(layer, leaf, inputs, output)");
    return nullptr;
  }
  const long long layer = PyLong_AsLongLong(args[0]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyBool_FromLong(
      TensorsIn(object).Note(layer, args[1] == Py_True, args[2], args[3], ReasonsOf(object)));
}

// add(tensor, wanted, layer) -> number, -1
PyObject* AddTensor(PyObject* object, PyObject* args) {
  PyObject* tensor = nullptr;
  int wanted = 0;
  long long layer = 0;
  if (!PyArg_ParseTuple(args, "OiL", &tensor, &wanted, &layer)) return nullptr;
  return PyLong_FromLong(TensorsIn(object).Add(
      tensor, static_cast<Wanted>(std::clamp(wanted, 0, 3)), layer, ReasonsOf(object)));
}

// add_all(tensors, wanted) -> the number of each
PyObject* AddTensors(PyObject* object, PyObject* args) {
  PyObject* tensors = nullptr;
  int wanted = 0;
  if (!PyArg_ParseTuple(args, "Oi", &tensors, &wanted)) return nullptr;
  std::vector<int> numbers;
  const Py_ssize_t size = PyList_Size(tensors);
  if (size < 0) return nullptr;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Owned each = Owned::Of(PyList_GetItem(tensors, i));
    numbers.push_back(!each || each.get() == Py_None
                          ? -1
                          : TensorsIn(object).Add(each.get(),
                                                  static_cast<Wanted>(std::clamp(wanted, 0, 3)), 0,
                                                  ReasonsOf(object)));
  }
  return ListOf(numbers, PyLong_FromLong);
}

PyObject* AskLayersAtOnce(PyObject* object, PyObject* layers) {
  const Py_ssize_t size = PyList_Size(layers);
  for (Py_ssize_t i = 0; i < size; ++i)
    TensorsIn(object).AskAtOnce(PyLong_AsLongLong(Owned::Of(PyList_GetItem(layers, i)).get()));
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

PyObject* IsGatheredFull(PyObject* object, PyObject*) {
  return PyBool_FromLong(TensorsIn(object).IsFull());
}
PyObject* CountCalls(PyObject* object, PyObject*) {
  return PyLong_FromSize_t(TensorsIn(object).calls());
}

// close() -> [(number, wanted, whether kernels can read a copy, tensor)]
PyObject* CloseGathered(PyObject* object, PyObject*) {
  GatheredTensors& tensors = TensorsIn(object);
  return ListOf(tensors.Close(), [&](int number) {
    return Py_BuildValue("(iiNO)", number, static_cast<int>(tensors.wanted(number)),
                         PyBool_FromLong(tensors.is_here(number)), tensors.object(number));
  });
}

PyObject* ReplaceTensor(PyObject* object, PyObject* args) {
  int number = 0;
  PyObject* copy = nullptr;
  if (!PyArg_ParseTuple(args, "iO", &number, &copy)) return nullptr;
  return PyBool_FromLong(TensorsIn(object).Replace(number, copy));
}

// waiting(kernel) -> (rows, bytes of scratch memory that a launch of them wants)
PyObject* WaitingRows(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  device::Kernel kernel = device::Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "s", &name) || !FindKernel(name, kernel)) return nullptr;
  const auto [rows, blocks] = TensorsIn(object).Waiting(kernel);
  return Py_BuildValue("(nn)", static_cast<Py_ssize_t>(rows),
                       static_cast<Py_ssize_t>(device::ScratchBytes(blocks)));
}

// release() -> layers whose outputs were written before they were asked for
PyObject* ReleaseTensors(PyObject* object, PyObject*) {
  return ListOf(TensorsIn(object).Release(), PyLong_FromLongLong);
}

// read(kernel, chunk, address, bytes): slots that have come to the host
PyObject* ReadSlotsAt(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  int chunk = 0;
  unsigned long long address = 0, bytes = 0;
  device::Kernel kernel = device::Kernel::kFlags;
  if (!PyArg_ParseTuple(args, "siKK", &name, &chunk, &address, &bytes) ||
      !FindKernel(name, kernel)) {
    return nullptr;
  }
  TensorsIn(object).Read(kernel, chunk, reinterpret_cast<const char*>(address), bytes);
  Py_RETURN_NONE;
}

// set(number, reading)
PyObject* SetFigures(PyObject* object, PyObject* args) {
  int number = 0;
  PyObject* reading = nullptr;
  if (!PyArg_ParseTuple(args, "iO", &number, &reading)) return nullptr;
  const TensorView* view = KnownView(reading);
  if (view == nullptr || number < 0) {
    PyErr_SetString(PyExc_TypeError, "set(number, reading)");
    return nullptr;
  }
  TensorsIn(object).Set(number, *view->known);
  Py_RETURN_NONE;
}

// reading(number) -> what the core takes for the tensor | None
PyObject* ReadingOf(PyObject* object, PyObject* number) {
  const long which = PyLong_AsLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const TensorView* view = TensorsIn(object).ViewOf(static_cast<int>(which));
  if (view == nullptr) Py_RETURN_NONE;
  return MakeReading(view->dtype, *view->known, view->known_exponents);
}

// value(number) -> the value of a tensor with one element | None
PyObject* ValueOf(PyObject* object, PyObject* number) {
  const long which = PyLong_AsLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const TensorView* view = TensorsIn(object).ViewOf(static_cast<int>(which));
  if (view == nullptr) Py_RETURN_NONE;
  const TensorStats& stats = *view->known;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return PyFloat_FromDouble(stats.nan > 0      ? std::numeric_limits<double>::quiet_NaN()
                            : stats.posinf > 0 ? kInfinity
                            : stats.neginf > 0 ? -kInfinity
                                               : stats.max);
}

// report(first, last, own_of): tells the recorder of these calls, in their order. `own_of(layer)`
// gives readings of a module's parameters.
PyObject* ReportCalls(PyObject* object, PyObject* args) {
  Py_ssize_t first = 0, last = 0;
  PyObject* own_of = nullptr;
  if (!PyArg_ParseTuple(args, "nnO", &first, &last, &own_of)) return nullptr;
  GatheredTensors& tensors = TensorsIn(object);
  PyObject* const recorder = GatheredFrom(object)->recorder;
  const auto end = std::min(static_cast<size_t>(std::max<Py_ssize_t>(0, last)), tensors.calls());
  GatheredTensors::Shown shown;
  for (auto i = static_cast<size_t>(std::max<Py_ssize_t>(0, first)); i < end; ++i) {
    const GatheredTensors::Call call = tensors.call(i);
    tensors.Show(call, shown);
    bool explain = false;
    if (const HeldRecorder held(recorder); held) {
      explain = held->Observe(call.layer, shown.inputs, shown.outputs,
                              {shown.input_tickets, shown.output_tickets});
    }
    if (!explain) continue;
    const Owned own(PyObject_CallFunction(own_of, "L", static_cast<long long>(call.layer)));
    if (!own) return nullptr;
    const CallTensors parameters(nullptr);
    parameters->Collect(own.get(), kOwnParameters);
    if (const HeldRecorder held(recorder); held)
      held->Explain(call.layer, shown.inputs, shown.outputs, parameters->views());
  }
  Py_RETURN_NONE;
}

PyMethodDef kGatheredMethods[] = {
    {"note", Method<&NoteCall>(), METH_FASTCALL,
     "note(layer, leaf, inputs, output) -> whether to ask now"},
    {"add", Method<&AddTensor>(), METH_VARARGS, "add(tensor, wanted, layer) -> number | -1"},
    {"add_all", Method<&AddTensors>(), METH_VARARGS, "add_all(tensors, wanted) -> numbers"},
    {"ask_at_once", Method<&AskLayersAtOnce>(), METH_O, "ask_at_once(layers)"},
    {"is_full", Method<&IsGatheredFull>(), METH_NOARGS, "is_full() -> whether to ask now"},
    {"calls", Method<&CountCalls>(), METH_NOARGS, "calls() -> how many were noted"},
    {"close", Method<&CloseGathered>(), METH_NOARGS, "close() -> [(number, wanted, here, tensor)]"},
    {"replace", Method<&ReplaceTensor>(), METH_VARARGS,
     "replace(number, copy) -> whether it can be"},
    {"waiting", Method<&WaitingRows>(), METH_VARARGS, "waiting(kernel) -> (rows, scratch bytes)"},
    {"release", Method<&ReleaseTensors>(), METH_NOARGS,
     "release() -> layers that were written too early"},
    {"read", Method<&ReadSlotsAt>(), METH_VARARGS, "read(kernel, chunk, address, bytes)"},
    {"set", Method<&SetFigures>(), METH_VARARGS, "set(number, reading)"},
    {"reading", Method<&ReadingOf>(), METH_O, "reading(number) -> reading | None"},
    {"value", Method<&ValueOf>(), METH_O, "value(number) -> of one element | None"},
    {"report", Method<&ReportCalls>(), METH_VARARGS, "report(first, last, own_of)"},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot kGatheredSlots[] = {
    {Py_tp_init, reinterpret_cast<void*>(&Guarded<&InitGathered>::Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocGathered)},
    {Py_tp_methods, kGatheredMethods},
    {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
    {0, nullptr}};
PyType_Spec kGatheredSpec = {"mpnanny._core.Gathered", sizeof(GatheredObject), 0,
                             Py_TPFLAGS_DEFAULT, kGatheredSlots};

}  // namespace

GatheredTensors* GatheredIn(PyObject* object) {
  if (Py_TYPE(object) == gathered_type && GatheredFrom(object)->tensors != nullptr)
    return GatheredFrom(object)->tensors;
  PyErr_SetString(PyExc_TypeError, "a Gathered is wanted");
  return nullptr;
}

bool AddGatheredType(PyObject* module) {
  if (gathered_type == nullptr)
    gathered_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kGatheredSpec));
  if (gathered_type == nullptr) return false;
  Py_INCREF(gathered_type);
  return PyModule_AddObject(module, "Gathered", reinterpret_cast<PyObject*>(gathered_type)) == 0;
}

}  // namespace mpnanny
