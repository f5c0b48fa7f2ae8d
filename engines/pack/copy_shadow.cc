#include "engines/pack/copy_shadow.h"

#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "engines/pack/redaction.h"

namespace mpnanny::pack {
namespace {

class ShadowCopy {
 public:
  ShadowCopy(const runs::Source& source, const CopyOptions& options, const LayerIds& layers,
             const NewDatabase& into)
      : database_(*source.database),
        run_(*source.run.handle.run_id),
        options_(options),
        layers_(layers),
        into_(into) {}

  Result<void> CopySteps() {
    MPN_TRY_ASSIGN(auto rows,
                   Rows("shadow_step", {"step", "why", "seconds", "plain_seconds", "operators",
                                        "compared", "restarted", "memory", "detail"}));
    MPN_TRY_ASSIGN(auto step,
                   into_.Into("shadow_step",
                              "run_id, step, why, seconds, plain_seconds, operators, compared, "
                              "restarted, memory, detail"));
    while (rows) {
      MPN_TRY_ASSIGN(auto next, rows->Next());
      if (!next) break;
      const runs::Statement& row = *rows;
      step.Add(options_.run_id).Add(row.IntOr(0, 0)).AddOrNull(row.TextOr(1));
      step.Add(row.Real(2)).Add(row.Real(3)).Add(row.Int(4)).Add(row.Int(5)).Add(row.Int(6));
      step.Add(row.Int(7)).AddOrNull(JsonOf(row.TextOr(8)));
      if (auto done = step.Insert(); !done) return done;
    }
    return {};
  }

  Result<void> CopyFindings(FindingIds& findings, Copied& copied) {
    MPN_TRY_ASSIGN(
        auto rows,
        Rows("shadow_finding",
             {"finding_id", "step",      "last_step", "repeats", "kind",  "severity", "phase",
              "layer_id",   "operator",  "source",    "dtype",   "shape", "share",    "magnitude",
              "error_in",   "error_out", "precision", "reach",   "cure",  "detail"}));
    MPN_TRY_ASSIGN(
        auto finding,
        into_.Into("shadow_finding",
                   "finding_id, run_id, step, last_step, repeats, kind, severity, phase, layer_id, "
                   "operator, source, dtype, shape, share, magnitude, error_in, error_out, "
                   "precision, reach, cure, detail"));
    while (rows) {
      MPN_TRY_ASSIGN(auto next, rows->Next());
      if (!next) break;
      const runs::Statement& row = *rows;
      const int64_t id = options_.first_finding + copied.findings++;
      findings[row.IntOr(0, 0)] = id;
      const std::string op = row.TextOr(8), source = row.TextOr(9);
      finding.Add(id).Add(options_.run_id).Add(row.IntOr(1, 0)).Add(row.Int(2));
      finding.Add(row.IntOr(3, 1)).Add(row.TextOr(4)).Add(row.TextOr(5)).AddOrNull(row.TextOr(6));
      finding.Add(LayerOf(row.Int(7))).Add(redact() ? RedactedOperator(op) : op);
      finding.AddOrNull(redact() ? RedactedSource(source) : source);
      finding.AddOrNull(row.TextOr(10)).AddOrNull(row.TextOr(11));
      for (int column = 12; column < 16; ++column) finding.Add(row.Real(column));
      finding.Add(row.TextOr(16));
      for (int column = 17; column < 20; ++column) finding.AddOrNull(JsonOf(row.TextOr(column)));
      if (auto done = finding.Insert(); !done) return done;
    }
    return {};
  }

  Result<void> CopyProfiles(Copied& copied) {
    MPN_TRY_ASSIGN(auto rows, Rows("shadow_profile",
                                   {"step", "layer_id", "phase", "dtype", "operators", "error",
                                    "amplification", "absmax", "rms", "fp16", "bf16", "e4m3",
                                    "e5m2", "fp16_overflow", "fp16_underflow"}));
    MPN_TRY_ASSIGN(
        auto profile,
        into_.Into("shadow_profile",
                   "run_id, step, layer_id, phase, dtype, operators, error, amplification, absmax, "
                   "rms, fp16, bf16, e4m3, e5m2, fp16_overflow, fp16_underflow"));
    for (int64_t n = 1; rows; ++n) {
      MPN_TRY_ASSIGN(auto next, rows->Next());
      if (!next) break;
      const runs::Statement& row = *rows;
      const auto layer = LayerOf(row.Int(1));
      if (!layer) continue;  // of no layer: nothing could name it
      profile.Add(options_.run_id).Add(row.IntOr(0, 0)).Add(layer).Add(row.IntOr(2, 0));
      profile.Add(row.Int(3)).Add(row.Int(4));
      for (int column = 5; column < 15; ++column) profile.Add(row.Real(column));
      if (auto done = profile.Insert(); !done) return done;
      if (n % kRowsPerLook == 0 && options_.max_bytes > 0 && into_.Bytes() > options_.max_bytes) {
        copied.too_large = true;
        break;
      }
    }
    return {};
  }

 private:
  static constexpr int64_t kRowsPerLook = 10'000;

  bool redact() const { return options_.redact; }
  std::string JsonOf(const std::string& json) const { return redact() ? RedactedJson(json) : json; }

  std::optional<int64_t> LayerOf(const std::optional<int64_t>& id) const {
    const auto found = id ? layers_.find(*id) : layers_.end();
    return found == layers_.end() ? std::nullopt : std::optional(found->second);
  }

  // The run's rows of a table, in the order of its key; nullopt where the file has no such table.
  Result<std::optional<runs::Statement>> Rows(std::string_view table,
                                              std::initializer_list<std::string_view> columns) {
    if (!database_.HasColumn(table, "run_id")) return std::optional<runs::Statement>();
    auto rows = database_.Prepare("SELECT " + database_.ColumnsOrNull(table, columns) + " FROM " +
                                  std::string(table) + " WHERE run_id=?1 ORDER BY 1");
    if (!rows) return rows.error();
    rows->Bind(1, run_);
    return std::optional(*std::move(rows));
  }

  const runs::Database& database_;
  const int64_t run_;
  const CopyOptions& options_;
  const LayerIds& layers_;
  const NewDatabase& into_;
};

}  // namespace

Result<void> CopyShadow(const runs::Source& source, const CopyOptions& options,
                        const LayerIds& layers, const NewDatabase& into, FindingIds& findings,
                        Copied& copied) {
  ShadowCopy copy(source, options, layers, into);
  if (auto done = copy.CopySteps(); !done) return done;
  if (auto done = copy.CopyFindings(findings, copied); !done) return done;
  return copy.CopyProfiles(copied);
}

std::string AlertDetail(const std::string& detail, const FindingIds& findings, bool redact) {
  auto parsed = detail.empty() ? Result<Json>(Json()) : ParseJson(detail);
  if (!parsed || !parsed->is_object()) return redact ? "" : detail;
  if (const auto id = parsed->find("finding"); id != parsed->end()) {
    const auto found = id->is_number_integer() ? findings.find(id->get<int64_t>()) : findings.end();
    *id = found == findings.end() ? Json() : Json(found->second);
  }
  const std::string text = DumpJson(*parsed);
  return redact ? RedactedJson(text) : text;
}

}  // namespace mpnanny::pack
