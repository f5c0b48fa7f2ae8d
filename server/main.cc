// mpnanny: MCP server and command line. Everything it can do is below tools/; how it is called
// below server/.
#include <iostream>
#include <string>
#include <vector>

#include "base/program.h"
#include "server/command_line/command_line.h"
#include "tools/tool.h"

int main(int argc, char** argv) {
  mpnanny::PrepareStandardStreams();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return mpnanny::RunCommandLine(arguments, {.tools = mpnanny::AllTools,
                                             .resource_templates = mpnanny::AllResourceTemplates,
                                             .in = std::cin,
                                             .out = std::cout,
                                             .err = std::cerr,
                                             .interactive = mpnanny::StdinIsTerminal(),
                                             .terminal = mpnanny::StdoutIsTerminal(),
                                             .progress = mpnanny::StderrIsTerminal(),
                                             .colour = mpnanny::StdoutTakesColour()});
}
