// Alerts and the findings of shadow steps, as rows of the run database.
#include <sqlite3.h>

#include "monitor/core/binder.h"
#include "monitor/core/database.h"

namespace mpnanny {

std::string RunDatabase::DetailOf(const AlertRow& row) const {
  if (!row.finding) return row.detail;
  const auto id = finding_ids_.find(*row.finding);
  const std::string rest = row.detail.size() > 2 ? "," + row.detail.substr(1) : "}";
  return "{\"finding\":" + (id != finding_ids_.end() ? std::to_string(id->second) : "null") + rest;
}

Result<void> RunDatabase::Insert(const AlertRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared("INSERT INTO alert (run_id, step, phase, layer_id, kind, type, severity, value, "
               "threshold, producer, repeats, last_step, message, detail) VALUES (?, ?, ?, ?, ?, "
               "?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  Binder bind(insert);
  bind.Add(run_id_).Add(row.step).OrNull(row.phase);
  row.layer ? bind.Add(LayerId(*row.layer)) : bind.Null();
  row.kind ? bind.Add(static_cast<int64_t>(*row.kind)) : bind.Null();
  bind.Add(NameOf(row.type)).Add(NameOf(row.severity)).Add(row.value).Add(row.threshold);
  row.producer ? bind.Add(static_cast<int64_t>(*row.producer)) : bind.Null();
  bind.Add(row.repeats).Add(row.last_step).Add(row.message).OrNull(DetailOf(row));
  if (auto done = Step(insert); !done) return done;
  alert_ids_[row.id] = sqlite3_last_insert_rowid(connection_.get());
  return {};
}

Result<void> RunDatabase::Update(const AlertRow& row) {
  const auto known = alert_ids_.find(row.id);
  if (known == alert_ids_.end()) return {};
  MPN_TRY_ASSIGN(
      auto update,
      Prepared(
          "UPDATE alert SET repeats = ?, last_step = ?, message = ?, layer_id = ?, producer = ?, "
          "severity = ?, value = ?, detail = ? WHERE alert_id = ?"));
  Binder bind(update);
  bind.Add(row.repeats).Add(row.last_step).Add(row.message);
  row.layer ? bind.Add(LayerId(*row.layer)) : bind.Null();
  row.producer ? bind.Add(static_cast<int64_t>(*row.producer)) : bind.Null();
  bind.Add(NameOf(row.severity)).Add(row.value).OrNull(DetailOf(row)).Add(known->second);
  return Step(update);
}

Result<void> RunDatabase::Insert(const ShadowStepRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared("INSERT OR REPLACE INTO shadow_step (run_id, step, why, seconds, plain_seconds, "
               "operators, compared, restarted, memory, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
               "?)"));
  Binder(insert)
      .Add(run_id_)
      .Add(row.step)
      .OrNull(row.why)
      .Add(row.seconds)
      .Add(row.plain_seconds)
      .Add(row.operators)
      .Add(row.compared)
      .Add(row.restarted)
      .Add(row.memory)
      .OrNull(row.detail);
  return Step(insert);
}

Result<void> RunDatabase::Insert(const ShadowFindingRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared(
          "INSERT INTO shadow_finding (run_id, step, last_step, repeats, kind, severity, phase, "
          "layer_id, operator, source, dtype, shape, share, magnitude, error_in, error_out, "
          "precision, reach, cure, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
          "?, ?, ?, ?)"));
  Binder bind(insert);
  bind.Add(run_id_).Add(row.step).Add(row.last_step).Add(row.repeats).Add(row.kind.text());
  bind.Add(row.severity.text()).OrNull(row.phase);
  row.layer ? bind.Add(LayerId(*row.layer)) : bind.Null();
  bind.Add(row.op).OrNull(row.source).OrNull(row.dtype).OrNull(row.shape);
  bind.Add(row.share).Add(row.magnitude).Add(row.error_in).Add(row.error_out).Add(row.proof.text());
  bind.OrNull(row.reach).OrNull(row.cure).OrNull(row.detail);
  if (auto done = Step(insert); !done) return done;
  finding_ids_[row.id] = sqlite3_last_insert_rowid(connection_.get());
  return {};
}

Result<void> RunDatabase::Update(const ShadowFindingRow& row) {
  const auto known = finding_ids_.find(row.id);
  if (known == finding_ids_.end()) return {};
  MPN_TRY_ASSIGN(auto update, Prepared("UPDATE shadow_finding SET last_step = ?, repeats = ?, "
                                       "severity = ?, dtype = ?, shape = ?, "
                                       "share = ?, magnitude = ?, error_in = ?, error_out = ?, "
                                       "precision = ?, reach = ?, cure = ?, "
                                       "detail = ? WHERE finding_id = ?"));
  Binder bind(update);
  bind.Add(row.last_step)
      .Add(row.repeats)
      .Add(row.severity.text())
      .OrNull(row.dtype)
      .OrNull(row.shape);
  bind.Add(row.share).Add(row.magnitude).Add(row.error_in).Add(row.error_out).Add(row.proof.text());
  bind.OrNull(row.reach).OrNull(row.cure).OrNull(row.detail).Add(known->second);
  return Step(update);
}

Result<void> RunDatabase::Insert(const ShadowProfileRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared(
          "INSERT OR REPLACE INTO shadow_profile (run_id, step, layer_id, phase, dtype, operators, "
          "error, amplification, absmax, rms, fp16, bf16, e4m3, e5m2, fp16_overflow, "
          "fp16_underflow) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  Binder(insert)
      .Add(run_id_)
      .Add(row.step)
      .Add(LayerId(row.layer))
      .Add(row.phase)
      .Add(row.dtype)
      .Add(row.operators)
      .Add(row.error)
      .Add(row.amplification)
      .Add(row.absmax)
      .Add(row.rms)
      .Add(row.fp16)
      .Add(row.bf16)
      .Add(row.e4m3)
      .Add(row.e5m2)
      .Add(row.fp16_overflow)
      .Add(row.fp16_underflow);
  return Step(insert);
}

}  // namespace mpnanny
