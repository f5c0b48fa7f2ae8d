#include "engines/runs/import/runs_of_file.h"

#include <string>

#include "engines/runs/show.h"

namespace mpnanny::imports {

void RunsOfFile::Add(int64_t line, const Figures& figures) {
  if (figures.Any() || figures.eval_loss) {
    if (now_.first_line == 0) now_.first_line = line;
    now_.last_line = line;
  }
  Figures of_line = figures;
  of_line.line = line;
  placement_->Add(of_line);
}

void RunsOfFile::BeginRun(int64_t line) {
  EndRun();
  now_.run_id = into_.recorder.KeepAsRun("lines " + std::to_string(now_.first_line) + " to " +
                                         std::to_string(now_.last_line));
  into_.runs.push_back(now_);
  now_ = {1, line, line};
  placement_.emplace(into_.recorder);
}

void RunsOfFile::SetAside(const std::string& name) {
  into_.recorder.KeepAsRun(name);
  placement_.emplace(into_.recorder);
}

void RunsOfFile::Finish() {
  EndRun();
  into_.numbered = placement_->numbered();
  into_.of_players = placement_->of_players();
  placement_->AddNotes(into_.notes);
  if (into_.runs.empty()) return;
  into_.runs.push_back(now_);
  std::string text = "What counts its records begins anew, so the file is read as " +
                     std::to_string(into_.runs.size()) +
                     " runs one after another (their figures begin at lines";
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < into_.runs.size() && i < kShown; ++i) {
    text += (i == 0 ? " " : ", ") + std::to_string(into_.runs[i].first_line);
  }
  text += into_.runs.size() > kShown ? ", …" : "";
  into_.notes.push_back(text + "): #1 is the last, #" + std::to_string(into_.runs.front().run_id) +
                        " the first.");
}

}  // namespace mpnanny::imports
