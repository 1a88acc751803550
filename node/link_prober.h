// Measures the way from this node to another, when the coordinator asks: a few empty pings one
// after another give the round trip, then some with padding the rate. The first of those pays for
// TCP's slow start: alone it would read a line of 200 Mbit/s and 93 ms as one of 6. The window that
// it opens lets the next pass faster, and so on until one is not. Where the first takes many round
// trips, the line is slow and not the start.
//
// What is read of them (Pings):
// - kSingle: the round trip is the median of the empty ones, a padded ping's rate what it takes
//   beyond that and its handling by both ends; of far ways more than is asked for. In virtual time.
// - kTrains: what the machines do with a message, before it is on the line and after, is no part of
//   the line. The round trip is the shortest of those of kEmptyPingsFor; padding leaves as
//   kTrainPings pings at once, whose answers come back at the spacing of the line, however long
//   each took (a packet train, Jain & Routhier 1986). A machine can only make an answer late: of
//   trains of one size each answer counts when it came soonest. Trains that take kTrainLeast end it
//   once two agree; of shorter ones there are as many as the asked bytes allow.
//
// In a small fleet more may be asked for: then each is larger than the one before. A rate
// that still grew at the end was TCP's window's and not the line's. What a long transfer would get
// lies between it and the stock window per round trip: some more growth is believed.
//
// A transfer (ProbeRequest::is_transfer) is one train, or one ping, of all that is asked for. Its
// rate is that of its last three quarters, whatever was in its way: that is the question. So
// several may be under way, to others each.
//
// Where the host says what the bulk of these pings has shown (how fast bursts came at the other
// end, the shortest round trip), the better of the two counts.
//
// A part of the node's actor. One probe at a time, and one transfer to each target, of which there
// are kTransfersMax at most; a second request replaces an unfinished one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "wire/actor.h"

namespace skerry {

class LinkProber {
 public:
  enum class Pings { kSingle, kTrains };
  static constexpr int kEmptyPings = 3, kEmptyPingsMax = 256;
  static constexpr Duration kEmptyPingsFor = Duration::Millis(100);
  static constexpr Duration kBetweenTrains = Duration::Millis(50);
  static constexpr int kTrainPings = 16;
  static constexpr Duration kTrainLeast = Duration::Millis(20);  // beside a machine's delays
  static constexpr int kPaddedPingsMax = 4;
  static constexpr int64_t kManyRoundTrips = 32, kOpeningRoundTrips = 16;
  static constexpr int64_t kFirstPaddingBytes = 256 << 10;
  static constexpr int64_t kPaddingBytesMax = 4 << 20, kTransferBytesMax = 8 << 20;
  static constexpr size_t kTransfersMax = 8;
  static constexpr int64_t kPaddingGrowth = 4;
  static constexpr Duration kLongest = Duration::Seconds(1);
  // With a ping that would not be back by then the probe ends without it: the coordinator gives one
  // up after ten seconds, and no reading at all would leave a slow line out.
  static constexpr Duration kEndsWithin = Duration::Seconds(8);
  // What one flow of stock Linux carries per round trip.
  static constexpr double kStockWindowBytes = 3.5e6;
  static constexpr double kBelievedGrowth = 1.4;

  // How pings leave, for an owner that counts them; empty: by the context.
  using Send = std::function<void(Context& context, const NodeId& to, Message message)>;
  // `handling_s_per_byte`: what both ends do with a byte besides, of single pings.
  explicit LinkProber(Send send = {}, Pings pings = Pings::kSingle, double handling_s_per_byte = 0)
      : send_(std::move(send)), pings_(pings), handling_s_per_byte_(handling_s_per_byte) {}

  void OnRequest(Context& context, const ProbeRequest& request);
  // The reading, once complete. `shown`: of the way to `from`, by its host.
  std::optional<LinkReading> OnPong(Context& context, const NodeId& from, const Pong& pong,
                                    const std::optional<LinkReading>& shown = {});
  // What the run's own traffic shows now of the way to somebody, where that is faster by a good
  // part than what was read: it may be a share of the line, so slower says nothing.
  std::optional<LinkReading> News(const std::optional<LinkReading>& shown);

 private:
  // Pings that leave together.
  struct Volley {
    Instant sent;
    bool is_padded = false;
    std::set<uint64_t> open;
    std::vector<Duration> answered;  // after so long, in order
  };

  struct Transfer {
    Volley volley;
    int64_t bytes = 0;
  };

  void SendVolley(Context& context);
  void SendPings(Context& context, const NodeId& target, int count, int64_t padding,
                 Volley* volley);
  void Begin(Context& context, const ProbeRequest& transfer);
  std::optional<LinkReading> OnTransferPong(Instant now, const NodeId& from, const Pong& pong);
  bool HasRoundTrip() const;
  Duration RoundTrip() const;
  double Rate() const;  // that the last volleys show
  void KeepSoonest();
  int64_t NextPadding() const;
  bool ReadsTrains() const { return pings_ == Pings::kTrains && !looks_; }
  bool Grew() const;  // the last volley was faster than the one before
  bool IsLate(Instant now) const;
  bool IsSettled(Instant now) const;
  double SettledRate() const;
  double OnLineSeconds(double bytes, double took_s) const;

  Send send_;
  Pings pings_;
  double handling_s_per_byte_;
  std::optional<ProbeRequest> request_;
  Instant began_;
  Volley volley_;
  int64_t padding_ = 0;            // of the last padded one,
  std::vector<Duration> soonest_;  // and of those as large: when each answer came at the soonest
  std::vector<Duration> empty_;    // how long each took, shortest first
  std::vector<double> rates_;      // of padded volleys, bytes/s
  int64_t padded_bytes_ = 0;       // of all of them
  bool looks_ = false;             // the host
  std::map<NodeId, Transfer> transfers_;  // under way, by target
  std::map<NodeId, LinkReading> read_;    // last, of each target
};

}  // namespace skerry
