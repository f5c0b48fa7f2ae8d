// What each client wants to read in its own configuration file, and where that file lies.
//
// Plain values and free functions; safe from any thread. Nothing is written.
#ifndef MPNANNY_SERVER_COMMAND_LINE_CLIENT_BLOCK_H_
#define MPNANNY_SERVER_COMMAND_LINE_CLIENT_BLOCK_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/command_line/launch.h"

namespace mpnanny {

// One client, as its own documentation describes it.
struct Client {
  const char* name;   // as `config` takes it
  const char* title;  // as people know it
  const char* key;    // under which its file lists servers
  bool typed;         // an entry says its transport
  const char* files;  // where the file lies on each system, lines indented by two spaces
  const char* after;  // what makes the client read it
  // The command that enters a server without editing a file; empty where there is none. It takes
  // the entry as JSON, in its last word.
  const char* enter_command;
};

// The client of that name; the error names the nearest.
Result<Client> FindClient(const std::string& name);

// A server that listens over HTTP, seen from the client.
struct HttpServer {
  std::string url;
  std::string token;  // empty: none is asked for
};

// The block for a server that the client starts.
Json StdioBlock(const Client& client, const Launch& launch);

// The block for a server that runs already. A client that reads no URL from its file gets the
// bridge that its users run in between.
Json HttpBlock(const Client& client, const HttpServer& server);

// A line for a POSIX shell that enters what `block` holds; "" where the client has no such command
// or the block asks the user for something.
std::string EnterLine(const Client& client, const Json& block);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_CLIENT_BLOCK_H_
