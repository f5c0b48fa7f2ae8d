#include "engines/pack/copy_ranks.h"

#include <optional>
#include <string>

#include "engines/pack/redaction.h"

namespace mpnanny::pack {
namespace {

constexpr int64_t kRowsPerLook = 10'000;

std::optional<int64_t> Find(const LayerIds& layers, const std::optional<int64_t>& id) {
  const auto found = id ? layers.find(*id) : layers.end();
  return found == layers.end() ? std::nullopt : std::optional(found->second);
}

Result<void> CopyCollectives(const runs::Source& source, const CopyOptions& options,
                             const LayerIds& layers, const NewDatabase& into) {
  MPN_TRY_ASSIGN(
      auto rows,
      source.database->Prepare(
          "SELECT step, sequence, layer_id, operation, reduction, ranks, source, phase, gradient, "
          "numel, nonfinite_in, nonfinite_out, hash_in, hash_out, l2_in, l2_out, value_in, "
          "value_out, kept FROM collective WHERE run_id=?1 ORDER BY step, sequence"));
  rows.Bind(1, *source.run.handle.run_id);
  MPN_TRY_ASSIGN(
      auto call,
      into.Into("collective",
                "run_id, step, sequence, layer_id, operation, reduction, ranks, source, "
                "phase, gradient, numel, nonfinite_in, nonfinite_out, hash_in, hash_out, "
                "l2_in, l2_out, value_in, value_out, kept"));
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    call.Add(options.run_id).Add(rows.IntOr(0, 0)).Add(rows.IntOr(1, 0));
    call.Add(Find(layers, rows.Int(2))).Add(rows.TextOr(3)).AddOrNull(rows.TextOr(4));
    const std::string place = rows.TextOr(6);
    call.AddOrNull(rows.TextOr(5)).AddOrNull(options.redact ? RedactedSource(place) : place);
    call.AddOrNull(rows.TextOr(7));
    for (int column = 8; column < 14; ++column) call.Add(rows.Int(column));
    for (int column = 14; column < 19; ++column) call.Add(rows.Real(column));
    if (auto done = call.Insert(); !done) return done;
  }
}

}  // namespace

Result<void> CopyRanks(const runs::Source& source, const CopyOptions& options,
                       const LayerIds& layers, const NewDatabase& into, Copied& copied) {
  if (!source.database->HasColumn("rank_figures", "hash")) return {};
  if (auto done = CopyCollectives(source, options, layers, into); !done) return done;
  MPN_TRY_ASSIGN(auto rows,
                 source.database->Prepare("SELECT step, layer_id, what, holders, first, numel, "
                                          "nonfinite, hash, l2, sketch_a, sketch_b FROM "
                                          "rank_figures WHERE run_id=?1 ORDER BY step, layer_id"));
  rows.Bind(1, *source.run.handle.run_id);
  MPN_TRY_ASSIGN(auto figure,
                 into.Into("rank_figures",
                           "run_id, step, layer_id, what, holders, first, numel, nonfinite, hash, "
                           "l2, sketch_a, sketch_b"));
  for (int64_t n = 1;; ++n) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    const auto layer = Find(layers, rows.Int(1));
    if (!layer) continue;
    figure.Add(options.run_id).Add(rows.IntOr(0, 0)).Add(layer).Add(rows.IntOr(2, 0));
    figure.AddOrNull(rows.TextOr(3));
    for (int column = 4; column < 8; ++column) figure.Add(rows.Int(column));
    for (int column = 8; column < 11; ++column) figure.Add(rows.Real(column));
    if (auto done = figure.Insert(); !done) return done;
    if (n % kRowsPerLook == 0 && options.max_bytes > 0 && into.Bytes() > options.max_bytes) {
      copied.too_large = true;
      return {};
    }
  }
}

}  // namespace mpnanny::pack
