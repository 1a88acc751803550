// What every error that a user meets means: one page for each code.
//
// A message that a user may see ends with its code in brackets, as in "the ticket expired at …; ask
// the operator for a new one [SK-ticket-expired]". The code is part of the status' text, so it
// travels with it over the wire, into logs and events. `help CODE` of every program shows the page;
// docs/ERRORS.md is all of them. A test holds code, table and document together.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace skerry {

struct ErrorPage {
  const char* code;   // "SK-ticket-expired"
  const char* title;  // what is wrong, in a few words
  const char* cause;  // what was wanted and what came, and how that happens
  const char* action;
};

// Ordered by code.
std::span<const ErrorPage> ErrorPages();

// By "SK-ticket-expired", "ticket-expired" or "[SK-ticket-expired]"; null: there is none.
const ErrorPage* FindErrorPage(std::string_view code);

// The first code in a message; "" when it has none.
std::string CodeIn(std::string_view message);

// For a terminal, 80 columns wide.
std::string PageText(const ErrorPage& page);
// docs/ERRORS.md.
std::string PagesMarkdown();

}  // namespace skerry
