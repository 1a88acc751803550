// What Skerry's HTML pages share: one file without fonts or network, light and dark by the
// reader's system, and without scripts but for zooming (sim/run_report.h), readable on a phone.
//
// Colours are CSS variables of the page, so that one drawing serves light and dark:
// --page --card --text --muted --edge --train --valid --ref --bad, and --heat (three numbers, for
// rgb()). Charts are built with coordinator/chart.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skerry {

// A whole document. `title` is plain text; `body` is markup; `style` is CSS besides the common one.
std::string HtmlPage(const std::string& title, const std::string& body,
                     const std::string& style = "");

// A card with a heading; empty when `body` is. `title` and `note` are markup.
std::string Section(const std::string& title, const std::string& note, const std::string& body);

// What may be wider than the page: it scrolls by itself, with the keyboard too. `label` is plain
// text.
std::string Scrolled(const std::string& label, const std::string& body);

// One figure of a page: put several into <div class="tiles">. All are markup.
std::string Tile(const std::string& label, const std::string& value, const std::string& note);

// & < > " ' as character references: safe as text and inside a quoted attribute.
std::string EscapeHtml(std::string_view text);

// "2.9 million", "41.6 MB", "3 min 42 s".
std::string HumanCount(int64_t count);
std::string HumanBytes(double bytes);
std::string HumanSeconds(double seconds);

}  // namespace skerry
