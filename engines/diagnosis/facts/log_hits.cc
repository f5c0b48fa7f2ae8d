#include "engines/diagnosis/facts/log_hits.h"

#include <cmath>
#include <map>
#include <string>

#include "engines/runs/import/log_line.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kHitLineBytes = 400;

// A pattern that mere figures of a line can fit ("loss scale* e-0" by a learning rate) tells of
// trouble only where the figures do.
bool FiguresAreFine(const imports::Figures& figures) {
  return figures.loss && std::isfinite(*figures.loss) && !figures.bad_part &&
         (!figures.grad_norm || std::isfinite(*figures.grad_norm));
}

}  // namespace

Result<void> FindLogHits(imports::ByteSource text, const cases::CaseLibrary& library,
                         const CancelToken& cancel, std::vector<LogHit>& hits) {
  std::vector<const cases::Signal*> signals;
  for (const cases::Case& entry : library.all()) {
    for (const cases::Signal& signal : entry.signals) {
      if (signal.kind == cases::Signal::Kind::kLog) signals.push_back(&signal);
    }
  }
  std::map<std::string, LogHit> best;
  for (LogHit& hit : hits) best[hit.signal] = std::move(hit);
  imports::LineReader lines(std::move(text));
  for (int64_t read = 1; const auto line = lines.Next(); ++read) {
    if (read % 1024 == 0) {
      MPN_TRY(cancel.Check());
    }
    if (imports::IsOfMonitor(*line)) continue;
    for (const cases::Signal* signal : signals) {
      if (line->empty() || !cases::FitsLogLine(*signal, *line)) continue;
      LogHit& hit = best[signal->text];
      if (!hit.line.empty() && hit.weight >= signal->weight && hit.telling) continue;
      hit = {signal->text, signal->weight, std::string(line->substr(0, kHitLineBytes)), false,
             !FiguresAreFine(imports::ReadFigures(*line))};
    }
  }
  hits.clear();
  for (auto& [signal, hit] : best) hits.push_back(std::move(hit));
  return {};
}

}  // namespace mpnanny::diagnosis
