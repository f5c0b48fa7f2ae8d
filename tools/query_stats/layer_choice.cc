#include "tools/query_stats/layer_choice.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/text.h"
#include "engines/runs/show.h"
#include "tools/query_stats/pattern.h"

namespace mpnanny::query_stats {
namespace {

constexpr size_t kMaxPatterns = 200;
constexpr size_t kNamesForSuggestions = 2000;
constexpr size_t kNameBytes = 2000;

struct Wanted {
  std::string text;
  std::optional<Pattern> pattern;
  bool glob = false;
  int64_t fits = 0;
};

// Shown as it stands. Most names are, and there may be very many.
bool IsPlain(std::string_view name) {
  return name.size() <= runs::kShownNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool IsPart(std::string_view name, std::string_view module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

bool Fits(const Wanted& wanted, const std::string& name, const std::string& shown) {
  if (wanted.pattern) return wanted.pattern->Finds(name);
  if (!wanted.glob) return name == wanted.text || shown == wanted.text;
  return MatchesGlob(wanted.text, name) || MatchesGlob(wanted.text, shown);
}

Result<void> ForEachLayer(const runs::Source& source,
                          const std::function<bool(int64_t, const std::string&)>& visit) {
  MPN_TRY_ASSIGN(auto rows,
                 source.database->Prepare(
                     "SELECT layer_id, name FROM layer WHERE run_id=?1 ORDER BY layer_id"));
  rows.Bind(1, *source.run.handle.run_id);
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    // A costly pattern over long names: SQLite's own check does not see the time spent here.
    MPN_TRY(source.database->cancel().Check());
    if (source.database->time_is_up()) {
      return DeadlineExceeded("The layers' names took too long to match.",
                              "Name the layers, or write a simpler pattern.");
    }
    if (!visit(rows.IntOr(0, 0), rows.TextOr(1))) return {};
  }
}

Result<std::vector<Wanted>> ReadPatterns(const std::vector<std::string>& patterns) {
  if (patterns.size() > kMaxPatterns) {
    return InvalidInput(
        "`layers` has " + std::to_string(patterns.size()) + " entries, more than " +
            std::to_string(kMaxPatterns) + ".",
        "A glob (\"blocks.*\") or a regular expression (\"/attn|mlp/\") says more.");
  }
  std::vector<Wanted> wanted;
  for (const std::string& text : patterns) {
    Wanted one;
    one.text = text;
    one.glob = text.find_first_of("*?") != std::string::npos;
    if (text.size() >= 2 && text.front() == '/' && text.back() == '/') {
      auto pattern = Pattern::Create(std::string_view(text).substr(1, text.size() - 2));
      if (!pattern) return pattern.error();
      one.pattern = *std::move(pattern);
    }
    wanted.push_back(std::move(one));
  }
  return wanted;
}

Error NothingFits(const std::vector<std::string>& patterns, const std::vector<std::string>& names) {
  std::string shown = "'" + EscapeControl(patterns.front(), 100) + "'";
  if (patterns.size() > 1) shown += " or " + runs::Count(int64_t(patterns.size()) - 1, "other");
  std::string near;
  for (const std::string& pattern : patterns) {
    if (near.empty()) near = DidYouMean(pattern, names);
  }
  if (near.empty() && !names.empty()) {
    near = "Its layers begin with '" + names.front() + "'" +
           (names.size() > 1 ? ", '" + names[1] + "'" : "") +
           "; globs are matched with the whole name: '*attn*'.";
  }
  return NotFound("No layer of this run fits " + shown + ".",
                  names.empty() ? "It has no layers: only the metrics of steps (loss, lr, "
                                  "loss_scale, grad_norm) can be asked for."
                                : near);
}

}  // namespace

bool LayerChoice::Holds(int64_t layer_id) const {
  return all || std::binary_search(ids.begin(), ids.end(), layer_id);
}

Result<LayerChoice> ChooseLayers(const runs::Source& source,
                                 const std::vector<std::string>& patterns) {
  LayerChoice choice;
  if (patterns.empty()) return choice;
  choice.all = false;
  MPN_TRY_ASSIGN(auto wanted, ReadPatterns(patterns));
  std::vector<std::vector<int64_t>> parts(wanted.size());  // of modules named as a whole
  std::vector<std::string> names;
  MPN_TRY(ForEachLayer(source, [&](int64_t id, const std::string& name) {
    const std::string shown = IsPlain(name) ? name : EscapeControl(name);
    if (names.size() < kNamesForSuggestions) names.push_back(name.substr(0, kNameBytes));
    for (size_t i = 0; i < wanted.size(); ++i) {
      Wanted& one = wanted[i];
      if (Fits(one, name, shown)) {
        ++one.fits;
        choice.ids.push_back(id);
      } else if (!one.pattern && !one.glob && IsPart(name, one.text)) {
        parts[i].push_back(id);
      }
    }
    return true;
  }));
  for (size_t i = 0; i < wanted.size(); ++i) {
    Wanted& one = wanted[i];
    if (one.fits > 0) continue;
    one.fits = static_cast<int64_t>(parts[i].size());
    choice.ids.insert(choice.ids.end(), parts[i].begin(), parts[i].end());
  }
  for (std::string& name : names) {
    if (!IsPlain(name)) name = runs::Name(name);
  }
  if (choice.ids.empty()) return NothingFits(patterns, names);
  for (const Wanted& one : wanted) {
    if (one.fits > 0 || choice.notes.size() >= 3) continue;
    const std::string near = one.pattern ? "" : DidYouMean(one.text, names);
    choice.notes.push_back("No layer fits '" + EscapeControl(one.text, 100) + "'." +
                           (near.empty() ? "" : " " + near));
  }
  std::sort(choice.ids.begin(), choice.ids.end());
  choice.ids.erase(std::unique(choice.ids.begin(), choice.ids.end()), choice.ids.end());
  return choice;
}

std::string_view BlockOf(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, dot - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) {
      return name.substr(0, dot);
    }
    begin = dot + 1;
  }
  return name.substr(0, name.find('.'));
}

Result<Blocks> ReadBlocks(const runs::Source& source, const LayerChoice& choice) {
  Blocks blocks;
  std::unordered_map<std::string, int> places;
  MPN_TRY(ForEachLayer(source, [&](int64_t id, const std::string& name) {
    if (!choice.Holds(id)) return true;
    const std::string block(BlockOf(name).substr(0, kNameBytes));
    const auto [place, fresh] = places.try_emplace(block, static_cast<int>(blocks.names.size()));
    if (fresh) blocks.names.push_back(block);
    blocks.of_layer[id] = place->second;
    return true;
  }));
  return blocks;
}

}  // namespace mpnanny::query_stats
