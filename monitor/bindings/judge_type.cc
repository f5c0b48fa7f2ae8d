#include "monitor/bindings/judge_type.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/judgement/judge.h"
#include "engines/judgement/thresholds.h"
#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/finding_tuples.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/lists.h"
#include "monitor/bindings/owned.h"
#include "monitor/bindings/python_evidence.h"

namespace mpnanny {
namespace {

using judgement::Element;
using judgement::Judge;
using judgement::kNone;
using judgement::LostChanges;

struct LostChangesObject {
  PyObject ob_base;
  LostChanges* run;  // owned
};

struct JudgeObject {
  PyObject ob_base;
  Judge* judge;    // owned
  PyObject* lost;  // owned: what the judge refers to
  int slots;       // the next free one
};

Judge& Of(PyObject* object) { return *reinterpret_cast<JudgeObject*>(object)->judge; }
LostChanges& RunOf(PyObject* object) { return *reinterpret_cast<LostChangesObject*>(object)->run; }

void Free(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(type);
}

// --- arguments ---

Element ElementOf(int number) {
  const bool is_known = number >= 0 && number <= static_cast<int>(Element::kOther);
  return is_known ? static_cast<Element>(number) : Element::kOther;
}

bool ReadShape(PyObject* sizes, std::vector<int64_t>& shape) {
  const Py_ssize_t count = PyTuple_Size(sizes);  // a torch.Size is one
  for (Py_ssize_t at = 0; at < count; ++at)
    shape.push_back(PyLong_AsLongLong(PyTuple_GetItem(sizes, at)));
  return PyErr_Occurred() == nullptr;
}

bool ReadChange(PyObject* tuple, ChangeError& found) {
  long long numel = 0, moved = 0, lost = 0;
  if (!PyArg_ParseTuple(tuple, "LLLddddd", &numel, &moved, &lost, &found.change, &found.lost_change,
                        &found.kept_change, &found.squared_change, &found.squared_error)) {
    return false;
  }
  found.numel = numel;
  found.moved = moved;
  found.lost = lost;
  return true;
}

// [(memory, type, position, slot, read)]
bool ReadInputs(PyObject* list, std::vector<judgement::Input>& inputs) {
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  inputs.resize(static_cast<size_t>(count));
  for (Py_ssize_t at = 0; at < count; ++at) {
    judgement::Input& input = inputs[static_cast<size_t>(at)];
    const Owned row = Owned::Of(PyList_GetItem(list, at));
    long long memory = 0;
    int type = 0, read = 1;
    if (!row || !PyArg_ParseTuple(row.get(), "Liiip", &memory, &type, &input.position, &input.slot,
                                  &read)) {
      return false;
    }
    input.memory = memory;
    input.type = ElementOf(type);
    input.read = read != 0;
  }
  return true;
}

// --- what a run remembers ---

int InitLostChanges(PyObject* object, PyObject*, PyObject*) {
  auto* self = reinterpret_cast<LostChangesObject*>(object);
  if (self->run == nullptr) self->run = new LostChanges;
  return 0;
}

void DeallocLostChanges(PyObject* object) {
  delete reinterpret_cast<LostChangesObject*>(object)->run;
  Free(object);
}

PyObject* IsKept(PyObject* object, PyObject* name) {
  return PyBool_FromLong(RunOf(object).kept().contains(TextOf(name)));
}

PyObject* RoundsWeights(PyObject* object, PyObject*) {
  const auto& found = RunOf(object).rounds_weights();
  if (!found) Py_RETURN_NONE;
  const judgement::Place& place = found->place;
  return Py_BuildValue("(NNNNiNNd)", Text(place.op), Text(place.forward), Text(NameOf(place.phase)),
                       Text(place.file), place.line,
                       place.module ? Text(*place.module) : Py_BuildValue(""),
                       Text(found->came_in.dtype), found->came_in.error);
}

PyMethodDef kLostChangesMethods[] = {
    {"is_kept", Method<&IsKept>(), METH_O,
     "is_kept(name) -> whether a weight loses nothing by staying where it is"},
    {"rounds_weights", Method<&RoundsWeights>(), METH_NOARGS,
     "(operator, forward, phase, file, line, module, dtype, error) | None"},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot kLostChangesSlots[] = {
    {Py_tp_init, reinterpret_cast<void*>(&Guarded<&InitLostChanges>::Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocLostChanges)},
    {Py_tp_methods, kLostChangesMethods},
    {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
    {0, nullptr}};
PyType_Spec kLostChangesSpec = {"mpnanny._core.LostChanges", sizeof(LostChangesObject), 0,
                                Py_TPFLAGS_DEFAULT, kLostChangesSlots};
PyTypeObject* lost_changes_type = nullptr;  // of the process, as the module is

// --- the judge ---

int InitJudge(PyObject* object, PyObject* args, PyObject*) {
  auto* self = reinterpret_cast<JudgeObject*>(object);
  PyObject *lost = nullptr, *first_loss = nullptr;
  int step = 0;
  if (!PyArg_ParseTuple(args, "O!iO", lost_changes_type, &lost, &step, &first_loss)) return -1;
  if (self->judge != nullptr || reinterpret_cast<LostChangesObject*>(lost)->run == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a judge is set up once");
    return -1;
  }
  self->judge = new Judge(RunOf(lost), step, OptionalDouble(first_loss));
  Py_INCREF(lost);
  self->lost = lost;
  return 0;
}

void DeallocJudge(PyObject* object) {
  auto* self = reinterpret_cast<JudgeObject*>(object);
  delete self->judge;
  Py_XDECREF(self->lost);
  Free(object);
}

int PutFigures(PyObject* object, const ReferenceError& found) {
  const int slot = reinterpret_cast<JudgeObject*>(object)->slots++;
  Of(object).Take(judgement::Figures{slot, found});
  return slot;
}

PyObject* CompareTensors(PyObject* object, PyObject* args) {
  PyObject *held = nullptr, *reference = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &held, &reference)) return nullptr;
  ReferenceError found;
  {
    const CallTensors list;
    if (!list->Add(held) || !list->Add(reference)) return PyLong_FromLong(kNone);
    found = CompareWithReference(list->views()[0], list->views()[1]);
  }
  if (found.numel == 0) return PyLong_FromLong(kNone);
  return PyLong_FromLong(PutFigures(object, found));
}

PyObject* Put(PyObject* object, PyObject* args) {
  ReferenceError found;
  long long counts[9] = {}, flushed[3] = {};
  int integers = 0;
  if (!PyArg_ParseTuple(args, "LLLLLLLLLpddddddLLL", &counts[0], &counts[1], &counts[2], &counts[3],
                        &counts[4], &counts[5], &counts[6], &counts[7], &counts[8], &integers,
                        &found.squared_error, &found.squared_reference, &found.squared_flushed,
                        &found.max_error, &found.max_reference, &found.max_held, &flushed[0],
                        &flushed[1], &flushed[2])) {
    return nullptr;
  }
  int64_t* const places[] = {&found.numel,    &found.range,          &found.undefined,
                             &found.infinite, &found.reference_only, &found.nonzero,
                             &found.flushed,  &found.wrong_integers, &found.clipped};
  for (size_t at = 0; at < std::size(places); ++at) *places[at] = counts[at];
  found.integers = integers != 0;
  found.flushed_that_matter = flushed[0];
  found.flushed_in_range = flushed[1];
  found.flushed_that_matter_in_range = flushed[2];
  return PyLong_FromLong(PutFigures(object, found));
}

PyObject* FiguresIn(PyObject* object, PyObject* slot) {
  const ReferenceError* found = Of(object).slots().At(static_cast<int>(PyLong_AsLong(slot)));
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (found == nullptr) Py_RETURN_NONE;
  return FiguresTuple(*found);
}

PyObject* AddPlace(PyObject* object, PyObject* args) {
  const char *op = nullptr, *forward = nullptr, *phase = nullptr, *file = nullptr,
             *module = nullptr;
  int line = 0;
  if (!PyArg_ParseTuple(args, "ssssiz", &op, &forward, &phase, &file, &line, &module))
    return nullptr;
  judgement::Place place;
  place.op = op;
  place.forward = forward;
  place.phase = FindNamed<Phase>(phase).value_or(Phase::kForward);
  place.file = file;
  place.line = line;
  if (module != nullptr) place.module = module;
  const size_t number = Of(object).calls().places();
  Of(object).Take(place);
  return PyLong_FromSize_t(number);
}

PyObject* Enters(PyObject* object, PyObject* args) {
  long long memory = 0;
  double error = 0;
  if (!PyArg_ParseTuple(args, "Ld", &memory, &error)) return nullptr;
  Of(object).Take(judgement::Enters{memory, error});
  Py_RETURN_NONE;
}

// What of a call's inputs the front has to know: errors, and whether to look closer.
PyObject* CallBegins(PyObject* object, PyObject* args) {
  judgement::Call row;
  int kept = 1;
  PyObject* inputs = nullptr;
  if (!PyArg_ParseTuple(args, "iipO!", &row.number, &row.place, &kept, &PyList_Type, &inputs))
    return nullptr;
  row.kept = kept != 0;
  if (!ReadInputs(inputs, row.inputs)) return nullptr;
  Judge& judge = Of(object);
  if (row.place < 0 || static_cast<size_t>(row.place) >= judge.calls().places() || row.number < 0) {
    PyErr_SetString(PyExc_ValueError, "no such place");
    return nullptr;
  }
  judge.Take(row);
  const auto& known = judge.calls()[row.number].inputs;
  bool is_clean = true;
  for (const judgement::KnownInput& each : known)
    is_clean = is_clean && (each.before.error <= 0 || each.before.noise);
  if (is_clean) Py_RETURN_NONE;
  PyObject* errors = PyList_New(0);
  for (const judgement::KnownInput& each : known) {
    if (errors == nullptr) return nullptr;
    const Owned error(PyFloat_FromDouble(each.before.noise ? 0 : each.before.error));
    if (!error || PyList_Append(errors, error.get()) != 0) {
      Py_DECREF(errors);
      return nullptr;
    }
  }
  return errors;
}

PyObject* TakeResult(PyObject* object, PyObject* args) {
  judgement::Result row;
  PyObject *front = nullptr, *shape = nullptr;
  long long memory = 0;
  int type = 0, written = 0;
  const char* state = nullptr;
  if (!PyArg_ParseTuple(args, "OiiLiO!iidps", &front, &row.call, &row.index, &memory, &type,
                        &PyTuple_Type, &shape, &row.position, &row.slot, &row.rounding, &written,
                        &state) ||
      !ReadShape(shape, row.shape)) {
    return nullptr;
  }
  row.memory = memory;
  row.type = ElementOf(type);
  row.written = written != 0;
  row.state = state;
  PythonEvidence evidence(front);
  const bool restarts = Of(object).Take(row, evidence);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyBool_FromLong(restarts);
}

PyObject* TakeIndices(PyObject* object, PyObject* args) {
  judgement::Indices row;
  PyObject *front = nullptr, *shape = nullptr;
  int type = 0;
  if (!PyArg_ParseTuple(args, "OiiiO!d", &front, &row.call, &row.index, &type, &PyTuple_Type,
                        &shape, &row.share) ||
      !ReadShape(shape, row.shape)) {
    return nullptr;
  }
  row.type = ElementOf(type);
  PythonEvidence evidence(front);
  Of(object).Take(row, evidence);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

PyObject* TakeMask(PyObject* object, PyObject* args) {
  judgement::Mask row;
  if (!PyArg_ParseTuple(args, "iid", &row.call, &row.mask, &row.share)) return nullptr;
  return PyBool_FromLong(Of(object).Take(row));
}

PyObject* TakeDecided(PyObject* object, PyObject* args) {
  judgement::Decided row;
  const char* source = nullptr;
  if (!PyArg_ParseTuple(args, "is", &row.mask, &source)) return nullptr;
  row.source = source;
  Of(object).Take(row);
  Py_RETURN_NONE;
}

PyObject* TakeRead(PyObject* object, PyObject* args) {
  long long memory = 0;
  const char* source = nullptr;
  if (!PyArg_ParseTuple(args, "Ls", &memory, &source)) return nullptr;
  Of(object).Take(judgement::Read{memory, source});
  Py_RETURN_NONE;
}

PyObject* TakeLeaves(PyObject* object, PyObject* args) {
  long long memory = 0;
  int to_backward = 0;
  if (!PyArg_ParseTuple(args, "Lp", &memory, &to_backward)) return nullptr;
  Of(object).Take(judgement::Leaves{memory, to_backward != 0});
  Py_RETURN_NONE;
}

PyObject* TakeFed(PyObject* object, PyObject* args) {
  judgement::Fed row;
  if (!PyArg_ParseTuple(args, "ii", &row.call, &row.input)) return nullptr;
  Of(object).Take(row);
  Py_RETURN_NONE;
}

PyObject* TakeLoss(PyObject* object, PyObject* args) {
  long long memory = 0;
  judgement::Loss row;
  int alone = 0;
  if (!PyArg_ParseTuple(args, "Lidp", &memory, &row.slot, &row.size, &alone)) return nullptr;
  row.memory = memory;
  row.alone = alone != 0;
  Of(object).Take(row);
  Py_RETURN_NONE;
}

PyObject* TakeOutput(PyObject* object, PyObject* memory) {
  const long long number = PyLong_AsLongLong(memory);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Of(object).Take(judgement::Output{number, "", kNone});
  Py_RETURN_NONE;
}

PyObject* TakeGradientAgain(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  long long memory = 0;
  if (!PyArg_ParseTuple(args, "sL", &name, &memory)) return nullptr;
  Of(object).Take(judgement::GradientAgain{name, memory});
  Py_RETURN_NONE;
}

PyObject* TakeOptimizer(PyObject* object, PyObject* args) {
  PyObject* scale = nullptr;
  int alone = 0;
  if (!PyArg_ParseTuple(args, "Op", &scale, &alone)) return nullptr;
  Of(object).Take(judgement::Optimizer{OptionalDouble(scale), alone != 0});
  Py_RETURN_NONE;
}

PyObject* TakeGradient(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  long long memory = 0;
  int slot = kNone;
  if (!PyArg_ParseTuple(args, "sLi", &name, &memory, &slot)) return nullptr;
  Of(object).Take(judgement::Gradient{name, memory, slot});
  Py_RETURN_NONE;
}

PyObject* TakeOptimizerEnds(PyObject* object, PyObject*) {
  Of(object).Take(judgement::OptimizerEnds{});
  Py_RETURN_NONE;
}

PyObject* TakeChange(PyObject* object, PyObject* args) {
  judgement::Change row;
  PyObject *shape = nullptr, *found = nullptr;
  long long memory = 0;
  int type = 0, in_parts = 0;
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "iiiLiO!siipO!", &row.call, &row.made, &row.index, &memory, &type,
                        &PyTuple_Type, &shape, &name, &row.slot, &row.seen, &in_parts,
                        &PyTuple_Type, &found) ||
      !ReadShape(shape, row.shape) || !ReadChange(found, row.found)) {
    return nullptr;
  }
  row.memory = memory;
  row.type = ElementOf(type);
  row.name = name;
  row.in_parts = in_parts != 0;
  Of(object).Take(row);
  Py_RETURN_NONE;
}

PyObject* TakeTogether(PyObject* object, PyObject* args) {
  judgement::Together row;
  const char* name = nullptr;
  PyObject* found = nullptr;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyTuple_Type, &found) ||
      !ReadChange(found, row.found)) {
    return nullptr;
  }
  row.name = name;
  Of(object).Take(row);
  Py_RETURN_NONE;
}

