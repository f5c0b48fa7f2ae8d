// Changes that get lost: in-place operators on what outlives a step (weights, averages, counters,
// buffers), whose result is the value that was there before.
//
// One lost change means nothing: the next may be larger. So they are followed over the shadow steps
// of a run (LostChanges), and reported when a tensor keeps losing most of what it should change by.
// Where several lines write a weight in a step (StepChanges), it is also looked at what they come
// to together: a line may take back what another one has done right.
//
// LostChanges belongs to a run and outlives its steps; StepChanges belongs to a step.
#ifndef MPNANNY_ENGINES_JUDGEMENT_LOST_CHANGES_H_
#define MPNANNY_ENGINES_JUDGEMENT_LOST_CHANGES_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/findings.h"

namespace mpnanny::judgement {

// What rounds weights between the optimizer's steps: the operator in which the error came in.
struct RoundsWeights {
  Place place;
  CameIn came_in;
};

class LostChanges {
 public:
  // The same line and tensor over the shadow steps of the run.
  struct Course {
    int steps = 0;  // in which there was a change
    int lost = 0;   // the newest of these, without a break
    int since = 0;  // the first of those, as a training step
    double share = 0;
  };

  Course& CourseOf(const std::string& line) { return courses_[line]; }
  // Weights that lose nothing by staying where they are, as the newest shadow step has measured.
  std::set<std::string>& kept() { return kept_; }
  std::optional<RoundsWeights>& rounds_weights() { return rounds_weights_; }

 private:
  std::map<std::string, Course> courses_;
  std::set<std::string> kept_;
  std::optional<RoundsWeights> rounds_weights_;
};

class StepChanges {
 public:
  StepChanges(const Calls& calls, LostChanges& run, int step)
      : calls_(calls), run_(run), step_(step) {}

  void Take(const Change& row);
  void Take(const Together& row);
  void Take(const LostLine& row);
  void Take(const KeptAtRandom& row) { run_.kept().insert(row.name); }

  // Weights that several lines write as a whole, none of which has lost its own part.
  std::vector<std::string> SeveralLines() const;
  // What was lost in this step: the number of the line and tensor, or kNone and a weight's name.
  std::vector<std::pair<int, std::string>> Lost() const;
  // The step is over: findings of what has been lost for some time. `number`: theirs.
  std::vector<Finding> Finish(int number);

 private:
  // One tensor that one line changes, or that several lines change together.
  struct Line {
    int place = 0;
    int seen = kNone;
    std::string name;
    int64_t memory = kNone;
    Element type = Element::kFloat32;
    std::vector<int64_t> shape;
    int64_t numel = 0;
    double change = 0, lost = 0, kept = 0;
    std::string key;  // over steps
    LostLine measured;

    bool Stays() const;  // most of what should have changed it has left it as it was
    bool IsLost() const;
    bool IsWide() const;
  };
  struct Weight {
    std::set<int> places;
    size_t newest = 0;
    bool in_parts = false;
  };

  Finding FindingOf(const Line& line, const LostChanges::Course& course, int number) const;

  const Calls& calls_;
  LostChanges& run_;
  int step_;
  std::vector<Line> lines_;  // first those of single lines
  std::map<std::pair<int, std::string>, size_t> known_;
  std::map<std::string, Weight> weights_;
  std::unordered_map<int64_t, double> whole_;  // change of each memory
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_LOST_CHANGES_H_
