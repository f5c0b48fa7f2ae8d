// mpnanny-conformance: the product's core and transports with the official suite's fixtures.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "base/descriptors.h"
#include "base/stop_event.h"
#include "server/stdio_server.h"
#include "tests/conformance/fixtures.h"

int main(int argc, char** argv) {
  CLI::App parser("A server for the MCP conformance suite, over stdin and stdout.");
  CLI11_PARSE(parser, argc, argv);

  mpnanny::StopEvent stop;
  stop.BindSignals();
  const auto streams = mpnanny::TakeStandardStreams();
  if (!streams) {
    std::cerr << streams.error().Text() << "\n";
    return 2;
  }
  const mpnanny::Registry registry = mpnanny::conformance::FixtureRegistry();
  if (!mpnanny::RunStdioServer(registry, *streams, stop)) std::_Exit(0);
  return 0;
}
