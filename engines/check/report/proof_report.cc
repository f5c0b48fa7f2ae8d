#include "engines/check/report/proof_report.h"

#include <array>
#include <cmath>
#include <string_view>

#include "base/text.h"

namespace mpnanny::check {
namespace {

struct VerdictWords {
  const char* name;  // in JSON
  const char* words;
};
// By ProofVerdict.
constexpr std::array<VerdictWords, 3> kVerdicts = {{{"proven", "proven"},
                                                    {"not_at_these_inputs", "not at these inputs"},
                                                    {"not_tried", "not tried"}}};

Json Figure(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

}  // namespace

Json ProofJson(const Proof& proof) {
  Json json = {{"verdict", kVerdicts[static_cast<size_t>(proof.verdict)].name},
               {"why", EscapeControl(proof.why, kMostWhyBytes)}};
  if (proof.error) json["error"] = Figure(*proof.error);
  if (proof.error_in_fp32) json["error_in_fp32"] = Figure(*proof.error_in_fp32);
  for (const auto& [key, text] : {std::pair{"raises", &proof.raises},
                                  {"dtype", &proof.dtype},
                                  {"entry_point", &proof.entry},
                                  {"inputs", &proof.inputs}}) {
    if (!text->empty()) json[key] = EscapeControl(*text, kMostInputsBytes);
  }
  return json;
}

Json ProofSchema() {
  const Json text = {{"type", "string"}};
  const Json number = {{"type", {"number", "string"}}};
  Json verdicts = Json::array();
  for (const VerdictWords& each : kVerdicts) verdicts.push_back(each.name);
  return {{"type", "object"},
          {"description",
           "With `prove`: what came of running it. error, error_in_fp32: relative, against FP64."},
          {"properties",
           {{"verdict", {{"type", "string"}, {"enum", verdicts}}},
            {"why", text},
            {"error", number},
            {"error_in_fp32", number},
            {"raises", text},
            {"dtype", text},
            {"entry_point", text},
            {"inputs", text}}},
          {"required", {"verdict", "why"}}};
}

std::string ProofText(const Json& proof) {
  std::string text;
  for (const VerdictWords& each : kVerdicts) {
    if (proof["verdict"] == each.name) text = each.words;
  }
  return text + ": " + proof["why"].get<std::string>();
}

std::string ProofCounts(const Json& items) {
  std::array<int, kVerdicts.size()> counts = {};
  int all = 0;
  for (const Json& item : items) {
    const auto proof = item.find("proof");
    if (proof == item.end()) continue;
    ++all;
    for (size_t at = 0; at < kVerdicts.size(); ++at) {
      if ((*proof)["verdict"] == kVerdicts[at].name) ++counts[at];
    }
  }
  if (all == 0) return "";
  std::string text;
  for (size_t at = 0; at < kVerdicts.size(); ++at) {
    text +=
        std::string(at == 0 ? "" : ", ") + std::to_string(counts[at]) + " " + kVerdicts[at].words;
  }
  return "Put to the test: " + text + ".\n";
}

}  // namespace mpnanny::check
