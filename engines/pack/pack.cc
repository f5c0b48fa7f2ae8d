#include "engines/pack/pack.h"

#include <algorithm>
#include <filesystem>

#include "base/part_file.h"
#include "base/replace_file.h"
#include "base/sample_thinning.h"
#include "base/text.h"
#include "engines/pack/copy_run.h"
#include "engines/pack/new_database.h"
#include "engines/runs/run.h"

namespace mpnanny::pack {
namespace fs = std::filesystem;
namespace {

constexpr const char* kBeside[] = {"-wal", "-shm", "-journal", "-ring"};

// Nothing is overwritten unasked, and never the run itself.
Result<void> CheckPlace(const PackOptions& options, const std::vector<runs::Source>& ranks) {
  const std::string shown = EscapeControl(options.output);
  std::error_code ec;
  if (options.output.empty()) return InvalidInput("No output file is named.", "-o FILE names it.");
  if (fs::is_directory(options.output, ec)) {
    return InvalidInput(shown + " is a folder.", "Name the file to make.");
  }
  for (const runs::Source& rank : ranks) {
    for (const std::string& own : {rank.run.handle.path, rank.run.handle.path + "-wal",
                                   rank.run.handle.path + "-shm", rank.run.handle.path + "-ring"}) {
      const std::string canonical = fs::weakly_canonical(options.output, ec).generic_string();
      if (canonical == own || fs::equivalent(options.output, own, ec)) {
        return InvalidInput(shown + " is a file of the run itself.", "Name another file.");
      }
    }
  }
  if (options.force) return {};
  if (fs::exists(fs::symlink_status(options.output, ec))) {
    return InvalidInput(shown + " exists already, and is not overwritten.",
                        "Name a new file, or say --force.");
  }
  for (const char* suffix : kBeside) {
    if (fs::exists(options.output + suffix, ec)) {
      return InvalidInput(shown + suffix + " is left of another database of that name.",
                          "Name a new file, or say --force.");
    }
  }
  return {};
}

// Puts the finished file at its place.
Result<void> PutInPlace(const std::string& part, const PackOptions& options) {
  const std::string shown = EscapeControl(options.output);
  std::error_code ec;
  if (!options.force) {
    // A link is made only where nothing is; file systems without links are asked before.
    fs::create_hard_link(part, options.output, ec);
    if (!ec) return {};
    if (fs::exists(fs::symlink_status(options.output, ec))) {
      return InvalidInput(shown + " exists already, and is not overwritten.",
                          "Name a new file, or say --force.");
    }
  }
  if (options.force) {
    for (const char* suffix : kBeside) fs::remove(options.output + suffix, ec);
  }
  return MoveIntoPlace(part, options.output);
}

struct Attempt {
  Copied all;
  int64_t bytes = 0;
};

// Writes all ranks at one level of thinning.
Result<Attempt> WriteAt(int level, bool last, const PackOptions& options,
                        const std::vector<runs::Source>& ranks, const std::string& part) {
  std::error_code ec;
  fs::remove(part, ec);
  MPN_TRY_ASSIGN(auto created, NewDatabase::Create(part));
  NewDatabase& database = created;
  Attempt attempt;
  CopyOptions copy;
  copy.redact = options.redact;
  copy.level = level;
  copy.max_bytes = last ? 0 : options.max_bytes;
  MPN_TRY_ASSIGN(auto meanings, ranks.front().database->Prepare(
                                    "SELECT what, value, text FROM meaning LIMIT 5000"));
  MPN_TRY_ASSIGN(auto meaning, database.Into("meaning", "what, value, text"));
  while (true) {
    MPN_TRY_ASSIGN(auto next, meanings.Next());
    if (!next) break;
    meaning.Add(meanings.TextOr(0)).Add(meanings.TextOr(1)).Add(meanings.TextOr(2));
    MPN_TRY(meaning.Insert());
  }
  for (const runs::Source& rank : ranks) {
    MPN_TRY_ASSIGN(auto copied, CopyRun(rank, copy, database));
    Copied& all = attempt.all;
    all.steps = std::max(all.steps, copied.steps);
    all.alerts += copied.alerts;
    all.sample_rows += copied.sample_rows;
    all.rows_left_out += copied.rows_left_out;
    all.too_large = copied.too_large;
    if (all.too_large) return attempt;
    ++copy.run_id;
    copy.first_layer += copied.layers;
    copy.first_finding += copied.findings;
  }
  MPN_TRY(database.Finish());
  attempt.bytes = static_cast<int64_t>(fs::file_size(part, ec));
  return attempt;
}

}  // namespace

Result<PackReport> Pack(const PackOptions& options, const AllowedRoots& roots,
                        const CancelToken& cancel) {
  auto whole = runs::OpenRun(options.run, roots, cancel);
  if (!whole) return whole.error();
  PackReport report;
  report.run = runs::ShownHandle(*whole);
  report.output = EscapeControl(options.output);
  report.notes = whole->notes;
  std::vector<runs::Source> ranks;
  const std::string handle =
      FormatRunHandle(whole->shown.path.empty() ? whole->run.handle : whole->shown);
  const std::vector<int64_t> numbers = runs::RanksOf(*whole);
  for (const int64_t number : numbers) {
    auto rank = runs::OpenRun(handle, roots, cancel, number);
    if (!rank) return rank.error();
    ranks.push_back(*std::move(rank));
  }
  if (numbers.empty()) ranks.push_back(*std::move(whole));
  report.ranks = static_cast<int64_t>(ranks.size());
  MPN_TRY(CheckPlace(options, ranks));

  const PartFile part(options.output);
  for (int level = 0;; ++level) {
    const bool last = level == kThinningLevels;
    MPN_TRY_ASSIGN(auto attempt,
                   WriteAt(level, last || options.max_bytes <= 0, options, ranks, part.path()));
    if (attempt.all.too_large) continue;
    if (!last && options.max_bytes > 0 && attempt.bytes > options.max_bytes) continue;
    report.bytes = attempt.bytes;
    report.steps = attempt.all.steps;
    report.alerts = attempt.all.alerts;
    report.sample_rows = attempt.all.sample_rows;
    report.rows_left_out = attempt.all.rows_left_out;
    report.one_in = ThinningStride(level);
    break;
  }
  if (options.max_bytes > 0 && report.bytes > options.max_bytes) {
    report.notes.push_back(
        "The file is larger than asked for: steps, shadow steps, alerts and the samples within " +
        std::to_string(kThinningAlertSteps) + " steps of an alert always stay.");
  }
  MPN_TRY(PutInPlace(part.path(), options));
  return report;
}

}  // namespace mpnanny::pack
