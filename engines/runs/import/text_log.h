// Text logs: console output of any trainer, line by line.
//
// Free functions; the text is data from outside, bounded and never executed.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_TEXT_LOG_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_TEXT_LOG_H_

#include "base/result.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"

namespace mpnanny::imports {

// Reads the figures of every line. Tables within the text ("step,loss" headers) are read as such.
// It is read twice (survey.h): `again` has the same text.
Result<void> ReadTextLog(ByteSource source, ByteSource again, Import& into);

// "fp16" | "bf16" | "fp32" if a line in lower case says in which precision the run trains; "" else.
std::string PrecisionOf(const std::string& lower);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_TEXT_LOG_H_
