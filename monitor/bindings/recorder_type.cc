#include "monitor/bindings/recorder_type.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "monitor/bindings/call_tensors.h"
#include "monitor/bindings/convert.h"
#include "monitor/bindings/guarded.h"
#include "monitor/bindings/held_recorder.h"
#include "monitor/bindings/logprobs.h"
#include "monitor/bindings/origins.h"
#include "monitor/bindings/owned.h"
#include "monitor/bindings/rank_rows.h"
#include "monitor/bindings/recorder_object.h"
#include "monitor/bindings/shadow.h"
#include "monitor/bindings/step_tensors.h"
#include "monitor/core/alert_types.h"
#include "monitor/core/recorder.h"

namespace mpnanny {
namespace {

constexpr size_t kTensorsPerCall = 16;

int Init(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"path",        "name",         "rank",           "world_size",
                                "started_at",  "precision",    "trace_interval", "environment",
                                "dense_steps", "max_db_mb",    "network",        "kinds",
                                "metrics",     "warmup_steps", "alert_window",   nullptr};
  const char *path = nullptr, *name = nullptr, *precision = nullptr, *environment = nullptr;
  long long rank = 0, world_size = 1, interval = 100, dense = 50, max_mb = 2048;
  long long warmup = kWarmupSteps, window = 0;
  unsigned int kinds = kAllKinds, metrics = kAllMetrics;
  PyObject* network = Py_None;
  double started_at = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ssLLdsLsL|LOIILL", const_cast<char**>(names),
                                   &path, &name, &rank, &world_size, &started_at, &precision,
                                   &interval, &environment, &dense, &max_mb, &network, &kinds,
                                   &metrics, &warmup, &window)) {
    return -1;
  }
  if (Self(object)->inside != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a recorder is set up once");
    return -1;
  }
  RecorderOptions options;
  options.path = path;
  options.run = {name,        rank,
                 world_size,  started_at,
                 {},          std::max(1LL, interval),
                 environment, metrics & kAllMetrics};
  if (const auto known = FindNamed<Precision>(precision)) options.run.precision = *known;
  options.dense_steps = dense;
  options.kinds = kinds & kAllKinds;
  options.warmup_steps = std::max(1LL, warmup);
  options.alert_window = std::max(0LL, window);
  options.max_bytes = std::max(1LL, std::min(max_mb, 1LL << 40)) << 20;
  if (network != Py_None) options.network = network == Py_True;
  Result<std::unique_ptr<Recorder>> opened = Internal("not opened");
  {
    const Unlocked unlocked;
    opened = Recorder::Open(std::move(options));
  }
  if (!opened) {
    PyErr_SetString(PyExc_OSError, opened.error().Text().c_str());
    return -1;
  }
  auto inside = std::make_unique<std::mutex>();
  auto tickets = std::make_unique<TicketOffice>();
  auto unreadable = std::make_unique<std::set<std::string>>();
  RecorderObject* self = Self(object);
  self->recorder = opened->release();
  self->inside = inside.release();
  self->tickets = tickets.release();
  self->unreadable = unreadable.release();
  return 0;
}

void DeallocRecorder(PyObject* object) {
  RecorderObject* self = Self(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->recorder != nullptr) {
    // A nanny that nobody has any more, as when a notebook's cell ran again: its run is over.
    const Unlocked unlocked;
    (void)self->recorder->Close("closed");
    delete self->recorder;
  }
  delete self->inside;
  delete self->tickets;
  delete self->unreadable;
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(type);
}

PyObject* AddLayer(PyObject* object, PyObject* args) {
  const char *name = nullptr, *type = nullptr, *source = nullptr;
  long long numel = 0;
  int leaf = 0;
  if (!PyArg_ParseTuple(args, "szzLp", &name, &type, &source, &numel, &leaf)) return nullptr;
  LayerRow row;
  row.name = name;
  row.type = OrEmpty(type);
  row.source = OrEmpty(source);
  row.numel = numel;
  int64_t layer = 0;
  if (const HeldRecorder recorder(object); recorder)
    layer = recorder->AddLayer(std::move(row), leaf != 0);
  return PyLong_FromLongLong(layer);
}

