// The calls of one step: what went into each, and what is known of the memory that they wrote.
//
// Owns the records. Numbers are those of the tape.
#ifndef MPNANNY_ENGINES_JUDGEMENT_CALLS_H_
#define MPNANNY_ENGINES_JUDGEMENT_CALLS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engines/judgement/finding.h"
#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

// What is known of memory: of what its last call has made.
struct Memory {
  int producer = kNone;  // the call that wrote it last
  double error = 0;      // infinite where that is not finite
  int origin = kNone;    // the finding that the error comes from
  bool noise = false;    // the reference is 0 but for rounding: errors mean nothing
  double rounding = 0;   // as Result::rounding, of it and all before it
};

struct KnownInput {
  Input row;
  Memory before;  // as it was before the call
};

struct CallRecord {
  int place = kNone;
  bool kept = false;
  std::vector<KnownInput> inputs;
  double error = 0;           // of its newest result
  double worst = 0;           // of all its results
  double entered = 0;         // with which a loop over the same line was entered
  std::optional<double> fed;  // in a loop: the largest error of what was added to it on the way

  // What the result at `position` is made of: of lists the tensors at its position.
  std::vector<KnownInput*> SourcesOf(int position);
};

class Calls {
 public:
  void Add(Place place);
  void Add(const Call& call);

  CallRecord& operator[](int number) { return records_[static_cast<size_t>(number)]; }
  const CallRecord& operator[](int number) const { return records_[static_cast<size_t>(number)]; }
  Memory& MemoryOf(int64_t memory) { return memories_[memory]; }
  const Place& PlaceOf(int place) const { return places_[static_cast<size_t>(place)]; }
  const Place& PlaceOfCall(int number) const { return PlaceOf((*this)[number].place); }
  // The number of the first place with the same key.
  int SamePlace(int place) const { return same_[static_cast<size_t>(place)]; }
  const std::string& SchemaOf(int number) const {
    return schemas_[static_cast<size_t>((*this)[number].place)];
  }
  size_t places() const { return places_.size(); }

  // Where the error that a call works on came in: the call before it that made most of it, out of
  // less.
  std::optional<CameIn> CameInBefore(int number) const;
  // The same of what lies in memory, as elements of `type`: the call that wrote it last counts,
  // too.
  std::optional<CameIn> CameInTo(const Memory& memory, Element type) const;
  // The lines whose results led to the inputs of a call, as operator and line, the nearest first,
  // without its own.
  std::vector<std::pair<std::string, std::string>> LinesBefore(int number) const;
  // What a call made of what: "bfloat16", or "float32 → bfloat16".
  std::string TypesOf(int number, Element made) const;

 private:
  std::vector<Place> places_;
  std::vector<std::string> schemas_;
  std::vector<int> same_;
  std::map<std::string, int> first_;  // by key
  std::vector<CallRecord> records_;
  std::unordered_map<int64_t, Memory> memories_;
};

std::string TypeWords(const std::vector<Element>& inputs, Element made);

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_CALLS_H_
