#include "tests/hostile/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace mpnanny::hostile {
namespace {

std::string NewFolder() {
  std::string folder = testing::TempDir() + "/hostile_XXXXXX";
  EXPECT_TRUE(mkdtemp(folder.data()));
  return folder;
}

std::string LogFile(const std::string& folder) { return folder + ".log"; }

}  // namespace

Program::Program(std::vector<std::string> arguments)
    : folder_(NewFolder()), pipes_(MakePipes()), client(pipes_.client_out, pipes_.client_in) {
  signal(SIGPIPE, SIG_IGN);  // a server that died fails the test, not the test's process
  arguments.insert(arguments.begin(), MPNANNY_PROGRAM);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = LogFile(folder_);
  pid_ = fork();
  if (pid_ == 0) {
    signal(SIGPIPE, SIG_DFL);
    const int stderr_file = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(pipes_.server_in, STDIN_FILENO);
    dup2(pipes_.server_out, STDOUT_FILENO);
    dup2(stderr_file, STDERR_FILENO);
    for (const int fd :
         {pipes_.client_out, pipes_.server_in, pipes_.server_out, pipes_.client_in, stderr_file}) {
      close(fd);
    }
    if (chdir(folder_.c_str()) != 0) _exit(125);
    execv(argv[0], argv.data());
    _exit(126);
  }
  close(pipes_.server_in);
  close(pipes_.server_out);
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  std::filesystem::remove(LogFile(folder_), ignored);
}

std::string Program::Log() const {
  std::ostringstream text;
  text << std::ifstream(LogFile(folder_)).rdbuf();
  return text.str();
}

void Program::Signal(int number) const { kill(pid_, number); }

int Program::Wait() {
  int status = 0;
  for (int i = 0; i < 3000; ++i) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "the server did not end within 30 s";
  return -1000;
}

}  // namespace mpnanny::hostile
