#include "tools/diagnose_run/births.h"

#include <charconv>

namespace mpnanny::diagnose_run {
namespace {

constexpr std::string_view kTraced = "Traced at step ";
constexpr std::string_view kMade = " made ";
constexpr std::string_view kWentIn = "; what went in ";

// "aten.log.default" → "log", "aten._softmax" → "_softmax".
std::string ShortName(std::string_view name) {
  const size_t space = name.find('.');
  if (space != std::string_view::npos) name.remove_prefix(space + 1);
  return std::string(name.substr(0, name.find('.')));
}

// "aten.mul.Tensor in the backward pass of aten.log (train.py:57)"
void ParseWhere(std::string_view where, Birth& birth) {
  if (where.ends_with(')')) {
    const size_t open = where.rfind(" (");
    if (open != std::string_view::npos) {
      birth.place = std::string(where.substr(open + 2, where.size() - open - 3));
      where = where.substr(0, open);
    }
  }
  const size_t in = where.find(" in ");
  birth.op = ShortName(where.substr(0, in));
  if (in == std::string_view::npos) return;
  birth.backward = true;
  std::string_view of = where.substr(in + 4);
  constexpr std::string_view kPass = "the backward pass of ";
  if (of.starts_with(kPass)) birth.of = ShortName(of.substr(kPass.size()));
  // "in LogBackward0": the node of autograd alone is known.
  if (birth.of.empty()) birth.of = std::string(of);
}

void ParseMade(std::string_view made, Birth& birth) {
  const std::string_view counts = made.substr(0, made.find(" of "));
  birth.nan = counts.find("NaN") != std::string_view::npos;
  birth.posinf = counts.find("+Inf") != std::string_view::npos;
  birth.neginf = counts.find("-Inf") != std::string_view::npos;
  const size_t in = made.find(" elements in ");
  if (in != std::string_view::npos) {
    const std::string_view rest = made.substr(in + 13);
    birth.dtype = std::string(rest.substr(0, rest.find_first_of(" [")));
  }
}

void ParseWentIn(std::string_view went, Birth& birth) {
  if (went.starts_with("holds -Inf")) birth.inputs = Birth::Inputs::kMask;
  if (went.starts_with("holds infinities")) birth.inputs = Birth::Inputs::kInfinite;
  const size_t up = went.find("up to ");
  if (up == std::string_view::npos) return;
  const std::string_view number = went.substr(up + 6);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc()) birth.largest = value;
}

}  // namespace

std::vector<Birth> ParseBirths(std::string_view message) {
  std::vector<Birth> births;
  const size_t traced = message.find(kTraced);
  if (traced == std::string_view::npos) return births;
  message.remove_prefix(traced + kTraced.size());
  const size_t colon = message.find(": ");
  if (colon == std::string_view::npos) return births;
  message.remove_prefix(colon + 2);
  while (true) {
    const size_t made = message.find(kMade);
    const size_t went = message.find(kWentIn, made == std::string_view::npos ? 0 : made);
    if (made == std::string_view::npos || went == std::string_view::npos) return births;
    // The sentence ends with ". " or the message; numbers hold dots without a blank behind.
    size_t end = message.find(". ", went);
    if (end == std::string_view::npos) end = message.size();
    Birth birth;
    birth.text = std::string(message.substr(0, end));
    ParseWhere(message.substr(0, made), birth);
    ParseMade(message.substr(made + kMade.size(), went - made - kMade.size()), birth);
    ParseWentIn(message.substr(went + kWentIn.size(), end - went - kWentIn.size()), birth);
    births.push_back(std::move(birth));
    if (end + 2 >= message.size()) return births;
    message.remove_prefix(end + 2);
  }
}

}  // namespace mpnanny::diagnose_run
