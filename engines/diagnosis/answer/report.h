// A diagnosis as JSON and as text, each within a number of bytes.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_ANSWER_REPORT_H_
#define MPNANNY_ENGINES_DIAGNOSIS_ANSWER_REPORT_H_

#include <string>

#include "base/json.h"
#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// What is diagnosed, for the heading: a handle or the name of a log; escaped.
struct Subject {
  std::string run;   // handle; "" for a log
  std::string name;  // the run's name or the log's path
  // The run that was asked about, where another model of its program is diagnosed; else "".
  std::string asked;
  std::string started;  // when a monitored run began, ISO 8601; many runs have one name
  std::string folder;   // of the run's script: the text names files from there; "": not known
};

// `chinese_too`: the sentences stand in Chinese as well, under "zh" with the same names; what has
// no form in Chinese yet stands there in English.
Json DiagnosisJson(const Subject& subject, const Facts& facts, const Diagnosis& diagnosis,
                   const cases::CaseLibrary& library, size_t bytes, bool chinese_too = false);
Json DiagnosisSchema();
std::string DiagnosisText(const Subject& subject, const Facts& facts, const Diagnosis& diagnosis,
                          size_t bytes);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_ANSWER_REPORT_H_
