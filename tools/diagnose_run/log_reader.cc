#include "tools/diagnose_run/log_reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/text.h"
#include "tools/diagnose_run/log_line.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr size_t kMaxLineBytes = 20'000;
constexpr size_t kMaxRows = 1'000'000;
constexpr size_t kHitLineBytes = 400;

std::string PrecisionOf(const std::string& lower) {
  for (const char* key :
       {"dtype", "precision", "fp16: true", "fp16=true", "bf16: true", "bf16=true"}) {
    const size_t at = lower.find(key);
    if (at == std::string::npos) continue;
    const std::string around = lower.substr(at, 40);
    if (around.find("bf16") != std::string::npos || around.find("bfloat16") != std::string::npos)
      return "bf16";
    if (around.find("fp16") != std::string::npos || around.find("float16") != std::string::npos)
      return "fp16";
    if (around.find("fp32") != std::string::npos || around.find("float32") != std::string::npos)
      return "fp32";
  }
  return "";
}

void SetFlags(std::vector<runs::StepRow>& rows) {
  for (runs::StepRow& row : rows) {
    if (row.loss && std::isnan(*row.loss)) row.flags |= runs::kLossNan;
    if (row.loss && std::isinf(*row.loss)) row.flags |= runs::kLossInf;
    if (row.grad_norm && !std::isfinite(*row.grad_norm)) row.flags |= runs::kGradNonFinite;
  }
}

bool IsCount(const std::optional<double>& step) {
  return step && std::isfinite(*step) && std::fabs(*step) < 9e15;
}

// Puts the figures of lines into rows of steps.
class Rows {
 public:
  size_t size() const { return by_step_.size(); }
  void Add(const Figures& figures);
  void Finish(LogRows& log);

 private:
  int64_t Place(const Figures& figures);
  // A counter that begins anew with each epoch goes on where the last one ended.
  int64_t PlaceStep(int64_t step, const Figures& figures);
  int64_t Last() const { return by_step_.rbegin()->first; }

  std::map<int64_t, runs::StepRow> by_step_;
  std::optional<int64_t> announced_;  // a step number that stood alone in its line
  std::optional<int64_t> last_loss_;  // the row of the last line with a step and a loss
  int64_t stride_ = 1, offset_ = 0;
  std::optional<double> epoch_, loss_epoch_;
  bool any_step_ = false, restarted_ = false;
};

void Rows::Add(const Figures& figures) {
  if (figures.epoch) epoch_ = figures.epoch;
  if (!figures.Any()) {
    if (IsCount(figures.step)) {
      announced_ = static_cast<int64_t>(*figures.step);
      any_step_ = true;
    }
    return;
  }
  runs::StepRow& row = by_step_[Place(figures)];
  // Of several losses for one step (one a rank) a bad one is kept.
  if (figures.loss && !(row.loss && !std::isfinite(*row.loss))) row.loss = figures.loss;
  if (figures.bad_part) {
    row.flags |= std::isnan(*figures.bad_part) ? runs::kLossNan : runs::kLossInf;
  }
  if (figures.grad_norm) row.grad_norm = figures.grad_norm;
  if (figures.scale) row.loss_scale = figures.scale;
  if (figures.lr) row.lr = figures.lr;
  if (figures.skipping) row.flags |= runs::kSkipped | runs::kGradNonFinite;
}

int64_t Rows::Place(const Figures& figures) {
  if (IsCount(figures.step)) {
    any_step_ = true;
    return PlaceStep(static_cast<int64_t>(*figures.step), figures);
  }
  if (by_step_.empty()) return announced_.value_or(0);
  if (announced_ && *announced_ + offset_ > Last()) return *announced_ + offset_;
  const runs::StepRow& last = by_step_.rbegin()->second;
  const bool next =
      figures.loss || (figures.skipping && (last.loss || last.flags & runs::kSkipped));
  return Last() + (next ? 1 : 0);
}

int64_t Rows::PlaceStep(int64_t step, const Figures& figures) {
  if (!figures.loss && !figures.grad_norm) return step + offset_;
  const bool other_epoch = epoch_ && loss_epoch_ && *epoch_ != *loss_epoch_;
  if (last_loss_ &&
      (step + offset_ < *last_loss_ || (step + offset_ == *last_loss_ && other_epoch))) {
    offset_ = Last() + stride_ - step;
    restarted_ = true;
  }
  const int64_t at = step + offset_;
  if (figures.loss) {
    if (last_loss_ && at > *last_loss_) stride_ = at - *last_loss_;
    last_loss_ = at;
    loss_epoch_ = epoch_;
  }
  return at;
}

void Rows::Finish(LogRows& log) {
  log.steps_counted = !any_step_;
  log.steps_restarted = restarted_;
  for (auto& [step, row] : by_step_) {
    row.step = step;
    log.steps.push_back(std::move(row));
  }
  SetFlags(log.steps);
}

// A pattern that mere figures of a line can fit ("loss scale* e-0" by a learning rate) tells of
// trouble only where the figures do.
bool FiguresAreFine(const Figures& figures) {
  return figures.loss && std::isfinite(*figures.loss) && !figures.bad_part &&
         (!figures.grad_norm || std::isfinite(*figures.grad_norm));
}

}  // namespace

Result<LogRows> ReadLog(std::string_view text, const cases::CaseLibrary& library,
                        const CancelToken& cancel) {
  LogRows log;
  std::vector<const cases::Signal*> signals;
  for (const cases::Case& entry : library.all()) {
    for (const cases::Signal& signal : entry.signals) {
      if (signal.kind == cases::Signal::Kind::kLog) signals.push_back(&signal);
    }
  }
  std::map<std::string, LogHit> hits;
  Rows rows;
  std::vector<Column> columns;
  for (size_t start = 0; start < text.size() && rows.size() < kMaxRows;) {
    const size_t end = std::min(text.find_first_of("\n\r", start), text.size());
    const std::string_view line = text.substr(start, std::min(end - start, kMaxLineBytes));
    start = end + 1;
    if (line.empty()) continue;
    if (++log.lines % 1024 == 0) {
      if (auto check = cancel.Check(); !check) return check.error();
    }
    if (columns.empty() && line.find(',') != std::string_view::npos) columns = ReadHeader(line);
    std::optional<Figures> cells;
    if (!columns.empty()) cells = ReadCells(line, columns);
    const Figures figures = cells && cells->Any() ? *cells : ReadFigures(line);
    for (const cases::Signal* signal : signals) {
      LogHit& hit = hits[signal->text];
      if ((!hit.line.empty() && hit.weight >= signal->weight && hit.telling) ||
          !cases::FitsLogLine(*signal, line)) {
        continue;
      }
      hit = {signal->text, signal->weight, std::string(line.substr(0, kHitLineBytes)),
             !FiguresAreFine(figures)};
    }
    if (log.precision.empty()) log.precision = PrecisionOf(LowerCase(line));
    if (figures.Any()) ++log.lines_used;
    rows.Add(figures);
  }
  rows.Finish(log);
  for (auto& [text_of, hit] : hits) {
    if (!hit.line.empty()) log.hits.push_back(std::move(hit));
  }
  return log;
}

}  // namespace mpnanny::diagnose_run
