#include "monitor/bindings/logprobs.h"

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/held_recorder.h"
#include "monitor/core/logprob_json.h"
#include "numerics/logprob_mismatch.h"

namespace mpnanny {
namespace {

constexpr int kOptionalRows = 5;

}  // namespace

PyObject* LogprobMismatchOf(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  long long rows = 0, length = 0, given = 0;
  if (!PyArg_ParseTuple(args, "OLLL", &tensor, &rows, &length, &given)) return nullptr;
  const CallTensors list;
  if (rows < 0 || length < 0 || !list->Add(tensor)) Py_RETURN_NONE;
  const TensorView& view = list->views()[0];
  int64_t held = 2;
  for (int bit = 0; bit < kOptionalRows; ++bit) held += (given >> bit) & 1;
  const int64_t tokens = static_cast<int64_t>(rows) * static_cast<int64_t>(length);
  if (view.dtype != DType::kFloat64 || view.data == nullptr || view.numel() != held * tokens)
    Py_RETURN_NONE;
  const auto* next = static_cast<const double*>(view.data);
  const auto take = [&](bool there) -> std::span<const double> {
    if (!there) return {};
    const std::span<const double> row(next, static_cast<size_t>(tokens));
    next += tokens;
    return row;
  };
  LogprobPair pair;
  pair.rows = rows;
  pair.length = length;
  pair.trainer = take(true);
  pair.rollout = take(true);
  pair.mask = take(given & 1);
  pair.position = take(given & 2);
  pair.document = take(given & 4);
  pair.token = take(given & 8);
  pair.experts_differ = take(given & 16);
  const LogprobMismatch found = [&pair] {
    const Unlocked unlocked;  // a large batch takes a while, and loaders and engines go on
    return CompareLogprobs(pair);
  }();
  PyObject* groups = PyList_New(0);
  for (const std::string& text : LogprobGroupsJson(found)) {
    PyObject* each = Text(text);
    PyList_Append(groups, each);
    Py_XDECREF(each);
  }
  return Py_BuildValue("(NN)", Text(LogprobJson(found)), groups);
}

PyObject* Logprobs(PyObject* object, PyObject* args) {
  long long step = 0, tokens = 0, not_finite = 0;
  LogprobFacts facts;
  if (!PyArg_ParseTuple(args, "LLLdd", &step, &tokens, &not_finite, &facts.k3, &facts.beyond))
    return nullptr;
  facts.tokens = tokens;
  facts.not_finite = not_finite;
  if (const HeldRecorder recorder(object); recorder) recorder->Logprobs(step, facts);
  Py_RETURN_NONE;
}

}  // namespace mpnanny
