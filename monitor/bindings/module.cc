// The extension module mpnanny._core, on CPython's limited API (one build for every Python
// >= 3.10): its functions, and the types that other files add.
#include <Python.h>

#include "monitor/bindings/compare.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/device_kernels.h"
#include "monitor/bindings/gathered_type.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/judge_type.h"
#include "monitor/bindings/logprobs.h"
#include "monitor/bindings/origins.h"
#include "monitor/bindings/rank_rows.h"
#include "monitor/bindings/readings.h"
#include "monitor/bindings/recorder_type.h"
#include "monitor/core/alert_types.h"

namespace mpnanny {
namespace {

// alert_types() -> [(type, severity, threshold)]
PyObject* ListAlertTypes(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const AlertDefinition& type : AlertDefinitions()) {
    PyObject* row = Py_BuildValue("(NNN)", Text(NameOf(type.type)), Text(NameOf(type.severity)),
                                  Text(type.threshold));
    PyList_Append(list, row);
    Py_XDECREF(row);
  }
  return list;
}

PyMethodDef kModuleFunctions[] = {
    {"nonfinite", Method<&NonFinite>(), METH_O,
     "nonfinite(tensors) -> 1 for NaN + 2 for +Inf + 4 for -Inf in any of them"},
    {"figures", Method<&Figures>(), METH_O,
     "figures(tensors) -> (nan, posinf, neginf, numel, absmax) of all of them"},
    {"compare", Method<&Compare>(), METH_VARARGS,
     "compare(held, reference) -> the fields of ReferenceError | None"},
    {"compare_change", Method<&CompareChanges>(), METH_VARARGS,
     "compare_change(held_before, held_after, reference_before, reference_after) -> the fields of"
     " ChangeError | None"},
    {"grid", Method<&GridsOf>(), METH_O,
     "grid(tensor) -> (grid, on_fp16, on_bf16, numel, finite, zeros, absmin, absmax) | None"},
    {"format_errors", Method<&FormatsOf>(), METH_O,
     "format_errors(tensor) -> the fields of FormatErrors | None"},
    {"format_loss", Method<&FormatLossOf>(), METH_VARARGS,
     "format_loss(tensor, format, scale) -> the fields of FormatLoss and the best scale's exponent"
     " | None"},
    {"dimension_losses", Method<&DimensionLossesOf>(), METH_VARARGS,
     "dimension_losses(tensor, format) -> [the fields of DimensionLoss] | None"},
    {"rank_figures", Method<&RankFiguresOf>(), METH_VARARGS,
     "rank_figures(tensor, first) -> (hash, numel, nonfinite, squares, a, b) | None"},
    {"logprob_mismatch", Method<&LogprobMismatchOf>(), METH_VARARGS,
     "logprob_mismatch(tensor, rows, length, given) -> (json, [json of a grouping]) | None"},
    {"alert_types", Method<&ListAlertTypes>(), METH_NOARGS, "[(type, severity, threshold)]"},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "mpnanny._core",
                       "The monitor's core.",
                       -1,
                       kModuleFunctions,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace
}  // namespace mpnanny

PyMODINIT_FUNC PyInit__core() {
  PyObject* module = PyModule_Create(&mpnanny::kModule);
  if (module == nullptr || !mpnanny::AddRecorderType(module) || !mpnanny::AddReadings(module) ||
      !mpnanny::AddJudgeTypes(module) || !mpnanny::AddDeviceKernels(module) ||
      !mpnanny::AddGatheredType(module) ||
      PyModule_AddStringConstant(module, "version", MPNANNY_VERSION) != 0) {
    Py_XDECREF(module);
    return nullptr;
  }
  return module;
}
