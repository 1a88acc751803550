#include "wire/transport/zap.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>
#include <zmq_addon.hpp>

namespace skerry {
namespace {

// version, request id, domain, peer address, routing id, mechanism, key
constexpr size_t kRequestParts = 7;

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
    : socket_(context, zmq::socket_type::rep), admit_any_(admit_any) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

void ZapHandler::Serve() {
  while (true) {
    std::vector<zmq::message_t> request;
    if (!zmq::recv_multipart(socket_, std::back_inserter(request), zmq::recv_flags::dontwait))
      return;
    // 300, not 400: a peer that dials before we were told of it must try again, and libzmq's client
    // gives up for good after 400.
    std::string status = "300";
    std::string user;
    if (request.size() == kRequestParts && request[5].to_string() == "CURVE" &&
        request[6].size() == sizeof(CurveKey)) {
      CurveKey key;
      std::copy_n(request[6].data<uint8_t>(), key.size(), key.begin());
      user = CurveKeyHex(key);
      if (admit_any_ || IsAllowed(user)) status = "200";
    }
    if (status != "200") ++refused_;
    const std::string id = request.size() > 1 ? request[1].to_string() : "";
    const std::string text = status == "200" ? "OK" : "unknown key";
    for (const std::string& part : {std::string("1.0"), id, status, text, user})
      socket_.send(zmq::buffer(part), zmq::send_flags::sndmore);
    socket_.send(zmq::message_t(), zmq::send_flags::none);
  }
}

}  // namespace skerry
