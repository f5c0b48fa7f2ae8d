#include "monitor/bindings/convert.h"

#include <cmath>

namespace mpnanny {

PyObject* OptionalNumber(const std::optional<double>& value) {
  if (!value) Py_RETURN_NONE;
  return PyFloat_FromDouble(*value);
}

std::optional<double> OptionalDouble(PyObject* value) {
  if (value == nullptr || value == Py_None) return std::nullopt;
  const double number = PyFloat_AsDouble(value);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> OptionalWhole(PyObject* value) {
  if (value == nullptr || value == Py_None) return std::nullopt;
  const long long number = PyLong_AsLongLong(value);
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  const std::optional<double> real = OptionalDouble(value);
  constexpr double kBeyond = 9.2e18;
  if (!real || !(std::fabs(*real) < kBeyond)) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::string OrEmpty(const char* text) { return text != nullptr ? text : ""; }

PyObject* Text(std::string_view text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

bool ParseEnd(PyObject* args, StepEnd& end) {
  PyObject *duration = nullptr, *loss = nullptr, *lr = nullptr, *scale = nullptr, *after = nullptr,
           *memory = nullptr;
  long long interval = 2000;
  int skipped = 0;
  if (!PyArg_ParseTuple(args, "dOOOOOLpO", &end.at, &duration, &loss, &lr, &scale, &after,
                        &interval, &skipped, &memory)) {
    return false;
  }
  end.duration = OptionalDouble(duration);
  end.loss = OptionalDouble(loss);
  end.lr = OptionalDouble(lr);
  end.scale = OptionalDouble(scale);
  end.scale_after = OptionalDouble(after);
  end.growth_interval = interval;
  end.skipped = skipped != 0;
  if (const auto bytes = OptionalDouble(memory)) end.peak_memory = static_cast<int64_t>(*bytes);
  return true;
}

PyObject* AlertTuple(const AlertRow& alert) {
  PyObject* layer = alert.layer ? PyLong_FromLongLong(*alert.layer) : (Py_INCREF(Py_None), Py_None);
  PyObject* producer =
      alert.producer ? PyBool_FromLong(*alert.producer) : (Py_INCREF(Py_None), Py_None);
  return Py_BuildValue("(LsNssNNNN)", static_cast<long long>(alert.step),
                       alert.phase.value() ? NameOf(*alert.phase.value()) : "", layer,
                       NameOf(alert.type), NameOf(alert.severity), OptionalNumber(alert.value),
                       OptionalNumber(alert.threshold), producer, Text(alert.message));
}

}  // namespace mpnanny
