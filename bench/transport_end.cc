#include "bench/transport_end.h"

#include <sys/resource.h>

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "bench/real_transfers.h"
#include "bench/statistics.h"
#include "common/digest.h"
#include "node/link_prober.h"
#include "wire/event_loop.h"

namespace skerry::bench {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kDelta = uint64_t{1} << 40, kActivation = uint64_t{1} << 41;
constexpr double kGiveUpS = 30;  // without a word from the sender
constexpr double kGraceS = 2, kMeasuringS = 20;
constexpr int64_t kMeasuringBytes = 4 << 20;  // of one reading, as a coordinator asks for

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Identity IdentityOf(int seat) {
  return Identity::FromSeed({static_cast<uint8_t>(1 + seat)});
}

class Receiver final : public Actor {
 public:
  Receiver(EndOptions options, EventLoop&) : options_(std::move(options)) {}

  void OnStart(Context& context) override {
    context.ConnectPeer(IdentityOf(0).id(), options_.peer_endpoints.at(0));
    context.StartTimer(Duration::Seconds(kGiveUpS));
  }
  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    // The sender's farewell may be stuck behind its own bulk.
    if (!std::exchange(begun_, true)) {
      const double measuring = options_.measures ? kMeasuringS : 0;  // until its sender is ready
      end_ = context.StartTimer(
          Duration::Seconds(measuring + options_.idle_s + options_.load_s + kGraceS));
    }
    if (const auto* ping = std::get_if<Ping>(&message)) context.Send(from, Pong{ping->nonce});
    if (const auto* activation = std::get_if<Activation>(&message))
      context.Send(from, Pong{kActivation + static_cast<uint64_t>(activation->step)});
    if (const auto* delta = std::get_if<Delta>(&message)) {
      bytes_ += SizeOf(delta->payload);
      arrivals_.push_back({WallSeconds(), bytes_});
      context.Send(from, Pong{kDelta + static_cast<uint64_t>(delta->round)});
    }
    if (std::holds_alternative<Leave>(message)) context.Stop(0, "done");
  }
  void OnTimer(Context& context, TimerId timer) override {
    if (timer == end_) context.Stop(0, "done");
    if (!begun_) context.Stop(3, "nobody came");
  }
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}

  Json Result() const { return {{"arrivals", arrivals_}}; }

 private:
  EndOptions options_;
  bool begun_ = false;
  TimerId end_ = 0;
  int64_t bytes_ = 0;
  std::vector<std::pair<double, int64_t>> arrivals_;  // when, how many bytes by then
};

