#include "engines/judgement/calls.h"

#include <algorithm>
#include <set>

#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {

std::vector<KnownInput*> CallRecord::SourcesOf(int position) {
  std::vector<KnownInput*> sources;
  for (KnownInput& each : inputs) {
    const bool fits =
        position == kNone || each.row.position == kNone || each.row.position == position;
    if (each.row.read && fits) sources.push_back(&each);
  }
  return sources;
}

void Calls::Add(Place place) {
  const auto [known, is_new] = first_.try_emplace(place.Key(), static_cast<int>(places_.size()));
  same_.push_back(known->second);
  schemas_.push_back(place.Schema());
  places_.push_back(std::move(place));
}

void Calls::Add(const Call& call) {
  const auto at = static_cast<size_t>(call.number);
  if (records_.size() <= at) records_.resize(at + 1);
  CallRecord& record = records_[at];
  record.place = call.place;
  record.kept = call.kept;
  record.inputs.reserve(call.inputs.size());
  for (const Input& each : call.inputs) {
    const auto known = memories_.find(each.memory);
    record.inputs.push_back({each, known == memories_.end() ? Memory{} : known->second});
  }
}

std::optional<CameIn> Calls::CameInBefore(int number) const {
  const auto error_of = [&](const KnownInput& each) { return (*this)[each.before.producer].error; };
  const KnownInput* found = nullptr;
  int made = number;
  for (int i = 0; i < kMostCalls; ++i) {
    const KnownInput* worst = nullptr;
    if ((*this)[made].kept) {
      for (const KnownInput& each : (*this)[made].inputs) {
        if (each.before.producer == kNone) continue;
        if (worst == nullptr || error_of(each) > error_of(*worst)) worst = &each;
      }
    }
    if (worst == nullptr || error_of(*worst) <= 0) break;
    if (found != nullptr && error_of(*worst) < kCameIn * error_of(*found)) break;
    found = worst;
    made = worst->before.producer;
  }
  if (found == nullptr) return std::nullopt;
  const CallRecord& record = (*this)[made];
  return CameIn{record.place, TypesOf(made, found->row.type), record.error};
}

std::optional<CameIn> Calls::CameInTo(const Memory& memory, Element type) const {
  if (memory.producer == kNone) return std::nullopt;
  const CallRecord& made = (*this)[memory.producer];
  std::optional<CameIn> before = CameInBefore(memory.producer);
  if (before && before->error >= kCameIn * made.error) return before;
  return CameIn{made.place, TypesOf(memory.producer, type), made.error};
}

std::vector<std::pair<std::string, std::string>> Calls::LinesBefore(int number) const {
  std::vector<std::pair<std::string, std::string>> lines;
  const std::string own = PlaceOfCall(number).Source();
  std::vector<int> level = {number};
  std::set<int> seen = {number};
  while (!level.empty() && lines.size() < kMostLines && seen.size() < kMostCalls) {
    std::set<int, std::greater<>> made;
    for (const int each : level) {
      if (!(*this)[each].kept) continue;
      for (const KnownInput& input : (*this)[each].inputs) {
        const int producer = input.before.producer;
        if (producer != kNone && !seen.contains(producer)) made.insert(producer);
      }
    }
    level.assign(made.begin(), made.end());
    seen.insert(made.begin(), made.end());
    for (const int each : level) {
      const Place& place = PlaceOfCall(each);
      const std::string source = place.Source();
      const bool is_told = std::any_of(lines.begin(), lines.end(),
                                       [&](const auto& line) { return line.second == source; });
      if (source.empty() || source == own || is_told) continue;
      lines.emplace_back(place.forward.empty() ? place.op : place.forward, source);
    }
  }
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  return lines;
}

std::string Calls::TypesOf(int number, Element made) const {
  std::vector<Element> types;
  if ((*this)[number].kept) {
    for (const KnownInput& each : (*this)[number].inputs) types.push_back(each.row.type);
  }
  return TypeWords(types, made);
}

std::string TypeWords(const std::vector<Element>& inputs, Element made) {
  constexpr size_t kMostTypes = 3;
  std::vector<Element> kinds;
  for (const Element each : inputs) {
    if (std::find(kinds.begin(), kinds.end(), each) == kinds.end()) kinds.push_back(each);
  }
  const std::string own = NameOf(made);
  if (kinds.empty() || (kinds.size() == 1 && kinds[0] == made)) return own;
  std::string words;
  for (size_t at = 0; at < kinds.size() && at < kMostTypes; ++at) {
    words += (at > 0 ? ", " : "") + std::string(NameOf(kinds[at]));
  }
  return words + " → " + own;
}

}  // namespace mpnanny::judgement
