// msProbe's trend.db: for each rank, step, tensor ("target") and metric ("grad_reduced", "actv" …)
// the norm, the largest, the smallest and the mean value. It has no loss; what is known of a step
// as a whole is put together from the tensors.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/text.h"
#include "engines/runs/import/foreign_database.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/series.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

// It writes an infinite value as one beyond the largest that it keeps.
constexpr double kLargestKept = 1e9;

bool Holds(const runs::Database& database) {
  return database.HasColumn("monitoring_metrics", "metric_name") &&
         database.HasColumn("trend_data", "target_id") &&
         database.HasColumn("trend_data", "metric_id");
}

struct MetricOfTrend {
  std::string name;
  bool has_norm = false;  // then a row without one had a NaN: SQLite keeps it as no number
};

Result<std::map<int64_t, MetricOfTrend>> Metrics(const runs::Database& database, bool norms) {
  const std::string has_norm =
      norms ? "EXISTS (SELECT 1 FROM trend_data t WHERE t.metric_id=m.metric_id AND t.norm IS NOT"
              " NULL)"
            : "0";
  MPN_TRY_ASSIGN(auto rows, database.Prepare("SELECT m.metric_id, m.metric_name, " + has_norm +
                                             " FROM monitoring_metrics m"));
  std::map<int64_t, MetricOfTrend> metrics;
  while (true) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) return metrics;
    metrics[rows.IntOr(0, 0)] = {TextOrBytes(rows, 1), rows.IntOr(2, 0) != 0};
  }
}

std::optional<double> AsMeasured(std::optional<double> stored) {
  if (!stored || std::fabs(*stored) <= kLargestKept) return stored;
  return *stored > 0 ? HUGE_VAL : -HUGE_VAL;
}

// The tensors of one metric at one step.
struct Together {
  double squares = 0, largest = -HUGE_VAL, smallest = HUGE_VAL;
  bool any_norm = false, any_largest = false, any_smallest = false;

  void Add(std::optional<double> norm, std::optional<double> max, std::optional<double> min) {
    if (norm) squares += *norm * *norm, any_norm = true;
    if (max) largest = std::max(largest, *max), any_largest = true;
    if (min) smallest = std::min(smallest, *min), any_smallest = true;
  }
};

// Which metric tells the gradients that the optimizer is given: the reduced ones, else what a dump
// calls so, else each rank's own.
std::string GradientMetric(const std::map<int64_t, MetricOfTrend>& metrics) {
  for (const char* wanted : {"grad_reduced", "parameters_grad", "grad_unreduced"}) {
    for (const auto& [id, metric] : metrics) {
      if (metric.name == wanted) return metric.name;
    }
  }
  return "";
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  MPN_TRY_ASSIGN(auto database, runs::Database::OpenOther(files.front(), into.recorder.cancel()));
  MPN_TRY_ASSIGN(const auto metrics, Metrics(*database, database->HasColumn("trend_data", "norm")));
  const std::string columns = database->ColumnsOrNull("trend_data", {"norm", "max", "min"});
  MPN_TRY_ASSIGN(auto rows,
                 database->Prepare("SELECT step, metric_id, " + columns +
                                   " FROM trend_data WHERE"
                                   " rank=(SELECT min(rank) FROM trend_data) ORDER BY step"));
  const std::string gradients = GradientMetric(metrics);
  Series series(into);
  std::map<int64_t, Together> at_step;  // by metric
  std::optional<int64_t> step;
  const auto put = [&] {
    for (const auto& [id, together] : at_step) {
      const auto metric = metrics.find(id);
      if (metric == metrics.end()) continue;
      const std::string& name = metric->second.name;
      const double norm = std::sqrt(together.squares);
      if (together.any_norm && name == gradients) {
        series.Add("grad_norm", *step, norm, std::nullopt);
      } else if (together.any_norm) {
        series.Add(name + "/norm", *step, norm, std::nullopt);
      }
      if (together.any_largest) {
        series.Add(name + "/max", *step, together.largest, std::nullopt);
      }
      if (together.any_smallest) {
        series.Add(name + "/min", *step, together.smallest, std::nullopt);
      }
    }
    at_step.clear();
  };
  int64_t read = 0;
  while (!into.recorder.Full()) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) break;
    if (++read % 1024 == 0) MPN_TRY(into.recorder.cancel().Check());
    const auto row_step = rows.Int(0);
    if (!row_step) continue;
    if (step != row_step) put();
    step = row_step;
    const int64_t id = rows.IntOr(1, -1);
    const auto metric = metrics.find(id);
    auto norm = AsMeasured(rows.Real(2));
    if (!norm && metric != metrics.end() && metric->second.has_norm) norm = std::nan("");
    at_step[id].Add(norm, AsMeasured(rows.Real(3)), AsMeasured(rows.Real(4)));
  }
  put();
  into.counts = runs::Count(read, "row");
  series.Finish();
  into.notes.push_back(
      "It holds figures of tensors and no loss: norms are the root of the sum of squares over the "
      "tensors of the lowest rank" +
      (gradients.empty()
           ? std::string(".")
           : ", the gradient norm is that of \"" + EscapeControl(gradients, 60) + "\"."));
  return {};
}

}  // namespace

const Format kTrendDatabase{"msProbe trend database", NeverFits, nullptr, Read, Holds};

}  // namespace mpnanny::imports
