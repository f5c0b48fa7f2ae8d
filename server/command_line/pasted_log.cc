#include "server/command_line/pasted_log.h"

#include <fstream>
#include <istream>
#include <utility>

namespace mpnanny {

PastedLog::PastedLog(TemporaryFolder folder)
    : folder_(std::move(folder)), path_(folder_.path() + "/stdin") {}

Result<PastedLog> PastedLog::Read(std::istream& in, uint64_t most) {
  auto folder = TemporaryFolder::Create();
  if (!folder) return std::move(folder).error();
  PastedLog log(*std::move(folder));
  std::ofstream file(log.path_, std::ios::binary);
  std::string block(1 << 16, '\0');
  uint64_t bytes = 0;
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    bytes += static_cast<uint64_t>(in.gcount());
    if (bytes > most) {
      return InvalidInput("stdin holds more than " + std::to_string(most) + " bytes.",
                          "Write the log into a file and name that.");
    }
    file.write(block.data(), in.gcount());
  }
  if (bytes == 0) return InvalidInput("stdin is empty.", "Pipe or paste a log into it.");
  if (!file.flush()) return Unavailable("The log from stdin could not be kept: the disk is full?");
  return log;
}

Result<ToolOutput> PastedLog::Shown(Result<ToolOutput> answer) const {
  if (!answer) {
    Error error = std::move(answer).error();
    error.message = Shown(std::move(error.message));
    error.hint = Shown(std::move(error.hint));
    return error;
  }
  answer->text = Shown(std::move(answer->text));
  Show(answer->structured);
  return answer;
}

std::string PastedLog::Shown(std::string text) const {
  for (size_t at = text.find(path_); at != std::string::npos; at = text.find(path_, at)) {
    text.replace(at, path_.size(), "stdin");
  }
  return text;
}

void PastedLog::Show(Json& value) const {
  if (value.is_string()) value = Shown(value.get<std::string>());
  if (!value.is_structured()) return;
  for (Json& part : value) Show(part);
}

}  // namespace mpnanny
