#include "tests/runs/shadow_recording.h"

#include <cstdio>

#include "base/json.h"

namespace mpnanny::test {
namespace {

std::string Sql(const std::string& text) {
  if (text.empty()) return "NULL";
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}
std::string Sql(const Real& value) {
  if (!value) return "NULL";
  char text[40];
  std::snprintf(text, sizeof(text), "%.17e", *value);
  return text;
}
std::string Sql(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "NULL";
}

std::string Upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

}  // namespace

void AddShadowStep(Recording& db, int64_t step, Real seconds, Real plain_seconds) {
  db.Execute(
      "INSERT INTO shadow_step (run_id, step, why, seconds, plain_seconds, operators,"
      " compared, restarted, memory, detail) VALUES (" +
      std::to_string(db.run()) + "," + std::to_string(step) + ",'schedule'," + Sql(seconds) + "," +
      Sql(plain_seconds) + ",200,150,2,1048576,NULL)");
}

int64_t AddFinding(Recording& db, int64_t step, const FindingSpec& f) {
  db.Execute(
      "INSERT INTO shadow_finding (run_id, step, last_step, repeats, kind, severity, phase,"
      " layer_id, operator, source, dtype, shape, share, magnitude, error_in, error_out, precision,"
      " reach, cure, detail) VALUES (" +
      std::to_string(db.run()) + "," + std::to_string(step) + "," +
      Sql(f.last_step ? f.last_step : std::optional<int64_t>(step)) + "," +
      std::to_string(f.repeats) + "," + Sql(f.kind) + "," + Sql(f.severity) + "," + Sql(f.phase) +
      "," + Sql(f.layer) + "," + Sql(f.op) + "," + Sql(f.source) + "," + Sql(f.dtype) + "," +
      Sql(f.shape) + "," + Sql(f.share) + "," + Sql(f.magnitude) + "," + Sql(f.error_in) + "," +
      Sql(f.error_out) + "," + Sql(f.precision) + "," + Sql(f.reach) + "," + Sql(f.cure) + "," +
      Sql(f.detail) + ")");
  return sqlite3_last_insert_rowid(db.handle());
}

void AddShadowAlert(Recording& db, int64_t step, const FindingSpec& f, int64_t finding_id) {
  db.Alert(step, {.type = "SHADOW_" + Upper(f.kind),
                  .severity = f.severity,
                  .phase = f.phase,
                  .layer = f.layer,
                  .message = "as the monitor says it"});
  Json detail = {{"finding", finding_id},
                 {"operator", f.op},
                 {"source", f.source},
                 {"precision", f.precision},
                 {"cure", f.cure.empty() ? Json(nullptr) : *ParseJson(f.cure)}};
  db.Execute("UPDATE alert SET detail=" + Sql(DumpJson(detail)) +
             " WHERE alert_id=(SELECT max(alert_id) FROM alert)");
}

void AddProfile(Recording& db, int64_t step, int64_t layer, int64_t phase, Real error, Real fp16) {
  db.Execute(
      "INSERT INTO shadow_profile (run_id, step, layer_id, phase, dtype, operators, error,"
      " amplification, absmax, rms, fp16, bf16, e4m3, e5m2, fp16_overflow, fp16_underflow)"
      " VALUES (" +
      std::to_string(db.run()) + "," + std::to_string(step) + "," + std::to_string(layer) + "," +
      std::to_string(phase) + ",3,12," + Sql(error) + ",2.5,10.0,1.0," + Sql(fp16) +
      ",0.002,0.03,0.06,0.0,0.125)");
}

}  // namespace mpnanny::test
