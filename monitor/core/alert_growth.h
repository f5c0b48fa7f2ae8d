// OVERFLOW_AHEAD: values held in FP16 that reach its end soon if they go on growing as they do.
//
// Keeps the newest largest magnitudes of each layer, by layer id. Belongs to the training thread;
// names are passed in.
#ifndef MPNANNY_MONITOR_CORE_ALERT_GROWTH_H_
#define MPNANNY_MONITOR_CORE_ALERT_GROWTH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <utility>

#include "monitor/core/alert_conditions.h"
#include "monitor/core/rows.h"
#include "numerics/growth.h"

namespace mpnanny {

class OverflowAhead {
 public:
  // The largest magnitude of a layer's input or output in a sample, of all its calls; in order of
  // step. What is not finite forgets the layer: it has happened.
  void See(int64_t step, int64_t layer, TensorKind kind, const TensorStats& stats);
  // At the end of the sample. `name_of(layer)`: its name.
  template <typename F>
  void Raise(int64_t step, F name_of, Alerts& out) {
    for (const auto& [key, points] : layers_) {
      if (!points.empty() && points.back().step == static_cast<double>(step)) {
        RaiseOne(step, key.first, static_cast<TensorKind>(key.second), name_of(key.first), points,
                 out);
      }
    }
  }

 private:
  using Points = std::deque<GrowthPoint>;
  static void RaiseOne(int64_t step, int64_t layer, TensorKind kind, std::string_view name,
                       const Points& points, Alerts& out);

  std::map<std::pair<int64_t, int>, Points> layers_;  // by layer and kind
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ALERT_GROWTH_H_
