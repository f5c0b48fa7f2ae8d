#include "monitor/bindings/compare.h"

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/finding_tuples.h"
#include "numerics/format_error.h"
#include "numerics/format_loss.h"
#include "numerics/reference_error.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {
namespace {

long long Count(int64_t value) { return static_cast<long long>(value); }

// False, with a ValueError, for a word that is no format.
bool FindFormat(const char* name, Format& format) {
  const auto found = FormatFromName(name);
  if (!found) {
    PyErr_Format(PyExc_ValueError, "'%s' is no format", name);
    return false;
  }
  format = *found;
  return true;
}

}  // namespace

PyObject* Compare(PyObject*, PyObject* args) {
  PyObject *held = nullptr, *reference = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &held, &reference)) return nullptr;
  const CallTensors list;
  if (!list->Add(held) || !list->Add(reference)) Py_RETURN_NONE;
  const ReferenceError found = CompareWithReference(list->views()[0], list->views()[1]);
  return FiguresTuple(found);
}

PyObject* CompareChanges(PyObject*, PyObject* args) {
  PyObject* tensors[4] = {};
  if (!PyArg_ParseTuple(args, "OOOO", &tensors[0], &tensors[1], &tensors[2], &tensors[3]))
    return nullptr;
  const CallTensors list;
  for (PyObject* tensor : tensors) {
    if (!list->Add(tensor)) Py_RETURN_NONE;
  }
  const auto& views = list->views();
  const ChangeError found = CompareChange(views[0], views[1], views[2], views[3]);
  return Py_BuildValue("(LLLddddd)", Count(found.numel), Count(found.moved), Count(found.lost),
                       found.change, found.lost_change, found.kept_change, found.squared_change,
                       found.squared_error);
}

PyObject* GridsOf(PyObject*, PyObject* tensor) {
  const CallTensors list;
  if (!list->Add(tensor)) Py_RETURN_NONE;
  const TensorStats found = ComputeStats(list->views()[0]);
  return Py_BuildValue("(sNNLLLdd)", std::string(GridName(GridOf(found))).c_str(),
                       PyBool_FromLong(found.on_fp16()), PyBool_FromLong(found.on_bf16()),
                       Count(found.numel), Count(found.finite), Count(found.zeros), found.absmin,
                       found.absmax);
}

PyObject* FormatsOf(PyObject*, PyObject* tensor) {
  const CallTensors list;
  if (!list->Add(tensor)) Py_RETURN_NONE;
  const FormatErrors found = MeasureFormats(list->views()[0]);
  return Py_BuildValue("(LLddddddiiLL)", Count(found.numel), Count(found.finite), found.absmax,
                       found.rms, found.fp16, found.bf16, found.e4m3, found.e5m2, found.e4m3_scale,
                       found.e5m2_scale, Count(found.fp16_overflow), Count(found.fp16_underflow));
}

PyObject* FormatLossOf(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  const char* name = nullptr;
  int scale = 0;
  Format format = Format::kFp16;
  if (!PyArg_ParseTuple(args, "Osi", &tensor, &name, &scale)) return nullptr;
  if (!FindFormat(name, format)) return nullptr;
  const CallTensors list;
  if (!list->Add(tensor)) Py_RETURN_NONE;
  const FormatLoss found = MeasureLoss(list->views()[0], format, scale);
  const int best = BestScale(format, ComputeStats(list->views()[0]).absmax);
  return Py_BuildValue("(LLLLLLLddddi)", Count(found.numel), Count(found.nonzero),
                       Count(found.underflow), Count(found.subnormal), Count(found.overflow),
                       Count(found.saturated), Count(found.distorted), found.mean_error,
                       found.p99_error, found.max_error, found.sqnr_db, best);
}

PyObject* DimensionLossesOf(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  const char* name = nullptr;
  Format format = Format::kFp16;
  if (!PyArg_ParseTuple(args, "Os", &tensor, &name)) return nullptr;
  if (!FindFormat(name, format)) return nullptr;
  const CallTensors list;
  if (!list->Add(tensor)) Py_RETURN_NONE;
  const std::vector<DimensionLoss> found = MeasureDimensions(list->views()[0], format);
  PyObject* rows = PyList_New(0);
  if (rows == nullptr) return nullptr;
  for (const DimensionLoss& each : found) {
    PyObject* row = Py_BuildValue("(iLddddd)", each.dim, Count(each.size), each.imbalance,
                                  each.absorbed, each.sum_error, each.mean_error, each.norm_error);
    const bool added = row != nullptr && PyList_Append(rows, row) == 0;
    Py_XDECREF(row);
    if (!added) {
      Py_DECREF(rows);
      return nullptr;
    }
  }
  return rows;
}

}  // namespace mpnanny