PyObject* TakeLostLine(PyObject* object, PyObject* args) {
  judgement::LostLine row;
  const char* name = nullptr;
  int excused = 0;
  if (!PyArg_ParseTuple(args, "ispddd", &row.seen, &name, &excused, &row.magnitude, &row.mean,
                        &row.held_sum)) {
    return nullptr;
  }
  row.name = name;
  row.excused = excused != 0;
  Of(object).Take(row);
  Py_RETURN_NONE;
}

PyObject* TakeKeptAtRandom(PyObject* object, PyObject* name) {
  Of(object).Take(judgement::KeptAtRandom{TextOf(name)});
  Py_RETURN_NONE;
}

PyObject* TakeState(PyObject* object, PyObject* args) {
  const char* name = nullptr;
  long long memory = 0;
  int slot = kNone;
  if (!PyArg_ParseTuple(args, "sLi", &name, &memory, &slot)) return nullptr;
  Of(object).Take(judgement::State{name, memory, slot});
  Py_RETURN_NONE;
}

// --- what it knows ---

PyObject* SeveralLines(PyObject* object, PyObject*) {
  return ListOf(Of(object).changes().SeveralLines(),
                [](const std::string& each) { return Text(each); });
}

PyObject* Lost(PyObject* object, PyObject*) {
  return ListOf(Of(object).changes().Lost(), [](const std::pair<int, std::string>& each) {
    return Py_BuildValue("(iN)", each.first, Text(each.second));
  });
}

