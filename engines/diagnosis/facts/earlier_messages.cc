#include "engines/diagnosis/facts/earlier_messages.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpnanny::diagnosis {
namespace {

using runs::NanOrigin;
using runs::Where;

constexpr std::string_view kTraced = "Traced at step ";
constexpr std::string_view kMade = " made ";
constexpr std::string_view kWentIn = "; what went in ";

// "aten.mul.Tensor in the backward pass of aten.log (train.py:57)"
void ParseWhere(std::string_view where, NanOrigin& origin) {
  if (where.ends_with(')')) {
    const size_t open = where.rfind(" (");
    if (open != std::string_view::npos) {
      origin.place = std::string(where.substr(open + 2, where.size() - open - 3));
      where = where.substr(0, open);
    }
  }
  const size_t in = where.find(" in ");
  origin.op = runs::ShortOperator(where.substr(0, in));
  if (in == std::string_view::npos) return;
  origin.backward = true;
  std::string_view of = where.substr(in + 4);
  constexpr std::string_view kPass = "the backward pass of ";
  if (of.starts_with(kPass)) origin.of = runs::ShortOperator(of.substr(kPass.size()));
  // "in LogBackward0": the node of autograd alone is known.
  if (origin.of.empty()) origin.of = std::string(of);
}

void ParseMade(std::string_view made, NanOrigin& origin) {
  const std::string_view counts = made.substr(0, made.find(" of "));
  origin.nan = counts.find("NaN") != std::string_view::npos;
  origin.posinf = counts.find("+Inf") != std::string_view::npos;
  origin.neginf = counts.find("-Inf") != std::string_view::npos;
  const size_t in = made.find(" elements in ");
  if (in != std::string_view::npos) {
    const std::string_view rest = made.substr(in + 13);
    origin.dtype = std::string(rest.substr(0, rest.find_first_of(" [")));
  }
}

void ParseWentIn(std::string_view went, NanOrigin& origin) {
  if (went.starts_with("holds -Inf")) origin.inputs = NanOrigin::Inputs::kMask;
  if (went.starts_with("holds infinities")) origin.inputs = NanOrigin::Inputs::kInfinite;
  const size_t up = went.find("up to ");
  if (up == std::string_view::npos) return;
  const std::string_view number = went.substr(up + 6);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc()) origin.largest = value;
}

// "Traced at step 61: aten.mul.Tensor (a.py:108) made 6 -Inf of 6 elements in float16 [6]; what
// went in is finite, up to 1. aten._softmax …"
std::vector<NanOrigin> ParseOrigins(std::string_view message) {
  std::vector<NanOrigin> origins;
  const size_t traced = message.find(kTraced);
  if (traced == std::string_view::npos) return origins;
  message.remove_prefix(traced + kTraced.size());
  const size_t colon = message.find(": ");
  if (colon == std::string_view::npos) return origins;
  message.remove_prefix(colon + 2);
  while (true) {
    const size_t made = message.find(kMade);
    const size_t went = message.find(kWentIn, made == std::string_view::npos ? 0 : made);
    if (made == std::string_view::npos || went == std::string_view::npos) return origins;
    // The sentence ends with ". " or the message; numbers hold dots without a blank behind.
    size_t end = message.find(". ", went);
    if (end == std::string_view::npos) end = message.size();
    NanOrigin origin;
    ParseWhere(message.substr(0, made), origin);
    ParseMade(message.substr(made + kMade.size(), went - made - kMade.size()), origin);
    ParseWentIn(message.substr(went + kWentIn.size(), end - went - kWentIn.size()), origin);
    origins.push_back(std::move(origin));
    if (end + 2 >= message.size()) return origins;
    message.remove_prefix(end + 2);
  }
}

std::optional<int64_t> Integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "8 of 8 gradients are not finite"
void ParseGradients(std::string_view message, runs::AlertDetail& detail) {
  const size_t end = message.find(" gradients are not finite");
  if (end == std::string_view::npos) return;
  const size_t stop = message.rfind(". ", end);
  const size_t begin = stop == std::string_view::npos ? 0 : stop + 2;
  const std::string_view counts = message.substr(begin, end - begin);
  const size_t of = counts.find(" of ");
  if (of == std::string_view::npos) return;
  detail.bad_gradients = Integer(counts.substr(0, of));
  detail.gradients = Integer(counts.substr(of + 4));
  detail.where = Where::kGradients;
}

}  // namespace

runs::AlertDetail ParseEarlierMessage(std::string_view message) {
  const auto says = [&](std::string_view words) {
    return message.find(words) != std::string_view::npos;
  };
  runs::AlertDetail detail;
  detail.operators = ParseOrigins(message);
  ParseGradients(message, detail);
  if (says("before this forward pass")) detail.where = Where::kWeightsBefore;
  if (says("in the code of its own forward")) detail.where = Where::kOwnCode;
  if (says("weights and gradient were finite")) {
    detail.where = Where::kOptimizer;
    detail.finite_before = true;
  }
  return detail;
}

}  // namespace mpnanny::diagnosis
