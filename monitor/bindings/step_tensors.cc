#include "monitor/bindings/step_tensors.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/held_recorder.h"
#include "monitor/bindings/owned.h"

namespace mpnanny {
namespace {

Py_ssize_t Shortest(std::initializer_list<PyObject*> lists) {
  Py_ssize_t size = PY_SSIZE_T_MAX;
  for (PyObject* list : lists) size = std::min(size, PyList_Size(list));
  PyErr_Clear();
  return std::max<Py_ssize_t>(size, 0);
}

Owned Item(PyObject* list, Py_ssize_t i) { return Owned::Of(PyList_GetItem(list, i)); }

int64_t Whole(PyObject* list, Py_ssize_t i) {
  const Owned item = Item(list, i);
  return item ? PyLong_AsLongLong(item.get()) : 0;
}

std::optional<TensorView> Read(TensorList& list, PyObject* tensors, Py_ssize_t i) {
  const Owned tensor = Item(tensors, i);
  if (!tensor || tensor.get() == Py_None || !list.Add(tensor.get())) return std::nullopt;
  return list.views().back();
}

// Pairs of (layer id, tensor) from two lists; None is left out.
std::vector<ParameterView> Pairs(TensorList& list, PyObject* layers, PyObject* tensors) {
  std::vector<ParameterView> pairs;
  for (Py_ssize_t i = 0; i < Shortest({layers, tensors}); ++i) {
    const auto view = Read(list, tensors, i);
    if (view) pairs.push_back({Whole(layers, i), *view});
  }
  PyErr_Clear();
  return pairs;
}

}  // namespace

PyObject* Gradients(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr;
  double inverse_scale = 1;
  if (!PyArg_ParseTuple(args, "OOd", &layers, &tensors, &inverse_scale)) return nullptr;
  const CallTensors list(Self(object)->unreadable);
  const std::vector<ParameterView> pairs = Pairs(*list, layers, tensors);
  const HeldRecorder recorder(object);
  return PyBool_FromLong(recorder && recorder->Gradients(pairs, inverse_scale));
}

PyObject* Weights(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &layers, &tensors)) return nullptr;
  const CallTensors list(Self(object)->unreadable);
  const std::vector<ParameterView> pairs = Pairs(*list, layers, tensors);
  if (const HeldRecorder recorder(object); recorder) recorder->Weights(pairs);
  Py_RETURN_NONE;
}

PyObject* ActivationGradient(PyObject* object, PyObject* args) {
  PyObject* tensor = nullptr;
  long long layer = 0;
  int slot = 0;
  double inverse_scale = 1;
  if (!PyArg_ParseTuple(args, "LidO", &layer, &slot, &inverse_scale, &tensor)) return nullptr;
  const CallTensors list(Self(object)->unreadable);
  if (!list->Add(tensor)) Py_RETURN_NONE;
  if (const HeldRecorder recorder(object); recorder)
    recorder->ActivationGradient(layer, slot, list->views().back(), inverse_scale);
  Py_RETURN_NONE;
}

PyObject* BeforeUpdate(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &layers, &tensors)) return nullptr;
  const CallTensors list(Self(object)->unreadable);
  const std::vector<ParameterView> pairs = Pairs(*list, layers, tensors);
  if (const HeldRecorder recorder(object); recorder) recorder->BeforeUpdate(pairs);
  Py_RETURN_NONE;
}

PyObject* AfterUpdate(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr, *gradients = nullptr, *judge = nullptr;
  if (!PyArg_ParseTuple(args, "OOOO", &layers, &tensors, &gradients, &judge)) return nullptr;
  const CallTensors list(Self(object)->unreadable);
  std::vector<UpdatedWeight> weights;
  for (Py_ssize_t i = 0; i < Shortest({layers, tensors, gradients, judge}); ++i) {
    const auto view = Read(*list, tensors, i);
    if (!view) continue;
    weights.push_back(
        {Whole(layers, i), *view, Read(*list, gradients, i), PyList_GetItem(judge, i) == Py_True});
  }
  PyErr_Clear();
  if (const HeldRecorder recorder(object); recorder) recorder->AfterUpdate(weights);
  Py_RETURN_NONE;
}

PyObject* OptimizerStates(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *slots = nullptr, *tensors = nullptr, *eps = nullptr;
  if (!PyArg_ParseTuple(args, "OOOO", &layers, &slots, &tensors, &eps)) return nullptr;
  const CallTensors list(Self(object)->unreadable);
  std::vector<StateView> states;
  for (Py_ssize_t i = 0; i < Shortest({layers, slots, tensors, eps}); ++i) {
    const auto view = Read(*list, tensors, i);
    if (!view) continue;
    states.push_back({Whole(layers, i), static_cast<int32_t>(Whole(slots, i)),
                      OptionalDouble(Item(eps, i).get()).value_or(0), *view});
  }
  PyErr_Clear();
  if (const HeldRecorder recorder(object); recorder) recorder->OptimizerStates(states);
  Py_RETURN_NONE;
}

}  // namespace mpnanny
