#include "wire/transport/zap.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>
#include <zmq_addon.hpp>

#include "wire/transport/peer_address.h"

namespace skerry {
namespace {

// route, delimiter, version, request id, domain, peer address, routing id, mechanism, key
constexpr size_t kRequestParts = 9;

}  // namespace

std::string CurveKeyHex(const CurveKey& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t b : key) {
    hex += kDigits[b >> 4];
    hex += kDigits[b & 15];
  }
  return hex;
}

ZapHandler::ZapHandler(zmq::context_t& context, bool admit_any)
    : socket_(context, zmq::socket_type::router), admit_any_(admit_any) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

void ZapHandler::Allow(const CurveKey& key) {
  const std::string user_id = CurveKeyHex(key);
  allowed_.insert(user_id);
  const auto it = open_.find(user_id);
  if (it == open_.end()) return;
  Answer(it->second, true, user_id);
  open_.erase(it);
  std::erase(open_order_, user_id);
}

void ZapHandler::Take() {
  Parts request;
  while (zmq::recv_multipart(socket_, std::back_inserter(request), zmq::recv_flags::dontwait)) {
    taken_.push_back(std::move(request));
    request.clear();
  }
}

void ZapHandler::Serve(Instant now) {
  for (; !taken_.empty(); taken_.pop_front()) Decide(now, taken_.front());
}

void ZapHandler::Decide(Instant now, const Parts& request) {
  if (request.size() < 4) return;  // not libzmq's; there is nobody to answer
  const Question question{request[0].to_string(), request[3].to_string()};
  if (request.size() != kRequestParts || request[7].to_string() != "CURVE" ||
      request[8].size() != sizeof(CurveKey)) {
    ++refused_;
    return Answer(question, false, "");
  }
  CurveKey key;
  std::copy_n(request[8].data<uint8_t>(), key.size(), key.begin());
  const std::string user_id = CurveKeyHex(key);
  if (IsAllowed(user_id) ||
      (admit_any_ && budget_.Allows(now, AddressBlock(request[5].to_string()))))
    return Answer(question, true, user_id);
  ++refused_;
  if (admit_any_) return Answer(question, false, "");
  // The same key again: its earlier handshake has timed out.
  if (!open_.insert_or_assign(user_id, question).second) return;
  open_order_.push_back(user_id);
  if (open_order_.size() <= kOpenMax) return;
  Answer(open_.at(open_order_.front()), false, "");
  open_.erase(open_order_.front());
  open_order_.pop_front();
}

void ZapHandler::Answer(const Question& question, bool admit, const std::string& user_id) {
  for (const std::string& part :
       {question.route, std::string(), std::string("1.0"), question.id,
        std::string(admit ? "200" : "300"), std::string(admit ? "OK" : "unknown key"), user_id})
    socket_.send(zmq::buffer(part), zmq::send_flags::sndmore);
  socket_.send(zmq::message_t(), zmq::send_flags::none);
}

}  // namespace skerry