PyObject* KnownOf(PyObject* object, PyObject* memory) {
  const long long number = PyLong_AsLongLong(memory);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const judgement::Memory known = Of(object).MemoryOf(number);
  return Py_BuildValue("(dNd)", known.error, PyBool_FromLong(known.noise), known.rounding);
}

PyObject* WorstOf(PyObject* object, PyObject* call) {
  const long number = PyLong_AsLong(call);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyFloat_FromDouble(Of(object).calls()[static_cast<int>(number)].worst);
}

PyObject* Found(PyObject* object, PyObject*) {
  const auto& all = Of(object).findings().all();
  return Py_BuildValue("(ni)", static_cast<Py_ssize_t>(all.size()),
                       all.empty() ? kNone : all.back().number);
}

PyObject* Magnitudes(PyObject* object, PyObject*) {
  return ListOf(Of(object).magnitudes(), [](const std::pair<const int, double>& each) {
    return Py_BuildValue("(id)", each.first, each.second);
  });
}

PyObject* Finish(PyObject* object, PyObject*) {
  const std::vector<int> order = Of(object).Finish();
  PyObject* findings = ListOf(Of(object).findings().all(), &FindingTuple);
  PyObject* numbers = ListOf(order, [](int each) { return PyLong_FromLong(each); });
  return Py_BuildValue("(NN)", findings, numbers);
}

