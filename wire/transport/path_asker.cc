#include "wire/transport/path_asker.h"

#include <sodium.h>

#include <algorithm>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/instant.h"
#include "wire/identity.h"
#include "wire/transport/relay_message.h"
#include "wire/wakeup.h"

namespace skerry {
namespace {

constexpr Duration kFirstPatience = Duration::Seconds(4);
// Beside what the first answer took, which is some round trips: time for TCP to repeat what was
// lost three times, too little for it to try smaller packets.
constexpr Duration kPatience = Duration::Millis(1600);

struct Question {
  size_t socket = 0;  // of the asker's
  ReachNonce nonce;
  PathAnswer answer = PathAnswer::kNone;
};

class Asker {
 public:
  Asker(const NodeId& coordinator, std::string endpoint)
      : server_(*CurveKeyOf(coordinator)), endpoint_(std::move(endpoint)) {}

  // A connection of its own.
  size_t Dial() {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::ipv6, endpoint_.find('[') != std::string::npos);
    socket.set(zmq::sockopt::maxmsgsize, limits::kPartBytesMax);
    socket.set(zmq::sockopt::curve_serverkey, zmq::buffer(server_));
    socket.set(zmq::sockopt::curve_publickey, zmq::buffer(self_.curve_public()));
    socket.set(zmq::sockopt::curve_secretkey, zmq::buffer(self_.curve_secret()));
    socket.connect(endpoint_);
    sockets_.push_back(std::move(socket));
    return sockets_.size() - 1;
  }

  size_t Ask(size_t socket, size_t padding) {
    Question question{socket, {0, false, padding}};
    randombytes_buf(&question.nonce.nonce, sizeof question.nonce.nonce);
    sockets_[socket].send(zmq::buffer(EncodeRelay(question.nonce)), zmq::send_flags::dontwait);
    asked_.push_back(question);
    return asked_.size() - 1;
  }

  // Until all questions from this one on are answered, or so long.
  void Await(size_t from, Duration patience) {
    const Instant until = MonotonicNow() + patience;
    const auto open = [](const Question& one) { return one.answer == PathAnswer::kNone; };
    while (std::any_of(asked_.begin() + static_cast<std::ptrdiff_t>(from), asked_.end(), open)) {
      const Duration left = until - MonotonicNow();
      if (left <= Duration()) return;
      std::vector<zmq::pollitem_t> items;
      for (zmq::socket_t& socket : sockets_) items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
      zmq::poll(items, std::chrono::milliseconds(left.nanos() / 1'000'000 + 1));
      for (size_t i = 0; i < sockets_.size(); ++i) Take(i);
    }
  }

  PathAnswer AnswerTo(size_t question) const { return asked_[question].answer; }

 private:
  void Take(size_t socket) {
    zmq::message_t part;
    while (sockets_[socket].recv(part, zmq::recv_flags::dontwait)) {
      const auto message = DecodeRelay(std::span(part.data<uint8_t>(), part.size()));
      const auto* got = message ? std::get_if<ReachNonce>(&*message) : nullptr;
      if (got == nullptr || !got->is_answer) continue;
      for (Question& one : asked_) {
        if (one.socket != socket || one.nonce.nonce != got->nonce) continue;
        one.answer = got->padding == one.nonce.padding ? PathAnswer::kWhole : PathAnswer::kShort;
      }
    }
  }

  CurveKey server_;
  std::string endpoint_;
  const Identity self_ = Identity::Generate();
  zmq::context_t context_{1};
  std::vector<zmq::socket_t> sockets_;
  std::vector<Question> asked_;
};

PathAnswers Answers(Asker& asker, const PathPackets& packets) {
  PathAnswers answers;
  const Instant began = MonotonicNow();
  const size_t way = asker.Dial();
  const size_t first = asker.Ask(way, 0);
  asker.Await(first, kFirstPatience);
  answers.first = asker.AnswerTo(first);
  if (answers.first == PathAnswer::kNone) return answers;
  const Duration patience = kPatience + (MonotonicNow() - began);
  const size_t large = asker.Ask(way, PaddingOfSeveral(packets));
  asker.Await(large, patience);
  answers.large = asker.AnswerTo(large);
  answers.large_in_time = answers.large != PathAnswer::kNone;
  if (answers.large_in_time) return answers;
  std::vector<size_t> questions;
  for (const int size : SizesToAsk(packets))
    questions.push_back(asker.Ask(asker.Dial(), PaddingOfPacket(packets, size)));
  if (!questions.empty()) asker.Await(questions.front(), patience);
  for (const size_t question : questions) answers.sizes.push_back(asker.AnswerTo(question));
  answers.large = asker.AnswerTo(large);
  return answers;
}

}  // namespace

PathVerdict AskPath(const NodeId& coordinator, const std::string& endpoint,
                    const PathPackets& packets) {
  if (!CurveKeyOf(coordinator).ok()) return {};
  try {
    Asker asker(coordinator, endpoint);
    return Judge(packets, Answers(asker, packets));
  } catch (const zmq::error_t&) {
    return {};  // no socket to be had
  }
}

}  // namespace skerry
