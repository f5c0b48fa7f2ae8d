#include "monitor/bindings/judge_type.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engines/judgement/fields.h"
#include "engines/judgement/judge.h"
#include "engines/judgement/recording_evidence.h"
#include "engines/judgement/tape_text.h"
#include "engines/judgement/thresholds.h"
#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/finding_tuples.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/lists.h"
#include "monitor/bindings/owned.h"
#include "monitor/bindings/python_evidence.h"
#include "monitor/bindings/row_reader.h"
#include "numerics/format_error.h"

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
  Judge* judge;           // owned
  PyObject* lost;         // owned: what the judge refers to
  int slots;              // the next free one
  judgement::Tape* tape;  // owned; null where none is kept
};

Judge& Of(PyObject* object) { return *reinterpret_cast<JudgeObject*>(object)->judge; }
LostChanges& RunOf(PyObject* object) { return *reinterpret_cast<LostChangesObject*>(object)->run; }

// Every row goes this way: to the tape, where one is kept, and to the judge.
template <typename T>
decltype(auto) Take(PyObject* object, const T& row) {
  auto* self = reinterpret_cast<JudgeObject*>(object);
  if (self->tape != nullptr) self->tape->Add(row);
  return self->judge->Take(row);
}

// Those about which the judge asks `front`.
template <typename T>
auto Take(PyObject* object, const T& row, PyObject* front) {
  auto* self = reinterpret_cast<JudgeObject*>(object);
  PythonEvidence evidence(front);
  if (self->tape == nullptr) return self->judge->Take(row, evidence);
  self->tape->Add(row);
  judgement::RecordingEvidence recorded(evidence, row.call, *self->tape);
  return self->judge->Take(row, recorded);
}

void Free(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(type);
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
  int step = 0, kept = 0;
  if (!PyArg_ParseTuple(args, "O!iOp", lost_changes_type, &lost, &step, &first_loss, &kept))
    return -1;
  if (self->judge != nullptr || reinterpret_cast<LostChangesObject*>(lost)->run == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a judge is set up once");
    return -1;
  }
  self->judge = new Judge(RunOf(lost), step, OptionalDouble(first_loss));
  if (kept != 0) self->tape = new judgement::Tape{step, OptionalDouble(first_loss), {}};
  Py_INCREF(lost);
  self->lost = lost;
  return 0;
}

void DeallocJudge(PyObject* object) {
  auto* self = reinterpret_cast<JudgeObject*>(object);
  delete self->judge;
  delete self->tape;
  Py_XDECREF(self->lost);
  Free(object);
}

int NextSlot(PyObject* object) { return reinterpret_cast<JudgeObject*>(object)->slots++; }

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
  const int slot = NextSlot(object);
  Take(object, judgement::Figures{slot, found});
  return PyLong_FromLong(slot);
}

PyObject* Reserve(PyObject* object, PyObject*) { return PyLong_FromLong(NextSlot(object)); }

PyObject* Put(PyObject* object, PyObject* args) {
  judgement::Figures row;
  RowReader reader(args);
  judgement::Fields(row, reader);
  if (!reader.IsDone()) return nullptr;
  if (row.slot < 0 || row.slot >= reinterpret_cast<JudgeObject*>(object)->slots) {
    PyErr_SetString(PyExc_ValueError, "no such slot");
    return nullptr;
  }
  Take(object, row);
  Py_RETURN_NONE;
}

PyObject* FiguresIn(PyObject* object, PyObject* slot) {
  const ReferenceError* found = Of(object).slots().At(static_cast<int>(PyLong_AsLong(slot)));
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (found == nullptr) Py_RETURN_NONE;
  return FiguresTuple(*found);
}

PyObject* AddPlace(PyObject* object, PyObject* args) {
  judgement::Place place;
  RowReader reader(args);
  judgement::Fields(place, reader);
  if (!reader.IsDone()) return nullptr;
  const size_t number = Of(object).calls().places();
  Take(object, place);
  return PyLong_FromSize_t(number);
}

// What of a call's inputs the front has to know: their errors, and whose formats are wanted.
PyObject* CallBegins(PyObject* object, PyObject* args) {
  judgement::Call row;
  RowReader reader(args);
  judgement::Fields(row, reader);
  if (!reader.IsDone()) return nullptr;
  const Judge& judge = Of(object);
  if (row.place < 0 || static_cast<size_t>(row.place) >= judge.calls().places() || row.number < 0) {
    PyErr_SetString(PyExc_ValueError, "no such place");
    return nullptr;
  }
  const std::vector<std::pair<int, int>> wanted = Take(object, row);
  std::vector<double> errors;
  for (const judgement::KnownInput& each : judge.calls()[row.number].inputs)
    errors.push_back(each.before.error);
  if (std::all_of(errors.begin(), errors.end(), [](double each) { return each <= 0; }))
    errors.clear();
  if (errors.empty() && wanted.empty()) Py_RETURN_NONE;
  const auto pair = [](const std::pair<int, int>& each) {
    return Py_BuildValue("(ii)", each.first, each.second);
  };
  return Py_BuildValue("(NN)", ListOf(errors, &PyFloat_FromDouble), ListOf(wanted, pair));
}

