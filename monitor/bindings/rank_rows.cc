#include "monitor/bindings/rank_rows.h"

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/held_recorder.h"
#include "numerics/rank_figures.h"

namespace mpnanny {
namespace {

// False with a Python error set. None: no figures.
bool ParseFigures(PyObject* tuple, RankFigures& figures) {
  if (tuple == Py_None) return true;
  long long hash = 0, numel = 0, nonfinite = 0;
  if (!PyArg_ParseTuple(tuple, "LLLddd", &hash, &numel, &nonfinite, &figures.squares,
                        &figures.sketch[0], &figures.sketch[1])) {
    return false;
  }
  figures.hash = static_cast<uint64_t>(hash);
  figures.numel = numel;
  figures.nonfinite = nonfinite;
  return true;
}

}  // namespace

PyObject* RankFiguresOf(PyObject*, PyObject* args) {
  PyObject* tensor = nullptr;
  long long first = 0;
  if (!PyArg_ParseTuple(args, "OL", &tensor, &first)) return nullptr;
  const CallTensors list;
  if (!list->Add(tensor)) Py_RETURN_NONE;
  const RankFigures found = ComputeRankFigures(list->views()[0], first);
  return Py_BuildValue("(LLLddd)", static_cast<long long>(found.hash),
                       static_cast<long long>(found.numel), static_cast<long long>(found.nonfinite),
                       found.squares, found.sketch[0], found.sketch[1]);
}

PyObject* RankFigure(PyObject* object, PyObject* args) {
  long long step = 0, layer = 0, what = 0, first = 0;
  const char* holders = nullptr;
  PyObject* figures = nullptr;
  RankFigureRow row;
  if (!PyArg_ParseTuple(args, "LLLzLO", &step, &layer, &what, &holders, &first, &figures) ||
      !ParseFigures(figures, row.figures)) {
    return nullptr;
  }
  row.step = step;
  row.layer = layer;
  row.what = what;
  row.holders = OrEmpty(holders);
  row.first = first;
  if (const HeldRecorder recorder(object); recorder) recorder->RankFigure(std::move(row));
  Py_RETURN_NONE;
}

PyObject* Collective(PyObject* object, PyObject* args) {
  long long step = 0, sequence = 0;
  const char *operation = nullptr, *reduction = nullptr, *ranks = nullptr, *source = nullptr,
             *phase = nullptr;
  int gradient = 0;
  PyObject *layer = nullptr, *in = nullptr, *out = nullptr, *value_in = nullptr,
           *value_out = nullptr, *kept = nullptr;
  CollectiveRow row;
  if (!PyArg_ParseTuple(args, "LLszzzzOpOOOOO", &step, &sequence, &operation, &reduction, &ranks,
                        &source, &phase, &layer, &gradient, &in, &out, &value_in, &value_out,
                        &kept) ||
      !ParseFigures(in, row.in) || !ParseFigures(out, row.out)) {
    return nullptr;
  }
  row.step = step;
  row.sequence = sequence;
  row.operation = operation;
  row.reduction = OrEmpty(reduction);
  row.ranks = OrEmpty(ranks);
  row.source = OrEmpty(source);
  row.phase = OrEmpty(phase);
  row.layer = OptionalWhole(layer);
  row.gradient = gradient != 0;
  row.value_in = OptionalDouble(value_in);
  row.value_out = OptionalDouble(value_out);
  row.kept = OptionalDouble(kept);
  if (const HeldRecorder recorder(object); recorder) recorder->Collective(std::move(row));
  Py_RETURN_NONE;
}

}  // namespace mpnanny
