// tidy ROOT: checks every source and text file below ROOT. Exit 0 clean, 1 findings, 2 cannot read.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/tidy/rules.h"

namespace skerry::tidy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSkippedFolders[] = {"build", ".git", ".cache", "demo-out"};
constexpr std::string_view kSuffixes[] = {".h",  ".cc",   ".cu",   ".capnp", ".cmake", ".md",
                                          ".sh", ".toml", ".json", ".py",    ".txt"};

bool IsChecked(const fs::path& path) {
  const std::string name = path.filename().string();
  const bool known = std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                                 [&](std::string_view suffix) { return name.ends_with(suffix); });
  return known || name == "dev" || path.parent_path().filename() == ".ci";
}

bool IsSkipped(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_directory() && std::find(std::begin(kSkippedFolders), std::end(kSkippedFolders),
                                           name) != std::end(kSkippedFolders);
}

std::vector<fs::path> FilesBelow(const fs::path& root) {
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    if (IsSkipped(*it)) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && IsChecked(it->path())) {
      files.push_back(it->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

int Run(const fs::path& root) {
  size_t checked = 0, found = 0;
  ClassNames names;
  for (const fs::path& path : FilesBelow(root)) {
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) {
      std::fprintf(stderr, "tidy: cannot read %s\n", path.c_str());
      return 2;
    }
    const std::string relative = path.lexically_relative(root).generic_string();
    const Source source = ParseSource(relative, text);
    Findings findings = CheckSource(source);
    names.Check(source, findings);
    for (const Finding& finding : findings) {
      std::printf("%s:%d: %s: %s\n", finding.file.c_str(), finding.line, finding.rule.c_str(),
                  finding.message.c_str());
      ++found;
    }
    ++checked;
  }
  std::printf("tidy: %zu files, %zu findings\n", checked, found);
  return found == 0 ? 0 : 1;
}

}  // namespace
}  // namespace skerry::tidy

int main(int argc, char** argv) {
  const std::filesystem::path root = argc > 1 ? argv[1] : ".";
  if (argc > 2 || !std::filesystem::is_directory(root)) {
    std::fprintf(stderr, "usage: tidy [ROOT]\n");
    return 2;
  }
  return skerry::tidy::Run(root);
}
