#include "wire/codec/read_joining.h"

#include "wire/codec/id_words.h"
#include "wire/codec/limits.h"
#include "wire/codec/read_plan.h"

namespace skerry {
namespace {

Hello ReadHello(ReadChecks& checks, schema::Hello::Reader r) {
  Hello m;
  m.ticket = checks.Text(r.getTicket(), "ticket");
  m.endpoint = checks.Text(r.getEndpoint(), "endpoint");
  m.region = checks.Text(r.getRegion(), "region");
  m.software = checks.Text(r.getSoftware(), "software");
  const auto d = r.getDevice();
  m.device.name = checks.Text(d.getName(), "device name");
  m.device.numeric_profile = checks.Text(d.getNumericProfile(), "numeric profile");
  m.device.gflops = checks.NotNegative(checks.Finite(d.getGflops(), "gflops"), "gflops");
  m.device.memory_bytes = checks.NotNegative(d.getMemoryBytes(), "memory");
  m.device.bf16_gflops =
      checks.NotNegative(checks.Finite(d.getBf16Gflops(), "bf16 gflops"), "bf16 gflops");
  m.device.host_bytes = checks.NotNegative(d.getHostBytes(), "host memory");
  m.device.spill_bytes = checks.NotNegative(d.getSpillBytes(), "space on disk");
  m.device.spill_bytes_per_s =
      checks.NotNegative(checks.Finite(d.getSpillRate(), "rate of the disk"), "rate of the disk");
  m.device.spreads = d.getSpreads();
  m.device.network = checks.Text(d.getNetwork(), "network card");
  m.plan_version = checks.NotNegative(r.getPlanVersion(), "plan version");
  m.step = checks.NotNegative(r.getStep(), "step");
  m.base_version = checks.NotNegative(r.getBaseVersion(), "base version");
  const auto listens = r.getListens();
  m.listens.resize(checks.Count(listens, kListensMax, "listens"));
  for (unsigned i = 0; i < m.listens.size(); ++i)
    m.listens[i] = checks.Text(listens[i], "endpoint");
  m.relays = r.getRelays();
  m.process = r.getProcess();
  return m;
}

Reachability ReadReachability(ReadChecks& checks, schema::Reachability::Reader r) {
  Reachability m;
  m.node = ReadId<NodeId>(r.getNode());
  m.seen = checks.Text(r.getSeen(), "address");
  const auto tried = r.getTried();
  m.tried.resize(checks.Count(tried, kReachTriesMax, "tries"));
  for (unsigned i = 0; i < m.tried.size(); ++i)
    m.tried[i] = {checks.Text(tried[i].getEndpoint(), "endpoint"), tried[i].getAnswered()};
  return m;
}

Peers ReadPeers(ReadChecks& checks, schema::Peers::Reader r) {
  const auto list = r.getPeers();
  Peers m;
  m.complete = r.getComplete();
  m.parts_left = checks.NotNegative(r.getPartsLeft(), "parts left");
  m.partial = r.getPartial();
  m.gone = ReadIds(checks, r.getGone(), limits::kPeersMax, "peers gone");
  m.peers.resize(checks.Count(list, limits::kPeersMax, "peers"));
  for (unsigned i = 0; i < m.peers.size(); ++i) {
    m.peers[i] = {ReadId<NodeId>(list[i].getId()), checks.Text(list[i].getEndpoint(), "endpoint"),
                  checks.Text(list[i].getRegion(), "region"), list[i].getRelays()};
  }
  return m;
}

}  // namespace

Message ReadJoining(ReadChecks& checks, schema::Envelope::Reader e) {
  if (e.isHello()) return ReadHello(checks, e.getHello());
  if (e.isPeers()) return ReadPeers(checks, e.getPeers());
  if (e.isRefused()) {
    return Refused{checks.Text(e.getRefused().getReason(), "reason"), e.getRefused().getWaits()};
  }
  if (e.isAcquaint())
    return Acquaint{ReadIds(checks, e.getAcquaint().getNodes(), kAcquaintMax, "nodes sought")};
  return ReadReachability(checks, e.getReachability());
}

}  // namespace skerry
