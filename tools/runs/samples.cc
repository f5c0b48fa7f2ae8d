#include "tools/runs/samples.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/text.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kMaxSampleRows = 200'000;
constexpr size_t kMaxLayersKept = 20'000;
constexpr size_t kNameBytes = 2000;

constexpr std::string_view kColumns =
    "SELECT step, layer_id, kind, slot, dtype, numel, nan, posinf, neginf, zeros, min, max, absmax,"
    " absmin, mean, std, rms, l2, below_fp16, subnormal_fp16, above_fp16, frozen FROM "
    "tensor_stats ";

auto KeyOf(const TensorRow& row) { return std::make_tuple(row.layer_id, row.kind, row.slot); }

TensorRow FromDatabase(const Statement& row) {
  TensorRow t;
  t.step = row.IntOr(0, 0);
  t.layer_id = row.IntOr(1, 0);
  t.kind = row.IntOr(2, 0);
  t.slot = row.IntOr(3, 0);
  t.dtype = row.Int(4);
  t.numel = row.Int(5);
  t.nan = row.IntOr(6, 0);
  t.posinf = row.IntOr(7, 0);
  t.neginf = row.IntOr(8, 0);
  t.zeros = row.IntOr(9, 0);
  std::optional<double>* const reals[] = {&t.min,  &t.max, &t.absmax, &t.absmin,
                                          &t.mean, &t.std, &t.rms,    &t.l2};
  for (int i = 0; i < 8; ++i) *reals[i] = row.Real(10 + i);
  t.below_fp16 = row.Int(18);
  t.subnormal_fp16 = row.Int(19);
  t.above_fp16 = row.Int(20);
  t.frozen = row.Int(21);
  return t;
}

TensorRow FromRing(const RingSample& slot) {
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
    TensorRow row = FromRing(*slot);
    const bool known = std::binary_search(
        rows.begin(), rows.begin() + static_cast<ptrdiff_t>(from_database), row,
        [](const TensorRow& a, const TensorRow& b) { return KeyOf(a) < KeyOf(b); });
    if (!known) rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end(),
            [](const TensorRow& a, const TensorRow& b) { return KeyOf(a) < KeyOf(b); });
}

Result<std::vector<TensorRow>> Collect(Statement& statement) {
  std::vector<TensorRow> rows;
  while (true) {
    auto next = statement.Next();
    if (!next) return next.error();
    if (!*next) return rows;
    if (rows.size() >= kMaxSampleRows) {
      return DataCorrupt("One sampled step holds more than " + std::to_string(kMaxSampleRows) +
                         " rows of statistics.");
    }
    rows.push_back(FromDatabase(statement));
  }
}

}  // namespace

std::string KindName(std::optional<int64_t> kind) {
  constexpr const char* kNames[] = {"input",  "activation", "activation_gradient", "gradient",
                                    "weight", "update",     "optimizer_state"};
  return kind && *kind >= 0 && *kind < 7 ? kNames[*kind] : "tensor";
}

Result<std::vector<TensorRow>> ReadSample(const Source& source, int64_t step) {
  auto statement = source.database->Prepare(
      std::string(kColumns) + "WHERE run_id=?1 AND step=?2 ORDER BY layer_id, kind, slot");
  if (!statement) return statement.error();
  statement->Bind(1, *source.run.handle.run_id).Bind(2, step);
  auto rows = Collect(*statement);
  if (rows) MergeRing(source, step, std::nullopt, std::nullopt, *rows);
  return rows;
}

Result<std::vector<TensorRow>> ReadCell(const Source& source, int64_t step, int64_t layer_id,
                                        int64_t kind) {
  auto statement = source.database->Prepare(
      std::string(kColumns) +
      "WHERE run_id=?1 AND step=?2 AND layer_id=?3 AND kind=?4 ORDER BY slot");
  if (!statement) return statement.error();
  statement->Bind(1, *source.run.handle.run_id).Bind(2, step).Bind(3, layer_id).Bind(4, kind);
  auto rows = Collect(*statement);
  if (rows) MergeRing(source, step, layer_id, kind, *rows);
  return rows;
}

Result<std::vector<int64_t>> LastSampledSteps(const Source& source, const StepRange& range,
                                              size_t most) {
  auto statement = source.database->Prepare(
      "SELECT step FROM tensor_stats WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 "
      "ORDER BY step DESC LIMIT 1");
  if (!statement) return statement.error();
  std::vector<int64_t> steps;
  int64_t last = range.last;
  while (steps.size() < most) {
    statement->Bind(1, *source.run.handle.run_id).Bind(2, range.first).Bind(3, last);
    auto row = statement->Next();
    if (!row) return row.error();
    if (!*row) break;
    const int64_t step = statement->IntOr(0, range.first);
    statement->Reset();
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

Result<Layer> Layers::Find(int64_t layer_id) {
  if (const auto it = known_.find(layer_id); it != known_.end()) return it->second;
  auto statement = source_.database->Prepare(
      "SELECT layer_id, name, type, source, position, numel FROM layer "
      "WHERE layer_id=?1 AND run_id=?2");
  if (!statement) return statement.error();
  statement->Bind(1, layer_id).Bind(2, *source_.run.handle.run_id);
  auto row = statement->Next();
  if (!row) return row.error();
  Layer layer;
  layer.layer_id = layer_id;
  layer.name = "layer " + std::to_string(layer_id);
  if (*row) {
    layer.name = statement->TextOr(1).substr(0, kNameBytes);
    layer.type = statement->TextOr(2).substr(0, kNameBytes);
    layer.source = statement->TextOr(3).substr(0, kNameBytes);
    layer.position = statement->Int(4);
    layer.numel = statement->Int(5);
  }
  if (known_.size() < kMaxLayersKept) known_.emplace(layer_id, layer);
  return layer;
}

Result<int64_t> Layers::Count() {
  auto statement = source_.database->Prepare("SELECT count(*) FROM layer WHERE run_id=?1");
  if (!statement) return statement.error();
  statement->Bind(1, *source_.run.handle.run_id);
  auto row = statement->Next();
  if (!row) return row.error();
  return *row ? statement->IntOr(0, 0) : 0;
}

Result<std::vector<int64_t>> Layers::Matching(const std::vector<std::string>& globs) {
  auto statement = source_.database->Prepare("SELECT layer_id, name FROM layer WHERE run_id=?1");
  if (!statement) return statement.error();
  statement->Bind(1, *source_.run.handle.run_id);
  std::vector<int64_t> ids;
  while (true) {
    auto row = statement->Next();
    if (!row) return row.error();
    if (!*row) break;
    const std::string name = statement->TextOr(1);
    const std::string shown = EscapeControl(name);
    if (std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
          return MatchesGlob(glob, name) || MatchesGlob(glob, shown);
        })) {
      ids.push_back(statement->IntOr(0, 0));
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<std::map<int64_t, std::string>> ReadDtypeNames(const Source& source) {
  auto statement = source.database->Prepare(
      "SELECT value, text FROM meaning WHERE what='tensor_stats.dtype' LIMIT 1000");
  if (!statement) return statement.error();
  std::map<int64_t, std::string> names;
  while (true) {
    auto row = statement->Next();
    if (!row) return row.error();
    if (!*row) return names;
    const std::string value = statement->TextOr(0);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc()) names[number] = EscapeControl(statement->TextOr(1), 40);
  }
}

}  // namespace mpnanny::runs
