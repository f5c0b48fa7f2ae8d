#include "engines/check/map/map_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engines/check/report/report_text.h"

namespace mpnanny::check {
namespace {

constexpr size_t kMostOfAPath = 200, kMostOfAPlace = 220;

// Places that say the same in one file are one line of the map.
struct Line {
  std::string at;  // "train.py:12, 40, 88"
  std::string what;
};

constexpr size_t kParts = kMapParts.size();

std::array<std::vector<Line>, kParts> Lines(std::vector<MapPlace> places) {
  std::set<std::string> training;
  for (const MapPlace& place : places) {
    if (place.part == MapPart::kEntryPoints || place.part == MapPart::kScalers) {
      training.insert(place.path);
    }
  }
  std::stable_sort(places.begin(), places.end(), [&](const MapPlace& a, const MapPlace& b) {
    return std::tuple(!training.contains(a.path), std::string_view(a.path), a.line) <
           std::tuple(!training.contains(b.path), std::string_view(b.path), b.line);
  });
  std::array<std::vector<Line>, kParts> lines;
  std::map<std::tuple<MapPart, std::string, std::string>, size_t> known;
  constexpr size_t kMostLines = 4;  // of one line of the map
  std::map<std::pair<MapPart, size_t>, size_t> joined;
  for (const MapPlace& place : places) {
    const auto part = static_cast<size_t>(place.part);
    const std::string line = std::to_string(place.line);
    const auto [at, is_new] =
        known.emplace(std::tuple(place.part, place.path, place.what), lines[part].size());
    if (is_new) {
      lines[part].push_back({EscapeControl(place.path, kMostOfAPath) + ":" + line,
                             EscapeControl(place.what, kMostOfAPlace)});
      continue;
    }
    const size_t count = ++joined[{place.part, at->second}];
    if (count < kMostLines) lines[part][at->second].at += ", " + line;
    if (count == kMostLines) lines[part][at->second].at += ", …";
  }
  return lines;
}

}  // namespace

ToolOutput ShowMap(const Report& report, size_t answer_bytes) {
  const auto lines = Lines(report.map);
  std::array<size_t, kParts> shown = {};
  // One more of each part in turn, for as long as there is room.
  const bool whole = answer_bytes > 4 * kMapBytes;  // the command line asks for everything
  constexpr size_t kFrame = 700;                    // braces, counts, notes
  size_t room = whole ? answer_bytes : std::min(answer_bytes, kMapBytes);
  room -= std::min(room, kFrame);
  for (bool any = true; any;) {
    any = false;
    for (size_t part = 0; part < kParts; ++part) {
      if (shown[part] == lines[part].size()) continue;
      const Line& line = lines[part][shown[part]];
      const size_t bytes = DumpJson(Json{{"at", line.at}, {"what", line.what}}).size() + 2;
      if (bytes > room) continue;
      room -= bytes;
      ++shown[part];
      any = true;
    }
  }
  Json map = Json::object(), left_out = Json::object();
  for (size_t part = 0; part < kParts; ++part) {
    Json places = Json::array();
    for (size_t at = 0; at < shown[part]; ++at) {
      places.push_back({{"at", lines[part][at].at}, {"what", lines[part][at].what}});
    }
    if (const size_t rest = lines[part].size() - shown[part]; rest > 0) {
      left_out[kMapParts[part]] = rest;
    }
    map[kMapParts[part]] = std::move(places);
  }
  if (!left_out.empty()) map["left_out"] = std::move(left_out);
  Json structured = {{"findings", Json::array()},
                     {"files_scanned", report.files_scanned},
                     {"files_skipped", report.files_skipped},
                     {"notes", FirstNotes(report)},
                     {"map", std::move(map)}};
  std::string text =
      MapText(structured) + "Next: static_check without detail for what is wrong here.";
  return {std::move(structured), std::move(text)};
}

std::string MapText(const Json& structured) {
  const Json& map = structured["map"];
  std::string text;
  for (const char* const part : kMapParts) {
    if (map[part].empty()) continue;
    text += std::string(part) + ":\n";
    for (const Json& place : map[part]) {
      text +=
          "  " + place["at"].get<std::string>() + "  " + place["what"].get<std::string>() + "\n";
    }
    if (const Json& rest = ValueAt(map, {"left_out", part}); rest.is_number()) {
      text += "  " + DumpJson(rest) + " more\n";
    }
  }
  if (text.empty()) text = "Nothing here trains, lowers precision or saves what was trained.\n";
  for (const Json& note : structured["notes"]) text += "note: " + note.get<std::string>() + "\n";
  return text;
}

}  // namespace mpnanny::check
