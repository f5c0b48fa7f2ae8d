#include "engines/runs/shadow_inputs.h"

#include <cmath>
#include <vector>

#include "base/text.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kInputPlaceBytes = 80;
constexpr double kSameOperand = 0.05;  // what 16 bits round is no news

// "0.5", or "0 (in FP64 3.2e-10)" where the reference is another number.
Sentence OperandText(const ShadowOperand& operand) {
  const std::string held = Number(operand.held, 4);
  const std::string reference = Number(operand.reference, 4);
  const double apart = std::fabs(operand.held - operand.reference);
  const bool same = held == reference || apart <= kSameOperand * std::fabs(operand.reference);
  if (same) return held;
  return {Form("{0} (in FP64 {1})", "{0}（FP64 中为 {1}）"), {held, reference}};
}

// "What goes in comes from utils.py:56 (division) and utils.py:44 (index)."
Sentence InputsFrom(const ShadowFinding& finding) {
  std::vector<Sentence> words;
  for (const ShadowLine& line : finding.inputs_from) {
    words.push_back(
        {Form("{0} ({1})", "{0}（{1}）"), {ShownPlace(line.source), OperatorNoun(line.op)}});
  }
  if (words.empty()) return {};
  return {Form("What goes in comes from {0}.", "其输入来自 {0}。"), {Sentence::List(words)}};
}

Sentence FirstElement(const ShadowFinding& finding) {
  std::vector<Sentence> words;
  for (const ShadowOperand& operand : finding.operands) words.push_back(OperandText(operand));
  if (words.empty()) return {};
  return {Form("What went into the first such element: {0}.", "首个这样的元素的输入：{0}。"),
          {Sentence::List(words)}};
}

}  // namespace

std::string ShownPlace(std::string_view source) {
  const std::string shown = EscapeControl(source, 400);
  if (shown.size() <= kInputPlaceBytes) return shown;
  const size_t slash = shown.find('/', shown.size() - kInputPlaceBytes);
  size_t from = slash == std::string::npos ? shown.size() - kInputPlaceBytes : slash;
  while (from < shown.size() && (static_cast<unsigned char>(shown[from]) & 0xC0) == 0x80) ++from;
  return "…" + shown.substr(from);
}

Sentence InputsText(const ShadowFinding& finding) {
  Sentence text = FirstElement(finding);
  text += InputsFrom(finding);
  return text;
}

}  // namespace mpnanny::runs
