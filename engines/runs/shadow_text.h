// What a shadow step found, in words that someone who trains models understands at first reading.
// The one place that makes sentences of findings, for all tools.
//
// Free functions without state. Texts out of the file come back escaped.
#ifndef MPNANNY_ENGINES_RUNS_SHADOW_TEXT_H_
#define MPNANNY_ENGINES_RUNS_SHADOW_TEXT_H_

#include <string>
#include <string_view>

#include "base/json.h"
#include "engines/runs/sentence.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {

// The same sentence in its parts, each with its full stop. `operands` (what went into the first
// element that is not finite, and the lines that made it), `precision` and `reach` may be "".
struct FindingWords {
  Sentence what, operands, precision, reach;
};
// What a finding is called in a line: the relation that is broken, else its operator.
std::string FindingName(const ShadowFinding& finding);

FindingWords WordsOf(const ShadowFinding& finding, std::string_view module);

// "bfloat16 subtraction at train.py:40 (block.norm, forward) turns a relative error of 0.4 % into
// 310 %: … In FP32 (lines 40–42) it would be 0.01 %. Reaches the loss." At most about 900 bytes.
// `module`: the layer's raw name, "" for none.
std::string FindingText(const ShadowFinding& finding, std::string_view module);
Sentence FindingSentence(const ShadowFinding& finding, std::string_view module);

// The format of the result as torch calls it: of "bfloat16 → float16" the second; "" if not known.
std::string ResultDtype(const ShadowFinding& finding);

// "bfloat16 subtraction at train.py:40 (block.norm, forward)".
Sentence SubjectOf(const ShadowFinding& finding, std::string_view module);

// "0.4 %", "310 %", "less than 0.0001 %"; from 10,000 % on "120 times the value".
std::string PercentText(double ratio);
Sentence Percent(double ratio);  // the same in every language
// "lines 40–42" of the file of `source`, "model.py:7, 9 and train.py:3" of others; empty for none.
Sentence LinesText(const std::vector<std::string>& lines, std::string_view source);

// "ERROR at step 5, on ranks 0 and 1, seen in 3 shadow steps up to step 20: " and the text.
std::string FindingLine(const ShadowFinding& finding, std::string_view module, int64_t world_size);

// The same in structuredContent, and its schema. `full`: with severity, steps and text, where
// nothing else stands beside it that tells them.
Json FindingJson(const ShadowFinding& finding, std::string_view module, bool full = true);
Json FindingSchema(const std::string& description);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SHADOW_TEXT_H_
