#include "engines/runs/alert_fold.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "engines/runs/shadow.h"

namespace mpnanny::runs {
namespace {

// Of an alert that a shadow step raised, its operator and line: one layer may have several.
std::string PlaceOf(const AlertRow& row) {
  if (!IsShadowAlert(row.type)) return "";
  const ShadowAlert alert = ParseShadowAlert(row.detail);
  return alert.op + "\n" + alert.source;
}

}  // namespace

std::vector<AlertRow> FoldAlerts(std::vector<AlertRow> rows) {
  using Key = std::tuple<std::string, std::string, std::string, std::optional<int64_t>,
                         std::optional<int64_t>, std::string>;
  std::map<Key, std::vector<size_t>> at;  // twice on one rank is two alerts
  std::vector<AlertRow> folded;
  for (AlertRow& row : rows) {
    std::vector<size_t>& places = at[Key(row.type.text(), row.severity.text(), row.phase.text(),
                                         row.layer_id, row.kind, PlaceOf(row))];
    // The first that this rank has not told yet: ranks come one after the other.
    const auto found = std::find_if(places.begin(), places.end(), [&](size_t place) {
      return folded[place].ranks.back() != row.ranks.front();
    });
    if (found == places.end()) {
      places.push_back(folded.size());
      folded.push_back(std::move(row));
      continue;
    }
    AlertRow& first = folded[*found];
    first.ranks.insert(first.ranks.end(), row.ranks.begin(), row.ranks.end());
    first.alert_id = std::min(first.alert_id, row.alert_id);
    if (row.producer && (!first.producer || *row.producer == 1)) first.producer = row.producer;
    first.repeats = std::max(first.repeats, row.repeats);
    first.last_step = std::max(first.last_step, row.last_step);
  }
  for (AlertRow& row : folded) std::sort(row.ranks.begin(), row.ranks.end());
  std::sort(folded.begin(), folded.end(),
            [](const AlertRow& a, const AlertRow& b) { return a.alert_id < b.alert_id; });
  return folded;
}

}  // namespace mpnanny::runs