PyObject* BeginStep(PyObject* object, PyObject* step) {
  const long long number = PyLong_AsLongLong(step);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (Self(object)->recorder != nullptr) Self(object)->tickets->Forget();
  const HeldRecorder recorder(object);
  return PyBool_FromLong(recorder && recorder->BeginStep(number));
}

// Whether the open step of a recorder is sampled.
bool IsSampling(PyObject* object) {
  const HeldRecorder recorder(object);
  return recorder && recorder->sampling();
}

// observe(layer, args, output) -> bool
PyObject* Observe(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  RecorderObject* self = Self(object);
  if (count != 3 || self->recorder == nullptr) Py_RETURN_FALSE;
  const long long layer = PyLong_AsLongLong(args[0]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const CallTensors inputs(self->unreadable), outputs(self->unreadable);
  outputs->Collect(args[2], kTensorsPerCall);
  inputs->Collect(args[1], kTensorsPerCall);
  Tickets tickets;
  if (IsSampling(object)) {
    self->tickets->Fill(inputs->objects(), inputs->tickets());
    self->tickets->Fill(outputs->objects(), outputs->tickets());
    tickets = {inputs->tickets(), outputs->tickets()};
  }
  const HeldRecorder recorder(object);
  return PyBool_FromLong(recorder &&
                         recorder->Observe(layer, inputs->views(), outputs->views(), tickets));
}

// explain(layer, args, output, parameters)
PyObject* Explain(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  RecorderObject* self = Self(object);
  if (count != 4 || self->recorder == nullptr) Py_RETURN_NONE;
  const long long layer = PyLong_AsLongLong(args[0]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const CallTensors inputs(self->unreadable), outputs(self->unreadable),
      parameters(self->unreadable);
  inputs->Collect(args[1], kTensorsPerCall);
  outputs->Collect(args[2], kTensorsPerCall);
  parameters->Collect(args[3], kTensorsPerCall);
  if (const HeldRecorder recorder(object); recorder)
    recorder->Explain(layer, inputs->views(), outputs->views(), parameters->views());
  Py_RETURN_NONE;
}

PyObject* Publish(PyObject* object, PyObject* args) {
  StepEnd end;
  if (!ParseEnd(args, end)) return nullptr;
  if (const HeldRecorder recorder(object); recorder) recorder->Publish(end);
  Py_RETURN_NONE;
}

// end_step(…) -> [AlertTuple]
PyObject* EndStep(PyObject* object, PyObject* args) {
  StepEnd end;
  if (!ParseEnd(args, end)) return nullptr;
  std::vector<AlertRow> alerts;
  if (const HeldRecorder recorder(object); recorder) alerts = recorder->EndStep(end);
  PyObject* list = PyList_New(0);
  if (list == nullptr) return nullptr;
  for (const AlertRow& alert : alerts) {
    PyObject* row = AlertTuple(alert);
    if (row == nullptr || PyList_Append(list, row) != 0) {
      Py_XDECREF(row);
      Py_DECREF(list);
      return nullptr;
    }
    Py_DECREF(row);
  }
  return list;
}

PyObject* Event(PyObject* object, PyObject* args) {
  PyObject* step = nullptr;
  const char *type = nullptr, *detail = nullptr;
  if (!PyArg_ParseTuple(args, "Osz", &step, &type, &detail)) return nullptr;
  std::optional<int64_t> number;
  if (step != Py_None) number = PyLong_AsLongLong(step);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (const HeldRecorder recorder(object); recorder) recorder->Event(number, type, OrEmpty(detail));
  Py_RETURN_NONE;
}

PyObject* SetNotes(PyObject* object, PyObject* json) {
  const char* text = PyUnicode_AsUTF8AndSize(json, nullptr);
  if (text == nullptr) return nullptr;
  if (const HeldRecorder recorder(object); recorder) recorder->SetNotes(text);
  Py_RETURN_NONE;
}

// gradients_in_fp16(scale) -> (elements, zeroed, subnormal) | None
PyObject* GradientsInFp16(PyObject* object, PyObject* scale) {
  const double factor = PyFloat_AsDouble(scale);
  if (PyErr_Occurred() != nullptr) return nullptr;
  std::optional<GradientSpread::Share> share;
  if (const HeldRecorder recorder(object); recorder) {
    const GradientSpread* spread = recorder->gradient_spread();
    if (spread != nullptr) share = spread->InFp16(factor);
  }
  if (!share) Py_RETURN_NONE;
  return Py_BuildValue("(LLL)", static_cast<long long>(share->elements),
                       static_cast<long long>(share->zeroed),
                       static_cast<long long>(share->subnormal));
}

PyObject* Flush(PyObject* object, PyObject*) {
  if (const HeldRecorder recorder(object); recorder) {
    const Unlocked unlocked;
    recorder->Flush();
  }
  Py_RETURN_NONE;
}

PyObject* Failure(PyObject* object, PyObject*) {
  std::string failure;
  if (const HeldRecorder recorder(object); recorder) failure = recorder->failure();
  return Text(failure);
}

template <typename Texts>
PyObject* ListOf(const Texts& texts) {
  PyObject* list = PyList_New(0);
  for (const std::string& each : texts) {
    const Owned text(Text(each));
    if (list == nullptr || !text || PyList_Append(list, text.get()) != 0) {
      Py_XDECREF(list);
      return nullptr;
    }
  }
  return list;
}

PyObject* Unseen(PyObject* object, PyObject*) {
  std::vector<std::string> names;
  if (const HeldRecorder recorder(object); recorder) names = recorder->UnseenLeaves();
  return ListOf(names);
}

// unreadable() -> why tensors of this run could not be read, or not whole
PyObject* Unreadable(PyObject* object, PyObject*) {
  const std::set<std::string> reasons = *Self(object)->unreadable;  // which other calls add to
  return ListOf(reasons);
}

// close(reason) -> what went wrong, or ""
PyObject* Close(PyObject* object, PyObject* reason) {
  const char* text = PyUnicode_AsUTF8AndSize(reason, nullptr);
  if (text == nullptr) return nullptr;
  std::string trouble;
  if (HeldRecorder held(object); held) {
    std::unique_ptr<Recorder> recorder = held.Take(object);
    const Unlocked unlocked;
    const Result<void> closed = recorder->Close(text);
    if (!closed) trouble = closed.error().Text();
    recorder.reset();
  }
  return Text(trouble);
}

// In a forked child the writer's thread does not exist and the file is the parent's: let go of
// everything without touching it.
PyObject* Abandon(PyObject* object, PyObject*) {
  Self(object)->recorder = nullptr;
  Py_RETURN_NONE;
}

PyObject* RunId(PyObject* object, void*) {
  int64_t id = 0;
  if (const HeldRecorder recorder(object); recorder) id = recorder->run_id();
  return PyLong_FromLongLong(id);
}
PyObject* Place(PyObject* object, void*) {
  std::string path, published;
  if (const HeldRecorder recorder(object); recorder) {
    path = recorder->path();
    published = recorder->published();
  }
  return Py_BuildValue("(NN)", Text(path), Text(published));
}
PyObject* Note(PyObject* object, void*) {
  std::string note;
  if (const HeldRecorder recorder(object); recorder) note = recorder->note();
  return Text(note);
}

PyMethodDef kMethods[] = {
    {"add_layer", Method<&AddLayer>(), METH_VARARGS,
     "add_layer(name, type, source, numel, leaf) -> id"},
    {"begin_step", Method<&BeginStep>(), METH_O, "begin_step(step) -> whether it is sampled"},
    {"observe", Method<&Observe>(), METH_FASTCALL,
     "observe(layer, args, output) -> whether to explain()"},
    {"explain", Method<&Explain>(), METH_FASTCALL, "explain(layer, args, output, parameters)"},
    {"gradients", Method<&Gradients>(), METH_VARARGS,
     "gradients(layers, tensors, inverse_scale) -> whether one of the step is not finite"},
    {"weights", Method<&Weights>(), METH_VARARGS, "weights(layers, tensors)"},
    {"before_update", Method<&BeforeUpdate>(), METH_VARARGS, "before_update(layers, weights)"},
    {"after_update", Method<&AfterUpdate>(), METH_VARARGS,
     "after_update(layers, weights, gradients, judge)"},
    {"optimizer_states", Method<&OptimizerStates>(), METH_VARARGS,
     "optimizer_states(layers, slots, tensors, eps)"},
    {"activation_gradient", Method<&ActivationGradient>(), METH_VARARGS,
     "activation_gradient(layer, slot, inverse_scale, tensor)"},
    {"nan_origin", Method<&SeeOrigin>(), METH_VARARGS,
     "nan_origin(phase, name, source, module, nan, count, message, operators) -> the operator's "
     "layer; operators: a JSON array"},
    {"broken_buffers", Method<&BrokenBuffers>(), METH_VARARGS,
     "broken_buffers(which, json): before explain(), in words and as a JSON array"},
    {"explained", Method<&Explained>(), METH_NOARGS,
     "explained() -> what has been added to an alert since, or ''"},
    {"publish", Method<&Publish>(), METH_VARARGS,
     "publish(at, duration, loss, lr, scale, scale_after, growth_interval, skipped, memory)"},
    {"end_step", Method<&EndStep>(), METH_VARARGS, "end_step(as publish) -> new alerts"},
    {"shadow_step", Method<&ShadowStep>(), METH_VARARGS | METH_KEYWORDS, "as _core.pyi"},
    {"shadow_finding", Method<&ShadowFinding>(), METH_VARARGS | METH_KEYWORDS, "as _core.pyi"},
    {"shadow_profile", Method<&ShadowProfile>(), METH_VARARGS | METH_KEYWORDS, "as _core.pyi"},
    {"rank_figure", Method<&RankFigure>(), METH_VARARGS,
     "rank_figure(step, layer, what, holders, first, figures)"},
    {"collective", Method<&Collective>(), METH_VARARGS, "as _core.pyi"},
    {"logprobs", Method<&Logprobs>(), METH_VARARGS,
     "logprobs(step, tokens, not_finite, k3, beyond)"},
    {"event", Method<&Event>(), METH_VARARGS, "event(step, type, detail)"},
    {"set_notes", Method<&SetNotes>(), METH_O, "set_notes(json)"},
    {"flush", Method<&Flush>(), METH_NOARGS, "flush()"},
    {"gradients_in_fp16", Method<&GradientsInFp16>(), METH_O,
     "gradients_in_fp16(scale) -> (elements, zeroed, subnormal) | None"},
    {"failure", Method<&Failure>(), METH_NOARGS,
     "failure() -> why nothing is recorded any more, or ''"},
    {"unseen", Method<&Unseen>(), METH_NOARGS, "unseen() -> names of modules that never ran"},
    {"unreadable", Method<&Unreadable>(), METH_NOARGS,
     "unreadable() -> why tensors could not be read, or not whole"},
    {"close", Method<&Close>(), METH_O, "close(reason) -> what went wrong, or ''"},
    {"abandon", Method<&Abandon>(), METH_NOARGS, "abandon()"},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kProperties[] = {
    {"run_id", &Guarded<&RunId>::Call, nullptr, "the run's number in its database", nullptr},
    {"note", &Guarded<&Note>::Call, nullptr, "what could not be set up", nullptr},
    {"place", &Guarded<&Place>::Call, nullptr, "(file, where copies go or '')", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kRecorderSlots[] = {{Py_tp_init, reinterpret_cast<void*>(&Guarded<&Init>::Call)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocRecorder)},
                                {Py_tp_methods, kMethods},
                                {Py_tp_getset, kProperties},
                                {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
                                {0, nullptr}};
PyType_Spec kRecorderSpec = {"mpnanny._core.Recorder", sizeof(RecorderObject), 0,
                             Py_TPFLAGS_DEFAULT, kRecorderSlots};

}  // namespace

bool AddRecorderType(PyObject* module) {
  PyObject* type = PyType_FromSpec(&kRecorderSpec);
  return type != nullptr && PyModule_AddObject(module, "Recorder", type) == 0;
}

}  // namespace mpnanny
