// What the judge asks the Python front, which holds the tensors of the call under judgement.
//
// Lives for one call of the judge; borrows the front's object and the step's judge. Used under
// Python's lock. Once a question has failed, with a Python error set, every further one is answered
// without Python: whoever made this looks for the error when the judge is done.
#ifndef MPNANNY_MONITOR_BINDINGS_PYTHON_EVIDENCE_H_
#define MPNANNY_MONITOR_BINDINGS_PYTHON_EVIDENCE_H_

#include <Python.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engines/judgement/evidence.h"
#include "monitor/bindings/owned.h"

namespace mpnanny {

class PythonEvidence : public judgement::Evidence {
 public:
  // `front`: mpnanny.shadow.evidence.Evidence.
  explicit PythonEvidence(PyObject* front) : front_(front) {}

  int InputFigures(int input) override;
  int IndexFigures() override;
  bool Fills() override;
  bool DependsOnNoise(const std::vector<int>& noise) override;
  bool IsNoiseOfElements(double error) override;
  std::optional<bool> RoundingDecides(std::string& why) override;
  std::vector<std::array<double, 2>> Operands() override;
  std::optional<judgement::Singular> SingularAt() override;
  std::optional<std::string> MadeUnwritten(int input) override;
  bool IsAboveZero(int input) override;
  Owner OwnerOf(int input) override;
  CureAnswer FindCure(FindingKind kind, double before, bool narrow) override;

 private:
  // What the front's method answers; null where it has failed, or nothing is asked any more.
  template <typename... Arguments>
  PyObject* Ask(const char* method, const char* format, Arguments... arguments) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    return PyObject_CallMethod(front_, method, format, arguments...);
  }
  static int Whole(const Owned& answer);
  static bool Truth(const Owned& answer);

  PyObject* front_;
};

// A text; "" for None and where it is none, which sets no Python error.
std::string TextOf(PyObject* object);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_PYTHON_EVIDENCE_H_
