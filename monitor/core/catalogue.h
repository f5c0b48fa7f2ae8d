// The metric catalogue: every figure that a database can hold, with its unit and meaning.
//
// Constant data. The writer copies it into the table `meaning`, so that a database explains itself
// to whoever opens it; a new metric is one row here.
#ifndef MPNANNY_MONITOR_CORE_CATALOGUE_H_
#define MPNANNY_MONITOR_CORE_CATALOGUE_H_

#include <span>
#include <string_view>

namespace mpnanny {

struct Meaning {
  std::string_view what;   // 'tensor_stats.kind', 'step.flags', 'column'
  std::string_view value;  // the code, or 'table.column'
  std::string_view text;   // meaning, then the unit
};

std::span<const Meaning> MetricCatalogue();

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_CATALOGUE_H_
