// Rows of an answer, as many as fit a model's context window: the JSON and the text tell the same
// rows.
//
// A value owned by one call.
#ifndef MPNANNY_ENGINES_RUNS_PAGE_H_
#define MPNANNY_ENGINES_RUNS_PAGE_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/json.h"
#include "engines/call_context.h"

namespace mpnanny::runs {

// What `detail: "full"` widens an answer to; the command line has no limit anyway.
inline constexpr size_t kFullAnswerBytes = 64'000;

// How large text and structuredContent may each be, for a call with this `detail`.
inline size_t AnswerBytes(const Json& arguments, const ToolContext& context) {
  return arguments.value("detail", "concise") == "full"
             ? std::max(context.answer_bytes, kFullAnswerBytes)
             : context.answer_bytes;
}

// The `detail` property of an input schema.
inline Json DetailProperty() {
  return {{"type", "string"},
          {"enum", {"concise", "full"}},
          {"default", "concise"},
          {"description", "\"full\" allows an answer of about 64 KB instead of 8 KB."}};
}

class Page {
 public:
  // `bytes`: the limit of each form; `reserved`: what the rest of the answer takes of it.
  Page(size_t bytes, size_t reserved) : left_(bytes > reserved ? bytes - reserved : 0) {}

  // Adds the row if both of its forms fit. The first row is always taken: a page must make
  // progress.
  bool Add(Json row, const std::string& line) {
    const size_t json_bytes = DumpJson(row).size() + 1;
    const size_t text_bytes = line.size() + 1;
    if (!rows_.empty() && (json_bytes_ + json_bytes > left_ || text_.size() + text_bytes > left_)) {
      return false;
    }
    json_bytes_ += json_bytes;
    text_ += line + "\n";
    rows_.push_back(std::move(row));
    return true;
  }

  size_t size() const { return rows_.size(); }
  Json TakeRows() { return std::move(rows_); }
  const std::string& text() const { return text_; }

 private:
  size_t left_;
  size_t json_bytes_ = 0;
  Json rows_ = Json::array();
  std::string text_;
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_PAGE_H_
