// Text logs: console output of any trainer, line by line.
//
// Free functions; the text is data from outside, bounded and never executed.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_TEXT_LOG_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_TEXT_LOG_H_

#include <functional>
#include <string>

#include "base/result.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"

namespace mpnanny::imports {

// The text from its beginning.
using OpenSource = std::function<Result<ByteSource>()>;

// Reads the figures of every line. Tables within the text ("step,loss" headers) are read as such.
// The text is read twice (survey.h), and once more where no name says what counts its records
// (count_column.h).
Result<void> ReadTextLog(const OpenSource& open, Import& into);

// "fp16" | "bf16" | "fp32" if a line in lower case says in which precision the run trains; "" else.
std::string PrecisionOf(const std::string& lower);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_TEXT_LOG_H_
