#include "engines/runs/spoken_faults.h"

#include <algorithm>

#include "base/json.h"
#include "engines/runs/events.h"

namespace mpnanny::runs {

Result<std::vector<SpokenFault>> ReadSpokenFaults(const Source& source) {
  std::vector<SpokenFault> found;
  if (source.format.empty()) return found;
  MPN_TRY(ForEachEvent(source, [&](const EventRow& row) {
    if (row.type != kSpokenFault) return true;
    const auto detail = ParseJson(row.detail);
    if (!detail || !detail->is_object()) return true;
    const std::string fault = detail->value("fault", "");
    const int64_t line = detail->value("line", int64_t{0}), step = row.step.value_or(0);
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const SpokenFault& each) { return each.fault == fault; });
    if (same == found.end()) {
      found.push_back({fault, 1, line, line, step, step, detail->value("text", "")});
      return true;
    }
    ++same->count;
    same->last_line = std::max(same->last_line, line);
    same->last_step = std::max(same->last_step, step);
    return true;
  }));
  return found;
}

}  // namespace mpnanny::runs