PyObject* CameInBefore(PyObject* object, PyObject* call) {
  const long number = PyLong_AsLong(call);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const auto found = Of(object).calls().CameInBefore(static_cast<int>(number));
  if (!found) Py_RETURN_NONE;
  return CameInTuple(*found);
}

PyObject* Compared(PyObject* object, void*) { return PyLong_FromLong(Of(object).compared()); }

PyObject* LossSize(PyObject* object, void*) {
  const auto loss = Of(object).consequences().loss();
  if (!loss) Py_RETURN_NONE;
  return PyFloat_FromDouble(*loss);
}

PyObject* IsSmallLoss(PyObject* object, void*) {
  return PyBool_FromLong(Of(object).consequences().IsSmallLoss());
}

PyMethodDef kJudgeMethods[] = {
    {"compare", Method<&CompareTensors>(), METH_VARARGS,
     "compare(held, reference) -> the slot of the figures, -1 where they cannot be read"},
    {"put", Method<&Put>(), METH_VARARGS, "put(*figures) -> their slot"},
    {"figures", Method<&FiguresIn>(), METH_O,
     "figures(slot) -> the fields of ReferenceError | None"},
    {"place", Method<&AddPlace>(), METH_VARARGS,
     "place(operator, forward, phase, file, line, module) -> its number"},
    {"enters", Method<&Enters>(), METH_VARARGS, "enters(memory, error)"},
    {"call", Method<&CallBegins>(), METH_VARARGS,
     "call(number, place, kept, [(memory, type, position, slot, read)]) -> the errors of the "
     "inputs,"
     " 0 of those that are rounding alone | None where all are 0"},
    {"result", Method<&TakeResult>(), METH_VARARGS,
     "result(evidence, call, index, memory, type, shape, position, slot, rounding, written, state)"
     " -> whether the reference begins anew"},
    {"indices", Method<&TakeIndices>(), METH_VARARGS,
     "indices(evidence, call, index, type, shape, share)"},
    {"mask", Method<&TakeMask>(), METH_VARARGS, "mask(call, mask, share) -> whether it is wrong"},
    {"decided", Method<&TakeDecided>(), METH_VARARGS, "decided(mask, source)"},
    {"read", Method<&TakeRead>(), METH_VARARGS, "read(memory, source)"},
    {"leaves", Method<&TakeLeaves>(), METH_VARARGS, "leaves(memory, to_backward)"},
    {"fed", Method<&TakeFed>(), METH_VARARGS, "fed(call, input)"},
    {"loss", Method<&TakeLoss>(), METH_VARARGS, "loss(memory, slot, size, alone)"},
    {"output", Method<&TakeOutput>(), METH_O, "output(memory)"},
    {"gradient_again", Method<&TakeGradientAgain>(), METH_VARARGS, "gradient_again(name, memory)"},
    {"optimizer", Method<&TakeOptimizer>(), METH_VARARGS, "optimizer(skipped_at, alone)"},
    {"gradient", Method<&TakeGradient>(), METH_VARARGS, "gradient(name, memory, slot)"},
    {"optimizer_ends", Method<&TakeOptimizerEnds>(), METH_NOARGS, "optimizer_ends()"},
    {"change", Method<&TakeChange>(), METH_VARARGS,
     "change(call, made, index, memory, type, shape, name, slot, seen, in_parts, change)"},
    {"together", Method<&TakeTogether>(), METH_VARARGS, "together(name, change)"},
    {"lost_line", Method<&TakeLostLine>(), METH_VARARGS,
     "lost_line(seen, name, excused, magnitude, mean, held_sum)"},
    {"kept_at_random", Method<&TakeKeptAtRandom>(), METH_O, "kept_at_random(name)"},
    {"state", Method<&TakeState>(), METH_VARARGS, "state(name, memory, slot)"},
    {"several_lines", Method<&SeveralLines>(), METH_NOARGS,
     "the names of weights that several lines change"},
    {"lost", Method<&Lost>(), METH_NOARGS, "[(seen, name)] of what was lost; seen -1: together"},
    {"known", Method<&KnownOf>(), METH_O, "known(memory) -> (error, noise, rounding)"},
    {"worst", Method<&WorstOf>(), METH_O, "worst(call) -> the largest error of its results"},
    {"came_in", Method<&CameInBefore>(), METH_O, "came_in(call) -> (place, dtype, error) | None"},
    {"found", Method<&Found>(), METH_NOARGS, "(how many findings, the call of the newest)"},
    {"magnitudes", Method<&Magnitudes>(), METH_NOARGS, "[(place, largest of the references)]"},
    {"finish", Method<&Finish>(), METH_NOARGS,
     "([the fields of each Finding], [the numbers of those that count, the worst first])"},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kJudgeProperties[] = {
    {"compared", &Guarded<&Compared>::Call, nullptr, "results that were compared", nullptr},
    {"loss_size", &Guarded<&LossSize>::Call, nullptr, "the newest loss's magnitude | None", nullptr},
    {"is_small_loss", &Guarded<&IsSmallLoss>::Call, nullptr,
     "whether there is nothing left to learn", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kJudgeSlots[] = {{Py_tp_init, reinterpret_cast<void*>(&Guarded<&InitJudge>::Call)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocJudge)},
                        {Py_tp_methods, kJudgeMethods},
                        {Py_tp_getset, kJudgeProperties},
                        {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
                        {0, nullptr}};
PyType_Spec kJudgeSpec = {"mpnanny._core.Judge", sizeof(JudgeObject), 0, Py_TPFLAGS_DEFAULT, kJudgeSlots};

}  // namespace

bool AddJudgeTypes(PyObject* module) {
  if (lost_changes_type == nullptr)
    lost_changes_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kLostChangesSpec));
  PyObject* type = PyType_FromSpec(&kJudgeSpec);
  if (lost_changes_type == nullptr || type == nullptr) return false;
  Py_INCREF(reinterpret_cast<PyObject*>(lost_changes_type));
  if (PyModule_AddObject(module, "LostChanges", reinterpret_cast<PyObject*>(lost_changes_type)) !=
          0 ||
      PyModule_AddObject(module, "Judge", type) != 0) {
    return false;
  }
  PyObject* thresholds = Py_BuildValue(
      "{sdsdsdsdsdsdsdsdsd}", "wrong", judgement::kWrong, "amplification",
      judgement::kAmplification, "noted", judgement::kNoted, "cured", judgement::kCured, "matters",
      kMatters, "many_flushed", kManyFlushed, "much_flushed", kMuchFlushed, "of_fp64",
      judgement::kOfFp64, "of_products", judgement::kOfProducts);
  if (thresholds == nullptr || PyModule_AddObject(module, "THRESHOLDS", thresholds) != 0)
    return false;
  PyObject* elements =
      ListOf(Vocabulary<Element>::kNames, [](const char* each) { return Text(each); });
  return elements != nullptr && PyModule_AddObject(module, "ELEMENTS", elements) == 0;
}

}  // namespace mpnanny
