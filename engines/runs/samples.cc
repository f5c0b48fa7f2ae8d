#include "engines/runs/samples.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/text.h"
#include "engines/runs/parts.h"
#include "engines/runs/rank_layers.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kMaxSampleRows = 200'000;
constexpr size_t kMaxLayersKept = 20'000;
constexpr size_t kNameBytes = 2000;

// The columns that a question may leave out, in the table's order.
struct Column {
  std::string_view name;
  std::optional<double> TensorRow::*real;
  std::optional<int64_t> TensorRow::*count;
};
constexpr Column kColumns[] = {{"min", &TensorRow::min, nullptr},
                               {"max", &TensorRow::max, nullptr},
                               {"absmax", &TensorRow::absmax, nullptr},
                               {"absmin", &TensorRow::absmin, nullptr},
                               {"mean", &TensorRow::mean, nullptr},
                               {"std", &TensorRow::std, nullptr},
                               {"rms", &TensorRow::rms, nullptr},
                               {"l2", &TensorRow::l2, nullptr},
                               {"below_fp16", nullptr, &TensorRow::below_fp16},
                               {"subnormal_fp16", nullptr, &TensorRow::subnormal_fp16},
                               {"above_fp16", nullptr, &TensorRow::above_fp16},
                               {"frozen", nullptr, &TensorRow::frozen}};

auto KeyOf(const TensorRow& row) { return std::make_tuple(row.layer_id, row.kind, row.slot); }

TensorRow RowFromRing(const RingSample& slot) {
  TensorRow t;
  t.step = slot.step;
  t.layer_id = slot.layer_id;
  t.kind = slot.kind;
  t.slot = slot.slot;
  t.dtype = slot.dtype;
  t.numel = slot.numel;
  t.nan = slot.nan;
  t.posinf = slot.posinf;
  t.neginf = slot.neginf;
  t.zeros = slot.zeros;
  if (slot.has_finite) {
    t.min = slot.min;
    t.max = slot.max;
    t.absmax = slot.absmax;
    t.absmin = slot.absmin;
    t.mean = slot.mean;
    t.std = slot.std;
    t.rms = slot.rms;
    t.l2 = slot.l2;
  }
  t.below_fp16 = slot.below_fp16;
  t.subnormal_fp16 = slot.subnormal_fp16;
  t.above_fp16 = slot.above_fp16;
  return t;
}

// Rows of the ring that the database lacks join; where both have a row, the database's is kept (it
// has `frozen`).
void MergeRing(const Source& source, int64_t step, std::optional<int64_t> layer,
               std::optional<int64_t> kind, std::vector<TensorRow>& rows) {
  const auto& samples = source.ring.samples;
  auto slot = std::lower_bound(samples.begin(), samples.end(), step,
                               [](const RingSample& s, int64_t wanted) { return s.step < wanted; });
  const size_t from_database = rows.size();
  for (; slot != samples.end() && slot->step == step; ++slot) {
    if ((layer && slot->layer_id != *layer) || (kind && slot->kind != *kind)) continue;
    TensorRow row = RowFromRing(*slot);
    const bool known = std::binary_search(
        rows.begin(), rows.begin() + static_cast<ptrdiff_t>(from_database), row,
        [](const TensorRow& a, const TensorRow& b) { return KeyOf(a) < KeyOf(b); });
    if (!known) rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(),
            [](const TensorRow& a, const TensorRow& b) { return KeyOf(a) < KeyOf(b); });
}

}  // namespace

std::string SampleColumns(const std::vector<std::string_view>& columns, std::vector<int>& places) {
  std::string list = "layer_id, kind, slot, dtype, numel, nan, posinf, neginf, zeros";
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    const std::string_view name = kColumns[i].name;
    if (!columns.empty() && std::find(columns.begin(), columns.end(), name) == columns.end()) {
      continue;
    }
    places.push_back(static_cast<int>(i));
    list += ", " + std::string(name);
  }
  return list;
}

