#include "monitor/bindings/python_evidence.h"

#include <utility>

namespace mpnanny {
namespace {

std::vector<std::string> TextsOf(PyObject* list) {
  std::vector<std::string> texts;
  const Py_ssize_t size = PySequence_Size(list);
  for (Py_ssize_t at = 0; at < size; ++at) {
    const Owned item(PySequence_GetItem(list, at));
    texts.push_back(TextOf(item.get()));
  }
  return texts;
}

double NumberAt(PyObject* sequence, Py_ssize_t at) {
  const Owned item(PySequence_GetItem(sequence, at));
  return item ? PyFloat_AsDouble(item.get()) : 0;
}

std::string TextAt(PyObject* sequence, Py_ssize_t at) {
  const Owned item(PySequence_GetItem(sequence, at));
  return TextOf(item.get());
}

}  // namespace

std::string TextOf(PyObject* object) {
  if (object == nullptr || !PyUnicode_Check(object)) return "";
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return "";
  }
  return std::string(text, static_cast<size_t>(size));
}

int PythonEvidence::Whole(const Owned& answer) {
  return answer ? static_cast<int>(PyLong_AsLong(answer.get())) : judgement::kNone;
}

bool PythonEvidence::Truth(const Owned& answer) {
  return answer && PyObject_IsTrue(answer.get()) == 1;
}

int PythonEvidence::InputFigures(int input) { return Whole(Owned(Ask("input", "(i)", input))); }

int PythonEvidence::IndexFigures() { return Whole(Owned(Ask("index_figures", nullptr))); }

bool PythonEvidence::Fills() { return Truth(Owned(Ask("fills", nullptr))); }

bool PythonEvidence::DependsOnNoise(const std::vector<int>& noise) {
  const Owned list(PyList_New(0));
  for (const int each : noise) {
    const Owned number(PyLong_FromLong(each));
    if (!list || !number || PyList_Append(list.get(), number.get()) != 0) return false;
  }
  return Truth(Owned(Ask("depends_on_noise", "(O)", list.get())));
}

bool PythonEvidence::IsNoiseOfElements(double error) {
  return Truth(Owned(Ask("is_noise_of_elements", "(d)", error)));
}

std::optional<bool> PythonEvidence::RoundingDecides(std::string& why) {
  const Owned answer(Ask("rounding_decides", nullptr));
  if (answer && PyUnicode_Check(answer.get())) {
    why = TextOf(answer.get());
    return std::nullopt;
  }
  return Truth(answer);
}

std::vector<std::array<double, 2>> PythonEvidence::Operands() {
  std::vector<std::array<double, 2>> operands;
  const Owned answer(Ask("operands", nullptr));
  if (!answer || answer.get() == Py_None) return operands;
  const Py_ssize_t size = PySequence_Size(answer.get());
  for (Py_ssize_t at = 0; at < size; ++at) {
    const Owned pair(PySequence_GetItem(answer.get(), at));
    if (pair) operands.push_back({NumberAt(pair.get(), 0), NumberAt(pair.get(), 1)});
  }
  return operands;
}

std::optional<judgement::Singular> PythonEvidence::SingularAt() {
  const Owned answer(Ask("singular", nullptr));
  if (!answer || answer.get() == Py_None) return std::nullopt;
  return judgement::Singular{NumberAt(answer.get(), 0) != 0, NumberAt(answer.get(), 1),
                             NumberAt(answer.get(), 2), TextAt(answer.get(), 3),
                             TextAt(answer.get(), 4)};
}

std::optional<std::string> PythonEvidence::MadeUnwritten(int input) {
  const Owned answer(Ask("made_unwritten", "(i)", input));
  if (!answer || answer.get() == Py_None) return std::nullopt;
  return TextOf(answer.get());
}

bool PythonEvidence::IsAboveZero(int input) {
  return Truth(Owned(Ask("is_above_zero", "(i)", input)));
}

judgement::Evidence::Owner PythonEvidence::OwnerOf(int input) {
  const Owned answer(Ask("owner", "(i)", input));
  if (!answer) return {};
  const Owned is_state(PySequence_GetItem(answer.get(), 1));
  const Owned is_doubtful(PySequence_GetItem(answer.get(), 2));
  return {TextAt(answer.get(), 0), Truth(is_state), Truth(is_doubtful)};
}

judgement::Evidence::CureAnswer PythonEvidence::FindCure(FindingKind kind, double before,
                                                         bool narrow) {
  const Owned answer(Ask("find_cure", "(sdi)", NameOf(kind), before, narrow ? 1 : 0));
  if (!answer) return {};
  if (PyUnicode_Check(answer.get())) return {std::nullopt, TextOf(answer.get())};
  judgement::Cure cure;
  const Owned lines(PySequence_GetItem(answer.get(), 0));
  const Owned operators(PySequence_GetItem(answer.get(), 1));
  if (lines) cure.lines = TextsOf(lines.get());
  if (operators) cure.operators = TextsOf(operators.get());
  cure.what = TextAt(answer.get(), 2);
  cure.error_before = NumberAt(answer.get(), 3);
  cure.error_after = NumberAt(answer.get(), 4);
  return {std::move(cure), ""};
}

}  // namespace mpnanny
