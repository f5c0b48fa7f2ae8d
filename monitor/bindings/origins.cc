#include "monitor/bindings/origins.h"

#include <utility>

#include "monitor/bindings/convert.h"
#include "monitor/bindings/recorder_object.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {
namespace {

constexpr size_t kTensors = 8'192;  // a fused optimizer step is one call with all parameters

// One list for all calls, which come one at a time, so that they allocate nothing.
TensorList& Collected(PyObject* tensors) {
  static auto* list = new TensorList;
  list->Clear();
  list->Collect(tensors, kTensors);
  return *list;
}

}  // namespace

PyObject* SeeOrigin(PyObject* object, PyObject* args) {
  const char *phase = nullptr, *name = nullptr, *source = nullptr, *message = nullptr,
             *operators = nullptr;
  PyObject* module = nullptr;
  int nan = 0;
  long long count = 0;
  if (!PyArg_ParseTuple(args, "sszOpLss", &phase, &name, &source, &module, &nan, &count, &message,
                        &operators))
    return nullptr;
  NanOrigin origin;
  origin.phase = phase;
  origin.name = name;
  origin.source = OrEmpty(source);
  if (module != Py_None) origin.module = PyLong_AsLongLong(module);
  if (PyErr_Occurred() != nullptr) return nullptr;
  origin.nan = nan != 0;
  origin.count = count;
  origin.message = message;
  origin.operators = operators;
  Recorder* recorder = Live(object);
  return PyLong_FromLongLong(recorder != nullptr ? recorder->SeeOrigin(std::move(origin)) : 0);
}

PyObject* Explained(PyObject* object, PyObject*) {
  Recorder* recorder = Live(object);
  return Text(recorder != nullptr ? recorder->TakeExplained() : "");
}

PyObject* BrokenBuffers(PyObject* object, PyObject* args) {
  const char *which = nullptr, *json = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &which, &json)) return nullptr;
  if (Recorder* recorder = Live(object)) recorder->BrokenBuffers(which, json);
  Py_RETURN_NONE;
}

PyObject* NonFinite(PyObject*, PyObject* tensors) {
  long bits = 0;
  for (const TensorView& view : Collected(tensors).views()) {
    if (!HasNonFinite(view)) continue;
    const TensorStats stats = ComputeStats(view);
    bits |= (stats.nan > 0 ? 1 : 0) | (stats.posinf > 0 ? 2 : 0) | (stats.neginf > 0 ? 4 : 0);
  }
  return PyLong_FromLong(bits);
}

PyObject* Figures(PyObject*, PyObject* tensors) {
  TensorStats all;
  for (const TensorView& view : Collected(tensors).views()) Merge(all, ComputeStats(view));
  PyObject* absmax =
      all.finite > 0 ? PyFloat_FromDouble(all.absmax) : (Py_INCREF(Py_None), Py_None);
  return Py_BuildValue("(LLLLN)", static_cast<long long>(all.nan),
                       static_cast<long long>(all.posinf), static_cast<long long>(all.neginf),
                       static_cast<long long>(all.numel), absmax);
}

}  // namespace mpnanny
