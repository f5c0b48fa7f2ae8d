#include "engines/runs/training.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/runs/packed.h"
#include "engines/runs/ranks.h"
#include "engines/team/snapshot.h"

namespace mpnanny::runs {
namespace {

struct Training {
  int64_t id = 0, world_size = 1;
  std::optional<int64_t> merged_to;
  bool all_merged = false;
};

Error NoSuchTraining(const team::Address& address) {
  const std::string shown = EscapeControl(team::UrlOf(address));
  if (!address.training) {
    return NotFound(shown + " holds no training yet.", "`mpnanny ship` brings runs into it.");
  }
  return NotFound("Training " + std::to_string(*address.training) + " is not in " + shown + ".",
                  "list_runs with this URL shows those that are.");
}

Result<Training> FindTraining(team::Snapshot& snapshot) {
  const std::optional<int64_t> wanted = snapshot.address().training;
  auto select = snapshot.PrepareOfAll(
      std::string("SELECT t.training_id, t.world_size, t.merged_to, NOT EXISTS (SELECT FROM "
                  "mpnanny.part p WHERE p.training_id = t.training_id AND (t.merged_to IS NULL OR "
                  "p.steps_to > t.merged_to)) FROM mpnanny.training t ") +
      (wanted ? "WHERE t.training_id = $1" : "ORDER BY t.started_at DESC, t.training_id DESC") +
      " LIMIT 1");
  if (!select) return select.error();
  if (wanted) (*select)->Bind(1, *wanted);
  MPN_TRY_ASSIGN(auto there, (*select)->Next());
  if (!there) return NoSuchTraining(snapshot.address());
  Training training;
  training.id = (*select)->Int(0).value_or(0);
  training.world_size = (*select)->Int(1).value_or(1);
  training.merged_to = (*select)->Int(2);
  training.all_merged = (*select)->Int(3).value_or(0) != 0;
  return training;
}

// The rank that was bad first, as FindFirstBad() and FirstBad's order have it for files.
Result<std::optional<int64_t>> FirstBadRank(const Database& training) {
  MPN_TRY_ASSIGN(
      auto row,
      training.Prepare(
          "SELECT run_id FROM alert WHERE raw_severity='ERROR' ORDER BY "
          "coalesce(phase,'')='backward',"
          " step, CASE phase WHEN 'data' THEN 0 WHEN 'forward' THEN 1 WHEN 'loss' THEN 2"
          " WHEN 'backward' THEN 3 WHEN 'optimizer' THEN 4 ELSE 5 END, coalesce(producer, 0)<>1,"
          " run_id LIMIT 1"));
  MPN_TRY_ASSIGN(auto there, row.Next());
  return there ? row.Int(0) : std::nullopt;
}

OtherRank PartOf(const std::shared_ptr<Database>& database, Run run) {
  OtherRank part;
  part.database = database;
  part.run = std::move(run);
  return part;
}

Result<Source> SourceOf(OtherRank part) {
  MPN_TRY(ReadTexts(*part.database, part.run));
  Source source;
  source.ring = ReadPackedRing(*part.database, part.run);
  source.database = std::move(part.database);
  source.run = std::move(part.run);
  return source;
}

}  // namespace

Result<team::Address> AllowedAddress(const std::string& url, const AllowedRoots& roots) {
  MPN_TRY_ASSIGN(team::Address asked, team::ParseAddress(url));
  if (roots.unrestricted()) return asked;
  std::string list;
  for (const std::string& root : roots.databases()) {
    MPN_TRY_ASSIGN(team::Address allowed, team::ParseAddress(root));
    if (team::SameDatabase(allowed, asked) || team::UrlOf(allowed) == team::UrlOf(asked)) {
      allowed.training = asked.training;
      return allowed;
    }
    list += (list.empty() ? "" : ", ") + EscapeControl(team::UrlOf(allowed));
  }
  return InvalidInput(
      EscapeControl(team::UrlOf(asked)) + " is no database that this server may read.",
      (list.empty() ? "" : "Allowed: " + list + ". ") +
          "Start the server with --root postgresql://host/db to add one.");
}

Result<Source> OpenTraining(const std::string& handle, const AllowedRoots& roots,
                            const CancelToken& cancel, std::optional<int64_t> rank) {
  MPN_TRY_ASSIGN(const team::Address address, AllowedAddress(handle, roots));
  auto snapshot = team::Snapshot::Open(address, cancel);
  if (!snapshot) return snapshot.error();
  MPN_TRY_ASSIGN(const Training training, FindTraining(**snapshot));
  (*snapshot)->Show(training.id, training.merged_to, training.all_merged);
  const RunHandle whole{team::UrlOf(address), training.id};
  const std::shared_ptr<Database> database =
      Database::OfTraining(*std::move(snapshot), whole.path, cancel);
  MPN_TRY_ASSIGN(std::vector<Run> ranks, ReadRanks(*database));
  if (ranks.empty()) {
    return NotFound(EscapeControl(FormatRunHandle(whole)) + " holds no rank yet.",
                    "`mpnanny ship` may just have begun.");
  }
  std::vector<int64_t> present;
  for (const Run& run : ranks) present.push_back(run.rank);
  const auto place = [&](int64_t wanted) {
    return std::find(present.begin(), present.end(), wanted) - present.begin();
  };

  const bool alone = training.world_size <= 1 || ranks.size() == 1;
  if (rank || alone) {
    const auto at = static_cast<size_t>(place(rank.value_or(present.front())));
    if (at == ranks.size()) return NoSuchRank(*rank, ranks.front(), present);
    auto source = SourceOf(PartOf(database, std::move(ranks[at])));
    if (!source) return source;
    source->shown = whole;
    if (ranks.size() > 1) {
      source->notes.push_back(AloneNote(present[at], training.world_size, whole));
    }
    if (!rank && training.world_size > 1) {
      source->notes.push_back(MergedNote(present, training.world_size, present[at], false));
      source->notes.push_back(UnshippedRanks(present, training.world_size));
    }
    return source;
  }

  MPN_TRY_ASSIGN(const auto bad, FirstBadRank(*database));
  size_t decider = bad ? static_cast<size_t>(place(*bad)) : 0;
  if (decider == ranks.size()) decider = 0;
  Status status = ranks.front().status;
  for (const Run& run : ranks) status = TogetherStatus(status, run.status);
  auto source = SourceOf(PartOf(database, ranks[decider]));
  if (!source) return source;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i != decider) source->others.push_back(PartOf(database, std::move(ranks[i])));
  }
  source->run.status = status;
  source->shown = whole;
  source->notes.push_back(
      MergedNote(present, training.world_size, source->run.rank, bad.has_value()));
  if (std::string missing = UnshippedRanks(present, training.world_size); !missing.empty()) {
    source->notes.push_back(std::move(missing));
  }
  return source;
}

}  // namespace mpnanny::runs
