#include "coordinator/dashboard_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);

// -1: it could not be started. Of the server's files it gets only `out`, and its signals are not
// the server's, which ignores some.
pid_t Start(const std::vector<std::string>& arguments, int out) {
  std::vector<char*> argv = {const_cast<char*>("skerry-coordinator")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  if (posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv.data(), environ) != 0) pid = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return pid;
}

// What comes until its end; false: time is up.
bool ReadAll(int from, std::string* text) {
  const auto deadline = Clock::now() + kPatience;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{from, POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) return false;
    char piece[4096];
    const ssize_t count = read(from, piece, sizeof piece);
    if (count <= 0) return true;
    if (text->size() < kAnswerBytesMax) text->append(piece, static_cast<size_t>(count));
  }
}

}  // namespace

CommandAnswer RunOwnCommand(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {false, "no pipe for the command"};
  const pid_t pid = Start(arguments, ends[1]);
  close(ends[1]);
  CommandAnswer answer;
  const bool in_time = pid > 0 && ReadAll(ends[0], &answer.text);
  close(ends[0]);
  if (pid <= 0) return {false, "the command could not be started"};
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  const bool ended = waitpid(pid, &status, 0) == pid;
  answer.ok = in_time && ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!in_time) answer.text += "the command did not come to an end";
  return answer;
}

}  // namespace skerry
