// The facts of a small project, read as a check reads them, and the expression that a test asks
// for.
#ifndef MPNANNY_TESTS_STATIC_CHECK_READ_PROJECT_H_
#define MPNANNY_TESTS_STATIC_CHECK_READ_PROJECT_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engines/check/unit.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {

// As tests name it: "fp16", "unseen".
inline std::string TypeName(Type type) {
  switch (type) {
    case Type::kUnseen:
      return "unseen";
    case Type::kUnknown:
      return "unknown";
    case Type::kNumber:
      return "number";
    case Type::kIndex:
      return "index";
    case Type::kFp32:
      return "fp32";
    case Type::kFp16:
      return "fp16";
    case Type::kBf16:
      return "bf16";
    case Type::kHalf:
      return "half";
  }
  return "";
}

class ReadProject {
 public:
  explicit ReadProject(std::vector<Source> sources)
      : sources_(std::move(sources)), units_(sources_.size()) {
    for (size_t i = 0; i < sources_.size(); ++i) {
      EXPECT_TRUE(ReadUnit(sources_[i], Rules(), false, {}, &units_[i]));
      files_.push_back(units_[i].facts.get());
      EXPECT_FALSE(files_[i]->syntax.has_error()) << sources_[i].text;
    }
    LinkFacts(files_, 1, &modules_);
    CompleteFacts(files_, 1, {});
  }
  explicit ReadProject(const std::string& code) : ReadProject({Source{"code.py", code}}) {}

  // Of the first source, in which probe(…) stands once.
  const FileFacts& file() const { return *files_[0]; }
  // What probe(…) is called with there.
  NodeId Probed() const {
    const auto calls = file().names.CallsNamed("probe");
    EXPECT_EQ(calls.size(), 1u) << file().syntax.text();
    return calls.empty() ? kNoNode : file().names.Argument(calls[0]->node, 0, "");
  }

 private:
  std::vector<Source> sources_;
  std::vector<Unit> units_;
  std::vector<FileFacts*> files_;
  Modules modules_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_TESTS_STATIC_CHECK_READ_PROJECT_H_
