#ifndef MPNANNY_TESTS_TENSOR_FILES_READ_ELEMENTS_H_
#define MPNANNY_TESTS_TENSOR_FILES_READ_ELEMENTS_H_

#include <string>
#include <vector>

#include "engines/tensors/elements.h"
#include "engines/tensors/tensor_file.h"

namespace mpnanny::tensor_files {

// Every element as FP64, in C order.
std::vector<double> AllElements(const TensorView& view);

// Opens with every path allowed.
Result<TensorFile> OpenAny(const std::string& path);

// nullptr if there is no such key.
const Entry* FindEntry(const std::vector<Entry>& entries, const std::string& key);

// An empty folder of this test's own, removed when the program ends.
std::string TestFolder(const std::string& name);
void WriteBytes(const std::string& path, const std::string& bytes);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_TESTS_TENSOR_FILES_READ_ELEMENTS_H_
