// What a Python interpreter that trains has of what mpnanny needs.
//
// Runs on the calling thread; what it starts has ended when it returns.
#ifndef MPNANNY_SERVER_DOCTOR_PYTHON_CHECK_H_
#define MPNANNY_SERVER_DOCTOR_PYTHON_CHECK_H_

#include <chrono>
#include <string>
#include <vector>

#include "server/doctor/check.h"

namespace mpnanny {

// The program that tells: an interpreter runs it by -c. It imports torch, numpy and mpnanny and
// nothing of the user's.
extern const char kPythonProbe[];

// Runs `words` (the interpreter, -c and kPythonProbe, perhaps by ssh) and judges what it tells.
// `python` is what the user named; `ssh_host` is empty where the words lead over none.
Checks CheckPython(const std::string& python, const std::vector<std::string>& words,
                   const std::string& ssh_host,
                   std::chrono::milliseconds limit = std::chrono::seconds(90));

// Judges the probe's report.
Checks JudgePython(const std::string& python, const std::string& report, const std::string& errors);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DOCTOR_PYTHON_CHECK_H_