class Sender final : public Actor {
 public:
  Sender(EndOptions options, EventLoop& loop) : options_(std::move(options)), loop_(loop) {
    for (size_t i = 0; i < options_.peer_endpoints.size(); ++i)
      peers_.push_back(IdentityOf(static_cast<int>(i) + 1).id());
    Bytes bytes(static_cast<size_t>(options_.message_bytes));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 89 + i / 251);
    payload_ = MakePayload(std::move(bytes));
    digest_ = DigestOf(View(payload_));
    activation_ = MakePayload(Bytes(static_cast<size_t>(options_.activation_bytes), 7));
  }

  void OnStart(Context& context) override {
    for (size_t i = 0; i < peers_.size(); ++i)
      context.ConnectPeer(peers_[i], options_.peer_endpoints[i]);
    Greet(context);
  }

  void OnMessage(Context& context, const NodeId& from, const Message& message) override {
    const auto* pong = std::get_if<Pong>(&message);
    if (pong == nullptr) return;
    if (pong->nonce == 0 && !options_.measures) return Greet(context);
    if (pong->nonce == 0) return prober_.OnRequest(context, {from, kMeasuringBytes});
    if (prober_.OnPong(context, from, *pong, loop_.Shown(from))) return Greet(context);
    if (const auto sent = sent_.find(pong->nonce); sent != sent_.end()) {
      const bool is_activation = pong->nonce >= kActivation;
      auto& list = is_activation ? (sent->second.loaded ? activations_ : idle_activations_)
                                 : (sent->second.loaded ? pings_ : idle_pings_);
      list.push_back(WallSeconds() - sent->second.at);
      sent_.erase(sent);
    } else if (pong->nonce >= kDelta && pong->nonce < kActivation) {
      --under_way_[from];
      Fill(context);
    }
  }

  void OnTimer(Context& context, TimerId timer) override {
    if (timer == ping_timer_) {
      const NodeId& peer = peers_[++nonce_ % peers_.size()];
      Send(context, peer, nonce_, Ping{nonce_, 0});
      ping_timer_ = context.StartTimer(Duration::Seconds(options_.ping_every_s));
    } else if (timer == activation_timer_) {
      const auto step = static_cast<int64_t>(++activation_nonce_);
      Activation activation;
      activation.step = step;
      activation.path = {{0, 0}};
      activation.values = activation_;
      Send(context, peers_[0], kActivation + activation_nonce_, std::move(activation));
      activation_timer_ = context.StartTimer(Duration::Seconds(options_.activation_every_s));
    } else if (timer == load_timer_) {
      begin_s_ = WallSeconds();
      begin_processor_s_ = ProcessorSeconds();
      Fill(context);
      end_timer_ = context.StartTimer(Duration::Seconds(options_.load_s));
    } else if (timer == end_timer_) {
      if (end_s_ > 0) {
        for (const NodeId& peer : peers_) context.Send(peer, Leave{"done"});
        return context.Stop(0, "done");
      }
      processor_s_ = ProcessorSeconds() - begin_processor_s_;
      end_s_ = WallSeconds();
      // The message that is on its way arrives yet: part of it counts.
      end_timer_ = context.StartTimer(Duration::Seconds(kGraceS / 2));
    }
  }
  void OnJobDone(Context&, JobId) override {}
  void OnPeerRestarted(Context&, const NodeId&) override {}

  Json Result() const {
    return {{"begin_s", begin_s_},         {"end_s", end_s_},
            {"idle_pings", idle_pings_},   {"pings", pings_},
            {"activations", activations_}, {"idle_activations", idle_activations_},
            {"processor_s", processor_s_}, {"unanswered", sent_.size()}};
  }

 private:
  struct Sent {
    double at;
    bool loaded;
  };

  // One after another; then all is known, and it begins.
  void Greet(Context& context) {
    if (greeted_ < peers_.size()) return context.Send(peers_[greeted_++], Ping{0, 0});
    ping_timer_ = context.StartTimer(Duration());
    load_timer_ = context.StartTimer(Duration::Seconds(options_.idle_s));
    if (options_.activation_every_s > 0) activation_timer_ = context.StartTimer(Duration());
  }
  void Send(Context& context, const NodeId& peer, uint64_t nonce, Message message) {
    if (end_s_ > 0) return;
    sent_[nonce] = {WallSeconds(), begin_s_ > 0};
    context.Send(peer, std::move(message));
  }
  void Fill(Context& context) {
    if (end_s_ > 0) return;
    for (auto i = static_cast<size_t>(options_.deltas_from); i < peers_.size(); ++i) {
      while (under_way_[peers_[i]] < options_.under_way) SendDelta(context, peers_[i]);
    }
  }
  void SendDelta(Context& context, const NodeId& peer) {
    ++under_way_[peer];
    Delta delta;
    delta.round = round_++;
    delta.tokens = 1;
    delta.digest = digest_;
    delta.payload = payload_;
    context.Send(peer, std::move(delta));
  }

  EndOptions options_;
  EventLoop& loop_;
  std::vector<NodeId> peers_;
  size_t greeted_ = 0;
  LinkProber prober_{{}, LinkProber::Pings::kTrains};
  Payload payload_, activation_;
  Digest digest_;
  TimerId ping_timer_ = 0, activation_timer_ = 0, load_timer_ = 0, end_timer_ = 0;
  uint64_t nonce_ = 0, activation_nonce_ = 0;
  int64_t round_ = 0;
  std::map<NodeId, int64_t> under_way_;
  double begin_s_ = 0, end_s_ = 0, begin_processor_s_ = 0, processor_s_ = 0;
  std::map<uint64_t, Sent> sent_;
  std::vector<double> idle_pings_, pings_, activations_, idle_activations_;
};

template <typename End>
int Run(const EndOptions& options) {
  PreferThisThread();
  EventLoopOptions loop_options{.identity = IdentityOf(options.seat)};
  loop_options.run.bytes.fill(9);
  loop_options.bind_endpoint = options.endpoint;
  auto loop = EventLoop::Open(std::move(loop_options));
  MustBeOk(loop.status());
  End end(options, **loop);
  const auto exit_code = (*loop)->Run(end);
  MustBeOk(exit_code.status());
  Json result = end.Result();
  result["slow_handlers"] = (*loop)->counters().slow_handlers;
  result["slowest_handler_s"] = (*loop)->counters().slowest_handler.seconds();
  std::printf("%s\n", result.dump().c_str());
  return *exit_code;
}

}  // namespace

Json ToJson(const EndOptions& o) {
  return {{"seat", o.seat},
          {"endpoint", o.endpoint},
          {"peer_endpoints", o.peer_endpoints},
          {"deltas_from", o.deltas_from},
          {"measures", o.measures},
          {"idle_s", o.idle_s},
          {"load_s", o.load_s},
          {"ping_every_s", o.ping_every_s},
          {"activation_every_s", o.activation_every_s},
          {"activation_bytes", o.activation_bytes},
          {"message_bytes", o.message_bytes},
          {"under_way", o.under_way}};
}

int RunEnd(const std::string& text) {
  const Json json = Json::parse(text);
  const EndOptions o{json.at("seat"),
                     json.at("endpoint"),
                     json.at("peer_endpoints"),
                     json.at("deltas_from"),
                     json.at("measures"),
                     json.at("idle_s"),
                     json.at("load_s"),
                     json.at("ping_every_s"),
                     json.at("activation_every_s"),
                     json.at("activation_bytes"),
                     json.at("message_bytes"),
                     json.at("under_way")};
  return o.seat == 0 ? Run<Sender>(o) : Run<Receiver>(o);
}

}  // namespace skerry::bench
