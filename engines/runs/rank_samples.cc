#include "engines/runs/rank_samples.h"

#include <map>
#include <set>
#include <utility>

#include "engines/runs/parts.h"

namespace mpnanny::runs {
namespace {

using Visit = std::function<void(int64_t rank, const TensorRow&)>;

constexpr int kKinds = 7;

bool Asks(uint32_t kinds, int64_t kind) {
  return kind >= 0 && kind < kKinds && (kinds >> kind & 1) != 0;
}

std::string List(const std::vector<int64_t>& numbers) {
  std::string list;
  for (const int64_t number : numbers) {
    list += (list.empty() ? "" : ", ") + std::to_string(number);
  }
  return list;
}

// The rank's own number of the layer; nullopt where it has none of this name.
Result<std::optional<int64_t>> IdOf(const Database& database, const Run& run,
                                    const std::string& layer) {
  MPN_TRY_ASSIGN(auto row,
                 database.Prepare("SELECT layer_id FROM layer WHERE run_id=?1 AND name=?2"));
  row.Bind(1, *run.handle.run_id).Bind(2, std::string_view(layer));
  MPN_TRY_ASSIGN(auto there, row.Next());
  return there ? row.Int(0) : std::nullopt;
}

// One rank, as its database and its flight recorder have it.
Result<void> ReadRank(const Source& rank, int64_t layer_id, const std::vector<int64_t>& steps,
                      uint32_t kinds, const std::vector<std::string_view>& columns,
                      const Visit& visit) {
  MPN_TRY_ASSIGN(auto reader, SampleReader::Create(rank, columns));
  for (const int64_t step : steps) {
    MPN_TRY_ASSIGN(auto rows, reader.Layer(step, layer_id));
    for (const TensorRow& row : *rows) {
      if (Asks(kinds, row.kind)) visit(rank.run.rank, row);
    }
  }
  return {};
}

Result<void> ReadFiles(const Source& source, const std::string& layer,
                       const std::vector<int64_t>& steps, uint32_t kinds,
                       const std::vector<std::string_view>& columns, const Visit& visit) {
  for (size_t part = 0; part < PartsOf(source); ++part) {
    MPN_TRY(source.database->cancel().Check());
    MPN_TRY_ASSIGN(auto id, IdOf(DatabaseOf(source, part), RunOf(source, part), layer));
    if (!id) continue;
    Source rank;
    rank.database = part == 0 ? source.database : source.others[part - 1].database;
    rank.run = RunOf(source, part);
    rank.ring = part == 0 ? source.ring : source.others[part - 1].ring;
    MPN_TRY(ReadRank(rank, *id, steps, kinds, columns, visit));
  }
  return {};
}

// By the layer's numbers, of which there is mostly one; what has that number on another rank may be
// another layer.
Result<void> ReadTraining(const Source& source, const std::string& layer,
                          const std::vector<int64_t>& steps, uint32_t kinds,
                          const std::vector<std::string_view>& columns, const Visit& visit) {
  MPN_TRY_ASSIGN(auto ids,
                 source.database->Prepare("SELECT layer_id, run_id FROM layer WHERE raw_name=?1"));
  ids.Bind(1, std::string_view(layer));
  std::map<int64_t, std::set<int64_t>> ranks_of;  // by the layer's number
  while (true) {
    MPN_TRY_ASSIGN(auto there, ids.Next());
    if (!there) break;
    ranks_of[ids.IntOr(0, 0)].insert(ids.IntOr(1, 0));
  }
  std::vector<int64_t> asked;
  for (int64_t kind = 0; kind < kKinds; ++kind) {
    if (Asks(kinds, kind)) asked.push_back(kind);
  }
  for (const auto& [number, ranks] : ranks_of) {
    std::vector<int> places;
    const std::string list = SampleColumns(columns, places);
    MPN_TRY_ASSIGN(
        auto rows,
        source.database->Prepare(
            "SELECT " + list + ", step, run_id FROM tensor_stats WHERE layer_id=?1 AND kind IN (" +
            List(asked) + ") AND step IN (" + List(steps) + ")"));
    rows.Bind(1, number);
    const int after = 9 + static_cast<int>(places.size());
    while (true) {
      MPN_TRY_ASSIGN(auto there, rows.Next());
      if (!there) break;
      const int64_t rank = rows.IntOr(after + 1, 0);
      if (ranks.contains(rank)) visit(rank, SampleRow(rows, rows.IntOr(after, 0), places));
    }
  }
  return {};
}

}  // namespace

Result<void> ForEachRankRow(const Source& source, const std::string& layer,
                            const std::vector<int64_t>& steps, uint32_t kinds,
                            const std::vector<std::string_view>& columns, const Visit& visit) {
  if (steps.empty()) return {};
  return LiesInOne(source) ? ReadTraining(source, layer, steps, kinds, columns, visit)
                           : ReadFiles(source, layer, steps, kinds, columns, visit);
}

}  // namespace mpnanny::runs
