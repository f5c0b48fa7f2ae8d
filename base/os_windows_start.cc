#include "base/os_windows_start.h"

#include <windows.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/os_windows_text.h"
#include "base/text.h"

namespace mpnanny {
namespace {

struct Ends {
  HANDLE ours = nullptr;
  HANDLE theirs = nullptr;
};

void Close(HANDLE& handle) {
  if (handle != nullptr) CloseHandle(std::exchange(handle, nullptr));
}

bool MakeEnds(bool we_write, Ends& ends) {
  SECURITY_ATTRIBUTES inherited{sizeof(SECURITY_ATTRIBUTES), nullptr, TRUE};
  HANDLE read = nullptr;
  HANDLE write = nullptr;
  if (!CreatePipe(&read, &write, &inherited, 0)) return false;
  ends = we_write ? Ends{write, read} : Ends{read, write};
  return SetHandleInformation(ends.ours, HANDLE_FLAG_INHERIT, 0) != 0;
}

// The program's file, looked up in PATH and, other than CreateProcess() would, nowhere else: not in
// the working directory, where a project may have a git.exe of its own. Empty if there is none.
std::wstring FindProgram(const std::string& word) {
  const std::wstring name = ToWide(word);
  std::wstring found(32768, L'\0');
  const auto size = static_cast<DWORD>(found.size());
  if (word.find_first_of("/\\:") != std::string::npos) {
    for (const wchar_t* end : {L"", L".exe"}) {
      const DWORD kind = GetFileAttributesW((name + end).c_str());
      if (kind != INVALID_FILE_ATTRIBUTES && (kind & FILE_ATTRIBUTE_DIRECTORY) == 0) {
        found.resize(GetFullPathNameW((name + end).c_str(), size, found.data(), nullptr));
        return found;
      }
    }
    return {};
  }
  std::wstring path(32768, L'\0');
  path.resize(GetEnvironmentVariableW(L"PATH", path.data(), static_cast<DWORD>(path.size())));
  if (path.empty()) return {};
  found.resize(SearchPathW(path.c_str(), name.c_str(), L".exe", size, found.data(), nullptr));
  return found;
}

// A block of "NAME=value" with a zero behind each and one behind all; sorted without regard to
// case.
std::wstring EnvironmentWith(const std::vector<EnvironmentChange>& changes) {
  const auto less = [](const std::wstring& a, const std::wstring& b) {
    return CompareStringOrdinal(a.c_str(), -1, b.c_str(), -1, TRUE) == CSTR_LESS_THAN;
  };
  std::map<std::wstring, std::wstring, decltype(less)> variables(less);
  wchar_t* const block = GetEnvironmentStringsW();
  for (const wchar_t* each = block; *each != L'\0'; each += std::wcslen(each) + 1) {
    const std::wstring text = each;
    const size_t equals = text.find(L'=', 1);  // "=C:=C:\folder" is one, too
    if (equals != std::wstring::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  FreeEnvironmentStringsW(block);
  for (const EnvironmentChange& change : changes) {
    variables.erase(ToWide(change.name));
    if (change.value) variables[ToWide(change.name)] = ToWide(*change.value);
  }
  std::wstring all;
  for (const auto& [name, value] : variables) all += name + L'=' + value + L'\0';
  return all + L'\0';
}

bool CreateWith(const std::wstring& program, std::wstring line, std::wstring variables,
                std::vector<HANDLE> inherited, PROCESS_INFORMATION& made) {
  STARTUPINFOEXW start{};
  start.StartupInfo.cb = sizeof(start);
  start.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  start.StartupInfo.hStdInput = inherited[0];
  start.StartupInfo.hStdOutput = inherited[1];
  start.StartupInfo.hStdError = inherited[2];
  SIZE_T size = 0;
  InitializeProcThreadAttributeList(nullptr, 1, 0, &size);
  std::string room(size, '\0');
  start.lpAttributeList = reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(room.data());
  // Only these three: a pipe that another thread has just made must not stay open in this child.
  bool made_it = InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &size) &&
                 UpdateProcThreadAttribute(start.lpAttributeList, 0,
                                           PROC_THREAD_ATTRIBUTE_HANDLE_LIST, inherited.data(),
                                           inherited.size() * sizeof(HANDLE), nullptr, nullptr);
  if (!made_it) return false;
  made_it = CreateProcessW(program.c_str(), line.data(), nullptr, nullptr, TRUE,
                           CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_UNICODE_ENVIRONMENT |
                               EXTENDED_STARTUPINFO_PRESENT,
                           variables.data(), nullptr, &start.StartupInfo, &made) != 0;
  const DWORD code = GetLastError();
  DeleteProcThreadAttributeList(start.lpAttributeList);
  SetLastError(code);
  return made_it;
}

HANDLE MakeJob() {
  const HANDLE job = CreateJobObjectW(nullptr, nullptr);
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof(limits));
  return job;
}

}  // namespace

std::string WindowsCommandLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_of(" \t\n\v\"") == std::string::npos) {
      line += word;
      continue;
    }
    line += '"';
    size_t slashes = 0;  // doubled in front of a quote only
    for (const char c : word) {
      if (c == '\\') {
        ++slashes;
        continue;
      }
      line.append(c == '"' ? 2 * slashes + 1 : slashes, '\\');
      slashes = 0;
      line += c;
    }
    line.append(2 * slashes, '\\');
    line += '"';
  }
  return line;
}

Result<StartedProgram> StartProgram(const std::vector<std::string>& words,
                                    const std::vector<EnvironmentChange>& changes) {
  const std::string shown = EscapeControl(words.front(), 300) + ": ";
  const std::wstring program = FindProgram(words.front());
  if (program.empty()) return NotFound(shown + "there is no such program.");
  Ends in;
  Ends out;
  Ends err;
  PROCESS_INFORMATION made{};
  DWORD failure = ERROR_TOO_MANY_OPEN_FILES;
  if (MakeEnds(true, in) && MakeEnds(false, out) && MakeEnds(false, err)) {
    failure = CreateWith(program, ToWide(WindowsCommandLine(words)), EnvironmentWith(changes),
                         {in.theirs, out.theirs, err.theirs}, made)
                  ? ERROR_SUCCESS
                  : GetLastError();
  }
  Close(in.theirs);
  Close(out.theirs);
  Close(err.theirs);
  if (failure != ERROR_SUCCESS) {
    Close(in.ours);
    Close(out.ours);
    Close(err.ours);
    return InvalidInput(shown + WindowsErrorText(failure) + ".");
  }
  StartedProgram started{made.hProcess, MakeJob(), in.ours, out.ours, err.ours};
  AssignProcessToJobObject(started.job, made.hProcess);
  ResumeThread(made.hThread);
  CloseHandle(made.hThread);
  return started;
}

}  // namespace mpnanny
