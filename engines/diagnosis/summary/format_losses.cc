#include "engines/diagnosis/summary/format_losses.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/runs/samples.h"
#include "engines/runs/shadow.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::summary {
namespace {

using runs::ShadowProfileRow;

constexpr size_t kStepsTried = 8;  // of those that have a profile, the newest may have no figures

struct Column {
  const char* what;
  const char* word;
  std::optional<double> ShadowProfileRow::* figure;
  bool share;
};
constexpr Column kColumns[] = {
    {"fp16", "FP16", &ShadowProfileRow::fp16, false},
    {"bf16", "BF16", &ShadowProfileRow::bf16, false},
    {"e4m3", "E4M3", &ShadowProfileRow::e4m3, false},
    {"e5m2", "E5M2", &ShadowProfileRow::e5m2, false},
    {"fp16_overflow", "overflow", &ShadowProfileRow::fp16_overflow, true},
    {"fp16_underflow", "underflow", &ShadowProfileRow::fp16_underflow, true},
};

Result<FormatLosses> Worst(runs::Layers& layers, const std::vector<ShadowProfileRow>& rows) {
  FormatLosses losses;
  std::set<int64_t> measured;
  for (const ShadowProfileRow& row : rows) {
    if (row.fp16 || row.bf16) measured.insert(row.layer_id);
  }
  losses.layers = static_cast<int64_t>(measured.size());
  for (const Column& column : kColumns) {
    const ShadowProfileRow* worst = nullptr;
    for (const ShadowProfileRow& row : rows) {
      const auto& figure = row.*column.figure;
      if (!figure || (column.share && *figure <= 0)) continue;
      if (worst == nullptr || *figure > *(worst->*column.figure)) worst = &row;
    }
    if (worst == nullptr) continue;
    MPN_TRY_ASSIGN(auto layer, layers.Find(worst->layer_id));
    losses.worst.push_back(
        {column.what, *(worst->*column.figure), std::string(layer.name), worst->phase});
  }
  return losses;
}

const Column& ColumnOf(const FormatLosses::Worst& worst) {
  return *std::find_if(std::begin(kColumns), std::end(kColumns),
                       [&](const Column& column) { return worst.what == column.what; });
}

std::string Where(const FormatLosses::Worst& worst) {
  return (worst.layer.empty() ? "the model itself" : LayerWord(runs::Name(worst.layer))) +
         (worst.phase == 1 ? "'s gradient" : "");
}

}  // namespace

Result<std::optional<FormatLosses>> ReadFormatLosses(const runs::Source& source,
                                                     const std::vector<int64_t>& steps) {
  MPN_TRY_ASSIGN(auto profile, runs::ShadowProfile::Open(source));
  runs::Layers layers(source);
  size_t tried = 0;
  for (auto step = steps.rbegin(); step != steps.rend() && tried < kStepsTried; ++step, ++tried) {
    MPN_TRY_ASSIGN(auto rows, profile.At(*step));
    auto losses = Worst(layers, rows);
    if (!losses) return losses.error();
    if (losses->worst.empty()) continue;
    losses->step = *step;
    return std::optional(*std::move(losses));
  }
  return std::optional<FormatLosses>();
}

std::string FormatLossText(const std::optional<FormatLosses>& losses) {
  if (!losses) return "";
  std::vector<std::string> errors, shares;
  for (const FormatLosses::Worst& worst : losses->worst) {
    const Column& column = ColumnOf(worst);
    const std::string figure = runs::PercentText(worst.figure);
    if (!column.share) {
      errors.push_back(std::string(column.word) + " " + figure + " (" + Where(worst) + ")");
    } else if (worst.what == "fp16_overflow") {
      shares.push_back("overflow in " + figure + " of " + Where(worst));
    } else {
      shares.push_back("round " + figure + " of " + Where(worst) + " to 0");
    }
  }
  std::string text = "What formats would lose (relative error of the worst of " +
                     runs::Count(losses->layers, "layer") + ", step " +
                     std::to_string(losses->step) + "): " + Join(errors, ", ") + ".";
  if (!shares.empty()) text += " FP16 would " + Join(shares, " and ") + ".";
  return text;
}

Json FormatLossJson(const std::optional<FormatLosses>& losses) {
  if (!losses) return nullptr;
  Json worst = Json::object();
  for (const FormatLosses::Worst& each : losses->worst) {
    worst[each.what] = {{ColumnOf(each).share ? "share" : "error", JsonNumber(each.figure, 3)},
                        {"layer", runs::Name(each.layer)},
                        {"phase", each.phase == 1 ? "backward" : "forward"}};
  }
  return {{"step", losses->step},
          {"layers", losses->layers},
          {"worst", std::move(worst)},
          {"text", FormatLossText(losses)}};
}

}  // namespace mpnanny::summary
