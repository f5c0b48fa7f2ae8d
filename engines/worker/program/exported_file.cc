#include "engines/worker/program/exported_file.h"

#include <utility>

#include "base/os_file_view.h"
#include "engines/tensors/exported_program.h"
#include "engines/tensors/zip.h"
#include "engines/worker/file_tensors.h"
#include "engines/worker/program/program.h"

namespace mpnanny::worker {
namespace {

constexpr uint64_t kMostGraphBytes = uint64_t{512} << 20;
constexpr size_t kMostGraphDepth = 200;
constexpr int64_t kMajor = 8;  // of the schema that torch 2.8 to 2.13 write
constexpr char kSaveAgain[] = "Save the program with torch.export.save of torch 2.8 or later.";

[[noreturn]] void Fail(const std::string& message, const std::string& advice = kSaveAgain) {
  throw ModelProblem(message, advice);
}

template <typename T>
T Take(Result<T> result) {
  if (!result) Fail(result.error().Text());
  return *std::move(result);
}

Json ReadGraph(const tensor_files::ZipFile& zip) {
  for (const tensor_files::ZipMember& member : zip.members()) {
    if (member.name.find("data/aotinductor/") != std::string::npos) {
      Fail(
          "The file is a compiled package (AOTInductor): it holds native code and no operators "
          "that could be compared.",
          "Save the program with torch.export.save and give that file.");
    }
  }
  for (const tensor_files::ZipMember& member : zip.members()) {
    if (member.name.ends_with("serialized_exported_program.json"))
      Fail("The file was written by a torch before 2.8.");
    if (member.name.find("models/") == std::string::npos || !member.name.ends_with(".json"))
      continue;
    const auto text = Take(tensor_files::WholeMember(member, kMostGraphBytes));
    return Take(ParseJson(tensor_files::AsText(text), kMostGraphDepth));
  }
  Fail("The file holds no program (models/*.json).");
}

}  // namespace

ExportedFile ReadExportedFile(const std::string& path) {
  const FileView view = Take(FileView::Open(path));
  const auto zip = Take(tensor_files::ZipFile::Read(view.bytes()));
  Json program = ReadGraph(zip);
  const Json& major = ValueAt(program, {"schema_version", "major"});
  if (major != kMajor) {
    Fail("The program is written in version " + DumpJson(major) + " of the format, and " +
         std::to_string(kMajor) + " is read.");
  }
  ExportedFile file;
  FileTensors tensors;
  for (const auto& entry : Take(tensor_files::ReadExportedProgram(zip)).entries) {
    if (entry.problem.empty()) file.tensors[entry.key] = tensors.Make(entry);
  }
  if (!ValueAt(program, {"graph_module", "graph"}).is_object())
    Fail("The file describes no graph.");
  file.graph_module = std::move(program["graph_module"]);
  if (view.changed()) Fail("The file was cut short while it was read.", "Try again.");
  return file;
}

}  // namespace mpnanny::worker
