#include "engines/runs/steps.h"

#include <charconv>

#include "base/text.h"
#include "engines/runs/step_cursor.h"

namespace mpnanny::runs {
namespace {

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<StepRange> ParseStepRange(std::string_view text) {
  const Error wrong = InvalidInput("steps '" + EscapeControl(text, 60) + "' is not a range.",
                                   "Write \"100..200\" (both ends in), \"100..\", \"..200\" or "
                                   "\"100\".");
  StepRange range;
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const auto only = ParseInt(text);
    if (!only) return wrong;
    return StepRange{*only, *only};
  }
  if (dots > 0) {
    const auto first = ParseInt(text.substr(0, dots));
    if (!first) return wrong;
    range.first = *first;
  }
  if (dots + 2 < text.size()) {
    const auto last = ParseInt(text.substr(dots + 2));
    if (!last) return wrong;
    range.last = *last;
  }
  if (text.size() == 2) return wrong;
  if (range.first > range.last) {
    return InvalidInput("steps '" + EscapeControl(text, 60) + "' ends before it begins.");
  }
  return range;
}

namespace {

template <typename Cursor>
Result<void> VisitAll(Result<Cursor> cursor, const std::function<bool(const StepRow&)>& visit) {
  if (!cursor) return cursor.error();
  while (true) {
    MPN_TRY_ASSIGN(auto row, cursor->Next());
    if (!row || !visit(*row)) return {};
  }
}

}  // namespace

Result<void> ForEachStep(const Source& source, const StepRange& range,
                         const std::function<bool(const StepRow&)>& visit) {
  return source.others.empty()
             ? VisitAll(StepCursor::Open(*source.database, source.run, source.ring, range), visit)
             : VisitAll(MergedSteps::Open(source, range), visit);
}

Result<std::optional<StepRow>> ReadStep(const Source& source, int64_t step) {
  std::optional<StepRow> found;
  MPN_TRY(ForEachStep(source, {step, step}, [&](const StepRow& row) {
    found = row;
    return true;
  }));
  return found;
}

}  // namespace mpnanny::runs
