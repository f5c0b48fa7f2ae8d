// A question about statistics, and the series that answer it.
//
// Plain values of one call.
#ifndef MPNANNY_TOOLS_QUERY_STATS_QUESTION_H_
#define MPNANNY_TOOLS_QUERY_STATS_QUESTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/query_stats/layer_choice.h"
#include "tools/query_stats/metric.h"
#include "tools/query_stats/sampled_steps.h"
#include "tools/query_stats/series.h"

namespace mpnanny::query_stats {

enum class Grouping { kSlot, kLayer, kBlock, kStep, kRanks };
enum class Order { kWorst, kLargest, kSmallest, kGrowth, kModel };

inline constexpr uint32_t kAllKinds = (1U << 7) - 1;

struct Question {
  const Metric* metric = nullptr;
  LayerChoice layers;
  uint32_t kinds = kAllKinds;  // bits 1 << kind; kinds of a later schema count as chosen by all
  runs::StepRange steps;
  Grouping grouping = Grouping::kLayer;
  Order order = Order::kWorst;
  std::optional<int64_t> top;
  bool top_unasked = false;  // nobody asked for it: the answer says so
  bool thorough = false;     // look at everything that the time limit allows

  bool Asks(int64_t kind) const {
    return kinds == kAllKinds || (kind >= 0 && kind < 7 && (kinds >> kind & 1) != 0);
  }
};

struct Answer {
  std::vector<Series> series;  // in the order asked for
  ChosenSteps steps;           // what the order was told from
  Blocks blocks;               // names, where series are of blocks
  bool out_of_time = false;    // what follows the last point was not read
};

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_QUESTION_H_
