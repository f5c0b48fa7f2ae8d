#include "engines/comparison/layer_pairs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "engines/runs/samples.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kNamesKept = 20;
constexpr size_t kParametersKept = 4;
constexpr size_t kMostDropped = 4;  // components of a name that may stand before it in one run
constexpr size_t kMostAlike = 8;    // layers of one rest that are tried
constexpr size_t kLeastKinds = 2;

std::string Owner(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// A name in two, after so many components: "net.features" and "0.weight". The second is empty where
// the whole name is the first.
struct Cut {
  std::string prefix, rest;
};
std::vector<Cut> CutsOf(const std::string& name) {
  std::vector<Cut> cuts = {{"", name}};
  size_t at = 0;
  while (cuts.size() <= kMostDropped) {
    const size_t dot = name.find('.', at);
    if (dot == std::string::npos) {
      cuts.push_back({name, ""});
      break;
    }
    cuts.push_back({name.substr(0, dot), name.substr(dot + 1)});
    at = dot + 1;
  }
  return cuts;
}

using Kind = std::pair<std::string, int64_t>;  // type and number of elements
Kind KindOf(const runs::Layer& layer) { return {layer.type, layer.numel.value_or(-1)}; }

// What stands before the names of one model that was watched as part of two others: the pair of
// prefixes under which most layers have one rest, one type and one size. Layers that are only
// numbered alike prove nothing: where both names lose something, kinds and sizes must follow each
// other alike too.
std::optional<LayerPairs::Prefixes> FindPrefixes(const std::vector<runs::Layer>& a,
                                                 const std::vector<runs::Layer>& b) {
  struct End {
    size_t layer = 0;
    std::string prefix;
  };
  std::unordered_map<std::string, std::vector<End>> ends;
  for (size_t i = 0; i < b.size(); ++i) {
    for (Cut& cut : CutsOf(BareName(b[i].name))) {
      std::vector<End>& alike = ends[cut.rest];
      if (alike.size() < kMostAlike) alike.push_back({i, std::move(cut.prefix)});
    }
  }
  struct Votes {
    size_t layers = 0;
    std::set<Kind> kinds;
  };
  std::map<std::pair<std::string, std::string>, Votes> votes;
  for (const runs::Layer& layer : a) {
    for (const Cut& cut : CutsOf(BareName(layer.name))) {
      const auto found = ends.find(cut.rest);
      if (cut.rest.empty() || found == ends.end()) continue;
      for (const End& end : found->second) {
        if (KindOf(b[end.layer]) != KindOf(layer)) continue;
        Votes& of = votes[{cut.prefix, end.prefix}];
        ++of.layers;
        of.kinds.insert(KindOf(layer));
      }
    }
  }
  const std::pair<const std::pair<std::string, std::string>, Votes>* best = nullptr;
  for (const auto& each : votes) {
    const auto& [prefixes, of] = each;
    const bool both_lose = !prefixes.first.empty() && !prefixes.second.empty();
    if (both_lose && of.kinds.size() < kLeastKinds) continue;
    if (!best || of.layers > best->second.layers) best = &each;
  }
  if (!best || 2 * best->second.layers < std::min(a.size(), b.size())) return std::nullopt;
  return LayerPairs::Prefixes{best->first.first, best->first.second};
}

// The name by which layers of the two runs are found; its prefix is taken off.
std::string NameOf(const runs::Layer& layer, const std::string& prefix) {
  std::string name = BareName(layer.name);
  if (prefix.empty()) return name;
  if (name == prefix) return "";
  if (name.starts_with(prefix + ".")) return name.substr(prefix.size() + 1);
  return "." + name;  // it stands beside the part that both have
}

LayerPairs PairByName(const std::vector<runs::Layer>& all_a, const std::vector<runs::Layer>& all_b,
                      const LayerPairs::Prefixes& prefixes) {
  LayerPairs pairs;
  std::unordered_map<std::string, const runs::Layer*> by_name;
  for (const runs::Layer& layer : all_b) by_name.emplace(NameOf(layer, prefixes.b), &layer);
  std::unordered_map<std::string, int64_t> positions;
  for (const runs::Layer& layer : all_a) {
    if (!layer.position) continue;
    positions.emplace(layer.name, *layer.position);
    pairs.depth = std::max(pairs.depth, *layer.position + 1);
  }
  const auto alone = [](const runs::Layer& layer, std::vector<std::string>& names,
                        std::vector<std::string>& parameters, int64_t& count,
                        int64_t& parameter_count) {
    if (names.size() < kNamesKept) names.push_back(layer.name);
    ++count;
    if (layer.type != "parameter") return;
    if (parameters.size() < kParametersKept) parameters.push_back(layer.name);
    ++parameter_count;
  };
  for (const runs::Layer& layer : all_a) {
    const auto other = by_name.find(NameOf(layer, prefixes.a));
    if (other == by_name.end() || !other->second) {
      alone(layer, pairs.only_a, pairs.parameters_only_a, pairs.count_only_a,
            pairs.parameters_total_only_a);
      continue;
    }
    const auto index = static_cast<uint32_t>(pairs.common.size());
    pairs.index_a.emplace(layer.layer_id, index);
    pairs.index_b.emplace(other->second->layer_id, index);
    if (layer.numel && other->second->numel && *layer.numel != *other->second->numel &&
        pairs.other_sizes++ == 0) {
      pairs.first_other_size = layer.name;
    }
    CommonLayer common{layer.name, layer.position, Owner(layer.name)};
    if (!common.position) {
      const auto owner = positions.find(common.owner);
      if (owner != positions.end()) common.position = owner->second;
    }
    pairs.common.push_back(std::move(common));
    other->second = nullptr;  // each once
  }
  for (const runs::Layer& layer : all_b) {
    if (pairs.index_b.contains(layer.layer_id)) continue;
    alone(layer, pairs.only_b, pairs.parameters_only_b, pairs.count_only_b,
          pairs.parameters_total_only_b);
  }
  return pairs;
}

}  // namespace

std::string BareName(std::string name) {
  for (const std::string_view wrapper :
       {"module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."}) {
    for (size_t at = name.find(wrapper); at != std::string::npos; at = name.find(wrapper, at)) {
      if (at == 0 || name[at - 1] == '.') {
        name.erase(at, wrapper.size());
      } else {
        ++at;
      }
    }
  }
  return name;
}

Result<LayerPairs> PairLayers(const runs::Source& a, const runs::Source& b) {
  MPN_TRY_ASSIGN(auto all_a, runs::Layers(a).All());
  MPN_TRY_ASSIGN(auto all_b, runs::Layers(b).All());
  LayerPairs pairs = PairByName(all_a, all_b, {});
  if (2 * pairs.common.size() >= std::min(all_a.size(), all_b.size())) return pairs;
  if (const auto prefixes = FindPrefixes(all_a, all_b)) {
    LayerPairs moved = PairByName(all_a, all_b, *prefixes);
    if (moved.common.size() <= pairs.common.size()) return pairs;
    moved.prefixes = prefixes;
    return moved;
  }
  return pairs;
}

}  // namespace mpnanny::comparison
