#include "bench/crowd_hellos.h"

#include <chrono>
#include <iterator>
#include <vector>
#include <zmq.hpp>
#include <zmq_addon.hpp>

#include "common/check.h"
#include "wire/codec/codec.h"

namespace skerry::siege {

int StormOfHellos(const std::string& endpoint, const Ticket& run, const std::string& ticket,
                  int count, int times) {
  constexpr int kSocketsMax = 4096;
  constexpr int kWaitMs = 10'000;
  zmq::context_t context(1);
  context.set(zmq::ctxopt::max_sockets, kSocketsMax);
  const CurveKey server = *CurveKeyOf(run.coordinator);
  std::vector<zmq::socket_t> sockets;
  std::vector<zmq::pollitem_t> items;
  for (int i = 0; i < count; ++i) {
    const Identity who = Identity::Generate();
    zmq::socket_t& socket = sockets.emplace_back(context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::curve_serverkey, zmq::buffer(server.data(), server.size()));
    socket.set(zmq::sockopt::curve_publickey,
               zmq::buffer(who.curve_public().data(), who.curve_public().size()));
    socket.set(zmq::sockopt::curve_secretkey,
               zmq::buffer(who.curve_secret().data(), who.curve_secret().size()));
    socket.connect(endpoint);
    Hello hello;
    hello.ticket = ticket;
    FrameHeader header;
    header.run = run.run;
    header.sender_incarnation = 1 + static_cast<uint64_t>(i);
    for (int time = 1; time <= times; ++time) {
      header.sequence = static_cast<uint64_t>(time);
      const auto frame = Encode({header, Share(hello)}, who.id(), run.coordinator);
      SKERRY_CHECK(frame.ok(), "a Hello");
      socket.send(zmq::buffer(frame->envelope), zmq::send_flags::dontwait);
    }
    items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
  }
  std::vector<bool> answered(sockets.size());
  int answers = 0;
  // What nobody acknowledges is said again for ever, so silence alone would not end this.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(6 * kWaitMs);
  while (answers < count && std::chrono::steady_clock::now() < until &&
         zmq::poll(items, std::chrono::milliseconds(kWaitMs)) > 0) {
    for (size_t i = 0; i < sockets.size(); ++i) {
      if ((items[i].revents & ZMQ_POLLIN) == 0) continue;
      std::vector<zmq::message_t> parts;
      if (!zmq::recv_multipart(sockets[i], std::back_inserter(parts), zmq::recv_flags::dontwait))
        continue;
      if (!answered[i]) ++answers;
      answered[i] = true;
    }
  }
  return answers;
}

}  // namespace skerry::siege
