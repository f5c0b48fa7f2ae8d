// The list of formats: the one place that a new one is added to.
#include <array>

#include "engines/runs/import/format.h"

namespace mpnanny::imports {

std::span<const Format> AllFormats() {
  static const std::array<Format, 10> kFormats{
      kTrackio,    kTrendDatabase, kWandbRun,  kTrainerState,   kEventFiles,
      kTitanTrace, kJsonLines,     kLongTable, kDelimitedTable, kTextLog};
  return kFormats;
}

}  // namespace mpnanny::imports
