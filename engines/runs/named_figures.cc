#include "engines/runs/named_figures.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

namespace mpnanny::runs {
namespace {

struct Cut {
  int64_t after_part = 0, name_id = 0, run_id = 0, step = 0;
};

bool HoldsFigures(const Source& source) {
  return !source.format.empty() && source.database->HasColumn("figure_part", "points");
}

Result<std::vector<Cut>> ReadCuts(const Database& database) {
  MPN_TRY_ASSIGN(
      auto rows,
      database.Prepare("SELECT after_part, name_id, run_id, step FROM figure_cut ORDER BY rowid"));
  std::vector<Cut> cuts;
  while (true) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) return cuts;
    cuts.push_back({rows.IntOr(0, 0), rows.IntOr(1, 0), rows.IntOr(2, 0), rows.IntOr(3, 0)});
  }
}

// One step, one value: the last that the log gives.
void Settle(FigureSeries& series) {
  const auto earlier = [](const auto& x, const auto& y) { return x.first < y.first; };
  if (!std::is_sorted(series.begin(), series.end(), earlier)) {
    std::stable_sort(series.begin(), series.end(), earlier);
  }
  size_t kept = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    if (kept > 0 && series[kept - 1].first == series[i].first) --kept;
    series[kept++] = series[i];
  }
  series.resize(kept);
}

// Puts the parts together as the asked run has them.
class Assembly {
 public:
  Assembly(std::vector<Cut> cuts, int64_t run_id) : cuts_(std::move(cuts)), run_id_(run_id) {
    for (size_t i = 0; i < cuts_.size(); ++i) {
      if (run_id_ > 1 && cuts_[i].run_id == run_id_) end_ = cuts_[i].after_part;
    }
  }

  void Add(int64_t part, int64_t name, std::string_view points) {
    if (end_ && part > *end_) return;  // of the attempt that came after it
    CutBefore(part);
    ReadPoints(points, series_[name]);
  }

  std::map<int64_t, FigureSeries> Take() {
    if (!end_) CutBefore(INT64_MAX);
    for (auto& [name, series] : series_) Settle(series);
    return std::move(series_);
  }

 private:
  void CutBefore(int64_t part) {
    for (; next_ < cuts_.size() && cuts_[next_].after_part < part; ++next_) {
      const Cut& cut = cuts_[next_];
      for (auto& [name, series] : series_) {
        if (cut.name_id != kEveryName && cut.name_id != name) continue;
        std::erase_if(series, [&](const auto& point) { return point.first >= cut.step; });
      }
    }
  }

  const std::vector<Cut> cuts_;
  const int64_t run_id_;
  std::optional<int64_t> end_;  // the last part of the asked attempt
  size_t next_ = 0;
  std::map<int64_t, FigureSeries> series_;
};

// By name_id; `only`: of one name.
Result<std::map<int64_t, FigureSeries>> Assemble(const Source& source,
                                                 std::optional<int64_t> only = std::nullopt) {
  MPN_TRY_ASSIGN(auto cuts, ReadCuts(*source.database));
  Assembly assembly(std::move(cuts), source.run.handle.run_id.value_or(1));
  const std::string one = only ? " WHERE name_id=?1" : "";
  MPN_TRY_ASSIGN(auto rows,
                 source.database->Prepare("SELECT part, name_id, points FROM figure_part" + one +
                                          " ORDER BY part"));
  if (only) rows.Bind(1, *only);
  while (true) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) return assembly.Take();
    const auto points = rows.Blob(2);
    if (points) assembly.Add(rows.IntOr(0, 0), rows.IntOr(1, 0), *points);
  }
}

Result<std::map<int64_t, std::string>> ReadNames(const Database& database) {
  MPN_TRY_ASSIGN(auto rows, database.Prepare("SELECT name_id, name FROM figure_name"));
  std::map<int64_t, std::string> names;
  while (true) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) return names;
    names[rows.IntOr(0, 0)] = rows.TextOr(1);
  }
}

}  // namespace

Result<std::vector<NamedSeries>> ReadAllFigures(const Source& source) {
  std::vector<NamedSeries> all;
  if (!HoldsFigures(source)) return all;
  MPN_TRY_ASSIGN(auto names, ReadNames(*source.database));
  MPN_TRY_ASSIGN(auto series, Assemble(source));
  for (auto& [id, values] : series) {
    const bool kept = !values.empty() && names.contains(id) && !IsLinesOf(names[id]);
    if (kept) all.push_back({names[id], std::move(values)});
  }
  return all;
}

Result<FigureSeries> ReadLinesOfFigure(const Source& source, const std::string& name) {
  return ReadFigure(source, std::string(kLinesOf) + name);
}

Result<std::vector<FigureName>> ReadFigureNames(const Source& source) {
  MPN_TRY_ASSIGN(auto all, ReadAllFigures(source));
  std::vector<FigureName> names;
  for (const NamedSeries& series : all) {
    names.push_back({series.name, static_cast<int64_t>(series.values.size()),
                     series.values.front().first, series.values.back().first});
  }
  return names;
}

Result<FigureSeries> ReadFigure(const Source& source, std::string_view name) {
  if (!HoldsFigures(source)) return FigureSeries();
  MPN_TRY_ASSIGN(auto names, ReadNames(*source.database));
  for (const auto& [id, known] : names) {
    if (known != name) continue;
    MPN_TRY_ASSIGN(auto series, Assemble(source, id));
    return std::move(series[id]);
  }
  return FigureSeries();
}

void AppendPoint(std::string& part, int64_t& last, int64_t step, double value) {
  // Steps as signed differences, seven bits a byte: one or two bytes for most.
  const uint64_t gone = static_cast<uint64_t>(step) - static_cast<uint64_t>(last);
  uint64_t rest = gone << 1 ^ (static_cast<int64_t>(gone) < 0 ? ~uint64_t{0} : 0);
  last = step;
  for (; rest >= 0x80; rest >>= 7) part += static_cast<char>(rest | 0x80);
  part += static_cast<char>(rest);
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) part += static_cast<char>(bits >> shift & 0xff);
}

bool ReadPoints(std::string_view part, FigureSeries& into) {
  uint64_t step = 0;
  for (size_t at = 0; at < part.size();) {
    uint64_t gone = 0;
    int shift = 0;
    while (true) {
      if (at == part.size() || shift > 63) return false;
      const auto byte = static_cast<uint8_t>(part[at++]);
      gone |= static_cast<uint64_t>(byte & 0x7f) << shift;
      shift += 7;
      if (!(byte & 0x80)) break;
    }
    step += gone >> 1 ^ (gone & 1 ? ~uint64_t{0} : 0);
    if (part.size() - at < 8) return false;
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
      bits |= static_cast<uint64_t>(static_cast<uint8_t>(part[at++])) << (8 * i);
    }
    into.emplace_back(static_cast<int64_t>(step), std::bit_cast<double>(bits));
  }
  return true;
}

}  // namespace mpnanny::runs
