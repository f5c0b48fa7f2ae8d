#include "engines/judgement/references.h"

#include <cmath>
#include <type_traits>
#include <variant>

#include "engines/judgement/fields.h"

namespace mpnanny::judgement {
namespace {

std::string NoSuch(const char* what, int number) {
  return std::string("there is no ") + what + " " + std::to_string(number) + " before it";
}

std::string TooLarge(const char* what, int number) {
  return std::string(what) + " " + std::to_string(number) + " is no number from 0 to " +
         std::to_string(kMostRows - 1);
}

bool IsNumber(int number) { return number >= 0 && number < kMostRows; }

// Whether all counts are such of elements.
template <typename Counts>
std::string CheckCounts(const Counts& found) {
  std::string wrong;
  Fields(found, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const int64_t&>) {
      if (value < 0 || value > kMostElements)
        wrong = std::string(name) + "=" + std::to_string(value) + " is no count of elements";
    }
  });
  return wrong;
}

}  // namespace

std::string References::Take(const Row& row) {
  return std::visit([this](const auto& each) { return Check(each); }, row);
}

std::string References::CheckCall(int call) const {
  const bool is_known = call >= 0 && static_cast<size_t>(call) < inputs_.size() &&
                        inputs_[static_cast<size_t>(call)] != kNone;
  return is_known ? "" : NoSuch("call", call);
}

std::string References::CheckPlace(int place) const {
  return place >= 0 && place < places_ ? "" : NoSuch("place", place);
}

std::string References::Check(const Place&) {
  ++places_;
  return "";
}

std::string References::Check(const Figures& row) const {
  return IsNumber(row.slot) ? CheckCounts(row.found) : TooLarge("slot", row.slot);
}

std::string References::Check(const Call& row) {
  if (!IsNumber(row.number)) return TooLarge("call", row.number);
  std::string wrong = CheckPlace(row.place);
  if (!wrong.empty()) return wrong;
  const auto at = static_cast<size_t>(row.number);
  if (inputs_.size() <= at) inputs_.resize(at + 1, kNone);
  inputs_[at] = static_cast<int>(row.inputs.size());
  return "";
}

std::string References::Check(const Leaves& row) const { return CheckPlace(row.place); }

std::string References::Check(const Formats& row) const { return CheckCounts(row.found); }

std::string References::Check(const Fed& row) const {
  std::string wrong = CheckCall(row.call);
  if (!wrong.empty()) return wrong;
  const bool is_known = row.input >= 0 && row.input < inputs_[static_cast<size_t>(row.call)];
  return is_known ? "" : "its call has no input " + std::to_string(row.input);
}

std::string References::Check(const Change& row) const {
  std::string wrong = CheckCall(row.call);
  return wrong.empty() ? CheckCounts(row.found) : wrong;
}

std::string References::Check(const Together& row) const { return CheckCounts(row.found); }

std::string References::Check(const Answer& row) const {
  std::string wrong = CheckCall(row.call);
  if (!wrong.empty()) return wrong;
  if (row.asked != Asked::kInput && row.asked != Asked::kIndexFigures) return "";
  if (row.numbers.size() != 1) return "the answer is one number, of a slot";
  const double slot = row.numbers.front();
  const bool is_slot = slot >= kNone && slot < kMostRows && slot == std::floor(slot);
  return is_slot ? "" : "the answer is no slot";
}

// Results and the like name the call that made them; all others nothing that a judge believes.
template <typename T>
std::string References::Check(const T& row) const {
  if constexpr (requires { row.call; }) return CheckCall(row.call);
  return "";
}

}  // namespace mpnanny::judgement
