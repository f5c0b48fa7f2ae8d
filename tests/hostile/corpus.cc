#include "tests/hostile/corpus.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/text.h"

namespace mpnanny::hostile {
namespace {

std::string Repeat(const std::string& text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string Part(const Json& part) {
  if (part.is_string()) return part;
  if (part.contains("repeat")) return Repeat(part["repeat"], part["times"]);
  if (part.contains("hex")) return FromHex(part["hex"]);
  if (part.contains("utf16")) {
    std::string bytes;
    for (const char c : part["utf16"].get<std::string>()) bytes += {c, '\0'};
    return bytes;
  }
  if (part.contains("keys")) {
    std::string members;
    for (size_t i = 0; i < part["keys"].get<size_t>(); ++i) {
      members += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
    }
    return members;
  }
  ADD_FAILURE() << "no such part: " << DumpJson(part);
  return "";
}

std::string Shown(const std::string& line) { return EscapeControl(line, 600); }

Json At(const Json& json, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  return json.contains(at) ? json.at(at) : Json(nullptr);
}

// The text in which an answer explains itself.
std::string Explanation(const Json& answer) {
  const Json message = At(answer, "/error/message");
  const Json text = message.is_string() ? message : At(answer, "/result/content/0/text");
  return text.is_string() ? text.get<std::string>() : "";
}

std::string MismatchJson(const Json& expected, const Json& answer) {
  if (!answer.is_object() || answer.value("jsonrpc", Json()) != "2.0") return "no JSON-RPC 2.0";
  if (expected.contains("method")) {
    return answer.value("method", Json()) == expected["method"] ? "" : "another method";
  }
  if (answer.contains("method")) return "a request or notification";
  if (answer.contains("result") == answer.contains("error")) return "not one of result and error";
  Json id = expected.value("id", Json());
  if (id.is_object()) id = Part(id);
  if (!answer.contains("id") || answer["id"] != id) return "another id";
  if (expected.contains("error")) {
    if (At(answer, "/error/code") != expected["error"]) return "another error code";
    if (Explanation(answer).empty()) return "no message";
  } else {
    if (!answer.contains("result")) return "an error";
    const bool is_error = At(answer, "/result/isError") == true;
    if (is_error != expected.contains("isError")) return is_error ? "isError" : "no isError";
  }
  if (expected.contains("says") &&
      Explanation(answer).find(expected["says"].get<std::string>()) == std::string::npos) {
    return "it does not say \"" + expected["says"].get<std::string>() + "\"";
  }
  const Json has = expected.value("has", Json::object());
  for (const auto& [pointer, value] : has.items()) {
    if (At(answer, pointer) != value) return pointer + " is not " + DumpJson(value);
  }
  return "";
}

// `answers` fit `expected` in some order. Cases are written so that taking the first fit is right.
std::string MismatchAll(const Json& expected, std::vector<Json> answers) {
  for (const Json& each : expected) {
    std::string why = "nothing is left";
    bool found = false;
    for (size_t i = 0; i < answers.size() && !found; ++i) {
      why = MismatchJson(each, answers[i]);
      if (!why.empty()) continue;
      answers.erase(answers.begin() + static_cast<std::ptrdiff_t>(i));
      found = true;
    }
    if (!found) return "no answer is " + DumpJson(each) + "; the last one: " + why;
  }
  return answers.empty() ? "" : "nobody expected " + Shown(DumpJson(answers.front()));
}

}  // namespace

std::vector<Json> LoadCorpus(const std::string& file) {
  std::ifstream in(std::string(MPNANNY_SOURCE_DIR) + "/tests/hostile/" + file);
  std::vector<Json> cases;
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) {
    auto json = ParseJson(line);
    if (!json || !json->contains("name") || !json->contains("answer")) {
      ADD_FAILURE() << file << ": no case: " << Shown(line);
      continue;
    }
    EXPECT_TRUE(names.insert((*json)["name"]).second) << "twice: " << (*json)["name"];
    cases.push_back(*std::move(json));
  }
  return cases;
}

std::string Bytes(const Json& send) {
  if (send.is_object()) return DumpJson(send);
  if (!send.is_array()) return Part(send);
  std::string bytes;
  for (const Json& part : send) bytes += Part(part);
  return bytes;
}

std::string Mismatch(const Json& expected, const std::string& line) {
  if (line.size() > expected.value("most_bytes", line.size())) {
    return "an answer of " + std::to_string(line.size()) + " bytes: " + Shown(line);
  }
  const auto json = ParseJson(line);
  std::string why;
  if (!json) {
    why = "not JSON";
  } else if (!expected.contains("batch")) {
    why = MismatchJson(expected, *json);
  } else if (!json->is_array()) {
    why = "no batch";
  } else {
    why = MismatchAll(expected["batch"], {json->begin(), json->end()});
  }
  return why.empty() ? "" : why + ": " + Shown(line);
}

std::string Mismatch(const Json& expected, const std::vector<std::string>& lines) {
  if (!expected.is_array()) {
    return lines.size() == 1 ? Mismatch(expected, lines.front())
                             : std::to_string(lines.size()) + " answers";
  }
  std::vector<Json> answers;
  for (const std::string& line : lines) {
    auto json = ParseJson(line);
    if (!json) return "not JSON: " + Shown(line);
    answers.push_back(*std::move(json));
  }
  return MismatchAll(expected, std::move(answers));
}

size_t CountAnswers(const Json& answer) { return answer.is_array() ? answer.size() : 1; }

}  // namespace mpnanny::hostile
