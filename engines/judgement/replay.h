// A tape judged again: the rows in their order, and to each question the answer that was given when
// it was recorded.
//
// Owns the judge; borrows the tape while it is made, and the run's LostChanges as a judge does:
// tapes of one run are replayed one after the other with the same ones, since a change that gets
// lost counts from the third step on.
#ifndef MPNANNY_ENGINES_JUDGEMENT_REPLAY_H_
#define MPNANNY_ENGINES_JUDGEMENT_REPLAY_H_

#include <cstddef>
#include <vector>

#include "engines/judgement/judge.h"
#include "engines/judgement/lost_changes.h"
#include "engines/judgement/tape.h"
#include "engines/judgement/why.h"

namespace mpnanny::judgement {

class Replay {
 public:
  // What was said of a result, or of whole numbers.
  struct Judged {
    size_t row = 0;  // of the tape, from 0
    Verdict verdict;
    double error = 0;    // 0 where there are no figures
    double came_in = 0;  // the largest error among what came in, of a result that is finite
    int origin = kNone;  // the finding whose error is in it
  };

  Replay(const Tape& tape, LostChanges& run);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  const Judge& judge() const { return judge_; }
  const Findings& findings() const { return judge_.findings(); }
  // The numbers of the findings that count, the worst first.
  const std::vector<int>& counting() const { return counting_; }
  const std::vector<Judged>& judged() const { return judged_; }
  // Questions to which the tape has no answer, as when the judge that recorded it had other
  // thresholds: answered as by a front end that does not know.
  int unanswered() const { return unanswered_; }

 private:
  void Take(const Tape& tape, size_t at);

  Judge judge_;
  std::vector<Judged> judged_;
  std::vector<int> counting_;
  int unanswered_ = 0;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_REPLAY_H_
