#include "common/error_pages.h"

#include <algorithm>
#include <cctype>

namespace skerry {
namespace {

constexpr ErrorPage kPages[] = {
    {"SK-checkpoint-damaged", "a checkpoint cannot be used",
     "A file of the checkpoint is missing or is not what its digest says: the disk lost it, or "
     "it was copied in part.",
     "skerry-coordinator checkpoints DIR --verify lists those that are whole; name one of them "
     "with --checkpoint."},
    {"SK-checkpoint-fit", "the configuration does not fit the checkpoint",
     "A run that begins with a checkpoint keeps its [model]; [outer] inner_steps must divide the "
     "steps that the checkpoint holds, and [run] steps must be more than these.",
     "Correct run.toml as the message says, or leave --config out: then the old run's is taken."},
    {"SK-checkpoint-none", "the run has no checkpoint",
     "[checkpoint] every_rounds is 0, or the run has not come so far yet.",
     "Wait for the event 'checkpoint', or set every_rounds and begin again."},
    {"SK-config", "the configuration is not valid",
     "The file and line are in the message, with what is wanted there. Unknown keys, wrong types "
     "and numbers without the unit they need are errors, so that a slip does not go unnoticed.",
     "Correct that line; skerry-coordinator config check FILE shows what the whole file means."},
    {"SK-config-file", "a file that was named cannot be read",
     "It is not there, or this user may not read it.", "Check the path and its rights."},
    {"SK-dashboard-address", "the dashboard cannot listen there",
     "The address is not host:port, is taken by another program, or is not one of this machine.",
     "Choose another: --dashboard 127.0.0.1:7790, or --dashboard none."},
    {"SK-data-damaged", "training data is damaged",
     "A shard is not what the index says: its digest, its size or a token in it differs. A copy "
     "was cut off, or a disk changed it.",
     "Prepare the data again with skerry-coordinator data prepare. A node: remove shards/ in its "
     "home; it fetches them again."},
    {"SK-data-exists", "there is a data set in that directory, or half of one",
     "data prepare writes only where there is none. It goes on with half of one only if inputs "
     "and options are what they were.",
     "Choose another --out, or remove the old one yourself."},
    {"SK-data-model", "data and model do not fit",
     "The data has fewer windows than one, or a larger vocabulary than [model] vocab.",
     "Give more text, a shorter [model] context, or the vocabulary that the message names."},
    {"SK-data-other", "this coordinator has other training data than its run",
     "A coordinator that stands by must have the very data that the run was begun with.",
     "Copy data/ from the directory of the coordinator that served it first."},
    {"SK-data-text", "the text cannot be read",
     "It is not there, is a directory or a device, more than one was given where one is wanted, "
     "or it is no text but Parquet, a picture, an archive, UTF-16.",
     "Give text or JSON lines, plain, .gz or .zst; convert what is something else (iconv -f "
     "UTF-16 -t UTF-8), or leave it out."},
    {"SK-disk-full", "the disk is full",
     "The journal could not be written. Nothing is accepted that could not be journalled, so "
     "nothing is lost.",
     "Make room. A coordinator that serves goes on by itself; else start it again."},
    {"SK-disk-write", "a file cannot be written or created",
     "The directory is missing, belongs to another user, is read-only, or the disk is full; the "
     "message ends with what the system says.",
     "Give this user the right to write there, make room, or choose another directory (--home "
     "for a node)."},
    {"SK-explain-nothing", "there is nothing to explain yet",
     "The event log has no such step or round: the run has not come so far, or the number is "
     "wrong.",
     "Leave the number out: then the newest is explained."},
    {"SK-gpu-failed", "the GPU has failed, and there is nothing else to train on",
     "What the message says came from the driver: the GPU is off the bus, its memory is damaged, "
     "or a kernel went wrong. With join --devices all, or a list, a node goes on without it.",
     "dmesg and nvidia-smi say more; start the node again to try the GPU again."},
    {"SK-home-in-use", "another node lives in this home",
     "Two processes with one identity would be taken for one that lies. The message names the "
     "other.",
     "End it, or give this one a home of its own: skerry-node join TICKET --home DIR."},
    {"SK-journal-contradicts", "the journal contradicts itself",
     "audit found a sample, contribution or round that counts twice or not at all; the lines "
     "above name the records. That is a fault of the software or of the disk.",
     "Keep the journal and tell the developers; a run can be begun anew from a checkpoint."},
    {"SK-journal-damaged", "the journal is damaged",
     "A disk changed or lost what was written; each record carries a digest of all before it.",
     "Restore the file from a copy. If there is none: end the nodes, then skerry-coordinator "
     "mend DIR cuts it at the last whole record."},
    {"SK-journal-older", "the journal is older than what the nodes hold",
     "Nodes have gone on by plans or rounds that this journal does not know: the run's directory "
     "or database was restored from an older copy, or the journal was cut by mend. Going on by it "
     "would drop what the nodes have learnt since, so nothing was sent to them: they keep it and "
     "wait.",
     "Serve the newest copy that there is. If there is none: end the nodes, serve, and start them "
     "again; the run goes back to the newest checkpoint that this journal knows. One node alone "
     "that says so may lie: skerry-coordinator deny DIR NODE."},
    {"SK-journal-version", "the journal is of another version of Skerry",
     "A newer version of Skerry wrote records, or a plan, with something in them that this one "
     "does not know, or the file is of another format. Going on would drop it, so nothing is done; "
     "the journal is whole.",
     "Use the version of Skerry that served the run last, or a later one."},
    {"SK-key-file", "the key cannot be read",
     "The file is missing, not readable by this user, or not a Skerry key. It is this node's or "
     "coordinator's identity.",
     "Restore it from a copy. A node may move it away: it then begins with a new identity."},
    {"SK-key-rights", "others could read the key",
     "Whoever has the file is this node. It must belong to its user alone (mode 0600).",
     "chmod 600 FILE, as the message says; if others may have read it, move it away instead."},
    {"SK-limit-hours", "the hours are not understood",
     "Wanted is from-to as in 22-08 or 22:30-08:00, or always.", "skerry-node limit --hours 22-08"},
    {"SK-memory", "not enough memory is free",
     "Another program took memory between the plan and the start of the stage.",
     "Nothing: the node joins again and offers less. join --memory GIB bounds what it offers."},
    {"SK-metrics-address", "metrics cannot be answered there",
     "The address is not host:port, is taken by another program, or is not one of this machine.",
     "Choose another: --metrics 127.0.0.1:9465, or leave it out."},
    {"SK-model-write", "the model cannot be put together",
     "A stage gave another number of bytes than its layers have: versions of Skerry that do not "
     "fit, or a replica that is wrong.",
     "skerry-coordinator serve DIR tries again with another replica."},
    {"SK-node-away", "no node runs here",
     "What is asked for can only be answered by a running node of this home.",
     "skerry-node join TICKET; with --home DIR where it has a home of its own."},
    {"SK-node-needed", "the run cannot spare that node",
     "It is the last of its stage, and no checkpoint has been kept: without it the run would have "
     "to do without the stage, begin again, or end.",
     "Keep a checkpoint first (skerry-coordinator checkpoint DIR; run.toml needs [checkpoint] "
     "every_rounds above 0), wait until another node has the stage, or put it out with --anyway."},
    {"SK-node-out", "the run does not take this node",
     "Its operator denied it by name, or it was put out for what it did: results or digests that "
     "others could not confirm.",
     "Ask the operator: skerry-coordinator evidence DIR NODE shows what the journal holds "
     "against it, skerry-coordinator admit DIR NODE lets it in again."},
    {"SK-node-twice", "this node runs twice",
     "Two processes have joined with one key: the home of a node was copied, with a disk's image "
     "perhaps, or is used on two machines. The one that joined last goes on, this one ends.",
     "Where the copy is: remove node.key from its home (the directory of join --home) and join "
     "again; it becomes a node of its own."},
    {"SK-node-unlisted", "the run takes only nodes that its operator listed",
     "Its policy is 'listed'; a ticket alone does not do.",
     "Send the operator the name in the message; they run skerry-coordinator admit DIR NAME."},
    {"SK-order-unread", "a line of orders.jsonl is no order",
     "Something else than the commands of skerry-coordinator wrote there, or a disk changed it. "
     "The line is skipped; all others are obeyed.",
     "Give the order again by its command: skerry-coordinator pause DIR, admit DIR NODE and so "
     "on. The line may be taken out of the file when nobody serves the run."},
    {"SK-order-void", "the order changed nothing",
     "The run is not in a state in which it could be obeyed; the message says why: it is not "
     "paused, it keeps no checkpoints, it has not begun, or it is nearly over.",
     "skerry-coordinator status DIR shows where the run stands. Checkpoints are kept if run.toml "
     "has [checkpoint] every_rounds above 0."},
    {"SK-refused", "the coordinator refused this node",
     "It says why in the message; an evicted node is not let in again.",
     "Ask the operator of the run."},
    {"SK-run-changed", "run.toml was changed after the run began",
     "A run keeps the configuration that the first record of its journal was written under.",
     "Change it back, or make another run. With more steps, another rate or codec it may go on "
     "from "
     "the newest checkpoint of this one: skerry-coordinator init NEW --from DIR --config FILE."},
    {"SK-run-exists", "the directory holds a run already", "init makes a new directory only.",
     "Choose another; to go on with the run there: skerry-coordinator serve DIR."},
    {"SK-run-full", "the run takes no more nodes",
     "So many have joined as the coordinator can keep account of.",
     "Ask for another run's ticket."},
    {"SK-run-missing", "no run is in that directory", "There is no run.toml or no journal in it.",
     "Check the path, or make a run: skerry-coordinator init DIR --data TEXT."},
    {"SK-run-over", "the run is finished", "Its model is being collected, or was.",
     "Nothing; thank you. The operator has the model."},
    {"SK-run-served", "the run is served already",
     "One process serves a directory; the message names it.",
     "Use that one, or end it first. To stand by, see docs/OPERATING.md."},
    {"SK-run-unserved", "the run was never served",
     "What is asked for stands in files that serving writes.", "skerry-coordinator serve DIR"},
    {"SK-spill", "the directory for activations does not do",
     "It is not there, lies in memory (tmpfs), has too little room, or its disk failed while the "
     "run used it; the message says which.",
     "Give skerry-node join --spill another directory, on a disk with room, or less with "
     "--spill-space, or leave --spill out: then nothing is written."},
    {"SK-status-damaged", "status.json is not what serving writes",
     "The picture of the run that its coordinator writes each second was changed, or a disk lost "
     "it. The run itself stands in the journal.",
     "Remove DIR/status.json; skerry-coordinator serve DIR writes it again within a second."},
    {"SK-store-address", "the store is not understood",
     "Wanted is sqlite: or postgresql://user@host/database.", "Correct --store."},
    {"SK-store-away", "the run's database does not answer",
     "It is down, or not reached from here, or it does not let this user in; what it said stands "
     "in the message.",
     "psql with the same URL should come to the same. See to the server; a password belongs into "
     "~/.pgpass (HOST:PORT:DATABASE:USER:PASSWORD, mode 0600). A coordinator that serves goes on "
     "when the database is back."},
    {"SK-store-standby", "nobody can stand by for this run",
     "Its journal is in a file of its own, which another machine cannot see.",
     "Make the run with init --store postgresql://…"},
    {"SK-ticket-address", "nodes cannot reach the coordinator at that address",
     "A ticket names where to dial, as tcp://host:port; addresses like 0.0.0.0 or * name no "
     "machine.",
     "Give one that volunteers can dial: --advertise tcp://HOST:7700."},
    {"SK-ticket-expired", "the ticket expired",
     "Tickets live for a day unless the operator says otherwise. Or this machine's clock, which "
     "skerry-node doctor shows, is wrong.",
     "Ask the operator for a new one: skerry-coordinator ticket DIR --expires 7d."},
    {"SK-ticket-forged", "the ticket was not made by that coordinator",
     "Its signature does not fit the key it names: it was changed on its way, or made up.",
     "Get the ticket from the operator over a way you trust."},
    {"SK-ticket-lifetime", "the lifetime is not understood",
     "Wanted is a number with s, m, h or d.", "--expires 24h"},
    {"SK-ticket-mistyped", "the ticket is mistyped or cut off",
     "A ticket is one long word that begins with skerry1- and carries a checksum; mails and "
     "chats break it.",
     "Copy it again, whole and alone."},
    {"SK-ticket-other-run", "the ticket is for another run or coordinator",
     "A coordinator takes only tickets that it made for the run it serves.",
     "Ask the operator which ticket is for this run."},
    {"SK-ticket-revoked", "the ticket was revoked",
     "The operator took it back: it was passed on, or is not needed any more.",
     "Ask for another; the operator: skerry-coordinator ticket DIR."},
    {"SK-ticket-spent", "the ticket has no uses left",
     "A ticket admits as many nodes as its operator said (--uses); a node that comes back needs "
     "none.",
     "Ask for another; the operator: skerry-coordinator ticket DIR --uses 10."},
    {"SK-ticket-version", "the ticket is of another version",
     "Coordinator and node are of versions that do not fit.",
     "Update the older of the two; --version says what each is."},
    {"SK-web", "a file on the web or in object storage cannot be read or written",
     "The server is away, slow or refuses; it sent other bytes than were asked for; it leads "
     "elsewhere, which is not followed; or the address is none. The message names the address.",
     "Try the address with another program, curl for one. Of s3:// the environment has the keys: "
     "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for storage "
     "that is not Amazon's. A node goes on with the coordinator's copy."},
};

std::string Wrapped(const std::string& text, size_t indent) {
  constexpr size_t kWidth = 78;
  std::string out(indent, ' ');
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column > indent && column + 1 + (end - at) > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out + "\n";
}

}  // namespace

std::span<const ErrorPage> ErrorPages() {
  return kPages;
}

const ErrorPage* FindErrorPage(std::string_view code) {
  std::string wanted;
  for (const char c : code) {
    if (c != '[' && c != ']')
      wanted += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (wanted.starts_with("sk-")) wanted.erase(0, 3);
  for (const ErrorPage& page : kPages) {
    if (std::string_view(page.code).substr(3) == wanted) return &page;
  }
  return nullptr;
}

std::string CodeIn(std::string_view message) {
  const size_t at = message.find("[SK-");
  const size_t end = at == std::string_view::npos ? at : message.find(']', at);
  if (end == std::string_view::npos) return "";
  return std::string(message.substr(at + 1, end - at - 1));
}

std::string PageText(const ErrorPage& page) {
  return std::string(page.code) + ": " + page.title + "\n\nWhy\n" + Wrapped(page.cause, 2) +
         "\nWhat to do\n" + Wrapped(page.action, 2);
}

std::string PagesMarkdown() {
  std::string text =
      "# Errors\n\nEvery message that a user meets ends with a code in brackets. `skerry-node "
      "help CODE`, `skerry-coordinator help CODE` and\n`skerry-sim help CODE` show its page. "
      "Made from `common/error_pages.cc` by `skerry-coordinator help --pages`.\n";
  for (const ErrorPage& page : kPages) {
    text += std::string("\n## ") + page.code + "\n\n**" + page.title + ".** " + page.cause +
            "\n\n*What to do:* " + page.action + "\n";
  }
  return text;
}

}  // namespace skerry
