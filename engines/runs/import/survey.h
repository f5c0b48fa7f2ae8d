// What the records of a log have in common, looked at before they are recorded.
//
// A log prints its steps in records of one shape, again and again: what stands once (a
// configuration, a printed model, the means of a run) is no step, and neither are records of
// another shape (the mean of an epoch). A log is read twice therefore: first the survey sees every
// record, then it says of each what is a figure of the course, and where the counter goes back.
//
// A value owned by one reader.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_SURVEY_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_SURVEY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engines/runs/import/log_line.h"

namespace mpnanny::imports {

class Survey {
 public:
  // First reading: every record that the second will have, in the same order.
  void Add(const Figures& figures);
  // Between the two.
  void Settle();
  // Whether the records of the course say their steps. After Settle().
  bool numbered() const {
    return !course_.empty() && course_ != kNoCourse && course_.back() == '#';
  }
  // Second reading. Gives the loss of an evaluation's record back as one, takes from a record what
  // is no figure of the course, says of one with scores whether these are all that the log has, and
  // in `turn` whether the counter goes on, went back, or another run begins.
  void Judge(Figures& figures);

  // Sentences about what was taken away.
  void AddNotes(std::vector<std::string>& notes) const;

 private:
  struct Key {
    int64_t count = 0;
    int rank = 0;
    int64_t first = 0;   // record
    int64_t moment = 0;  // of the last: what stands twice between two steps counts once
  };
  static constexpr char kNoCourse[] = "#";
  using Keys = std::map<std::string, Key, std::less<>>;

  // Records without a break in their counter.
  struct Segment {
    int64_t record = 0;  // of the log: the first
    int64_t losses = 0;
    std::optional<double> first_step, last_step, first_epoch, last_epoch;
    std::optional<double> said_epoch;  // at its last record: by a line of its own
    double begins = 0, ends = 0;       // the loss there: means of a few
    double stride = 1;
    bool repeats = false;  // it begins at the very step at which the one before ended
  };
  // Records whose loss stands under one name, with or without a step beside it.
  struct Family {
    Key key;
    std::vector<Segment> segments;
    int64_t repeats = 0;
  };
  // Records of one name whose counters have several totals: "12/614" of the training and "12/88" of
  // the evaluation after each epoch, which come back again and again.
  struct Totals {
    std::map<double, Family> families;
    double last = 0, first = 0;
    int64_t returns = 0;
  };
  // Bars of progress that show no figure, by their totals: one goes on where it was after another
  // was drawn, which is one within it.
  struct Bare {
    double done = 0;
    int64_t goes_on = 0;
  };
  void Follow(Family& family, const Figures& figures);
  void AddTotal(const std::string& name, const Figures& figures);
  void AddBare(const Figures& figures);
  bool IsOfEvaluation(const Figures& figures) const;
  Turn TurnAt(const Segment& run, const Segment& before, const Segment& next, bool even) const;
  void FindTurns(const Family& course);
  bool Recurs(const Keys& keys, const std::string& key) const;

  int64_t records_ = 0, judged_ = 0, moment_ = 0, evaluations_ = 0;
  bool has_losses_ = false;
  std::map<std::string, Family, std::less<>> families_;
  std::map<std::string, Totals, std::less<>> totals_;  // by the family's name
  std::optional<double> course_total_;                 // where evaluations have another
  std::map<double, Bare> bare_;
  std::optional<double> last_bare_, outer_bar_;
  std::optional<double> said_epoch_;  // "Epoch 3/10" in a line without a figure
  Keys norms_, scales_, rates_, steps_;
  std::string course_, norm_, scale_, rate_;     // the chosen ones
  int64_t course_losses_ = 0, course_from_ = 0;  // records of it, and the first
  bool step_said_ = false;                       // by a record that was judged
  std::map<int64_t, Turn> turns_;                // by record
  std::map<std::string, int64_t> left_out_;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_SURVEY_H_
