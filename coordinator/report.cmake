# The report of a run: events.jsonl folded into numbers, JSON and one self-contained page.
if(NOT TARGET skerry_report)
  skerry_library(report
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/chart.cc
      ${CMAKE_CURRENT_LIST_DIR}/page.cc
      ${CMAKE_CURRENT_LIST_DIR}/report.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_events.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_chart.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_tables.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_html.cc
      ${CMAKE_CURRENT_LIST_DIR}/report_rounds.cc
    DEPS skerry::common nlohmann_json::nlohmann_json)
  target_compile_definitions(skerry_report PRIVATE SKERRY_VERSION="${PROJECT_VERSION}")
endif()
