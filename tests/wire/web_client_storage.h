// Object storage in memory, for programs that are told of it by their environment. Whether requests
// are rightly signed is web_client_test.cc's.
#pragma once

#include <httplib.h>
#include <stdlib.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace skerry {

// Objects below /bucket, by path; `refuses(request, response)` may answer first. All outlive the
// server.
template <typename Refuses>
void ServeObjects(httplib::Server& server, std::map<std::string, std::string>& objects,
                  std::mutex& mutex, Refuses refuses) {
  server.Get("/bucket/(.*)", [&objects, &mutex, refuses](const auto& request, auto& response) {
    if (refuses(request, response)) return;
    const std::lock_guard lock(mutex);
    const auto it = objects.find(request.path);
    if (it == objects.end()) {
      response.status = 404;
    } else {
      response.set_content(it->second, "application/octet-stream");
    }
  });
  server.Put("/bucket/(.*)", [&objects, &mutex, refuses](const auto& request, auto& response) {
    if (refuses(request, response)) return;
    const std::lock_guard lock(mutex);
    objects[request.path] = request.body;
  });
}

class ObjectStorage {
 public:
  ObjectStorage() {
    ServeObjects(server_, objects, mutex_, [](const auto&, auto&) { return false; });
    const int port = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
    setenv("AWS_ENDPOINT_URL", ("http://127.0.0.1:" + std::to_string(port)).c_str(), 1);
    setenv("AWS_ACCESS_KEY_ID", "key", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_REGION", "here", 1);
  }
  ~ObjectStorage() {
    server_.stop();
    thread_.join();
  }
  std::map<std::string, std::string> objects;  // by path; while nobody asks

 private:
  httplib::Server server_;
  std::thread thread_;
  std::mutex mutex_;
};

}  // namespace skerry
