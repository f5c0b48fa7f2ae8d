#include "tools/list_runs/verdicts.h"

#include "engines/diagnosis/program.h"
#include "engines/runs/remembered.h"

namespace mpnanny::list_runs {
namespace {

constexpr size_t kVerdictsRemembered = 256;

}  // namespace

std::optional<Health> Verdicts::Of(const ListedRun& listed) {
  static runs::Remembered<Health> remembered(kVerdictsRemembered);
  if (listed.steps == 0) return std::nullopt;
  // One pass over a thousand ranks each: the list of a team's database is one question.
  if (IsDatabaseUrl(listed.run.handle.path)) return std::nullopt;
  auto source = runs::OpenRun(FormatRunHandle(listed.run.handle), context_.roots, context_.cancel);
  if (!source) return std::nullopt;
  const std::string stamp = runs::StampOfRun(*source);
  if (const auto known = remembered.Find(stamp)) return *known;
  const auto now = CancelToken::Clock::now();
  if (now >= until_) {
    ++left_out_;
    return std::nullopt;
  }
  auto judged = diagnosis::JudgeRun(*source, context_, until_ - now);
  if (!judged) return std::nullopt;
  // Of a part of its steps nothing is said.
  if (judged->steps.ended_after) {
    ++left_out_;
    return std::nullopt;
  }
  return *remembered.Keep(stamp, *judged->verdict.verdict);
}

}  // namespace mpnanny::list_runs
