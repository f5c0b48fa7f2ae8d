// A summary as one page of Markdown, to send on.
//
// Free functions without state. Names and texts out of a run are data: whatever characters they
// hold, they are shown as they are and make no markup.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_MARKDOWN_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_MARKDOWN_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mpnanny::summary {

// `structured` is what SummaryJson made.
std::string SummaryMarkdown(const Json& structured);

// Text that stays text: every character that could begin markup is escaped.
std::string MarkdownText(std::string_view text);
// Text as a code span, also within a cell of a table.
std::string MarkdownCode(std::string_view text);

// A line of the course's figures as CourseJson writes them: numbers, null, "nan".
std::string CourseLine(const Json& values);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_MARKDOWN_H_
