// What several rules' checks need beyond the analyses: turning violations into findings, edits,
// constant tests.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_RULE_SUPPORT_H_
#define MPNANNY_ENGINES_CHECK_RULE_SUPPORT_H_

#include <functional>
#include <string>
#include <string_view>

#include "engines/check/facts/facts.h"
#include "engines/check/rule_set.h"

namespace mpnanny::check {

// The largest finite FP16 value, the largest magnitude that FP16 rounds to zero (half of its
// smallest subnormal 2^-24; a tie goes to even, which is zero), and the smallest values below 1
// that round to 1 in FP16 and in BF16.
inline constexpr double kFp16Max = 65504.0;
inline constexpr double kFp16RoundsToZero = 0x1p-25;
inline constexpr double kFp16RoundsToOne = 1.0 - 0x1p-12;
inline constexpr double kBf16RoundsToOne = 1.0 - 0x1p-9;

// Bounds of a dynamic loss scale, for GradScaler's arguments and for frameworks' settings alike.
// Above 2^24 the first steps are certain to overflow: with 256 values in the mean, the gradient of
// the loss is already 2^16. After a window of 10 steps every eleventh step is lost. Below 1e-4 a
// gradient of 3e-4 rounds to zero in spite of the scale.
inline constexpr double kHighestInitialScale = 0x1p24;
inline constexpr double kShortestScaleWindow = 10;
inline constexpr double kLowestMinScale = 1e-4;
inline constexpr double kHighestMinScale = 128;

// One finding for every violation of that kind.
void ReportViolations(const FileFacts& facts, Violation::Kind kind, Sink& sink,
                      const std::function<std::string(const Violation&)>& message,
                      const std::function<void(const Violation&, RawFinding&)>& edit = nullptr);

// Calls `visit` with every call of the file.
void ForEachCall(const FileFacts& facts, const std::function<void(NodeId call)>& visit);

// True if the call gets arguments that the text does not show (*list, **dict).
bool HasSplat(const FileFacts& facts, NodeId call);

// Adds an edit that puts `line` on a line of its own above the statement that holds `node`; nothing
// where the statement shares its line.
void InsertLineBefore(const FileFacts& facts, NodeId node, std::string_view line,
                      RawFinding& finding);

// The dict with an optimizer's state that a torch.save(…) writes; kNoNode if it is none.
NodeId SavedTraining(const FileFacts& facts, NodeId save);

// "1e-12", "-1e+09": as short as it can be read.
std::string ShowNumber(double value);

// The innermost loop around the node in its own function, kNoNode if there is none.
NodeId LoopOf(const FileFacts& facts, NodeId node);
// True if `inner` is that node or stands inside it.
bool IsInside(const FileFacts& facts, NodeId inner, NodeId node);

// True if the name is imported from several places (try … except ImportError), or imported and
// defined: which signature it has is decided when the program runs.
bool HasSeveralImports(const FileFacts& facts, NodeId expression);

// How a finding that rests on an assumed autocast region is worded and rated.
void NoteAssumed(const Value& value, RawFinding& finding);
// The same for what is reported where the function's own text shows the type, and only there: what
// callers hand in, and what is assumed, is a place to judge.
void NoteUnlessShown(const Value& value, RawFinding& finding);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_RULE_SUPPORT_H_
