#include "engines/runs/import/spoken.h"

#include <cctype>
#include <string>

#include "base/text.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kSentenceBytes = 600;  // longer lines are no sentences

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Where `word` stands as a word of its own; npos if nowhere.
size_t FindWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsWordCharacter(text[at - 1])) &&
        (end == text.size() || !IsWordCharacter(text[end]))) {
      return at;
    }
  }
  return std::string_view::npos;
}

template <size_t n>
bool HasWord(std::string_view text, const char* const (&words)[n]) {
  for (const char* word : words) {
    if (FindWord(text, word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string_view> SpokenFault(std::string_view line) {
  if (line.size() > kSentenceBytes) return std::nullopt;
  const std::string lower = LowerCase(line);
  const std::string_view text(lower);
  if (text.find("no space left on device") != std::string_view::npos ||
      text.find("disk quota exceeded") != std::string_view::npos) {
    return "disk";
  }
  if (text.find("out of memory") != std::string_view::npos ||
      text.find("outofmemoryerror") != std::string_view::npos) {
    // "…to avoid out of memory" is advice.
    return HasWord(text, {"if", "avoid", "prevent", "may", "might", "could", "when"})
               ? std::nullopt
               : std::optional<std::string_view>("memory");
  }
  // "NaN loss detected", "Found nan in gradients, skipping", "non-finite loss, stopping".
  if (!HasWord(text, {"nan", "nans", "inf", "infs", "non-finite", "nonfinite", "infinite"})) {
    return std::nullopt;
  }
  if (!HasWord(text, {"loss", "losses", "grad", "grads", "gradient", "gradients", "grad_norm",
                      "activation", "activations", "logits", "weights", "output"})) {
    return std::nullopt;
  }
  if (!HasWord(text, {"detected", "encountered", "found", "skip", "skipping", "skipped", "stopping",
                      "aborting", "ignoring", "became"})) {
    return std::nullopt;
  }
  // Conditions, counts of none, settings and code are no reports.
  if (HasWord(text,
              {"if", "when", "unless", "whether", "no", "not", "without", "check", "false", "true",
               "none", "def", "will", "enabled", "disabled", "raise", "iterations"})) {
    return std::nullopt;
  }
  return "nonfinite";
}

}  // namespace mpnanny::imports
