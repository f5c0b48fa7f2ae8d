#include "engines/runs/import/llm_c_line.h"

namespace mpnanny::imports {

std::optional<Figures> OfLlmC(std::string_view line) {
  if (!line.starts_with("s:")) return std::nullopt;
  Figures figures;
  size_t at = 2;
  figures.step = NumberAt(line, at);
  if (!IsCount(figures.step)) return std::nullopt;
  for (const auto& [key, into] :
       {std::pair(" trl:", &figures.loss), std::pair(" lr:", &figures.lr),
        std::pair(" norm:", &figures.grad_norm), std::pair(" tel:", &figures.eval_loss)}) {
    size_t value = line.find(key);
    if (value == std::string_view::npos) continue;
    value += std::string_view(key).size();
    *into = NumberAt(line, value);
  }
  if (!figures.loss && !figures.eval_loss) return std::nullopt;
  figures.eval_name = "tel";
  return figures;
}

}  // namespace mpnanny::imports
