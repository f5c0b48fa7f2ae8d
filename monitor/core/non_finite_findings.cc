#include "monitor/core/non_finite_findings.h"

#include <algorithm>
#include <utility>

#include "monitor/core/alert_book.h"

namespace mpnanny {

void NonFiniteFindings::BeginStep() {
  findings_.clear();
  nan_found_ = false;
}

void NonFiniteFindings::Add(NonFiniteFinding finding) {
  nan_found_ = nan_found_ || finding.stats.nan > 0;
  if (findings_.size() < kMost) findings_.push_back(std::move(finding));
}

bool NonFiniteFindings::HasProducerBelow(const std::string& container) const {
  return std::ranges::any_of(findings_, [&](const NonFiniteFinding& finding) {
    if (!finding.producer || !finding.layer) return false;
    return container.empty() || layers_.at(*finding.layer).name.starts_with(container + ".");
  });
}

bool NonFiniteFindings::ForwardIsNonFinite() const {
  return std::ranges::any_of(findings_, [](const NonFiniteFinding& finding) {
    return finding.stats.nan + finding.stats.posinf > 0 || finding.phase == Phase::kData;
  });
}

void NonFiniteFindings::Raise(int64_t step, bool harmless, Alerts& out) const {
  for (const NonFiniteFinding& finding : findings_) {
    const TensorStats& stats = finding.stats;
    if (harmless && stats.nan + stats.posinf == 0) continue;
    const auto raise = [&](AlertType type, int64_t count) {
      AlertRow& alert = out.emplace_back(MakeAlert(type, step, finding.phase, finding.message));
      alert.layer = finding.layer;
      alert.kind = finding.kind;
      alert.value = static_cast<double>(count);
      alert.threshold = 0;
      alert.producer = finding.producer ? 1 : 0;
      alert.detail = finding.detail;
    };
    if (const int64_t infinite = stats.posinf + stats.neginf; infinite > 0)
      raise(AlertType::kInf, infinite);
    if (stats.nan > 0) raise(AlertType::kNan, stats.nan);
  }
}

std::string CountsOf(const TensorStats& stats) {
  std::string text;
  const auto add = [&](int64_t count, const char* what) {
    if (count == 0) return;
    text += text.empty() ? "" : " and ";
    text += (stats.partial ? "" : std::to_string(count) + " ") + what;
  };
  add(stats.nan, "NaN");
  if (stats.partial) {  // a norm does not tell the sign
    add(stats.posinf + stats.neginf, "Inf");
  } else {
    add(stats.posinf, "+Inf");
    add(stats.neginf, "-Inf");
  }
  return text + (stats.partial ? " among " : " of ") + std::to_string(stats.numel);
}

void AddCounts(const TensorStats& stats, JsonObject& detail) {
  std::string made;
  const auto add = [&](bool there, const char* what) {
    if (there) made += (made.empty() ? "" : ",") + JsonText(what);
  };
  add(stats.nan > 0, "nan");
  if (stats.partial) {
    add(stats.posinf + stats.neginf > 0, "inf");
  } else {
    add(stats.posinf > 0, "posinf");
    add(stats.neginf > 0, "neginf");
  }
  detail.Json("made", "[" + made + "]");
  if (!stats.partial) detail.Int("count", stats.nonfinite());
  detail.Int("of", stats.numel);
}

}  // namespace mpnanny
