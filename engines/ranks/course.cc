#include "engines/ranks/course.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engines/ranks/median.h"
#include "engines/runs/parts.h"
#include "engines/runs/steps.h"

namespace mpnanny::ranks {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kFigures = std::size(kCourseFigures);
using Table = std::vector<std::vector<std::vector<double>>>;  // [figure][part][step]

// Steps at equal distances, the first and the last among them.
Result<std::vector<int64_t>> SpreadSteps(const runs::Source& source) {
  MPN_TRY_ASSIGN(auto ends,
                 source.database->Prepare("SELECT min(step), max(step) FROM step WHERE run_id=?1"));
  ends.Bind(1, *source.run.handle.run_id);
  MPN_TRY_ASSIGN(auto there, ends.Next());
  std::vector<int64_t> steps;
  if (!there || !ends.Int(0) || !ends.Int(1)) return steps;
  const int64_t first = *ends.Int(0), length = *ends.Int(1) - first;
  const auto count = static_cast<int64_t>(kCourseSteps);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t step =
        first + (length / (count - 1)) * i + (length % (count - 1)) * i / (count - 1);
    if (steps.empty() || steps.back() != step) steps.push_back(step);
  }
  return steps;
}

void Take(const runs::Statement& row, size_t part, size_t at, Table& into) {
  const int64_t flags = row.IntOr(3, 0);
  for (size_t figure = 0; figure < kFigures; ++figure) {
    const auto value = row.Real(static_cast<int>(figure));
    const int64_t bad = figure == 0 ? runs::kLossNan | runs::kLossInf : runs::kGradNonFinite;
    double& cell = into[figure][part][at];
    cell = value.value_or(kUnknown);
    if (!value && figure < 2 && flags & bad) cell = std::numeric_limits<double>::infinity();
  }
}

Result<void> ReadPart(const runs::Source& source, size_t part, const std::vector<int64_t>& steps,
                      Table& into) {
  MPN_TRY_ASSIGN(auto row,
                 runs::DatabaseOf(source, part)
                     .Prepare("SELECT loss, grad_norm, duration, flags FROM step WHERE run_id=?1 "
                              "AND step=?2"));
  row.Bind(1, *runs::RunOf(source, part).handle.run_id);
  for (size_t at = 0; at < steps.size(); ++at) {
    row.Reset();
    row.Bind(2, steps[at]);
    MPN_TRY_ASSIGN(auto there, row.Next());
    if (there) Take(row, part, at, into);
  }
  return {};
}

// All parts at once, from one database.
Result<void> ReadTraining(const runs::Source& source, const std::vector<int64_t>& steps,
                          Table& into) {
  const runs::PartsByRank parts(source);
  MPN_TRY_ASSIGN(auto row, source.database->Prepare(
                               "SELECT loss, grad_norm, duration, flags, run_id FROM step WHERE "
                               "step=?1"));
  for (size_t at = 0; at < steps.size(); ++at) {
    row.Reset();
    row.Bind(1, steps[at]);
    while (true) {
      MPN_TRY_ASSIGN(auto there, row.Next());
      if (!there) break;
      Take(row, parts.Of(row.IntOr(4, 0)), at, into);
    }
  }
  return {};
}

}  // namespace

Result<Course> ReadCourse(const runs::Source& source) {
  Course course;
  const size_t parts = runs::PartsOf(source);
  if (parts < 2) return course;
  MPN_TRY_ASSIGN(course.steps, SpreadSteps(source));
  Table table(kFigures, std::vector<std::vector<double>>(
                            parts, std::vector<double>(course.steps.size(), kUnknown)));
  if (runs::LiesInOne(source)) {
    MPN_TRY(ReadTraining(source, course.steps, table));
  } else {
    for (size_t part = 0; part < parts; ++part) {
      MPN_TRY(source.database->cancel().Check());
      MPN_TRY(ReadPart(source, part, course.steps, table));
    }
  }
  std::vector<double> furthest(parts, 0);
  for (auto& figure : table) {
    for (size_t at = 0; at < course.steps.size(); ++at) {
      std::vector<double> values;
      for (size_t part = 0; part < parts; ++part) values.push_back(figure[part][at]);
      const double median = Median(values);
      for (size_t part = 0; part < parts; ++part) {
        double& cell = figure[part][at];
        if (!std::isinf(cell)) cell = std::fabs(cell - median) / std::fabs(median);
        if (!std::isnan(cell)) furthest[part] = std::max(furthest[part], cell);
      }
    }
  }
  std::vector<size_t> kept(parts);
  std::iota(kept.begin(), kept.end(), size_t{0});
  if (parts > kCourseRanks) {
    std::stable_sort(kept.begin(), kept.end(),
                     [&](size_t a, size_t b) { return furthest[a] > furthest[b]; });
    kept.resize(kCourseRanks);
    course.ranks_left_out = parts - kCourseRanks;
  }
  std::sort(kept.begin(), kept.end(), [&](size_t a, size_t b) {
    return runs::RunOf(source, a).rank < runs::RunOf(source, b).rank;
  });
  course.apart.resize(kFigures);
  for (const size_t part : kept) {
    course.ranks.push_back(runs::RunOf(source, part).rank);
    for (size_t figure = 0; figure < kFigures; ++figure) {
      const std::vector<double>& cells = table[figure][part];
      course.apart[figure].emplace_back(cells.begin(), cells.end());
    }
  }
  return course;
}

}  // namespace mpnanny::ranks
