#include "tools/query_alerts/alert_cases.h"

#include <algorithm>
#include <utility>

namespace mpnanny::query_alerts {
namespace {

constexpr size_t kMostKept = 4096;

// How much of the case's whole weight its signals for this alert carry; 0 if none fits.
double ShareOf(const cases::Case& entry, const runs::AlertRow& alert, const std::string& layer) {
  double whole = 0;
  double fitting = 0;
  for (const cases::Signal& signal : entry.signals) {
    whole += signal.weight;
    if (signal.kind != cases::Signal::Kind::kAlert || signal.name != alert.type) continue;
    if (!signal.phase.empty() && signal.phase != alert.phase) continue;
    if (cases::FitsLayer(signal, layer)) fitting = std::max(fitting, signal.weight);
  }
  return whole > 0 ? fitting / whole : 0;
}

}  // namespace

const std::vector<std::string>& AlertCases::Of(const runs::AlertRow& alert,
                                               const std::string& layer) {
  if (known_.size() > kMostKept) known_.clear();
  auto [it, fresh] = known_.try_emplace({alert.type, alert.phase, layer});
  if (!fresh) return it->second;
  std::vector<std::pair<double, const cases::Case*>> ranked;
  for (const cases::Case& entry : library_.all()) {
    if (entry.kind != "failure") continue;
    const double share = ShareOf(entry, alert, layer);
    if (share > 0) ranked.emplace_back(share, &entry);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < std::min(kCasesPerAlert, ranked.size()); ++i) {
    it->second.push_back(ranked[i].second->id);
  }
  return it->second;
}

}  // namespace mpnanny::query_alerts