PyObject* TakeFormats(PyObject* object, PyObject* args) {
  judgement::Formats row;
  PyObject* tensor = nullptr;
  if (!PyArg_ParseTuple(args, "iO", &row.layer, &tensor)) return nullptr;
  {
    const CallTensors list;
    if (!list->Add(tensor)) Py_RETURN_NONE;
    row.found = MeasureFormats(list->views()[0]);
  }
  Take(object, row);
  Py_RETURN_NONE;
}

// What the judge answers to a row: nothing, whether something is so, or a number.
PyObject* Answered(bool is_so) { return PyBool_FromLong(is_so); }
PyObject* Answered(int number) { return PyLong_FromLong(number); }

// A row whose fields are the arguments, in their order (engines/judgement/fields.h).
template <typename Row>
PyObject* TakeRow(PyObject* object, PyObject* args) {
  Row row;
  RowReader reader(args);
  judgement::Fields(row, reader);
  if (!reader.IsDone()) return nullptr;
  if constexpr (std::is_void_v<decltype(Take(object, row))>) {
    Take(object, row);
    Py_RETURN_NONE;
  } else {
    return Answered(Take(object, row));
  }
}

// The same behind the object that answers what the judge asks about it.
template <typename Row>
PyObject* TakeAsking(PyObject* object, PyObject* args) {
  PyObject* front = PyTuple_GetItem(args, 0);
  if (front == nullptr) return nullptr;
  Row row;
  RowReader reader(args, 1);
  judgement::Fields(row, reader);
  if (!reader.IsDone()) return nullptr;
  if constexpr (std::is_void_v<decltype(Take(object, row, front))>) {
    Take(object, row, front);
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  } else {
    const bool answer = Take(object, row, front);
    return PyErr_Occurred() != nullptr ? nullptr : Answered(answer);
  }
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

PyObject* SourceOf(PyObject* object, PyObject* args) {
  long long memory = kNone;
  int type = 0;
  if (!PyArg_ParseTuple(args, "Li", &memory, &type)) return nullptr;
  const auto found = Of(object).SourceOf(memory, static_cast<Element>(type));
  if (!found) Py_RETURN_NONE;
  return Py_BuildValue("(NNN)", CameInTuple(found->came_in), CureTuple(found->cure),
                       PyBool_FromLong(found->is_finding));
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

PyObject* Profiles(PyObject* object, PyObject*) {
  return ListOf(Of(object).profiles().Layers(), [](const judgement::LayerProfile& each) {
    const auto& formats = each.formats;
    return Py_BuildValue("(NNiidNddNNNNNN)", Text(each.module), PyBool_FromLong(each.backward),
                         each.operators, static_cast<int>(each.type), each.error,
                         OptionalNumber(each.Amplification()), each.absmax, each.rms,
                         OptionalNumber(formats[0]), OptionalNumber(formats[1]),
                         OptionalNumber(formats[2]), OptionalNumber(formats[3]),
                         OptionalNumber(formats[4]), OptionalNumber(formats[5]));
  });
}

PyObject* Finish(PyObject* object, PyObject*) {
  const std::vector<int> order = Of(object).Finish();
  PyObject* findings = ListOf(Of(object).findings().all(), &FindingTuple);
  PyObject* numbers = ListOf(order, [](int each) { return PyLong_FromLong(each); });
  return Py_BuildValue("(NN)", findings, numbers);
}

PyObject* TapeText(PyObject* object, PyObject*) {
  const judgement::Tape* tape = reinterpret_cast<JudgeObject*>(object)->tape;
  if (tape == nullptr) Py_RETURN_NONE;
  const std::string text = judgement::TextOf(*tape);
  return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* Compared(PyObject* object, void*) { return PyLong_FromLong(Of(object).compared()); }

PyObject* LossSize(PyObject* object, void*) {
  return OptionalNumber(Of(object).consequences().loss());
}

PyObject* IsSmallLoss(PyObject* object, void*) {
  return PyBool_FromLong(Of(object).consequences().IsSmallLoss());
}

PyMethodDef kJudgeMethods[] = {
    {"compare", Method<&CompareTensors>(), METH_VARARGS,
     "compare(held, reference) -> the slot of the figures, -1 where they cannot be read"},
    {"reserve", Method<&Reserve>(), METH_NOARGS,
     "reserve() -> the slot of figures that come later"},
    {"put", Method<&Put>(), METH_VARARGS, "put(slot, *figures) of a slot that was reserved"},
    {"figures", Method<&FiguresIn>(), METH_O,
     "figures(slot) -> the fields of ReferenceError | None"},
    {"place", Method<&AddPlace>(), METH_VARARGS,
     "place(operator, forward, phase, file, line, module) -> its number"},
    {"call", Method<&CallBegins>(), METH_VARARGS,
     "call(number, place, kept, [(memory, type, offset, position, slot, read)]) -> (the errors of"
     " the inputs, [] where all are 0; [(input, layer)] whose formats are wanted) | None"},
    {"result", Method<&TakeAsking<judgement::Result>>(), METH_VARARGS,
     "result(evidence, call, index, memory, type, shape, position, slot, rounding, written, state)"
     " -> whether the reference begins anew"},
    {"indices", Method<&TakeAsking<judgement::Indices>>(), METH_VARARGS,
     "indices(evidence, call, index, type, shape, share)"},
    {"formats", Method<&TakeFormats>(), METH_VARARGS,
     "formats(layer, reference) of a value that has left it"},
    {"enters", Method<&TakeRow<judgement::Enters>>(), METH_VARARGS, "a row of the tape: Enters"},
    {"mask", Method<&TakeRow<judgement::Mask>>(), METH_VARARGS, "a row of the tape: Mask"},
    {"decided", Method<&TakeRow<judgement::Decided>>(), METH_VARARGS, "a row of the tape: Decided"},
    {"read", Method<&TakeRow<judgement::Read>>(), METH_VARARGS, "a row of the tape: Read"},
    {"leaves", Method<&TakeRow<judgement::Leaves>>(), METH_VARARGS, "a row of the tape: Leaves"},
    {"fed", Method<&TakeRow<judgement::Fed>>(), METH_VARARGS, "a row of the tape: Fed"},
    {"loss", Method<&TakeRow<judgement::Loss>>(), METH_VARARGS, "a row of the tape: Loss"},
    {"output", Method<&TakeRow<judgement::Output>>(), METH_VARARGS, "a row of the tape: Output"},
    {"gradient_again", Method<&TakeRow<judgement::GradientAgain>>(), METH_VARARGS,
     "a row of the tape: GradientAgain"},
    {"optimizer", Method<&TakeRow<judgement::Optimizer>>(), METH_VARARGS,
     "a row of the tape: Optimizer"},
    {"gradient", Method<&TakeRow<judgement::Gradient>>(), METH_VARARGS,
     "a row of the tape: Gradient"},
    {"optimizer_ends", Method<&TakeRow<judgement::OptimizerEnds>>(), METH_VARARGS,
     "a row of the tape: OptimizerEnds"},
    {"change", Method<&TakeRow<judgement::Change>>(), METH_VARARGS, "a row of the tape: Change"},
    {"together", Method<&TakeRow<judgement::Together>>(), METH_VARARGS,
     "a row of the tape: Together"},
    {"lost_line", Method<&TakeRow<judgement::LostLine>>(), METH_VARARGS,
     "a row of the tape: LostLine"},
    {"kept_at_random", Method<&TakeRow<judgement::KeptAtRandom>>(), METH_VARARGS,
     "a row of the tape: KeptAtRandom"},
    {"state", Method<&TakeRow<judgement::State>>(), METH_VARARGS, "a row of the tape: State"},
    {"several_lines", Method<&SeveralLines>(), METH_NOARGS,
     "the names of weights that several lines change"},
    {"lost", Method<&Lost>(), METH_NOARGS, "[(seen, name)] of what was lost; seen -1: together"},
    {"known", Method<&KnownOf>(), METH_O, "known(memory) -> (error, noise, rounding)"},
    {"source", Method<&SourceOf>(), METH_VARARGS,
     "source(memory, type) -> ((place, dtype, error), cure | None, whether it is a finding) of its"
     " error | None"},
    {"worst", Method<&WorstOf>(), METH_O, "worst(call) -> the largest error of its results"},
    {"found", Method<&Found>(), METH_NOARGS, "(how many findings, the call of the newest)"},
    {"magnitudes", Method<&Magnitudes>(), METH_NOARGS, "[(place, largest of the references)]"},
    {"profiles", Method<&Profiles>(), METH_NOARGS,
     "[(module, backward, operators, type, error, amplification, absmax, rms, *formats)]"},
    {"tape", Method<&TapeText>(), METH_NOARGS, "the tape's file | None where none is kept"},
    {"finish", Method<&Finish>(), METH_NOARGS,
     "([the fields of each Finding], [the numbers of those that count, the worst first])"},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kJudgeProperties[] = {
    {"compared", &Guarded<&Compared>::Call, nullptr, "results that were compared", nullptr},
    {"loss_size", &Guarded<&LossSize>::Call, nullptr, "the newest loss's magnitude | None",
     nullptr},
    {"is_small_loss", &Guarded<&IsSmallLoss>::Call, nullptr,
     "whether there is nothing left to learn", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kJudgeSlots[] = {{Py_tp_init, reinterpret_cast<void*>(&Guarded<&InitJudge>::Call)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocJudge)},
                             {Py_tp_methods, kJudgeMethods},
                             {Py_tp_getset, kJudgeProperties},
                             {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
                             {0, nullptr}};
PyType_Spec kJudgeSpec = {"mpnanny._core.Judge", sizeof(JudgeObject), 0, Py_TPFLAGS_DEFAULT,
                          kJudgeSlots};

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
