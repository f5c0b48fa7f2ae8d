// What each client wants to read in its own configuration file, and where that file lies.
//
// The facts are those of the clients' own documentation (docs/install.md names the pages).
//
// Plain values and free functions; safe from any thread. Nothing is written.
#ifndef MPNANNY_SERVER_COMMAND_LINE_CLIENT_BLOCK_H_
#define MPNANNY_SERVER_COMMAND_LINE_CLIENT_BLOCK_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/client_file/client_file.h"
#include "server/command_line/launch.h"

namespace mpnanny {

// A file below a folder that a variable of the environment may name.
struct FilePlace {
  const char* variable;  // "" where there is none
  const char* folder;    // below the home folder, where the variable is not set
  const char* file;
};

// One client, as its own documentation describes it.
struct Client {
  const char* name;   // as `config` takes it
  const char* title;  // as people know it
  const char* key;    // under which its file lists servers
  bool typed;         // an entry says its transport
  const char* url;    // the field of a server's address; "" where the file takes none
  FileFormat format;
  FilePlace linux_file;
  FilePlace mac_file;
  FilePlace windows_file;
  const char* project_file;  // in a project's folder; "" where there is none
  const char* files;         // where the file lies on each system, lines indented by two spaces
  const char* after;         // what makes the client read it
  // The command that enters a server without editing a file; empty where there is none. It takes
  // the entry as JSON, in its last word.
  const char* enter_command;
};

// The client of that name; the error names the nearest.
Result<Client> FindClient(const std::string& name);
std::vector<std::string> ClientNames();

// Where the client's file for all projects lies on this machine, whether there is one or not.
Result<std::string> UserFile(const Client& client);

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
