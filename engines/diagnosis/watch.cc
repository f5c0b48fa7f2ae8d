#include "engines/diagnosis/watch.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engines/runs/alerts.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/show.h"
#include "engines/runs/steps.h"

namespace mpnanny::diagnosis {
namespace {

// The newest step of the run, of the database or of the ring, whichever is ahead.
Result<std::optional<runs::StepRow>> NewestStep(const runs::Source& source) {
  int64_t newest = source.ring.steps.empty() ? -1 : source.ring.steps.back().step;
  MPN_TRY_ASSIGN(auto statement,
                 source.database->Prepare("SELECT max(step) FROM step WHERE run_id=?1"));
  statement.Bind(1, *source.run.handle.run_id);
  MPN_TRY_ASSIGN(auto row, statement.Next());
  if (row) newest = std::max(newest, statement.IntOr(0, -1));
  if (newest < 0) return std::optional<runs::StepRow>();
  return runs::ReadStep(source, newest);
}

}  // namespace

Result<WatchedState> StateOfRun(const Json& arguments, const ToolContext& context) {
  if (!arguments.contains("run")) {
    return InvalidInput("--watch follows a run of the monitor.", "Give it as RUN.");
  }
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  if (!source.database) {
    return InvalidInput("--watch follows a run of the monitor, not a log.");
  }
  WatchedState state;
  state.over = source.run.status != runs::Status::kRunning;
  // A run that begins later in the same file is another one.
  state.arguments = arguments;
  state.arguments["run"] =
      FormatRunHandle(source.shown.path.empty() ? source.run.handle : source.shown);
  MPN_TRY_ASSIGN(auto newest, NewestStep(source));
  int64_t errors = 0, alerts = 0;
  MPN_TRY(runs::ForEachAlert(source, {}, [&](const runs::AlertRow& alert) {
    ++alerts;
    errors += alert.severity == Severity::kError;
    return true;
  }));
  state.urgent = std::to_string(errors);
  state.version = std::to_string(alerts) + " " + std::to_string(errors);
  state.line = NameOf(source.run.status);
  if (newest) {
    const runs::StepRow& step = *newest;
    state.version += " " + std::to_string(step.step);
    state.line += ", step " + std::to_string(step.step);
    if (step.loss) state.line += ", loss " + runs::Number(step.loss);
    if (step.loss_scale) state.line += ", loss scale " + runs::Number(step.loss_scale);
  } else {
    state.line += ", no step yet";
  }
  state.line +=
      ", " + runs::Count(alerts, "alert") + ", " + std::to_string(errors) + " of them ERROR";
  return state;
}

std::string Essence(const Json& diagnosis) {
  std::string essence = diagnosis.value("verdict", "");
  const Json none = Json::array();
  const auto found = diagnosis.find("hypotheses");
  const Json& hypotheses = found == diagnosis.end() ? none : *found;
  if (!hypotheses.empty()) {
    const Json& first = hypotheses.front();
    for (const char* field : {"cause", "title"}) {
      if (first.contains(field) && first[field].is_string()) {
        return essence + "\n" + first[field].get<std::string>();
      }
    }
  }
  return essence;
}

}  // namespace mpnanny::diagnosis
