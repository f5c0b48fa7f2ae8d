#include "engines/cases/versions.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace mpnanny::cases {
namespace {

constexpr std::string_view kVersionOperators[] = {">=", "<=", "==", "<", ">"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsVersion(std::string_view text) {
  return !text.empty() && IsDigit(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsDigit(c) || c == '.' || (c >= 'a' && c <= 'z'); });
}

bool IsPackage(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '.';
  });
}

// The version that `text` has at `at`: digits and points, without a point that ends a sentence.
std::string_view VersionAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '.')) ++end;
  while (end > at && text[end - 1] == '.') --end;
  return text.substr(at, end - at);
}

// Versions that `lower` names behind `name` and a blank, as "torch 2.13".
std::vector<std::string_view> NamedVersions(std::string_view lower, std::string_view name) {
  std::vector<std::string_view> versions;
  for (size_t at = lower.find(name); at != std::string_view::npos; at = lower.find(name, at + 1)) {
    const size_t after = at + name.size();
    const bool whole = at == 0 || !IsPackage(lower.substr(at - 1, 1));
    if (!whole || after + 1 >= lower.size() || lower[after] != ' ') continue;
    const std::string_view version = VersionAt(lower, after + 1);
    if (version.find('.') != std::string_view::npos) versions.push_back(version);
  }
  return versions;
}

}  // namespace

Result<AffectedVersions> ParseAffectedVersions(std::string_view text) {
  const auto wrong = [&] {
    return InvalidInput("'" + EscapeControl(text, 80) + "' in 'versions' is not understood.",
                        "Write a package with its bounds: torch>=2.9 or torch>=2.9,<2.12.");
  };
  AffectedVersions affected;
  const size_t name_end = text.find_first_of("<>=");
  affected.package = std::string(text.substr(0, name_end));
  if (name_end == std::string_view::npos || !IsPackage(affected.package) || text.back() == ',') {
    return wrong();
  }
  for (std::string_view rest = text.substr(name_end); !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view bound = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto* const op = std::find_if(std::begin(kVersionOperators), std::end(kVersionOperators),
                                        [&](auto each) { return bound.starts_with(each); });
    if (op == std::end(kVersionOperators) || !IsVersion(bound.substr(op->size()))) return wrong();
    affected.bounds.push_back({std::string(*op), std::string(bound.substr(op->size()))});
  }
  return affected;
}

Result<VerifiedVersion> ParseVerifiedVersion(std::string_view text) {
  constexpr std::string_view kSource = " (source)";
  VerifiedVersion verified;
  std::string_view rest = text;
  if (rest.ends_with(kSource)) {
    verified.from_source = true;
    rest.remove_suffix(kSource.size());
  }
  const size_t blank = std::min(rest.find(' '), rest.size());
  verified.package = std::string(rest.substr(0, blank));
  verified.version = std::string(rest.substr(std::min(blank + 1, rest.size())));
  if (IsPackage(verified.package) && IsVersion(verified.version)) return verified;
  return InvalidInput("'" + EscapeControl(text, 80) + "' in 'verified_with' is not understood.",
                      "Write what was run, torch 2.13.0, or read: transformers 5.0 (source).");
}

int CompareVersions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const auto next = [](std::string_view& version) {
      const size_t end = std::min(version.find('.'), version.size());
      int number = 0;
      std::from_chars(version.data(), version.data() + end, number);
      version.remove_prefix(std::min(end + 1, version.size()));
      return number;
    };
    const int left = next(a);
    const int right = next(b);
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

std::vector<std::string> UnverifiedClaims(const Case& one) {
  std::vector<VerifiedVersion> verified;
  for (const std::string& text : one.verified_with) {
    if (auto read = ParseVerifiedVersion(text)) verified.push_back(*std::move(read));
  }
  std::vector<std::string> claims;
  for (const std::string& text : one.versions) {
    const auto affected = ParseAffectedVersions(text);
    if (!affected) continue;
    const auto with = std::find_if(verified.begin(), verified.end(), [&](const auto& each) {
      return each.package == affected->package;
    });
    if (with == verified.end()) {
      claims.push_back("it depends on " + text + ", and verified_with does not name " +
                       affected->package + ".");
      continue;
    }
    for (const AffectedVersions::Bound& bound : affected->bounds) {
      if (CompareVersions(bound.version, with->version) <= 0) continue;
      claims.push_back("it depends on " + text + ", and was verified with " + with->version +
                       " only.");
    }
  }
  const std::string lower = LowerCase(one.title + "\n" + one.symptom + "\n" + one.body);
  for (const VerifiedVersion& with : verified) {
    std::vector<std::string_view> named = NamedVersions(lower, with.package);
    if (with.package == "torch") {
      for (const std::string_view version : NamedVersions(lower, "pytorch")) {
        named.push_back(version);
      }
    }
    for (const std::string_view version : named) {
      if (CompareVersions(version, with.version) <= 0) continue;
      claims.push_back("its text names " + with.package + " " + std::string(version) +
                       ", and it was verified with " + with.version + " only.");
    }
  }
  return claims;
}

}  // namespace mpnanny::cases