TensorRow SampleRow(const Statement& row, int64_t step, const std::vector<int>& columns) {
  TensorRow t;
  t.step = step;
  t.layer_id = row.IntOr(0, 0);
  t.kind = row.IntOr(1, 0);
  t.slot = row.IntOr(2, 0);
  t.dtype = row.Int(3);
  t.numel = row.Int(4);
  int64_t* const counts[] = {&t.nan, &t.posinf, &t.neginf, &t.zeros};
  for (int i = 0; i < 4; ++i) {
    const std::optional<int64_t> count = row.Int(5 + i);
    *counts[i] = count.value_or(0);
    if (!count) t.missing_counts |= 1U << i;
  }
  int at = 9;
  for (const int column : columns) {
    const Column& c = kColumns[column];
    if (c.real) t.*c.real = row.Real(at);
    if (c.count) t.*c.count = row.Int(at);
    ++at;
  }
  return t;
}

std::string KindName(std::optional<int64_t> kind) {
  constexpr const char* kNames[] = {"input",  "activation", "activation_gradient", "gradient",
                                    "weight", "update",     "optimizer_state"};
  return kind && *kind >= 0 && *kind < 7 ? kNames[*kind] : "tensor";
}

SampleReader::SampleReader(const Source& source, std::vector<int> columns, Statement sample,
                           Statement layer, Statement step_from)
    : source_(&source),
      columns_(std::move(columns)),
      sample_(std::move(sample)),
      layer_(std::move(layer)),
      step_from_(std::move(step_from)) {}

Result<SampleReader> SampleReader::Create(const Source& source,
                                          const std::vector<std::string_view>& columns) {
  std::vector<int> places;
  const std::string select = "SELECT " + SampleColumns(columns, places) +
                             " FROM tensor_stats WHERE run_id=?1 AND step=?2 ";
  auto sample = source.database->Prepare(select + "ORDER BY layer_id, kind, slot");
  if (!sample) return sample.error();
  auto layer = source.database->Prepare(select + "AND layer_id=?3 ORDER BY kind, slot");
  if (!layer) return layer.error();
  auto step_from = source.database->Prepare(
      "SELECT step FROM tensor_stats WHERE run_id=?1 AND step>=?2 ORDER BY step LIMIT 1");
  if (!step_from) return step_from.error();
  for (Statement* statement : {&*sample, &*layer, &*step_from}) {
    statement->Bind(1, *source.run.handle.run_id);
  }
  return SampleReader(source, std::move(places), *std::move(sample), *std::move(layer),
                      *std::move(step_from));
}

Result<const std::vector<TensorRow>*> SampleReader::Sample(int64_t step) {
  sample_.Bind(2, step);
  return Collect(sample_, step, std::nullopt);
}

Result<const std::vector<TensorRow>*> SampleReader::Layer(int64_t step, int64_t layer_id) {
  layer_.Bind(2, step).Bind(3, layer_id);
  return Collect(layer_, step, layer_id);
}

Result<const std::vector<TensorRow>*> SampleReader::Collect(Statement& statement, int64_t step,
                                                            std::optional<int64_t> layer) {
  rows_.clear();
  while (true) {
    MPN_TRY_ASSIGN(auto next, statement.Next());
    if (!next) break;
    if (rows_.size() >= kMaxSampleRows) {
      return DataCorrupt("One sampled step holds more than " + std::to_string(kMaxSampleRows) +
                         " rows of statistics.");
    }
    rows_.push_back(SampleRow(statement, step, columns_));
  }
  statement.Reset();
  MergeRing(*source_, step, layer, std::nullopt, rows_);
  return &rows_;
}

Result<std::optional<int64_t>> SampleReader::StepFrom(int64_t step) {
  step_from_.Bind(2, step);
  MPN_TRY_ASSIGN(auto row, step_from_.Next());
  std::optional<int64_t> found;
  if (row) found = step_from_.Int(0);
  step_from_.Reset();
  const auto& samples = source_->ring.samples;
  const auto slot =
      std::lower_bound(samples.begin(), samples.end(), step,
                       [](const RingSample& s, int64_t wanted) { return s.step < wanted; });
  if (slot != samples.end() && (!found || slot->step < *found)) found = slot->step;
  return found;
}

