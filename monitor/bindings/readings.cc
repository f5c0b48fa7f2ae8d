#include "monitor/bindings/readings.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "monitor/bindings/guarded.h"
#include "monitor/bindings/held_recorder.h"
#include "monitor/bindings/owned.h"

namespace mpnanny {
namespace {

struct ReadingObject {
  PyObject ob_base;
  // All owned.
  TensorStats* stats;
  TensorView* view;
  ExponentHistogram* exponents;  // may be null
};

PyTypeObject* reading_type = nullptr;  // of the process, as the module is

ReadingObject* Cast(PyObject* object) { return reinterpret_cast<ReadingObject*>(object); }

void DeallocReading(PyObject* object) {
  delete Cast(object)->view;
  delete Cast(object)->stats;
  delete Cast(object)->exponents;
  PyTypeObject* type = Py_TYPE(object);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(type);
}

DType DTypeOf(std::string_view name) {
  for (int i = 1; i < kDTypes; ++i) {
    if (name == DTypeName(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return DType::kUnknown;
}

// What a value that is an extreme, or a norm, says of those that it was taken from.
void CountNonFinite(double value, TensorStats& stats) {
  if (std::isnan(value)) stats.nan = 1;
  if (std::isinf(value)) (value > 0 ? stats.posinf : stats.neginf) = 1;
}

// whole(dtype, numel, figures): of one part of the tensor after the other (nan, posinf, neginf,
// zeros, finite, min, max, absmin, mean, squared deviation, squares, below, subnormal, above,
// near).
constexpr Py_ssize_t kFigures = 15;
PyObject* Whole(PyObject*, PyObject* args) {
  const char* dtype = nullptr;
  long long numel = 0;
  PyObject* figures = nullptr;
  if (!PyArg_ParseTuple(args, "sLO", &dtype, &numel, &figures)) return nullptr;
  const Py_ssize_t size = PyList_Size(figures);
  if (size < 0) return nullptr;
  TensorStats all;
  for (Py_ssize_t at = 0; at + kFigures <= size; at += kFigures) {
    double row[kFigures];
    for (Py_ssize_t i = 0; i < kFigures; ++i)
      row[i] = PyFloat_AsDouble(Owned::Of(PyList_GetItem(figures, at + i)).get());
    if (PyErr_Occurred() != nullptr) return nullptr;
    const auto count = [&row](int i) { return std::isfinite(row[i]) ? std::llround(row[i]) : 0; };
    TensorStats part;
    part.nan = count(0);
    part.posinf = count(1);
    part.neginf = count(2);
    part.zeros = count(3);
    part.finite = count(4);
    part.min = row[5];
    part.max = row[6];
    part.absmax = std::max(-part.min, part.max);
    part.absmin = std::isfinite(row[7]) ? row[7] : 0;
    part.mean = row[8];
    part.squared_deviation = row[9];
    part.squares = row[10];
    part.below_fp16 = count(11);
    part.subnormal_fp16 = count(12);
    part.above_fp16 = count(13);
    part.near_fp16_max = count(14);
    Merge(all, part);
  }
  all.numel = numel;
  return MakeReading(DTypeOf(dtype), all);
}

// extremes(dtype, numel, low, high)
PyObject* Extremes(PyObject*, PyObject* args) {
  const char* dtype = nullptr;
  long long numel = 0;
  double low = 0, high = 0;
  if (!PyArg_ParseTuple(args, "sLdd", &dtype, &numel, &low, &high)) return nullptr;
  TensorStats stats;
  stats.partial = true;
  stats.numel = numel;
  CountNonFinite(low, stats);
  CountNonFinite(high, stats);
  if (stats.nonfinite() == 0) {
    stats.finite = numel;
    stats.min = low;
    stats.max = high;
    stats.absmax = std::max(-low, high);
  }
  return MakeReading(DTypeOf(dtype), stats);
}

// norm(dtype, numel, value): the square root of the sum of squares
PyObject* Norm(PyObject*, PyObject* args) {
  const char* dtype = nullptr;
  long long numel = 0;
  double value = 0;
  if (!PyArg_ParseTuple(args, "sLd", &dtype, &numel, &value)) return nullptr;
  TensorStats stats;
  stats.partial = true;
  stats.numel = numel;
  CountNonFinite(value, stats);
  if (stats.nonfinite() == 0) stats.squares = value * value;
  return MakeReading(DTypeOf(dtype), stats);
}

// begin_late(recorder, step, sampled)
PyObject* BeginLate(PyObject*, PyObject* args) {
  PyObject* recorder = nullptr;
  long long step = 0;
  int sampled = 0;
  if (!PyArg_ParseTuple(args, "OLp", &recorder, &step, &sampled)) return nullptr;
  if (const HeldRecorder held(recorder); held) held->BeginStep(step, sampled != 0);
  Py_RETURN_NONE;
}

// dense(recorder) -> whether the next step is to be sampled, whatever its number
PyObject* Dense(PyObject*, PyObject* recorder) {
  const HeldRecorder held(recorder);
  return PyBool_FromLong(held && held->dense());
}

PyMethodDef kReadingFunctions[] = {
    {"whole", Method<&Whole>(), METH_VARARGS, "whole(dtype, numel, figures) -> reading"},
    {"extremes", Method<&Extremes>(), METH_VARARGS, "extremes(dtype, numel, low, high) -> reading"},
    {"norm", Method<&Norm>(), METH_VARARGS, "norm(dtype, numel, value) -> reading"},
    {"begin_late", Method<&BeginLate>(), METH_VARARGS, "begin_late(recorder, step, sampled)"},
    {"dense", Method<&Dense>(), METH_O, "dense(recorder) -> whether the next step is sampled"},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot kReadingSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&DeallocReading)},
                               {0, nullptr}};
PyType_Spec kReadingSpec = {"mpnanny._core.Reading", sizeof(ReadingObject), 0, Py_TPFLAGS_DEFAULT,
                            kReadingSlots};

}  // namespace

PyObject* MakeReading(DType dtype, const TensorStats& stats, const ExponentHistogram* exponents) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(reading_type, Py_tp_alloc));
  PyObject* object = allocate(reading_type, 0);
  if (object == nullptr) return nullptr;
  ReadingObject* reading = Cast(object);  // all null
  reading->stats = new TensorStats(stats);
  reading->stats->grid_unknown = true;  // no figure of a device tells it
  reading->view = new TensorView;
  reading->view->dtype = dtype;
  reading->view->known = reading->stats;
  if (exponents != nullptr) {
    reading->exponents = new ExponentHistogram(*exponents);
    reading->view->known_exponents = reading->exponents;
  }
  return object;
}

const TensorView* KnownView(PyObject* object) {
  return Py_TYPE(object) == reading_type ? Cast(object)->view : nullptr;
}

bool AddReadings(PyObject* module) {
  if (reading_type == nullptr)
    reading_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kReadingSpec));
  return reading_type != nullptr && PyModule_AddFunctions(module, kReadingFunctions) == 0;
}

}  // namespace mpnanny
