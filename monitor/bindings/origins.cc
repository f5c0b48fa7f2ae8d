#include "monitor/bindings/origins.h"

#include <string>
#include <utility>

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/held_recorder.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {
namespace {

constexpr size_t kTensors = 8'192;  // a fused optimizer step is one call with all parameters

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
  origin.phase = Word<Phase>(phase);
  origin.name = name;
  origin.source = OrEmpty(source);
  if (module != Py_None) origin.module = PyLong_AsLongLong(module);
  if (PyErr_Occurred() != nullptr) return nullptr;
  origin.nan = nan != 0;
  origin.count = count;
  origin.message = message;
  origin.operators = operators;
  int64_t layer = 0;
  if (const HeldRecorder recorder(object); recorder) layer = recorder->SeeOrigin(std::move(origin));
  return PyLong_FromLongLong(layer);
}

PyObject* Explained(PyObject* object, PyObject*) {
  std::string explained;
  if (const HeldRecorder recorder(object); recorder) explained = recorder->TakeExplained();
  return Text(explained);
}

PyObject* BrokenBuffers(PyObject* object, PyObject* args) {
  const char *which = nullptr, *json = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &which, &json)) return nullptr;
  if (const HeldRecorder recorder(object); recorder) recorder->BrokenBuffers(which, json);
  Py_RETURN_NONE;
}

PyObject* NonFinite(PyObject*, PyObject* tensors) {
  long bits = 0;
  const CallTensors list;
  list->Collect(tensors, kTensors);
  for (const TensorView& view : list->views()) {
    if (!HasNonFinite(view)) continue;
    const TensorStats stats = ComputeStats(view);
    bits |= (stats.nan > 0 ? 1 : 0) | (stats.posinf > 0 ? 2 : 0) | (stats.neginf > 0 ? 4 : 0);
  }
  return PyLong_FromLong(bits);
}

PyObject* Figures(PyObject*, PyObject* tensors) {
  TensorStats all;
  const CallTensors list;
  list->Collect(tensors, kTensors);
  for (const TensorView& view : list->views()) Merge(all, ComputeStats(view));
  PyObject* absmax =
      all.finite > 0 ? PyFloat_FromDouble(all.absmax) : (Py_INCREF(Py_None), Py_None);
  return Py_BuildValue("(LLLLN)", static_cast<long long>(all.nan),
                       static_cast<long long>(all.posinf), static_cast<long long>(all.neginf),
                       static_cast<long long>(all.numel), absmax);
}

}  // namespace mpnanny