Result<std::vector<TensorRow>> ReadSample(const Source& source, int64_t step) {
  MPN_TRY_ASSIGN(auto reader, SampleReader::Create(source));
  MPN_TRY_ASSIGN(auto rows, reader.Sample(step));
  return *rows;
}

Result<std::optional<Exponents>> ReadExponents(const Source& source, const TensorRow& row) {
  MPN_TRY_ASSIGN(auto statement,
                 source.database->Prepare(
                     "SELECT exponents FROM tensor_stats "
                     "WHERE run_id=?1 AND step=?2 AND layer_id=?3 AND kind=?4 AND slot=?5"));
  statement.Bind(1, *source.run.handle.run_id).Bind(2, row.step).Bind(3, row.layer_id);
  statement.Bind(4, row.kind).Bind(5, row.slot);
  MPN_TRY_ASSIGN(auto found, statement.Next());
  const std::optional<std::string> bytes = found ? statement.Blob(0) : std::nullopt;
  if (!bytes) return std::optional<Exponents>();
  Exponents counts{};
  size_t at = 0;
  for (int64_t& count : counts) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (at == bytes->size() || shift > 56) {
        return DataCorrupt("The exponents of layer " + std::to_string(row.layer_id) + " at step " +
                               std::to_string(row.step) + " are damaged.",
                           "Ask for another step.");
      }
      const auto byte = static_cast<unsigned char>((*bytes)[at++]);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    count = static_cast<int64_t>(value);
  }
  return std::optional(counts);
}

Result<std::vector<int64_t>> LastSampledSteps(const Source& source, const StepRange& range,
                                              size_t most) {
  MPN_TRY_ASSIGN(auto statement,
                 source.database->Prepare(
                     "SELECT step FROM tensor_stats WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 "
                     "ORDER BY step DESC LIMIT 1"));
  std::vector<int64_t> steps;
  int64_t last = range.last;
  while (steps.size() < most) {
    statement.Bind(1, *source.run.handle.run_id).Bind(2, range.first).Bind(3, last);
    MPN_TRY_ASSIGN(auto row, statement.Next());
    if (!row) break;
    const int64_t step = statement.IntOr(0, range.first);
    statement.Reset();
    steps.push_back(step);
    if (step <= range.first) break;
    last = step - 1;
  }
  for (const RingSample& slot : source.ring.samples) {
    if (slot.step >= range.first && slot.step <= range.last) steps.push_back(slot.step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  if (steps.size() > most) steps.erase(steps.begin(), steps.end() - static_cast<ptrdiff_t>(most));
  return steps;
}

namespace {

constexpr std::string_view kLayerColumns =
    "SELECT layer_id, name, type, source, position, numel FROM layer ";

Layer LayerOf(const Statement& row) {
  Layer layer;
  layer.layer_id = row.IntOr(0, 0);
  layer.name = row.TextOr(1).substr(0, kNameBytes);
  layer.type = row.TextOr(2).substr(0, kNameBytes);
  layer.source = row.TextOr(3).substr(0, kNameBytes);
  layer.position = row.Int(4);
  layer.numel = row.Int(5);
  return layer;
}

}  // namespace

Result<Layer> Layers::Find(int64_t layer_id) {
  if (const auto it = known_.find(layer_id); it != known_.end()) return it->second;
  const auto elsewhere = RankLayers::Elsewhere(source_, layer_id);
  const OtherRank* const other = elsewhere ? &source_.others[elsewhere->first] : nullptr;
  MPN_TRY_ASSIGN(auto statement,
                 (other ? other->database : source_.database)
                     ->Prepare(std::string(kLayerColumns) + "WHERE layer_id=?1 AND run_id=?2"));
  statement.Bind(1, elsewhere ? elsewhere->second : layer_id)
      .Bind(2, *(other ? other->run : source_.run).handle.run_id);
  MPN_TRY_ASSIGN(auto row, statement.Next());
  Layer layer;
  layer.layer_id = layer_id;
  layer.name = "layer " + std::to_string(layer_id);
  if (row) layer = LayerOf(statement);
  if (known_.size() < kMaxLayersKept) known_.emplace(layer_id, layer);
  return layer;
}

Result<std::vector<Layer>> Layers::All() const {
  MPN_TRY_ASSIGN(auto statement, source_.database->Prepare(std::string(kLayerColumns) +
                                                           "WHERE run_id=?1 ORDER BY layer_id"));
  statement.Bind(1, *source_.run.handle.run_id);
  std::vector<Layer> layers;
  while (true) {
    MPN_TRY_ASSIGN(auto row, statement.Next());
    if (!row) return layers;
    if (layers.size() >= kMaxSampleRows) {
      return DataCorrupt("The run has more than " + std::to_string(kMaxSampleRows) + " layers.");
    }
    layers.push_back(LayerOf(statement));
  }
}

Result<int64_t> Layers::Count() {
  MPN_TRY_ASSIGN(auto statement,
                 source_.database->Prepare("SELECT count(*) FROM layer WHERE run_id=?1"));
  statement.Bind(1, *source_.run.handle.run_id);
  MPN_TRY_ASSIGN(auto row, statement.Next());
  return row ? statement.IntOr(0, 0) : 0;
}

namespace {

bool FitsOne(const std::vector<std::string>& globs, const std::string& name) {
  const std::string shown = EscapeControl(name);
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return MatchesGlob(glob, name) || MatchesGlob(glob, shown);
  });
}

}  // namespace

