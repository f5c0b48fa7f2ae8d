// The layers of a run by their ids: modules, parameters and buffers, which are announced before the
// first step, and operators, which are met later.
//
// Owns their names; ids count from 1. What a part of the Recorder keeps of a layer beside this is
// its own (PerLayer). Used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_RUN_LAYERS_H_
#define MPNANNY_MONITOR_CORE_RUN_LAYERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/core/rows.h"

namespace mpnanny {

// LayerRow::type of what is no module.
inline constexpr std::string_view kParameterType = "parameter", kBufferType = "buffer",
                                  kOperatorType = "operator";

struct Layer {
  std::string name, type;
  bool leaf = false;             // a module without children
  bool owns_parameters = false;  // a leaf that does
  int64_t position = -1;         // in the order of the modules' first calls; -1: not called yet
  int64_t owner = 0;             // of a parameter: its module, or itself where that is not watched
};

class RunLayers {
 public:
  // Announces a module (`leaf`: without children), a parameter or a buffer. Its id; 0 and nothing
  // once they are registered.
  int64_t Add(LayerRow row, bool leaf);
  int64_t AddOperator(std::string name);

  // Ends the announcements: finds the parameters' owners and hands out the rows, once.
  std::vector<LayerRow> Register();
  bool registered() const { return registered_; }

  // Throws std::out_of_range for an id that is none of ours.
  Layer& at(int64_t id) { return layers_.at(static_cast<size_t>(id - 1)); }
  const Layer& at(int64_t id) const { return layers_.at(static_cast<size_t>(id - 1)); }
  size_t size() const { return layers_.size(); }
  size_t parameters() const { return parameters_; }
  // A layer that was announced: no operator, whose row is in the file only if it was reported.
  bool IsAnnounced(int64_t id) const;
  std::vector<std::string> UnseenLeaves() const;  // modules without children that never ran

 private:
  std::vector<Layer> layers_;
  std::vector<LayerRow> announced_;  // until they are registered
  bool registered_ = false;
  size_t parameters_ = 0;
};

// A value for each layer; T{} until it is set.
template <typename T>
class PerLayer {
 public:
  explicit PerLayer(T none = {}) : none_(none) {}
  // `id` must be a layer's.
  T& operator[](int64_t id) {
    const auto place = static_cast<size_t>(id - 1);
    if (place >= values_.size()) values_.resize(place + 1, none_);
    return values_[place];
  }
  T Get(int64_t id) const {
    const auto place = static_cast<size_t>(id - 1);
    return place < values_.size() ? values_[place] : none_;
  }
  int64_t last() const { return static_cast<int64_t>(values_.size()); }  // the largest id with one
  void Clear() { values_.assign(values_.size(), none_); }

 private:
  T none_;
  std::vector<T> values_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_RUN_LAYERS_H_
