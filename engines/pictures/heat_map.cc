#include "engines/pictures/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engines/runs/samples.h"
#include "engines/runs/shadow.h"
#include "engines/runs/show.h"
#include "engines/runs/spread.h"

namespace mpnanny::pictures {
namespace {

using runs::TensorRow;

// What a person waits for: about a second for each 200,000 rows.
constexpr size_t kMostSamples = 512, kFewestSamples = 2 * kColumns, kLayersTimesSamples = 200'000;

std::optional<double> ShareOf(int64_t count, const TensorRow& row) {
  if (!row.numel || *row.numel <= 0) return std::nullopt;
  return static_cast<double>(count) / static_cast<double>(*row.numel);
}

struct Figure {
  int64_t kind;
  const char* name;
  std::optional<double> (*of)(const TensorRow& row);
  bool shows_broken;  // a tensor with NaN or Inf is infinite here
};

std::optional<double> Absmax(const TensorRow& row) { return row.absmax; }
std::optional<double> Rms(const TensorRow& row) { return row.rms; }
std::optional<double> Zeros(const TensorRow& row) {
  return (row.missing_counts & 8) != 0 ? std::nullopt : ShareOf(row.zeros, row);
}
std::optional<double> Underflow(const TensorRow& row) {
  return row.below_fp16 ? ShareOf(*row.below_fp16, row) : std::nullopt;
}
std::optional<double> Frozen(const TensorRow& row) {
  return row.frozen ? ShareOf(*row.frozen, row) : std::nullopt;
}

constexpr Figure kFigures[] = {
    {runs::kActivation, "absmax", Absmax, true},    {runs::kActivation, "rms", Rms, true},
    {runs::kActivation, "zeros", Zeros, false},     {runs::kGradient, "absmax", Absmax, true},
    {runs::kGradient, "underflow", Underflow, false}, {runs::kGradient, "zeros", Zeros, false},
    {runs::kWeight, "absmax", Absmax, true},        {runs::kUpdate, "frozen", Frozen, false},
};
constexpr size_t kTensorMaps = std::size(kFigures);
constexpr size_t kShadowForward = kTensorMaps, kShadowBackward = kTensorMaps + 1;
constexpr size_t kMaps = kTensorMaps + 2;

class Reading {
 public:
  Reading(const runs::Source& source, const HeatMapWish& wish) : source_(source), wish_(wish) {}

  Result<HeatMaps> Run() {
    if (!source_.format.empty()) return std::move(made_);  // a log has no samples
    MPN_TRY(Rows());
    if (made_.layers.empty()) return std::move(made_);
    MPN_TRY(Samples());
    MPN_TRY(Profiles());
    for (size_t at = 0; at < kMaps; ++at) {
      const auto seen = [](float cell) { return !std::isnan(cell); };
      if (std::none_of(cells_[at].begin(), cells_[at].end(), seen)) continue;
      const bool tensor = at < kTensorMaps;
      made_.maps.push_back(
          {tensor ? runs::KindName(kFigures[at].kind)
                  : (at == kShadowForward ? "shadow_forward" : "shadow_backward"),
           tensor ? kFigures[at].name : "error", std::move(cells_[at])});
    }
    return std::move(made_);
  }

 private:
  // The steps to read, ascending. `next`: see SpreadSteps.
  template <typename Next>
  Result<std::vector<int64_t>> Steps(Next next, int64_t last) {
    const size_t most =
        std::clamp(kLayersTimesSamples / made_.layers.size(), kFewestSamples, kMostSamples);
    auto steps = runs::SpreadSteps(next, last, most);
    if (!steps) return steps;
    for (const int64_t wanted : wish_.steps) {
      MPN_TRY_ASSIGN(auto at, next(wanted));
      if (at) steps->push_back(*at);
    }
    std::sort(steps->begin(), steps->end());
    steps->erase(std::unique(steps->begin(), steps->end()), steps->end());
    return steps;
  }

  Result<void> Rows() {
    runs::Layers layers(source_);
    MPN_TRY_ASSIGN(auto all, layers.All());
    std::stable_sort(all.begin(), all.end(), [](const runs::Layer& a, const runs::Layer& b) {
      return a.position.value_or(INT64_MAX) < b.position.value_or(INT64_MAX);
    });
    std::set<int64_t> wished;
    for (const runs::Layer& layer : all) {
      const auto& names = wish_.layers;
      if (all.size() <= kRows || wished.size() == kRows) break;
      if (std::find(names.begin(), names.end(), runs::Name(layer.name)) != names.end()) {
        wished.insert(layer.layer_id);
      }
    }
    size_t others = kRows - wished.size();
    made_.layers_left_out = all.size() > kRows ? all.size() - kRows : 0;
    for (const runs::Layer& layer : all) {
      if (!wished.contains(layer.layer_id)) {
        if (others == 0) continue;
        --others;
      }
      row_of_[layer.layer_id] = made_.layers.size();
      made_.layer_ids.push_back(layer.layer_id);
      made_.layers.push_back(layer.name);
    }
    made_.dtypes.resize(made_.layers.size());
    return {};
  }

