#include "engines/worker/program/exported.h"

#include "engines/worker/program/exported_converter.h"

namespace mpnanny::worker {

Program LoadExported(const std::string& path) {
  try {
    return exported_program::Converter(ReadExportedFile(path)).Convert();
  } catch (const Json::exception& error) {
    throw ModelProblem(std::string("The program's description is damaged: ") + error.what(),
                       "Save it again with torch.export.save.");
  } catch (const std::out_of_range&) {
    throw ModelProblem("The program's description is not whole.",
                       "Save it again with torch.export.save.");
  }
}

}  // namespace mpnanny::worker
