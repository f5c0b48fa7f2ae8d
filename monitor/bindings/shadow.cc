#include "monitor/bindings/shadow.h"

#include <utility>

#include "monitor/bindings/convert.h"
#include "monitor/bindings/held_recorder.h"

namespace mpnanny {

PyObject* ShadowStep(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"step",     "why",       "seconds", "plain_seconds", "operators",
                                "compared", "restarted", "memory",  "detail_json",   nullptr};
  long long step = 0;
  const char *why = nullptr, *detail = nullptr;
  PyObject *seconds = nullptr, *plain = nullptr, *operators = nullptr, *compared = nullptr,
           *restarted = nullptr, *memory = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LzOOOOOO|z", const_cast<char**>(names), &step,
                                   &why, &seconds, &plain, &operators, &compared, &restarted,
                                   &memory, &detail)) {
    return nullptr;
  }
  ShadowStepRow row;
  row.step = step;
  row.why = OrEmpty(why);
  row.seconds = OptionalDouble(seconds);
  row.plain_seconds = OptionalDouble(plain);
  row.operators = OptionalWhole(operators);
  row.compared = OptionalWhole(compared);
  row.restarted = OptionalWhole(restarted);
  row.memory = OptionalWhole(memory);
  row.detail = OrEmpty(detail);
  if (const HeldRecorder recorder(object); recorder) recorder->ShadowStep(std::move(row));
  Py_RETURN_NONE;
}

PyObject* ShadowFinding(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"finding_id", "step",      "kind",        "severity",  "phase",
                                "layer",      "operator",  "source",      "dtype",     "shape",
                                "share",      "magnitude", "error_in",    "error_out", "precision",
                                "reach_json", "cure_json", "detail_json", nullptr};
  long long id = 0, step = 0;
  const char *kind = nullptr, *severity = nullptr, *phase = nullptr, *op = nullptr,
             *source = nullptr, *dtype = nullptr, *shape = nullptr, *precision = nullptr,
             *reach = nullptr, *cure = nullptr, *detail = nullptr;
  PyObject *layer = nullptr, *share = nullptr, *magnitude = nullptr, *error_in = nullptr,
           *error_out = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LLsszOszzzOOOOszz|z", const_cast<char**>(names),
                                   &id, &step, &kind, &severity, &phase, &layer, &op, &source,
                                   &dtype, &shape, &share, &magnitude, &error_in, &error_out,
                                   &precision, &reach, &cure, &detail)) {
    return nullptr;
  }
  ShadowFindingRow row;
  row.step = step;
  row.kind = Word<FindingKind>(kind);
  row.severity = Word<Severity>(severity);
  row.phase = Word<Phase>(OrEmpty(phase));
  row.layer = OptionalWhole(layer);
  row.op = op;
  row.source = OrEmpty(source);
  row.dtype = OrEmpty(dtype);
  row.shape = OrEmpty(shape);
  row.share = OptionalDouble(share);
  row.magnitude = OptionalDouble(magnitude);
  row.error_in = OptionalDouble(error_in);
  row.error_out = OptionalDouble(error_out);
  row.proof = Word<Proof>(precision);
  row.reach = OrEmpty(reach);
  row.cure = OrEmpty(cure);
  row.detail = OrEmpty(detail);
  if (const HeldRecorder recorder(object); recorder) {
    id = recorder->ShadowFinding(id, std::move(row));
  } else {
    id = 0;
  }
  return PyLong_FromLongLong(id);
}

PyObject* ShadowProfile(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {
      "step", "layer", "phase", "dtype", "operators", "error",         "amplification",  "absmax",
      "rms",  "fp16",  "bf16",  "e4m3",  "e5m2",      "fp16_overflow", "fp16_underflow", nullptr};
  long long step = 0, layer = 0, phase = 0;
  PyObject *dtype = nullptr, *operators = nullptr;
  PyObject* figures[10] = {};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LLLOOOOOOOOOOOO", const_cast<char**>(names),
                                   &step, &layer, &phase, &dtype, &operators, &figures[0],
                                   &figures[1], &figures[2], &figures[3], &figures[4], &figures[5],
                                   &figures[6], &figures[7], &figures[8], &figures[9])) {
    return nullptr;
  }
  ShadowProfileRow row;
  row.step = step;
  row.layer = layer;
  row.phase = phase;
  row.dtype = OptionalWhole(dtype);
  row.operators = OptionalWhole(operators);
  std::optional<double>* const places[] = {
      &row.error, &row.amplification, &row.absmax, &row.rms,           &row.fp16,
      &row.bf16,  &row.e4m3,          &row.e5m2,   &row.fp16_overflow, &row.fp16_underflow};
  for (size_t i = 0; i < std::size(places); ++i) *places[i] = OptionalDouble(figures[i]);
  if (const HeldRecorder recorder(object); recorder) recorder->ShadowProfile(std::move(row));
  Py_RETURN_NONE;
}

}  // namespace mpnanny