Result<std::vector<int64_t>> Layers::MatchingOfTraining(const std::vector<std::string>& globs) {
  MPN_TRY_ASSIGN(auto rows, source_.database->Prepare("SELECT DISTINCT name FROM layer"));
  std::vector<int64_t> ids;
  RankLayers ranks(source_);
  while (true) {
    MPN_TRY_ASSIGN(auto row, rows.Next());
    if (!row) break;
    if (!FitsOne(globs, rows.TextOr(0))) continue;
    MPN_TRY_ASSIGN(auto id, ranks.Named(rows.TextOr(0)));
    if (id) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<std::vector<int64_t>> Layers::Matching(const std::vector<std::string>& globs,
                                              bool all_ranks) {
  std::vector<int64_t> ids;
  RankLayers ranks(source_);
  if (all_ranks && LiesInOne(source_)) return MatchingOfTraining(globs);
  const size_t parts = all_ranks ? source_.others.size() + 1 : 1;
  for (size_t part = 0; part < parts; ++part) {
    const OtherRank* const other = part > 0 ? &source_.others[part - 1] : nullptr;
    MPN_TRY_ASSIGN(auto statement,
                   (other ? other->database : source_.database)
                       ->Prepare("SELECT layer_id, name FROM layer WHERE run_id=?1"));
    statement.Bind(1, *(other ? other->run : source_.run).handle.run_id);
    while (true) {
      MPN_TRY_ASSIGN(auto row, statement.Next());
      if (!row) break;
      if (!FitsOne(globs, statement.TextOr(1))) continue;
      const int64_t id = statement.IntOr(0, 0);
      MPN_TRY_ASSIGN(auto mapped, other ? ranks.Map(part - 1, id) : Result<int64_t>(id));
      ids.push_back(mapped);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<std::string> StateName(const Source& source, int64_t slot) {
  MPN_TRY_ASSIGN(auto row,
                 source.database->Prepare("SELECT substr(text, 1, 120) FROM meaning WHERE "
                                          "what='optimizer_state.slot' AND value=?1"));
  row.Bind(1, std::to_string(slot));
  MPN_TRY_ASSIGN(auto next, row.Next());
  return next ? row.TextOr(0) : std::string("not known");
}

Result<std::map<int64_t, std::string>> ReadDtypeNames(const Source& source) {
  MPN_TRY_ASSIGN(auto statement,
                 source.database->Prepare(
                     "SELECT value, text FROM meaning WHERE what='tensor_stats.dtype' LIMIT 1000"));
  std::map<int64_t, std::string> names;
  while (true) {
    MPN_TRY_ASSIGN(auto row, statement.Next());
    if (!row) return names;
    const std::string value = statement.TextOr(0);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc()) names[number] = EscapeControl(statement.TextOr(1), 40);
  }
}

}  // namespace mpnanny::runs
