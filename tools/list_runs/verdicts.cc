#include "tools/list_runs/verdicts.h"

#include "engines/diagnosis/program.h"
#include "engines/runs/remembered.h"

namespace mpnanny::list_runs {
namespace {

constexpr size_t kVerdictsRemembered = 256;

}  // namespace

std::string Verdicts::Of(const ListedRun& listed) {
  static runs::Remembered<std::string> remembered(kVerdictsRemembered);
  if (listed.steps == 0) return "";
  auto source = runs::OpenRun(FormatRunHandle(listed.run.handle), context_.roots, context_.cancel);
  if (!source) return "";
  const std::string stamp = runs::StampOfRun(*source);
  if (const auto known = remembered.Find(stamp)) return *known;
  const auto now = CancelToken::Clock::now();
  if (now >= until_) {
    ++left_out_;
    return "";
  }
  auto judged = diagnose_run::JudgeRun(*source, context_, until_ - now);
  if (!judged) return "";
  // Of a part of its steps nothing is said.
  if (judged->steps.ended_after) {
    ++left_out_;
    return "";
  }
  return *remembered.Keep(stamp, std::move(judged->verdict.verdict));
}

}  // namespace mpnanny::list_runs
