// What the help and the manual page say alike.
//
// Constants.
#ifndef MPNANNY_SERVER_COMMAND_LINE_HELP_TEXT_H_
#define MPNANNY_SERVER_COMMAND_LINE_HELP_TEXT_H_

namespace mpnanny {

inline constexpr char kSummary[] =
    "mpnanny finds what mixed precision breaks in PyTorch training: before a run in the code,\n"
    "after a run in what its monitor recorded. It is a server for AI agents (MCP) and a command "
    "line.";

struct HelpExample {
  const char* command;
  const char* does;
};
inline constexpr HelpExample kExamples[] = {
    {"mpnanny check train.py", "which lines are numerically risky, and the fix"},
    {"mpnanny run -- python train.py", "run a training and watch it"},
    {"mpnanny diagnose nanny_logs/metrics.db", "why did this run go wrong"},
    {"mpnanny knowledge search \"loss is nan\"", "documented failures that look like this"},
    {"mpnanny install cursor --root ~/project", "let a client (an AI agent) use them"},
    {"mpnanny doctor", "why a client cannot use them"},
};

struct HelpExitCode {
  const char* code;
  const char* means;
};
inline constexpr HelpExitCode kExitCodes[] = {
    {"0", "fine"},
    {"1", "findings at or above check's --fail-on, or a failed check of doctor or install"},
    {"2", "an error, told on stderr"},
};

struct HelpVariable {
  const char* name;
  const char* value;
  const char* does;
};
inline constexpr HelpVariable kVariables[] = {
    {"MPNANNY_LOG", "debug|info|warn|error", "how much `serve` says on stderr"},
    {"MPNANNY_TRACE", "FILE", "write a Chrome trace of every request"},
    {"MPNANNY_TOKEN", "TOKEN", "bearer token of `serve --http`, in place of --token-file"},
    {"MPNANNY_DUCKDB", "FILE", "DuckDB's C library, of `export`"},
    {"NO_COLOR", "1", "no colours, on terminals either"},
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_HELP_TEXT_H_
