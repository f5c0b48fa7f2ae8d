#include "engines/runs/evaluations.h"

#include <cmath>

#include "base/json.h"
#include "engines/runs/events.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {

std::string EvaluationDetail(std::string_view name, double loss) {
  // JSON has no NaN.
  const Json value = std::isnan(loss) ? Json("NaN") : std::isinf(loss) ? Json("Inf") : Json(loss);
  return DumpJson({{"name", std::string(name.substr(0, 200))}, {"loss", value}});
}

Result<Evaluations> ReadEvaluations(const Source& source) {
  Evaluations seen;
  if (source.format.empty()) return seen;
  MPN_TRY(ForEachEvent(source, [&](const EventRow& row) {
    if (row.type != kEvaluation) return true;
    const auto detail = ParseJson(row.detail);
    if (!detail || !detail->is_object() || !detail->contains("loss")) return true;
    const Json& loss = (*detail)["loss"];
    if (seen.count++ == 0) seen.name = detail->value("name", "");
    seen.bad_at_end = !loss.is_number();
    if (loss.is_number()) {
      seen.last = loss.get<double>();
      if (!seen.first) seen.first = seen.last;
      return true;
    }
    ++seen.nonfinite;
    if (!seen.first_bad) {
      seen.first_bad = row.step;
      seen.is_nan = loss == "NaN";
    }
    return true;
  }));
  return seen;
}

std::string EvaluationsText(const Evaluations& e) {
  if (e.count == 0) return "";
  std::string text = "It holds losses of evaluations (\"" + Name(e.name) + "\", " +
                     std::to_string(e.count) + " read)";
  if (e.first) {
    text += ": " + Number(e.first) + " at first, " + Number(e.last) +
            (e.nonfinite > 0 ? " the last that is finite" : " at the end");
  }
  if (e.nonfinite > 0) {
    text += "; " + std::to_string(e.nonfinite) +
            (e.nonfinite == 1 ? " of them is not finite" : " of them are not finite");
    if (e.first_bad) text += ", first at step " + std::to_string(*e.first_bad);
  }
  return text + ".";
}

}  // namespace mpnanny::runs
