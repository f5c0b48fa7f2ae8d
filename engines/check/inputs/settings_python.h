// The settings that Python code passes to a training framework.
//
// Reads calls (`TrainingArguments(fp16=True)`, `Trainer(precision=16)`,
// `Accelerator(mixed_precision="fp16")`) and dictionaries that are DeepSpeed's configuration. A
// value that is computed is not known and left out. Free function.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_SETTINGS_PYTHON_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_SETTINGS_PYTHON_H_

#include <vector>

#include "engines/check/facts/facts.h"
#include "engines/check/inputs/settings.h"

namespace mpnanny::check {

std::vector<Settings> ReadPythonSettings(const FileFacts& facts);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_SETTINGS_PYTHON_H_
