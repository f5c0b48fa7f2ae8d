// A prompt as a data file: front matter (name, title, description, arguments, example) and text
// with {{argument}}.
//
// Free functions without state. prompts/README.md describes the format for authors.
#ifndef MPNANNY_SERVER_PROMPTS_PROMPT_FILE_H_
#define MPNANNY_SERVER_PROMPTS_PROMPT_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"
#include "server/registry.h"

namespace mpnanny {

// Reads one file; `path` is used for messages and must end with "/<name>.md". Fails on a missing or
// unknown field, on an argument that is declared and not used or used and not declared.
// `chinese`: prompts/<name>.zh.md, the same procedure in Chinese with a `title` of its own; with it
// the prompt takes an argument `language` (en or zh). It must use the same arguments.
Result<ServedPrompt> ParsePrompt(std::string_view text, const std::string& path,
                                 std::optional<std::string_view> chinese = std::nullopt);

// All prompts/*.md but README.md, each with its Chinese text, by name. A broken file is left out and named in the log.
std::vector<ServedPrompt> LoadPrompts(const DataFiles& data);

// `text` with every {{argument}} replaced by its value. A value is data from outside: it becomes a
// Markdown code span from which it cannot get out, control characters escaped. A line that names an
// argument without a value is left out.
std::string FillIn(std::string_view text, const std::map<std::string, std::string>& arguments);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_PROMPTS_PROMPT_FILE_H_
