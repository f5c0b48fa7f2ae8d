#include "tools/query_alerts/alert_cases.h"

#include <algorithm>
#include <utility>

namespace mpnanny::query_alerts {
namespace {

constexpr size_t kMostKept = 4096;

// The weight of the case's strongest signal for this alert; 0 if none fits. Weights are comparable
// across cases (knowledge/README.md).
double WeightFor(const cases::Case& entry, const runs::AlertRow& alert, const std::string& layer) {
  double weight = 0;
  for (const cases::Signal& signal : entry.signals) {
    if (signal.kind != cases::Signal::Kind::kAlert || signal.name != alert.type.text()) continue;
    if (!signal.phase.empty() && signal.phase != alert.phase.text()) continue;
    if (cases::FitsLayer(signal, layer)) weight = std::max(weight, signal.weight);
  }
  return weight;
}

}  // namespace

const std::vector<std::string>& AlertCases::Of(const runs::AlertRow& alert,
                                               const std::string& layer) {
  if (known_.size() > kMostKept) known_.clear();
  auto [it, fresh] =
      known_.try_emplace({std::string(alert.type.text()), std::string(alert.phase.text()), layer});
  if (!fresh) return it->second;
  std::vector<std::pair<double, const cases::Case*>> ranked;
  for (const cases::Case& entry : library_.all()) {
    if (entry.kind != "failure") continue;
    const double weight = WeightFor(entry, alert, layer);
    if (weight > 0) ranked.emplace_back(weight, &entry);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < std::min(kCasesPerAlert, ranked.size()); ++i) {
    it->second.push_back(ranked[i].second->id);
  }
  return it->second;
}

}  // namespace mpnanny::query_alerts
