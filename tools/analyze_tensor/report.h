// The answer as text and as structuredContent.
//
// Free functions without state. Keys out of files come back escaped.
#ifndef MPNANNY_TOOLS_ANALYZE_TENSOR_REPORT_H_
#define MPNANNY_TOOLS_ANALYZE_TENSOR_REPORT_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "engines/runs/page.h"
#include "tools/analyze_tensor/advice.h"
#include "tools/analyze_tensor/analysis.h"

namespace mpnanny::analyze_tensor {

// One tensor.
Json OneJson(const tensor_files::Entry& entry, const Analysis& analysis, const Advice& advice,
             const std::vector<std::string>& cases, const std::vector<std::string>& notes);
std::string OneText(const tensor_files::Entry& entry, const Analysis& analysis,
                    const Advice& advice, const std::vector<std::string>& cases,
                    const std::vector<std::string>& notes);

// A file: the rows from `first` on that fit.
struct FileReport {
  Json structured;
  std::string text;
};
FileReport ReportFile(const tensor_files::TensorFile& file, const std::vector<Ranked>& ranked,
                      Format target, size_t first, size_t bytes);

Json AnalysisSchema();

// "float32[64, 128]"
std::string ShapeText(const tensor_files::Entry& entry);

}  // namespace mpnanny::analyze_tensor

#endif  // MPNANNY_TOOLS_ANALYZE_TENSOR_REPORT_H_
