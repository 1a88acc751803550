#include "bench/crowd_member.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "absl/strings/str_format.h"
#include "bench/statistics.h"
#include "wire/codec/codec.h"
#include "wire/courier.h"
#include "wire/identity.h"
#include "wire/ticket.h"
#include "wire/wakeup.h"

namespace skerry::bench {
namespace {

constexpr Duration kBeatEvery = Duration::Seconds(1);
constexpr auto kRest = std::chrono::milliseconds(5);

Identity IdentityOf(int32_t number) {
  std::array<uint8_t, 32> seed{};
  std::memcpy(seed.data(), &number, sizeof number);
  seed[31] = 7;
  return Identity::FromSeed(seed);
}

// Every member dials from an address of its own, as homes do: one address may not shake hands ten
// thousand times (wire/transport/handshake_budget.h). All of 127/8 is this machine.
std::string FromOwnAddress(int32_t number, const std::string& endpoint) {
  const std::string scheme = "tcp://";
  return absl::StrFormat("%s127.1.%d.%d:0;%s", scheme, number / 250, number % 250 + 1,
                         endpoint.substr(scheme.size()));
}

class Member {
 public:
  Member(int32_t number, const Ticket& ticket, zmq::context_t& context,
         const CourierOptions& options)
      : identity_(IdentityOf(number)),
        coordinator_(ticket.coordinator),
        run_(ticket.run),
        socket_(context, zmq::socket_type::dealer),
        session_(options, static_cast<uint64_t>(number) + 1) {
    const auto server = CurveKeyOf(ticket.coordinator);
    MustBeOk(server.status());
    const auto key = [](const CurveKey& k) { return zmq::buffer(k.data(), k.size()); };
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::curve_serverkey, key(*server));
    socket_.set(zmq::sockopt::curve_publickey, key(identity_.curve_public()));
    socket_.set(zmq::sockopt::curve_secretkey, key(identity_.curve_secret()));
    socket_.set(zmq::sockopt::probe_router, true);
    socket_.connect(FromOwnAddress(number, ticket.endpoint));
  }

  void Join(Instant now, const std::string& ticket) {
    Hello hello;
    hello.ticket = ticket;
    hello.software = "crowd";
    hello.device = {"a crowd's", "none", 100, int64_t{1} << 20};
    Send(now, std::move(hello));
  }

  // True: it has just been let in.
  bool Tend(Instant now) {
    bool is_new = false;
    zmq::message_t part;
    while (socket_.recv(part, zmq::recv_flags::dontwait)) {
      // No payload ever comes to who trains nothing.
      const bool is_whole = !part.more();
      while (part.more()) static_cast<void>(socket_.recv(part));
      if (is_whole && part.size() > 0) is_new |= Take(now, part);
    }
    std::vector<Frame> frames;
    if (const auto due = session_.NextDue(); due && *due <= now) session_.Tick(now, frames);
    Put(frames);
    return is_new;
  }

  bool Beat(Instant now) {
    if (!joined_ || now < beat_due_) return false;
    beat_due_ = now + kBeatEvery;
    Send(now, Heartbeat{});
    return true;
  }

 private:
  bool Take(Instant now, const zmq::message_t& part) {
    const FrameExpectation expected{run_, identity_.id(), {}, DigestPlace::kEnvelope};
    auto decoded = Decode({part.data<uint8_t>(), part.size()}, nullptr, expected);
    if (!decoded.ok()) return false;
    std::vector<Frame> frames;
    std::vector<SharedMessage> messages;
    session_.OnFrame(now, std::move(decoded->frame), frames, messages);
    Put(frames);
    const bool was_joined = joined_;
    for (const SharedMessage& message : messages) {
      if (const auto* refused = std::get_if<Refused>(message.get())) {
        std::printf("refused %s\n", refused->reason.c_str());
        std::fflush(stdout);
      }
      joined_ |= std::holds_alternative<Welcome>(*message);
    }
    // Not all at the same moment.
    if (joined_ && !was_joined) beat_due_ = now + kBeatEvery * (identity_.id().bytes[0] % 64) / 64;
    return joined_ && !was_joined;
  }
  void Send(Instant now, Message message) {
    std::vector<Frame> frames;
    session_.Send(now, Share(std::move(message)), frames);
    Put(frames);
  }
  void Put(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) {
      const auto encoded = Encode(frame, identity_.id(), coordinator_);
      MustBeOk(encoded.status());
      static_cast<void>(socket_.send(zmq::buffer(encoded->envelope), zmq::send_flags::dontwait));
    }
  }

  Identity identity_;
  NodeId coordinator_;
  RunId run_;
  zmq::socket_t socket_;
  CourierSession session_;
  bool joined_ = false;
  Instant beat_due_;
};

}  // namespace

void BeCrowd(const CrowdOptions& options) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto ticket = VerifyTicket(options.ticket, 0);
  MustBeOk(ticket.status());
  zmq::context_t context(1);
  context.set(zmq::ctxopt::max_sockets, options.count + 8);
  CourierOptions courier;
  courier.run = ticket->run;
  std::vector<std::unique_ptr<Member>> members;
  for (int32_t i = 0; i < options.count; ++i) {
    members.push_back(std::make_unique<Member>(options.first + i, *ticket, context, courier));
    members.back()->Join(MonotonicNow(), options.ticket);
  }
  int32_t joined = 0;
  int64_t beats = 0;
  Instant say_due = MonotonicNow();
  for (;;) {
    const Instant now = MonotonicNow();
    for (const auto& member : members) {
      joined += member->Tend(now) ? 1 : 0;
      beats += member->Beat(now) ? 1 : 0;
    }
    if (now >= say_due) {
      say_due = now + Duration::Seconds(0.25);
      std::printf("%d joined, %lld beats, %.3f s\n", joined, static_cast<long long>(beats),
                  (now - Instant()).seconds());
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(kRest);
  }
}

}  // namespace skerry::bench
