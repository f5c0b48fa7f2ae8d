#include "engines/pack/copy_samples.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/sample_thinning.h"
#include "engines/runs/alerts.h"
#include "engines/runs/samples.h"

namespace mpnanny::pack {
namespace {

constexpr std::string_view kColumns =
    "run_id, step, layer_id, kind, slot, dtype, numel, nan, posinf, neginf, zeros, min, max, "
    "absmax, absmin, mean, std, rms, l2, below_fp16, subnormal_fp16, above_fp16, frozen, exponents";

using Series = std::tuple<int64_t, int64_t, int64_t>;  // layer, kind, slot

Series SeriesOf(const runs::TensorRow& row) { return {row.layer_id, row.kind, row.slot}; }

// Steps near which nothing is thinned: ends of alerts, sorted.
Result<std::vector<int64_t>> AlertSteps(const runs::Source& source) {
  std::vector<int64_t> steps;
  MPN_TRY(runs::ForEachAlert(source, {}, [&](const runs::AlertRow& row) {
    steps.push_back(row.step);
    if (row.last_step && *row.last_step != row.step) steps.push_back(*row.last_step);
    return true;
  }));
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

bool NearAlert(const std::vector<int64_t>& alerts, int64_t step) {
  const auto next = std::lower_bound(alerts.begin(), alerts.end(), step);
  return (next != alerts.end() && *next - step <= kThinningAlertSteps) ||
         (next != alerts.begin() && step - *std::prev(next) <= kThinningAlertSteps);
}

class SampleCopy {
 public:
  SampleCopy(const CopyOptions& options, const LayerIds& layers, const NewDatabase& into,
             runs::SampleReader reader, runs::Statement exponents, Insertion insertion,
             Copied& copied)
      : options_(options),
        layers_(layers),
        into_(into),
        reader_(std::move(reader)),
        exponents_(std::move(exponents)),
        insertion_(std::move(insertion)),
        copied_(copied) {}

  Result<void> Run(const std::vector<int64_t>& alerts) {
    const int64_t stride = ThinningStride(options_.level);
    const auto window =
        static_cast<size_t>(options_.level > 0 ? ThinningWindow(options_.level) : 1);
    int64_t ordinal = 0;
    std::optional<int64_t> from = std::numeric_limits<int64_t>::min();
    while (from && !copied_.too_large) {
      // One window: its steps, the extremes of its tensors, then what stays of it.
      std::vector<int64_t> steps;
      std::set<int64_t> whole;
      while (from && steps.size() < window) {
        MPN_TRY_ASSIGN(auto step, reader_.StepFrom(*from));
        if (!step) {
          from.reset();
          break;
        }
        if (ordinal++ % stride == 0 || NearAlert(alerts, *step)) whole.insert(*step);
        steps.push_back(*step);
        from =
            *step == std::numeric_limits<int64_t>::max() ? std::nullopt : std::optional(*step + 1);
      }
      if (auto done = CopyWindow(steps, whole); !done) return done;
    }
    return {};
  }

 private:
  Result<void> CopyWindow(const std::vector<int64_t>& steps, const std::set<int64_t>& whole) {
    std::map<Series, SampleExtremes> extremes;
    if (whole.size() < steps.size()) {
      for (const int64_t step : steps) {
        MPN_TRY_ASSIGN(auto rows, reader_.Sample(step));
        for (const runs::TensorRow& row : *rows) {
          extremes[SeriesOf(row)].Add(step, row.absmax, row.NonFinite() > 0);
        }
      }
    }
    for (const int64_t step : steps) {
      const bool all = whole.contains(step);
      MPN_TRY_ASSIGN(auto rows, reader_.Sample(step));
      bool has_exponents = false;
      std::map<Series, std::string> exponents;
      for (const runs::TensorRow& row : *rows) {
        if (!all && !extremes[SeriesOf(row)].Holds(step)) {
          ++copied_.rows_left_out;
          continue;
        }
        if (!has_exponents) {
          if (auto read = ReadExponents(step, exponents); !read) return read;
          has_exponents = true;
        }
        if (auto done = Insert(row, exponents); !done) return done;
      }
      if (options_.max_bytes > 0 && into_.Bytes() > options_.max_bytes) {
        copied_.too_large = true;
        return {};
      }
    }
    return {};
  }

  Result<void> ReadExponents(int64_t step, std::map<Series, std::string>& exponents) {
    exponents_.Bind(2, step);
    while (true) {
      MPN_TRY_ASSIGN(auto next, exponents_.Next());
      if (!next) break;
      if (auto bytes = exponents_.Blob(3)) {
        exponents[{exponents_.IntOr(0, 0), exponents_.IntOr(1, 0), exponents_.IntOr(2, 0)}] =
            *std::move(bytes);
      }
    }
    exponents_.Reset();
    return {};
  }

  Result<void> Insert(const runs::TensorRow& row, const std::map<Series, std::string>& exponents) {
    const auto layer = layers_.find(row.layer_id);
    if (layer == layers_.end()) return {};  // of no layer: nothing could name it
    const auto count = [&](int64_t value, uint32_t bit) {
      return row.missing_counts & bit ? std::nullopt : std::optional(value);
    };
    insertion_.Add(options_.run_id).Add(row.step).Add(layer->second).Add(row.kind).Add(row.slot);
    insertion_.Add(row.dtype).Add(row.numel).Add(count(row.nan, 1)).Add(count(row.posinf, 2));
    insertion_.Add(count(row.neginf, 4)).Add(count(row.zeros, 8));
    for (const auto& figure :
         {row.min, row.max, row.absmax, row.absmin, row.mean, row.std, row.rms, row.l2}) {
      insertion_.Add(figure);
    }
    insertion_.Add(row.below_fp16).Add(row.subnormal_fp16).Add(row.above_fp16).Add(row.frozen);
    const auto found = exponents.find(SeriesOf(row));
    insertion_.AddBlob(found == exponents.end() ? std::nullopt : std::optional(found->second));
    ++copied_.sample_rows;
    return insertion_.Insert();
  }

  const CopyOptions& options_;
  const LayerIds& layers_;
  const NewDatabase& into_;
  runs::SampleReader reader_;
  runs::Statement exponents_;
  Insertion insertion_;
  Copied& copied_;
};

}  // namespace

Result<void> CopySamples(const runs::Source& source, const CopyOptions& options,
                         const LayerIds& layers, const NewDatabase& into, Copied& copied) {
  MPN_TRY_ASSIGN(auto alerts, AlertSteps(source));
  auto reader = runs::SampleReader::Create(source);
  if (!reader) return reader.error();
  auto exponents = source.database->Prepare(
      "SELECT layer_id, kind, slot, exponents FROM tensor_stats "
      "WHERE run_id=?1 AND step=?2 AND exponents IS NOT NULL");
  if (!exponents) return exponents.error();
  exponents->Bind(1, *source.run.handle.run_id);
  auto insertion = into.Into("tensor_stats", kColumns);
  if (!insertion) return insertion.error();
  SampleCopy copy(options, layers, into, *std::move(reader), *std::move(exponents),
                  *std::move(insertion), copied);
  return copy.Run(alerts);
}

}  // namespace mpnanny::pack