  Result<void> Columns(const std::vector<int64_t>& steps) {
    const size_t rows = made_.layers.size();
    const size_t room = std::max<size_t>(8, kMostCells / (kMaps * rows));
    const size_t columns = std::min({kColumns, room, std::max<size_t>(1, steps.size())});
    for (size_t at = 0; at < steps.size(); ++at) {
      const size_t column = at * columns / steps.size();
      if (column == made_.first_steps.size()) {
        made_.first_steps.push_back(steps[at]);
        made_.last_steps.push_back(steps[at]);
      }
      made_.last_steps.back() = steps[at];
    }
    for (auto& cells : cells_) cells.assign(rows * made_.first_steps.size(), kNoFigure);
    return {};
  }

  // Where a figure of this step and layer stands; nullptr for a layer that is left out.
  float* Cell(size_t map, int64_t step, int64_t layer_id) {
    const auto row = row_of_.find(layer_id);
    const auto after =
        std::upper_bound(made_.first_steps.begin(), made_.first_steps.end(), step);
    if (row == row_of_.end() || after == made_.first_steps.begin()) return nullptr;
    const auto column = static_cast<size_t>(after - made_.first_steps.begin()) - 1;
    return &cells_[map][row->second * made_.first_steps.size() + column];
  }

  void Raise(size_t map, int64_t step, int64_t layer_id, double value) {
    float* const cell = Cell(map, step, layer_id);
    const auto figure = static_cast<float>(value);
    if (cell != nullptr && (std::isnan(*cell) || figure > *cell)) *cell = figure;
  }

  Result<void> Samples() {
    MPN_TRY_ASSIGN(auto newest, runs::LastSampledSteps(source_, {}, 1));
    if (newest.empty()) return Columns({});
    MPN_TRY_ASSIGN(auto reader,
                   runs::SampleReader::Create(source_, {"absmax", "rms", "below_fp16", "frozen"}));
    MPN_TRY_ASSIGN(auto dtypes, runs::ReadDtypeNames(source_));
    MPN_TRY_ASSIGN(auto steps,
                   Steps([&](int64_t step) { return reader.StepFrom(step); }, newest.front()));
    made_.samples_read = steps.size();
    if (auto made = Columns(steps); !made) return made;
    for (const int64_t step : steps) {
      MPN_TRY_ASSIGN(auto rows, reader.Sample(step));
      for (const TensorRow& row : *rows) {
        for (size_t at = 0; at < kTensorMaps; ++at) {
          const Figure& figure = kFigures[at];
          if (row.kind != figure.kind) continue;
          auto value = figure.of(row);
          if (figure.shows_broken && row.NonFinite() > 0) value = HUGE_VAL;
          if (value) Raise(at, step, row.layer_id, *value);
        }
        if (row.kind != runs::kActivation || !row.dtype) continue;
        const auto dtype = dtypes.find(*row.dtype);
        const auto of = row_of_.find(row.layer_id);
        if (dtype != dtypes.end() && of != row_of_.end()) made_.dtypes[of->second] = dtype->second;
      }
    }
    return {};
  }

  Result<void> Profiles() {
    MPN_TRY_ASSIGN(auto shadow, runs::ReadShadowSteps(source_));
    if (shadow.steps.empty() || made_.first_steps.empty()) return {};
    MPN_TRY_ASSIGN(auto profile, runs::ShadowProfile::Open(source_));
    MPN_TRY_ASSIGN(auto steps, Steps([&](int64_t step) { return profile.StepFrom(step); },
                                     shadow.steps.back().step));
    for (const int64_t step : steps) {
      MPN_TRY_ASSIGN(auto rows, profile.At(step));
      for (const runs::ShadowProfileRow& row : rows) {
        const size_t map = row.phase == 1 ? kShadowBackward : kShadowForward;
        if (row.error) Raise(map, step, row.layer_id, *row.error);
      }
    }
    return {};
  }

  const runs::Source& source_;
  const HeatMapWish& wish_;
  HeatMaps made_;
  std::map<int64_t, size_t> row_of_;
  std::array<std::vector<float>, kMaps> cells_;
};

}  // namespace

Result<HeatMaps> ReadHeatMaps(const runs::Source& source, const HeatMapWish& wish) {
  return Reading(source, wish).Run();
}

}  // namespace mpnanny::pictures
