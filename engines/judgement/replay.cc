#include "engines/judgement/replay.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "engines/judgement/comparison.h"
#include "engines/judgement/replayed_evidence.h"

namespace mpnanny::judgement {
namespace {

template <typename T>
constexpr bool kIsAsked = std::is_same_v<T, Result> || std::is_same_v<T, Indices>;

bool BelongsToAnswers(const Row& row) {
  return std::holds_alternative<Answer>(row) || std::holds_alternative<Figures>(row);
}

}  // namespace

Replay::Replay(const Tape& tape, LostChanges& run) : judge_(run, tape.step, tape.first_loss) {
  for (size_t at = 0; at < tape.rows.size(); ++at) Take(tape, at);
  counting_ = judge_.Finish();
}

void Replay::Take(const Tape& tape, size_t at) {
  const auto judge = [&](const auto& row) {
    using T = std::remove_cvref_t<decltype(row)>;
    if constexpr (kIsAsked<T>) {
      // Figures that an answer names stand before it.
      std::vector<const Answer*> answers;
      for (size_t next = at + 1; next < tape.rows.size() && BelongsToAnswers(tape.rows[next]);
           ++next) {
        if (const auto* answer = std::get_if<Answer>(&tape.rows[next])) answers.push_back(answer);
        if (const auto* figures = std::get_if<Figures>(&tape.rows[next])) judge_.Take(*figures);
      }
      ReplayedEvidence evidence(std::move(answers));
      judge_.Take(row, evidence);
      unanswered_ += evidence.unanswered();
      Judged judged{at, judge_.verdict()};
      if constexpr (std::is_same_v<T, Result>) {
        const ReferenceError* found = judge_.slots().At(row.slot);
        if (found != nullptr) judged.error = ErrorOf(*found);
        judged.came_in = judge_.calls()[row.call].entered;
        judged.origin = judge_.MemoryOf(row.memory).origin;
      } else {
        judged.error = row.share;
        judged.origin = judged.verdict.finding;
      }
      judged_.push_back(judged);
    } else if constexpr (!std::is_same_v<T, Answer>) {
      judge_.Take(row);
    }
  };
  std::visit(judge, tape.rows[at]);
}

}  // namespace mpnanny::judgement
