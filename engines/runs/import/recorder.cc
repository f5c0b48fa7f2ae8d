#include "engines/runs/import/recorder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "base/data_files.h"
#include "base/json.h"
#include "base/text.h"
#include "engines/runs/evaluations.h"
#include "engines/runs/import/scaled_norm.h"
#include "engines/runs/show.h"
#include "engines/runs/spoken_faults.h"
#include "engines/runs/steps.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedSchema();
}

namespace mpnanny::imports {
namespace {

constexpr int64_t kAttemptsKept = 20;

// One step's row; what is known already stays where the log says nothing more.
constexpr std::string_view kPut =
    "INSERT INTO step (run_id, step, at, loss, lr, loss_scale, grad_norm, flags, log_line,"
    " says_its_step) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, nullif(?8, 0), ?9)"
    " ON CONFLICT (run_id, step) DO UPDATE SET"
    " at = coalesce(excluded.at, at),"
    " loss = CASE WHEN loss IS NULL AND flags & 3 THEN NULL"
    "             WHEN excluded.loss IS NULL AND excluded.flags & 3 THEN NULL"
    "             ELSE coalesce(excluded.loss, loss) END,"
    " lr = coalesce(excluded.lr, lr), loss_scale = coalesce(excluded.loss_scale, loss_scale),"
    " grad_norm = coalesce(excluded.grad_norm, grad_norm), flags = flags | excluded.flags,"
    " log_line = coalesce(log_line, excluded.log_line)";

// The line of a step is that of its loss.
void MergeLine(StepFigures& into, const StepFigures& from) {
  const bool keeps_loss = into.bad_part || (into.loss && !std::isfinite(*into.loss));
  const bool has_loss = from.loss || from.bad_part;
  if (from.line == 0 || (into.line > 0 && (keeps_loss || !has_loss))) return;
  into.line = from.line;
  into.says_its_step = from.says_its_step;
}

void Merge(StepFigures& into, const StepFigures& from) {
  MergeLine(into, from);
  if (from.at) into.at = from.at;
  if (from.loss && !(into.loss && !std::isfinite(*into.loss))) into.loss = from.loss;
  if (from.bad_part) into.bad_part = from.bad_part;
  if (from.grad_norm) into.grad_norm = from.grad_norm;
  if (from.scale) into.scale = from.scale;
  if (from.lr) into.lr = from.lr;
  into.skipped = into.skipped || from.skipped;
}

int64_t FlagsOf(const StepFigures& figures) {
  int64_t flags = 0;
  for (const auto& loss : {figures.loss, figures.bad_part}) {
    if (loss && std::isnan(*loss)) flags |= runs::kLossNan;
    if (loss && std::isinf(*loss)) flags |= runs::kLossInf;
  }
  if (figures.grad_norm && !std::isfinite(*figures.grad_norm)) flags |= runs::kGradNonFinite;
  if (figures.skipped) flags |= runs::kSkipped | runs::kGradNonFinite;
  return flags;
}

std::optional<double> Finite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Error NoRoom(sqlite3* handle) {
  return Unavailable("The log could not be read into a temporary database (" +
                         std::string(handle ? sqlite3_errmsg(handle) : "no memory") + ").",
                     "It needs a folder for temporary files with room: set TMPDIR.");
}

// Most logs have a line every so many steps: what is the first bad one is known no better than
// that. Lines of skipped steps stand between.
void NoteSpacing(sqlite3* handle, std::vector<std::string>& notes) {
  constexpr size_t kEnough = 2, kMost = 10'000;
  Writer row(handle,
             "SELECT step FROM step WHERE run_id=1 AND (loss IS NOT NULL OR flags & 3) "
             "ORDER BY step");  // runs::kLossNan, kLossInf
  std::vector<int64_t> gaps;
  std::optional<int64_t> last;
  while (gaps.size() < kMost && row.NextRow()) {
    if (last) gaps.push_back(row.Int(0) - *last);
    last = row.Int(0);
  }
  if (gaps.size() < kEnough) return;
  std::sort(gaps.begin(), gaps.end());
  const int64_t every = gaps[gaps.size() / 2];
  const auto usual = std::count(gaps.begin(), gaps.end(), every);
  if (every < 2) return;
  if (2 * static_cast<size_t>(usual) > gaps.size()) {
    notes.push_back("It has a loss about every " + std::to_string(every) +
                    " steps: a first step is the first that was logged.");
  } else {
    notes.push_back("It has losses of some steps only, up to " + std::to_string(gaps.back()) +
                    " steps apart: a first step is the first that was logged.");
  }
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::Create(const CancelToken& cancel) {
  std::unique_ptr<Recorder> recorder(new Recorder(cancel));
  sqlite3* opened = nullptr;
  // The empty name is SQLite's private temporary database.
  const int code = sqlite3_open_v2(
      "", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  recorder->handle_.reset(opened);
  if (code != SQLITE_OK) return NoRoom(opened);
  const auto run = [&](const char* sql) {
    return sqlite3_exec(opened, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  if (!run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-4096;"
           "PRAGMA temp_store=1; BEGIN")) {
    return NoRoom(opened);
  }
  for (const EmbeddedFile& file : EmbeddedSchema()) {
    if (!run(std::string(file.text).c_str())) return NoRoom(opened);
  }
  // engines/runs/log_lines.h reads them.
  if (!run("ALTER TABLE step ADD COLUMN log_line INTEGER;"
           "ALTER TABLE step ADD COLUMN says_its_step INTEGER")) {
    return NoRoom(opened);
  }
  if (!recorder->figures_.Create(opened)) return NoRoom(opened);
  recorder->put_ = Writer(opened, kPut);
  recorder->put_event_ =
      Writer(opened, "INSERT INTO event (run_id, step, type, detail) VALUES (1, ?1, ?2, ?3)");
  return recorder;
}

void Recorder::Put(int64_t step, const StepFigures& figures) {
  if (at_step_ != step) {
    Flush();
    if (Full()) return;
    at_step_ = step;
    pending_ = {};
  }
  Merge(pending_, figures);
  dirty_ = true;
  if (!last_ || step > *last_) {
    last_ = step;
    current_ = {};
    ++steps_;
  }
  if (step == *last_) Merge(current_, figures);
}

void Recorder::PutEvaluation(int64_t step, std::string_view name, double loss) {
  if (evaluations_ >= kMaxSteps) return;
  ++evaluations_;
  PutEvent(step, runs::kEvaluation, runs::EvaluationDetail(name, loss));
}

void Recorder::PutWord(std::string_view fault, int64_t line, std::string_view text) {
  constexpr int64_t kMostWords = 100'000;
  if (words_++ >= kMostWords) return;
  const Json detail = {{"fault", fault}, {"line", line}, {"text", text.substr(0, 300)}};
  PutEvent(last_.value_or(0), runs::kSpokenFault,
           detail.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void Recorder::PutException(const PrintedError& error) {
  ended_with_exception_ = true;
  const Json detail = {{"error", error.error},
                       {"text", error.text},
                       {"source", error.source},
                       {"line", error.line}};
  PutEvent(last_.value_or(0), "exception",
           detail.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void Recorder::PutEvent(int64_t step, std::string_view type, std::string_view detail) {
  put_event_ << step << type << detail;
  if (!put_event_.Run() && !failed_) failed_ = NoRoom(handle_.get());
}

void Recorder::Flush() {
  if (!dirty_) return;
  dirty_ = false;
  put_ << *at_step_ << Finite(pending_.at) << Finite(pending_.loss) << Finite(pending_.lr)
       << Finite(pending_.scale) << pending_.grad_norm << FlagsOf(pending_) << pending_.line
       << static_cast<int64_t>(pending_.says_its_step);
  if (!put_.Run() && !failed_) failed_ = NoRoom(handle_.get());
}

void Recorder::GoBack(int64_t step) {
  Flush();
  at_step_.reset();
  ++went_back_;
  if (kept_attempts_ < kAttemptsKept) {
    const int64_t id = 2 + kept_attempts_++;
    attempts_.push_back(id);
    figures_.GoBack(step, id);
    Writer before(
        handle_.get(),
        "INSERT INTO step SELECT ?1, step, at, duration, loss, lr, loss_scale, grad_norm,"
        " peak_memory, flags, log_line, says_its_step FROM step WHERE run_id=1 AND step IN"
        " (SELECT step FROM step WHERE run_id=1 AND step<?2 ORDER BY step DESC"
        "  LIMIT 2000)");
    before << id << step;
    Writer move(handle_.get(), "UPDATE step SET run_id=?1 WHERE run_id=1 AND step>=?2");
    move << id << step;
    Writer evaluations(handle_.get(), "UPDATE event SET run_id=?1 WHERE run_id=1 AND step>=?2");
    evaluations << id << step;
    if ((!before.Run() || !move.Run() || !evaluations.Run()) && !failed_) {
      failed_ = NoRoom(handle_.get());
    }
  } else {
    figures_.GoBack(step, 0);
    Writer drop(handle_.get(), "DELETE FROM step WHERE run_id=1 AND step>=?1");
    drop << step;
    Writer evaluations(handle_.get(), "DELETE FROM event WHERE run_id=1 AND step>=?1");
    evaluations << step;
    if ((!drop.Run() || !evaluations.Run()) && !failed_) failed_ = NoRoom(handle_.get());
  }
  Writer last(handle_.get(), "SELECT max(step) FROM step WHERE run_id=1");
  last_.reset();
  if (last.NextRow() && last.Real(0)) last_ = last.Int(0);
  current_ = {};
}

int64_t Recorder::KeepAsRun(const std::string& name) {
  Flush();
  at_step_.reset();
  const int64_t id = 2 + kept_attempts_++;
  names_[id] = name;
  if (ended_with_exception_) with_exception_.insert(id);
  ended_with_exception_ = false;
  figures_.GoBack(INT64_MIN, id);
  for (const char* sql :
       {"UPDATE step SET run_id=?1 WHERE run_id=1", "UPDATE event SET run_id=?1 WHERE run_id=1"}) {
    Writer move(handle_.get(), sql);
    move << id;
    if (!move.Run() && !failed_) failed_ = NoRoom(handle_.get());
  }
  last_.reset();
  current_ = {};
  return id;
}

Result<void> Recorder::WriteRuns(const About& about) {
  Writer insert(
      handle_.get(),
      "INSERT INTO run (run_id, name, started_at, heartbeat_at, ended_at, precision, end_reason)"
      " VALUES (?1, ?2, ?3, ?4, ?4, nullif(?5, ''), nullif(?6, ''))");
  const double ended = about.ended_at.value_or(about.started_at);
  for (int64_t id = 1; id <= 1 + kept_attempts_; ++id) {
    const std::string name =
        id == 1 ? about.name
        : names_.contains(id)
            ? names_[id]
            : about.name + ", what stood before it went back (" + std::to_string(id - 1) + ")";
    // The newest of a file is what a bare path means: the run that went on.
    insert << id << std::string_view(name)
           << std::optional(about.started_at - (id == 1 ? 0.0 : 1.0)) << std::optional(ended)
           << std::string_view(about.precision)
           << std::string_view((id == 1 && ended_with_exception_) || with_exception_.contains(id)
                                   ? "exception"
                                   : "");
    if (!insert.Run()) return NoRoom(handle_.get());
  }
  return {};
}

Result<std::unique_ptr<runs::Database>> Recorder::Finish(About& about) {
  Flush();
  put_ = {};
  put_event_ = {};
  if (!figures_.Finish() && !failed_) failed_ = NoRoom(handle_.get());
  if (failed_) return *failed_;
  MPN_TRY(cancel_.Check());
  if (Full()) {
    about.notes.push_back("Only the first " + std::to_string(kMaxSteps) + " steps were read.");
  }
  if (went_back_ > 0) {
    const bool is_file = std::filesystem::path(about.path).is_absolute();
    about.notes.push_back(
        "The log goes back to an earlier step " + runs::Count(went_back_, "time") +
        " (a resumed run): later lines stand for those steps. What stood there before " +
        (is_file && !attempts_.empty()
             ? "is kept as run \"" + EscapeControl(about.path) + "#" +
                   std::to_string(attempts_.front()) + "\"" +
                   (attempts_.size() > 1 ? " to \"#" + std::to_string(attempts_.back()) + "\""
                                         : "") +
                   "."
             : std::string("is left out: give it alone to ask about it.")));
  }
  if (std::string others = figures_.OthersText(); !others.empty()) {
    about.notes.push_back(std::move(others));
  }
  NoteSpacing(handle_.get(), about.notes);
  UnscaleNorms(handle_.get(), about.notes);
  MPN_TRY(WriteRuns(about));
  if (sqlite3_exec(handle_.get(), "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) {
    return NoRoom(handle_.get());
  }
  return runs::Database::Adopt(handle_.release(), about.path, cancel_);
}

}  // namespace mpnanny::imports
