#include "engines/runs/import/whose_line.h"

#include <algorithm>
#include <cctype>

#include "engines/runs/import/characters.h"

namespace mpnanny::imports {
namespace {

bool SaysEvaluation(const std::string& lower) {
  if (lower.find("train") != std::string::npos) return false;
  for (const char* phrase : {"validation", "validate step", "valid on", "evaluation", "evaluating",
                             "| valid", "eval:", "[eval", "test set", "test:"}) {
    if (lower.find(phrase) != std::string::npos) return true;
  }
  return false;
}

bool IsTagOfEvaluation(std::string_view word) {
  for (const std::string_view tag : {"val", "valid", "validation", "validating", "test", "testing",
                                     "eval", "evaluation", "evaluating", "dev", "验证", "验证集",
                                     "测试", "测试集", "评估", "検証", "テスト", "검증"}) {
    if (word == tag) return true;
  }
  return false;
}

// "VALID Batch 0100/105, Loss 5.9", "[Test] epoch 3 loss 2.1", behind a logger's prefix as well: a
// word before every figure says whose the line is. "val: 0.3" is a figure.
bool IsTaggedEvaluation(const std::string& lower) {
  const auto of_word = [](char c) {
    return IsAlpha(c) || IsDigit(c) || static_cast<unsigned char>(c) >= 0x80 || c == '_' ||
           c == '/' || c == '.';
  };
  const std::string_view line(lower);
  const std::string_view before = line.substr(0, line.find("loss"));
  for (size_t at = 0; at < before.size();) {
    if (!of_word(before[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < before.size() && of_word(before[end])) ++end;
    const std::string_view word = before.substr(at, end - at);
    if (word == "train" || word == "training") return false;
    const size_t last = at == 0 ? std::string_view::npos : before.find_last_not_of(" \t", at - 1);
    const char left = last == std::string_view::npos ? '-' : before[last];
    const size_t next = before.find_first_not_of(" \t", end);
    const char right = next == std::string_view::npos ? ' ' : before[next];
    const bool figure =
        (right == ':' || right == '=') && next + 1 < before.size() &&
        IsDigit(before[std::min(before.find_first_not_of(' ', next + 1), before.size() - 1)]);
    size_t word_end = next == std::string_view::npos ? before.size() : next;
    while (word_end < before.size() && IsAlpha(before[word_end])) ++word_end;
    // "val acc 0.5" is a figure as well.
    const std::string_view then =
        before.substr(std::min(next, before.size()), word_end - std::min(next, before.size()));
    const bool goes_on = then.empty() || then == "batch" || then == "epoch" || then == "step" ||
                         then == "iter" || then == "iteration" || then == "in" || then == "on" ||
                         then == "set" || then == "at" || then == "after";
    // Languages that write without blanks.
    if (static_cast<unsigned char>(word[0]) >= 0x80 && IsTagOfEvaluation(word)) return true;
    const bool begins = left == '-' || left == ']' || left == '>' || left == ':' || left == '[' ||
                        left == '(' || left == '*' || left == '=';
    if (begins && goes_on && !figure && IsTagOfEvaluation(word)) return true;
    at = end;
  }
  return false;
}

}  // namespace

bool IsEvaluation(const std::string& lower) {
  return SaysEvaluation(lower) || IsTaggedEvaluation(lower);
}

bool IsOfSummary(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("wandb: ");
}

}  // namespace mpnanny::imports
