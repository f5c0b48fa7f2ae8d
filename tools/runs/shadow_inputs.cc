#include "tools/runs/shadow_inputs.h"

#include <cmath>
#include <vector>

#include "base/text.h"
#include "tools/runs/operator_words.h"
#include "tools/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kInputPlaceBytes = 80;
constexpr double kSameOperand = 0.05;  // what 16 bits round is no news

// "0.5", or "0 (in FP64 3.2e-10)" where the reference is another number.
std::string OperandText(const ShadowOperand& operand) {
  const std::string held = Number(operand.held, 4);
  const std::string reference = Number(operand.reference, 4);
  const double apart = std::fabs(operand.held - operand.reference);
  const bool same = held == reference || apart <= kSameOperand * std::fabs(operand.reference);
  return same ? held : held + " (in FP64 " + reference + ")";
}

// "What goes in comes from utils.py:56 (division) and utils.py:44 (index)."
std::string InputsFrom(const ShadowFinding& finding) {
  std::vector<std::string> words;
  for (const ShadowLine& line : finding.inputs_from) {
    words.push_back(ShownPlace(line.source) + " (" + OperatorWord(line.op) + ")");
  }
  if (words.empty()) return "";
  const std::string last = words.back();
  words.pop_back();
  return "What goes in comes from " + (words.empty() ? last : Join(words, ", ") + " and " + last) + ".";
}

std::string FirstElement(const ShadowFinding& finding) {
  std::vector<std::string> words;
  for (const ShadowOperand& operand : finding.operands) words.push_back(OperandText(operand));
  if (words.empty()) return "";
  const std::string last = words.back();
  words.pop_back();
  return "What went into the first such element: " +
         (words.empty() ? last : Join(words, ", ") + " and " + last) + ".";
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

std::string InputsText(const ShadowFinding& finding) {
  const std::string first = FirstElement(finding), from = InputsFrom(finding);
  return first + (first.empty() || from.empty() ? "" : " ") + from;
}

}  // namespace mpnanny::runs
