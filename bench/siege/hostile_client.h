// What a stranger with a socket can do to a process that listens: each attack goes as far as the
// other side lets it and returns what it got rid of. Blocking, loopback only, no thread of its own
// but the proxy's.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace skerry::siege {

// A TCP connection to 127.0.0.1; closed when it dies.
class RawSocket {
 public:
  explicit RawSocket(uint16_t port);
  explicit RawSocket(int descriptor) : descriptor_(descriptor) {}
  RawSocket(RawSocket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket();
  bool IsOpen() const { return descriptor_ >= 0; }
  // Bytes taken before the other side closed, or took nothing for a second.
  int64_t Send(const std::string& bytes);
  // What arrives until it ends or is silent for `silence_ms`; at most `bytes_max`.
  std::string Receive(int silence_ms, size_t bytes_max = 1 << 16);
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

uint16_t PortOf(const std::string& endpoint);

// ZeroMQ's greeting (rfc.zeromq.org/23) of a CURVE client.
std::string CurveGreeting();

// Junk over as many connections as it takes; returns what was taken.
int64_t SendJunk(uint16_t port, int64_t bytes);
// A greeting, then frames that announce lengths up to 2^63 and carry nothing, or endless commands.
void SendLengthBombs(uint16_t port, int times);
// A greeting cut at every byte, each piece alone; then silence.
void SendSplitGreetings(uint16_t port, int pause_ms);
// Connections that say nothing, or half of a greeting; open as long as the result lives.
std::vector<RawSocket> OpenHalf(uint16_t port, int connections);
// Sends again, on new connections, what somebody else said in theirs.
void Replay(uint16_t port, const std::vector<std::string>& said);

// Between a victim and the port it dials; keeps what the victim said.
class RecordingProxy {
 public:
  explicit RecordingProxy(uint16_t to);
  ~RecordingProxy();
  uint16_t port() const { return port_; }
  // Of every connection so far, what came from the victim. Ends the proxy.
  std::vector<std::string> Stop();

 private:
  void Run();

  uint16_t to_, port_ = 0;
  int listener_ = -1;
  std::atomic<bool> stops_ = false;
  std::vector<std::string> said_;
  std::thread thread_;
};

// Kilobytes that the process holds now.
int64_t ResidentKb(int pid);

}  // namespace skerry::siege
