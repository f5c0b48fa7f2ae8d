#include "monitor/bindings/step_tensors.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "monitor/bindings/convert.h"
#include "monitor/bindings/recorder_object.h"

namespace mpnanny {
namespace {

Py_ssize_t Shortest(std::initializer_list<PyObject*> lists) {
  Py_ssize_t size = PY_SSIZE_T_MAX;
  for (PyObject* list : lists) size = std::min(size, PyList_Size(list));
  PyErr_Clear();
  return std::max<Py_ssize_t>(size, 0);
}

int64_t Whole(PyObject* list, Py_ssize_t i) { return PyLong_AsLongLong(PyList_GetItem(list, i)); }

std::optional<TensorView> Read(TensorList& list, PyObject* tensors, Py_ssize_t i) {
  PyObject* tensor = PyList_GetItem(tensors, i);
  if (tensor == nullptr || tensor == Py_None || !list.Add(tensor)) return std::nullopt;
  return list.views().back();
}

// Pairs of (layer id, tensor) from two lists of one length; None is left out.
std::vector<ParameterView> Pairs(TensorList& list, PyObject* layers, PyObject* tensors) {
  std::vector<ParameterView> pairs;
  list.Clear();
  const Py_ssize_t count = std::min(PyList_Size(layers), PyList_Size(tensors));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* tensor = PyList_GetItem(tensors, i);
    if (tensor == Py_None || !list.Add(tensor)) continue;
    pairs.push_back({PyLong_AsLongLong(PyList_GetItem(layers, i)), list.views().back()});
  }
  PyErr_Clear();
  return pairs;
}

}  // namespace

PyObject* Gradients(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr;
  double inverse_scale = 1;
  if (!PyArg_ParseTuple(args, "OOd", &layers, &tensors, &inverse_scale)) return nullptr;
  Recorder* const recorder = Live(object);
  return PyBool_FromLong(
      recorder != nullptr &&
      recorder->Gradients(Pairs(*Self(object)->parameters, layers, tensors), inverse_scale));
}

PyObject* Weights(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &layers, &tensors)) return nullptr;
  if (Recorder* recorder = Live(object))
    recorder->Weights(Pairs(*Self(object)->parameters, layers, tensors));
  Py_RETURN_NONE;
}

PyObject* ActivationGradient(PyObject* object, PyObject* args) {
  PyObject* tensor = nullptr;
  long long layer = 0;
  int slot = 0;
  double inverse_scale = 1;
  if (!PyArg_ParseTuple(args, "LidO", &layer, &slot, &inverse_scale, &tensor)) return nullptr;
  TensorList& list = *Self(object)->parameters;
  list.Clear();
  Recorder* recorder = Live(object);
  if (recorder != nullptr && list.Add(tensor)) {
    recorder->ActivationGradient(layer, slot, list.views().back(), inverse_scale);
  }
  Py_RETURN_NONE;
}

PyObject* BeforeUpdate(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &layers, &tensors)) return nullptr;
  if (Recorder* recorder = Live(object))
    recorder->BeforeUpdate(Pairs(*Self(object)->parameters, layers, tensors));
  Py_RETURN_NONE;
}

PyObject* AfterUpdate(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *tensors = nullptr, *gradients = nullptr, *judge = nullptr;
  if (!PyArg_ParseTuple(args, "OOOO", &layers, &tensors, &gradients, &judge)) return nullptr;
  TensorList& list = *Self(object)->parameters;
  list.Clear();
  std::vector<UpdatedWeight> weights;
  for (Py_ssize_t i = 0; i < Shortest({layers, tensors, gradients, judge}); ++i) {
    const auto view = Read(list, tensors, i);
    if (!view) continue;
    weights.push_back(
        {Whole(layers, i), *view, Read(list, gradients, i), PyList_GetItem(judge, i) == Py_True});
  }
  PyErr_Clear();
  if (Recorder* recorder = Live(object)) recorder->AfterUpdate(weights);
  Py_RETURN_NONE;
}

PyObject* OptimizerStates(PyObject* object, PyObject* args) {
  PyObject *layers = nullptr, *slots = nullptr, *tensors = nullptr, *eps = nullptr;
  if (!PyArg_ParseTuple(args, "OOOO", &layers, &slots, &tensors, &eps)) return nullptr;
  TensorList& list = *Self(object)->parameters;
  list.Clear();
  std::vector<StateView> states;
  for (Py_ssize_t i = 0; i < Shortest({layers, slots, tensors, eps}); ++i) {
    const auto view = Read(list, tensors, i);
    if (!view) continue;
    states.push_back({Whole(layers, i), static_cast<int32_t>(Whole(slots, i)),
                      OptionalDouble(PyList_GetItem(eps, i)).value_or(0), *view});
  }
  PyErr_Clear();
  if (Recorder* recorder = Live(object)) recorder->OptimizerStates(states);
  Py_RETURN_NONE;
}

}  // namespace mpnanny
