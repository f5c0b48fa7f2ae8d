#include "server/command_line/manual.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/text.h"
#include "base/version.h"
#include "server/command_line/help_text.h"

namespace mpnanny {
namespace {

// Text that troff shows as it is. A hyphen is the one that people type.
std::string Troff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const auto code = DecodeUtf8(text, i);
    const char c = text[begin];
    if (!code) {
      out += '?';
    } else if (*code > 126) {
      char name[16];
      std::snprintf(name, sizeof name, "\\[u%04X]", static_cast<unsigned>(*code));
      out += name;
    } else if (c == '\\') {
      out += "\\(rs";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '"') {
      out += "\\(dq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
  }
  return out;
}

// Lines of text. One that begins with a dot would be a request.
std::string Lines(std::string_view text) {
  std::string out;
  bool example = false;  // lines that are indented stay as they are
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("  ") != example) {
      example = !example;
      out += example ? ".PP\n.nf\n" : ".fi\n.PP\n";
    }
    if (line.empty()) {
      if (!example) out += ".PP\n";
      continue;
    }
    const std::string shown = Troff(line);
    out += (shown.front() == '.' || shown.front() == '\\' ? "\\&" : "") + shown + "\n";
  }
  return out + (example ? ".fi\n" : "");
}

std::string Quoted(std::string_view words) { return "\"" + Troff(words) + "\""; }

std::string Options(const CommandNode& node) {
  std::string out;
  for (const bool bare : {true, false}) {
    for (const CommandOption& option : node.options) {
      if (option.bare != bare) continue;
      std::string head;
      for (const std::string& name : option.names) {
        head += (head.empty() ? "\\fB" : ", \\fB") + Troff(name) + "\\fR";
      }
      if (!bare && !option.value_name.empty()) head += " \\fI" + Troff(option.value_name) + "\\fR";
      if (option.repeated) head += " ...";
      out += ".TP\n" + head + "\n" + Lines(option.help);
    }
  }
  return out;
}

std::string Usage(const CommandNode& node) {
  std::string out = ".B mpnanny" + std::string(node.words.empty() ? "" : " ") + Troff(node.words) +
                    "\n.RI [ options ]\n";
  if (!node.children.empty()) out += ".I command\n";
  for (const CommandOption& option : node.options) {
    if (!option.bare) continue;
    const std::string more = option.repeated ? "..." : "";
    out += option.required ? ".I " + Quoted(option.names.front() + more) + "\n"
                           : ".RI [ " + Quoted(option.names.front() + more) + " ]\n";
  }
  return out;
}

}  // namespace

std::string ManualPage(const CommandNode& root) {
  std::string out =
      ".\\\" Made by `mpnanny man` from the parser of the command line.\n"
      ".TH MPNANNY 1 \"\" \"mpnanny " +
      Troff(kVersion) +
      "\" \"User Commands\"\n.SH NAME\nmpnanny \\- find what mixed "
      "precision breaks in PyTorch training\n.SH SYNOPSIS\n" +
      Usage(root) + ".SH DESCRIPTION\n" + Lines(kSummary) +
      ".PP\nWithout a command: the help on a terminal; \\fBserve\\fR when a program "
      "starts mpnanny, as MCP clients do.\n.SH OPTIONS\n" +
      Options(root) + ".SH COMMANDS\n";
  for (const CommandNode* node : AllNodes(root)) {
    if (node->words.empty()) continue;
    out += ".SS " + Quoted(node->words) + "\n" + Usage(*node) + ".PP\n" + Lines(node->title + ".");
    if (!node->about.empty()) out += ".PP\n" + Lines(node->about);
    out += Options(*node);
  }
  out += ".SH EXAMPLES\n";
  for (const HelpExample& example : kExamples) {
    out += ".TP\n.B " + Quoted(example.command) + "\n" + Lines(example.does);
  }
  out +=
      ".SH FILES\n"
      ".TP\n.I nanny_logs/metrics.db\nWhat a monitored run records, in the folder where it is "
      "started (SQLite).\n"
      ".TP\n.I pyproject.toml\nThe table \\fB[tool.mpnanny]\\fR says which rules \\fBcheck\\fR "
      "applies to a project.\n"
      ".TP\n.I *.mpnanny\\-backup\nBeside a client\\(aqs file: what was in it before "
      "\\fBinstall\\fR.\n.SH ENVIRONMENT\n";
  for (const HelpVariable& variable : kVariables) {
    out += ".TP\n\\fB" + Troff(variable.name) + "\\fR=\\fI" + Troff(variable.value) + "\\fR\n" +
           Lines(variable.does);
  }
  out += ".SH EXIT STATUS\n";
  for (const HelpExitCode& code : kExitCodes) {
    out += std::string(".TP\n.B ") + code.code + "\n" + Lines(code.means);
  }
  return out;
}

}  // namespace mpnanny
