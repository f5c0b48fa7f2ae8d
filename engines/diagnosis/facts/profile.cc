#include "engines/diagnosis/facts/profile.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kNewest = 16;  // the rest is spread over what lies before
constexpr size_t kSlots = 16;   // of one layer and kind: a layer that runs a hundred times a step

Measured MeasuredOf(const runs::TensorRow& row) {
  Measured f;
  f.step = row.step;
  f.numel = static_cast<double>(row.numel.value_or(0));
  f.zeros = static_cast<double>(row.zeros);
  f.nonfinite = static_cast<double>(row.NonFinite());
  f.below_fp16 = static_cast<double>(row.below_fp16.value_or(0));
  f.subnormal_fp16 = static_cast<double>(row.subnormal_fp16.value_or(0));
  f.absmax = row.absmax;
  f.rms = row.rms;
  if (row.frozen) f.frozen = static_cast<double>(*row.frozen);
  return f;
}

}  // namespace

const Measured* Series::At(int64_t step) const {
  const auto found = std::find_if(points.begin(), points.end(),
                                  [&](const Measured& point) { return point.step == step; });
  return found == points.end() ? nullptr : &*found;
}

std::string Series::Module() const {
  const size_t dot = layer.rfind('.');
  return dot == std::string::npos ? "" : layer.substr(0, dot);
}

Result<std::vector<int64_t>> ChooseSamples(const runs::Source& source, int64_t first,
                                           int64_t last) {
  constexpr int64_t kFrom = std::numeric_limits<int64_t>::min();
  MPN_TRY_ASSIGN(auto newest, runs::LastSampledSteps(source, {kFrom, last}, kNewest));
  std::set<int64_t> chosen(newest.begin(), newest.end());
  if (newest.size() < kNewest) return std::vector<int64_t>(chosen.begin(), chosen.end());
  const int64_t spread = newest.front() - first;
  constexpr auto kParts = static_cast<int64_t>(kProfileSamples - kNewest);
  for (int64_t part = 0; part < kParts && spread > 0; ++part) {
    MPN_TRY_ASSIGN(auto older,
                   runs::LastSampledSteps(source, {kFrom, first + spread / kParts * part}, 1));
    chosen.insert(older.begin(), older.end());
  }
  return std::vector<int64_t>(chosen.begin(), chosen.end());
}

Result<Profile> ReadProfile(const runs::Source& source, const std::vector<int64_t>& steps,
                            runs::Layers& layers) {
  Profile profile;
  MPN_TRY_ASSIGN(auto dtypes, runs::ReadDtypeNames(source));
  std::map<std::tuple<int64_t, int64_t, int64_t>, Series> found;
  size_t rows_read = 0;
  for (auto step = steps.rbegin(); step != steps.rend() && rows_read < kProfileRows; ++step) {
    MPN_TRY_ASSIGN(auto rows, runs::ReadSample(source, *step));
    rows_read += rows.size();
    profile.steps.push_back(*step);
    bool clean = !rows.empty();
    for (const runs::TensorRow& row : rows) {
      clean = clean && row.NonFinite() == 0;
      if (row.slot >= static_cast<int64_t>(kSlots) && row.kind != runs::kOptimizerState) continue;
      auto [it, fresh] = found.try_emplace({row.layer_id, row.kind, row.slot});
      Series& series = it->second;
      if (fresh) {
        MPN_TRY_ASSIGN(auto layer, layers.Find(row.layer_id));
        series.layer_id = row.layer_id;
        series.kind = row.kind;
        series.slot = row.slot;
        series.layer = layer.name;
        series.type = layer.type;
        series.source = layer.source;
        series.position = layer.position.value_or(std::numeric_limits<int64_t>::max() / 2);
        const auto dtype = row.dtype ? dtypes.find(*row.dtype) : dtypes.end();
        if (dtype != dtypes.end()) series.dtype = dtype->second;
      }
      series.points.push_back(MeasuredOf(row));
    }
    if (clean && !profile.last_clean) profile.last_clean = *step;
  }
  std::reverse(profile.steps.begin(), profile.steps.end());
  for (auto& [key, series] : found) {
    std::reverse(series.points.begin(), series.points.end());
    profile.series.push_back(std::move(series));
  }
  std::stable_sort(profile.series.begin(), profile.series.end(),
                   [](const Series& a, const Series& b) { return a.position < b.position; });
  return profile;
}

}  // namespace mpnanny::diagnosis
