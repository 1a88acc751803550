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

class ObjectStorage {
 public:
  ObjectStorage() {
    server_.Get("/bucket/(.*)", [this](const auto& request, auto& response) {
      const std::lock_guard lock(mutex_);
      const auto it = objects.find(request.path);
      if (it == objects.end()) {
        response.status = 404;
      } else {
        response.set_content(it->second, "application/octet-stream");
      }
    });
    server_.Put("/bucket/(.*)", [this](const auto& request, auto&) {
      const std::lock_guard lock(mutex_);
      objects[request.path] = request.body;
    });
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
